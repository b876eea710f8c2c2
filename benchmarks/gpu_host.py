"""Host time of calls on CUDA tensors, in microseconds, next to torch's own: python
benchmarks/gpu_host.py [--json host.json]

Tensors are so small that the device waits for the host. Calls of both sides alternate; a figure is
the least mean of several rounds. `forward` is a call without a gradient, `keep` one that is
differentiated later, `backward` is torch.autograd.grad. Our engine runs all calls here;
`specgrad.torch.functional` would call torch's own kernels for such small tensors.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

import specgrad as sg
from specgrad.torch import functional, routing

RULES = ("forward", "keep", "backward")
SIDES = {1: (300,), 2: (20, 20), 3: (8, 8, 8)}


def operators():
    """(name, ours, torch's or None, rank)."""
    for rank in (1, 2, 3):
        for name, arguments in (("max_pool", (3, 2, 1)), ("avg_pool", (3, 2, 1)), ("adaptive_max_pool", (4,)),
                                ("adaptive_avg_pool", (4,)), ("lp_pool", (2.0, 2))):  # fmt: skip
            name = f"{name}{rank}d"
            ours, torchs = getattr(functional, name), getattr(F, name)
            yield name, lambda t, f=ours, a=arguments: f(t, *a), lambda t, f=torchs, a=arguments: f(t, *a), rank
    ours, theirs = (lambda t, f=f: f.max_pool2d(t, 2, return_indices=True)[0] for f in (functional, F))
    yield "max_pool2d, indices", ours, theirs, 2
    ours, theirs = (lambda t, f=f: f.adaptive_avg_pool2d(t, 1) for f in (functional, F))
    yield "adaptive_avg_pool2d to 1", ours, theirs, 2
    yield "sg.max_pool", lambda t: sg.max_pool(t, (3, 3), stride=2, padding=1), lambda t: F.max_pool2d(t, 3, 2, 1), 2
    yield "sg.avg_pool", lambda t: sg.avg_pool(t, (3, 3), stride=2, padding=1), lambda t: F.avg_pool2d(t, 3, 2, 1), 2
    yield "sg.MaxPool(…)(x)", sg.MaxPool((3, 3), stride=2, padding=1), lambda t: F.max_pool2d(t, 3, 2, 1), 2
    yield "sg.max_pool, ties split", lambda t: sg.max_pool(t, (3, 3), stride=2, padding=1, ties="split"), None, 2
    yield "sg.global_max_pool", lambda t: sg.global_max_pool(t, 2), lambda t: t.amax((2, 3), keepdim=True), 2
    yield "sg.global_avg_pool", lambda t: sg.global_avg_pool(t, 2), lambda t: t.mean((2, 3), keepdim=True), 2
    yield "sg.smooth_max_pool", lambda t: sg.smooth_max_pool(t, (2, 2), beta=2.0), None, 2


class Empty(torch.autograd.Function):
    """An autograd node in Python without work."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gy):
        return gy


def steps(function, x):
    """The three calls of a function: forward, keep, backward."""
    leaf = x.detach().requires_grad_()
    y = function(leaf)
    gy = torch.randn_like(y)

    def forward():
        with torch.no_grad():
            function(x)

    return forward, lambda: function(leaf), lambda: torch.autograd.grad(y, leaf, gy, retain_graph=True)


def race(calls, turns=15, times=50):
    """The least microseconds of each call."""
    least = [float("inf")] * len(calls)
    for turn in range(turns):
        for i, call in enumerate(calls):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(times if turn else 10):  # the first turn compiles and records launches
                call()
            if turn:
                least[i] = min(least[i], (time.perf_counter() - begun) / times * 1e6)
    torch.cuda.synchronize()
    return least


def rows():
    routing.SMALL = 0
    x = torch.randn(1, 8, 20, 20, device="cuda")
    empty = {rule: race([call]) for rule, call in zip(RULES, steps(Empty.apply, x), strict=True)}
    yield {"name": "an empty autograd.Function", **empty}
    for name, ours, torchs, rank in operators():
        x = torch.randn(1, 8, *SIDES[rank], device="cuda")
        sides = [steps(function, x) for function in (ours, torchs) if function]
        yield {"name": name, **{rule: race([side[i] for side in sides]) for i, rule in enumerate(RULES)}}


def table():
    """All rows, also printed."""
    print(f"{'host µs, ours / torch’s':28}" + "".join(f"{rule:>18}" for rule in RULES))
    found = []
    for row in rows():
        found.append(row)
        words = [" / ".join(f"{us:.1f}" for us in row[rule]) for rule in RULES]
        print(f"{row['name']:28}" + "".join(f"{word:>18}" for word in words), flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = table()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
