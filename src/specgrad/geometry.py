"""Which cells each output cell reads: the one shared idea of sliding-window operators.

A window is a product of independent axes. Every axis states which cell a tap of an output reads,
whether that cell is real (inside the input) and whether the tap exists at all (with ceil_mode a tap
beyond the padded input does not; a short adaptive bin has fewer taps than a long one). Each formula
is written once, for an exact integer, an array of them, and a symbol of `specgrad prove`. Nothing
here knows what is done with the cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .caches import cached_property

Integers = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
Shape = tuple[int, ...]
Index = Any
"""An integer, an array of integers, or a symbol that stands for every integer."""


class Taps(NamedTuple):
    """What taps read: the cell (0 where it is not real), and the two masks.

    Of a whole axis they are tables of shape (outputs, taps).
    """

    cell: Integers
    real: Booleans
    exists: Booleans


class Ranges(NamedTuple):
    """Runs of cells: an output reads `count` real cells from `first` on, `step` apart.

    Its tap 0 lies at `start`, which may be padding, and `existing` of its taps exist. Unlike
    :class:`Taps`, runs take no memory per tap.
    """

    start: Integers
    first: Integers
    count: Integers  # type: ignore[assignment] # not the tuple's method
    existing: Integers
    step: int


class Readers(NamedTuple):
    """The inverse of :class:`Taps`: which outputs read a cell, in ascending order, and by which
    tap.

    The tables have shape (cells, most readers).
    """

    output: Integers
    tap: Integers
    exists: Booleans


@dataclass(frozen=True)
class Sliding:
    """An axis of `size` cells under a kernel that slides.

    Tap j of output o reads cell o*stride - before + j*dilation.
    """

    size: int
    kernel: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1
    ceil_mode: bool = False

    @property
    def most_taps(self) -> int:
        """How many taps a window has."""
        return self.kernel

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

    @property
    def may_miss(self) -> bool:
        """Whether a window may have no real cell: by lengths alone, which may be symbolic; no
        window has none where this is False."""
        between = self.before > 0 and self.dilation > self.size  # one tap before all cells, the next behind them
        return between or self.before >= self.extent or self.start(self.length - 1) >= self.size

    def start(self, output: Index) -> Index:
        """Where tap 0 of an output lies; outside [0, size) it is padding, like any tap."""
        return output * self.stride - self.before

    def tap(self, output: Index, tap: Index) -> Taps:
        """What a tap of an output reads."""
        cell = self.start(output) + tap * self.dilation
        real = (cell >= 0) & (cell < self.size)
        return Taps(np.where(real, cell, 0), real, cell < self.size + self.after)

    def taps(self, outputs: int | None = None) -> Taps:
        """The tables of this axis, or of its first `outputs` outputs only."""
        length = self.length if outputs is None else outputs
        return self.tap(np.arange(length)[:, None], np.arange(self.kernel))

    def reads(self, output: Index) -> Ranges:
        """The run of cells that an output reads."""
        start = self.start(output)
        missed = np.clip(-(start // self.dilation), 0, self.kernel)
        reached = np.clip(-((start - self.size) // self.dilation), missed, self.kernel)
        existing = np.clip(-((start - self.size - self.after) // self.dilation), 0, self.kernel)
        return Ranges(start, start + missed * self.dilation, reached - missed, existing, self.dilation)

    @property
    def phase(self) -> tuple[int, int, int]:
        """gcd = gcd(stride, dilation), dilation/gcd, and the inverse of stride/gcd modulo that."""
        shared = math.gcd(self.stride, self.dilation)
        step = self.dilation // shared
        return shared, step, pow(self.stride // shared, -1, step)

    def readers(self, cell: Index, outputs: int | None = None) -> Ranges:
        """The run of outputs, of all or of the first `outputs`, that read a cell.

        They solve o*stride + j*dilation = cell + before. Modulo the dilation one output in every
        `step` does, or none does where `shared` does not divide cell + before.
        """
        shared, step, inverse = self.phase
        place = cell + self.before
        low = np.maximum(-((self.extent - 1 - place) // self.stride), 0)
        high = np.minimum(place // self.stride, (self.length if outputs is None else outputs) - 1)
        first = low + (place // shared % step * inverse - low) % step
        count = np.where(place % shared == 0, np.maximum((high - first) // step + 1, 0), 0)
        return Ranges(first, first, count, count, step)

    def ranges(self) -> Ranges:
        """The runs of cells of this axis."""
        return self.reads(np.arange(self.length))


@dataclass(frozen=True)
class Adaptive:
    """An axis of `size` cells in `length` bins, which may overlap.

    Output o reads the cells from floor(o*size/length) up to ceil((o+1)*size/length).
    """

    size: int
    length: int
    dilation: ClassVar = 1

    @property
    def most_taps(self) -> int:
        """How many taps the longest bin has: bins begin at multiples of gcd/length of a cell."""
        bins = max(self.length, 1)
        return -(-(self.size + bins - math.gcd(self.size, bins)) // bins)

    def start(self, output: Index) -> Index:
        """floor(output*size/length): besides the result, no product exceeds output*length."""
        bins = max(self.length, 1)
        whole, rest = divmod(self.size, bins)
        return output * whole + output * rest // bins

    def reads(self, output: Index) -> Ranges:
        """The run of cells that an output reads."""
        start = self.start(output)
        count = -self.start(-output - 1) - start
        return Ranges(start, start, count, count, 1)

    def readers(self, cell: Index) -> Ranges:
        """The run of outputs that read a cell: its bin where `length` cells are in `size` bins."""
        return Adaptive(self.length, self.size).reads(cell)

    def taps(self) -> Taps:
        """The tables of this axis; bins shorter than the longest have taps that do not exist."""
        start, _, count, _, _ = self.reads(np.arange(self.length)[:, None])
        taps = np.arange(int(count.max(initial=1)))
        real = taps < count
        return Taps(np.where(real, start + taps, 0), real, real)

    def ranges(self) -> Ranges:
        """The runs of cells of this axis."""
        return self.reads(np.arange(self.length))


Axis = Sliding | Adaptive


def readers(axis: Axis, outputs: int | None = None) -> Readers:
    """Transpose an axis, or its first `outputs` outputs: the readers of every cell."""
    cell = np.arange(axis.size)[:, None]
    first, _, count, _, step = axis.readers(cell) if outputs is None else cast(Sliding, axis).readers(cell, outputs)
    reader = np.arange(max(int(count.max(initial=0)), 1))
    exists = reader < count
    output = np.where(exists, first + reader * step, 0)
    return Readers(output, np.where(exists, (cell - axis.start(output)) // axis.dilation, 0), exists)


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The padding for which a stride of 1 keeps the size and a stride of s gives ceil(size / s)."""
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def transposed_size(outputs: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int, extra: int) -> int:
    """The size of a transposed convolution's result: the least that fits `outputs`, and `extra`."""
    return (outputs - 1) * stride - sum(padding) + dilation * (kernel - 1) + 1 + extra


