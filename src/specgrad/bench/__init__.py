"""`specgrad bench`: pooling times relative to a copy of the same bytes, and to the installed peers,
in the same run.

The limit of a call is (bytes of its inputs + bytes of its outputs) / the bandwidth of a copy with
the same threads in the same run. If a library can write to an existing array, both the library and
specgrad do so. Times are minima.
"""

from __future__ import annotations

import functools
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import dispatch, threads
from ..ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, MaxPool, SmoothMaxPool
from .layers import TABLES
from .peers import PEERS, Peer

Array = Any


@dataclass(frozen=True)
class Workload:
    """An operator on an input of a real network."""

    name: str
    op: Any
    shape: tuple[int, ...]


def workloads(quick: bool) -> list[Workload]:
    """The shapes of the benchmark; `quick` takes a quarter of the batch."""
    n = 2 if quick else 8

    def both(name: str, shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int) -> list[Workload]:
        made = [kind(kernel, stride=stride, padding=padding) for kind in (MaxPool, AvgPool)]
        return [Workload(f"{op.name.split('_')[0]} {name}", op, shape) for op in made]

    images = (n, 64, 112, 112)
    return [
        *both("ResNet stem k3 s2 p1", images, (3, 3), 2, 1),
        *both("VGG k2 s2", images, (2, 2), 2, 0),
        *both("GoogLeNet k3 s1 p1", (n, 192, 28, 28), (3, 3), 1, 1),
        *both("k3 s1 p1", images, (3, 3), 1, 1),
        *both("YOLO SPPF k5 s1 p2", (n, 256, 20, 20), (5, 5), 1, 2),
        *both("SPP k13 s1 p6", (n, 512, 13, 13), (13, 13), 1, 6),
        *both("k13 s1 p6", images, (13, 13), 1, 6),
        *both("odd k3 s2 p1", (n, 64, 97, 131), (3, 3), 2, 1),
        *both("U-Net 3-D k2 s2", (n // 2, 32, 32, 64, 64), (2, 2, 2), 2, 0),
        *both("volume k3 s1 p1", (1, 16, 32, 64, 64), (3, 3, 3), 1, 1),
        *both("volume k5 s1 p2", (1, 16, 32, 64, 64), (5, 5, 5), 1, 2),
        *both("volume k9 s1 p4", (1, 16, 32, 64, 64), (9, 9, 9), 1, 4),
        *both("audio k4 s4", (n, 64, 16000), (4,), 4, 0),
        Workload("adaptive avg to 7", AdaptiveAvgPool((7, 7)), images),
        Workload("adaptive max to 7", AdaptiveMaxPool((7, 7)), images),
        Workload("adaptive avg to 10", AdaptiveAvgPool((10, 10)), images),
        Workload("adaptive max to 10", AdaptiveMaxPool((10, 10)), images),
        Workload("global avg", GlobalAvgPool(2), images),
        Workload("global max", GlobalMaxPool(2, ties="first"), images),
        Workload("smooth k2 s2", SmoothMaxPool((2, 2), beta=1.0), images),
        Workload("smooth k3 s2 p1", SmoothMaxPool((3, 3), stride=2, padding=1, beta=1.0), images),
    ]


@dataclass
class Cell:
    """One measurement: workload, rule, library, seconds, and the limit."""

    workload: str
    rule: str
    who: str
    seconds: float
    limit: float

    @property
    def ratio(self) -> float:
        """Seconds divided by the limit."""
        return self.seconds / self.limit


def clock(call: Callable[[], Any], budget: float, least: int = 3) -> float:
    """The least time of a call, over at least so many calls and `budget` seconds."""
    call()
    best, spent, calls = math.inf, 0.0, 0
    while calls < least or spent < budget:
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best, spent, calls = min(best, took), spent + took, calls + 1
    return best


def bandwidth(budget: float) -> float:
    """Bytes read and written per second by a copy on all threads."""
    return speed_of(lambda source, target: np.copyto(target, source), budget)


def speed_of(run: Callable[[Array, Array], Any], budget: float) -> float:
    """Bytes read and written per second by a function of arrays (source, target), on all
    threads."""
    source = np.ones(1 << 24, np.float32)
    target = np.empty_like(source)
    step = source.size // 16
    pieces = [slice(a, a + step) for a in range(0, source.size, step)]
    seconds = clock(lambda: threads.run(lambda s: run(source[s], target[s]), pieces), budget)
    return 2 * source.nbytes / seconds


def exponentials(budget: float) -> float:
    """The time of NumPy's exp of an array, divided by the limit, for comparison with smooth
    maxima."""
    return bandwidth(budget) / speed_of(lambda source, target: np.exp(source, out=target), budget)


def specgrad_calls(load: Workload, x: Array) -> dict[str, tuple[Callable[[], Any], int]]:
    """The timed calls of specgrad, each with the bytes that it must move."""
    op, engine = load.op, dispatch.load("cpu")
    y = op(x)
    value, kept = engine.keep(op, (x,))
    codes, room = getattr(kept, "codes", None), engine.pull(op, (x,), kept, value)
    moved = {
        "forward": (lambda: op(x, out=y), x.nbytes + y.nbytes),
        "vjp": (lambda: engine.pull(op, (x,), kept, value, out=room), x.nbytes + y.nbytes),
    }
    if isinstance(codes, np.ndarray):  # an average keeps no codes
        moved["winners"] = (lambda: engine.keep(op, (x,), y), x.nbytes + y.nbytes + codes.nbytes)
        moved["vjp"] = (moved["vjp"][0], x.nbytes + y.nbytes + codes.nbytes)
    return moved


def measure(loads: list[Workload], peers: list[Peer], budget: float) -> Iterator[list[Cell]]:
    """The cells of each workload in turn."""
    rng = np.random.default_rng(0)
    for load in loads:
        speed = bandwidth(budget)
        x = rng.standard_normal(load.shape, np.float32)
        cells = []
        limits = {}
        for rule, (call, moved) in specgrad_calls(load, x).items():
            limits[rule] = moved / speed
            cells.append(Cell(load.name, rule, "specgrad", clock(call, budget), limits[rule]))
        for peer in peers:
            for rule, peer_call in peer.calls(load.op, x).items():
                if rule in limits:
                    cells.append(Cell(load.name, rule, peer.name, clock(peer_call, budget), limits[rule]))
        yield cells


def scaling(budget: float) -> dict[str, list[tuple[int, float]]]:
    """Times divided by the limit, by kernel size (rank 2, stride 1) and by rank (k3, stride 1)."""
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[int, float]]] = {}
    image = rng.standard_normal((32, 128, 128), np.float32)
    for kind in (MaxPool, AvgPool):
        for k in (1, 2, 3, 5, 7, 9, 13, 17, 21, 25, 31):
            op = kind((k, k), stride=1, padding=k // 2)
            out = op(image)
            seconds = clock(functools.partial(op, image, out=out), budget)
            limit = (image.nbytes + out.nbytes) / bandwidth(budget / 4)
            found.setdefault(f"{op.name}, kernel", []).append((k, seconds / limit))
        for rank, size in ((1, 1 << 19), (2, 724), (3, 80), (4, 27)):
            block = rng.standard_normal((1, *(size,) * rank), np.float32)
            op = kind((3,) * rank, stride=1, padding=1)
            out = op(block)
            seconds = clock(functools.partial(op, block, out=out), budget)
            limit = (block.nbytes + out.nbytes) / bandwidth(budget / 4)
            found.setdefault(f"{op.name}, rank", []).append((rank, seconds / limit))
    return found


def best_peer(cells: list[Any], rule: str) -> Any:
    """The fastest peer at a rule, or None."""
    return min((c for c in cells if c.rule == rule and c.who != "specgrad"), key=lambda c: c.seconds, default=None)


def run(quick: bool, json_file: Path | None, markdown: Path | None, plot: Path | None, console: Any) -> None:
    """Measure pooling, print the table, and write the requested files."""
    budget = 0.05 if quick else 0.3
    loads, peers = workloads(quick), [peer for peer in (make() for make in PEERS) if peer is not None]
    for peer in peers:
        peer.set_threads(threads.get_num_threads())
    found, table = show(
        measure(loads, peers, budget),
        len(loads),
        "specgrad bench",
        "× limit",
        lambda cell: f"{cell.ratio:.2f}",
        console,
    )
    with console.status("how cost scales"):
        scale, exp = scaling(budget / 2), exponentials(budget)
    # a pass reads and writes 2 arrays; smooth k2 s2 reads one and writes a quarter of it
    console.print(f"one pass of np.exp: {exp:.1f} × limit; over the input of smooth k2 s2 {1.6 * exp:.1f} × its limit")
    for name, points in scale.items():
        console.print(f"{name}: " + "  ".join(f"{at}: {ratio:.2f}" for at, ratio in points))
    facts = {"peers": [p.name for p in peers], "scaling": scale, "exp": exp}
    write(json_file, facts, [{**asdict(c), "ratio": c.ratio} for c in found])
    write_markdown(markdown, table)
    if plot:
        draw(scale, found, plot)


def named(shapes: str, only: str) -> list[str]:
    """The convolution layers whose names contain a text."""
    return [name for _, name, *_ in TABLES[shapes] if only in name]


def run_convolution(
    shapes: str, only: str, quick: bool, json_file: Path | None, markdown: Path | None, console: Any
) -> None:
    """Measure convolution, print the table, and write the requested files."""
    from . import convolution

    kept = "and freed memory is kept" if convolution.keep_freed_memory() else "by the C library's own rules"
    console.print(f"All results are allocated, {kept}.", highlight=False)
    todo = [layer for layer in convolution.layers(shapes, quick) if only in layer.name]
    cells = convolution.measure(todo, functools.partial(clock, budget=0.01 if quick else 0.04, least=1))
    speed = "GFLOP/s"
    found, table = show(
        cells, len(todo), "specgrad bench conv", speed, lambda c: f"{2e-9 * c.products / c.seconds:.1f}", console
    )
    for rule in dict.fromkeys(cell.rule for cell in found):
        ratios = [float(row[-1]) for row in table[1:] if row[1] == rule and row[-1] != "-"]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            console.print(f"{rule}: {mean:.2f} in the geometric mean, {min(ratios):.2f} at least", highlight=False)
    write(json_file, {}, [asdict(c) for c in found])
    write_markdown(markdown, table)


LINE = "  {:<15} {:>8} {:>8}   {:<20} {:>8} {:>9}"
"""The format of a table row, in less than 80 columns: rule, ms, our figure, best peer, its figure,
how many times faster."""


def show(
    parts: Iterator[list[Any]], total: int, title: str, unit: str, figure: Callable[[Any], str], console: Any
) -> tuple[list[Any], list[list[str]]]:
    """Run a benchmark with a progress bar, and print each cell next to the best peer's."""
    from rich.progress import Progress

    from ..engines.cpu.codegen.code_cache import announced

    rows = [["workload", "rule", "ms", unit, "best peer", unit, "× faster"]]
    found: list[Any] = []
    console.print(f"{title}: each workload, and below it its rules", style="bold")
    console.print(LINE.format(*rows[0][1:]), style="bold", highlight=False)
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        announced(lambda: console.print("compiling kernels (once)", style="dim")),
    ):
        task = progress.add_task("measuring", total=total)
        for cells in parts:
            found += cells
            if cells:
                console.print(cells[0].workload, highlight=False)
            for cell in (c for c in cells if c.who == "specgrad"):
                peer = best_peer(cells, cell.rule)
                theirs = (peer.who, figure(peer), f"{peer.seconds / cell.seconds:.2f}") if peer else ("-",) * 3
                rows.append([cell.workload, cell.rule, f"{1e3 * cell.seconds:.2f}", figure(cell), *theirs])
                console.print(LINE.format(*rows[-1][1:]), highlight=False)
            progress.advance(task)
    return found, rows


