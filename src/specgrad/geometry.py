"""Which cells each output cell reads: the one shared idea of sliding-window operators.

A window is a product of independent axes. Every axis states, as one table over (output, tap), which cell is read, whether that
cell is real (inside the input) and whether the tap exists at all (with ceil_mode a tap beyond the padded input does not; a
short adaptive bin has fewer taps than a long one). Sizes are exact integers. Nothing here knows what is done with the cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arguments import LARGEST, Pairs
from .errors import ArgumentError, ShapeError, refusal, shape_words
from .remembering import cached_property

Integers = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
Shape = tuple[int, ...]


class Taps(NamedTuple):
    """An axis as tables of shape (outputs, taps): the cell each tap reads (0 where it is not real), and the two masks."""

    cell: Integers
    real: Booleans
    exists: Booleans


class Ranges(NamedTuple):
    """An axis as runs of cells: output o reads `count` real cells from `first` on, `step` apart, and has `existing` taps.

    `start` is where its tap 0 lies, which may be padding. Unlike :class:`Taps` it takes no memory per tap.
    """

    start: Integers
    first: Integers
    count: Integers  # type: ignore[assignment] # not the tuple's method
    existing: Integers
    step: int


class Readers(NamedTuple):
    """The inverse of :class:`Taps`, of shape (cells, most readers): which outputs read a cell, by which tap, ascending."""

    output: Integers
    tap: Integers
    exists: Booleans


@dataclass(frozen=True)
class Sliding:
    """An axis of `size` cells under a kernel that slides: output o reads cells o*stride - before + j*dilation."""

    size: int
    kernel: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1
    ceil_mode: bool = False

    @property
    def extent(self) -> int:
        """From the first tap to the last, both included."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def length(self) -> int:
        """How many outputs there are; below 1 when the kernel does not fit."""
        room = self.size + self.before + self.after - self.extent
        if not self.ceil_mode:
            return room // self.stride + 1
        length = -(-room // self.stride) + 1
        return length - 1 if (length - 1) * self.stride >= self.size + self.before else length

    def taps(self, outputs: int | None = None) -> Taps:
        """The tables of this axis, or of its first `outputs` outputs only."""
        starts = np.arange(self.length if outputs is None else outputs)[:, None] * self.stride - self.before
        cells = starts + np.arange(self.kernel) * self.dilation
        real = (cells >= 0) & (cells < self.size)
        return Taps(np.where(real, cells, 0), real, cells < self.size + self.after)

    def ranges(self) -> Ranges:
        """The runs of cells of this axis."""
        start = np.arange(self.length) * self.stride - self.before
        missed = np.clip(-(start // self.dilation), 0, self.kernel)
        reached = np.clip(-((start - self.size) // self.dilation), missed, self.kernel)
        existing = np.clip(-((start - self.size - self.after) // self.dilation), 0, self.kernel)
        return Ranges(start, start + missed * self.dilation, reached - missed, existing, self.dilation)


@dataclass(frozen=True)
class Adaptive:
    """An axis of `size` cells in `length` bins: output o reads [floor(o*size/length), ceil((o+1)*size/length))."""

    size: int
    length: int

    def taps(self) -> Taps:
        """The tables of this axis; bins shorter than the longest have taps that do not exist."""
        outputs = np.arange(self.length)[:, None]
        starts = outputs * self.size // max(self.length, 1)
        stops = -(-(outputs + 1) * self.size // max(self.length, 1))
        cells = starts + np.arange(int((stops - starts).max(initial=1)))
        real = cells < stops
        return Taps(np.where(real, cells, 0), real, real)

    def ranges(self) -> Ranges:
        """The runs of cells of this axis."""
        outputs = np.arange(self.length)
        start = outputs * self.size // max(self.length, 1)
        count = -(-(outputs + 1) * self.size // max(self.length, 1)) - start
        return Ranges(start, start, count, count, 1)


Axis = Sliding | Adaptive


def readers(taps: Taps, size: int) -> Readers:
    """Transpose an axis: for every cell the outputs that read it, in ascending order, and the tap by which they do."""
    output, tap = np.nonzero(taps.real)
    cell = taps.cell[output, tap]
    order = np.argsort(cell, kind="stable")
    output, tap, cell = output[order], tap[order], cell[order]
    counts = np.bincount(cell, minlength=size)
    place = np.arange(cell.size) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (size, max(int(counts.max(initial=0)), 1))
    table = Readers(np.zeros(shape, np.intp), np.zeros(shape, np.intp), np.zeros(shape, np.bool_))
    table.output[cell, place], table.tap[cell, place], table.exists[cell, place] = output, tap, True
    return table


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The padding for which a stride of 1 keeps the size and a stride of s gives ceil(size / s)."""
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def sliding_axes(
    name: str,
    sizes: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: str | Pairs,
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[Sliding, ...]:
    """One sliding axis per spatial size; refuses a kernel that does not fit."""
    made = []
    for axis, (n, k, s, d) in enumerate(zip(sizes, kernel_size, stride, dilation, strict=True)):
        before, after = same_padding(n, k, s, d) if isinstance(padding, str) else padding[axis]
        sliding = Sliding(n, k, s, before, after, d, ceil_mode)
        if sliding.length > LARGEST and before + after > n:
            rule = f"the result would have {sliding.length} cells there, most of them of padding alone"
            raise refusal(ArgumentError, name, "padding", padding, rule, "use less padding", axis)
        if sliding.length < 1:
            rule = f"the kernel spans {sliding.extent} cells but the padded input has {n + before + after}"
            remedy = "use a smaller kernel or dilation, or more padding"
            raise refusal(ShapeError, name, "kernel_size", tuple(kernel_size), rule, remedy, axis)
        made.append(sliding)
    return tuple(made)


def spatial_positions(name: str, shape: Shape, rank: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Where the spatial axes stand in an operand of this shape: the last `rank` ones, or those that `axes` names."""
    if len(shape) < rank:
        rule = f"has {len(shape)} axes, fewer than the {rank} spatial ones"
        raise refusal(
            ShapeError, name, "x", shape_words(shape), rule, "give an array with more axes or a shorter kernel"
        )
    if axes is None:
        positions = tuple(range(len(shape) - rank, len(shape)))
    else:
        for axis, p in enumerate(axes):
            if not -len(shape) <= p < len(shape):
                rule = f"{p} is not an axis of an array with {len(shape)} axes"
                remedy = f"write integers from {-len(shape)} to {len(shape) - 1}"
                raise refusal(ArgumentError, name, "axes", axes, rule, remedy, axis)
        positions = tuple(p % len(shape) for p in axes)
        if len(set(positions)) < rank:
            raise refusal(ArgumentError, name, "axes", axes, "names an axis twice", "name each axis once")
    for p in positions:
        if shape[p] == 0:
            rule = "a spatial axis must not be empty"
            raise refusal(ShapeError, name, "x", shape_words(shape), rule, "drop the empty input", p)
    return positions


class AxisReads(NamedTuple):
    """One output axis: per operand a table (outputs, taps) of offsets into the flat operand, and the axis's two masks."""

    offsets: tuple[Integers, ...]
    real: Booleans
    exists: Booleans


def each(length: int, *offsets: Any) -> AxisReads:
    """A batch axis: output o reads cell o. `offsets` are one stride per operand (0 where the operand lacks the axis)."""
    one_tap = np.ones((length, 1), np.bool_)
    return AxisReads(tuple(np.arange(length)[:, None] * stride for stride in offsets), one_tap, one_tap)


def strides(shape: Shape) -> tuple[int, ...]:
    """How far apart neighbours along each axis lie in the flat array, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


class Step(NamedTuple):
    """One tap of every output cell of a block: the cell of each operand that it reads, and the two masks."""

    place: tuple[Integers, ...]
    real: Booleans
    exists: Booleans


@dataclass(frozen=True, eq=False)
class Geometry:
    """The product of axes: which cells of which operand the output cells read, tap by tap in row-major order.

    `axes` stand in the order of the output's axes; `order` lists them in the order of the taps, outermost first.
    """

    axes: tuple[AxisReads, ...]
    order: tuple[int, ...]

    @cached_property
    def lengths(self) -> Shape:
        """The output's length along each axis."""
        return tuple(axis.real.shape[0] for axis in self.axes)

    @property
    def outputs(self) -> int:
        """How many output cells there are."""
        return math.prod(self.lengths)

    @cached_property
    def taps(self) -> int:
        """How many taps the longest window has."""
        return math.prod(axis.real.shape[1] for axis in self.axes)

    def cells(self) -> int:
        """How many cells its tables have."""
        return sum(axis.real.size * len(axis.offsets) for axis in self.axes)

    def block(self, start: int, stop: int) -> Block:
        """The output cells start to stop, counted in row-major order."""
        return Block(self, start, stop)


class Block:
    """Some consecutive output cells of a geometry, and what each of their taps reads."""

    def __init__(self, geometry: Geometry, start: int, stop: int) -> None:
        self.size = stop - start
        self.cells = cells = np.arange(start, stop)
        lengths = geometry.lengths
        self._axes = [
            (geometry.axes[a], cells // step % length)
            for a, step, length in ((a, math.prod(lengths[a + 1 :]), lengths[a]) for a in geometry.order)
        ]
        self._operands = len(geometry.axes[0].offsets) if geometry.axes else 1

    def steps(self) -> Iterator[Step]:
        """Tap by tap, row-major."""
        nothing = (np.zeros(self.size, np.intp),) * self._operands
        everywhere = np.ones(self.size, np.bool_)
        return self._descend(0, Step(nothing, everywhere, everywhere))

    def _descend(self, depth: int, outer: Step) -> Iterator[Step]:
        if depth == len(self._axes):
            yield outer
            return
        axis, at = self._axes[depth]
        moves = [bool(offsets.any()) for offsets in axis.offsets]
        bare = not axis.real.all()  # most axes have no padding, and most operands stand still along some axis
        for tap in range(axis.real.shape[1]):
            read = zip(outer.place, axis.offsets, moves, strict=True)
            place = tuple(p + offsets[:, tap][at] if moved else p for p, offsets, moved in read)
            real = outer.real & axis.real[at, tap] if bare else outer.real
            exists = outer.exists & axis.exists[at, tap] if bare else outer.exists
            yield from self._descend(depth + 1, Step(place, real, exists))

    def count(self, mask: str) -> Integers:
        """How many taps of each window are `real`, or how many `exists`: a product over the axes."""
        total = np.ones(self.size, np.intp)
        for axis, at in self._axes:
            total *= getattr(axis, mask).sum(axis=1)[at]
        return total


def pool_geometry(shape: Shape, positions: tuple[int, ...], spatial: Sequence[Axis]) -> Geometry:
    """Windows over the axes at `positions` of one operand; every other axis is batch."""
    step = strides(shape)
    batch = tuple(p for p in range(len(shape)) if p not in positions)
    reads = {p: each(shape[p], step[p]) for p in batch}
    for p, axis in zip(positions, spatial, strict=True):
        cell, real, exists = axis.taps()
        reads[p] = AxisReads((cell * step[p],), real, exists)
    return Geometry(tuple(reads[p] for p in range(len(shape))), batch + positions)


def broadcast_geometry(shape: Shape, operands: Sequence[Shape]) -> Geometry:
    """Every output cell reads one cell of each operand, all broadcast to `shape` as NumPy does."""
    axes = []
    for p, length in enumerate(shape):
        offsets = []
        for operand in operands:
            own = p - len(shape) + len(operand)
            offsets.append(strides(operand)[own] if own >= 0 and operand[own] > 1 else 0)
        axes.append(each(length, *offsets))
    axes = axes or [each(1, *(0 for _ in operands))]
    return Geometry(tuple(axes), tuple(range(len(axes))))


def reduced_geometry(shape: Shape, positions: Sequence[int]) -> Geometry:
    """One output per cell of the other axes, which reads all cells along `positions`."""
    axes = [each(length, step) for length, step in zip(shape, strides(shape), strict=True)]
    for p in positions:
        every = np.ones((1, shape[p]), np.bool_)
        axes[p] = AxisReads((np.arange(shape[p])[None] * strides(shape)[p],), every, every)
    axes = axes or [each(1, 0)]
    return Geometry(tuple(axes), tuple(range(len(axes))))


def channel_geometry(
    x_shape: Shape, weight_shape: Shape, groups: int, outputs: int, spatial: Sequence[Taps | Readers], transposed: bool
) -> Geometry:
    """Windows over (channel, *spatial) of x, with the weight each tap meets and one bias per output channel.

    Taps of a sliding axis make a convolution, with weight (out, in/groups, *k); readers of one make its adjoint, with weight
    (in, out/groups, *k). Operands are x, weight, bias.
    """
    channel = len(x_shape) - len(spatial) - 1
    step, weight_step = strides(x_shape), strides(weight_shape)
    inner, per_group = x_shape[channel] // groups, outputs // groups
    out = np.arange(outputs)[:, None]
    read = out // max(per_group, 1) * inner + np.arange(inner)
    weight = (read, out % max(per_group, 1)) if transposed else (out, np.arange(inner))
    met = weight[0] * weight_step[0] + weight[1] * weight_step[1]
    every = np.ones(read.shape, np.bool_)
    axes = [each(n, s, 0, 0) for n, s in zip(x_shape[:channel], step, strict=False)]
    axes.append(AxisReads((read * step[channel], met, out + 0 * read), every, every))
    for i, table in enumerate(spatial):
        if isinstance(table, Readers):
            cell, tap, exists = table
            real = exists
        else:
            cell, real, exists = table
            tap = np.arange(real.shape[1]) + 0 * cell
        offsets = (cell * step[channel + 1 + i], tap * weight_step[2 + i], 0 * cell)
        axes.append(AxisReads(offsets, real, exists))
    return Geometry(tuple(axes), tuple(range(len(axes))))
