"""Chains of one-axis passes, last axis first, with what each pass needs on the way back: tied maxima and smooth maxima.

Peak extra memory: per axis, one array (ties) or two (smooth maximum) of the size that the operand has after that axis was folded.
Half floats are widened to float32 first, which adds an array of the operand's size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import threads
from .cells import Array, Kind, canonical, see
from .compiled import kernel
from .plan import Plan, Reads, adjoint_reads

GRAIN = 1 << 17


class Link(NamedTuple):
    """One pass: its axis over (outer, n, inner), and the arrays it went from and to."""

    reads: Reads
    outer: int
    inner: int
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    read: Array | None = None
    """Which of the lines of a plane the passes that follow read at all."""


class Links(NamedTuple):
    """A chain that has been run, on operands of this plan."""

    plan: Plan
    kind: Kind
    links: list[Link]
    sharers: Array | None


def widened(made: Plan, found: Kind, array: Array, of_output: bool) -> Array:
    """A flat array in the order of the plan, in the type in which it is computed."""
    return canonical(made, array, of_output).astype(found.computed, copy=False)


def leave(made: Plan, found: Kind, flat: Array, of_output: bool) -> Array:
    """What `widened` undoes: rounded once, in the caller's order of axes."""
    shape = made.lengths if of_output else made.given
    with np.errstate(all="ignore"):  # a half float overflows to infinity, as everywhere
        return flat.astype(found.dtype, copy=False).reshape(shape).transpose(made.back)


def stations(made: Plan) -> list[tuple[int, int, int]]:
    """(axis, outer, inner) of each pass, last axis first."""
    sizes = [axis.size for axis in made.axes]
    after = made.seen.inner
    found = []
    for axis in reversed(range(len(sizes))):
        found.append((axis, made.seen.planes * math.prod(sizes[:axis]), after))
        after *= made.axes[axis].length
    return found


def lines_read(made: Plan, axis: int) -> Array:
    """For every line along `axis` in a plane, whether any window of the axes before reads it."""
    lines = np.ones(1, np.bool_)
    for before in made.axes[:axis]:
        lines = (lines[:, None] & (adjoint_reads(before).count > 0)).reshape(-1)
    return lines


