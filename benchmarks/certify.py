"""Certified margins of digits networks over boxes around images, by specgrad and by auto_LiRPA.

    python benchmarks/certify.py [--images 40] [--seeds 0 1 2] [--epsilon 0.02]
        [--methods crown alpha] [--networks "max k2" "stem k3 s2 p1"] [--certify 60]
        [--peer-images 4]
    python benchmarks/certify.py --instances folder/instances.csv [--timeout 60] [--check]
        [--some 10]

Every network is trained by AdamW with torch's default rate and decay, once per seed, and read from
torch's exporter. A figure is the mean over seeds, ± the deviation if there are several. The
figures, over unseen and correctly classified images, are: the mean least margin of an image (the
label's logit less each other), the share of images with positive margins, and milliseconds of
processor time per image without the first. `attack` is the least margin that a search finds, above
which no bound can be. `--certify`: the share of images that `certify` proves or breaks within this
many seconds each; 0 leaves it out. `--peer-images`: the number of images for auto_LiRPA; our
margins next to its margins are of the same images. `--instances`: a list of VNN-COMP (model,
property, seconds), whose files may have .gz added to their names. `--some`: this many of them,
evenly spaced.

auto_LiRPA 0.7.1 requires an older torch, and PyPI has only 0.3, which NumPy 2 cannot import: a
checkout of its repository on PYTHONPATH runs, with appdirs, tqdm and graphviz installed.
"""

import argparse
import contextlib
import copy
import csv
import inspect
import io
import math
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
from specgrad.bounds.certify import model_bytes, of_property, read_model

try:
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
except ImportError:
    BoundedModule = None

PEERS = ("CROWN", "CROWN-Optimized")


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


def trained(name, x, y, seed=0, epochs=30):
    """A network after `epochs` epochs of AdamW, deterministic."""
    torch.manual_seed(seed)
    network = nn.Sequential(*NETWORKS[name]())
    optimiser = torch.optim.AdamW(network.parameters())
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
    """The least margin of each image, and seconds per image without the first."""

    def least(image, label):
        box = image[None] - epsilon, image[None] + epsilon
        return sg.bounds(graph, box, method=method, of=margins(label), covers=covers).lower.min()

    least(x[0], labels[0])  # the network's matrices are made once
    start = time.process_time()
    found = np.array([least(image, label) for image, label in zip(x, labels, strict=True)])
    return found, (time.process_time() - start) / len(x)


def decided(graph, x, labels, least, epsilon, seconds):
    """The shares of images that are proved and broken, and seconds per image that bounds leave
    open."""
    proved, broken, start = int((least > 0).sum()), 0, time.process_time()
    for image, label in zip(x[least <= 0].astype(np.float64), labels[least <= 0], strict=True):
        box = image[None] - epsilon, image[None] + epsilon
        status = sg.certify(graph, box, margins(label), timeout=seconds).status
        proved, broken = proved + (status == "holds"), broken + (status == "violated")
    return proved / len(x), broken / len(x), (time.process_time() - start) / max((least <= 0).sum(), 1)


def attacked(network, x, labels, epsilon, steps=60, starts=6):
    """The least margin that gradient descent finds, from the image and from points near it."""
    network, x, labels = (
        copy.deepcopy(network).double(),
        torch.from_numpy(x).double(),
        torch.from_numpy(labels)[:, None],
    )
    random, least = torch.Generator().manual_seed(0), torch.full((len(x),), math.inf, dtype=torch.double)
    for start in range(starts):
        moved = (2 * torch.rand(x.shape, generator=random, dtype=torch.double) - 1) * epsilon * (start > 0)
        for step in range(steps):
            moved.requires_grad_()
            logits = network(x + moved)
            margin = (logits.gather(1, labels) - logits.scatter(1, labels, -math.inf).max(1, keepdim=True).values)[:, 0]
            least = torch.minimum(least, margin.detach())
            (slope,) = torch.autograd.grad(margin.sum(), moved)
            moved = (moved.detach() - epsilon * slope.sign() * 0.5 * 0.93**step).clamp(-epsilon, epsilon)
    return least.numpy()


def theirs(network, x, labels, epsilon, method):
    """`ours` by auto_LiRPA; None if it refuses the network."""
    least, ends = [], []
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            bounded = BoundedModule(network, torch.zeros(1, 1, 8, 8), bound_opts={"conv_mode": "matrix"}, verbose=0)
            for image, label in zip([x[0], *x], [labels[0], *labels], strict=True):
                ball = BoundedTensor(
                    torch.from_numpy(image[None]).float(), PerturbationLpNorm(norm=np.inf, eps=epsilon)
                )
                rows = torch.from_numpy(margins(label)).float()[None]
                lower, _ = bounded.compute_bounds(x=(ball,), C=rows, method=method, bound_upper=False)
                least.append(float(lower.min()))
                ends.append(time.process_time())
    except (
        AssertionError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
    ) as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"
    return np.array(least[1:]), (ends[-1] - ends[0]) / len(x)


