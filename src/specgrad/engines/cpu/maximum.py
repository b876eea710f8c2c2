"""The maximum: by folds in any order where cells are plain numbers, by winners where order shows or derivatives need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from .cells import Array, Kind, Seen, canonical, handed_over, room_for, room_for_input, see
from .compiled import kernel
from .plan import Pass, Plan, Task


class Winners(NamedTuple):
    """What the derivatives keep: which tap won, as one code per output cell, in the order of the plan."""

    seen: Seen
    codes: Array


def value(op: Any, x: Array, out: Array | None) -> Array:
    """The maximum alone."""
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    if fold(seen.plan.passes, seen, seen.flat, flat, maximum=True):
        result[...] = find(see(op, x))[0]
    else:
        blank(seen.plan, flat, 0)
    return handed_over(result, out)


def fold(passes: Sequence[Pass], seen: Seen, x: Array, y: Array, maximum: bool | None, divides: bool = False) -> bool:
    """Run the passes of a fold from x to y; whether a maximum met a NaN or a -0.0, in which the order of folding shows."""
    found, nothing = seen.kind, seen.kind.zero[:0]
    backwards = passes is not seen.plan.passes
    for turn, one in enumerate(passes):
        last = turn == len(passes) - 1
        target = y if last else np.empty(one.outputs, found.computed)
        divisors: tuple[Array, ...] = (nothing, nothing, nothing)
        if divides and (turn == 0 if backwards else last):
            divisors = seen.plan.divisors
        bases = one.bases + seen.origin if seen.origin and turn == 0 and not backwards else one.bases
        marks = np.zeros(one.outer if maximum else 0, np.uint8)
        threads.run(Fold(one, found, x, target, bases, divisors, marks, maximum), one.tasks)
        if maximum and marks.any():
            return True
        x = target
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """One pass of a fold; call it on a task."""

    one: Pass
    kind: Kind
    x: Array
    y: Array
    bases: Array
    divisors: tuple[Array, ...]
    marks: Array
    maximum: bool | None

    def __call__(self, task: Task) -> None:
        one, found, (rows, reciprocals, columns) = self.one, self.kind, self.divisors
        identity = found.lowest if self.maximum else found.zero
        scratch = np.empty(one.scratch, found.computed)
        if one.small is not None and rows.size <= 1 and not columns.size and self.bases is one.bases:
            by, over = (rows[0], reciprocals[0]) if rows.size else (found.computed.type(1),) * 2
            kernel("small.fold_small")(
                self.x, self.y, identity, self.maximum, one.small, by, over, self.marks, task, scratch
            )
            return
        kernel("fold.fold_windows")(
            self.x, self.y, identity, self.maximum, one.ints, self.bases, one.rows.low, one.rows.first, one.rows.count,
            *one.bins, rows, reciprocals, columns, self.marks, task, scratch,
        )  # fmt: skip


def find(seen: Seen) -> tuple[Array, Array]:
    """The exact maximum, and in the order of the plan the code of each winner."""
    made, found = seen.plan, seen.kind
    flat, array = room_for(seen, None)
    width = np.uint8 if made.codes <= 255 else np.int32
    x, codes = seen.flat, np.empty(0, width)
    known = codes
    for turn, one in enumerate(made.passes):
        last = turn == len(made.passes) - 1
        target = flat if last else np.empty(one.outputs, found.computed)
        codes = np.empty(one.outputs, width)
        bases = one.bases + seen.origin if seen.origin and turn == 0 else one.bases
        threads.run(Find(one, found, x, target, known, codes, bases), one.tasks)
        x, known = target, codes
    blank(made, flat, 0)
    blank(made, codes, made.codes)
    return array, codes


@dataclass(frozen=True, slots=True, eq=False)
class Find:
    """One pass of a search for winners; call it on a task."""

    one: Pass
    kind: Kind
    x: Array
    y: Array
    known: Array
    """The codes of the pass before, if there was one."""
    codes: Array
    bases: Array

    def __call__(self, task: Task) -> None:
        one, found = self.one, self.kind
        scratch, code_scratch = np.empty(one.scratch, found.computed), np.empty(one.code_scratch, np.int32)
        if one.small is not None and not self.known.size and self.bases is one.bases and self.codes.itemsize == 1:
            kernel("small_winners.find_small_winners")(
                self.x, self.y, self.codes, found.lowest, one.small, task, scratch, code_scratch
            )
            return
        kernel("winners.find_winners")(
            self.x, self.y, self.known, self.codes, found.lowest, one.ints, self.bases, one.rows.low, one.rows.first,
            one.rows.count, one.rows.start, *one.bins, task, scratch, code_scratch,
        )  # fmt: skip


def blank(made: Plan, flat: Array, number: int) -> None:
    """Write a number where windows have no real cell."""
    for where in made.empty:
        flat.reshape(made.grid)[where] = number


def keep(op: Any, x: Array) -> tuple[Array, Winners]:
    seen = see(op, x)
    array, codes = find(seen)
    return array, Winners(seen, codes)


def indices(op: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    """The maximum, and the place of the first winner in its plane."""
    y, kept = keep(op, x)
    return handed_over(y, out), places(kept)


def places(kept: Winners) -> Array:
    """The place of each first winner in its plane."""
    (made, _, _, _), codes = kept
    found = np.empty(made.lengths, np.int64)
    ints, tables = np.array([made.codes, made.seen.inner]), made.in_plane
    each_plane(made, lambda a, b: kernel("scatter.index_winners")(codes, found.reshape(-1), ints, *tables, a, b))
    return found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, _, _), codes = kept
    flat, dy = room_for(kept.seen, None)
    source = canonical(made, dx, of_output=False).view(found.stored)
    ints = np.array([made.codes, made.seen.inner, made.plane])
    tables = made.in_input
    each_plane(made, lambda a, b: kernel("scatter.gather_winners")(source, codes, flat, ints, *tables, a, b))
    return dy


def pull(kept: Winners, gy: Array) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, _, _), codes = kept
    flat, gx = room_for_input(kept.seen)
    arriving = canonical(made, gy, of_output=True).view(found.stored)
    by_code, heads, rows, columns = made.in_input
    reach = int(by_code[-1] + columns.max(initial=0)) + made.seen.inner
    ints = np.array([made.codes, made.seen.inner, made.plane, reach, found.half])

    def work(start: int, stop: int) -> None:
        scratch = np.empty(made.plane if found.half else 0, found.computed)
        kernel("scatter.scatter_winners")(
            arriving, codes, flat, found.zero, ints, by_code, heads, rows, columns, start, stop, scratch
        )

    each_plane(made, work)
    return gx


def each_plane(made: Plan, work: Any, grain: int = 1 << 18) -> None:
    """Call work(start, stop) over all outer planes, some `grain` cells at a time."""
    some = max(grain // max(made.plane, 1), 1)
    tasks = [(a, min(a + some, made.seen.planes)) for a in range(0, made.seen.planes, some)]
    threads.run(lambda task: work(*task), tasks)
