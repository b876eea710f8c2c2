"""A pyramid of a 100-gigapixel image in bounded memory: python examples/image_pyramid.py [SIDE].

The image is made chunk by chunk when a task needs it, and never held whole. Each level is the
maximum under a 3×3 window with stride 2 of the one before; windows cross the borders of chunks.
The curve at the end shows the memory of this process while the tasks ran. --json FILE adds the run
to a file; --svg FILE draws the curves of all runs in that file, and computes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np

import specgrad as sg

SIDE, CHUNK, SMALLEST = 316_228, 8192, 1024


def texture(first, block_info=None):
    """The cells of a chunk, from their places in the image."""
    (top, bottom), (left, right) = block_info[None]["array-location"]
    rows, columns = (np.arange(*ends, dtype=np.uint64) for ends in ((first + top, first + bottom), (left, right)))
    return np.add.outer((rows * rows % 251).astype(np.uint8), (columns * 7919 % 241).astype(np.uint8))


def image(side: int, chunk: int, first: int = 0, last: int | None = None) -> da.Array:
    """The rows from first to last of the lazily made image."""
    shape = ((side if last is None else last) - first, side)
    chunks = da.core.normalize_chunks(chunk, shape, dtype=np.uint8)
    return da.map_blocks(texture, first, chunks=chunks, dtype=np.uint8, meta=np.empty((0, 0), np.uint8))


def pyramid(x: da.Array, depth: int) -> list[da.Array]:
    """The image and so many smaller levels."""
    levels = [x]
    for _ in range(depth):
        levels.append(sg.max_pool(levels[-1], (3, 3), stride=2, padding=1))
    return levels


def slabs(side: int, chunk: int, depth: int) -> Iterator[da.Array]:
    """The rows of the highest level, from slabs of two rows of chunks, one after the other.

    Chunks wait for their neighbours: in a slab there are few of them, in a whole image a row. A
    window reads one row above its own two, so that a slab begins with the rows of one more row of
    the highest level, which is left out.
    """
    step = 2**depth
    rows = max(2 * chunk // step, 1) * step
    for start in range(0, side, rows):
        first = max(start - step, 0)
        top = pyramid(image(side, chunk, first, min(start + rows, side)), depth)[-1]
        yield top[(start - first) // step :]


class MemoryCurve:
    """The resident memory of this process, in MiB, at regular times within a ``with`` block."""

    def __init__(self, every: float) -> None:
        self.every, self.samples, self._done = every, [], threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            with open("/proc/self/statm", encoding="ascii") as file:
                self.samples.append(int(file.read().split()[1]) * 4096 / 2**20)
            if self._done.wait(self.every):
                return

    def peaks(self, most: int = 80) -> list[float]:
        """The highest sample of each of at most so many parts."""
        step = -(-len(self.samples) // most)
        return [max(self.samples[i : i + step]) for i in range(0, len(self.samples), step)]

    def __str__(self) -> str:
        """A line of bars, and what the highest one means."""
        peaks = self.peaks()
        bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * peak / max(peaks))] for peak in peaks)
        return f"{bars}  highest {max(peaks):.0f} MiB"


def main(side: int = SIDE, chunk: int = CHUNK, smallest: int = SMALLEST) -> tuple[np.ndarray, MemoryCurve]:
    start = time.perf_counter()
    depth = max(math.ceil(math.log2(side / smallest)), 0)
    print(f"{depth + 1} levels, {' → '.join(str(-(-side // 2**k)) for k in range(depth + 1))}", flush=True)
    with MemoryCurve(every=0.05) as curve, dask.config.set(scheduler="threads"):
        top = np.concatenate([slab.compute() for slab in slabs(side, chunk, depth)])
    gigapixels, seconds = side * side / 1e9, time.perf_counter() - start
    print(f"{gigapixels:.2f} gigapixels in {seconds:.0f} s, the image itself {side * side / 2**20:.0f} MiB\n{curve}")
    return top, curve


def picture(runs: list[dict]) -> str:
    """The curves of several runs: memory over the part of the time of each run."""
    left, wide, high = 60, 560, 240
    most = 1.1 * max(max(run["MiB"]) for run in runs)
    parts = [f'<line x1="{left}" y1="{high}" x2="{left + wide}" y2="{high}" stroke="#ccc"/>']
    for number, run in enumerate(runs):
        points = [
            f"{left + wide * i / max(len(run['MiB']) - 1, 1):.0f},{high * (1 - mib / most):.0f}"
            for i, mib in enumerate(run["MiB"])
        ]
        shade = f"hsl(212,68%,{75 - 50 * number // max(len(runs) - 1, 1)}%)"
        words = f"{run['gigapixels']:g} gigapixels: highest {max(run['MiB']):.0f} MiB, {run['seconds']:.0f} s"
        parts.append(f'<polyline fill="none" stroke="{shade}" stroke-width="1.5" points="{" ".join(points)}"/>')
        parts.append(f'<text x="{left}" y="{high + 20 + 16 * number}" fill="{shade}">{words}</text>')
    parts += [
        f'<text x="{left - 8}" y="{high * (1 - mib / most) + 4:.0f}" text-anchor="end">{mib}</text>'
        for mib in range(0, int(most), 500)
    ]
    size = f'width="{left + wide + 20}" height="{high + 24 + 16 * len(runs)}"'
    style = "svg{background:#fff}text{font:12px system-ui,sans-serif}"
    title = "Memory in MiB from the beginning to the end of each run"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{title}</title><style>{style}</style>'
    return head + "".join(parts) + "</svg>\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", type=int, nargs="?", default=SIDE)
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    runs = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    if given.svg:
        given.svg.write_text(picture(sorted(runs, key=lambda run: run["gigapixels"])))
    else:
        start = time.perf_counter()
        _, curve = main(given.side, given.chunk)
        about = {"gigapixels": round(given.side**2 / 1e9, 1), "seconds": round(time.perf_counter() - start)}
        if given.json:
            given.json.write_text(json.dumps([*runs, {**about, "MiB": [round(m) for m in curve.peaks()]}]) + "\n")
