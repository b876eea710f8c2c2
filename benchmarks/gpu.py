"""Pooling on a CUDA device against a plain copy and against PyTorch, eager and compiled, all
measured in the same run.

    python benchmarks/gpu.py --json gpu.json --svg gpu.svg

Three tables: kernels, whole networks (`gpu_networks.py`), and the host time of calls
(`gpu_host.py`).

The limit of a call is the bytes that it must read and write / the bandwidth of a large copy in the
same run: x + y for the forward, x + y + kept for the forward that keeps tensors for the backward,
gy + kept + gx for the backward (plus x, if the backward reads x: of smooth maxima). Times are
medians of CUDA events around calls that were queued ahead; outputs are fresh tensors. Peers run in
the same process. All kernels, ours and torch.compile's, are compiled before in parallel processes
(--warm), which also measure first calls.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # whole cases are compiled in parallel instead

import gpu_host
import gpu_networks
import torch
import torch._functorch.config as functorch_config
import torch.nn.functional as F  # noqa: N812 - its customary name
import triton

import specgrad as sg
from specgrad.engines import gpu

functorch_config.donated_buffer = (
    False  # or a compiled backward could not be run again; it is part of what the cache goes by
)
RULES = ("forward", "keep", "backward")


class Workload(NamedTuple):
    name: str
    op: sg.operator.Operator
    shape: tuple[int, ...]
    everywhere: bool = False
    """Whether also measured in bfloat16 and channels_last."""


def workloads():
    def both(name, shape, k, s, p, rank=2, everywhere=False):
        pools = [kind((k,) * rank, stride=s, padding=p) for kind in (sg.MaxPool, sg.AvgPool)]
        return [Workload(f"{op.name.split('_')[0]} {name}", op, shape, everywhere) for op in pools]

    images = (128, 64, 112, 112)
    return [
        *both("VGG k2 s2", images, 2, 2, 0, everywhere=True),
        *both("ResNet stem k3 s2 p1", images, 3, 2, 1, everywhere=True),
        *both("k3 s1 p1", images, 3, 1, 1, everywhere=True),
        *both("k7 s1 p3", images, 7, 1, 3),
        *both("k13 s1 p6", images, 13, 1, 6, everywhere=True),
        *both("GoogLeNet k3 s1 p1", (512, 192, 28, 28), 3, 1, 1),
        *both("YOLO SPPF k5 s1 p2", (1024, 256, 20, 20), 5, 1, 2),
        *both("SPP k13 s1 p6", (1024, 512, 13, 13), 13, 1, 6),
        *both("odd k3 s2 p1", (128, 64, 97, 131), 3, 2, 1),
        *both("U-Net 3-D k2 s2", (8, 32, 64, 128, 128), 2, 2, 0, 3),
        *both("volume k3 s1 p1", (8, 32, 64, 64, 64), 3, 1, 1, 3),
        *both("volume k5 s1 p2", (8, 32, 64, 64, 64), 5, 1, 2, 3),
        *both("volume k9 s1 p4", (8, 32, 64, 64, 64), 9, 1, 4, 3),
        *both("audio k4 s4", (64, 64, 16000), 4, 4, 0, 1),
        Workload("avg adaptive to 7", sg.AdaptiveAvgPool((7, 7)), images),
        Workload("max adaptive to 7", sg.AdaptiveMaxPool((7, 7)), images),
        Workload("avg adaptive to 10", sg.AdaptiveAvgPool((10, 10)), images),
        Workload("max adaptive to 10", sg.AdaptiveMaxPool((10, 10)), images),
        Workload("avg global", sg.GlobalAvgPool(2), images, True),
        Workload("max global", sg.GlobalMaxPool(2, ties="first"), images, True),
        Workload("max global, ties all", sg.GlobalMaxPool(2), images),
        Workload("smooth k2 s2", sg.SmoothMaxPool((2, 2), beta=1.0), images, True),
        Workload("smooth k3 s2 p1", sg.SmoothMaxPool((3, 3), stride=2, padding=1, beta=1.0), images),
    ]


def peer(op):
    """The operator by PyTorch's own functions."""
    rank = op.spatial_rank()
    if isinstance(op, sg.SmoothMaxPool):

        def smooth(t):
            n, c = t.shape[:2]
            pad, k = op.padding[0][0], op.kernel_size
            columns = F.unfold(t.reshape(n * c, 1, *t.shape[2:]), k, padding=pad, stride=op.stride)
            return (torch.logsumexp(op.beta * columns, 1) / op.beta).reshape(n, c, *op.output_shape(t.shape)[2:])

        return smooth
    if isinstance(op, sg.GlobalMaxPool):
        return lambda t: t.amax((2, 3), keepdim=True)
    if isinstance(op, sg.GlobalAvgPool):
        return lambda t: t.mean((2, 3), keepdim=True)
    kind = "max" if isinstance(op, sg.MaxPool | sg.AdaptiveMaxPool) else "avg"
    if isinstance(op, sg.AdaptiveMaxPool | sg.AdaptiveAvgPool):
        return lambda t: getattr(F, f"adaptive_{kind}_pool{rank}d")(t, op.output_size)
    pads = tuple(before for before, _ in op.padding)
    return lambda t: getattr(F, f"{kind}_pool{rank}d")(t, op.kernel_size, op.stride, pads)


