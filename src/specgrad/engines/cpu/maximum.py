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
from .lines import along_lines
from .passes import VECTOR, Pass, plane_ranges
from .picking import as_bits, pick, picked, put_back
from .plan import Plan
from .together import Call, Room

UNDIVIDED = (None, None, None)
BYTES, WORDS = np.dtype(np.uint8), np.dtype(np.int32)  # of codes
STACKED = 24  # columns of planes of which rows are better folded several together than laid out cell by cell
FEW = 32  # cells of a window of which each is better written than the winner looked up
LARGE = 64  # cells of a window of rank 3, from which on it is better folded by itself than axis by axis
AGAIN = 1.5  # times that a row of a volume is then read, at most


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
    elif seen.plan.empty:
        blank(seen.plan, flat, 0)
    return handed_over(result, out)


def fold(passes: Sequence[Pass], seen: Seen, x: Array, y: Array, maximum: bool | None, divides: bool = False) -> bool:
    """Run the passes of a fold from x to y; whether a maximum met a NaN or a -0.0, in which the order of folding shows."""
    made = seen.plan
    key = passes is made.passes, maximum, divides, seen.origin
    known = made.calls.get(key)
    if known is None:
        known = made.calls[key] = fold_steps(passes, seen, maximum, divides)
    return run(known, seen, x, y)


class Step(NamedTuple):
    """A kernel that makes of an operand and its result, and of how many cells the result is the next step's operand."""

    call: Call
    cells: int | None = None
    bits: bool = False
    """Whether cells are moved and not computed with."""
    codes: np.dtype[Any] | None = None
    """Of which type the codes of winners are, if it finds these too, for nobody."""


def run(steps: Sequence[Step], seen: Seen, x: Array, y: Array) -> bool:
    """Run kernels from x to y; whether one of them says so, after which none is run."""
    for call, cells, bits, codes in steps:
        target = y if cells is None else room_of((cells,), seen.kind.computed)
        if bits:
            says = call(as_bits(x), as_bits(target))
        else:
            says = call(x, target) if codes is None else call(x, target, room_of((target.size,), codes))
        if says:
            return True
        x = target
    return False


def fold_steps(passes: Sequence[Pass], seen: Seen, maximum: bool | None, divides: bool) -> list[Step]:
    """The kernels of a fold: one for windows that lie as few do, else those of the passes."""
    made, found = seen.plan, seen.kind
    backwards = passes is not made.passes
    if backwards:
        return pass_steps(passes, seen, maximum, divides)
    windows = None if divides and not made.is_undivided else picked(made)
    if windows is not None:
        return [Step(pick(windows, seen.origin), bits=True)]
    identity = found.lowest if maximum else found.zero
    if made.whole and not seen.origin:
        told: tuple[Any, ...] = (None, identity, maximum, made.whole, *one_divisor(seen, divides))
        return [Step(Call("whole.fold_planes", told, made.plane_tasks))]
    alone = each(made, maximum) if maximum or divides else None
    if alone is not None:
        ints, bases, *tables = alone
        told = (identity, maximum, ints, bases + seen.origin, *tables)
        return [Step(Call("windows.fold_each", told, made.plane_tasks))]
    few = apart(made) if maximum and not seen.origin and is_large(made) else None
    if few is not None:  # though winners are found too
        return [Step(find_apart(few, found), codes=code_type(made))]
    lines = along_lines(made) if (maximum or divides) and not seen.origin else None
    if lines is not None and (maximum or is_uniform(made)):
        ints, tasks = lines
        told = (identity, maximum, ints, *one_divisor(seen, divides))
        return [Step(Call("lines.fold_lines", told, tasks))]
    if made.direct[bool(maximum)]:
        told = (identity, maximum, *one_divisor(seen, divides))
        return [Step(inside("inner.fold_inner", made, told, seen.origin))]
    return pass_steps(passes, seen, maximum, divides)


def is_uniform(made: Plan) -> bool:
    """Whether all windows are divided by the same."""
    over, _, columns = made.divisors
    return over.size == 1 and columns is None


def is_large(made: Plan) -> bool:
    """Whether windows are of rank 3, and have so many cells and share so few rows that all axes are better folded at once."""
    if len(made.reads) != 3 or math.prod(reads.most for reads in made.reads) < LARGE:
        return False
    return math.prod(int(reads.count.clip(0).sum()) / max(reads.size, 1) for reads in made.reads[:2]) <= AGAIN


def code_type(made: Plan) -> np.dtype[Any]:
    """What winners are told by."""
    return BYTES if made.codes <= 255 else WORDS


def one_divisor(seen: Seen, divides: bool) -> tuple[Any, Any]:
    """What all windows are divided by, where that is the same, as a reciprocal in two parts."""
    return (seen.plan.divisors[0][0], seen.plan.divisors[1][0]) if divides else seen.kind.one


