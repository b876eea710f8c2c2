"""The maximum: by folds in any order where cells are plain numbers, by winners where order shows or derivatives need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...memory import empty
from ...memory import room as room_of
from ...threads import get_num_threads
from . import halves
from .apart import apart, each, find_apart
from .cells import BITS, Array, Kind, Seen, canonical, handed_over, room_for, room_for_input, see
from .landing import landing, scattering
from .passes import VECTOR, Pass, plane_ranges
from .picking import pick, picked, put_back
from .plan import Plan
from .together import Room, together

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
    windows = None if backwards or (divides and not made.is_undivided) else picked(made)
    if windows is not None:
        pick(seen, windows, y)
        return False
    if not backwards and made.whole and not seen.origin:
        return fold_planes(seen, x, y, None, maximum, divides)
    alone = each(made, maximum) if not backwards and (maximum or divides) else None
    if alone is not None:
        ints, bases, *tables = alone
        told = (x, y, found.lowest if maximum else found.zero, maximum, ints, bases + seen.origin, *tables)
        return together("windows.fold_each", told, made.plane_tasks)
    if not backwards and made.direct[bool(maximum)]:
        fold_inside(seen, y, maximum)
        return False
    key = backwards, maximum, divides, seen.origin
    if key not in made.folds:
        made.folds[key] = steps(passes, seen, maximum, divides)
    for step in made.folds[key]:
        target = y if step.cells is None else room_of((step.cells,), found.computed)
        if together(step.name, (x, target, *step.told), step.tasks, *step.rooms):
            return True
        x = target
    return False


class Step(NamedTuple):
    """One pass of a fold: its kernel, what that is told beside its operand and its result, and of how many cells the result is a step's operand."""

    name: str
    told: tuple[Any, ...]
    tasks: Array
    rooms: tuple[Room | None, ...]
    cells: int | None


def steps(passes: Sequence[Pass], seen: Seen, maximum: bool | None, divides: bool) -> list[Step]:
    """The passes of a fold, each by the kernel for small windows if it will do."""
    made, found = seen.plan, seen.kind
    backwards, last = passes is not made.passes, len(passes) - 1
    identity, undivided = found.lowest if maximum else found.zero, None if maximum else found.zero[:0]
    at_once = None if backwards else cubes(seen, made.divisors if divides else UNDIVIDED, identity, maximum)
    if at_once is not None:
        return [at_once]
    made_of = []
    for turn, one in enumerate(passes):
        given = made.divisors if divides and turn == last else UNDIVIDED
        rows, rests, columns = given
        bases = one.bases + seen.origin if seen.origin and turn == 0 and not backwards else one.bases
        cells, narrow = None if turn == last else one.outputs, columns is None and bases is one.bases
        if one.small is not None and narrow and (rows is None or rows.size == 1):
            over, rest = found.one if rows is None or rests is None else (rows[0], rests[0])
            told: tuple[Any, ...] = (identity, maximum, one.small, over, rest)
            made_of.append(Step("small.fold_small", told, one.tasks, (("cells", one.scratch, found.computed),), cells))
            continue
        if one.block is not None and narrow:
            one = one.block
            bases = one.bases
        told = (identity, maximum, *one.ways, bases, *one.tables, *(undivided if n is None else n for n in given))
        given_as = found.stored if turn == 0 and (divides or not backwards) else found.computed  # shares are computed
        dtypes = given_as, found.stored if turn == last else found.computed
        rooms = ("cells", one.scratch, found.computed), *block_of(one, *dtypes)
        made_of.append(Step("fold.fold_windows", told, one.tasks, rooms, cells))
    return made_of


def cubes(seen: Seen, divisors: tuple[Any, ...], identity: Array, maximum: bool | None) -> Step | None:
    """The one pass over windows of 2×2×2 cells that share none, in rows of a vector at least, on volumes that lie whole; None for others."""
    passes, found, (over, rest, columns) = seen.plan.passes, seen.kind, divisors
    if len(passes) != 2 or passes[0].small is None or seen.origin or columns is not None:
        return None
    axes = passes[1].rows, passes[0].rows, passes[0].columns
    if (
        not all(axis.run == 2 for axis in axes)
        or axes[2].length * found.computed.itemsize < VECTOR
        or (over is not None and over.size != 1)
    ):
        return None
    lengths = np.array([n for axis in axes for n in (axis.size, axis.length)])
    told = identity, maximum, lengths, *(found.one if over is None or rest is None else (over[0], rest[0]))
    planes = passes[0].outer // axes[0].size * axes[0].length
    return Step("cubes.fold_cubes", told, plane_ranges(planes, 2 * axes[1].size * axes[2].size), (), None)


