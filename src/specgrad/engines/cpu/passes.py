"""Passes of kernels over (outer, rows, columns, inner), and the tasks that threads share them by.

Windows of rank 1 and 2 take one pass; every further axis takes one more, over whole rows. A pass is made of integers and small tables;
the kernels are the same for every pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Integers, Shape, strides
from ...remembering import cached_property
from .kernels.heights import GROUP
from .reads import FEW, TRIVIAL, Layout, Reads, offsets

VECTOR = 64  # bytes
NARROW = 40  # columns of planes that are better laid out cell by cell
BLOCK = 1 << 11  # cells of such a plane at most
FLAT = 128, 40  # cells of planes that are better laid out as one line, at least, and their columns at most
WASTE = 2.25  # times as many cells as these have, with their padding
SHORT = 48  # columns of planes of which rows are better folded as one
NEAR = 1 << 13  # cells that the nearest cache has room for, beside others
TILE = 4096  # cells of a row that are worked on at once
LEAST, MOST = 1 << 15, 1 << 18  # cells read or written by one task


class Flat(NamedTuple):
    """Narrow planes, laid out as one line each."""

    ints: Integers
    room: int
    """Cells of a line at most."""
    least: Integers
    """The code of each window's first real cell."""
    tasks: Integers


@dataclass(frozen=True)
class Pass:
    """One run of a kernel over (outer, rows, columns, inner)."""

    rows: Reads
    columns: Reads
    outer: int
    inner: int
    bases: Integers
    ints: Integers
    tasks: Integers
    """Each a range of outer planes, of rows and of columns."""
    scratch: int
    code_scratch: int
    small: Integers | None = None
    """The numbers of the kernel for small windows, where it will do."""
    runs: Integers | None = None
    """The numbers of the kernel for windows that are runs of 2 or 4 cells of a row (how many, the lengths of rows, and how many rows), where it will do."""
    flat: Flat | None = None
    """What the kernels for narrow planes that are one line are told, where they will do."""
    block: Pass | None = None
    """The pass over a few planes that are laid out cell by cell, where rows are better made longer so."""
    strided: int | None = None
    """Whether columns of windows, in any pass of the chain, are not neighbours but up to four cells apart, the stride if that is more, or None; kernels are
    compiled apart for each, by its type."""
    tall: bool | None = None
    """Whether windows, in any pass of the chain, are folded by blocks of rows, or None; kernels are compiled apart for either."""
    led_by_blocks: bool | None = None
    """The same of winners, which are found so in windows of fewer rows."""

    @cached_property
    def staged(self) -> bool | None:
        """Whether rows are copied before they are folded, or None; kernels are compiled apart for either."""
        return True if self.ints[10] else None

    @cached_property
    def ways(self) -> tuple[Any, ...]:
        """What kernels of folds are compiled apart for, and the pass's integers."""
        return self.staged, self.strided, self.tall, self.ints

    @cached_property
    def tables(self) -> tuple[Any, ...]:
        """What each row reads (the lowest cell that is still read, the first, how many, and where tap 0 lies), and each column where bins are not
        uniform: one array each."""
        rows, columns = self.rows, self.columns
        bins = None if columns.taps else np.concatenate([columns.first, columns.count])
        return np.concatenate([rows.low, rows.first, rows.count, rows.start]), bins

    @cached_property
    def block_cells(self) -> tuple[int, int] | None:
        """How many cells a block has before and after, if this is the pass over one."""
        if len(self.bases) == self.outer:
            return None
        return self.rows.size * self.columns.size * self.inner, self.rows.length * self.columns.length * self.inner

    @property
    def is_around(self) -> bool:
        """Whether windows are the 3×3 cells around each cell of narrow planes, which are folded as if their rows were one."""
        return self.small is not None and bool(self.small[-1])

    @property
    def outputs(self) -> int:
        return self.outer * self.rows.length * self.columns.length * self.inner


