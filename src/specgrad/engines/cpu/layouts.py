"""Operands that lie otherwise than kernels walk them best: their cells are brought together on all threads, at once or some planes at a time, which are
then pooled while they are in the caches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...geometry import Integers, Shape, strides
from ...memory import room
from ...remembering import remembered
from .cells import Array, Kind, Seen, spanned, unlocked
from .folds import are_sparse
from .passes import make_tasks
from .picking import as_bits, picked
from .plan import Plan
from .reads import TRIVIAL, offsets, sums
from .together import Call

SOME = 1 << 20  # cells that are brought together, or widened, at a time
MANY = 1 << 16  # cells from which on threads are better than NumPy
READ = 0.3  # of the cells of an operand that windows must read, if all are to be brought together


def canonical(made: Plan, array: Array, of_output: bool) -> Array:
    """A tangent or cotangent, flat in the order in which the plan sees its operand (copied if it lies otherwise)."""
    array = unlocked(array)
    flags = array.flags
    if made.is_in_order and flags.c_contiguous and flags.aligned:
        return array.ravel()
    shape = made.lengths if of_output else made.given
    full = tuple(shape[made.back[p]] for p in range(len(shape)))
    return gathered(array.reshape(full).transpose(made.seen.order))


def gathered(view: Array) -> Array:
    """The cells of an array, end to end in row-major order."""
    flags, size = view.flags, view.itemsize
    if (
        (flags.c_contiguous and flags.aligned)
        or view.size < MANY
        or not (flags.aligned and view.dtype.isnative)
        or any(step % size for step in view.strides)
    ):
        return np.require(view, requirements=("C", "A")).reshape(-1)
    flat, origin = spanned(view)
    cells = room((view.size,), view.dtype)
    gathering(view.shape, tuple(step // size for step in view.strides), origin, size)(as_bits(flat), as_bits(cells))
    return cells


def cells_told(call: Call) -> int:
    """How many cells the tables of a kernel have."""
    return sum(np.size(table) for table in call.told)


@remembered(256, cells_told)
def gathering(shape: Shape, step: Shape, origin: int, size: int) -> Call:
    """The kernel that brings together the cells, as bits, of an array of this shape and these strides in elements, whose first one is cell `origin`; a call is of
    cells of one size."""
    *outer, height, width = (1, 1, *shape)
    *outer_steps, down, across = (0, 0, *step)
    return gather(offsets(tuple(outer), tuple(outer_steps)) + origin, (height, width, down, across))


def gather(bases: Integers, plane: tuple[int, int, int, int]) -> Call:
    """The kernel that brings together planes that begin at `bases`: how many rows and columns they have, and how far these are apart."""
    height, width, _, _ = plane
    rows, columns = replace(TRIVIAL, size=height, length=height), replace(TRIVIAL, size=width, length=width)
    tasks = make_tasks(bases.size, rows, columns, 1, width)[:, :4]
    return Call("gathered.gather_cells", (np.array(plane), bases), np.ascontiguousarray(tasks))


def pieces(made: Plan, found: Kind) -> list[tuple[int, int, Plan]]:
    """Ranges of planes, and the plan of each as cells of this kind that lie end to end."""
    key = "pieces", found.code
    known: list[tuple[int, int, Plan]] | None = made.calls.get(key)
    if known is None:
        planes, inner, sizes = made.seen.planes, made.seen.inner, tuple(axis.size for axis in made.axes)
        least = -(-planes * max(made.plane, math.prod(made.grid[1:])) // SOME)
        some = max(-(-planes // max(least, 1)), 1)
        plans = {}
        for count in {min(some, planes), planes % some}:
            given = (count, *sizes) if inner == 1 else (count, *sizes, inner)
            steps = strides((count, *sizes, inner))
            seen = replace(
                made.seen,
                order=tuple(range(len(given))),
                outer=(count,),
                outer_strides=steps[:1],
                spatial=tuple(range(1, len(sizes) + 1)),
                spatial_strides=steps[1:-1],
                inner_stride=1,
            )
            one = replace(made, seen=seen, half=0, computed=found.code, given=given)
            plans[count] = replace(one, shape=one.lengths)
        known = made.calls[key] = [
            (start, min(start + some, planes), plans[min(some, planes - start)]) for start in range(0, planes, some)
        ]
    return known


Run = Callable[[Seen, Array, Array, slice], Any]
"""What is made of some planes: it is told their plan, their cells and those of the result, and where among all of the result's these are. Whether it says so,
after which it is not run again."""


def in_pieces(seen: Seen, target: Array, run: Run) -> bool:
    """target = what `run` makes of an operand, some planes at a time that are brought together. Whether it says so."""
    made, found = seen.plan, seen.kind
    windows = math.prod(made.grid[1:])
    known = pieces(made, found)
    memory = room((max((stop - start for start, stop, _ in known), default=0) * made.plane,), found.computed)
    for start, stop, some in known:
        cells, where = memory[: (stop - start) * made.plane], slice(start * windows, stop * windows)
        gather_some(seen, start, stop)(as_bits(seen.flat), as_bits(cells))
        if run(Seen(some, found, cells, 0), cells, target[where], where):
            return True
    return False


def gather_some(seen: Seen, start: int, stop: int) -> Call:
    """The kernel that brings some planes together."""
    made, key = seen.plan, ("gather", start)
    known: Call | None = made.calls.get(key)
    if known is None:
        layout = made.seen
        *heads, height, width = (1, *(axis.size for axis in made.axes))
        *steps, down, across = (0, *layout.spatial_strides)
        planes = offsets(layout.outer, layout.outer_strides)[start:stop] + seen.origin
        bases = sums([planes, offsets(tuple(heads), tuple(steps))])
        known = made.calls[key] = gather(bases, (height, width, down, across))
    return known


def is_scattered(seen: Seen, kernels: Callable[[Seen], list[Call]]) -> bool:
    """Whether an operand is better brought together: windows read many of its cells, and its columns do not lie side by side, or other `kernels` run if its planes
    lie end to end, unless its rows are long for what is folded of them."""
    made = seen.plan
    if seen.is_whole:
        return False
    key = "scattered", kernels
    known: bool | None = made.calls.get(key)
    if known is None:
        read = math.prod(int(r.count.clip(0).sum()) / max(r.size, 1) for r in made.reads)
        known = made.seen.inner == 1 and read >= READ and picked(made) is None and 0 not in made.grid
        if known and made.seen.spatial_strides[-1] == 1:
            own, piece = kernels(seen), Seen(pieces(made, seen.kind)[0][2], seen.kind, seen.flat, 0)
            stays = own[0].name == "fold.fold_windows" and are_sparse(made.passes[0], made.lanes)
            known = not stays and any(map(differ, own, kernels(piece)))
        made.calls[key] = known
    return known


def differ(one: Call, other: Call) -> bool:
    """Whether two calls run other kernels, or but one of them lays out planes cell by cell."""
    return one.name != other.name or [room is None for room in one.rooms] != [room is None for room in other.rooms]
