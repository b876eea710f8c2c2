"""Convolution and its adjoint: one bilinear reduction over (channel, *spatial) windows, of any
rank from 0 up.

Convolution here is cross-correlation, as everywhere in deep learning. Transposed convolution uses,
on every axis, the outputs that read a cell instead of the cells that an output reads; it has no
derivative rules of its own. Linear is convolution of rank 0.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar, cast

from .. import arguments
from ..arguments import Ints, Padding, Pairs
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import Geometry, Shape, Sliding, channel_geometry, readers, transposed_size
from ..operator import Slot, checked_shapes, operator, parameter
from ..sizes import refuse_table
from .sums import Products
from .window import sliding_axes, spatial_positions, tables


@operator
class Bilinear(Products):
    """bias + Σ x·w over a window's taps, channels outermost, bias last."""

    slots: ClassVar = (Slot("x"), Slot("weight"), Slot("bias", optional=True))
    form: ClassVar[str]
    """The weight's axes, in words."""

    def weight_kernel(self) -> tuple[tuple[int, ...], int]:
        """The kernel that the weight must have, and the number of groups."""
        raise NotImplementedError

    def sliding(self, sizes: Shape) -> tuple[tuple[Sliding, int], ...]:
        """Per spatial axis the sliding axis of the convolution, over the side it reads, and how
        many cells it writes."""
        raise NotImplementedError

    def _lengths(self, sizes: Shape) -> Shape:
        """The output's spatial lengths."""
        raise NotImplementedError

    def _channels(self, weight: Shape) -> tuple[int, int]:
        """How many channels the weight reads and writes."""
        raise NotImplementedError

    def _checked(self, shapes: tuple[Shape, ...]) -> tuple[int, Shape]:
        """The number of output channels and the input's spatial sizes, once all operands fit."""
        x, weight, *bias = checked_shapes(self, shapes)
        kernel, groups = self.weight_kernel()
        rank = len(kernel)
        if len(weight) != rank + 2 or weight[2:] != kernel:
            rule = f"must have the form {self.form}" + (f" with kernel {kernel}" if rank else "")
            raise refusal(ShapeError, self.name, "weight", shape_words(weight), rule, "reshape the weight")
        if len(x) < rank + 1:
            rule = f"needs a channel axis and {rank} spatial axes"
            raise refusal(ShapeError, self.name, "x", shape_words(x), rule, "add the missing axes, e.g. x[None]")
        positions = spatial_positions(self.name, x, rank, None)
        read, written = self._channels(weight)
        channels = x[len(x) - rank - 1]
        if read == 0:
            raise refusal(
                ShapeError, self.name, "weight", shape_words(weight), "reads no channel", "give it one at least"
            )
        if channels % groups or weight[0] % groups:
            rule = f"must divide the input's {channels} channels and the weight's first axis of {weight[0]}"
            raise refusal(ArgumentError, self.name, "groups", groups, rule, "choose a common divisor of both")
        if channels != read:
            rule = f"the weight reads {read} channels, the input has {channels}"
            remedy = "give the weight that many input channels, or set groups"
            raise refusal(ShapeError, self.name, "x", shape_words(x), rule, remedy, len(x) - rank - 1)
        if bias and bias[0] != (written,):
            rule = f"must have shape ({written},): one number per output channel"
            raise refusal(ShapeError, self.name, "bias", shape_words(bias[0]), rule, "reshape the bias")
        return written, tuple(x[p] for p in positions)

    def output_shape(self, *shapes: Shape) -> Shape:
        written, sizes = self._checked(shapes)
        return (*shapes[0][: -1 - len(sizes)], written, *self._lengths(sizes))


@operator
class Linear(Bilinear):
    """bias[o] + Σ_i x[..., i] * weight[o, i]: convolution of rank 0.

    Window: all input features. Padding: none exists. Domain: any ring.

    >>> import numpy as np
    >>> Linear()(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]))
    array([11.])
    """

    name: ClassVar = "linear"
    form: ClassVar = "(out, in)"

    def weight_kernel(self) -> tuple[tuple[int, ...], int]:
        return (), 1

    def sliding(self, sizes: Shape) -> tuple[tuple[Sliding, int], ...]:
        return ()

    def _lengths(self, sizes: Shape) -> Shape:
        return ()

    def _channels(self, weight: Shape) -> tuple[int, int]:
        return weight[1], weight[0]

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        written, _ = self._checked(shapes)
        return channel_geometry(shapes[0], shapes[1], 1, written, (), transposed=False)


