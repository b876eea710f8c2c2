"""Certified margins of digits networks over boxes around images, beside auto_LiRPA where it is
installed; and instances of a competition.

    python benchmarks/certify.py [--images 40] [--peer-images 4] [--epsilon 0.02]
        [--networks "max k2" "stem k3 s2 p1"] [--seed 0] [--default-training]
    python benchmarks/certify.py --instances folder/instances.csv [--timeout 60] [--check]

The networks are trained by torch with fixed seeds and read from its exporter. A figure is the mean
of the least margin of an image (the label's logit less each other) over images that the network did
not see and has right, the share of them whose margins are all positive, and milliseconds per image.
`--peer-images`: how many of them auto_LiRPA gets; the margins that stand beside its own are those
of the same images. Instances are those of VNN-COMP: model, property, seconds.
"""

import argparse
import csv
import io
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

import specgrad as sg
import specgrad.onnx
from specgrad.bounds import vnnlib
from specgrad.bounds.certify import of_property

try:
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
except ImportError:
    BoundedModule = None


def two(first, second, cells):
    """Two convolutions, each with a relu and a pool."""
    return [
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        first,
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        second,
        nn.Flatten(),
        nn.Linear(cells, 10),
    ]


def line():
    body = [
        nn.Conv1d(1, 8, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(3, 2, 1),
        nn.Conv1d(8, 8, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(4),
    ]
    return [nn.Flatten(), nn.Unflatten(1, (1, 64)), *body, nn.Flatten(), nn.Linear(64, 10)]


def volume():
    body = [nn.Conv3d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2, 2), nn.Conv3d(8, 16, 2), nn.ReLU()]
    return [nn.Flatten(), nn.Unflatten(1, (1, 4, 4, 4)), *body, nn.Flatten(), nn.Linear(16, 10)]


def autoencoder():
    body = [
        nn.Conv2d(1, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 8, 2, 2),
        nn.ReLU(),
    ]
    return [*body, nn.ConvTranspose2d(8, 1, 2, 2), nn.Flatten(), nn.Linear(64, 10)]


NETWORKS = {
    "max k2": lambda: two(nn.MaxPool2d(2), nn.MaxPool2d(2), 64),
    "stem k3 s2 p1": lambda: two(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1), 64),
    "average": lambda: two(nn.AvgPool2d(2), nn.AvgPool2d(2), 64),
    "dilated": lambda: two(nn.MaxPool2d(2, 2, dilation=2), nn.MaxPool2d(2), 16),
    "ceil": lambda: two(nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(3, 2, ceil_mode=True), 64),
    "same": lambda: [nn.Conv2d(1, 8, 4, padding="same"), *two(nn.MaxPool2d(2), nn.MaxPool2d(2), 64)[1:]],
    "1-D": line,
    "3-D": volume,
    "transposed autoencoder": autoencoder,
}


def trained(name, x, y, seed=0, epochs=30, rate=3e-3, decay=0.3):
    """A network after some epochs of Adam with decaying weights, the same each time."""
    torch.manual_seed(seed)
    network = nn.Sequential(*NETWORKS[name]())
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=decay)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            optimiser.step()
    return network.eval()


def graph_of(network):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (torch.zeros(1, 1, 8, 8),), file, dynamo=False)
    return specgrad.onnx.load(file.getvalue())


def margins(label):
    rows = -np.eye(10)
    rows[:, label] += 1
    return np.delete(rows, label, 0)


def ours(graph, x, labels, epsilon, method, covers="real"):
    """The least margin of each image, and seconds per image."""
    sg.bounds(graph, (x[:1], x[:1]))  # the network's matrices are made once
    start, least = time.perf_counter(), []
    for image, label in zip(x, labels, strict=True):
        box = image[None] - epsilon, image[None] + epsilon
        least.append(sg.bounds(graph, box, method=method, of=margins(label), covers=covers).lower.min())
    return np.array(least), (time.perf_counter() - start) / len(x)


