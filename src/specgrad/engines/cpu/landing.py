"""The numbers by which cotangents come to the cells that won: where the winner of each code lies, in which order, and in what scratch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Integers
from ...remembering import remembered
from .halves import ranges
from .kernels.machine import X86
from .passes import VECTOR, plane_ranges
from .plan import Plan

FAR = 1 << 17  # cells that fit in the second cache
NEAR = 1 << 15  # cells of planes that are cleared at once
OFTEN = 5  # windows that a cell may win along a row, from which one addition waits for the one before
VERY_OFTEN = 7  # the same, from which two planes at a time still wait
TABLE = 1 << 16  # bases of windows that all differ, as those of adaptive ones may, at most
CHUNK = 1024  # windows that are located together
PIECE = 1024  # cells for which is gathered at a time
GATHERS = X86  # where vectors compare and choose in less time than it takes to add cells one by one


class Landing(NamedTuple):
    """What the kernel `landing.land` is told."""

    ints: Integers
    terms: Integers
    bases: Integers
    chunks: Integers
    room: int
    """How many places it needs at hand."""
    tasks: Integers
    """Ranges of planes, or of as many together as it takes for a vector's worth of windows."""
    pairs: Integers
    """The same, but ranges of two at least, if it may fill two at a time."""
    rest: Integers
    """The range of the planes that are left over."""


@remembered(256)
def scattering(made: Plan) -> tuple[Integers, int]:
    """The numbers of the kernel that takes any windows in any layout, and its scratch. A plane is filled apart if it fits in the second cache: lines
    that were cleared may have left the nearest before they are met again."""
    by_code, _, _, columns = made.in_input
    reach = int(by_code[-1] + columns.max(initial=0)) + made.seen.inner
    is_row = made.seen.inner * columns.size >= math.prod(made.grid[1:])
    apart = made.plane <= FAR and not is_row
    numbers = [made.codes, made.seen.inner, made.plane, reach, apart]
    return np.array(numbers), made.plane if apart else 0


