"""Padding, the patches of a sliding kernel as columns, and the transpose, which adds the columns
up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from .. import arguments
from ..arguments import Ints, Padding, Pairs
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import AxisReads, Geometry, Shape, Sliding
from ..operator import Operator, Slot, checked_shapes, operator, parameter
from .shape import Move, Slice
from .sums import Total
from .window import sliding_axes, spatial_positions, tables

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""PyTorch's words for padding, and NumPy's."""


def _pairs(name: str, argument: str, value: Any) -> str | Pairs:
    if not arguments.is_sequence(value) or not all(arguments.is_sequence(p) and len(p) == 2 for p in value):
        rule, remedy = "is not one (before, after) pair per axis", "write e.g. ((1, 1), (2, 0)) for the last two axes"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)
    return arguments.padding(name, argument, tuple(map(tuple, value)), len(value))


def _fill(name: str, argument: str, value: Any) -> int | float | Fraction:
    return arguments.factor(name, "value", value, "write a number")


@operator
class Pad(Move):
    """x with cells before and after its last axes, one (before, after) pair for each.

    Padding: "constant" is the number `fill`; "reflect" mirrors the cells next to the edge, without
    the edge itself; "replicate" repeats the edge; "circular" continues at the other end. "reflect"
    allows at most n - 1 cells on a side, and "circular" at most n. Domain: any scalars.

    >>> import numpy as np
    >>> Pad(((2, 1),), mode="reflect")(np.array([1.0, 2.0, 3.0]))
    array([3., 2., 1., 2., 3., 2.])
    """

    name: ClassVar = "pad"

    padding: Sequence[Sequence[int]] = parameter(_pairs)
    _: KW_ONLY
    mode: str = parameter(arguments.choice, tuple(MODES), default="constant")
    fill: int | float | Fraction = parameter(_fill, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fill and self.mode != "constant":
            rule = f"is not used by mode={self.mode!r}"
            raise refusal(ArgumentError, self.name, "value", self.fill, rule, "leave it out")
        if self.fill:  # constant slopes, but not linear: f(0) is not 0
            self._set(curvature="piecewise_linear", needs=() if self.fill == int(self.fill) else ("division",))

    def padding_value(self) -> Any:
        return self.fill

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        pairs = cast(Pairs, self.padding)
        if len(shape) < len(pairs):
            rule = f"has {len(shape)} axes, fewer than the {len(pairs)} padded ones"
            raise refusal(ShapeError, self.name, "x", shape_words(shape), rule, "give fewer pairs")
        fixed = len(shape) - len(pairs)
        for p, (n, pair) in enumerate(zip(shape[fixed:], pairs, strict=True), fixed):
            most = {"reflect": n - 1, "circular": n, "replicate": max(pair) if n else 0}.get(self.mode, max(pair))
            if max(pair) > max(most, 0):
                rule = (
                    f"takes {max(pair)} cells of an axis of {n} in mode={self.mode!r}, "
                    f"which gives {max(most, 0)} at most"
                )
                raise refusal(ArgumentError, self.name, "padding", self.padding, rule, "use less padding", p)
        return (*shape[:fixed], *(a + n + b for n, (a, b) in zip(shape[fixed:], pairs, strict=True)))

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        (x,) = arrays
        if not self.padding:
            return x
        widths = [(0, 0)] * (x.ndim - len(self.padding)) + list(self.padding)
        options = {"constant_values": fill} if self.mode == "constant" else {}
        return np.pad(x, widths, MODES[self.mode], **options)  # type: ignore[call-overload]

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        if self.mode != "constant":
            return NotImplemented
        sizes = shapes[0][len(shapes[0]) - len(self.padding) :]
        kept = (slice(a, a + n) for n, (a, _) in zip(sizes, cast(Pairs, self.padding), strict=True))
        return Slice((..., *kept))(cotangent)


@operator
class Patches(Operator):
    """What `unfold` and `fold` share: kernel_size, stride, padding, dilation."""

    kernel_size: Sequence[int] = parameter(arguments.lengths)
    _: KW_ONLY
    stride: Ints = parameter(arguments.per_axis, 1, spatial=True, default=1)
    padding: Padding = parameter(arguments.padding, (), spatial=True, default=0)
    dilation: Ints = parameter(arguments.per_axis, 1, spatial=True, default=1)

    def spatial_rank(self) -> int:
        return len(self.kernel_size)

    def sliding(self, sizes: Shape) -> tuple[Sliding, ...]:
        """The sliding axes over spatial sizes."""
        stride, dilation = cast(Shape, self.stride), cast(Shape, self.dilation)
        return sliding_axes(self.name, sizes, self.kernel_size, stride, cast(Pairs, self.padding), dilation)


@operator
class Unfold(Patches, Move):
    """The patches of a sliding kernel as columns: (*batch, channels, *spatial) to (*batch,
    channels * Πkernel, patches).

    A column contains the cells of one patch, channel by channel, in row-major order. The patches
    are in row-major order too, as in PyTorch. Padding: 0. Domain: any scalars. The transpose is
    :class:`Fold`.

    >>> import numpy as np
    >>> Unfold((2,))(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """

    name: ClassVar = "unfold"

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        rank = len(self.kernel_size)
        if len(shape) < rank + 1:
            rule = f"needs a channel axis and {rank} spatial axes"
            raise refusal(ShapeError, self.name, "x", shape_words(shape), rule, "add the missing axes, e.g. x[None]")
        positions = spatial_positions(self.name, shape, rank, None)
        outputs = (axis.length for axis in self.sliding(tuple(shape[p] for p in positions)))
        channel = len(shape) - rank - 1
        return (*shape[:channel], shape[channel] * math.prod(self.kernel_size), math.prod(outputs))

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        (x,) = arrays
        shape, first = self.output_shape(x.shape), x.ndim - len(self.kernel_size)
        axes, pad = self.sliding(x.shape[first:]), Pad(cast(Pairs, self.padding))
        if math.prod(pad.output_shape(x.shape)) > 16 * (x.size + math.prod(shape)):  # nearly all of it is never read
            return self._by_tables(x, axes, fill).reshape(shape)
        spatial, inside = tuple(range(first, x.ndim)), tuple(range(x.ndim, 2 * x.ndim - first))
        extents = tuple(axis.extent for axis in axes)
        seen: Any = np.lib.stride_tricks.sliding_window_view(pad.move(x, fill=fill), extents, spatial)
        seen = seen[(..., *(slice(None, None, a.stride) for a in axes), *(slice(None, None, a.dilation) for a in axes))]
        return seen.transpose((*range(first), *inside, *spatial)).reshape(shape)

    def _by_tables(self, x: Any, axes: Sequence[Sliding], fill: Any) -> Any:
        """(…, *taps, *patches), without a padded copy."""
        first, inside = x.ndim - len(axes), np.array(True)
        for p, (cell, real, _) in enumerate(tables(self.name, axes)):
            x = np.take(x, cell.T, first + 2 * p)  # the axis becomes two: taps and patches
            inside = inside[..., None, None] & real.T
        order = (*range(first), *range(first, x.ndim, 2), *range(first + 1, x.ndim, 2))
        return np.where(inside, x, fill).transpose(order)

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        sizes = shapes[0][len(shapes[0]) - len(self.kernel_size) :]
        words = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        return Fold(self.kernel_size, sizes, **words)(cotangent)  # type: ignore[arg-type]


@operator
class Adjoint(Total):
    """The transpose of an operator that moves the cells of one operand: each cell is the sum of
    those that it was moved to."""

    def transposes(self, shape: Shape) -> tuple[Move, Shape]:
        """The operator whose transpose takes an operand of this shape, and the shape of that
        operator's own operand."""
        raise NotImplementedError

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        return self.transposes(shape)[1]

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        op, shape = self.transposes(shapes[0])
        (axis,) = op.geometry(shape).axes
        output = np.flatnonzero(axis.real)
        cell = axis.offsets[0][output, 0]
        order = np.argsort(cell, kind="stable")
        output, cell = output[order], cell[order]
        counts = np.bincount(cell, minlength=math.prod(shape))
        reader = np.arange(cell.size) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.zeros((counts.size, max(int(counts.max(initial=0)), 1)), np.intp)
        table[cell, reader] = output
        real = np.arange(table.shape[1]) < counts[:, None]
        return Geometry((AxisReads((table,), real, real),), (0,))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return self.transposes(shapes[0])[0](cotangent)


def _output_size(name: str, argument: str, value: Any, rank: int) -> tuple[int, ...]:
    entries = arguments.one_per_axis(name, argument, value, "(28, 28)")
    return arguments.per_axis(name, argument, entries, rank, 1)


@operator
class Fold(Patches, Adjoint):
    """Columns summed into an array: (*batch, channels * Πkernel, patches) to (*batch, channels,
    *output_size).

    This is the transpose of :class:`Unfold`: each cell is the sum of the column cells into which
    Unfold copies it. Padding: column cells that lie in padding are ignored. Domain: any ring.

    >>> import numpy as np
    >>> Fold((2,), (3,))(np.array([[1.0, 2.0], [10.0, 20.0]]))
    array([[ 1., 12., 20.]])
    """

    name: ClassVar = "fold"
    slots: ClassVar = (Slot("columns"),)

    output_size: Sequence[int] = parameter(_output_size, spatial=True)

    def transposes(self, shape: Shape) -> tuple[Move, Shape]:
        sizes = tuple(self.output_size)
        axes = self.sliding(sizes)
        per_channel, patches = math.prod(self.kernel_size), math.prod(axis.length for axis in axes)
        if len(shape) < 2 or shape[-2] % per_channel or shape[-1] != patches:
            rule = f"must end in (channels * {per_channel}, {patches}) for output_size {sizes} and this kernel"
            remedy = "give the columns that unfold makes of such an array"
            raise refusal(ShapeError, self.name, "columns", shape_words(shape), rule, remedy)
        op = Unfold(self.kernel_size, stride=self.stride, padding=self.padding, dilation=self.dilation)
        return op, (*shape[:-2], shape[-2] // per_channel, *sizes)
