"""The maximum: by folds in any order where cells are plain numbers, by winners where order shows or derivatives need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from ...memory import empty
from ...memory import room as room_of
from .cells import Array, Kind, Seen, canonical, handed_over, room_for, room_for_input, scratch, see
from .compiled import kernel
from .passes import Pass
from .plan import Plan
from .reads import offsets

Divisors = tuple[Array | None, Array | None, Array | None]
UNDIVIDED = (None, None, None)
FEW = 32  # cells of a window of which each is better written than the winner looked up


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
    made, found = seen.plan, seen.kind
    backwards = passes is not made.passes
    if not backwards and made.whole and not seen.origin:
        return fold_planes(seen, x, y, None, maximum, divides)
    if not backwards and made.direct[bool(maximum)]:
        fold_inside(seen, y, maximum)
        return False
    for turn, one in enumerate(passes):
        last = turn == len(passes) - 1
        target = y if last else room_of((one.outputs,), found.computed)
        divisors = made.divisors if divides and (turn == 0 if backwards else last) else UNDIVIDED
        bases = one.bases + seen.origin if seen.origin and turn == 0 and not backwards else one.bases
        if run_fold(one, found, x, target, bases, divisors, maximum):
            return True
        x = target
    return False


def fold_planes(
    seen: Seen, x: Array, y: Array, codes: Array | None, maximum: bool | None, divides: bool = False
) -> bool:
    """As `fold`, where each plane is one window; its winner too, where there is room for codes."""
    made, found = seen.plan, seen.kind
    by, over = (made.divisors[0][0], made.divisors[1][0]) if divides else (found.one, found.one)
    identity, run = found.lowest if maximum else found.zero, kernel("whole.fold_planes")
    return each_plane(made, lambda *tasks: run(x, y, codes, identity, maximum, made.whole, by, over, *tasks))


def run_fold(
    one: Pass, found: Kind, x: Array, y: Array, bases: Array, divisors: Divisors, maximum: bool | None
) -> bool:
    """One pass of a fold, by the kernel for small windows if it will do; whether the order of folding may show."""
    rows, reciprocals, columns = divisors
    identity, counter = found.lowest if maximum else found.zero, np.zeros(1, np.int64)
    if one.small is not None and (rows is None or rows.size == 1) and columns is None and bases is one.bases:
        by, over = (found.one, found.one) if rows is None or reciprocals is None else (rows[0], reciprocals[0])
        run, told = kernel("small.fold_small"), (x, y, identity, maximum, one.small, by, over, one.tasks, counter)
        return threads.share(lambda: run(*told, scratch("cells", one.scratch, found.computed)), len(one.tasks))
    if one.block is not None and columns is None and bases is one.bases:
        one = one.block
        bases = one.bases
    run = kernel("fold.fold_windows")
    told = (x, y, identity, maximum, *one.ways, bases, *one.tables, rows, reciprocals, columns, one.tasks, counter)
    return threads.share(
        lambda: run(*told, scratch("cells", one.scratch, found.computed), *block_of(one, x, y)), len(one.tasks)
    )


def find(seen: Seen, out: Array | None = None) -> tuple[Array, Array]:
    """The exact maximum (in `out` if it lies as the plan does), and in the order of the plan the code of each winner."""
    made, found = seen.plan, seen.kind
    flat, array = room_for(seen, out)
    width = np.uint8 if made.codes <= 255 else np.int32
    codes = room_of((flat.size,), width)
    if made.is_apart and not seen.origin:
        shows = fold_planes(seen, seen.flat, flat, codes, True) if made.whole else find_apart(seen, flat, codes)
        if not shows:
            blank(made, flat, 0)
            blank(made, codes, made.codes)
            return array, codes
    if made.inside is not None:
        find_inside(seen, flat, codes)
        blank(made, flat, 0)
        blank(made, codes, made.codes)
        return array, codes
    x, known = seen.flat, None
    for turn, one in enumerate(made.passes):
        last = turn == len(made.passes) - 1
        target = flat if last else room_of((one.outputs,), found.computed)
        codes = room_of((one.outputs,), width)
        bases = one.bases + seen.origin if seen.origin and turn == 0 else one.bases
        run_find(one, found, x, target, known, codes, bases)
        x, known = target, codes
    blank(made, flat, 0)
    blank(made, codes, made.codes)
    return array, codes


def find_inside(seen: Seen, y: Array, codes: Array) -> None:
    """Winners of planes that lie side by side."""
    walk_inside(
        "inner.find_inner", seen.plan, (seen.flat, y, codes, seen.kind.lowest), seen.origin, seen.plan.seen.inner
    )


def fold_inside(seen: Seen, y: Array, maximum: bool | None) -> None:
    """As `fold`, of planes that lie side by side, tap by tap in order."""
    made, found = seen.plan, seen.kind
    by, over = (found.one, found.one) if maximum else (made.divisors[0][0], made.divisors[1][0])
    identity = found.lowest if maximum else found.zero
    walk_inside("inner.fold_inner", made, (seen.flat, y, identity, maximum, by, over), seen.origin)


def walk_inside(name: str, made: Plan, operands: tuple[Any, ...], origin: int | None, leaders: int = 0) -> None:
    """Run a kernel on planes that lie side by side: the operand's from its origin on, or where there is none those of its cotangent."""
    assert made.inside is not None
    given, own, tables, tasks = made.inside
    ints, bases = own, np.arange(made.seen.planes) * made.plane
    if origin is not None:
        ints, bases = given, offsets(made.seen.outer, made.seen.outer_strides) + origin
    run, counter = kernel(name), np.zeros(1, np.int64)

    def work() -> None:
        taps = (scratch("taps", 2 * FEW, np.dtype(np.int64)),) if origin is not None else ()
        room = (scratch("codes", leaders, np.dtype(np.int32)),) if leaders else ()
        run(*operands, made.seen.inner, ints, bases, *tables, tasks, counter, *taps, *room)

    threads.share(work, len(tasks))


