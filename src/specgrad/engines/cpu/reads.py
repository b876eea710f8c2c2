"""An array as kernels see it: (outer, *spatial, inner), and which cells of an axis each output of it reads.

`inner` are the batch axes that lie closer in memory than all spatial ones (channels-last), `outer` the others. No array is copied to get
there: outer planes are found by a table of offsets and rows by strides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...geometry import Axis, Integers, Shape, Sliding, readers
from ...remembering import cached_property
from .kernels.heights import STACK, TALLEST

FEW, LED = 7, 3  # windows of up to so many rows are folded row by row, and their winners found so


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
    def is_still(self) -> bool:
        """Whether each output is the cell of its own place."""
        return self.taps == self.stride == 1 and self.length == self.size and self.offset == 0

    @property
    def is_tiled(self) -> bool:
        """Whether outputs share no cells and leave none out."""
        return (
            self.taps == self.stride
            and self.dilation == self.up == 1
            and self.offset == 0
            and self.taps * self.length == self.size
        )

    @property
    def run(self) -> int:
        """How many cells each output reads, if that is 2 or 4, side by side from the first on and no other output's; else 0."""
        apart = self.taps == self.stride and self.dilation == self.up == 1 and self.offset == 0
        return self.taps if self.taps in (2, 4) and apart and self.taps * self.length <= self.size else 0

    @property
    def stack(self) -> int:
        """How many cells each output reads, if outputs are one cell apart and their cells too, and some outputs are better made together; else 0."""
        apart = self.stride == self.dilation == self.up == 1
        return self.taps if apart and STACK <= self.taps <= TALLEST else 0

    @property
    def most(self) -> int:
        """The most cells any output reads."""
        return int(self.count.max(initial=1))

    @cached_property
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
        return self.most if self.stride < self.taps and self.step == 1 and self.most > LED else 0


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
        table = readers(axis)
        first, count = (
            table.output[:, 0].copy(),
            table.exists.sum(axis=1),
        )  # kernels are compiled for what lies together
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

    @cached_property
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
    return sums([np.arange(length) * stride for length, stride in zip(lengths, step, strict=True)])


def sums(places: Iterable[Integers]) -> Integers:
    """Every sum of one number of each, in row-major order."""
    total = SINGLE
    for one in places:
        total = (total[:, None] + one).reshape(-1)
    return total
