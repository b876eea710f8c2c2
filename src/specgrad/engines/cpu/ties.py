"""Maxima with ties "all" and "split": their chain of one-axis passes, along which tangents and cotangents go to every tied cell.

Peak extra memory: per axis, one array of the size that the operand has after that axis was folded, and pieces of some lines per thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...geometry import Axis
from ...memory import room
from ...remembering import remembered
from .cells import Array, Kind, see
from .chain import leave, stations, widened
from .matches import Matches, match, pull_matches, push_matches
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


def tie(op: Any, x: Array, y: Array) -> Links | Matches:
    """What derivatives need: the operand and its value, if its windows share no cell, else the chain of maxima; for ties="split" also the number of tied cells of each
    window."""
    matched = match(op, x, y)
    if matched is not None:
        return matched
    made, found, *_ = see(op, x)
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


@remembered(256)
def walks(made: Plan) -> list[tuple[Walk, Walk]]:
    """The passes of a plan, last axis first."""
    return [there_and_back(made.lanes, made.axes[axis], outer, inner) for axis, outer, inner in stations(made)]


def there_and_back(lanes: int, axis: Axis, outer: int, inner: int) -> tuple[Walk, Walk]:
    return walk_of(lanes, forward_reads(axis), outer, inner), walk_of(lanes, adjoint_reads(axis), outer, inner)


def walk_of(lanes: int, reads: Reads, outer: int, inner: int) -> Walk:
    """How an axis is walked that is read so."""
    pieces = pieces_of(reads) if inner == 1 else NO_PIECES
    most = int((pieces[:, 1::2] - pieces[:, ::2]).max(initial=0))
    if most > FAR:  # lines that do not fit in the cache side by side are walked one by one
        most, pieces = 0, NO_PIECES
    tasks = line_ranges(outer, max(reads.size, reads.length) * inner, lanes)
    ints = np.array([reads.size, reads.length, inner, reads.step, most * lanes])
    return Walk(reads.length, outer, inner, (ints, reads.first, reads.count, pieces), tasks, 4 * most * lanes)


def pieces_of(reads: Reads) -> Array:
    """Ranges of some outputs each, and of the cells that they read."""
    starts = np.arange(0, reads.length, PIECE)
    if starts.size == 0:
        return NO_PIECES
    some = reads.count > 0
    low = np.minimum.reduceat(np.where(some, reads.first, reads.size), starts)
    high = np.maximum.reduceat(np.where(some, reads.first + (reads.count - 1) * reads.step + 1, 0), starts)
    return np.stack([starts, np.append(starts[1:], reads.length), np.minimum(low, high), high], axis=1)


def line_ranges(outer: int, cells: int, lanes: int) -> Array:
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


def push(kept: Links | Matches, dx: Array) -> Array:
    made, found = kept.plan, kept.kind
    moved = widened(made, found, dx, of_output=False)
    if isinstance(kept, Matches):
        dy = push_matches(kept, moved)
    else:
        dy = push_ties(kept, moved)
        dy = dy if kept.sharers is None else divided(dy, kept.sharers)
    return leave(made, found, dy, of_output=True).reshape(made.shape)


def pull(kept: Links | Matches, gy: Array, out: Array | None) -> Array:
    made, found = kept.plan, kept.kind
    arriving = widened(made, found, gy, of_output=True)
    if isinstance(kept, Matches):
        return pull_matches(kept, arriving, out)
    arriving = arriving if kept.sharers is None else divided(arriving, kept.sharers)
    return leave(made, found, pull_ties(kept, arriving), of_output=False)


def divided(shared: Array, sharers: Array) -> Array:
    """Shares, where there is anyone to share: integers divide as the specification's integers would."""
    with np.errstate(all="ignore"):
        among = np.maximum(sharers, 1, out=room(sharers.shape, sharers.dtype))
        if shared.dtype.kind == "f":
            return np.divide(shared, among, out=among)
        return np.divide(shared, among).astype(shared.dtype)
