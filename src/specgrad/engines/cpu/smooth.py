"""The smooth maximum: a chain of one-axis passes over pairs (extreme, total), some planes at a time, so that pairs stay in the cache.

Peak extra memory: what is kept for the derivatives is, per axis, two arrays of the size that the operand has after that axis was folded;
β < 0 adds a negated operand, half floats one that is widened to float32. The value alone takes some planes per thread.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...memory import room
from .cells import Array, Kind, scratch, see
from .chain import each, leave, stations, widened
from .compiled import kernel
from .passes import VECTOR
from .plan import Plan
from .reads import adjoint_reads


class Station(NamedTuple):
    """One pass, of one plane: `lines` of (n, inner) cells are folded to (m, inner)."""

    lines: int
    cells: int
    windows: int
    ints: Array
    zeros: Array
    """How many taps of each window are padding that counts as zeros, and `mass`, what each of these weighs."""
    mass: Array
    empty: Array
    """The windows without any tap, which weigh something all the same, so that no weight is 0/0."""
    read: Array
    """Which lines the passes that follow read at all."""
    scratch: int
    """How many cells a pass needs at hand: lines of them."""
    taps: int
    inner: int


class Pairs(NamedTuple):
    """A chain that has been run: the cells, and the pairs after each pass."""

    plan: Plan
    kind: Kind
    cells: Array
    pairs: list[tuple[Array, Array]]


def numbers(op: Any, found: Kind) -> Array:
    """|β|, its sign, and the numbers that stand for nothing in a maximum and in a sum, and for all."""
    beta = found.computed.type(float(op.beta))
    return np.array([abs(beta), 1 if beta > 0 else -1, -np.inf, 0, 1], found.computed)


@functools.lru_cache(maxsize=256)
def stops(made: Plan) -> tuple[Station, ...]:
    """The passes of a plan."""
    found, mass = [], np.ones(made.seen.inner, made.computed)
    for axis, outer, inner in stations(made):
        reads, existing = made.reads[axis], made.axes[axis].ranges().existing
        counts = made.op.pad == "zero"
        zeros = (existing - reads.count if counts else np.zeros(reads.length)).astype(made.computed)
        lines = outer // max(made.seen.planes, 1)
        # lines that are laid out by rests of the stride have `room` cells, the first of which stands `left` of its beginning
        left = max(reads.offset, reads.taps * reads.dilation) // reads.stride + 2
        room = 2 * left + max(reads.length, reads.size // reads.stride + 1) + 4 * VECTOR
        ints = [reads.size, reads.length, inner, reads.taps, reads.stride, reads.offset, reads.dilation, room, left]
        scratch = 4 * (max(reads.length, inner) + 4 * VECTOR) + (5 * reads.stride + 4) * room
        found.append(
            Station(
                lines,
                lines * reads.size * inner,
                lines * reads.length * inner,
                np.array(ints),
                beyond(zeros),
                beyond(mass),
                np.flatnonzero((existing if counts else reads.count) <= 0),
                lines_read(made, axis),
                scratch,
                reads.taps,
                inner,
            )
        )
        mass = (existing.astype(made.computed)[:, None] * mass).reshape(-1)
    return tuple(found)


def lines_read(made: Plan, axis: int) -> Array:
    """For every line along `axis` in a plane, whether any window of the axes before reads it."""
    lines = np.ones(1, np.bool_)
    for before in made.axes[:axis]:
        lines = (lines[:, None] & (adjoint_reads(before).count > 0)).reshape(-1)
    return lines


def beyond(array: Array) -> Array:
    """An array with cells that can be read beyond its end, and are 0."""
    longer = np.zeros(array.size + VECTOR, array.dtype)
    longer[: array.size] = array
    return longer[: array.size]


def roomy(cells: int, found: Kind) -> Array:
    """So many cells, and some that can be read beyond them."""
    return room((cells + VECTOR,), found.computed)[:cells]


def at_hand(one: Station, found: Kind) -> tuple[Array, Array]:
    """Scratch for a pass: lines of cells, and the places of taps."""
    return scratch("cells", one.scratch, found.computed), scratch("places", one.taps, np.dtype(np.int64))


def planes_of(made: Plan, way: Plan, array: Array, start: int, stop: int, purpose: str) -> Array:
    """Some planes of a flat array as the passes walk it: its own cells, or a copy where planes are walked together."""
    each_plane = array.size // max(made.seen.planes, 1)
    if way is made:
        return array[start * each_plane : stop * each_plane]
    together = way.seen.inner
    cells = scratch(purpose, (stop - start) * together * each_plane + VECTOR, array.dtype)
    kernel("planes.side_by_side")(array, cells, made.seen.planes, each_plane, together, start, stop)
    return cells[: (stop - start) * together * each_plane]


def room_of(made: Plan, way: Plan, result: Array, start: int, stop: int) -> Array:
    """Where the planes of a result that `hand_back` takes are to be written."""
    each_plane = result.size // max(made.seen.planes, 1)
    if way is made:
        return result[start * each_plane : stop * each_plane]
    size = (stop - start) * way.seen.inner * each_plane
    return scratch("planes to hand back", size + VECTOR, result.dtype)[:size]


def hand_back(made: Plan, way: Plan, cells: Array, result: Array, start: int, stop: int) -> None:
    """What `planes_of` undoes."""
    if way is not made:
        each_plane = result.size // max(made.seen.planes, 1)
        kernel("planes.one_by_one")(cells, result, made.seen.planes, each_plane, way.seen.inner, start, stop)


def value(op: Any, x: Array) -> Array:
    return fold(op, x, values=True, keeps=False)[0]


def pairs(op: Any, x: Array) -> Pairs:
    return fold(op, x, values=False, keeps=True)[1]


def fold(op: Any, x: Array, values: bool, keeps: bool) -> tuple[Array, Pairs]:
    """The value, if `values` are asked for, and the pairs along the chain, if it `keeps` them."""
    made, found, _, _ = see(op, x)
    way = made.side_by_side or made
    z, known, passes = widened(made, found, x, of_output=False), numbers(op, found), stops(way)
    if known[1] < 0:
        z = -z
    if 1 < made.seen.inner < made.lanes:
        z = beyond(z)
    planes = way.seen.planes
    kept = [tuple(roomy(planes * one.windows, found) for _ in range(2)) for one in passes] if keeps else []
    y = room((math.prod(made.grid) if values else 0,), found.computed)

    def work(start: int, stop: int) -> None:
        cells, totals = planes_of(made, way, z, start, stop, "planes"), None
        for turn, one in enumerate(passes):
            size = (stop - start) * one.windows
            extremes, sums = (
                (array[start * one.windows : stop * one.windows] for array in kept[turn])
                if keeps
                else (scratch(f"{name} {turn}", size + VECTOR, found.computed)[:size] for name in ("extreme", "sum"))
            )
            kernel("smooth.fold_lines" if one.inner == 1 else "smooth.fold_rows")(
                cells, totals, extremes, sums, known, one.ints, one.zeros, one.mass, 0, (stop - start) * one.lines,
                *at_hand(one, found),
            )  # fmt: skip
            if one.empty.size:
                shape = ((stop - start) * one.lines, int(one.ints[1]), one.inner)
                extremes.reshape(shape)[:, one.empty] = 0
                sums.reshape(shape)[:, one.empty] = 1
            cells, totals = extremes, sums
        if not values:
            return
        own = room_of(made, way, y, start, stop)
        kernel("smooth.smooth_value")(cells, totals, own, known, 0, own.size)
        hand_back(made, way, own, y, start, stop)

    each(planes, way.plane, work)
    chained = Pairs(made, found, z, kept)  # type: ignore[arg-type]
    if not values:
        return y, chained
    if op.pad == "skip":
        for where in made.empty:
            y.reshape(made.grid)[where] = 0
    return leave(made, found, y, of_output=True).reshape(made.shape), chained


def move(kept: Pairs, moved: Array, pulls: bool) -> Array:
    """Tangents forwards or cotangents backwards, times the weights along the chain."""
    made, found, z, pairs = kept
    way = made.side_by_side or made
    known, passes = numbers(made.op, found), stops(way)
    last = len(passes) - 1
    turns = range(last, -1, -1) if pulls else range(last + 1)
    # kept arrays may have come another way than from `fold`
    if way is made and any(1 < one.inner < made.lanes for one in passes):
        z, moved, pairs = beyond(z), beyond(moved), [(beyond(extremes), beyond(sums)) for extremes, sums in pairs]
    result = roomy(math.prod(made.given) if pulls else math.prod(made.grid), found)

    def work(start: int, stop: int) -> None:
        arriving = planes_of(made, way, moved, start, stop, "moved planes")
        for turn in turns:
            one, size = passes[turn], (stop - start) * (passes[turn].cells if pulls else passes[turn].windows)
            own = slice(start * one.cells, stop * one.cells)
            before = (
                (planes_of(made, way, z, start, stop, "planes"), None)
                if turn == 0
                else tuple(array[own] for array in pairs[turn - 1])
            )
            extremes, sums = (array[start * one.windows : stop * one.windows] for array in pairs[turn])
            if turn == turns[-1]:
                target = room_of(made, way, result, start, stop)
            else:
                target = scratch(f"moved {turn}", size + VECTOR, found.computed)[:size]
            kernel("smooth.move_lines" if one.inner == 1 else "smooth.move_rows")(
                *before, extremes, sums, arriving, target, None if pulls else True, turn == last, one.read, known, one.ints, 0,
                (stop - start) * one.lines, *at_hand(one, found),
            )  # fmt: skip
            arriving = target
        hand_back(made, way, arriving, result, start, stop)

    each(way.seen.planes, way.plane, work)
    return result


def push(kept: Pairs, dx: Array) -> Array:
    made, found, _, _ = kept
    return leave(made, found, move(kept, widened(made, found, dx, False), pulls=False), True).reshape(made.shape)


def pull(kept: Pairs, gy: Array) -> Array:
    made, found, _, _ = kept
    return leave(made, found, move(kept, widened(made, found, gy, True), pulls=True), False)
