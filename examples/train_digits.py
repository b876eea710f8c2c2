"""Train a small CNN on scikit-learn's handwritten digits, once on the tape and once as a compiled
program, with one and the same curve.

    python examples/train_digits.py            # trains both ways, prints the accuracy, writes
                                               digits.png

The network: conv, relu, max_pool, conv, relu, smooth_max_pool, linear; 8×8 images, some 2 thousand
parameters.
"""

import argparse
import time

import matplotlib
import numpy as np
from rich.progress import Progress
from sklearn.datasets import load_digits

import specgrad as sg

BATCH = 64


def parameters(random):
    def weight(*shape):
        return (random.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    zeros = [np.zeros(n, np.float32) for n in (8, 16, 10)]
    return {
        "conv1": [weight(8, 1, 3, 3), zeros[0]],
        "conv2": [weight(16, 8, 3, 3), zeros[1]],
        "linear": [weight(10, 64), zeros[2]],
    }


def logits(p, images):
    h = sg.max_pool(sg.relu(sg.conv(images, *p["conv1"], padding=1)), (2, 2))
    h = sg.smooth_max_pool(sg.relu(sg.conv(h, *p["conv2"], padding=1)), (2, 2), beta=4.0)
    return sg.linear(sg.reshape(h, (images.shape[0], -1)), *p["linear"])


def loss(p, images, labels):
    return sg.cross_entropy(logits(p, images), labels)


def leaves(p):
    return [array for layer in p.values() for array in layer]


class Adam:
    """Adam, in place."""

    def __init__(self, arrays, rate=1e-2):
        self.arrays, self.rate, self.steps = arrays, rate, 0
        self.first, self.second = ([np.zeros_like(a) for a in arrays] for _ in range(2))

    def step(self, gradients):
        self.steps += 1
        rate = np.float32(self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps))
        for a, g, m, v in zip(self.arrays, gradients, self.first, self.second, strict=True):
            m += np.float32(0.1) * (g - m)
            v += np.float32(0.001) * (g * g - v)
            a -= rate * m / (np.sqrt(v) + np.float32(1e-8))


def by_tape(p, images, labels):
    tape = sg.Tape()
    vars = {name: [tape.leaf(array) for array in layer] for name, layer in p.items()}
    value = loss(vars, images, labels)
    found = tape.backward(value)
    return value.value, [found[var] for var in leaves(vars)]


def compiled(p):
    graph = sg.Graph()
    inputs = {
        name: [graph.input(f"{name}.{part}", a.shape) for part, a in zip(("weight", "bias"), layer, strict=True)]
        for name, layer in p.items()
    }
    images = graph.input("images", (BATCH, 1, 8, 8), differentiable=False)
    labels = graph.input("labels", (BATCH,), differentiable=False)
    return graph.output(loss(inputs, images, labels)).compile(np.float32)


def train(name, step, data, epochs, progress):
    """The parameters and the loss of every step."""
    images, labels = data
    random = np.random.default_rng(1)
    p = parameters(random)
    optimizer, curve = Adam(leaves(p)), []
    task = progress.add_task(name, total=epochs * (len(images) // BATCH))
    for _ in range(epochs):
        order = random.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            value, gradients = step(p, images[chosen], labels[chosen])
            optimizer.step(gradients)
            curve.append(float(value))
            progress.update(task, advance=1, description=f"{name}: loss {curve[-1]:.3f}")
    return p, curve


def plot(path, curves, images, predicted, labels):
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axis = left.subplots()
    for (name, curve), style in zip(curves.items(), ("-", ":"), strict=True):
        axis.plot(curve, style, label=name)
    axis.set(xlabel="step", ylabel="cross entropy", yscale="log")
    axis.legend()
    for place, cell in enumerate(right.subplots(3, 8).flat):
        cell.imshow(images[place, 0], cmap="gray_r")
        cell.set_title(str(predicted[place]), color="black" if predicted[place] == labels[place] else "red")
        cell.axis("off")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--plot", default="digits.png")
    chosen = parser.parse_args()
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order], digits.target[order]
    train_set, (held_out, truth) = (images[:1437], labels[:1437]), (images[1437:], labels[1437:])
    program = compiled(parameters(np.random.default_rng(1)))
    curves, results = {}, {}
    with Progress() as progress:
        for name, step in (("tape", by_tape), ("program", program.value_and_grad)):
            began = time.perf_counter()
            results[name], curves[name] = train(name, step, train_set, chosen.epochs, progress)
            progress.console.print(f"{name}: {time.perf_counter() - began:.1f} s, last loss {curves[name][-1]:.4f}")
    predicted = logits(results["program"], held_out).argmax(1)
    accuracy = (predicted == truth).mean()
    same = np.allclose(curves["tape"], curves["program"], rtol=1e-4, atol=1e-5)
    print(f"held-out accuracy {accuracy:.1%}; the two curves are {'the same' if same else 'DIFFERENT'}")
    print(f"memory of a gradient: {program.gradient.plan}")
    plot(chosen.plot, curves, held_out, predicted, truth)
    print(f"plot: {chosen.plot}")
    return 0 if same and accuracy >= 0.97 else 1


if __name__ == "__main__":
    raise SystemExit(main())