def find_apart(seen: Seen, y: Array, codes: Array) -> bool:
    """Winners of windows that hardly overlap; whether some are left to the exact search."""
    (one,), found, counter = seen.plan.passes, seen.kind, np.zeros(1, np.int64)
    rows, columns = one.rows, one.columns
    tables = (rows.first, rows.count, rows.start, columns.first, columns.count, columns.start)

    def work() -> Any:
        room = scratch("cells", columns.size, found.computed)
        code_room = scratch("codes", columns.size, np.dtype(np.int32))
        return kernel("whole.find_apart")(
            seen.flat, y, codes, found.lowest, one.ints, one.bases, *tables, one.tasks, counter, room, code_room
        )

    return threads.share(work, len(one.tasks))


def block_of(one: Pass, x: Array, *results: Array) -> tuple[Array | None, ...]:
    """Room for the planes that a pass lays out cell by cell, and for what comes of them; None if it does not."""
    if one.block_cells is None:
        return (None, None) if len(results) == 1 else (None, None, None)
    cells, outputs = one.block_cells
    return scratch("block", cells, x.dtype)[:cells], *(
        scratch(f"block out {turn}", outputs, result.dtype)[:outputs] for turn, result in enumerate(results)
    )


def run_find(one: Pass, found: Kind, x: Array, y: Array, known: Array | None, codes: Array, bases: Array) -> None:
    """One pass of a search for winners; `known` are the codes of the pass before, if there was one."""
    small = one.small is not None and known is None and bases is one.bases and codes.itemsize == 1
    counter = np.zeros(1, np.int64)
    if one.block is not None and known is None and bases is one.bases:
        one = one.block
        bases = one.bases

    def work() -> None:
        room = scratch("cells", one.scratch, found.computed)
        code_room = scratch("codes", one.code_scratch, np.dtype(np.uint8 if small else np.int32))
        if small:
            kernel("small_winners.find_small_winners")(
                x, y, codes, found.lowest, one.small, one.tasks, counter, room, code_room
            )
        else:
            kernel("winners.find_winners")(
                x, y, known, codes, found.lowest, one.strided, one.tall, one.ints, bases, one.rows.low, one.rows.first,
                one.rows.count, one.rows.start, *one.bins, one.tasks, counter, room, code_room, *block_of(one, x, y, codes),
            )  # fmt: skip

    threads.share(work, len(one.tasks))


