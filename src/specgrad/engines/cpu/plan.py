"""How an operator runs on an array of one shape and one memory layout: which passes, with which numbers, in which tasks.

The array is seen as (outer, *spatial, inner): `inner` are the batch axes that lie closer in memory than all spatial ones
(channels-last), `outer` the others. No array is copied to get there: outer planes are found by a table of offsets and rows by
strides. Windows of rank 1 and 2 take one pass; every further axis takes one more, over whole rows. A plan is made of integers
and small tables; the kernels are the same for every plan.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...geometry import Axis, Integers, Shape, Sliding, readers, strides

VECTOR = 64  # bytes
NARROW = 40  # columns of planes that are better laid out cell by cell
BLOCK = 1 << 11  # cells of such a plane at most
TOGETHER = 1 << 12  # cells of such planes that are walked at once, where that is not a vector's worth of planes
TILE = 4096  # cells of a row that are worked on at once
LEAST, MOST = 1 << 15, 1 << 18  # cells read or written by one task
FEW = 7  # windows of up to so many rows are folded row by row
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Reads:
    """An axis as a kernel sees it: output o reads count[o] cells from first[o], step apart; `start` is tap 0's place.

    Uniform axes have `taps` > 0: output o reads the cells at o*stride + j*dilation of a line on which cell i stands at
    offset + i*up. Bins have taps = 0.
    """

    size: int
    length: int
    start: Integers
    first: Integers
    count: Integers
    step: int
    taps: int
    stride: int = 1
    dilation: int = 1
    up: int = 1
    offset: int = 0

    @property
    def most(self) -> int:
        """The most cells any output reads."""
        return int(self.count.max(initial=1))

    @functools.cached_property
    def low(self) -> Integers:
        """The lowest cell that this output or a later one reads: dilated windows need not begin in order."""
        firsts = np.clip(self.first, 0, self.size - 1)
        return np.minimum.accumulate(firsts[::-1])[::-1].copy()

    @property
    def extent(self) -> int:
        """How many cells must be at hand at once, when outputs are made in order."""
        lasts = np.maximum.accumulate(self.first + (self.count - 1) * self.step) if self.length else self.first
        return max(int((lasts - self.low).max(initial=0)) + 1, 1)

    @property
    def nominal(self) -> int:
        """How many taps a winner's code must tell apart."""
        return self.taps or self.most

    @property
    def reach(self) -> int:
        """From tap 0 to the last, in cells."""
        return (self.nominal - 1) * self.step + 1

    @property
    def block(self) -> int:
        """The length of blocks whose prefixes and suffixes make up all windows; 0 where windows are
        few cells, irregular, or apart."""
        return self.most if self.stride < self.taps and self.step == 1 and self.most > FEW else 0


SINGLE = np.zeros(1, np.int64)
TRIVIAL = Reads(1, 1, SINGLE, SINGLE, SINGLE + 1, 1, 1)


def forward_reads(axis: Axis) -> Reads:
    """An axis read by its windows."""
    start, first, count, _, step = axis.ranges()
    if isinstance(axis, Sliding):
        return Reads(
            axis.size, axis.length, start, first, count, step, axis.kernel, axis.stride, axis.dilation, 1, axis.before
        )
    most = int(count.max(initial=1))
    if (count == most).all() and axis.size % max(axis.length, 1) == 0:  # evenly divided bins are a sliding kernel
        return Reads(axis.size, axis.length, start, first, count, step, most, most)
    return Reads(axis.size, axis.length, start, first, count, step, 0)