def each(outer: int, cells: int, work: Any) -> None:
    """Call work(start, stop) over ranges of `outer`, each of some GRAIN cells."""
    some = max(GRAIN // max(cells, 1), 1)
    threads.run(lambda task: work(*task), [(a, min(a + some, outer)) for a in range(0, outer, some)])


def tie(op: Any, x: Array) -> Links:
    """Run the chain of maxima; for ties="split" also count the tied cells of each window."""
    made, found, _, _ = see(op, x)
    links: list[Link] = []
    z = widened(made, found, x, of_output=False)
    for axis, outer, inner in stations(made):
        reads = made.reads[axis]
        out = np.zeros(outer * reads.length * inner, found.computed)
        run(kernel("ties.max_pass"), reads, outer, inner, z, out)
        links.append(Link(reads, outer, inner, (z,), (out,)))
        z = out
    shares = push_ties(Links(made, found, links, None), None) if op.ties == "split" else None
    return Links(made, found, links, shares)


def run(compiled: Any, reads: Reads, outer: int, inner: int, *arrays: Any) -> None:
    """One pass of a kernel that reads tables."""
    ints = np.array([reads.size, reads.length, inner, reads.step])
    each(outer, reads.size * inner, lambda a, b: compiled(*arrays, ints, reads.first, reads.count, a, b))


def push_ties(kept: Links, moved: Array | None) -> Array:
    """Σ of tangents over tied cells, or their number."""
    for reads, outer, inner, (z,), (out,), _ in kept.links:
        pushed = np.empty(out.size, kept.kind.computed)
        run(kernel("ties.tie_push"), reads, outer, inner, z, out, moved, pushed)
        moved = pushed
    assert moved is not None
    return moved


def pull_ties(kept: Links, arriving: Array) -> Array:
    """Σ of cotangents over the windows with which a cell ties."""
    for reads, outer, inner, (z,), (out,), _ in reversed(kept.links):
        pulled = np.empty(z.size, kept.kind.computed)
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
        return np.divide(shared, np.maximum(sharers, 1)).astype(shared.dtype, copy=False)


def numbers(op: Any, found: Kind) -> Array:
    """|β|, its sign, and the two numbers that stand for nothing in a maximum and in a sum."""
    beta = found.computed.type(float(op.beta))
    return np.array([abs(beta), 1 if beta > 0 else -1, -np.inf, 0, 1], found.computed)


def layout_of(reads: Reads, inner: int) -> Array:
    return np.array([reads.size, reads.length, inner, reads.taps, reads.stride, reads.offset, reads.dilation])


def smooth(op: Any, x: Array) -> tuple[Array, Links]:
    """The value, and the pairs (extreme, total) along the chain."""
    made, found, _, _ = see(op, x)
    links: list[Link] = []
    z, totals = widened(made, found, x, of_output=False), None
    known, mass = numbers(op, found), np.ones(made.seen.inner, found.computed)
    for axis, outer, inner in stations(made):
        reads, existing = made.reads[axis], made.axes[axis].ranges().existing
        if len(links) == 1:
            known = known.copy()
            known[1] = 1  # the sign is in the extremes now
        zeros = (existing - reads.count if op.pad == "zero" else np.zeros(reads.length)).astype(found.computed)
        extremes, sums = (np.empty(outer * reads.length * inner, found.computed) for _ in range(2))
        ints = layout_of(reads, inner)

        def work(a: int, b: int, z: Any = z, totals: Any = totals, extremes: Any = extremes, sums: Any = sums, ints: Any = ints, zeros: Any = zeros, known: Any = known, mass: Any = mass) -> None:  # fmt: skip
            scratch = np.empty(max(ints[1], ints[2]), found.computed)
            kernel("smooth.smooth_pass")(z, totals, extremes, sums, known, ints, zeros, mass, a, b, scratch)

        each(outer, reads.size * inner, work)
        nothing = np.flatnonzero((existing if op.pad == "zero" else reads.count) <= 0)
        if nothing.size:  # windows of no tap at all weigh something, so that no weight is 0/0
            extremes.reshape(outer, reads.length, inner)[:, nothing] = 0
            sums.reshape(outer, reads.length, inner)[:, nothing] = 1
        links.append(Link(reads, outer, inner, (z, totals, known), (extremes, sums), lines_read(made, axis)))
        z, totals = extremes, sums
        mass = (existing.astype(found.computed)[:, None] * mass).reshape(-1)
    y = np.empty(z.size, found.computed)
    known = numbers(op, found)
    each(z.size, 1, lambda a, b: kernel("smooth.smooth_value")(z, totals, y, known, a, b))
    if op.pad == "skip":
        for where in made.empty:
            y.reshape(made.grid)[where] = 0
    return leave(made, found, y, of_output=True).reshape(made.shape), Links(made, found, links, None)


def move_smooth(kept: Links, moved: Array, pulls: bool) -> Array:
    """Tangents forwards or cotangents backwards, times the weights along the chain."""
    for link in reversed(kept.links) if pulls else kept.links:
        reads, outer, inner, (z, totals, known), (extremes, sums), read = link
        last = link is kept.links[-1]
        result = np.empty(z.size if pulls else extremes.size, kept.kind.computed)
        ints = layout_of(reads, inner)

        def work(a: int, b: int, z: Any = z, totals: Any = totals, extremes: Any = extremes, sums: Any = sums, ints: Any = ints, known: Any = known, moved: Any = moved, result: Any = result, last: bool = last, read: Any = read) -> None:  # fmt: skip
            scratch = np.empty(max(ints[1], ints[2]), kept.kind.computed)
            kernel("smooth.smooth_move")(
                z, totals, extremes, sums, moved, result, pulls, last, read, known, ints, a, b, scratch
            )

        each(outer, reads.size * inner, work)
        moved = result
    return moved


def push_smooth(kept: Links, dx: Array) -> Array:
    made, found, _, _ = kept
    return leave(made, found, move_smooth(kept, widened(made, found, dx, False), False), True).reshape(made.shape)


def pull_smooth(kept: Links, gy: Array) -> Array:
    made, found, _, _ = kept
    return leave(made, found, move_smooth(kept, widened(made, found, gy, True), True), False)
