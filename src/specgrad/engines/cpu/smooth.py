"""The smooth maximum: a chain of passes over pairs (extreme, total), some planes at a time, so that pairs stay in the cache. A pass folds one axis, or
the first one two.

Peak extra memory: what is kept for the derivatives is, per pass, two arrays of the size that the operand has after it;
β < 0 adds a negated operand, half floats one that is widened to float32. The value alone takes some planes per thread.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...memory import LARGE, room
from ...remembering import remembered
from .cells import Array, Kind, see
from .chain import leave, place_for, stations, widened
from .kernels.stations import CELLS, EXTREMES, GROUP, ROWS, SUMS, WIDTH, WINDOWS, ZEROS
from .passes import VECTOR
from .plan import Plan
from .reads import TRIVIAL, Reads, adjoint_reads
from .together import Call

TILED, AT_HAND = 128, 1 << 12  # windows, and cells that they read, which are laid out at once where they share none
INDEX = np.dtype(np.int64)
NOWHERE = np.zeros(0, np.int64)


class Chain(NamedTuple):
    """The kernels that go along the passes of a plan: the fold of cells (z, y, where the pairs of each pass are kept), and the way of tangents
    forwards and of cotangents backwards (z, what is moved, the result, where the pairs are)."""

    fold: Call
    push: Call
    pull: Call
    sizes: list[int]
    """How many extremes, and how many totals, there are after each pass."""
    begins: list[int]
    """Where in one piece of memory they begin, each with a vector beyond, and where it ends; and as `offsets` in bytes."""
    offsets: Array
    is_negated: bool
    is_narrow: bool
    """Whether rows are read a vector beyond their end."""
    nothing: Array
    """No cells, for a value that is not wanted."""
    spare: list[tuple[Array, Array]]
    """Memory for few pairs that nobody uses now, and where they begin in it."""


class Pairs(NamedTuple):
    """A chain that has been run: the cells, and the pairs after each pass."""

    plan: Plan
    kind: Kind
    cells: Array
    pairs: list[tuple[Array, Array]]


def numbers(made: Plan) -> Array:
    """|β|, its sign, and the numbers that stand for nothing in a maximum and in a sum, and for all."""
    beta = np.dtype(made.computed).type(float(made.op.beta))
    return np.array([abs(beta), 1 if beta > 0 else -1, -np.inf, 0, 1], made.computed)


@remembered(256)
def chain(made: Plan) -> Chain:
    """The passes of a plan."""
    way = made.side_by_side or made
    counts, mass = way.op.pad == "zero", np.ones(way.seen.inner, way.computed)
    rows: list[list[int]] = []
    columns: tuple[list[Array], ...] = ([], [], [], [])
    for axes, outer, inner in joined(way):
        *others, axis = axes
        reads, beside = way.reads[axis], way.reads[others[0]] if others else TRIVIAL
        ranges = [way.axes[n].ranges() for n in axes]
        existing, real = outer_product([r.existing for r in ranges]), outer_product([r.count for r in ranges])
        lines = outer // max(way.seen.planes, 1)
        # lines that are laid out by rests of the stride have `room` cells, the first of which stands `left` of its beginning
        left = max(reads.offset, reads.taps * reads.dilation) // reads.stride + 2
        read = lines_read(way, axes[0])
        group = rows_together(reads, beside) if inner == 1 and read.all() else 1
        room = 2 * left + max(group * reads.length, reads.size // reads.stride + 1) + 2 * way.lanes
        padding = (existing - real if counts else np.zeros(existing.size)).reshape(beside.length, -1)
        alike = not padding.any()
        zeros = np.zeros((1 if alike else beside.length, group * reads.length + VECTOR), way.computed)
        if not alike:
            zeros[:, : reads.length] = padding
        ints = (reads.size, reads.length, inner, reads.taps, reads.stride, reads.offset, reads.dilation, room, left)
        down = (beside.size, beside.length, beside.taps, beside.stride, beside.offset, beside.dilation)
        cells = lines * beside.size * reads.size * inner, lines * existing.size * inner
        rows.append([*ints, read.size, *down, 0 if alike else zeros.shape[1], group, lines, *cells])
        empty = np.flatnonzero((existing if counts else real) <= 0)
        for column, part in zip(columns, (zeros.reshape(-1), beyond(mass), read, empty), strict=True):
            column.append(part)
        mass = (existing.astype(way.computed)[:, None] * mass).reshape(-1)
    *begins, starts = (np.cumsum([0, *(part.size for part in column)]) for column in columns)
    passes = np.zeros((len(rows), WIDTH), np.int64)
    passes[:, :ZEROS], passes[:, ZEROS:EXTREMES] = rows, np.stack([begin[:-1] for begin in begins], axis=1)
    # of every thread, and each with a vector beyond: the pairs of each pass, two rooms for planes that are walked together, and a pass's lines
    tasks, together = way.plane_tasks, None if way is made else way.seen.inner
    some = int((tasks[:, 1] - tasks[:, 0]).max(initial=0))
    blocks = some * max(way.plane, math.prod(way.grid[1:])) if together else 0
    # extremes, or what is moved, which may be cells; and totals
    most = np.stack([passes[:, [CELLS, WINDOWS]].max(axis=1), passes[:, WINDOWS]], axis=1)
    held = (some * most + VECTOR).reshape(-1)
    begin = np.cumsum([0, *held, blocks + VECTOR, blocks + VECTOR])
    passes[:, EXTREMES], passes[:, SUMS] = begin[: len(held) : 2], begin[1 : len(held) : 2]
    slots = (3 * passes[:, 4] + 3) * passes[:, 7] * passes[:, ROWS + 2]
    at_hand = 4 * (np.maximum(passes[:, 1] * passes[:, GROUP], passes[:, 2]) + 2 * way.lanes) + slots
    rooms = (
        ("chain", int(begin[-1] + at_hand.max()), np.dtype(way.computed)),
        ("places", int(((passes[:, 3] + 1) * (passes[:, ROWS + 2] + 1)).max()), INDEX),
    )
    inner_cells = passes[:, 2]
    zeros, mass, read, empty = (np.concatenate(column) for column in columns)
    # whether the first pass is over lines, whether there are more, and how many planes are walked together, or None: kernels are compiled apart for each
    ways = (True if inner_cells[0] == 1 else None, True if len(rows) > 1 else None, together)
    plane_sizes = np.array([made.seen.planes, made.plane, math.prod(made.grid[1:]), *begin[-3:]])
    told = (*ways, numbers(made), plane_sizes, passes.reshape(-1))
    folded, moved = (*told, zeros, mass, starts, empty), (*told, read)
    kept = np.repeat(passes[:, WINDOWS] * tasks[:, 1].max(initial=0), 2)
    ends = np.cumsum([0, *(kept + VECTOR + -kept % VECTOR)])
    return Chain(
        Call("chains.fold_chain", folded, tasks, *rooms),
        Call("chains.move_chain", (True, *moved), tasks, *rooms),
        Call("chains.move_chain", (None, *moved), tasks, *rooms),
        kept.tolist(),
        ends.tolist(),
        ends[:-1] * np.dtype(way.computed).itemsize,
        made.op.beta < 0,
        bool((inner_cells[1:] < way.lanes).any() or 1 < inner_cells[0] < way.lanes),
        np.empty(0, way.computed),
        [],
    )


def joined(made: Plan) -> list[tuple[tuple[int, ...], int, int]]:
    """(axes, outer, inner) of each pass. The last two axes go together where that takes no more exponentials than one after the other."""
    one_by_one: list[tuple[tuple[int, ...], int, int]] = [
        ((axis,), outer, inner) for axis, outer, inner in stations(made)
    ]
    if len(one_by_one) < 2:
        return one_by_one
    rows, columns = made.reads[-2], made.reads[-1]
    if rows.length * rows.taps * columns.taps > rows.size * columns.taps + rows.length * rows.taps:
        return one_by_one
    return [((len(made.reads) - 2, len(made.reads) - 1), one_by_one[1][1], made.seen.inner), *one_by_one[2:]]


def rows_together(reads: Reads, beside: Reads) -> int:
    """How many rows of windows are laid out end to end, so that their vectors are full."""
    if not (reads.is_tiled and beside.is_tiled):
        return 1
    return max(1, min(TILED // max(reads.length, 1), AT_HAND // max(reads.size * beside.taps, 1)))


def lines_read(made: Plan, axis: int) -> Array:
    """For every line along `axis` (and what follows it) in a plane, whether any window of the axes before reads it."""
    lines = np.ones(1, np.uint8)
    for before in made.axes[:axis]:
        lines = (lines[:, None] & (adjoint_reads(before).count > 0)).reshape(-1)
    return lines


def outer_product(factors: list[Array]) -> Array:
    """The products of a number from each of these, in row-major order."""
    return functools.reduce(lambda a, b: (a[:, None] * b).reshape(-1), factors)


def beyond(array: Array) -> Array:
    """An array and after it cells that are 0."""
    longer = np.zeros(array.size + VECTOR, array.dtype)
    longer[: array.size] = array
    return longer


def places_for(how: Chain, found: Kind) -> tuple[list[tuple[Array, Array]], Array]:
    """Memory for the pairs after each pass, with cells beyond that can be read, and where they begin."""
    if how.begins[-1] * found.computed.itemsize < LARGE:
        memory = room((how.begins[-1],), found.computed)
        kept = [memory[begin : begin + size] for begin, size in zip(how.begins, how.sizes, strict=False)]
        return list(zip(kept[::2], kept[1::2], strict=True)), how.offsets + address(memory)
    kept = [room((size + VECTOR,), found.computed)[:size] for size in how.sizes]
    pairs = list(zip(kept[::2], kept[1::2], strict=True))
    return pairs, addresses(pairs)


def addresses(pairs: list[tuple[Array, Array]]) -> Array:
    """Where pairs begin in memory."""
    return np.array([address(array) for pair in pairs for array in pair], np.int64)


def address(array: Array) -> int:
    """Where an array begins in memory; `ctypes` takes several times as long."""
    start: int = array.__array_interface__["data"][0]
    return start


def value(op: Any, x: Array, out: Array | None) -> Array:
    return fold(op, x, values=True, keeps=False, out=out)[0]


def pairs(op: Any, x: Array) -> Pairs:
    return fold(op, x, values=False, keeps=True)[1]


def keep(op: Any, x: Array, out: Array | None) -> tuple[Array, Pairs]:
    return fold(op, x, values=True, keeps=True, out=out)[:2]


def jvp(op: Any, x: Array, dx: Array) -> tuple[Array, Array]:
    y, kept, places = fold(op, x, values=True, keeps=True)
    return y, move(kept, dx, False, None, places).reshape(kept.plan.shape)


def vjp(op: Any, x: Array, gy: Array) -> Array:
    _, kept, places = fold(op, x, values=False, keeps=True)
    return move(kept, gy, True, None, places).reshape(x.shape)


def fold(op: Any, x: Array, values: bool, keeps: bool, out: Array | None = None) -> tuple[Array, Pairs, Array]:
    """The value, if `values` are asked for (in `out`, if it lies as the plan does), and the pairs along the chain, if it `keeps` them, and where they are."""
    made, found, *_ = see(op, x)
    z, how = widened(made, found, x, of_output=False), chain(made)
    if how.is_negated:
        z = -z
    if how.is_narrow:
        z = beyond(z)[: z.size]
    kept, places = places_for(how, found) if keeps else ([], NOWHERE)
    y, array = place_for(made, found, out, of_output=True) if values else (found.zero[:0], None)
    how.fold(z, y, places)
    chained = Pairs(made, found, z, kept)
    if not values:
        return y, chained, places
    if op.pad == "skip":
        for where in made.empty:
            y.reshape(made.grid)[where] = 0
    return leave(made, found, y, of_output=True).reshape(made.shape) if array is None else array, chained, places


def move(kept: Pairs, given: Array, pulls: bool, out: Array | None, places: Array | None = None) -> Array:
    """Tangents forwards or cotangents backwards, times the weights along the chain (in `out`, if it lies as the plan does). `places` are those that `fold`
    just gave; what is kept may have come another way since."""
    made, found, z, pairs = kept
    moved = widened(made, found, given, of_output=pulls)
    how = chain(made)
    if how.is_narrow:
        moved = beyond(moved)
    if how.is_narrow and places is None:
        z, pairs = beyond(z), [(beyond(extremes), beyond(sums)) for extremes, sums in pairs]
    apart = None if out is None or np.may_share_memory(out, z) else out
    result, array = place_for(made, found, apart, of_output=not pulls)
    (how.pull if pulls else how.push)(z, moved, result, addresses(pairs) if places is None else places)
    return leave(made, found, result, of_output=not pulls) if array is None else array


def push(kept: Pairs, dx: Array, out: Array | None) -> Array:
    dy = move(kept, dx, pulls=False, out=out)
    return dy if dy is out else dy.reshape(kept.plan.shape)


def pull(kept: Pairs, gy: Array, out: Array | None) -> Array:
    return move(kept, gy, pulls=True, out=out)