class AxisReads(NamedTuple):
    """One output axis: per operand a table (outputs, taps) of offsets into the flat operand, and
    the axis's two masks."""

    offsets: tuple[Integers, ...]
    real: Booleans
    exists: Booleans


def each(length: int, *offsets: Any) -> AxisReads:
    """A batch axis: output o reads cell o. `offsets` are one stride per operand (0 where the
    operand lacks the axis)."""
    one_tap = np.ones((length, 1), np.bool_)
    return AxisReads(tuple(np.arange(length)[:, None] * stride for stride in offsets), one_tap, one_tap)


def strides(shape: Shape) -> tuple[int, ...]:
    """How far apart neighbours along each axis lie in the flat array, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def coordinates(flat: Index, shape: Shape) -> tuple[Index, ...]:
    """Where a cell of the flat array lies along each axis."""
    return tuple(flat // step % length for step, length in zip(strides(shape), shape, strict=True))


class Step(NamedTuple):
    """One tap of every output cell of a block: the cell of each operand that it reads, and the two
    masks."""

    place: tuple[Integers, ...]
    real: Booleans
    exists: Booleans


@dataclass(frozen=True, eq=False)
class Geometry:
    """The product of axes: which cells of which operand the output cells read, tap by tap in
    row-major order.

    `axes` stand in the order of the output's axes; `order` lists them in the order of the taps,
    outermost first.
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
        at = coordinates(cells, geometry.lengths)
        self._axes = [(geometry.axes[a], at[a]) for a in geometry.order]
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
        """How many taps of each window are `real`, or how many `exists`: a product over the
        axes."""
        total = np.ones(self.size, np.intp)
        for axis, at in self._axes:
            total *= getattr(axis, mask).sum(axis=1)[at]
        return total


def pool_geometry(shape: Shape, positions: tuple[int, ...], spatial: Sequence[Taps]) -> Geometry:
    """Windows over the axes at `positions` of one operand; every other axis is batch."""
    step = strides(shape)
    batch = tuple(p for p in range(len(shape)) if p not in positions)
    reads = {p: each(shape[p], step[p]) for p in batch}
    for p, (cell, real, exists) in zip(positions, spatial, strict=True):
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
    """Windows over (channel, *spatial) of x, with the weight each tap meets and one bias per output
    channel.

    Taps of a sliding axis make a convolution, with weight (out, in/groups, *k); readers of one make
    its adjoint, with weight (in, out/groups, *k). Operands are x, weight, bias.
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