@remembered(256)
def landing(made: Plan) -> Landing | None:
    """The numbers of the kernel for planes that lie whole, in which every window has a winner; None for others."""
    by_code, heads, rows, columns = made.in_input
    columns = (columns[:, None] + np.arange(made.seen.inner)).reshape(-1)
    windows = heads.size * rows.size * columns.size
    if made.empty or windows == 0:
        return None
    some = 1 if windows >= VECTOR else group_size(made.seen.planes, windows, min(CHUNK // windows, NEAR // made.plane))
    groups, plane = made.seen.planes // some, some * made.plane
    firsts = (np.arange(some) * made.plane)[:, None] + (heads[:, None] + rows).reshape(-1)
    apart = chunked(firsts.reshape(-1), columns) if groups else None
    if apart is None:
        return None
    bases, chunks = apart
    often = made.reads[-1].taps // made.reads[-1].stride
    beside = 2 if often >= OFTEN or (often >= 2 and 2 * plane <= NEAR) else 1
    if often >= VERY_OFTEN and 4 * plane <= NEAR:
        beside = 4
    tasks = plane_ranges(groups, plane)
    pairs = tasks if beside == 1 or len(tasks) < groups else two_by_two(groups)
    edges = np.maximum.accumulate(chunks[:, 4] + by_code[-1] + 1)
    chunks[:, 4] = np.minimum(edges, plane) if plane > NEAR else plane
    chunks[-1, 4] = plane
    left = np.arange(groups * some, made.seen.planes)
    rest = np.stack([left[:1], left[-1:] + 1], axis=1)
    for width in (np.uint16, np.uint32):
        found = digits(by_code, made.code_lengths, width)
        if found is not None and bases.max() + by_code[-1] <= np.iinfo(width).max:
            terms, bits = found
            lanes = VECTOR // np.dtype(width).itemsize
            room = int(chunks[:, 1].max()) + lanes
            numbers = np.array([plane, some * windows, room, beside, bits])
            if chunks[:, 1].min() >= lanes:
                return Landing(numbers, terms, bases.astype(width), chunks, beside * room, tasks, pairs, rest)
            return None
    return None


def gathering(made: Plan) -> tuple[Integers, int, Integers, int] | None:
    """How far apart neighbours are, for how many cells is gathered at a time, tasks, and scratch of the kernel that gathers for cells in the middle of windows of three taps per
    axis; None for others."""
    around = all((axis.taps, axis.stride, axis.offset, axis.length) == (3, 1, 1, axis.size) for axis in made.reads)
    if not GATHERS or not around or made.seen.inner > 1 or made.codes > 255:
        return None
    steps = [math.prod(axis.size for axis in made.reads[turn:]) for turn in range(1, len(made.reads) + 1)]
    cells, reach = made.seen.planes * made.plane, sum(steps)
    if cells < made.lanes or reach > NEAR:
        return None
    return np.array([*steps[:-1], reach]), PIECE, ranges(cells), 2 * (PIECE + 2 * (reach + made.lanes))


def group_size(planes: int, windows: int, most: int) -> int:
    """How many planes are filled as one, for a vector's worth of windows or more: so that none is left over, if that can be."""
    least = -(-VECTOR // windows)
    return next((n for n in range(most, least - 1, -1) if planes % n == 0), max(most, 1))


def two_by_two(n: int) -> Integers:
    """Ranges of two out of n, and of one if it is left."""
    starts = np.arange(0, n, 2)
    return np.stack([starts, np.minimum(starts + 2, n)], axis=1)


def chunked(starts: Integers, columns: Integers) -> tuple[Integers, Integers] | None:
    """Rows of windows in chunks, of some rows or of a part of one: the different bases that they have, counted from where a chunk starts; and
    of each chunk the first window, how many, where it starts, where its bases begin, and the furthest of its windows. None if too many differ."""
    some = max(CHUNK // columns.size, 1)
    # all groups of rows, and all parts of rows, are alike but the last, which has the rest
    rows = [starts[a:b].reshape(-1, n) for a, b, n in parted(starts.size, some)]
    parts = [columns[a:b].reshape(-1, n) for a, b, n in parted(columns.size, CHUNK)]
    tables, chunks, size, first = [], [], 0, 0
    for group in rows:
        own, which = np.unique(group - group.min(axis=1, keepdims=True), axis=0, return_inverse=True)
        before = first + np.arange(len(group)) * group.shape[1] * columns.size
        passed = 0
        for part in parts:
            near, turn = np.unique(part - part[:, :1], axis=0, return_inverse=True)
            n = group.shape[1] * part.shape[1]
            if size + len(own) * len(near) * n > TABLE:
                return None
            tables.append((own[:, None, :, None] + near[:, None, :]).reshape(-1))
            grid = np.broadcast_arrays(
                before[:, None] + passed + np.arange(len(part)) * part.shape[1],
                n,
                group.min(axis=1, keepdims=True) + part[:, 0],
                size + (which.reshape(-1, 1) * len(near) + turn.reshape(-1)) * n,
                group.max(axis=1, keepdims=True) + part[:, -1],
            )
            chunks.append(np.stack(grid, axis=-1).reshape(-1, 5))
            size, passed = size + tables[-1].size, passed + part.size
        first += group.size * columns.size
    found = np.concatenate(chunks)
    return np.concatenate(tables), found[np.argsort(found[:, 0], kind="stable")]


def parted(n: int, some: int) -> list[tuple[int, int, int]]:
    """n things by so many at a time, the last ones with the rest: ranges, and how many of each go together."""
    last = max((n // some - 1) * some, 0)
    return [(a, b, size) for a, b, size in ((0, last, some), (last, n, n - last)) if a < b]


def digits(by_code: Integers, lengths: tuple[int, ...], width: Any) -> tuple[Integers, int] | None:
    """a, and m, b of each further digit, and bits: by_code[code] = code·a + Σ (code·m div 2^bits)·b, modulo 2^(the bits of `width`). Where a is not 1 or
    `width` has too few bits for the products, these are taken twice as wide, and divided by 2^(its bits); then `bits` is 0. None if that does not do, either.

    With q = code div d, where d is the product of the lengths that follow an axis, its digit is q less its length times the q of the axis
    before; so q is multiplied by the step of its own axis, less that of the next one times the next one's length.
    """
    full, last, most = 8 * np.dtype(width).itemsize, len(lengths) - 1, len(by_code) - 1
    plain, behind, over, factors = 0, 0, [], []
    if most >> full:
        return None
    for axis in range(last, -1, -1):
        after = math.prod(lengths[axis + 1 :])
        step = int(by_code[after]) if lengths[axis] > 1 else 0
        factor, behind = step - behind, step * lengths[axis]
        if after == 1:
            plain += factor
        else:
            over.append(after)
            factors.append(factor)
    near = range(1, full) if plain == 1 and over else ()
    for bits in (*near, full):
        # code·m is code·2^bits/d and a little more: not so much that its upper bits are greater
        scaled = [-(-(1 << bits) // d) for d in over]
        exact = all((m * d - (1 << bits)) * most < 1 << bits for m, d in zip(scaled, over, strict=True))
        if exact and (bits == full or max(scaled) * most < 1 << full):
            pairs = (n for pair in zip(scaled, factors, strict=True) for n in pair)
            return np.array([plain, *pairs], np.int64).astype(width), bits % full
    return None
