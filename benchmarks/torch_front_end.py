"""specgrad.torch against torch, in one run, as ratios: single operators, whole networks, and the
size below which aten is called.

    python benchmarks/torch_front_end.py [--quick] [--threads 2] [--device cpu] [--only max]
        [--small] [--json FILE]

Rounds of both sides are interleaved, so that other load on the machine affects both alike; a figure
is the least time of torch over the least time of specgrad (above 1: specgrad is faster). Saved
bytes, the tensors that autograd keeps for backward, are counted per call with saved-tensor hooks.
`--small` instead prints the ratio by input size, from which routing.SMALL was chosen.
"""

import argparse
import json
import platform
import sys
import time
from datetime import date
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import nn

import specgrad as sg
import specgrad.torch
from specgrad.torch import functional, routing


def smooth_by_torch(x, kernel, beta):
    """The usual composition: unfolded windows, then logsumexp."""
    windows = x.unfold(2, kernel, kernel).unfold(3, kernel, kernel)
    return torch.logsumexp(beta * windows, (-2, -1)) / beta


def both(name):
    return getattr(functional, name), getattr(F, name)


def operators(n):
    """(name, shape, arguments, ours, torch's)."""
    images, volume, signal = (n, 64, 112, 112), (max(n // 4, 1), 16, 32, 64, 64), (n, 64, 16000)
    for kind in ("max", "avg"):
        two, three, one = (both(f"{kind}_pool{rank}d") for rank in (2, 3, 1))
        for words, shape, arguments, pair in (
            ("k2 s2", images, (2,), two),
            ("k3 s2 p1", images, (3, 2, 1), two),
            ("k3 s1 p1", images, (3, 1, 1), two),
            ("k5 s1 p2", (n, 256, 20, 20), (5, 1, 2), two),
            ("k13 s1 p6", (n, 512, 13, 13), (13, 1, 6), two),
            ("3-D k2 s2", volume, (2,), three),
            ("3-D k3 s1 p1", volume, (3, 1, 1), three),
            ("1-D k4 s4", signal, (4,), one),
        ):
            yield f"{kind} {words}", shape, arguments, *pair
        for length in (7, 1):
            yield f"adaptive {kind} to {length}", images, (length,), *both(f"adaptive_{kind}_pool2d")
    yield "max k2 s2 with indices", images, (2, 2, 0, 1, False, True), *both("max_pool2d")
    yield "lp 2 k2 s2", images, (2.0, 2), *both("lp_pool2d")
    yield "smooth k2 s2", images, (2, 4.0), lambda x, k, b: sg.smooth_max_pool(x, (k, k), beta=b), smooth_by_torch


class Vgg(nn.Module):
    """Pairs of convolutions with max pooling between."""

    def __init__(self):
        super().__init__()
        layers, read = [], 3
        for written in (32, 64, 128):
            layers += [nn.Conv2d(read, written, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            read = written
        self.features, self.pool, self.out = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(7), nn.Linear(read * 49, 10)

    def forward(self, x):
        return self.out(self.pool(self.features(x)).flatten(1))


class Inception(nn.Module):
    """Four parallel branches, one with pooling of stride 1, as in GoogLeNet."""

    def __init__(self, read, each):
        super().__init__()
        self.one = nn.Conv2d(read, each, 1)
        self.three = nn.Sequential(nn.Conv2d(read, each // 2, 1), nn.ReLU(), nn.Conv2d(each // 2, each, 3, padding=1))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(read, each, 1))

    def forward(self, x):
        return torch.relu(torch.cat([self.one(x), self.three(x), self.pooled(x)], 1))


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(Inception(64, 32), nn.MaxPool2d(3, 2, 1), Inception(96, 64), Inception(192, 64))
        self.out = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 10))

    def forward(self, x):
        return self.out(self.body(self.stem(x)))


class Sppf(nn.Module):
    """YOLO's spatial pyramid: three poolings of 5 by 5 in sequence."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 4, 1), nn.SiLU(), nn.Conv2d(32, 128, 3, 2, 1), nn.SiLU())
        self.pool, self.out = nn.MaxPool2d(5, 1, 2), nn.Conv2d(4 * 128, 64, 1)

    def forward(self, x):
        parts = [self.stem(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.out(torch.cat(parts, 1)).mean((2, 3))


NETWORKS = {"VGG-like": Vgg, "GoogLeNet-like": GoogLeNet, "YOLO-SPPF-like": Sppf}


def race(calls, seconds, device):
    """The least time of each call, with rounds interleaved."""
    best = [float("inf")] * len(calls)
    for call in calls:
        call()
    spent = rounds = 0
    while rounds < 3 or spent < seconds:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            took = time.perf_counter() - start
            best[i], spent = min(best[i], took), spent + took
        rounds += 1
    return best


def first(result):
    return result[0] if isinstance(result, tuple) else result


def forward_and_backward(function, x, arguments, gy):
    def call():
        x.grad = None
        first(function(x, *arguments)).backward(gy)

    return call


def forward_alone(function, x, arguments):
    def call():
        with torch.no_grad():
            function(x, *arguments)

    return call


def saved_bytes(function, x, arguments):
    counted = {}

    def count(tensor):
        counted[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        function(x, *arguments)
    return sum(counted.values())


def measure_operators(options):
    for name, shape, arguments, ours, theirs in operators(1 if options.quick else 8):
        if options.only not in name:
            continue
        for layout in ("NCHW", "channels_last"):
            form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shape))
            if layout == "channels_last" and form is None:
                continue
            x = torch.randn(shape, device=options.device)
            x = (x.to(memory_format=form) if layout == "channels_last" else x).requires_grad_()
            gy = torch.randn_like(first(theirs(x, *arguments)).detach())
            sides = (ours, theirs)
            inference = race([forward_alone(f, x, arguments) for f in sides], options.seconds, options.device)
            training = race([forward_and_backward(f, x, arguments, gy) for f in sides], options.seconds, options.device)
            kept = [saved_bytes(f, x, arguments) for f in sides]
            yield {
                "operator": name,
                "layout": layout,
                "forward": inference[1] / inference[0],
                "forward+backward": training[1] / training[0],
                "saved": kept[0],
                "saved by torch": kept[1],
            }


def measure_networks(options):
    for name, kind in NETWORKS.items():
        torch.manual_seed(0)
        net, fast = kind().to(options.device), kind().to(options.device)
        fast.load_state_dict(net.state_dict())
        specgrad.torch.accelerate(fast, verbose=False)
        size = 64 if options.quick else 224
        x = torch.randn(1 if options.quick else 8, 3, size, size, device=options.device)

        def step(model, x=x):
            def call():
                model.zero_grad(set_to_none=True)
                model(x).square().mean().backward()

            return call

        inference = race([forward_alone(m, x, ()) for m in (fast, net)], options.seconds, options.device)
        training = race([step(m) for m in (fast, net)], options.seconds, options.device)
        yield {"network": name, "inference": inference[1] / inference[0], "training step": training[1] / training[0]}


def measure_small(options):
    routing.SMALL = 0
    for side in (8, 16, 32, 48, 64, 96, 128):
        x = torch.randn(1, 16, side, side, requires_grad=True)
        for name, arguments in (
            ("max_pool2d", (2,)),
            ("max_pool2d", (3, 2, 1)),
            ("avg_pool2d", (2,)),
            ("avg_pool2d", (3, 2, 1)),
        ):
            sides = both(name)
            gy = torch.randn_like(sides[1](x, *arguments).detach())
            inference = race([forward_alone(f, x, arguments) for f in sides], options.seconds, "cpu")
            training = race([forward_and_backward(f, x, arguments, gy) for f in sides], options.seconds, "cpu")
            yield {
                "elements": x.numel(),
                "operator": f"{name}{arguments}",
                "forward": inference[1] / inference[0],
                "forward+backward": training[1] / training[0],
            }


def processor():
    """The processor's name, if the system gives it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {platform.machine()}" if names else platform.machine()


def shown(value):
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small batches and few rounds: to see that it works")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="operators whose name has this in it")
    parser.add_argument("--small", action="store_true", help="how ratios grow with the input")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    options.seconds = 0.02 if options.quick else 0.5
    if options.threads:
        torch.set_num_threads(options.threads)
        sg.set_num_threads(options.threads)
    parts = [measure_small] if options.small else [measure_operators, measure_networks]
    print(
        f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads; "
        "time of torch / time of specgrad"
    )
    told = []
    for part in parts:
        widths = None
        for row in part(options):
            told.append(row)
            if widths is None:
                widths = [max(24 if i == 0 else 14, len(key)) for i, key in enumerate(row)]
                print("\n" + "  ".join(f"{key:<{w}}" for key, w in zip(row, widths, strict=True)))
            print("  ".join(f"{shown(v):<{w}}" for v, w in zip(row.values(), widths, strict=True)), flush=True)
    if options.json:
        run = {
            "command": " ".join(["python", *sys.argv]),
            "date": date.today().isoformat(),
            "machine": processor(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "rows": [{k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()} for row in told],
        }
        options.json.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