def pass_steps(passes: Sequence[Pass], seen: Seen, maximum: bool | None, divides: bool) -> list[Step]:
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
            room = ("cells", one.scratch, found.computed)
            made_of.append(Step(Call("small.fold_small", told, one.tasks, room), cells))
            continue
        if one.block is not None and narrow and not (one.rows.stack and one.columns.size >= STACKED):
            one = one.block
            bases = one.bases
        told = (identity, maximum, *one.ways, bases, *one.tables, *(undivided if n is None else n for n in given))
        given_as = found.stored if turn == 0 and (divides or not backwards) else found.computed  # shares are computed
        dtypes = given_as, found.stored if turn == last else found.computed
        rooms = ("cells", one.scratch, found.computed), *block_of(one, *dtypes)
        made_of.append(Step(Call("fold.fold_windows", told, one.tasks, *rooms), cells))
    return made_of


def cubes(seen: Seen, divisors: tuple[Any, ...], identity: Array, maximum: bool | None) -> Step | None:
    """The one pass over windows of `cube_lengths`; None for others."""
    found, (over, rest, columns), windows = seen.kind, divisors, cube_lengths(seen)
    if windows is None or columns is not None or (over is not None and over.size != 1):
        return None
    lengths, tasks = windows
    told = identity, maximum, lengths, *(found.one if over is None or rest is None else (over[0], rest[0]))
    return Step(Call("cubes.fold_cubes", told, tasks))


def cube_lengths(seen: Seen) -> tuple[Any, Any] | None:
    """The lengths and tasks of windows of 2×2×2 cells that share none, in rows of a vector at least, on volumes that lie whole; None for others."""
    passes = seen.plan.passes
    if len(passes) != 2 or passes[0].small is None or seen.origin:
        return None
    axes = passes[1].rows, passes[0].rows, passes[0].columns
    if not all(axis.run == 2 for axis in axes) or axes[2].length * seen.kind.computed.itemsize < VECTOR:
        return None
    planes = passes[0].outer // axes[0].size * axes[0].length
    tasks = plane_ranges(planes, 2 * axes[1].size * axes[2].size)
    return np.array([n for axis in axes for n in (axis.size, axis.length)]), tasks


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
    width = code_type(made)
    windows = picked(made)
    if windows is not None:
        key = "pick", seen.origin
        if key not in made.calls:
            made.calls[key] = pick(windows, seen.origin)
        made.calls[key](as_bits(seen.flat), as_bits(y))
        return np.zeros(y.size, width)
    key = "at once", seen.origin
    if key not in made.calls:
        made.calls[key] = at_once(seen)
    call: Call | None = made.calls[key]
    if call is not None:
        codes = room_of((y.size,), width)
        if not call(seen.flat, y, codes):
            return codes
    found = search(seen, y, width, None)
    if found is None:
        found = search(seen, y, width, True)
        assert found is not None
    return found


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
    made, found = seen.plan, seen.kind
    key = "search", nans, seen.origin
    calls = made.calls.get(key)
    if calls is None:
        calls = made.calls[key] = [find_pass(seen, turn, width, nans) for turn in range(len(made.passes))]
    x, known = seen.flat, None
    for turn, (call, takes_codes) in enumerate(calls):
        outputs = made.passes[turn].outputs
        target = y if turn == len(calls) - 1 else room_of((outputs,), found.computed)
        codes = room_of((outputs,), width)
        if call(x, target, known, codes) if takes_codes else call(x, target, codes):
            return None
        x, known = target, codes
    return known


def inside(name: str, made: Plan, told: tuple[Any, ...], origin: int | None, leaders: int = 0) -> Call:
    """A kernel on planes that lie side by side: the operand's from its origin on, or where there is none those of its cotangent."""
    assert made.inside is not None
    given, own, tables, tasks = made.inside
    ints, bases = own if origin is None else given
    if origin:
        bases = bases + origin
    taps = [("taps", 2 * FEW, np.dtype(np.int64))] if origin is not None else []
    room = [("codes", leaders, WORDS)] if leaders else []
    return Call(name, (*told, made.seen.inner, ints, bases, *tables), tasks, *taps, *room)


def block_of(one: Pass, dtype: np.dtype[Any], *results: np.dtype[Any]) -> tuple[Room | None, ...]:
    """Room for the planes that a pass lays out cell by cell, and for what comes of them, in these types; None if it does not."""
    if one.block_cells is None:
        return (None,) * (1 + len(results))
    cells, outputs = one.block_cells
    return ("block", cells, dtype), *((f"block out {turn}", outputs, made) for turn, made in enumerate(results))


