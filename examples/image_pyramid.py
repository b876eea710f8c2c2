"""A pyramid of a 100-gigapixel image in bounded memory: python examples/image_pyramid.py [SIDE].

The image is made chunk by chunk when a task needs it, and never held whole. Each level is the
maximum under a 3×3 window with stride 2 of the one before; windows cross the borders of chunks.
The curve at the end shows the memory of this process while the tasks ran.
"""

from __future__ import annotations

import sys
import threading
import time

import dask
import dask.array as da
import numpy as np

import specgrad as sg

SIDE, CHUNK, SMALLEST = 316_228, 8192, 1024


def texture(block_info=None):
    """The cells of a chunk, from their places in the image."""
    (top, bottom), (left, right) = block_info[None]["array-location"]
    rows, columns = np.arange(top, bottom, dtype=np.uint64)[:, None], np.arange(left, right, dtype=np.uint64)
    return ((rows * rows + columns * 7919) % 251).astype(np.uint8)


def image(side: int, chunk: int) -> da.Array:
    """The lazily made image."""
    chunks = da.core.normalize_chunks(chunk, (side, side), dtype=np.uint8)
    return da.map_blocks(texture, chunks=chunks, dtype=np.uint8, meta=np.empty((0, 0), np.uint8))


def pyramid(x: da.Array, smallest: int) -> list[da.Array]:
    """The image and its levels, down to one that is at most `smallest` cells wide."""
    levels = [x]
    while max(levels[-1].shape) > smallest:
        levels.append(sg.max_pool(levels[-1], (3, 3), stride=2, padding=1))
    return levels


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

    def __str__(self) -> str:
        """A line of bars, at most 80, and what the highest one means."""
        step = max(len(self.samples) // 80, 1)
        peaks = [max(self.samples[i : i + step]) for i in range(0, len(self.samples), step)]
        bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * peak / max(peaks))] for peak in peaks)
        return f"{bars}  highest {max(peaks):.0f} MiB"


def main(side: int = SIDE, chunk: int = CHUNK, smallest: int = SMALLEST) -> tuple[np.ndarray, MemoryCurve]:
    start = time.perf_counter()
    levels = pyramid(image(side, chunk), smallest)
    print(f"{len(levels)} levels, {' → '.join(str(level.shape[0]) for level in levels)}")
    with MemoryCurve(every=0.2) as curve, dask.config.set(scheduler="threads"):
        top = levels[-1].compute()
    gigapixels, seconds = side * side / 1e9, time.perf_counter() - start
    print(f"{gigapixels:.2f} gigapixels in {seconds:.0f} s, the image itself {side * side / 2**20:.0f} MiB\n{curve}")
    return top, curve


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
