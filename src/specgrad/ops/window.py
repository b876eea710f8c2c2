"""The windows of pooling: which cells of its one operand an output cell reads.

They are sliding, adaptive or whole. What is made of the cells is decided in pool.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import ClassVar, cast

from .. import arguments
from ..arguments import LARGEST, Ints, Padding, Pairs
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import Adaptive, Axis, Geometry, Shape, Sliding, Taps, pool_geometry, same_padding
from ..operator import Operator, Slot, checked_shapes, operator, parameter
from ..sizes import refuse_table

LONG = 1 << 16
"""Taps along an axis from which windows that are nearly all padding are refused: they take too
long."""
MANY = 1 << 22
"""Bins of an axis from which those that are nearly all alike are refused, for the same reason."""


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
        if k > LONG and before + after > 4 * n:
            rule = f"windows would have {k} taps over {n} cells, most of them of padding alone"
            raise refusal(ArgumentError, name, "kernel_size", tuple(kernel_size), rule, "use less padding", axis)
        if sliding.length < 1:
            rule = f"the kernel spans {sliding.extent} cells but the padded input has {n + before + after}"
            remedy = "use a smaller kernel or dilation, or more padding"
            raise refusal(ShapeError, name, "kernel_size", tuple(kernel_size), rule, remedy, axis)
        made.append(sliding)
    return tuple(made)


def tables(name: str, axes: Sequence[Axis]) -> list[Taps]:
    """The tables of axes; refuses those that do not fit into memory."""
    for axis in axes:
        refuse_table(name, axis.length, axis.most_taps)
    return [axis.taps() for axis in axes]


def spatial_positions(name: str, shape: Shape, rank: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Where the spatial axes of an operand are: the last `rank` ones, or those that `axes`
    names."""
    if len(shape) < rank:
        rule = f"has {len(shape)} axes, fewer than the {rank} spatial ones"
        remedy = "give an array with more axes or a shorter kernel"
        raise refusal(ShapeError, name, "x", shape_words(shape), rule, remedy)
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


@operator
class Pool(Operator):
    """One operand x; windows over some of its axes, all others being batch."""

    slots: ClassVar = (Slot("x"),)

    _: KW_ONLY
    axes: Sequence[int] | None = parameter(arguments.axes, spatial=True, default=None)

    def spatial_rank(self) -> int:
        """How many spatial axes the window has."""
        raise NotImplementedError

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        """The window's axes over an input of these spatial sizes."""
        raise NotImplementedError

    def positions(self, shape: Shape) -> tuple[int, ...]:
        """Where the spatial axes stand in an input of this shape."""
        return spatial_positions(self.name, shape, self.spatial_rank(), cast("tuple[int, ...] | None", self.axes))

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        return self.result_shape(shape)

    def result_shape(self, shape: Shape) -> Shape:
        """`output_shape` of lengths that need not be known numbers: only + - * // and comparisons
        are asked of them."""
        positions = self.positions(shape)
        lengths = list(shape)
        for p, axis in zip(positions, self.spatial(tuple(shape[p] for p in positions)), strict=True):
            lengths[p] = axis.length
        return tuple(lengths)

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        (shape,) = shapes
        positions = self.positions(shape)
        axes = self.spatial(tuple(shape[p] for p in positions))
        return pool_geometry(shape, positions, tables(self.name, axes))


@operator
class SlidingWindow(Pool):
    """A kernel that slides: kernel_size, stride, padding, dilation, ceil_mode."""

    kernel_size: Sequence[int] = parameter(arguments.lengths)
    _: KW_ONLY
    stride: Ints | None = parameter(arguments.per_axis, 1, spatial=True, default=None)
    padding: Padding = parameter(arguments.padding, spatial=True, default=0)
    dilation: Ints = parameter(arguments.per_axis, 1, spatial=True, default=1)
    ceil_mode: bool = parameter(arguments.flag, default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is None:
            self._set(stride=self.kernel_size)

    def spatial_rank(self) -> int:
        return len(self.kernel_size)

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        stride, dilation = cast(Shape, self.stride), cast(Shape, self.dilation)
        padding = cast("str | Pairs", self.padding)
        return sliding_axes(self.name, sizes, self.kernel_size, stride, padding, dilation, self.ceil_mode)


@operator
class AdaptiveWindow(Pool):
    """Bins that cover the input evenly: output_size, where None keeps an axis as it is."""

    output_size: Sequence[int | None] = parameter(arguments.output_size)

    def spatial_rank(self) -> int:
        return len(self.output_size)

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        lengths = tuple(n if m is None else m for n, m in zip(sizes, self.output_size, strict=True))
        for axis, (n, m) in enumerate(zip(sizes, lengths, strict=True)):
            if m > max(MANY, 4 * n) and math.prod(lengths) < 1 << 40:  # beyond, no result fits
                rule = f"{m} bins of {n} cells would be alike, nearly all of them"
                raise refusal(ArgumentError, self.name, "output_size", self.output_size, rule, "use fewer bins", axis)
        return tuple(map(Adaptive, sizes, lengths))


@operator
class WholeWindow(Pool):
    """The whole plane of the last `rank` axes (or of `axes`): adaptive to 1, with the ones kept or
    dropped."""

    rank: int = parameter(arguments.integer, 0)
    _: KW_ONLY
    keepdims: bool = parameter(arguments.flag, default=True)

    def spatial_rank(self) -> int:
        return self.rank

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        return tuple(Adaptive(n, 1) for n in sizes)

    def result_shape(self, shape: Shape) -> Shape:
        full = super().result_shape(shape)
        dropped = () if self.keepdims else self.positions(shape)
        return tuple(n for p, n in enumerate(full) if p not in dropped)