def blank(made: Plan, flat: Array, number: int) -> None:
    """Write a number where windows have no real cell."""
    for where in made.empty:
        flat.reshape(made.grid)[where] = number


def keep(op: Any, x: Array, out: Array | None = None) -> tuple[Array, Winners]:
    seen = see(op, x)
    array, codes = find(seen, out)
    return handed_over(array, out), Winners(seen, codes)


def indices(op: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    """The maximum, and the place of the first winner in its plane."""
    y, kept = keep(op, x, out)
    return y, places(kept)


def places(kept: Winners) -> Array:
    """The place of each first winner in its plane."""
    (made, _, _, _), codes = kept
    found = empty(made.lengths, np.dtype(np.int64))
    ints, tables = np.array([made.codes, made.seen.inner, bool(made.empty)]), made.in_plane
    each_plane(made, lambda *tasks: kernel("scatter.index_winners")(codes, found.reshape(-1), ints, *tables, *tasks))
    return found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, _, _), codes = kept
    flat, dy = room_for(kept.seen, None)
    source = canonical(made, dx, of_output=False).view(found.stored)
    ints = np.array([made.codes, made.seen.inner, made.plane])
    tables = made.in_input
    each_plane(made, lambda *tasks: kernel("scatter.gather_winners")(source, codes, flat, ints, *tables, *tasks))
    return dy


def pull(kept: Winners, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, _, _), codes = kept
    flat, gx = room_for_input(kept.seen, out)
    arriving = canonical(made, gy, of_output=True).view(found.stored)
    if made.are_pairs and not found.half:
        assert made.small_back is not None
        small, tasks, _ = made.small_back
        counter, run = np.zeros(1, np.int64), kernel("apart.pull_pairs")
        threads.share(lambda: run(arriving, codes, flat, found.zero, small, tasks, counter), len(tasks))
        return gx
    if made.run:
        run, width = kernel("apart.pull_runs"), made.axes[-1]
        ints = np.array([made.run, width.size, width.length, math.prod(made.grid[1:-2])])
        each_plane(made, lambda *tasks: run(arriving, codes, flat, found.zero, ints, *tasks))
        return gx
    if made.inside is not None and made.unread is not None and made.codes <= FEW:
        for where in made.unread:
            flat.reshape(made.seen.planes, *(axis.size for axis in made.axes), made.seen.inner)[where] = 0
        walk_inside("inner.pull_inner", made, (arriving, codes, flat, found.zero), None)
        return gx
    ints, size = made.scattering
    if made.is_sparse:
        sow = kernel("scatter.sow_winners")
        each_plane(made, lambda *tasks: sow(arriving, codes, flat, ints, *made.in_input, *tasks))
        return gx

    def work(*tasks: Array) -> None:
        room = scratch("cells", size, found.computed)
        kernel("scatter.scatter_winners")(arriving, codes, flat, found.zero, ints, *made.in_input, *tasks, room)

    each_plane(made, work)
    return gx


def each_plane(made: Plan, work: Any) -> bool:
    """Call work(tasks, counter), which takes ranges of outer planes, on all threads; whether any of them says so."""
    tasks, counter = made.plane_tasks, np.zeros(1, np.int64)
    return threads.share(lambda: work(tasks, counter), len(tasks))
