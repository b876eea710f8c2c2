"""The maximum: by folds in any order where cells are plain numbers, by winners where order shows or derivatives need them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...memory import empty
from ...memory import room as room_of
from ...threads import get_num_threads
from . import halves
from .apart import apart, find_apart
from .cells import BITS, Array, Kind, Seen, handed_over, room_for, room_for_input, see
from .folds import BYTES, FEW, block_of, code_type, cube_lengths, fold, fold_way, inside
from .halves import FLOATS
from .landing import gathering, landing, scattering
from .layouts import canonical, in_pieces, is_scattered
from .passes import Pass
from .picking import Picked, as_bits, pick, picked, put_back
from .plan import Plan
from .together import Call, Room

PLACES = np.dtype(np.int64)
FAR_APART = 12  # cells for a window, from which on cotangents of halves are better added up at winners alone


class Winners(NamedTuple):
    """What the derivatives keep: which tap won, as one code per output cell, in the order of the plan."""

    seen: Seen
    codes: Array


def value(op: Any, x: Array, out: Array | None) -> Array:
    """The maximum alone."""
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    if seen.kind.half and picked(seen.plan) is None:
        says = halves.through_floats(seen.plan, halves.cells_of(seen, x), flat, False, fold_some)
    elif is_scattered(seen, folding):
        says = in_pieces(seen, flat, fold_some)
    else:
        says = fold_some(seen, seen.flat, flat)
    if says:
        result[...] = find(see(op, x), x)[0]
    elif seen.plan.empty:
        blank(seen.plan, flat, 0)
    return handed_over(result, out)


def fold_some(seen: Seen, cells: Array, y: Array, where: slice | None = None) -> bool:
    return fold(seen.plan.passes, seen, cells, y, maximum=True)


def find(seen: Seen, x: Array, out: Array | None = None) -> tuple[Array, Array]:
    """The exact maximum of x, which is seen so (in `out` if it lies as the plan does), and in the order of the plan the code of each winner."""
    flat, array = room_for(seen, out)
    widens = seen.kind.half and picked(seen.plan) is None
    if not widens and not is_scattered(seen, searching):
        codes = winners_of(seen, flat)
    else:
        codes = room_of((flat.size,), code_type(seen.plan.codes))

        def find_some(some: Seen, cells: Array, y: Array, where: slice) -> None:
            codes[where] = winners_of(some, y)

        if widens:
            halves.through_floats(seen.plan, halves.cells_of(seen, x), flat, False, find_some)
        else:
            in_pieces(seen, flat, find_some)
    if seen.plan.empty:
        blank(seen.plan, flat, 0)
    return array, codes


def folding(seen: Seen) -> list[Call]:
    """The kernels of a value."""
    return [step.call for step in fold_way(seen.plan.passes, seen, maximum=True, divides=False)]


def searching(seen: Seen) -> list[Call]:
    """The kernels that find winners."""
    _, call, width = search_way(seen)
    return find_passes(seen, width, None) if call is None else [call]


class Search(NamedTuple):
    """The kernel that picks windows of one cell; else the one that finds winners in one pass, if there is; and of which type codes are."""

    picks: Call | None
    at_once: Call | None
    width: np.dtype[Any]


def search_way(seen: Seen) -> Search:
    """How winners are found, once it is known: by `find_passes`, where no other kernel does, or what it leaves."""
    key = "winners", seen.origin
    known: Search | None = seen.plan.calls.get(key)
    if known is None:
        windows, width = picked(seen.plan), code_type(seen.plan.codes)
        picks = None if windows is None else pick(windows, seen.origin)
        known = seen.plan.calls[key] = Search(picks, at_once(seen) if picks is None else None, width)
    return known


def winners_of(seen: Seen, y: Array) -> Array:
    """The code of each winner, and of windows without a real cell the next one; the maxima are written into y."""
    made = seen.plan
    picks, call, width = search_way(seen)
    if picks is not None:
        picks(as_bits(seen.flat), as_bits(y))
        return np.zeros(y.size, width)
    codes = None if call is None else room_of((y.size,), width)
    if call is None or call(seen.flat, y, codes):
        codes = search(seen, y, width, None)
        if codes is None:
            codes = search(seen, y, width, True)
    assert codes is not None
    if made.empty:
        blank(made, codes, made.codes)
    return codes


def at_once(seen: Seen) -> Call | None:
    """The kernel that finds the winners of an operand, maxima and codes, in one pass, but for windows that it says are left to the search."""
    made, found = seen.plan, seen.kind
    if made.inside is not None:
        return inside("inner.find_inner", made, (found.lowest,), seen.origin, made.seen.inner)
    if seen.origin:
        return None
    if made.whole > 0 and made.whole == made.codes:  # a padded window has codes for its padding, too
        return Call("whole.fold_planes", (found.lowest, True, made.whole, *found.one), made.plane_tasks)
    few, volumes = apart(made), cube_lengths(seen)
    if few is None and volumes is not None:
        return Call("cubes.find_cubes", (found.lowest, volumes[0]), volumes[1])
    return None if few is None else find_apart(few, found)


def search(seen: Seen, y: Array, width: np.dtype[Any], nans: bool | None) -> Array | None:
    """Write maxima, pass by pass; the codes of their winners, or None if there are NaNs and nobody knew (`nans` is None)."""
    x, known = seen.flat, None
    passes = find_passes(seen, width, nans)
    for turn, call in enumerate(passes):
        outputs = seen.plan.passes[turn].outputs
        target = y if turn == len(passes) - 1 else room_of((outputs,), seen.kind.computed)
        codes = room_of((outputs,), width)
        if call(x, target, known, codes) if turn else call(x, target, codes):
            return None
        x, known = target, codes
    return known


def find_passes(seen: Seen, width: np.dtype[Any], nans: bool | None) -> list[Call]:
    """The kernels of a search, once they are known: each but the first takes the codes of the one before."""
    key = "search", nans, seen.origin
    known: list[Call] | None = seen.plan.calls.get(key)
    if known is None:
        further = [find_further(seen, one, width, nans) for one in seen.plan.passes[1:]]
        known = seen.plan.calls[key] = [find_first(seen, width, nans), *further]
    return known


def find_first(seen: Seen, width: np.dtype[Any], nans: bool | None) -> Call:
    """The kernel of the first pass of a search for winners. It says whether it should have been told of NaNs."""
    found, one = seen.kind, seen.plan.passes[0]
    bases = one.bases + seen.origin if seen.origin else one.bases
    if not seen.origin:
        if one.runs is not None and width == BYTES:
            return Call("small_winners.find_runs", (found.lowest, nans, one.runs), one.tasks)
        if one.small is not None and width == BYTES:
            told: tuple[Any, ...] = (found.lowest, nans, one.small)
            rooms: tuple[Room, ...] = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, BYTES)
            return Call(small_kernel(one, seen.plan.lanes), told, one.tasks, *rooms)
        if one.flat is not None:
            told = (found.lowest, nans, one.flat.ints, one.flat.least.astype(width))
            rooms = ("cells", 5 * one.flat.room, found.computed), ("codes", 4 * one.flat.room, width)
            return Call("flat.find_flat", told, one.flat.tasks, *rooms)
        if one.block is not None:
            one = one.block
            bases = one.bases
    told = (found.lowest, one.strided and True, one.led_by_blocks, nans, one.ints, bases, *one.tables)
    rooms = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, width)
    return Call("winners.find_winners", told, one.tasks, *rooms, *block_of(one, found.computed, found.computed, width))


def small_kernel(one: Pass, lanes: int) -> str:
    """The kernel that finds the winners of small windows."""
    if are_threes(one, lanes):
        return "threes.find_threes"
    return "neighbours.find_neighbours" if are_neighbours(one, lanes) else "small_winners.find_small_winners"


def are_threes(one: Pass, lanes: int) -> bool:
    """Whether windows have 3×3 cells and move by two, the first ones have a cell, and half a vector's worth in a row have no padding."""
    columns = one.columns
    whole = min((columns.size + columns.offset - 3) // 2 + 1, columns.length) - (columns.offset + 1) // 2
    threes = all((axis.taps, axis.stride) == (3, 2) for axis in (one.rows, columns))
    return threes and one.rows.offset <= 2 and whole >= lanes // 2


def are_neighbours(one: Pass, lanes: int) -> bool:
    """Whether windows have 3×3 cells and move by one, with a cell of padding at most on each side, and a row of them has a vector's worth."""
    axes = one.rows, one.columns
    threes = all((axis.taps, axis.stride) == (3, 1) and axis.offset <= 1 for axis in axes)
    return (
        threes and all(axis.length + 2 - axis.offset - axis.size <= 1 for axis in axes) and one.columns.length >= lanes
    )


def find_further(seen: Seen, one: Pass, width: np.dtype[Any], nans: bool | None) -> Call:
    """The kernel of a further pass."""
    rows, _ = one.tables
    told = (seen.kind.lowest, one.led_by_blocks, nans, one.ints, one.bases, rows)
    rooms = ("cells", one.scratch, seen.kind.computed), ("codes", one.code_scratch, width)
    return Call("winners.find_further", told, one.tasks, *rooms)


def blank(made: Plan, flat: Array, number: int) -> None:
    """Write a number where windows have no real cell."""
    for where in made.empty:
        flat.reshape(made.grid)[where] = number


def keep(op: Any, x: Array, out: Array | None = None) -> tuple[Array, Winners]:
    seen = see(op, x)
    array, codes = find(seen, x, out)
    return handed_over(array, out), Winners(seen, codes)


def indices(op: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    """The maximum, and the place of the first winner in its plane."""
    y, kept = keep(op, x, out)
    return y, places(kept)


def places(kept: Winners) -> Array:
    """The place of each first winner in its plane."""
    (made, *_), codes = kept
    found = empty(made.lengths, np.dtype(np.int64))
    if "places" not in made.calls:
        ints = np.array([made.codes, made.seen.inner, bool(made.empty)])
        made.calls["places"] = Call("scatter.index_winners", (ints, *made.in_plane), made.plane_tasks)
    made.calls["places"](codes, found.ravel())
    return found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, *_), codes = kept
    flat, dy = room_for(kept.seen, None)
    source = canonical(made, dx, of_output=False)
    push_call(made)(source.view(found.stored) if found.half else source, codes, flat)
    return dy


def push_call(made: Plan) -> Call:
    """The kernel that brings the tangents of winners, once it is known."""
    known: Call | None = made.calls.get("push")
    if known is None:
        ints = np.array([made.codes, made.seen.inner, made.plane])
        known = made.calls["push"] = Call("scatter.gather_winners", (ints, *made.in_input), made.plane_tasks)
    return known


def pull(kept: Winners, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, *_), codes = kept
    arriving = canonical(made, gy, of_output=True)
    if made.of_bits is None:
        return send(kept, arriving.view(found.stored) if found.half else arriving, out)
    cells, of_bits = None if out is None else out.view(BITS.dtype), Seen(made.of_bits, BITS, codes, 0)
    gx = send(Winners(of_bits, codes), halves.sent(arriving, found.dtype), cells)
    return out if out is not None and gx is cells else gx.view(found.dtype)


def send(kept: Winners, arriving: Array, out: Array | None) -> Array:
    """As `pull`, of cotangents in the order of the plan."""
    (made, found, *_), codes = kept
    flat, gx = room_for_input(kept.seen, out)
    if not found.half:
        send_some(kept.seen, arriving, codes, flat)
    elif FAR_APART * math.prod(made.grid[1:]) <= made.plane:
        sow_halves(made)(arriving, codes, flat)
    else:
        halves.through_floats(
            made, arriving, flat, True, lambda some, g, cells, where: send_some(some, g, codes[where], cells)
        )
    return gx


def send_some(seen: Seen, arriving: Array, codes: Array, flat: Array) -> None:
    """flat = cotangents at the cells that won them."""
    made, found = seen.plan, seen.kind
    windows, where, calls = pull_way(made, found, get_num_threads())
    if windows is not None:
        put_back(windows, arriving, flat, found)
    for cells in where:
        flat.reshape(made.seen.planes, *(axis.size for axis in made.axes), made.seen.inner)[cells] = 0
    for call in calls:
        call(arriving, codes, flat)


def sow_halves(made: Plan) -> Call:
    """The kernel that brings cotangents of halves to winners that are far apart, once it is known."""
    known: Call | None = made.calls.get("sow")
    if known is None:
        rooms: tuple[Room, ...] = ("cells", made.plane + 1, FLOATS.dtype), ("places", math.prod(made.grid[1:]), PLACES)
        told = (made.half, scattering(made)[0], *made.in_input)
        known = made.calls["sow"] = Call("scatter.sow_halves", told, made.plane_tasks, *rooms)
    return known


def pull_way(made: Plan, found: Kind, threads: int) -> tuple[Picked | None, list[tuple[Any, ...]], list[Call]]:
    """How cotangents are sent, once it is known: windows of one cell, or `pull_calls`."""
    key = "pull", threads
    known: tuple[Any, ...] | None = made.calls.get(key)
    if known is None:
        windows = picked(made)
        known = made.calls[key] = windows, *(pull_calls(made, found, threads) if windows is None else ([], []))
    return known


def pull_calls(made: Plan, found: Kind, threads: int) -> tuple[list[tuple[Any, ...]], list[Call]]:
    """Which cells are cleared before, and the kernels that then bring cotangents to winners: each of all planes, or of those that others leave."""
    if made.are_pairs:
        assert made.small_back is not None
        small, tasks, _ = made.small_back
        return [], [Call("apart.pull_pairs", (found.zero, small), tasks)]
    if made.run:
        width = made.axes[-1]
        ints = np.array([made.run, width.size, width.length, math.prod(made.grid[1:-2])])
        return [], [Call("apart.pull_runs", (found.zero, ints), made.plane_tasks)]
    if made.inside is not None and made.unread is not None and made.codes <= FEW and 0 not in made.grid:
        return [], [inside("inner.pull_inner", made, (found.zero, *made.idle), None)]
    ints, size = scattering(made)
    if made.is_sparse:
        return [], [Call("scatter.sow_winners", (ints, *made.in_input), made.plane_tasks)]
    gathers = gathering(made)
    if gathers is not None:
        steps, piece, tasks, scratch = gathers
        rooms: tuple[Room, ...] = ("cells", scratch, found.computed), ("codes", scratch, BYTES)
        return [], [Call("gathering.gather", (found.zero, steps, piece), tasks, *rooms)]
    lands, left, calls = landing(made), made.plane_tasks, []
    if lands is not None:
        room = ("places", lands.room, lands.terms.dtype)
        tasks, left = lands.pairs if len(lands.pairs) >= threads else lands.tasks, lands.rest
        calls.append(Call("landing.land", lands[:4], tasks, room))
    if len(left):
        told = (ints, *made.in_input)
        calls.append(Call("scatter.scatter_winners", told, left, ("cells", size, found.computed)))
    return [], calls
