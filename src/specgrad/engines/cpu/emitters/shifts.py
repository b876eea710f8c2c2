"""Short rows in one register: the taps of windows are shifted lanes of the register.

A run of taps is combined from two runs of half its length, so a window of k taps takes some 2·log k
shifts and combines. Taps before a window's own position are runs that end there, and taps from it
on are runs that begin there. So no shift loses a cell, and lanes without a cell hold padding.
"""

from __future__ import annotations

from collections.abc import Callable

from ..codegen.builder import Kernel
from ..codegen.combine import Part, Sum
from ..codegen.values import Pointer
from .windows import Window, fold_parts


def load_row(k: Kernel, combine: Sum, row: Pointer, size: int, lanes: int) -> Part:
    """The `size` cells of a row, and padding in the lanes behind them; nothing beyond the row is
    read."""
    half = 1 << (size.bit_length() - 1)
    begin, end = k.load(row, 0, half), k.load(row, size - half, half)
    places = [i if i < half else min(half + i - (size - half), 2 * half - 1) for i in range(lanes)]
    cells, padding = k.shuffle(begin, end, places), combine.nothing(k, lanes)[0]
    return combine.first(k, k.shuffle(cells, padding, [i if i < size else lanes for i in range(lanes)]), 0)


def fold_row(k: Kernel, combine: Sum, taps: Part, window: Window, before: int) -> Part:
    """The windows of a row, whose cells are the first taps: in lane o the window that begins
    `before` cells before cell o · stride."""
    lanes, nothing = taps[0].lanes, combine.nothing(k, taps[0].lanes)

    def shifted(part: Part, by: int) -> Part:
        places = [i + by if 0 <= i + by < lanes else lanes for i in range(lanes)]
        return part if not by else [k.shuffle(a, b, places) for a, b in zip(part, nothing, strict=True)]

    count = min(-(-before // window.dilation), window.taps)  # of taps before the window's own place
    parts = []
    if count:
        nearest = shifted(taps, (count - 1) * window.dilation - before)
        parts.append((_run(k, combine, nearest, count, lambda part, to: shifted(part, -to * window.dilation)), 0))
    if count < window.taps:
        own = shifted(taps, count * window.dilation - before)
        rest = window.taps - count
        parts.append((_run(k, combine, own, rest, lambda part, to: shifted(part, to * window.dilation), True), count))
    folded = fold_parts(k, combine, parts)[0]
    places = [min(i * window.stride, lanes - 1) for i in range(lanes)]
    return folded if window.stride == 1 else [k.shuffle(one, one, places) for one in folded]


def _run(
    k: Kernel, combine: Sum, one: Part, taps: int, moved: Callable[[Part, int], Part], begins: bool = False
) -> Part:
    """So many taps that begin, or end, with this one; `moved` takes a part from so many taps
    further on."""
    runs, length = {1: one}, 1
    while 2 * length <= taps:
        further = moved(runs[length], length)
        pair = (runs[length], further) if begins else (further, runs[length])
        runs[2 * length] = combine.join(k, *pair, length)
        length *= 2
    parts, start = [], 0
    while start < taps:
        own = next(n for n in sorted(runs, reverse=True) if n <= taps - start or (start and combine.overlaps))
        start = min(start, taps - own)
        parts.append((moved(runs[own], start if begins else taps - start - own), start))
        start += own
    return fold_parts(k, combine, parts)[0]
