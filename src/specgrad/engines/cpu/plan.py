"""How an operator runs on an array of one shape and one memory layout: which passes, with which numbers, in which tasks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...geometry import Axis, Integers, Shape, Sliding, strides
from ...remembering import cached_property, remembered
from .passes import (
    BLOCK,
    NARROW,
    TILE,
    VECTOR,
    Pass,
    are_few,
    chain,
    make_tasks,
    plane_ranges,
    small_numbers,
    turned,
)
from .reads import FEW, SINGLE, TRIVIAL, Layout, Reads, adjoint_reads, forward_reads, layout, offsets, sums

SHORT = 4  # cells of runs that are better written one by one
SPREAD = 3  # cells for each run of a plane from which runs are better spread than windows folded
LEAST = 56  # cells that a plane must have besides
SPARSE = 96  # cells of a plane for each winner
TOGETHER = 1 << 12  # cells of narrow planes that are walked at once, where that is not a vector's worth of planes


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
    is_row_major: bool
    """Whether the spatial axes stand in the operator's order."""

    def cells(self) -> int:
        """How many cells the axes have, each of which may have a place in every table."""
        return sum(axis.size + axis.length for axis in self.axes)

    @property
    def lanes(self) -> int:
        """How many cells make a vector."""
        return VECTOR // np.dtype(self.computed).itemsize

    @cached_property
    def reads(self) -> tuple[Reads, ...]:
        return tuple(map(forward_reads, self.axes))

    @cached_property
    def three_reads(self) -> tuple[Reads, ...]:
        """The same, with axes of one cell before them until there are three: heads, rows and columns, where there are no more."""
        return (*[TRIVIAL] * (3 - len(self.reads)), *self.reads)

    @cached_property
    def calls(self) -> dict[Any, Any]:
        """The kernels that run over this plan, with what they are told, once that is known."""
        return {}

    @cached_property
    def lengths(self) -> Shape:
        """The output's shape, in the order in which the operand is seen."""
        outer, rank = len(self.seen.outer), len(self.axes)
        return (*self.seen.outer, *(axis.length for axis in self.axes), *self.given[outer + rank :])

    @cached_property
    def outputs(self) -> int:
        """How many cells the output has."""
        return math.prod(self.lengths)

    @cached_property
    def back(self) -> tuple[int, ...]:
        """The order of axes that turns what is seen into what was given."""
        return tuple(int(p) for p in np.argsort(self.seen.order))

    @cached_property
    def is_as_given(self) -> bool:
        """Whether an output in the order seen is the operator's output."""
        return self.lengths == self.shape and self.is_in_order

    @cached_property
    def is_in_order(self) -> bool:
        """Whether axes are seen in the order in which they were given."""
        return self.back == tuple(range(len(self.back)))

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        return chain(self.reads, self.seen, self.lanes, False)

    @cached_property
    def passes_back(self) -> tuple[Pass, ...]:
        """The adjoint of a sum: from an output that lies in the order seen to such an input."""
        step = strides(self.grid)
        out = Layout((), (self.seen.planes,), step[:1], (), step[1:-1], self.seen.inner, 1)
        return chain(tuple(map(adjoint_reads, self.axes)), out, self.lanes, True)

    @cached_property
    def small_back(self) -> tuple[Integers, Integers, int] | None:
        """The numbers, tasks and scratch of the way back through small windows, where those kernels will do."""
        rows, columns = (TRIVIAL, *self.reads)[-2:]
        if (
            len(self.reads) > 2
            or self.seen.inner > 1
            or not self.lanes <= columns.size <= TILE
            or not are_few(rows, columns)
        ):
            return None
        tasks = make_tasks(self.seen.planes, turned(rows), turned(columns), 1, columns.size)
        scratch = 3 * (max(columns.size, columns.length) + columns.offset) + 16 * self.lanes
        return small_numbers(rows, columns), tasks, scratch

    @cached_property
    def bins_back(self) -> tuple[Any, ...] | None:
        """The tables and divisors of the way back through an average of up to three axes, where cells that the same windows read make up so few
        runs that these are better spread than windows folded."""
        if not 1 <= len(self.axes) <= 3 or self.seen.inner > 1:
            return None
        heads, rows, columns = (TRIVIAL, TRIVIAL, *map(adjoint_reads, self.axes))[-3:]
        if {heads.step, rows.step, columns.step} != {1} or columns.count.max(initial=0) > 2:
            return None
        near = np.where(columns.count > 0, columns.first, columns.size)
        far = np.where(columns.count > 1, columns.first + 1, columns.size)
        along = runs(near, far)
        if len(along) * SHORT > columns.length:
            along = np.stack([near, far, np.arange(near.size), np.arange(near.size) + 1], axis=1)
        tables = runs(heads.first, heads.count), runs(rows.first, rows.count), along
        narrow = any(one.block for one in self.passes_back)
        if narrow or all(reads.taps > 0 for reads in self.reads):  # else folds are slower in any case
            entries, line = math.prod(map(len, tables)), len(self.axes) == 1
            if (narrow and self.lanes < 16) or (line and self.reads[-1].taps > FEW):
                better = line or entries < self.plane
            else:
                better = SPREAD * entries + LEAST <= self.plane
            if not better:
                return None
        return *tables, self.window_divisors.reshape(heads.size, rows.size, columns.size)

    @cached_property
    def plane_tasks(self) -> Integers:
        """Ranges of outer planes."""
        return plane_ranges(self.seen.planes, self.plane)

    @cached_property
    def apart_back(self) -> tuple[Integers, Integers] | None:
        """The numbers and tasks of the way back through windows that lie side by side from the first cell on, 2 or 4 cells wide, in rows
        that are long enough for vectors."""
        reads = self.three_reads
        apart = all(
            r.taps == r.stride > 0 and r.dilation == 1 and r.offset == 0 and 0 < r.taps * r.length <= r.size
            for r in reads
        )
        last = reads[-1]
        if not apart or last.taps not in (2, 4) or last.length < self.lanes:
            return None
        if len(reads) > 3 or self.seen.inner > 1:
            return None
        tasks = make_tasks(self.seen.planes * reads[0].size, reads[1], last, 1, last.length)
        return np.array([(r.size, r.length, r.taps) for r in reads]), tasks

    @cached_property
    def is_undivided(self) -> bool:
        """Whether all sums are divided by 1."""
        return all(n.size == 1 and n[0] == 1 for n in self.counts)

    @cached_property
    def are_pairs(self) -> bool:
        """Whether windows are 2×2 cells, side by side from the first cell on, in rows that are long enough for vectors."""
        return (
            self.small_back is not None
            and len(self.reads) == 2
            and all(r.taps == r.stride == 2 and r.offset == 0 and 2 * r.length <= r.size for r in self.reads)
            and self.reads[-1].length >= self.lanes
        )

    @cached_property
    def run(self) -> int:
        """How many cells windows have, 2 or 4, where they lie side by side along the last axis and a row of them has vectors; else 0."""
        *others, last = self.reads
        whole = all(r.is_still for r in others) and last.length >= self.lanes
        return last.run if whole and self.seen.inner == 1 else 0

    @property
    def is_narrow(self) -> bool:
        """Whether planes are so small that many of them are better walked together."""
        last = self.axes[-1]
        return last.size < NARROW and self.plane <= BLOCK and last.length % self.lanes > 0

    @cached_property
    def side_by_side(self) -> Plan | None:
        """The plan by which narrow planes are walked, many together, as the inner axis of one; the last block begins where it still is full."""
        together = -(-max(TOGETHER // max(self.plane, 1), 1) // self.lanes) * self.lanes
        if self.seen.inner > 1 or not self.is_narrow or self.seen.planes < together:
            return None
        return replace(self, seen=replace(self.seen, outer=(-(-self.seen.planes // together),), inner=together))

    @cached_property
    def whole(self) -> int:
        """How many cells a plane has, where each is one window and lies end to end with the others; else 0."""
        lies = strides((self.seen.planes, *(axis.size for axis in self.axes)))[1:] == self.seen.spatial_strides
        planes = offsets(self.seen.outer, self.seen.outer_strides)
        one = all(reads.length == 1 and reads.count[0] == reads.size for reads in self.reads)
        if not (one and lies and self.seen.inner == 1):
            return 0
        return self.plane if bool((planes == np.arange(len(planes)) * self.plane).all()) else 0

    @cached_property
    def tasks_of_rows(self) -> Integers:
        """Ranges of outer planes, of heads and of rows, of up to three axes."""
        return row_tasks(self.seen.planes, self.three_reads, self.seen.inner, len(self.reads) == 3)

    @cached_property
    def inside(self) -> tuple[Any, ...] | None:
        """What the kernels of `inner` are told, where planes lie side by side and windows have few cells or share few: the numbers and planes of
        an operand where it lies and of one in the order seen, the tables of the axes, and tasks (ranges of outer planes, heads, rows)."""
        reads = self.three_reads
        read = math.prod(int(r.count.clip(0).sum()) for r in reads)
        cells = math.prod(r.size for r in reads)
        if len(reads) > 3 or self.seen.inner < self.lanes or self.seen.inner_stride != 1 or read > 4 * cells:
            return None
        width = (reads[1].reach * reads[2].nominal, reads[2].nominal, 1)
        apart = (reads[0].step, reads[1].step, 1)  # codes count the cells of an axis, but of the last the taps
        own = strides((*(r.size for r in reads), self.seen.inner))[:-1]
        given = (*[0] * (3 - len(self.reads)), *self.seen.spatial_strides)
        planes = offsets(self.seen.outer, self.seen.outer_strides), np.arange(self.seen.planes) * self.plane
        ways = [
            (np.array([(n, r.step, a * w) for n, r, a, w in zip(step, reads, apart, width, strict=True)]), bases)
            for step, bases in zip((given, own), planes, strict=True)
        ]
        tables = tuple(
            (r.first, r.count, (r.first - r.start) // (r.step // a) * w)
            for r, a, w in zip(reads, apart, width, strict=True)
        )
        return (*ways, tables, self.tasks_of_rows)

    @cached_property
    def inside_back(self) -> tuple[Any, ...] | None:
        """What the kernel of `inner` is told that folds, for each cell of an operand whose planes lie side by side, the windows that read it: if there is one at
        most, or few and as many for all cells of a row."""
        reads = (*[TRIVIAL] * (3 - len(self.axes)), *map(adjoint_reads, self.axes))
        taps, along = math.prod(int(r.count.max(initial=0)) for r in reads), reads[-1].count
        most = 9 if (along == along[:1]).all() else 1
        if len(reads) > 3 or self.seen.inner < self.lanes or taps > most:
            return None
        step = strides((*(r.size for r in reads), self.seen.inner))[:-1]
        ints = np.array([(n, r.step, 0) for n, r in zip(step, reads, strict=True)])
        bases = np.arange(self.seen.planes) * math.prod(self.grid[1:])
        tables = tuple((r.first, r.count, r.first) for r in reads)
        tasks = row_tasks(self.seen.planes, reads, self.seen.inner, len(self.axes) == 3)
        return self.seen.inner, ints, bases, *tables, tasks

    @cached_property
    def direct(self) -> tuple[bool, bool]:
        """Whether sums, and maxima, of planes that lie side by side are better folded tap by tap, in the operator's order, all axes at once."""
        taps = math.prod(r.most for r in self.reads)
        return (
            self.inside is not None and taps <= 9,
            self.inside is not None and taps <= (8 if len(self.reads) > 2 else 4) and self.is_row_major,
        )

    @cached_property
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

    @cached_property
    def idle(self) -> tuple[Integers, Integers]:
        """Where in a plane of an input that lies in the order seen rows begin that no window reads, and which columns of the others none reads."""
        *leading, columns = [adjoint_reads(axis).count > 0 for axis in self.axes]
        read = functools.reduce(np.logical_and.outer, leading, np.ones((), bool))
        return np.flatnonzero(~read) * self.axes[-1].size * self.seen.inner, np.flatnonzero(~columns)

    @cached_property
    def of_bits(self) -> Plan | None:
        """The plan by which cotangents of halves go to winners as bits: where windows share no cell, none are added up."""
        return replace(self, half=0, computed=np.dtype(np.int16).str) if self.half and self.unread is not None else None

    @cached_property
    def grid(self) -> Shape:
        """The output as (planes, *spatial, inner)."""
        return (self.seen.planes, *(axis.length for axis in self.axes), self.seen.inner)

    @cached_property
    def empty(self) -> list[tuple[Any, ...]]:
        """Where in the output's grid windows have no real cell."""
        return [
            (slice(None),) * (axis + 1) + (np.flatnonzero(reads.count <= 0),)
            for axis, reads in enumerate(self.reads)
            if (reads.count <= 0).any()
        ]

    @cached_property
    def counts(self) -> tuple[Integers, Integers]:
        """What sums are divided by: a factor per row or one for all, and one per column, or one for all."""
        override = getattr(self.op, "divisor_override", None)
        real = getattr(self.op, "count_include_pad", True) is False
        counts = [np.maximum(r.count if real else r.existing, 1) for r in (axis.ranges() for axis in self.axes)]
        if override is not None:
            counts = [np.ones_like(c) for c in counts]
        rows, rest = (counts[0], counts[1:]) if len(counts) > 1 else (SINGLE + 1, counts)
        columns = functools.reduce(lambda a, b: (a[:, None] * b).reshape(-1), rest)
        rows = rows * (1 if override is None else override)
        alike = (columns == columns[:1]).all()
        if alike:
            rows, columns = rows * columns[:1].prod(), SINGLE + 1
            rows = rows[:1] if (rows == rows[:1]).all() else rows
        return rows, columns

    @cached_property
    def window_divisors(self) -> npt.NDArray[Any]:
        """What the sum of each window of a plane is divided by."""
        rows, columns = self.counts
        leading = len(self.axes) > 1
        lengths = [math.prod(axis.length for axis in axes) for axes in (self.axes[:leading], self.axes[leading:])]
        return np.broadcast_to(rows[:, None] * columns, lengths).astype(self.computed).reshape(-1)

    @cached_property
    def divisors(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any] | None]:
        """What kernels divide by: the two parts of a reciprocal for each row, or for all; or a divisor for each row, twice, and one for each column."""
        dtype, (rows, columns) = np.dtype(self.computed), self.counts
        if columns.size > 1:
            return rows.astype(dtype), rows.astype(dtype), np.repeat(columns, self.seen.inner).astype(dtype)
        if dtype.kind != "f":
            return rows, rows, None
        return *reciprocal(rows, dtype), None

    @cached_property
    def codes(self) -> int:
        """How many codes winners have; the next one stands for none."""
        return math.prod(self.code_lengths)

    @cached_property
    def code_lengths(self) -> Shape:
        """How many values each digit of a code has: cells of an axis, but of the last one taps."""
        return (*(r.reach for r in self.reads[:-1]), self.reads[-1].nominal)

    def places(self, step: Shape) -> tuple[Integers, Integers, Integers, Integers]:
        """Where winners lie, for spatial strides `step`: offsets by code, and bases of leading axes, rows and columns."""
        by_code = offsets(self.code_lengths, (*step[:-1], step[-1] * self.reads[-1].step))
        *leading, rows, columns = [np.zeros(1, np.int64), *(r.start * s for r, s in zip(self.reads, step, strict=True))]
        return by_code, sums(leading), rows, columns

    @cached_property
    def in_input(self) -> tuple[Integers, Integers, Integers, Integers]:
        """`places` in one plane of an input that lies in the order seen."""
        return self.places(strides((*(axis.size for axis in self.axes), self.seen.inner))[:-1])

    @cached_property
    def is_sparse(self) -> bool:
        """Whether winners are lines of cells apart."""
        return self.seen.inner == 1 and SPARSE * math.prod(self.grid[1:]) <= self.plane

    @cached_property
    def in_plane(self) -> tuple[Integers, Integers, Integers, Integers]:
        """`places` as indices of a spatial plane, without the inner axis."""
        return self.places(strides(tuple(axis.size for axis in self.axes)))

    @cached_property
    def plane(self) -> int:
        """How many cells one outer plane of the input has."""
        return math.prod(axis.size for axis in self.axes) * self.seen.inner


def row_tasks(planes: int, reads: tuple[Reads, ...], inner: int, has_heads: bool) -> Integers:
    """Ranges of outer planes, of heads and of rows, of three axes."""
    lead, cells = reads[0] if has_heads else reads[1], math.prod(r.size for r in reads)
    windows = math.prod(r.length for r in reads)
    rest = replace(TRIVIAL, size=cells // max(lead.size, 1), length=windows // max(lead.length, 1))
    tasks = make_tasks(planes, lead, rest, inner, rest.length)
    if has_heads:
        tasks[:, 4:] = 0, reads[1].length
    else:
        tasks[:, 4:], tasks[:, 2:4] = tasks[:, 2:4].copy(), (0, 1)
    return tasks


def runs(*numbers: Integers) -> Integers:
    """What some numbers are in each run in which they stay the same, and where it begins and ends."""
    changes = functools.reduce(np.logical_or, (np.diff(n, prepend=n[0] + 1) != 0 for n in numbers))
    begins = np.flatnonzero(changes)
    return np.stack([*(n[begins] for n in numbers), begins, np.append(begins[1:], changes.size)], axis=1)


def reciprocal(numbers: Integers, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """1/n as the float nearest to it on the side of zero, and what is missing: neither is 0, so that infinity times either is infinite.

    Nothing is missing from 1/n if n is a power of two; what then stands for it is too small to change a product.
    """
    distinct, which = np.unique(numbers, return_inverse=True)
    over = (1 / distinct.astype(np.float64)).astype(dtype)
    exact = [Fraction(1, int(n)) for n in distinct]
    too_far = [abs(Fraction(float(o))) > abs(e) for o, e in zip(over, exact, strict=True)]
    over = np.where(too_far, np.nextafter(over, dtype.type(0)), over)
    missing = [float(e - Fraction(float(o))) for o, e in zip(over, exact, strict=True)]
    rest = np.array([m or float(o) * 2.0**-60 for o, m in zip(over, missing, strict=True)], dtype)
    return over[which], rest[which]


@remembered(256, Plan.cells)
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
        op,
        output,
        seen,
        tuple(axes[p] for p in seen.spatial),
        half,
        tuple(shape[p] for p in seen.order),
        computed,
        seen.spatial == tuple(positions),
    )