def adjoint_reads(axis: Axis) -> Reads:
    """An axis read backwards: the cells of the result are the axis's cells, and each reads the outputs that read it."""
    ranges = axis.ranges()
    cells = np.arange(axis.size)
    if ranges.step == 1:
        first = np.searchsorted(ranges.first + ranges.count, cells, "right")
        count = np.maximum(np.searchsorted(ranges.first, cells, "right") - first, 0)
        step = 1
    else:
        table = readers(axis.taps(), axis.size)
        first, count = table.output[:, 0], table.exists.sum(axis=1)
        step = axis.dilation // math.gcd(axis.dilation, axis.stride) if isinstance(axis, Sliding) else 1
    forward = forward_reads(axis)
    if forward.taps == 0:
        return Reads(axis.length, axis.size, first, first, count, step, 0)
    dilation, taps = forward.dilation, forward.taps
    offset = (taps - 1) * dilation - forward.offset
    return Reads(axis.length, axis.size, first, first, count, step, taps, 1, dilation, forward.stride, offset)


@dataclass(frozen=True)
class Layout:
    """An operand as (outer, *spatial, inner): the order of its axes, and where each outer plane begins, in elements."""

    order: tuple[int, ...]
    outer: Shape
    outer_strides: Shape
    spatial: tuple[int, ...]
    spatial_strides: Shape
    inner: int
    inner_stride: int

    @property
    def planes(self) -> int:
        return math.prod(self.outer)


def layout(shape: Shape, step: Shape, positions: tuple[int, ...], any_order: bool) -> Layout:
    """See an array so; `any_order` lets the spatial axes stand as they lie in memory."""
    spatial = sorted(positions, key=lambda p: -abs(step[p])) if any_order else list(positions)
    nearest = min((abs(step[p]) for p in spatial if shape[p] > 1), default=0)
    batch = sorted((p for p in range(len(shape)) if p not in positions), key=lambda p: -abs(step[p]))
    tail = [p for p in batch if shape[p] > 1 and abs(step[p]) < nearest]
    while tail and not _even(shape, step, tail):
        tail = tail[1:]
    outer = [p for p in batch if p not in tail]
    return Layout(
        (*outer, *spatial, *tail),
        tuple(shape[p] for p in outer),
        tuple(step[p] for p in outer),
        tuple(spatial),
        tuple(step[p] for p in spatial),
        math.prod(shape[p] for p in tail),
        step[tail[-1]] if tail else 1,
    )


def _even(shape: Shape, step: Shape, axes: list[int]) -> bool:
    """Whether these axes are one axis with one stride."""
    return all(step[a] == step[b] * shape[b] for a, b in itertools.pairwise(axes))


