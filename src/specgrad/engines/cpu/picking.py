"""Windows of one cell each, as in the strided 1×1 pooling of feature pyramids: the value is those cells, and a cotangent goes back to its cell."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Integers, strides
from ...remembering import remembered
from .cells import Array, Kind
from .passes import BLOCK, plane_ranges
from .plan import Plan
from .reads import offsets, sums
from .together import Call, together


class Picked(NamedTuple):
    """What the kernels of `picking` are told, and their tasks: forwards, and backwards by one of two kernels."""

    told: tuple[Any, ...]
    tasks: Integers
    back: str
    told_back: tuple[Any, ...]
    tasks_back: Integers


def cells(found: Picked | None) -> int:
    """How many cells the tables have."""
    return 0 if found is None else sum(np.size(table) for table in (*found.told, *found.told_back))


@remembered(256, cells)
def picked(made: Plan) -> Picked | None:
    """The numbers and tables of these windows; None where they have more or fewer cells than one, or the same, or lie unevenly in a row."""
    layout, inner = made.seen, made.seen.inner
    alone = all(((r.count == 1) & (r.first == r.start)).all() for r in made.reads)
    if not alone or made.unread is None or 0 in made.grid or (inner > 1 and layout.inner_stride != 1):
        return None
    axes = list(zip(made.reads, layout.spatial_strides, strict=True))
    while len(axes) > 1 and axes[-1][0].length == axes[-1][0].size and axes[-1][1] == inner:
        inner *= axes.pop()[0].size  # windows beside one another are moved as one
    *leading, (last, column) = axes
    if np.diff(last.first, 2).any():
        return None
    first, step = int(last.first[0]), int(np.diff(last.first[:2]).sum())
    rows, planes = sums([r.first * n for r, n in leading]), offsets(layout.outer, layout.outer_strides)
    told = np.array([first * column, step * column, last.length, inner]), planes, rows
    sizes = tuple(r.size for r, _ in leading)
    having = sums([r.first * n for (r, _), n in zip(leading, strides(sizes), strict=True)])
    here = np.arange(math.prod(sizes))
    windows = here - np.append(having, here.size)[np.searchsorted(having, here)]
    windows[having] = np.arange(rows.size)
    told_back = np.array([first * inner, step * inner, last.length, inner, last.size * inner, rows.size]), windows
    tasks = plane_ranges(layout.planes * rows.size, last.length * inner)
    if inner == 1 and made.plane <= BLOCK:
        places = sums([having * last.size, last.first])
        return Picked(told, tasks, "picking.put_in_planes", (places, made.plane), made.plane_tasks)
    tasks_back = plane_ranges(layout.planes * windows.size, last.size * inner)
    return Picked(told, tasks, "picking.put_back", told_back, tasks_back)


def pick(windows: Picked, origin: int) -> Call:
    """The kernel for y = the cells that are windows, as bits, of an operand that begins with its cell `origin`."""
    ints, planes, rows = windows.told
    return Call("picking.pick", (ints, planes + origin if origin else planes, rows), windows.tasks)


def put_back(windows: Picked, gy: Array, gx: Array, found: Kind) -> None:
    """gx = 0 + the cotangents, both in the order of the plan, at the cells that are windows, and 0 elsewhere."""
    together(windows.back, (gy, gx, found.zero, *windows.told_back), windows.tasks_back)


def as_bits(cells: Array) -> Array:
    """Cells that are moved and not computed with."""
    return cells.view(f"u{cells.itemsize}")
