"""Windows that are folded, or searched for winners, one by one: where they are few for the cells that there are, and have rows that lie whole."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Integers
from ...remembering import remembered
from .cells import Kind
from .passes import TILE, VECTOR
from .plan import Plan
from .reads import offsets
from .together import Call

APART = 10  # cells for each window, from which on it is better searched by itself
UNEVEN = 3  # the same, of windows that are not alike
SHARED = 8  # windows that a row is then read by at most

READ = 0.3  # of the cells of a volume, up to which windows are better folded by themselves
READ_SUMS = 0.6  # the same, of sums of float64 that small windows are faster for
READ_LINES = 1.2  # the same, of sums of vectors of a line
LONG = 3  # vectors that windows of a line have at least which are alike; others, one
PLANES = 4  # from which threads have enough of them
NEAR = 1 << 13  # cells of a plane whose rows are found in the nearest cache when the next window reads on


class Apart(NamedTuple):
    """What the kernel `whole.find_apart` is told, its tasks, and its scratch."""

    told: tuple[Any, ...]
    tasks: Integers
    size: int


@remembered(256)
def apart(made: Plan) -> Apart | None:
    """The numbers and tables of these windows; None where another way is better."""
    reads, inner = made.three_reads, made.seen.inner
    if len(reads) > 3 or inner >= made.lanes or any(r.step != 1 for r in reads):
        return None
    heads, rows, columns = reads
    lies = made.seen.spatial_strides[-1] == inner and (inner == 1 or made.seen.inner_stride == 1)
    shared = heads.count.clip(0).sum() * rows.count.clip(0).sum() > SHARED * heads.size * rows.size
    if not lies or shared or not made.lanes <= columns.size * inner <= TILE:
        return None
    if inner > 1:
        worthwhile = columns.taps == 0 or columns.stride > 1
    else:  # small planes are searched side by side, which is cheap for windows of any kind
        least = UNEVEN if columns.taps == 0 and made.passes[0].block is None else APART
        worthwhile = least * math.prod(r.length for r in reads) <= math.prod(r.size for r in reads)
    if not worthwhile:
        return None
    steps = (*[0] * (3 - len(made.reads)), *made.seen.spatial_strides)
    ints = np.array([*steps[:2], columns.size, inner, rows.reach, columns.nominal])
    tables = [np.stack([r.first, r.count, r.start], axis=1) for r in reads]
    bases = offsets(made.seen.outer, made.seen.outer_strides)
    size = (columns.size + columns.length) * inner + 3 * VECTOR
    return Apart((None if inner == 1 else True, ints, bases, *tables), made.tasks_of_rows, size)


def find_apart(windows: Apart, found: Kind) -> Call:
    """The kernel for the maximum of each window and the code of its winner, which says whether some are left to the exact search."""
    rooms = ("cells", windows.size, found.computed), ("codes", windows.size, np.dtype(np.int32))
    return Call("whole.find_apart", (found.lowest, *windows.told), windows.tasks, *rooms)


@remembered(256)
def each(made: Plan, maximum: bool | None) -> tuple[Any, ...] | None:
    """The numbers and tables of windows whose folds leave most cells unread, or are sums of whole vectors; None where another way is better."""
    reads, rank, doubles = made.three_reads, len(made.reads), made.lanes < 16
    lies = made.seen.inner == 1 and made.seen.spatial_strides[-1] == 1 and all(r.step == 1 for r in reads)
    if rank > 3 or not lies or made.seen.planes < PLANES or 0 in made.grid:
        return None
    vectors = reads[-1].most // made.lanes
    if rank == 1:
        share = READ_LINES if not maximum and vectors >= (LONG if reads[-1].taps else 1) else 0
    elif doubles and not maximum:
        several = vectors > 0 and made.plane <= NEAR
        share = 1.0 if several or (rank == 3 and made.passes[0].small is None) else READ_SUMS if rank == 3 else 0
    else:
        share = READ if rank == 3 and (doubles or not maximum) else 0
    if math.prod(int(r.count.clip(0).sum()) for r in reads) > share * made.plane:
        return None
    steps = (*[0] * (3 - len(made.reads)), *made.seen.spatial_strides)
    tables = [np.stack([r.first, r.count], axis=1) for r in reads]
    divisors = np.ones(1) if maximum else made.window_divisors
    return np.array(steps[:2]), offsets(made.seen.outer, made.seen.outer_strides), *tables, divisors