def spread(values, form):
    """The mean over seeds, and the deviation if there are several."""
    mean = format(np.mean(values), form)
    return f"{mean} ± {format(np.std(values), form.lstrip('+'))}" if len(values) > 1 else mean


def words(found):
    """The figures of all seeds, from (least margins, seconds), in words."""
    refused = next((why for least, why in found if least is None), None)
    if refused is not None:
        return f"refused ({refused})"
    margin, verified = ([f(least) for least, _ in found] for f in (np.mean, lambda least: np.mean(least > 0)))
    return f"{spread(margin, '+.4f')}, {spread(verified, '.0%')}, {np.mean([t for _, t in found]) * 1e3:,.0f} ms"


def measured(name, seed, x, y, arguments):
    """All figures of one network, trained by one seed."""
    network = trained(name, torch.from_numpy(x[200:]), torch.from_numpy(y[200:]), seed)
    graph = graph_of(network)
    right = network(torch.from_numpy(x[:200])).argmax(1).numpy() == y[:200]
    wanted, known = (a[:200][right][: arguments.images] for a in (x, y))
    found = {method: ours(graph, wanted, known, arguments.epsilon, method) for method in arguments.methods}
    best = np.maximum.reduce([least for least, _ in found.values()])
    crown = found.get("crown", next(iter(found.values())))[0]
    covered, _ = ours(graph, wanted, known, arguments.epsilon, "crown", "float32")
    found["float32"] = np.max(crown - covered) / np.median(crown)
    found["attack"] = attacked(network, wanted, known, arguments.epsilon), 0.0
    if arguments.certify:
        found["certify"] = decided(graph, wanted, known, best, arguments.epsilon, arguments.certify)
    if BoundedModule is not None:
        few = slice(arguments.peer_images)
        for method in PEERS:
            found[method] = theirs(network, wanted[few], known[few], arguments.epsilon, method)
        found["same"] = {method: found[method][0][few].mean() for method in arguments.methods}
    return found


def row_of(name, seeds, arguments):
    """One line of the table, from all seeds."""
    attack = words([found["attack"] for found in seeds]).rpartition(",")[0]
    row = [name, *(words([found[method] for found in seeds]) for method in arguments.methods), attack]
    if arguments.certify:
        proved, broken, seconds = zip(*(found["certify"] for found in seeds), strict=True)
        row.append(f"{spread(proved, '.0%')} proved, {spread(broken, '.0%')} broken, {np.mean(seconds):.1f} s")
    row.append(f"{max(found['float32'] for found in seeds):.2%}")
    if BoundedModule is not None:
        row += [words([found[method] for found in seeds]) for method in PEERS]
        row.append(", ".join(f"{np.mean([found['same'][m] for found in seeds]):+.4f}" for m in arguments.methods))
        times = [found[PEERS[-1]] for found in seeds]
        known = all(least is not None for least, _ in times)
        shares = [
            np.mean([f[m][1] for f in seeds]) / np.mean([t for _, t in times]) for m in arguments.methods if known
        ]
        row.append(", ".join(f"{share:.2%}" for share in shares))
    return row


def digits(arguments, console):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y = (images[order] / 16).reshape(-1, 1, 8, 8).astype(np.float32), labels[order]
    heads = ["network", *arguments.methods, "attack: at most"]
    heads += [f"certify, {arguments.certify:g} s"] * bool(arguments.certify) + ["float32's part of the median margin"]
    if BoundedModule is not None:
        heads += [
            *(f"auto_LiRPA {method}" for method in PEERS),
            "same images",
            "ours' part of its time",
        ]
    title = f"mean least margin, verified, time per image at ε = {arguments.epsilon}; seeds {arguments.seeds}"
    table = Table(*heads, title=title)
    for name in track(arguments.networks, console=console):
        table.add_row(*row_of(name, [measured(name, seed, x, y, arguments) for seed in arguments.seeds], arguments))
    console.print(table)


def instances(arguments, console):
    """Certify every instance of a list: print its answer and seconds."""
    folder, times, answers = arguments.instances.parent, [], {}
    rows = [row for row in csv.reader(arguments.instances.open()) if row]
    some = np.linspace(0, len(rows) - 1, min(arguments.some or len(rows), len(rows))).astype(int)
    for model, wanted, *_ in [rows[place] for place in some]:
        model, wanted = (name if (folder / name).exists() else f"{name}.gz" for name in (model, wanted))
        start = time.perf_counter()
        read = vnnlib.read(folder / wanted)
        given = read_model(folder / model, model_bytes(folder / model), read.inputs)
        found = of_property(*given, read, "real", arguments.timeout, None)
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
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", default=["crown", "alpha"], choices=["crown", "alpha", "ibp"])
    seconds = inspect.signature(sg.certify).parameters["timeout"].default
    parser.add_argument("--certify", type=float, default=seconds, help="seconds per image that bounds leave open, or 0")
    parser.add_argument("--instances", type=Path)
    parser.add_argument("--some", type=int, default=0, help="so many instances, evenly spaced; 0: all")
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
