"""Whole steps of networks on a CUDA device, before and after `accelerate`, by wall-clock time,
which includes the host's.

    python benchmarks/gpu_networks.py --json networks.json
    python benchmarks/gpu_networks.py --modes eager --batches 1 8 --networks ResNet

A cell is a network, inference or a training step (forward, loss, backward), a batch, a dtype, a
layout and a mode: eager, torch.compile, or a captured CUDA graph. Its figure is the time before
over the time after, the median of turns with both in alternating order. With --control nothing is
accelerated, which shows the noise of such figures.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import nn

from specgrad.torch import accelerate


def conv(a, b, k=3, s=1):
    return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class Block(nn.Module):
    def __init__(self, a, b, s):
        super().__init__()
        self.body = nn.Sequential(conv(a, b, 3, s), nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.short = nn.Identity() if a == b and s == 1 else nn.Conv2d(a, b, 1, s, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


class Inception(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.one, self.three, self.pool = conv(a, 64, 1), conv(a, 96, 3), nn.MaxPool2d(3, 1, 1)
        self.last = conv(a, 32, 1)

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.last(self.pool(x))], 1)


class Pyramid(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.begin, self.pool, self.end = conv(a, a // 2, 1), nn.MaxPool2d(5, 1, 2), conv(a * 2, a, 1)

    def forward(self, x):
        parts = [self.begin(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.end(torch.cat(parts, 1))


class Down(nn.Module):
    """One level of a three-dimensional U-Net, and the levels below it."""

    def __init__(self, a, b, below):
        super().__init__()
        self.into, self.pool, self.below = nn.Conv3d(a, b, 3, padding=1), nn.MaxPool3d(2), below
        self.up, self.out = nn.Upsample(scale_factor=2), nn.Conv3d(b + below.width, b, 3, padding=1)
        self.width = b

    def forward(self, x):
        x = torch.relu(self.into(x))
        return torch.relu(self.out(torch.cat([x, self.up(self.below(self.pool(x)))], 1)))


class Bottom(nn.Conv3d):
    def __init__(self, a, b):
        super().__init__(a, b, 3, padding=1)
        self.width = b


def head(a):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(a, 10)]


def vgg():
    widths, layers, a = (32, 64, 128, 256, 256), [], 3
    for b in widths:
        layers += [conv(a, b), conv(b, b), nn.MaxPool2d(2)]
        a = b
    return nn.Sequential(*layers, *head(a))


def resnet():
    blocks = [
        Block(a, b, s)
        for a, b, s in ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
    ]
    return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, *head(256))


def googlenet():
    stem = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), conv(64, 192), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(
        *stem, Inception(192), Inception(192), nn.MaxPool2d(3, 2, 1), Inception(192), Inception(192), *head(192)
    )


def sppf():
    return nn.Sequential(
        conv(3, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 128, 3, 2), Block(128, 128, 1), Pyramid(128), *head(128)
    )


def unet():
    below = Down(1, 16, Down(16, 32, Bottom(32, 64)))
    return nn.Sequential(below, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 10))


NETWORKS = {
    "VGG-like": (vgg, (3, 224, 224)),
    "ResNet-like": (resnet, (3, 224, 224)),
    "GoogLeNet-like": (googlenet, (3, 224, 224)),
    "SPPF-like": (sppf, (3, 256, 256)),
    "3-D U-Net-like": (unet, (1, 32, 32, 32)),
}
MODES = ("eager", "compile", "graph")
BATCHES = (1, 8, 64, 256)


def inference(net, x, target):
    with torch.no_grad():
        net(x)


def training(net, x, target):
    for parameter in net.parameters():
        parameter.grad = None
    F.cross_entropy(net(x).float(), target).backward()


def captured(step):
    """A step as the replay of a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def clock(step, times):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def compared(before, after, seconds, turns=40):
    """(before / after, seconds before, after): medians of turns."""
    for step in (before, after):
        for _ in range(3):
            step()
    times = max(int(seconds / 2 / turns / clock(before, 2)), 1)
    pairs = []
    for turn in range(turns):
        if turn % 2:
            pairs.append((clock(before, times), clock(after, times)))
        else:
            pairs.append((clock(after, times), clock(before, times))[::-1])
    ratio = statistics.median(one / other for one, other in pairs)
    return ratio, *(statistics.median(column) for column in zip(*pairs, strict=True))


def cell(name, step, batch, dtype, layout, mode, options):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    form = (
        torch.contiguous_format
        if layout == "NCHW"
        else torch.channels_last
        if len(shape) == 3
        else torch.channels_last_3d
    )
    before = make().cuda().to(dtype).to(memory_format=form).train(step is training)
    x = torch.randn(batch, *shape, device="cuda").to(dtype).contiguous(memory_format=form)
    target = torch.randint(0, 10, (batch,), device="cuda")
    after = copy.deepcopy(before)
    if not options.control:
        accelerate(after, verbose=False)
    nets = [before, after]
    if mode == "compile":
        torch._dynamo.reset()
        nets = [torch.compile(net) for net in nets]
    steps = [lambda net=net: step(net, x, target) for net in nets]
    if mode == "graph":
        steps = [captured(one) for one in steps]
    ratio, *milliseconds = compared(*steps, options.seconds)
    return {"ratio": ratio, "before": milliseconds[0] * 1e3, "after": milliseconds[1] * 1e3}


def cells(options):
    steps = {"inference": inference, "training step": training}
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    chosen = [name for name in NETWORKS if any(part in name for part in options.networks)]
    found = []
    for name, step, dtype, layout, mode in itertools.product(
        chosen, steps, options.dtypes, options.layouts, options.modes
    ):
        row = []
        for batch in options.batches:
            words = {"network": name, "step": step, "batch": batch, "dtype": dtype, "layout": layout, "mode": mode}
            try:
                found.append(words | cell(name, steps[step], batch, dtypes[dtype], layout, mode, options))
                row.append(f"{batch:4}: ×{found[-1]['ratio']:.2f} ({found[-1]['after']:.2f} ms)")
            except Exception as error:  # a mode that fails has no figure; the run goes on
                row.append(f"{batch:4}: {type(error).__name__}: {str(error).splitlines()[0][:60]}")
            torch.cuda.empty_cache()
        print(f"{name:16}{step:15}{dtype:9}{layout:14}{mode:8}", *row, flush=True)
        if options.json:  # a stopped run keeps its results
            options.json.write_text(json.dumps(found, indent=1))
    return found


def parser():
    found = argparse.ArgumentParser()
    found.add_argument("--json", type=Path)
    found.add_argument("--networks", nargs="*", default=[""])
    found.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    found.add_argument("--modes", nargs="*", default=MODES)
    found.add_argument("--dtypes", nargs="*", default=["float32", "bfloat16"])
    found.add_argument("--layouts", nargs="*", default=["NCHW", "channels_last"])
    found.add_argument("--seconds", type=float, default=0.3, help="for each cell, roughly")
    found.add_argument("--control", action="store_true", help="compare torch with itself")
    return found


def main():
    options = parser().parse_args()
    torch.backends.cudnn.benchmark = True
    found = cells(options)
    below = [c for c in found if c["ratio"] < 0.98]
    if found:
        print(f"{len(found)} cells, least ×{min(c['ratio'] for c in found):.2f}, below ×0.98: {len(below)}")


if __name__ == "__main__":
    main()