@operator
class SlidingWeight(Bilinear):
    """A weight that slides: kernel_size, stride, padding, dilation, groups."""

    kernel_size: tuple[int, ...] = parameter(arguments.lengths)
    _: KW_ONLY
    stride: Ints = parameter(arguments.per_axis, 1, spatial=True, default=1)
    padding: Padding = parameter(arguments.padding, (), spatial=True, default=0)
    dilation: Ints = parameter(arguments.per_axis, 1, spatial=True, default=1)
    groups: int = parameter(arguments.integer, 1, default=1)

    def spatial_rank(self) -> int:
        return len(self.kernel_size)

    def weight_kernel(self) -> tuple[tuple[int, ...], int]:
        return self.kernel_size, self.groups


@operator
class Conv(SlidingWeight):
    """bias[oc] + Σ_ic Σ_j x[ic, o*stride - before + j*dilation] * weight[oc, ic, j].

    Window: sliding, over (*batch, channels, *spatial). Padding: ignored. Domain: any ring.

    >>> import numpy as np
    >>> Conv((2,))(np.array([[1.0, 2.0, 4.0]]), np.array([[[-1.0, 1.0]]]))
    array([[1., 2.]])
    """

    name: ClassVar = "conv"
    form: ClassVar = "(out, in/groups, *kernel)"

    _: KW_ONLY
    padding: Padding = parameter(arguments.padding, spatial=True, default=0)

    def sliding(self, sizes: Shape) -> tuple[tuple[Sliding, int], ...]:
        stride, dilation = cast(Shape, self.stride), cast(Shape, self.dilation)
        padding = cast("str | Pairs", self.padding)
        axes = sliding_axes(self.name, sizes, self.kernel_size, stride, padding, dilation)
        return tuple((axis, axis.length) for axis in axes)

    def _lengths(self, sizes: Shape) -> Shape:
        return tuple(length for _, length in self.sliding(sizes))

    def _channels(self, weight: Shape) -> tuple[int, int]:
        return weight[1] * self.groups, weight[0]

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        written, sizes = self._checked(shapes)
        taps = tables(self.name, [axis for axis, _ in self.sliding(sizes)])
        return channel_geometry(shapes[0], shapes[1], self.groups, written, taps, transposed=False)


@operator
class ConvTranspose(SlidingWeight):
    """The adjoint of Conv in its input, plus bias[oc].

    Window: for each cell, the outputs of Conv that read it. Weight (in, out/groups, *kernel).
    Output size (n-1)*stride - before - after + dilation*(k-1) + output_padding + 1. If
    output_padding makes Conv of the result longer than n, this is the adjoint of its first n
    outputs. Padding: crops the result. Domain: any ring.

    >>> import numpy as np
    >>> ConvTranspose((2,), stride=2)(np.array([[1.0, 2.0]]), np.ones((1, 1, 2)))
    array([[1., 1., 2., 2.]])
    """

    name: ClassVar = "conv_transpose"
    form: ClassVar = "(in, out/groups, *kernel)"

    _: KW_ONLY
    output_padding: Ints = parameter(arguments.per_axis, 0, spatial=True, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        extra, stride, dilation = cast("tuple[Shape, ...]", (self.output_padding, self.stride, self.dilation))
        for axis, (p, s, d) in enumerate(zip(extra, stride, dilation, strict=True)):
            if p >= max(s, d):
                rule = f"must be smaller than stride {s} or dilation {d}"
                remedy = "use a smaller output_padding"
                raise refusal(ArgumentError, self.name, "output_padding", extra, rule, remedy, axis)

    def sliding(self, sizes: Shape) -> tuple[tuple[Sliding, int], ...]:
        parameters = (self.kernel_size, self.stride, self.padding, self.dilation, self.output_padding)
        made = []
        for axis, (n, k, s, pad, d, extra) in enumerate(zip(sizes, *cast(Any, parameters), strict=True)):
            size = transposed_size(n, k, s, pad, d, extra)
            if size < 1:
                rule = f"leaves {size} cells of the result"
                raise refusal(ShapeError, self.name, "padding", self.padding, rule, "use less padding", axis)
            made.append((Sliding(size, k, s, pad[0], pad[1], d), n))
        return tuple(made)

    def _lengths(self, sizes: Shape) -> Shape:
        return tuple(axis.size for axis, _ in self.sliding(sizes))

    def _channels(self, weight: Shape) -> tuple[int, int]:
        return weight[0], weight[1] * self.groups

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        written, sizes = self._checked(shapes)
        axes = self.sliding(sizes)
        for axis, n in axes:
            refuse_table(self.name, axis.size, min(axis.kernel, n))
        turned = [readers(axis, outputs=n) for axis, n in axes]
        return channel_geometry(shapes[0], shapes[1], self.groups, written, turned, transposed=True)