def make_pass(
    rows: Reads,
    columns: Reads,
    outer: Integers,
    inner: int,
    steps: Shape,
    lanes: int,
    codes: int = 1,
    ways: tuple[int | None, bool | None, bool | None] = (None, None, None),
    stacks: bool = True,
) -> Pass:
    """`steps`: the strides of a row, a column and an inner cell; `lanes`: the cells of a vector; `codes`: how many codes the passes before have used;
    `ways`: whether it is `strided`, `tall` and `led_by_blocks`; `stacks`: whether rows of windows may be folded several together."""
    _, column_step, inner_step = steps
    staged = (inner_step != 1 and inner > 1) or column_step != inner
    slots = rows.extent
    lengths = (columns.size, inner, rows.length, columns.length, rows.step, rows.block, slots)
    across = (columns.up, columns.offset, columns.taps, columns.stride, columns.dilation)
    # in kernels for columns that are apart only rows that need no fold across
    near = columns.taps == 1 if ways[0] else columns.taps > 0
    stack = rows.stack if stacks and not staged and near and columns.stride == columns.up == 1 else 0
    most = (NEAR // (stack + 16) if stack else TILE) // inner
    tile = max(min(columns.length, most), 1)
    ints = np.array([*steps, *lengths, staged, *across, rows.size, codes, tile, stack, rows.offset], np.int64)
    span = (tile - 1) * columns.stride + (max(columns.taps, 1) - 1) * columns.dilation + 1
    span = (span if columns.taps else columns.size) * inner
    m = tile * inner
    fold_scratch = (slots + rows.block + 1) * max(span, m) + 14 * (span + lanes) + m
    led = ring_rows(slots) * max(span, m) + (rows.block + 2) * m + 2 * GROUP * span
    code_scratch = led + 2 * m
    lies = inner == 1 and steps[1] == 1 and (steps[0] == columns.size or rows.size == 1)
    lies = lies and bool((outer == np.arange(len(outer)) * rows.size * columns.size).all())
    small = small_numbers(rows, columns) if lies and not staged and is_small(rows, columns, lanes) else None
    runs = lies and not staged and rows.is_still and columns.run and columns.length >= lanes
    block = None
    narrow = (
        columns.size * columns.length < NARROW**2
        and max(rows.size * columns.size, rows.length * columns.length) <= BLOCK
    )
    if lies and small is None and narrow and len(outer) >= 2 * lanes:
        steps = (columns.size * lanes, lanes, 1)
        block = make_pass(rows, columns, np.zeros(1, np.int64), lanes, steps, lanes, codes, ways, stacks=False)
        tasks = make_tasks(len(outer), rows, columns, 1, tile)
        block = replace(block, bases=outer, tasks=in_blocks(tasks, len(outer), lanes))
    return Pass(
        rows,
        columns,
        len(outer),
        inner,
        outer,
        ints,
        make_tasks(len(outer), rows, columns, inner, tile),
        max(fold_scratch, led + GROUP * span)
        + 4 * (columns.size + columns.offset + 8) * inner
        + (16 * lanes if small is None else 24 * lanes + BLOCK),
        code_scratch + 4 * lanes,
        small,
        np.array([columns.run, columns.size, columns.length, rows.size]) if runs else None,
        make_flat(rows, columns, len(outer), lanes, block is None) if lies and not staged and small is None else None,
        block,
        *ways,
    )


def ring_rows(extent: int) -> int:
    """How many rows a search for winners keeps, of which so many must be at hand, and some are staged together: a power of two, by which rows find their place."""
    return 1 << (extent + GROUP - 2).bit_length()


def is_small(rows: Reads, columns: Reads, lanes: int) -> bool:
    """Whether windows have up to 3×3 neighbouring taps, at strides of 1 or 2, in rows that vectors fit in."""
    return are_few(rows, columns) and lanes <= columns.size <= TILE


def make_flat(rows: Reads, columns: Reads, outer: int, lanes: int, alone: bool) -> Flat | None:
    """Planes of which the windows move by one cell, and that are narrow, and not small unless they are `alone`, too few to be laid out cell by cell; None for others."""
    axes = rows, columns
    if not all(a.taps > 0 and a.stride == a.up == 1 and a.length > 0 and a.offset >= 0 for a in axes):
        return None
    behind = [max(a.length + (a.taps - 1) * a.dilation - a.offset - a.size, 0) for a in axes]
    pitch = columns.size + max(columns.offset, behind[1])
    narrow = lanes // 4 <= min(columns.size, columns.length) and max(columns.size, columns.length) <= FLAT[1]
    if not narrow or columns.length > pitch or (rows.size * columns.size < FLAT[0] and not alone):
        return None
    tall = rows.offset + rows.size + behind[0]
    room = (max(tall, rows.length) + 1) * pitch + columns.taps * columns.dilation + 4 * lanes
    if room > NEAR or (tall * pitch > WASTE * rows.size * columns.size and not alone):
        return None
    skipped = [-(-np.maximum(a.offset - np.arange(a.length), 0) // a.dilation) for a in axes]
    least = np.zeros((rows.length, pitch), np.int64)
    least[:, : columns.length] = (skipped[0] * rows.dilation * columns.taps)[:, None] + skipped[1]
    numbers = [n for a in (columns, rows) for n in (a.offset, a.taps, a.dilation)]
    ints = np.array([rows.size, columns.size, rows.length, columns.length, pitch, room, *numbers])
    return Flat(ints, room, least.reshape(-1), plane_ranges(outer, rows.size * columns.size))


def in_blocks(tasks: Integers, outer: int, together: int) -> Integers:
    """Tasks over planes that are taken several at a time."""
    starts = np.unique(tasks[:, 0] // together * together)
    found = np.zeros((len(starts), 6), np.int64)
    found[:, 0], found[:, 1] = starts, np.append(starts[1:], outer)
    return found


def are_few(*axes: Reads) -> bool:
    return all(0 < a.taps <= 3 and a.stride <= 2 and a.dilation == 1 and a.up == 1 and a.offset < 16 for a in axes)


def turned(axis: Reads) -> Reads:
    """An axis of which the inputs are made from the outputs."""
    return replace(axis, size=axis.length, length=axis.size)


def small_numbers(rows: Reads, columns: Reads) -> Integers:
    """Lengths before and after, of each axis taps, stride and offset, and whether windows are those around each cell of a narrow plane."""
    around = all((r.taps, r.stride, r.offset, r.length) == (3, 1, 1, r.size) for r in (rows, columns))
    return np.array(
        [rows.size, columns.size, rows.length, columns.length]
        + [n for axis in (rows, columns) for n in (axis.taps, axis.stride, axis.offset)]
        + [around and rows.size >= 3 and columns.size <= SHORT and rows.size * columns.size <= BLOCK]
    )


def make_tasks(outer: int, rows: Reads, columns: Reads, inner: int, tile: int) -> Integers:
    """Tasks of about `grain` cells: ranges of outer planes, of rows where planes are large, of tiles where rows are long."""
    if outer == 0 or rows.length == 0 or columns.length == 0:
        return np.zeros((0, 6), np.int64)
    row_cells = max(columns.size, columns.length) * inner * max(rows.size, rows.length) // max(rows.length, 1) or 1
    plane_cells = row_cells * rows.length
    some = grain(outer * plane_cells)
    planes, several_rows, several_columns = even(outer, some // plane_cells), rows.length, columns.length
    if plane_cells > some:
        several_rows = max(even(rows.length, some // row_cells), rows.block)
    if row_cells * several_rows > some:
        tiles = -(-columns.length // tile)
        several_columns = tile * even(tiles, tiles * some // (row_cells * several_rows))
    tasks = [
        (o, min(o + planes, outer), r, min(r + several_rows, rows.length), c, min(c + several_columns, columns.length))
        for o in range(0, outer, planes)
        for r in range(0, rows.length, several_rows)
        for c in range(0, columns.length, several_columns)
    ]
    return np.array(tasks)


def plane_ranges(planes: int, cells: int) -> Integers:
    """Tasks that are ranges of planes with so many cells."""
    some = even(planes, grain(planes * cells) // max(cells, 1))
    starts = np.arange(0, planes, some)
    return np.stack([starts, np.minimum(starts + some, planes)], axis=1)


def grain(cells: int, tasks: int = 64) -> int:
    """How many of these cells a task takes: about so many tasks, more than threads, so that one that begins late finds some; none so small or
    large that its own cost shows."""
    return min(max(cells // tasks, LEAST), MOST)


def even(n: int, some: int) -> int:
    """About `some` things at a time out of n, at least one, in parts that are equal and, if more than one, even in number."""
    parts = -(-n // max(some, 1)) or 1
    return max(-(-n // (parts + parts % 2 if parts > 1 else 1)), 1)


def chain(reads: tuple[Reads, ...], seen: Layout, lanes: int, backwards: bool) -> tuple[Pass, ...]:
    """The passes: the last two axes together, then each axis before them; backwards, the other way round."""
    sizes = [r.size for r in reads]
    rank, made, used = len(reads), [], 1
    fused = max(rank - 2, 0)
    order = [*range(fused), fused] if backwards else [fused, *range(fused - 1, -1, -1)]
    now = list(sizes)
    stride = reads[-1].stride if rank and reads[-1].taps else 1
    blocks = [r.block for r in reads[:-1]]
    tall = any(block > FEW for block in blocks)
    ways = (None if stride == 1 else True if stride <= 4 else stride, tall or None, any(blocks) or None)
    for turn, axis in enumerate(order):
        first = turn == 0
        contiguous = strides((seen.planes, *now, seen.inner))
        step = seen.spatial_strides if first else contiguous[1:-1]
        inner_step = seen.inner_stride if first else 1
        before = offsets(tuple(now[:axis]), tuple(step[:axis]))
        planes = offsets(seen.outer, seen.outer_strides) if first else offsets((seen.planes,), contiguous[:1])
        bases = (planes[:, None] + before).reshape(-1)
        if axis == fused:
            rows = reads[-2] if rank > 1 else TRIVIAL
            row_step = step[-2] if rank > 1 else 0
            one = make_pass(
                rows,
                reads[-1],
                bases,
                seen.inner,
                (row_step, step[-1], inner_step),
                lanes,
                reads[-1].nominal,
                ways,
            )
            now[fused:] = [r.length for r in reads[fused:]]
            used *= reads[-1].nominal * rows.reach
        else:
            rows = reads[axis]
            rest = math.prod(now[axis + 1 :]) * seen.inner
            line = np.arange(rest)
            columns = Reads(rest, rest, line[:0], line[:0], line[:0], 1, 1)
            one = make_pass(rows, columns, bases, 1, (step[axis], 1, 1), lanes, used, ways)
            now[axis] = rows.length
            used *= rows.reach
        made.append(one)
    return tuple(made)
