"""Windows of few taps along lines, up to 4 cells apart, as one-dimensional pooling of signals has them: folded where the lines lie."""

from __future__ import annotations

import numpy as np

from ...geometry import Integers, strides
from ...remembering import remembered
from .passes import plane_ranges
from .plan import Plan
from .reads import offsets

TAPS = 8  # at most: more are better folded in several passes over a line
EDGES = 8  # outputs of a line that are folded one by one, at most


@remembered(256)
def along_lines(made: Plan) -> tuple[Integers, Integers] | None:
    """The numbers and tasks of the kernel `lines.fold_lines`; None where another way is better, or lines do not lie one after the other."""
    *others, last = made.reads
    n, lines = last.size, made.seen.planes * int(np.prod([r.size for r in others]))
    few = 1 < last.taps <= TAPS and last.stride <= 4
    if not few or not all(r.is_still for r in others) or made.seen.inner > 1 or lines == 0:
        return None
    if made.passes[0].block is not None:  # short lines are walked side by side
        return None
    sizes = tuple(axis.size for axis in made.axes)
    bases = offsets(made.seen.outer, made.seen.outer_strides)
    if strides(sizes) != made.seen.spatial_strides or (bases != np.arange(bases.size) * made.plane).any():
        return None
    span = (last.taps - 1) * last.dilation + last.stride * made.lanes
    start = -(-last.offset // last.stride)
    furthest = (n + last.offset - span) // last.stride  # from which a vector of windows ends in the line
    stop = furthest + made.lanes
    if furthest < start or stop > last.length or start + last.length - stop > EDGES:
        return None
    ints = np.array([n, last.length, last.taps, last.stride, last.dilation, last.offset, start, stop])
    return ints, plane_ranges(lines, n)
