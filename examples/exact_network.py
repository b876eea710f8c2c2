"""An exported digits classifier in exact rationals: where float32 changes a class, and a margin
that is proved.

    python examples/exact_network.py [model.onnx]   # prints what it finds, writes exact_network.png
                                                    and certificate.json

Without a model, torch trains a small one and exports it. It is read from ONNX, run over Fractions
on a line between two images, and compared with its own float32 on the floats around the place where
the class changes. Then its margins around an image are certified, and the certificate is checked.
"""

import argparse
import io
import warnings
from fractions import Fraction
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import specgrad as sg
import specgrad.onnx

EPSILON = 0.02


def exported(images, labels):
    """A small convolutional network, as torch's exporter writes it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    pool = [nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(96, 10)]
    network = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), *pool)
    x, y = torch.from_numpy(images[200:]), torch.from_numpy(labels[200:])
    rate = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(8):
        for part in torch.randperm(len(x)).split(50):
            rate.zero_grad()
            nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            rate.step()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own code
        torch.onnx.export(network, (x[:1],), file, dynamo=False)
    return file.getvalue()


def exactly(x):
    """An array of floats as Fractions."""
    made = np.empty(x.size, object)
    made[:] = [Fraction(number) for number in x.reshape(-1).tolist()]
    return made.reshape(x.shape)


def between(one, other, share):
    """A float32 image on the line between two."""
    return (one + np.float32(share) * (other - one)).astype(np.float32)


def changed_classes(graph, one, other, steps=40):
    """Images on both sides of the class boundary on a line, as (share, exact logits, float32
    logits)."""
    low, high, first = 0.0, 1.0, graph.forward(one).argmax()
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if graph.forward(between(one, other, middle)).argmax() == first else (low, middle)
    found = []
    share = np.float32(low)
    for _ in range(steps // 2):
        share = np.nextafter(share, np.float32(0))
    for _ in range(steps):
        x = between(one, other, share)
        exact, near = graph.forward(exactly(x)).reshape(-1), graph.forward(x).reshape(-1)
        found.append((float(share), exact, near))
        share = np.nextafter(share, np.float32(1))
    return found


def draw(points, path):
    """The margin of the two best classes along the line, exact and in float32."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    top = np.argsort([float(v) for v in points[0][1]])[-2:]
    shares = np.arange(len(points)) - len(points) // 2
    figure, axes = plt.subplots(figsize=(7, 3.4))
    for name, place, style in (("exact rationals", 1, "-"), ("float32", 2, ".")):
        axes.plot(shares, [float(p[place][top[1]] - p[place][top[0]]) for p in points], style, label=name)
    wrong = [s for s, p in zip(shares, points, strict=True) if np.argmax(p[1]) != np.argmax(p[2])]
    for place in wrong:
        axes.axvspan(place - 0.5, place + 0.5, color="tab:red", alpha=0.2, linewidth=0)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="float32 images around the class boundary", ylabel=f"logit {top[1]} - logit {top[0]}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main(model=None):
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    graph = specgrad.onnx.load(exported(images, labels) if model is None else model)
    print(graph)
    found, wrong = [], []
    for other in images[1:20, None]:
        if not wrong and graph.forward(images[:1]).argmax() != graph.forward(other).argmax():
            found = changed_classes(graph, images[:1], other)
            wrong = [p for p in found if np.argmax(p[1]) != np.argmax(p[2])]
    print(f"float32 answers another class than the exact network on {len(wrong)} of {len(found)} images at a boundary")
    if wrong:
        share, exact, near = wrong[0]
        a, b = (int(np.argmax(logits)) for logits in (exact, near))
        print(f"  at {share!r} of the line: exactly {a}, ahead of {b} by {float(exact[a] - exact[b]):.3g}")
        print(f"  in float32 {b}, ahead of {a} by {float(near[b] - near[a]):.3g}")
    draw(found, "exact_network.png")
    label = int(labels[0])
    rows = np.delete(np.eye(10)[label] - np.eye(10), label, 0)
    box = images[:1].astype(float) - EPSILON, images[:1].astype(float) + EPSILON
    certificate = sg.certify(graph, box, rows, covers="float32")
    print(f"all images within {EPSILON} of the first are a {label}, in float32 too: {certificate.status}")
    if certificate.status != "unknown":
        certificate.check()
        certificate.save("certificate.json")
        print("the certificate follows in exact rationals")
    return len(wrong), certificate


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path)
    main(parser.parse_args().model)
