"""Random networks of all operators, as plain data that both specgrad and PyTorch run."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as tf
from hypothesis import strategies as st

import specgrad as sg


@dataclass
class Network:
    """Layers (name, indices of values read, indices of parameters read, options), and the shapes of
    input and parameters."""

    shape: tuple
    layers: list = field(default_factory=list)
    parameters: list = field(default_factory=list)
    labels: tuple = ()

    def run(self, library, x, *parameters):
        values = [x]
        for name, reads, weights, options in self.layers:
            operands = [values[i] for i in reads] + [parameters[i] for i in weights]
            if name == "cross_entropy":
                operands.append(library.labels(self.labels))
            values.append(getattr(library, name)(*operands, **options))
        return values[-1]

    def __call__(self, x, *parameters):
        return self.run(Specgrad, x, *parameters)

    @property
    def sizes(self):
        return [self.shape, *self.parameters]

    def fill(self, element, seed=0):
        """Arrays for input and parameters: element(n) of small integers n."""
        random = np.random.default_rng(seed)
        made = []
        for shape in self.sizes:
            cells = [element(int(n)) for n in random.integers(-40, 41, math.prod(shape))]
            array = np.empty(len(cells), object)
            array[:] = cells
            array = array.reshape(shape)
            made.append(array.astype(float) if cells and isinstance(cells[0], float) else array)
        return made


class Specgrad:
    labels = staticmethod(np.array)

    def __getattr__(self, name):
        return getattr(sg, name)


Specgrad = Specgrad()


class Torch:
    """The same functions for torch tensors."""

    labels = staticmethod(torch.tensor)
    relu, add, sub, mul, detach = map(staticmethod, (torch.relu, torch.add, torch.sub, torch.mul, torch.detach))
    linear, cross_entropy, mse_loss = map(staticmethod, (tf.linear, tf.cross_entropy, tf.mse_loss))

    def conv(self, x, w, b=None, **o):
        return tf.conv2d(x, w, b, **o)

    def conv_transpose(self, x, w, b=None, **o):
        return tf.conv_transpose2d(x, w, b, **o)

    def max_pool(self, x, kernel_size, stride, padding):
        return tf.max_pool2d(x, kernel_size, stride, padding)

    def avg_pool(self, x, kernel_size, stride, padding):
        return tf.avg_pool2d(x, kernel_size, stride, padding)

    def adaptive_max_pool(self, x, output_size):
        return tf.adaptive_max_pool2d(x, output_size)

    def adaptive_avg_pool(self, x, output_size):
        return tf.adaptive_avg_pool2d(x, output_size)

    def global_avg_pool(self, x, rank):
        return x.mean((-2, -1), keepdim=True)

    def global_max_pool(self, x, rank, ties):
        return x.amax((-2, -1), keepdim=True)

    def smooth_max_pool(self, x, kernel_size, beta, stride, padding):
        n, c, h, w = x.shape
        windows = tf.unfold(x.reshape(n * c, 1, h, w), kernel_size, stride=stride, padding=padding)
        size = [(a + 2 * padding - k) // stride + 1 for a, k in zip((h, w), kernel_size, strict=True)]
        return (torch.logsumexp(beta * windows, 1) / beta).reshape(n, c, *size)

    def scale(self, x, factor):
        return x * float(factor)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def sum(self, x, axis=None):
        return x.sum() if axis is None else x.sum(axis)

    def mean(self, x, axis=None):
        return x.mean() if axis is None else x.mean(axis)

    def log_softmax(self, x):
        return torch.log_softmax(x, -1)


Torch = Torch()

EXACT = ["conv", "conv", "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "global_avg_pool",
         "global_max_pool", "conv_transpose", "relu", "relu", "add", "sub", "mul", "residual", "scale",
         "detached"]  # fmt: skip


@st.composite
def networks(draw, exact):
    """A network with a few layers on images, then linear layers and a loss: a function with one
    output cell."""
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    net = Network((batch, channels, draw(st.integers(3, 5)), draw(st.integers(3, 5))))
    graph = sg.Graph()  # infers shapes, without computing
    values, weighed = [graph.input("x", net.shape)], []
    ties = "first" if exact else "split"  # Dual numbers give the slope to the first of tied cells, amax splits it

    def parameter(*shape):
        net.parameters.append(shape)
        weighed.append(graph.input(f"parameter {len(weighed)}", shape))
        return len(weighed) - 1

    def layer(name, reads, weights=(), **options):
        net.layers.append((name, tuple(reads), tuple(weights), options))
        labels = [np.array(net.labels)] if name == "cross_entropy" else []
        operands = [*(values[i] for i in reads), *(weighed[i] for i in weights), *labels]
        values.append(getattr(sg, name)(*operands, **options))
        return len(values) - 1

    def small_window():
        kernel = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
        return {"stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, min(kernel) // 2))}, kernel

    at = 0
    for name in draw(
        st.lists(st.sampled_from(EXACT if exact else [*EXACT, "smooth_max_pool"]), min_size=1, max_size=5)
    ):
        shape, known = values[at].shape, len(values)
        if name in ("conv", "conv_transpose"):
            groups = draw(st.sampled_from([1, shape[1]]))
            kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
            out = draw(st.integers(1, 2)) * groups
            transposed = name == "conv_transpose"
            weight = (shape[1], out // groups, *kernel) if transposed else (out, shape[1] // groups, *kernel)
            padding = 0 if transposed else 1
            weights = [parameter(*weight)] + ([parameter(out)] if draw(st.booleans()) else [])
            at = layer(name, [at], weights, stride=draw(st.integers(1, 2)), padding=padding, groups=groups)
        elif name in ("max_pool", "avg_pool", "smooth_max_pool"):
            options, kernel = small_window()
            if min(n + 2 * options["padding"] - k for n, k in zip(shape[2:], kernel, strict=True)) < 0:
                continue
            first = {"kernel_size": kernel, **options}
            net_options = {
                **({"beta": draw(st.sampled_from([1.5, -0.5]))} if name == "smooth_max_pool" else {}),
                **first,
            }
            at = layer(name, [at], **net_options)
        elif name.startswith("adaptive"):
            at = layer(name, [at], output_size=(draw(st.integers(1, 3)), draw(st.integers(1, 3))))
        elif name.startswith("global"):
            at = layer(name, [at], rank=2, **({"ties": ties} if "max" in name else {}))
        elif name in ("add", "sub", "mul"):
            at = layer(name, [at], [parameter(*draw(st.sampled_from([shape, shape[-1:], (shape[1], 1, 1), ()])))])
        elif name == "residual":
            others = [i for i in range(known) if i != at and values[i].shape == shape] or [at]
            at = layer(draw(st.sampled_from(["add", "sub", "mul"])), [at, draw(st.sampled_from(others))])
        elif name == "scale":
            at = layer("scale", [at], factor=draw(st.sampled_from([2, -1, 0.5, Fraction(1, 4)])))
        elif name == "detached":
            at = layer("add", [at, layer("detach", [at])])
        else:
            at = layer(name, [at])
    at = layer("reshape", [at], shape=(batch, -1))
    classes = draw(st.integers(2, 3))
    weights = [parameter(classes, values[at].shape[1])] + ([parameter(classes)] if draw(st.booleans()) else [])
    at = layer("linear", [at], weights)
    end = draw(st.sampled_from(["sum", "mean", "mse_loss"] + ([] if exact else ["cross_entropy", "log_softmax"])))
    if end == "cross_entropy":
        net.labels = tuple(draw(st.integers(0, classes - 1)) for _ in range(batch))
        layer(end, [at])
    elif end == "mse_loss":
        layer(end, [at], [parameter(batch, classes)])
    else:
        at = layer(end, [at]) if end == "log_softmax" else at
        square = layer("mul", [at, at])
        layer("mean" if end == "mean" else "sum", [layer("sum", [square], axis=-1)])
    return net