def fold_planes(
    seen: Seen, x: Array, y: Array, codes: Array | None, maximum: bool | None, divides: bool = False
) -> bool:
    """As `fold`, where each plane is one window; its winner too, where there is room for codes."""
    made, found = seen.plan, seen.kind
    over, rest = (made.divisors[0][0], made.divisors[1][0]) if divides else found.one
    told = (x, y, codes, found.lowest if maximum else found.zero, maximum, made.whole, over, rest)
    return together("whole.fold_planes", told, made.plane_tasks)


def find(seen: Seen, out: Array | None = None) -> tuple[Array, Array]:
    """The exact maximum (in `out` if it lies as the plan does), and in the order of the plan the code of each winner."""
    made = seen.plan
    flat, array = room_for(seen, out)
    codes = winners_of(seen, flat)
    blank(made, flat, 0)
    blank(made, codes, made.codes)
    return array, codes


def winners_of(seen: Seen, y: Array) -> Array:
    """The code of each winner, the maxima being written into y."""
    made = seen.plan
    width = np.uint8 if made.codes <= 255 else np.int32
    windows = picked(made)
    if windows is not None:
        pick(seen, windows, y)
        return np.zeros(y.size, width)
    if not seen.origin:
        alone = made.whole > 0 and made.whole == made.codes  # a padded window has codes for its padding, too
        few = None if alone else apart(made)
        if alone or few is not None:
            codes = room_of((y.size,), width)
            if not (find_apart(seen, few, y, codes) if few else fold_planes(seen, seen.flat, y, codes, True)):
                return codes
    if made.inside is not None:
        codes = room_of((y.size,), width)
        find_inside(seen, y, codes)
        return codes
    found = search(seen, y, width, None)
    if found is None:
        found = search(seen, y, width, True)
        assert found is not None
    return found


def search(seen: Seen, y: Array, width: Any, nans: bool | None) -> Array | None:
    """Write maxima, pass by pass; the codes of their winners, or None if there are NaNs and nobody knew (`nans` is None)."""
    made, found = seen.plan, seen.kind
    x, known = seen.flat, None
    for turn, one in enumerate(made.passes):
        target = y if turn == len(made.passes) - 1 else room_of((one.outputs,), found.computed)
        codes = room_of((one.outputs,), width)
        bases = one.bases + seen.origin if seen.origin and turn == 0 else one.bases
        if run_find(one, found, x, target, known, codes, bases, nans):
            return None
        x, known = target, codes
    return known


def find_inside(seen: Seen, y: Array, codes: Array) -> None:
    """Winners of planes that lie side by side."""
    walk_inside(
        "inner.find_inner", seen.plan, (seen.flat, y, codes, seen.kind.lowest), seen.origin, seen.plan.seen.inner
    )


def fold_inside(seen: Seen, y: Array, maximum: bool | None) -> None:
    """As `fold`, of planes that lie side by side, tap by tap in order."""
    made, found = seen.plan, seen.kind
    over, rest = found.one if maximum else (made.divisors[0][0], made.divisors[1][0])
    identity = found.lowest if maximum else found.zero
    walk_inside("inner.fold_inner", made, (seen.flat, y, identity, maximum, over, rest), seen.origin)


def walk_inside(name: str, made: Plan, operands: tuple[Any, ...], origin: int | None, leaders: int = 0) -> None:
    """Run a kernel on planes that lie side by side: the operand's from its origin on, or where there is none those of its cotangent."""
    assert made.inside is not None
    given, own, tables, tasks = made.inside
    ints, bases = own if origin is None else given
    if origin:
        bases = bases + origin
    taps = [("taps", 2 * FEW, np.dtype(np.int64))] if origin is not None else []
    room = [("codes", leaders, np.dtype(np.int32))] if leaders else []
    together(name, (*operands, made.seen.inner, ints, bases, *tables), tasks, *taps, *room)


