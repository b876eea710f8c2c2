"""One training step by tape, compiled program, PyTorch eager and torch.compile, as ratios.

    python benchmarks/training_step.py [small] [large] [--threads 2]

A step computes the loss and all gradients. Rounds are interleaved, so that other load on the
machine affects all alike. A figure is the median over rounds of the time relative to PyTorch eager
(below 1: faster). By default `large` is left out if only the specification runs convolutions, since
a step would take minutes.
"""

import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as tf

import specgrad as sg
from specgrad import dispatch

SIZES = {
    "small": {"batch": 64, "image": (1, 8, 8), "channels": (8, 16)},
    "large": {"batch": 64, "image": (3, 32, 32), "channels": (64, 128)},
}
BETA = 4.0


def parameters(image, channels):
    random = np.random.default_rng(0)
    features = channels[1] * (image[1] // 4) * (image[2] // 4)
    shapes = [(channels[0], image[0], 3, 3), (channels[1], channels[0], 3, 3), (10, features)]
    made = []
    for shape in shapes:
        made.append((random.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32))
        made.append(np.zeros(shape[0], np.float32))
    return made


def loss(p, x, labels):
    h = sg.max_pool(sg.relu(sg.conv(x, p[0], p[1], padding=1)), (2, 2))
    h = sg.smooth_max_pool(sg.relu(sg.conv(h, p[2], p[3], padding=1)), (2, 2), beta=BETA)
    return sg.cross_entropy(sg.linear(sg.reshape(h, (x.shape[0], -1)), p[4], p[5]), labels)


def torch_loss(p, x, labels):
    h = tf.max_pool2d(tf.relu(tf.conv2d(x, p[0], p[1], padding=1)), 2)
    h = tf.relu(tf.conv2d(h, p[2], p[3], padding=1))
    n, c, height, width = h.shape
    windows = h.reshape(n, c, height // 2, 2, width // 2, 2)
    h = torch.logsumexp(BETA * windows, (3, 5)) / BETA
    return tf.cross_entropy(tf.linear(h.reshape(n, -1), p[4], p[5]), labels)


def steps(size):
    """The timed functions by name; each returns the loss and the gradients."""
    random = np.random.default_rng(1)
    x = random.normal(size=(size["batch"], *size["image"])).astype(np.float32)
    labels = random.integers(0, 10, size["batch"])
    p = parameters(size["image"], size["channels"])

    graph = sg.Graph()
    inputs = [graph.input(f"p{i}", a.shape) for i, a in enumerate(p)]
    images = graph.input("images", x.shape, differentiable=False)
    truth = graph.input("labels", labels.shape, differentiable=False)
    program = graph.output(loss(inputs, images, truth)).compile(np.float32)

    def tape():
        recorded = sg.Tape()
        leaves = [recorded.leaf(a) for a in p]
        value = loss(leaves, x, labels)
        found = recorded.backward(value)
        return value.value, [found[leaf] for leaf in leaves]

    tensors = [torch.tensor(a, requires_grad=True) for a in p]
    tx, tlabels = torch.tensor(x), torch.tensor(labels)
    fast = torch.compile(torch_loss)

    def with_torch(function):
        def step():
            value = function(tensors, tx, tlabels)
            return value.detach().numpy(), [g.numpy() for g in torch.autograd.grad(value, tensors)]

        return step

    named = {
        "PyTorch eager": with_torch(torch_loss),
        "torch.compile": with_torch(fast),
        "tape": tape,
        "program": lambda: program.value_and_grad(p, x, labels),
    }
    return named, program


def measure(name, size, seconds):
    named, program = steps(size)
    results = {}
    for who, step in list(named.items()):
        try:
            results[who] = step()
            step()
        except Exception as error:  # torch.compile needs a compiler
            print(f"{name}: {who} does not run here: {type(error).__name__}")
            del named[who]
    value, gradients = results["PyTorch eager"]
    for who, (other, found) in results.items():
        assert np.allclose(other, value, rtol=1e-4), who
        for a, b in zip(found, gradients, strict=True):
            assert np.allclose(a, b, rtol=1e-3, atol=1e-5), who
    times = {who: [] for who in named}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times["program"]) < 5:
        for who, step in named.items():
            began = time.perf_counter()
            step()
            times[who].append(time.perf_counter() - began)
    eager = times["PyTorch eager"]
    print(f"{name}: PyTorch eager {1e3 * statistics.median(eager):.2f} ms")
    for who, taken in times.items():
        ratio = statistics.median(t / e for t, e in zip(taken, eager, strict=True))
        print(f"  {who:14} {ratio:8.2f} × eager")
    print(f"  program's memory: {program.gradient.plan}")


def has_convolutions():
    operands = (np.zeros((1, 1, 3, 3), np.float32), np.zeros((1, 1, 3, 3), np.float32))
    return dispatch.choose(sg.Conv((3, 3)), operands) is not dispatch.load("reference")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", metavar="size", help="small, large or both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    sg.set_num_threads(chosen.threads)
    for name in chosen.sizes or (SIZES if has_convolutions() else ["small"]):
        measure(name, SIZES[name], chosen.seconds)


if __name__ == "__main__":
    main()