def find_pass(seen: Seen, turn: int, width: np.dtype[Any], nans: bool | None) -> tuple[Call, bool]:
    """The kernel of one pass of a search for winners, and whether it is given the codes of the pass before, or None. It says whether it should have been
    told of NaNs."""
    made, found, one = seen.plan, seen.kind, seen.plan.passes[turn]
    last = turn == len(made.passes) - 1
    first = turn == 0 and not seen.origin
    if one.runs is not None and first and width == BYTES:
        return Call("small_winners.find_runs", (found.lowest, nans, one.runs), one.tasks), False
    if one.small is not None and first and width == BYTES:
        told: tuple[Any, ...] = (found.lowest, nans, one.small)
        rooms: tuple[Room, ...] = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, BYTES)
        kernel = "threes.find_threes" if are_threes(one, made.lanes) else "small_winners.find_small_winners"
        return Call(kernel, told, one.tasks, *rooms), False
    bases = one.bases + seen.origin if seen.origin and turn == 0 else one.bases
    if one.block is not None and first:
        one = one.block
        bases = one.bases
    told = (found.lowest, one.strided and True, one.tall, nans, one.ints, bases, *one.tables)
    blocks = block_of(one, *(found.stored if end else found.computed for end in (turn == 0, last)), width)
    rooms = ("cells", one.scratch, found.computed), ("codes", one.code_scratch, WORDS)
    return Call("winners.find_winners", told, one.tasks, *rooms, *blocks), True


def are_threes(one: Pass, lanes: int) -> bool:
    """Whether windows have 3×3 cells and move by two, the first ones have a cell, and half a vector's worth in a row have no padding."""
    columns = one.columns
    whole = min((columns.size + columns.offset - 3) // 2 + 1, columns.length) - (columns.offset + 1) // 2
    threes = all((axis.taps, axis.stride) == (3, 2) for axis in (one.rows, columns))
    return threes and one.rows.offset <= 2 and whole >= lanes // 2


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
    if "places" not in made.calls:
        ints = np.array([made.codes, made.seen.inner, bool(made.empty)])
        made.calls["places"] = Call("scatter.index_winners", (ints, *made.in_plane), made.plane_tasks)
    made.calls["places"](codes, found.ravel())
    return found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, _, _), codes = kept
    flat, dy = room_for(kept.seen, None)
    source = canonical(made, dx, of_output=False)
    if "push" not in made.calls:
        ints = np.array([made.codes, made.seen.inner, made.plane])
        made.calls["push"] = Call("scatter.gather_winners", (ints, *made.in_input), made.plane_tasks)
    made.calls["push"](source.view(found.stored) if found.half else source, codes, flat)
    return dy


def pull(kept: Winners, gy: Array, out: Array | None = None) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, _, _), codes = kept
    arriving = canonical(made, gy, of_output=True)
    if made.of_bits is None:
        return send(kept, arriving.view(found.stored) if found.half else arriving, out)
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
    key = "pull", get_num_threads()
    if key not in made.calls:
        made.calls[key] = pull_calls(made, found, get_num_threads())
    where, calls = made.calls[key]
    for cells in where:
        flat.reshape(made.seen.planes, *(axis.size for axis in made.axes), made.seen.inner)[cells] = 0
    for call in calls:
        call(arriving, codes, flat)
    return gx


def pull_calls(made: Plan, found: Kind, threads: int) -> tuple[list[tuple[Any, ...]], list[Call]]:
    """Which cells are cleared before, and the kernels that then bring cotangents to winners: each of all planes, or of those that others leave."""
    if made.are_pairs and not found.half:
        assert made.small_back is not None
        small, tasks, _ = made.small_back
        return [], [Call("apart.pull_pairs", (found.zero, small), tasks)]
    if made.run:
        width = made.axes[-1]
        ints = np.array([made.run, width.size, width.length, math.prod(made.grid[1:-2])])
        return [], [Call("apart.pull_runs", (found.zero, ints), made.plane_tasks)]
    if made.inside is not None and made.unread is not None and made.codes <= FEW:
        return made.unread, [inside("inner.pull_inner", made, (found.zero,), None)]
    ints, size = scattering(made)
    if made.is_sparse:
        return [], [Call("scatter.sow_winners", (ints, *made.in_input), made.plane_tasks)]
    lands, left, calls = landing(made), made.plane_tasks, []
    if lands is not None:
        room = ("places", lands.room, lands.terms.dtype)
        tasks, left = lands.pairs if len(lands.pairs) >= threads else lands.tasks, lands.rest
        calls.append(Call("landing.land", lands[:4], tasks, room))
    if len(left):
        told = (found.zero, ints, *made.in_input)
        calls.append(Call("scatter.scatter_winners", told, left, ("cells", size, found.computed)))
    return [], calls