def offsets(lengths: Shape, step: Shape) -> Integers:
    """Where each index of a product of axes lies, in elements, in row-major order."""
    total = SINGLE
    for length, stride in zip(lengths, step, strict=True):
        total = (total[:, None] + np.arange(length) * stride).reshape(-1)
    return total


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
    block: Pass | None = None
    """The pass over a few planes that are laid out cell by cell, where rows are better made longer so."""

    @property
    def bins(self) -> tuple[Integers, Integers]:
        """The bins of the columns where they are not uniform."""
        return (NOTHING, NOTHING) if self.columns.taps else (self.columns.first, self.columns.count)

    @property
    def block_cells(self) -> tuple[int, int]:
        """How many cells a block has before and after, if this is the pass over one."""
        if len(self.bases) == self.outer:
            return 0, 0
        return self.rows.size * self.columns.size * self.inner, self.rows.length * self.columns.length * self.inner

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
    half: int,
    divides: bool = False,
    codes: int = 1,
) -> Pass:
    """`steps`: the strides of a row, a column and an inner cell; `lanes`: the cells of a vector; `codes`: how many codes the passes before have used."""
    _, column_step, inner_step = steps
    staged = half > 0 or divides or (inner_step != 1 and inner > 1) or column_step != inner
    slots = rows.extent
    lengths = (columns.size, inner, rows.length, columns.length, rows.step, rows.block, slots)
    across = (columns.up, columns.offset, columns.taps, columns.stride, columns.dilation)
    ints = np.array([*steps, *lengths, staged, half, divides, *across, rows.size, codes, 0], np.int64)
    tile = ints[-1] = max(min(columns.length, TILE // inner), 1)
    span = (tile - 1) * columns.stride + (max(columns.taps, 1) - 1) * columns.dilation + 1
    span = (span if columns.taps else columns.size) * inner
    m = tile * inner
    fold_scratch = (slots + rows.block + 1) * max(span, m) + 4 * span + m
    code_scratch = (slots + rows.block + 2) * m + 2 * span
    lies = inner == 1 and steps[1] == 1 and (steps[0] == columns.size or rows.size == 1)
    lies = lies and bool((outer == np.arange(len(outer)) * rows.size * columns.size).all())
    small = small_numbers(rows, columns) if lies and not staged and _is_small(rows, columns, lanes) else None
    block = None
    narrow = (
        columns.size * columns.length < NARROW**2
        and max(rows.size * columns.size, rows.length * columns.length) <= BLOCK
    )
    if lies and small is None and narrow and len(outer) >= 2 * lanes:
        steps = (columns.size * lanes, lanes, 1)
        block = make_pass(rows, columns, np.zeros(1, np.int64), lanes, steps, lanes, half, divides, codes)
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
        max(fold_scratch, (slots + rows.block + 2) * m + 3 * span)
        + 4 * (columns.size + columns.offset + 8) * inner
        + 16 * lanes,
        code_scratch + 4 * lanes,
        small,
        block,
    )


def _is_small(rows: Reads, columns: Reads, lanes: int) -> bool:
    """Whether windows have up to 3×3 neighbouring taps, at strides of 1 or 2, in rows that vectors fit in."""
    return _are_few(rows, columns) and lanes <= columns.size <= TILE


def in_blocks(tasks: Integers, outer: int, together: int) -> Integers:
    """Tasks over planes that are taken several at a time."""
    starts = np.unique(tasks[:, 0] // together * together)
    found = np.zeros((len(starts), 6), np.int64)
    found[:, 0], found[:, 1] = starts, np.append(starts[1:], outer)
    return found


def _are_few(*axes: Reads) -> bool:
    return all(0 < a.taps <= 3 and a.stride <= 2 and a.dilation == 1 and a.up == 1 and a.offset < 16 for a in axes)


def _turned(axis: Reads) -> Reads:
    """An axis of which the inputs are made from the outputs."""
    return replace(axis, size=axis.length, length=axis.size)


def small_numbers(rows: Reads, columns: Reads) -> Integers:
    return np.array(
        [rows.size, columns.size, rows.length, columns.length]
        + [n for axis in (rows, columns) for n in (axis.taps, axis.stride, axis.offset)]
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


def grain(cells: int) -> int:
    """How many of these cells a task takes: some sixteen tasks, none so small or large that its own cost shows."""
    return min(max(cells // 16, LEAST), MOST)


def even(n: int, some: int) -> int:
    """About `some` things at a time out of n, at least one, in parts that are equal and, if more than one, even in number."""
    parts = -(-n // max(some, 1)) or 1
    return max(-(-n // (parts + parts % 2 if parts > 1 else 1)), 1)


def chain(
    reads: tuple[Reads, ...], seen: Layout, lanes: int, half: int, divides: bool, backwards: bool
) -> tuple[Pass, ...]:
    """The passes: the last two axes together, then each axis before them; backwards, the other way round."""
    sizes = [r.size for r in reads]
    rank, made, used = len(reads), [], 1
    fused = max(rank - 2, 0)
    order = [*range(fused), fused] if backwards else [fused, *range(fused - 1, -1, -1)]
    now = list(sizes)
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
                half,
                divides and first,
                reads[-1].nominal,
            )
            now[fused:] = [r.length for r in reads[fused:]]
            used *= reads[-1].nominal * rows.reach
        else:
            rows = reads[axis]
            rest = math.prod(now[axis + 1 :]) * seen.inner
            line = np.arange(rest)
            columns = Reads(rest, rest, line[:0], line[:0], line[:0], 1, 1)
            one = make_pass(rows, columns, bases, 1, (step[axis], 1, 1), lanes, half, divides and first, used)
            now[axis] = rows.length
            used *= rows.reach
        made.append(one)
    return tuple(made)


@dataclass(frozen=True, eq=False)
class Plan:
    """One operator over one layout of its operand. An output lies in memory as (*outer, *spatial, *tail), too."""

    op: Any
    shape: Shape
    """The operator's output shape."""
    seen: Layout
    axes: tuple[Axis, ...]
    half: int
    given: Shape
    """The operand's shape, in the order in which it is seen."""
    computed: str

    @property
    def lanes(self) -> int:
        """How many cells make a vector."""
        return VECTOR // np.dtype(self.computed).itemsize

    @functools.cached_property
    def reads(self) -> tuple[Reads, ...]:
        return tuple(map(forward_reads, self.axes))

    @functools.cached_property
    def lengths(self) -> Shape:
        """The output's shape, in the order in which the operand is seen."""
        outer, rank = len(self.seen.outer), len(self.axes)
        return (*self.seen.outer, *(axis.length for axis in self.axes), *self.given[outer + rank :])

    @functools.cached_property
    def back(self) -> tuple[int, ...]:
        """The order of axes that turns what is seen into what was given."""
        return tuple(int(p) for p in np.argsort(self.seen.order))

    @functools.cached_property
    def is_as_given(self) -> bool:
        """Whether an output in the order seen is the operator's output."""
        return self.lengths == self.shape and self.back == tuple(range(len(self.back)))

    @functools.cached_property
    def passes(self) -> tuple[Pass, ...]:
        return chain(self.reads, self.seen, self.lanes, self.half, False, False)

    @functools.cached_property
    def passes_back(self) -> tuple[Pass, ...]:
        """The adjoint of a sum: from an output that lies in the order seen to such an input."""
        step = strides(self.grid)
        out = Layout((), (self.seen.planes,), step[:1], (), step[1:-1], self.seen.inner, 1)
        return chain(tuple(map(adjoint_reads, self.axes)), out, self.lanes, self.half, True, True)

    @functools.cached_property
    def small_back(self) -> tuple[Integers, Integers, int] | None:
        """The numbers, tasks and scratch of the way back through small windows, where those kernels will do."""
        rows, columns = (TRIVIAL, *self.reads)[-2:]
        if (
            len(self.reads) > 2
            or self.seen.inner > 1
            or not self.lanes <= columns.size <= TILE
            or not _are_few(rows, columns)
        ):
            return None
        tasks = make_tasks(self.seen.planes, _turned(rows), _turned(columns), 1, columns.size)
        scratch = 3 * (max(columns.size, columns.length) + columns.offset) + 16 * self.lanes
        return small_numbers(rows, columns), tasks, scratch

    @functools.cached_property
    def plane_tasks(self) -> Integers:
        """Ranges of outer planes."""
        planes, cells = self.seen.planes, max(self.plane, 1)
        some = even(planes, grain(planes * cells) // cells)
        starts = np.arange(0, planes, some)
        return np.stack([starts, np.minimum(starts + some, planes)], axis=1)

    @functools.cached_property
    def are_pairs(self) -> bool:
        """Whether windows are 2×2 cells, side by side from the first cell on, in rows that are long enough for vectors."""
        return (
            self.small_back is not None
            and len(self.reads) == 2
            and all(r.taps == r.stride == 2 and r.offset == 0 and 2 * r.length <= r.size for r in self.reads)
            and self.reads[-1].length >= self.lanes
        )

    @functools.cached_property
    def side_by_side(self) -> Plan | None:
        """The plan by which narrow planes are walked, many together, as the inner axis of one; the last block begins where it still is full."""
        together = -(-max(TOGETHER // max(self.plane, 1), 1) // self.lanes) * self.lanes
        last = self.axes[-1]
        narrow = last.size < NARROW and self.plane <= BLOCK and last.length % self.lanes > 0
        if self.seen.inner > 1 or not narrow or self.seen.planes < together:
            return None
        return replace(self, seen=replace(self.seen, outer=(-(-self.seen.planes // together),), inner=together))

    @functools.cached_property
    def whole(self) -> int:
        """How many cells a plane has, where each is one window and lies end to end with the others; else 0."""
        lies = strides((self.seen.planes, *(axis.size for axis in self.axes)))[1:] == self.seen.spatial_strides
        planes = offsets(self.seen.outer, self.seen.outer_strides)
        one = all(reads.length == 1 and reads.count[0] == reads.size for reads in self.reads)
        if not (one and lies and self.seen.inner == 1 and not self.half):
            return 0
        return self.plane if bool((planes == np.arange(len(planes)) * self.plane).all()) else 0

    @functools.cached_property
    def overlaps(self) -> bool:
        """Whether cells are read by several windows, but for some at the edges of bins."""
        return any(0 < reads.stride < reads.taps for reads in self.reads)

    @functools.cached_property
    def is_apart(self) -> bool:
        """Whether winners are better looked for in their windows: these hardly overlap, are not tiny, and have rows that lie whole."""
        if len(self.passes) > 1 or self.passes[0].ints[10] or self.seen.inner > 1:
            return False
        rows, columns = self.passes[0].rows, self.passes[0].columns
        read = rows.count.clip(0).sum() * columns.count.clip(0).sum()
        return bool(
            rows.step == columns.step == 1
            and columns.most > FEW
            and self.lanes <= columns.size <= TILE
            and read <= 2 * rows.size * columns.size
        )

    @functools.cached_property
    def inside(self) -> tuple[Any, ...] | None:
        """What the kernels of `inner` are told of the axes, where planes lie side by side and windows have few cells or share few: the
        numbers, for an operand where it lies and for one in the order seen, the tables, and tasks (ranges of outer planes, heads, rows)."""
        reads = [TRIVIAL] * (3 - len(self.reads)) + list(self.reads)
        read = math.prod(int(r.count.clip(0).sum()) for r in reads)
        cells = math.prod(r.size for r in reads)
        if (
            len(reads) > 3
            or self.seen.inner < self.lanes
            or self.seen.inner_stride != 1
            or self.half
            or read > 4 * cells
        ):
            return None
        width = (reads[1].reach * reads[2].nominal, reads[2].nominal, 1)
        own = strides((*(r.size for r in reads), self.seen.inner))[:-1]
        given = (*[0] * (3 - len(self.reads)), *self.seen.spatial_strides)
        ints = [np.array(list(zip(step, (r.step for r in reads), width, strict=True))) for step in (given, own)]
        lead = reads[0] if len(self.reads) == 3 else reads[1]
        rest = replace(
            TRIVIAL, size=cells // max(lead.size, 1), length=math.prod(self.grid[1:-1]) // max(lead.length, 1)
        )
        tasks = make_tasks(self.seen.planes, lead, rest, self.seen.inner, rest.length)
        if lead is reads[0]:
            tasks[:, 4:] = 0, reads[1].length
        else:
            tasks[:, 4:], tasks[:, 2:4] = tasks[:, 2:4].copy(), (0, 1)
        return (*ints, tuple((r.first, r.count, r.start) for r in reads), tasks)

    @functools.cached_property
    def unread(self) -> list[tuple[Any, ...]] | None:
        """Where in an input no window reads, if windows share no cell."""
        found = []
        for axis, own in enumerate(self.axes):
            times = adjoint_reads(own).count
            if (times > 1).any():
                return None
            if (times < 1).any():
                found.append((slice(None),) * (axis + 1) + (np.flatnonzero(times < 1),))
        return found

    @property
    def grid(self) -> Shape:
        """The output as (planes, *spatial, inner)."""
        return (self.seen.planes, *(axis.length for axis in self.axes), self.seen.inner)

    @functools.cached_property
    def empty(self) -> list[tuple[Any, ...]]:
        """Where in the output's grid windows have no real cell."""
        return [
            (slice(None),) * (axis + 1) + (np.flatnonzero(reads.count <= 0),)
            for axis, reads in enumerate(self.reads)
            if (reads.count <= 0).any()
        ]

    @functools.cached_property
    def divisors(self) -> tuple[npt.NDArray[Any], ...]:
        """What sums are divided by: a factor per row or one for all, its reciprocal, and one per column where columns differ."""
        dtype = np.dtype(self.computed)
        override = getattr(self.op, "divisor_override", None)
        real = getattr(self.op, "count_include_pad", True) is False
        counts = [np.maximum(r.count if real else r.existing, 1) for r in (axis.ranges() for axis in self.axes)]
        if override is not None:
            counts = [np.ones_like(c) for c in counts]
        rows, rest = (counts[0], counts[1:]) if len(counts) > 1 else (SINGLE + 1, counts)
        columns = functools.reduce(lambda a, b: (a[:, None] * b).reshape(-1), rest)
        rows = rows * (1 if override is None else override)
        if (columns == columns[:1]).all():
            rows, columns = rows * columns[:1].prod(), columns[:0]
            rows = rows[:1] if (rows == rows[:1]).all() else rows
        by = rows.astype(dtype)
        return by, 1 / by, np.repeat(columns, self.seen.inner).astype(dtype)

    @functools.cached_property
    def codes(self) -> int:
        """How many codes winners have; the next one stands for none."""
        return math.prod(r.reach for r in self.reads[:-1]) * self.reads[-1].nominal

    def places(self, step: Shape) -> tuple[Integers, Integers, Integers, Integers]:
        """Where winners lie, for spatial strides `step`: offsets by code, and bases of leading axes, rows and columns."""
        lengths = (*(r.reach for r in self.reads[:-1]), self.reads[-1].nominal)
        by_code = offsets(lengths, (*step[:-1], step[-1] * self.reads[-1].step))
        *leading, rows, columns = [np.zeros(1, np.int64), *(r.start * s for r, s in zip(self.reads, step, strict=True))]
        heads = functools.reduce(lambda a, b: (a[:, None] + b).reshape(-1), leading or [SINGLE])
        return by_code, heads, rows, columns

    @functools.cached_property
    def in_input(self) -> tuple[Integers, Integers, Integers, Integers]:
        """`places` in one plane of an input that lies in the order seen."""
        return self.places(strides((*(axis.size for axis in self.axes), self.seen.inner))[:-1])

    @functools.cached_property
    def in_plane(self) -> tuple[Integers, Integers, Integers, Integers]:
        """`places` as indices of a spatial plane, without the inner axis."""
        return self.places(strides(tuple(axis.size for axis in self.axes)))

    @property
    def plane(self) -> int:
        """How many cells one outer plane of the input has."""
        return math.prod(axis.size for axis in self.axes) * self.seen.inner


@functools.lru_cache(maxsize=256)
def plan(op: Any, shape: Shape, step: Shape | None, half: int, computed: str, any_order: bool) -> Plan:
    """How `op` runs on an array of this shape and these strides in elements, or on a contiguous one."""
    step = strides(shape) if step is None else step
    positions, output = op.positions(shape), op.output_shape(shape)
    axes = dict(zip(positions, op.spatial(tuple(shape[p] for p in positions)), strict=True))
    if not positions:  # rank 0 is rank 1 over one cell
        positions, axes = (len(shape),), {len(shape): Sliding(1, 1)}
        shape, step = (*shape, 1), (*step, 1)
    seen = layout(shape, step, positions, any_order)
    return Plan(
        op, output, seen, tuple(axes[p] for p in seen.spatial), half, tuple(shape[p] for p in seen.order), computed
    )
