"""Folds of windows, sums and maxima in any order: which kernels make them up, found once for a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...memory import room as room_of
from .apart import apart, each, find_apart
from .cells import Array, Seen
from .lines import along_lines
from .passes import VECTOR, Pass, plane_ranges
from .picking import as_bits, pick, picked
from .plan import Plan
from .together import Call, Room

UNDIVIDED = (None, None, None)
BYTES, SHORTS, WORDS = np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.int32)  # of codes
STACKED = 24  # columns of planes of which rows are better folded several together than laid out cell by cell
FLAT = 28  # columns of planes that are better folded as one line than several rows together, at most
FEW = 32  # cells of a window of which each is better written than the winner looked up
LARGE = 64  # cells of a window of rank 3, from which on it is better folded by itself than axis by axis
TAPS: Room = "taps", 2 * FEW, np.dtype(np.int64)
ONCE = 0.8, 1.2  # windows that read a cell on average, where most are read once
AGAIN = 1.5  # times that a row of a volume is then read, at most


def fold(passes: Sequence[Pass], seen: Seen, x: Array, y: Array, maximum: bool | None, divides: bool = False) -> bool:
    """Run the passes of a fold from x to y; whether a maximum met a NaN or a -0.0, in which the order of folding shows."""
    return run(fold_way(passes, seen, maximum, divides), seen, x, y)


def fold_way(passes: Sequence[Pass], seen: Seen, maximum: bool | None, divides: bool) -> list[Step]:
    """The kernels of a fold, once they are known."""
    made = seen.plan
    key = passes is made.passes, maximum, divides, seen.origin
    known: list[Step] | None = made.calls.get(key)
    if known is None:
        known = made.calls[key] = fold_steps(passes, seen, maximum, divides)
    return known


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
        return [Step(find_apart(few, found), codes=code_type(made.codes))]
    lines = along_lines(made) if (maximum or divides) and not seen.origin else None
    if lines is not None and (maximum or is_uniform(made)):
        ints, tasks = lines
        told = (identity, maximum, ints, *one_divisor(seen, divides))
        return [Step(Call("lines.fold_lines", told, tasks))]
    if made.direct[bool(maximum)]:
        divisors = made.window_divisors if divides and not is_uniform(made) else None
        told = (identity, maximum, divisors, *one_divisor(seen, divides and divisors is None))
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


def code_type(codes: int) -> np.dtype[Any]:
    """What winners are told by, where there are so many codes."""
    return BYTES if codes <= 255 else SHORTS if codes <= 32767 else WORDS


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
        if one.flat is not None and one.columns.size <= FLAT and narrow and (rows is None or rows.size == 1):
            over, rest = found.one if rows is None or rests is None else (rows[0], rests[0])
            told = (identity, maximum, one.flat.ints, over, rest)
            room = ("cells", 5 * one.flat.room, found.computed)
            made_of.append(Step(Call("flat.fold_flat", told, one.flat.tasks, room), cells))
            continue
        stacked = one.rows.stack and one.columns.size >= STACKED
        if one.block is not None and narrow and not stacked and (backwards or not are_sparse(one, made.lanes)):
            one = one.block
            bases = one.bases
        told = (identity, maximum, *one.ways, bases, *one.tables, *(undivided if n is None else n for n in given))
        rooms = ("cells", one.scratch, found.computed), *block_of(one, found.computed, found.computed)
        made_of.append(Step(Call("fold.fold_windows", told, one.tasks, *rooms), cells))
    return made_of


def are_sparse(one: Pass, lanes: int) -> bool:
    """Whether windows read most cells once, and are so few in rows of some vectors that these are better folded as they lie; of more, where windows have few rows."""
    least, most = ONCE
    once = all(least * r.size <= r.count.clip(0).sum() <= most * r.size for r in (one.rows, one.columns))
    vectors = 1.5 if 2.5 * one.rows.length <= one.rows.size else 3
    return once and 2 * one.columns.length + vectors * lanes <= one.columns.size


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


def inside(name: str, made: Plan, told: tuple[Any, ...], origin: int | None, leaders: int = 0) -> Call:
    """A kernel on planes that lie side by side: the operand's from its origin on, or where there is none those of its cotangent."""
    assert made.inside is not None
    given, own, tables, tasks = made.inside
    ints, bases = own if origin is None else given
    if origin:
        bases = bases + origin
    rooms: list[Room] = [TAPS] if origin is not None else []
    rooms += [("codes", leaders, WORDS)] if leaders else []
    return Call(name, (*told, made.seen.inner, ints, bases, *tables), tasks, *rooms)


def block_of(one: Pass, dtype: np.dtype[Any], *results: np.dtype[Any]) -> tuple[Room | None, ...]:
    """Room for the planes that a pass lays out cell by cell, and for what comes of them, in these types; None if it does not."""
    if one.block_cells is None:
        return (None,) * (1 + len(results))
    cells, outputs = one.block_cells
    return ("block", cells, dtype), *((f"block out {turn}", outputs, made) for turn, made in enumerate(results))