def clock(call, calls=15):
    """The median time of a call on the device, in seconds; calls are queued ahead, so that none
    waits for the host."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.05:
        call()
        torch.cuda.synchronize()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(calls)]
    torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    queued = (time.perf_counter() - begun) * calls
    torch.cuda.synchronize()
    # cycles, less than 2e9 per second: long enough to queue all calls, at least some milliseconds
    torch.cuda._sleep(max(int(3e9 * queued), 8_000_000))
    for start, stop in events:
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events) / 1e3


def bandwidth():
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / clock(lambda: target.copy_(source))


def size(*tensors):
    return sum(t.nbytes for t in tensors)


def ours(op, x, speed):
    """(seconds, limit) of each rule."""
    y, kept = gpu.keep(op, (x,))
    gy = torch.randn_like(y)
    (gx,) = gpu.pull(op, (x,), kept, gy)
    again = isinstance(op, sg.SmoothMaxPool) or (getattr(op, "ties", "first") != "first" and len(kept) < 2)
    return {
        "forward": (clock(lambda: gpu.forward(op, (x,))), size(x, y) / speed),
        "keep": (clock(lambda: gpu.keep(op, (x,))), size(x, y, *kept) / speed),
        "backward": (
            clock(lambda: gpu.pull(op, (x,), kept, gy)),
            size(gy, gx, *kept, *((x,) if again else ())) / speed,
        ),
    }


def theirs(function, x):
    """Seconds of each rule that the peer supports."""
    found = {}
    try:
        with torch.no_grad():
            found["forward"] = clock(lambda: function(x), 7)
        leaf = x.detach().requires_grad_(True)
        found["keep"] = clock(lambda: function(leaf), 7)
        y = function(leaf)
        gy = torch.randn_like(y)
        found["backward"] = clock(lambda: torch.autograd.grad(y, leaf, gy, retain_graph=True), 7)
    except Exception as error:  # a peer that fails has no figure; the run goes on
        print(f"    peer failed: {type(error).__name__}: {str(error).splitlines()[0][:90]}")
    return found


def cases():
    """(workload, dtype, layout) of all cells."""
    others = [w for w in workloads() if w.everywhere]
    return [
        *((w, torch.float32, "contiguous") for w in workloads()),
        *((w, torch.bfloat16, "contiguous") for w in others),
        *((w, torch.float32, "channels_last") for w in others),
    ]


def operand(workload, dtype, layout):
    x = torch.randn(workload.shape, device="cuda").to(dtype)
    return x.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else x


def first_calls(index):
    """Seconds of our first calls of a case in another process; the peer is compiled too."""
    workload, dtype, layout = cases()[index]
    x = operand(workload, dtype, layout)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    y, kept = gpu.keep(workload.op, (x,))
    gpu.forward(workload.op, (x,))
    gpu.pull(workload.op, (x,), kept, y)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    del y, kept
    # else shapes of earlier cases would make this one's dynamic, a different graph than the main
    # process compiles
    torch._dynamo.reset()
    try:
        function = torch.compile(peer(workload.op))
        with torch.no_grad():
            function(x)
        leaf = x.requires_grad_(True)
        function(leaf).sum().backward()
    except Exception:  # the main process reports it
        pass
    return seconds


def warmed(indices, processes):
    """First calls of all cases, some in parallel; {} if processes is 0."""
    if processes < 1:
        return {}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        return dict(zip(indices, pool.map(first_calls, indices), strict=True))


def chart(cells):
    """An SVG: times divided by the limit for every cell on a logarithmic scale, ours next to the
    faster peer's."""
    left, line, width = 330, 16, 560
    top = max(c[p] for c in cells for p in ("ratio", "eager", "compile") if c[p])
    scale = width / math.log10(max(top, 10) * 1.1)
    parts, y = [], 40
    for grid in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        if grid <= top:
            x = left + scale * math.log10(grid)
            parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="30" y2="{40 + line * len(cells)}" stroke="#ddd"/>')
            parts.append(f'<text x="{x:.0f}" y="24" text-anchor="middle">{grid}</text>')
    for c in cells:
        best = min((c[p] for p in ("eager", "compile") if c[p]), default=None)
        for ratio, colour, offset in ((best, "#c8c8c8", 2), (c["ratio"], "#2a6fbb", 6)):
            if ratio:
                wide = max(scale * math.log10(max(ratio, 1)), 2)
                parts.append(f'<rect x="{left}" y="{y + offset}" width="{wide:.0f}" height="4" fill="{colour}"/>')
        words = f"{c['name']}, {c['dtype']}, {c['layout']}, {c['rule']}"
        parts.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{words}</text>')
        y += line
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{y + 20}" '
        'font-family="sans-serif" font-size="10">'
    )
    title = (
        '<text x="10" y="12" font-size="12">× copy limit: specgrad (blue), the faster of PyTorch eager and '
        "torch.compile (grey)</text>"
    )
    return "\n".join([head, title, *parts, "</svg>"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--seconds", type=float, default=400, help="after which torch.compile is no longer measured")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument(
        "--warm", type=int, default=max((os.cpu_count() or 4) - 3, 1), help="processes that compile ahead"
    )
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    begun = time.perf_counter()
    speed = bandwidth()
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout.strip()
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "copy TB/s": round(speed / 1e12, 3),
    }
    print(about)
    cells = []
    chosen = [i for i, (w, _, _) in enumerate(cases()) if options.only in w.name]
    firsts = warmed(chosen, options.warm)
    print(f"compiled ahead in {time.perf_counter() - begun:.0f} s")
    print(f"{'':44}{'':10}{'ms':>9}{'× limit':>9}{'× eager':>9}{'× compile':>10}")
    for index in chosen:
        workload, dtype, layout = cases()[index]
        x = operand(workload, dtype, layout)
        found = ours(workload.op, x, speed)
        eager = theirs(peer(workload.op), x)
        compiled = {}
        if not options.no_compile and time.perf_counter() - begun < options.seconds:
            torch._dynamo.reset()
            compiled = theirs(torch.compile(peer(workload.op)), x)
        for rule, (seconds, limit) in found.items():
            cell = {
                "name": workload.name,
                "dtype": str(dtype)[6:],
                "layout": layout,
                "rule": rule,
                "ms": seconds * 1e3,
                "ratio": seconds / limit,
                "eager": eager[rule] / limit if rule in eager else None,
                "compile": compiled[rule] / limit if rule in compiled else None,
            }
            cells.append(cell)
            gains = [f"{cell[p] / cell['ratio']:9.1f}" if cell[p] else f"{'–':>9}" for p in ("eager", "compile")]
            words = f"{workload.name}, {cell['dtype']}, {layout}" if rule == "forward" else ""
            print(f"{words:44}{rule:10}{cell['ms']:9.3f}{cell['ratio']:9.2f}{gains[0]}{gains[1]:>10}", flush=True)
        del x
        torch.cuda.empty_cache()
    if firsts:
        worst, middle = max(firsts.values()), statistics.median(firsts.values())
        print(
            f"first calls of a case, {options.warm} processes side by side, s: median {middle:.1f}, worst {worst:.1f}"
        )
    everything = {
        "about": about,
        "cells": cells,
        "first calls, s": [firsts[i] for i in sorted(firsts)],
    }

    def write():
        if options.json:
            options.json.write_text(json.dumps(everything, indent=1))

    write()  # before the networks, which may fail
    if not options.only:
        everything["networks"] = gpu_networks.cells(gpu_networks.parser().parse_args([]))
        everything["host µs, ours and torch's"] = gpu_host.table()
    peers = [min(p for p in (c["eager"], c["compile"]) if p) / c["ratio"] for c in cells if c["eager"] or c["compile"]]
    if peers:
        print(
            f"{len(cells)} cells in {time.perf_counter() - begun:.0f} s; slower than a peer: "
            f"{sum(p < 1 for p in peers)}"
        )
    write()
    if options.svg:
        options.svg.write_text(chart(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
