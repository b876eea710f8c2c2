"""How a window over an axis falls into problems of their own, each over a slice of the cells.

The slice of a *part* holds the cells that some consecutive outputs read: the chunk and its halo.
The part's own axis over that slice has the same taps for these outputs, real and padded ones alike.
Nothing here knows dask.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..geometry import Adaptive, Axis, Sliding
from ..ops.window import AdaptiveWindow, WholeWindow


class Part(NamedTuple):
    """Outputs [first, last) of an axis, the cells [begin, end) they read, and their own axis."""

    first: int
    last: int
    begin: int
    end: int
    axis: Axis


def part(axis: Axis, first: int, last: int) -> Part:
    """These outputs of an axis as a problem of their own.

    Sliding outputs must read a real cell's place at least once, or be all of the axis. Adaptive
    ones must be whole periods, or a single one: the bins of a slice are then those of the axis.
    """
    if isinstance(axis, Adaptive):
        begin, end = axis.start(first), -axis.start(-last)
        return Part(first, last, begin, end, Adaptive(end - begin, last - first))
    start, stop = axis.start(first), axis.start(last - 1) + axis.extent
    if stop <= 0:  # all outputs there are, in padding alone
        return Part(first, last, 0, axis.size, axis)
    begin, end = max(start, 0), min(stop, axis.size)
    # the last part ends as the axis does, since ceil_mode asks where the padding ends
    is_last = last == axis.length and end == axis.size
    after = axis.after if is_last else min(stop, axis.size + axis.after) - end
    own = replace(axis, size=end - begin, before=begin - start, after=after)
    return Part(first, last, begin, end, own)


def tiles(axis: Axis, chunks: Sequence[int]) -> list[Part]:
    """All outputs of an axis, as parts that follow the chunks of its cells."""
    if not axis.length:  # a bin of one cell, of which there is none
        return [Part(0, 0, 0, 1, Adaptive(1, 0))]
    bounds = np.cumsum([0, *chunks]).tolist()
    if isinstance(axis, Adaptive):
        cells, outputs = _period(axis, chunks)
        cuts = {round(bound / cells) * outputs for bound in bounds} if cells else set(range(axis.length))
    else:  # an output belongs to the chunk in which its window starts
        cuts = {min(-(-(bound + axis.before) // axis.stride), axis.length) for bound in bounds[1:-1]}
    edges = sorted({0, *cuts, axis.length})
    if isinstance(axis, Sliding):  # outputs in padding alone go with those beside them
        while len(edges) > 2 and axis.start(edges[1] - 1) + axis.extent <= 0:
            del edges[1]
        while len(edges) > 2 and axis.start(edges[-2]) >= axis.size:
            del edges[-2]
    return [part(axis, *pair) for pair in itertools.pairwise(edges)]


def readers(axis: Axis, chunks: Sequence[int], begin: int, end: int) -> list[Part]:
    """The outputs that read one of the cells [begin, end), as parts."""
    first, _, count, _, step = axis.readers(np.arange(begin, end))
    if not count.any():
        return []
    low, high = int(first[count > 0].min()), int((first + (count - 1) * step)[count > 0].max()) + 1
    if isinstance(axis, Sliding):
        return [part(axis, low, high)]
    cells, outputs = _period(axis, chunks)
    if not cells:
        return [part(axis, output, output + 1) for output in range(low, high)]
    return [part(axis, low // outputs * outputs, -(-high // outputs) * outputs)]


def _period(axis: Adaptive, chunks: Sequence[int]) -> tuple[int, int]:
    """The cells after which bins repeat, and their outputs; 0 cells where they exceed a chunk."""
    shared = math.gcd(axis.size, axis.length)
    cells, outputs = axis.size // shared, axis.length // shared
    return (cells if cells <= max(chunks) else 0), outputs


def localised(op: Any, parts: Sequence[Part]) -> Any:
    """The operator of one part per spatial axis."""
    if isinstance(op, AdaptiveWindow):
        return replace(op, output_size=tuple(p.axis.length for p in parts))
    if hasattr(op, "kernel_size"):
        own = [p.axis for p in parts]
        return replace(op, padding=tuple((a.before, a.after) for a in own if isinstance(a, Sliding)))
    return replace(op, keepdims=True) if isinstance(op, WholeWindow) else op