def block_of(one: Pass, dtype: np.dtype[Any], *results: np.dtype[Any]) -> tuple[Room | None, ...]:
    """Room for the planes that a pass lays out cell by cell, and for what comes of them, in these types; None if it does not."""
    if one.block_cells is None:
        return (None,) * (1 + len(results))
    cells, outputs = one.block_cells
    return ("block", cells, dtype), *((f"block out {turn}", outputs, made) for turn, made in enumerate(results))


def run_find(
    one: Pass, found: Kind, x: Array, y: Array, known: Array | None, codes: Array, bases: Array, nans: bool | None
) -> bool:
    """One pass of a search for winners; `known` are the codes of the pass before, if there was one. Whether it should have been told of NaNs."""
    first = known is None and bases is one.bases
    if one.runs is not None and first and codes.itemsize == 1:
        return together("small_winners.find_runs", (x, y, codes, found.lowest, nans, one.runs), one.tasks)
    if one.small is not None and first and codes.itemsize == 1:
        small_rooms = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, np.dtype(np.uint8))
        told: tuple[Any, ...] = (x, y, codes, found.lowest, nans, one.small)
        return together("small_winners.find_small_winners", told, one.tasks, *small_rooms)
    if one.block is not None and first:
        one = one.block
        bases = one.bases
    room, code_room = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, np.dtype(np.int32))
    told = (x, y, known, codes, found.lowest, one.strided and True, one.tall, nans, one.ints, bases, *one.tables)
    blocks = block_of(one, x.dtype, y.dtype, codes.dtype)
    return together("winners.find_winners", told, one.tasks, room, code_room, *blocks)


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
    ints = np.array([made.codes, made.seen.inner, bool(made.empty)])
    together("scatter.index_winners", (codes, found.reshape(-1), ints, *made.in_plane), made.plane_tasks)
    return found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, _, _), codes = kept
    flat, dy = room_for(kept.seen, None)
    source = canonical(made, dx, of_output=False).view(found.stored)
    ints = np.array([made.codes, made.seen.inner, made.plane])
    together("scatter.gather_winners", (source, codes, flat, ints, *made.in_input), made.plane_tasks)
    return dy


def pull(kept: Winners, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, _, _), codes = kept
    arriving = canonical(made, gy, of_output=True)
    if made.of_bits is None:
        return send(kept, arriving.view(found.stored), out)
    cells, of_bits = None if out is None else out.view(BITS.dtype), Seen(made.of_bits, BITS, codes, 0)
    gx = send(Winners(of_bits, codes), halves.sent(arriving, found.dtype), cells)
    return out if out is not None and gx is cells else gx.view(found.dtype)


def send(kept: Winners, arriving: Array, out: Array | None) -> Array:
    """As `pull`, of cotangents in the order of the plan."""
    (made, found, _, _), codes = kept
    flat, gx = room_for_input(kept.seen, out)
    windows = picked(made)
    if windows is not None:
        put_back(windows, arriving, flat, found)
        return gx
    if made.are_pairs and not found.half:
        assert made.small_back is not None
        small, tasks, _ = made.small_back
        together("apart.pull_pairs", (arriving, codes, flat, found.zero, small), tasks)
        return gx
    if made.run:
        width = made.axes[-1]
        ints = np.array([made.run, width.size, width.length, math.prod(made.grid[1:-2])])
        together("apart.pull_runs", (arriving, codes, flat, found.zero, ints), made.plane_tasks)
        return gx
    if made.inside is not None and made.unread is not None and made.codes <= FEW:
        for where in made.unread:
            flat.reshape(made.seen.planes, *(axis.size for axis in made.axes), made.seen.inner)[where] = 0
        walk_inside("inner.pull_inner", made, (arriving, codes, flat, found.zero), None)
        return gx
    ints, size = scattering(made)
    if made.is_sparse:
        together("scatter.sow_winners", (arriving, codes, flat, ints, *made.in_input), made.plane_tasks)
        return gx
    lands, left = landing(made), made.plane_tasks
    if lands is not None:
        room = ("places", lands.room, lands.terms.dtype)
        tasks, left = lands.pairs if len(lands.pairs) >= get_num_threads() else lands.tasks, lands.rest
        together("landing.land", (arriving, codes, flat, *lands[:4]), tasks, room)
    if len(left):
        told = (arriving, codes, flat, found.zero, ints, *made.in_input)
        together("scatter.scatter_winners", told, left, ("cells", size, found.computed))
    return gx
