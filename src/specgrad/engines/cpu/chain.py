"""Chains of one-axis passes, last axis first, and what they need on the way back; here the chain of tied maxima.

Peak extra memory: per axis, one array of the size that the operand has after that axis was folded. Half floats are widened to float32
first, which adds an array of the operand's size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from ...memory import room
from .cells import Array, Kind, canonical, handed_over, see, wide
from .compiled import kernel
from .passes import even, grain
from .plan import Plan
from .reads import Reads


class Link(NamedTuple):
    """One pass: its axis over (outer, n, inner), and the arrays it went from and to."""

    reads: Reads
    outer: int
    inner: int
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


def each(outer: int, cells: int, work: Any) -> None:
    """Call work(start, stop), a few calls from Python, over ranges of `outer`, which have so many cells each."""
    cells = max(cells, 1)
    some = even(outer, grain(outer * cells, tasks=16) // cells)
    if some >= outer > 0:
        work(0, outer)
        return
    threads.run(lambda task: work(*task), [(a, min(a + some, outer)) for a in range(0, outer, some)])


def tie(op: Any, x: Array) -> Links:
    """Run the chain of maxima; for ties="split" also count the tied cells of each window."""
    made, found, _, _ = see(op, x)
    links: list[Link] = []
    z = widened(made, found, x, of_output=False)
    for axis, outer, inner in stations(made):
        reads = made.reads[axis]
        out = room((outer * reads.length * inner,), found.computed)
        out[...] = 0
        run(kernel("ties.max_pass"), reads, outer, inner, z, out)
        links.append(Link(reads, outer, inner, z, out))
        z = out
    shares = push_ties(Links(made, found, links, None), None) if op.ties == "split" else None
    return Links(made, found, links, shares)


def run(compiled: Any, reads: Reads, outer: int, inner: int, *arrays: Any) -> None:
    """One pass of a kernel that reads tables."""
    ints = np.array([reads.size, reads.length, inner, reads.step])
    each(outer, reads.size * inner, lambda a, b: compiled(*arrays, ints, reads.first, reads.count, a, b))


def push_ties(kept: Links, moved: Array | None) -> Array:
    """Σ of tangents over tied cells, or their number."""
    for reads, outer, inner, z, out in kept.links:
        pushed = room((out.size,), kept.kind.computed)
        run(kernel("ties.tie_push"), reads, outer, inner, z, out, moved, pushed)
        moved = pushed
    assert moved is not None
    return moved


def pull_ties(kept: Links, arriving: Array) -> Array:
    """Σ of cotangents over the windows with which a cell ties."""
    for reads, outer, inner, z, out in reversed(kept.links):
        pulled = room((z.size,), kept.kind.computed)
        run(kernel("ties.tie_pull"), reads, outer, inner, z, out, arriving, pulled)
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
