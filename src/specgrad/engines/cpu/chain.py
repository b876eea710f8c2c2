"""Chains of one-axis passes, last axis first, and what they need on the way back; here the chain of tied maxima.

Peak extra memory: per axis, one array of the size that the operand has after that axis was folded, and pieces of some lines per thread. Half
floats are widened to float32 first, which adds an array of the operand's size.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Adaptive, Axis
from ...memory import room
from .cells import Array, Kind, Seen, canonical, handed_over, room_for, room_for_input, see, wide
from .passes import even, grain
from .plan import Plan
from .reads import Reads, adjoint_reads, forward_reads
from .together import together

PIECE = 256  # outputs of a line that are walked at once
FAR = 1 << 12  # cells of a line that are laid beside those of others, at most
NO_PIECES = np.zeros((0, 4), np.int64)


class Walk(NamedTuple):
    """How kernels walk over one axis, of (outer, n, inner) arrays."""

    rows: int
    """How many outputs it has along the axis."""
    outer: int
    inner: int
    tables: tuple[Array, Array, Array, Array]
    tasks: Array
    scratch: int


class Link(NamedTuple):
    """One pass: its axis over (outer, n, inner), there and back, and the arrays it went from and to."""

    there: Walk
    back: Walk
    before: Array
    after: Array


class Links(NamedTuple):
    """A chain that has been run, on operands of this plan."""

    plan: Plan
    kind: Kind
    links: list[Link]
    sharers: Array | None
    """How many cells share each maximum, under ties="split"."""


def widened(made: Plan, found: Kind, array: Array, of_output: bool) -> Array:
    """A flat array in the order of the plan, in the type in which it is computed."""
    flat = canonical(made, array, of_output)
    return wide(flat, found.dtype) if found.half else np.asarray(flat, found.dtype)


def place_for(made: Plan, found: Kind, out: Array | None, of_output: bool) -> tuple[Array, Array | None]:
    """Memory for a result, flat in the order of the plan, and the array that it makes up: `out` itself if it lies so, none yet where halves
    are to be rounded."""
    if found.half:
        return room((math.prod(made.lengths if of_output else made.given),), found.computed), None
    return (room_for if of_output else room_for_input)(Seen(made, found, found.zero[:0], 0), out)


def leave(made: Plan, found: Kind, flat: Array, of_output: bool) -> Array:
    """What `widened` undoes: rounded once, in the caller's order of axes."""
    shape = made.lengths if of_output else made.given
    cells = handed_over(flat, room(flat.shape, found.dtype)) if found.half else flat
    return cells.reshape(shape).transpose(made.back)


def stations(made: Plan) -> list[tuple[int, int, int]]:
    """(axis, outer, inner) of each pass, last axis first."""
    sizes = [axis.size for axis in made.axes]
    after = made.seen.inner
    found = []
    for axis in reversed(range(len(sizes))):
        found.append((axis, made.seen.planes * math.prod(sizes[:axis]), after))
        after *= made.axes[axis].length
    return found


def tie(op: Any, x: Array) -> Links:
    """Run the chain of maxima; for ties="split" also count the tied cells of each window."""
    made, found, _, _ = see(op, x)
    links: list[Link] = []
    z = widened(made, found, x, of_output=False)
    for there, back in walks(made):
        out = room((there.outer * there.rows * there.inner,), found.computed)
        walk("ties.greatest", there, found, z, out)
        links.append(Link(there, back, z, out))
        z = out
    shares = push_ties(Links(made, found, links, None), None) if op.ties == "split" else None
    return Links(made, found, links, shares)


def walk(name: str, how: Walk, found: Kind, *arrays: Array | None) -> None:
    """Run a kernel over one axis."""
    numbers = np.array([0, 1], found.computed)
    together(name, (*arrays, numbers, *how.tables), how.tasks, ("lines", how.scratch, found.computed))