def theirs(network, x, labels, epsilon, method):
    """The same by auto_LiRPA; None where it refuses the network."""
    start, least = time.perf_counter(), []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bounded = BoundedModule(network, torch.zeros(1, 1, 8, 8), bound_opts={"conv_mode": "matrix"}, verbose=0)
            for image, label in zip(x, labels, strict=True):
                ball = BoundedTensor(
                    torch.from_numpy(image[None]).float(), PerturbationLpNorm(norm=np.inf, eps=epsilon)
                )
                rows = torch.from_numpy(margins(label)).float()[None]
                lower, _ = bounded.compute_bounds(x=(ball,), C=rows, method=method, bound_upper=False)
                least.append(float(lower.min()))
    except (
        AssertionError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
    ) as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"
    return np.array(least), (time.perf_counter() - start) / len(x)


def words(least, seconds):
    if least is None:
        return f"refused ({seconds})"
    return f"{least.mean():+.3f}, {(least > 0).mean():.0%}, {seconds * 1e3:,.0f} ms"


def digits(arguments, console):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y = (images[order] / 16).reshape(-1, 1, 8, 8).astype(np.float32), labels[order]
    table = Table(
        "network",
        "crown",
        "alpha",
        "float32's part of the median margin",
        title=f"mean least margin, verified, time per image at ε = {arguments.epsilon}",
    )
    if BoundedModule is not None:
        for head in (
            "auto_LiRPA CROWN",
            "auto_LiRPA α-CROWN",
            "crown, alpha on the same images",
            "crown's time / α-CROWN's",
        ):
            table.add_column(head)
    for name in track(arguments.networks, console=console):
        chosen = {"rate": 1e-3, "decay": 1e-2} if arguments.default_training else {}  # those of torch
        network = trained(name, torch.from_numpy(x[200:]), torch.from_numpy(y[200:]), arguments.seed, **chosen)
        graph = graph_of(network)
        right = network(torch.from_numpy(x[:200])).argmax(1).numpy() == y[:200]
        wanted, known = (a[:200][right][: arguments.images] for a in (x, y))
        found = {method: ours(graph, wanted, known, arguments.epsilon, method) for method in ("crown", "alpha")}
        covered, _ = ours(graph, wanted, known, arguments.epsilon, "crown", "float32")
        slack = np.max(found["crown"][0] - covered) / np.median(found["crown"][0])
        row = [name, *(words(*found[method]) for method in found), f"{slack:.4%}"]
        if BoundedModule is not None:
            few = arguments.peer_images
            peers = [
                theirs(network, wanted[:few], known[:few], arguments.epsilon, m) for m in ("CROWN", "CROWN-Optimized")
            ]
            same = ", ".join(f"{found[method][0][:few].mean():+.3f}" for method in found)
            share = "" if peers[1][0] is None else f"{found['crown'][1] / peers[1][1]:.1%}"
            row += [*(words(*peer) for peer in peers), same, share]
        table.add_row(*row)
    console.print(table)


def instances(arguments, console):
    """Every instance of a list: what is answered, in how many seconds."""
    folder, times, answers = arguments.instances.parent, [], {}
    rows = [row for row in csv.reader(arguments.instances.open()) if row]
    for model, wanted, *_ in rows:
        start = time.perf_counter()
        data = (folder / model).read_bytes()
        found = of_property(
            data, specgrad.onnx.load(data), vnnlib.read(folder / wanted), "real", arguments.timeout, None
        )
        times.append(time.perf_counter() - start)
        answers[found.status] = answers.get(found.status, 0) + 1
        start = time.perf_counter()
        if arguments.check and found.status != "unknown":
            found.check()
        checked = f", checked in {time.perf_counter() - start:.1f} s" if arguments.check else ""
        console.print(f"{model} {Path(wanted).name}: {found.status}, {times[-1]:.2f} s{checked}")
    console.print(f"{answers}; median {statistics.median(times):.2f} s, most {max(times):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--peer-images", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=0.02)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--default-training", action="store_true", help="torch's own rate and decay of AdamW")
    parser.add_argument("--instances", type=Path)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    console = Console(width=220)
    torch.set_num_threads(1)
    if arguments.instances is not None:
        instances(arguments, console)
    else:
        digits(arguments, console)


if __name__ == "__main__":
    main()