def write_markdown(file: Path | None, rows: list[list[str]]) -> None:
    """Write the table as Markdown."""
    if file:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        file.write_text("\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n")


def write(file: Path | None, facts: dict[str, Any], cells: list[dict[str, Any]]) -> None:
    """Write all cells and the facts of the run as JSON."""
    if file:
        here = {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "threads": threads.get_num_threads(),
        }
        file.write_text(json.dumps({**here, **facts, "cells": cells}, indent=1))


def draw(scale: dict[str, list[tuple[int, float]]], cells: list[Cell], file: Path) -> None:
    """Plot times by kernel size and rank, and the forward time of each workload next to the best
    peer's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(15, 5), width_ratios=(1, 1, 1.6))
    for panel, axis in zip(panels, ("kernel", "rank"), strict=False):
        for name, points in scale.items():
            if name.endswith(axis):
                panel.plot(*zip(*points, strict=True), marker="o", label=name.split(",")[0])
        panel.set_xlabel("kernel size (rank 2, stride 1)" if axis == "kernel" else "rank (kernel 3, stride 1)")
        panel.set_ylim(bottom=0)
        panel.axhline(1, color="grey", linestyle=":", label="the copy limit")
    panels[0].set_ylabel("× limit")
    panels[0].legend()
    ours = [c for c in cells if c.who == "specgrad" and c.rule == "forward"]
    others = [best_peer([c for c in cells if c.workload == own.workload], "forward") for own in ours]
    places = range(len(ours))
    panels[2].barh(places, [c.ratio for c in ours], label="specgrad")
    panels[2].plot([c.ratio if c else math.nan for c in others], places, "k|", markersize=9, label="the best peer")
    panels[2].set_yticks(places, [c.workload for c in ours], fontsize=7)
    panels[2].invert_yaxis()
    panels[2].set_xscale("log")
    panels[2].axvline(1, color="grey", linestyle=":")
    panels[2].set_xlabel("forward, × limit")
    panels[2].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)