@functools.lru_cache(maxsize=256)
def walks(made: Plan) -> list[tuple[Walk, Walk]]:
    """The passes of a plan, last axis first. Planes that are one window each are folded to a row, and that to a cell."""
    planes, cells = made.seen.planes, made.plane
    row = next((n for n in range(made.lanes, math.isqrt(cells) + 1) if cells % n == 0), 0)
    one = made.seen.inner == 1 and all(reads.length == 1 and reads.count[0] == reads.size for reads in made.reads)
    if row and one:
        folds = ((Adaptive(cells // row, 1), planes, row), (Adaptive(row, 1), planes, 1))
        return [there_and_back(made.lanes, *fold) for fold in folds]
    return [there_and_back(made.lanes, made.axes[axis], outer, inner) for axis, outer, inner in stations(made)]


def there_and_back(lanes: int, axis: Axis, outer: int, inner: int) -> tuple[Walk, Walk]:
    return walk_of(lanes, forward_reads(axis), outer, inner), walk_of(lanes, adjoint_reads(axis), outer, inner)


def walk_of(lanes: int, reads: Reads, outer: int, inner: int) -> Walk:
    """How an axis is walked that is read so."""
    tasks, pieces = plane_ranges(outer, max(reads.size, reads.length) * inner, lanes), NO_PIECES
    if inner == 1:
        pieces = np.array([piece(reads, a) for a in range(0, reads.length, PIECE)]).reshape(-1, 4)
    most = max((pieces[:, 1] - pieces[:, 0]).max(initial=0), (pieces[:, 3] - pieces[:, 2]).max(initial=0))
    if most > FAR:  # lines that do not fit in the cache side by side are walked one by one
        most, pieces = 0, NO_PIECES
    ints = np.array([reads.size, reads.length, inner, reads.step, most * lanes])
    return Walk(reads.length, outer, inner, (ints, reads.first, reads.count, pieces), tasks, 4 * int(most) * lanes)


def piece(reads: Reads, start: int) -> tuple[int, int, int, int]:
    """Some outputs from this one on, and the range of cells that they read."""
    stop = min(start + PIECE, reads.length)
    first, count = reads.first[start:stop], reads.count[start:stop]
    first, last = first[count > 0], (first + (count - 1) * reads.step)[count > 0]
    return start, stop, int(first.min(initial=reads.size)) if first.size else 0, int(last.max(initial=-1)) + 1


def plane_ranges(outer: int, cells: int, lanes: int) -> Array:
    """Ranges of outer lines that have so many cells each, of a vector's worth at least."""
    some = max(even(outer, grain(outer * cells) // max(cells, 1)), min(lanes, outer), 1)
    starts = np.arange(0, max(outer - some, 0) + 1, some)[: outer or 0]
    return np.stack([starts, np.append(starts[1:], outer)[: starts.size]], axis=1)


def push_ties(kept: Links, moved: Array | None) -> Array:
    """Σ of tangents over tied cells, or their number."""
    for there, _, z, out in kept.links:
        pushed = room((out.size,), kept.kind.computed)
        walk("ties.move_ties", there, kept.kind, out, z, moved, pushed)
        moved = pushed
    assert moved is not None
    return moved


def pull_ties(kept: Links, arriving: Array) -> Array:
    """Σ of cotangents over the windows with which a cell ties."""
    for _, back, z, out in reversed(kept.links):
        pulled = room((z.size,), kept.kind.computed)
        walk("ties.move_ties", back, kept.kind, z, out, arriving, pulled)
        arriving = pulled
    return arriving


def push(kept: Links, dx: Array) -> Array:
    made, found, _, sharers = kept
    dy = push_ties(kept, widened(made, found, dx, of_output=False))
    if sharers is not None:
        dy = divided(dy, sharers)
    return leave(made, found, dy, of_output=True).reshape(made.shape)


def pull(kept: Links, gy: Array) -> Array:
    made, found, _, sharers = kept
    arriving = widened(made, found, gy, of_output=True)
    if sharers is not None:
        arriving = divided(arriving, sharers)
    return leave(made, found, pull_ties(kept, arriving), of_output=False)


def divided(shared: Array, sharers: Array) -> Array:
    """Shares, where there is anyone to share: integers divide as the specification's integers would."""
    with np.errstate(all="ignore"):
        among = np.maximum(sharers, 1, out=room(sharers.shape, sharers.dtype))
        if shared.dtype.kind == "f":
            return np.divide(shared, among, out=among)
        return np.divide(shared, among).astype(shared.dtype)
