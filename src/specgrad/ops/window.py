"""The windows of pooling: which cells of its one operand an output cell reads; sliding, adaptive and whole.

What is made of the cells is decided in pool.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, cast

from .. import arguments
from ..arguments import Ints, Padding, Pairs
from ..geometry import Adaptive, Axis, Geometry, Shape, pool_geometry, sliding_axes, spatial_positions
from ..operator import Operator, Slot, checked_shapes
from ..remembering import remembered


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Operator):
    """One operand x; windows over some of its axes, all others being batch."""

    slots: ClassVar = (Slot("x"),)

    _: KW_ONLY
    axes: Sequence[int] | None = None

    def spatial_rank(self) -> int:
        """How many spatial axes the window has."""
        raise NotImplementedError

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        """The window's axes over an input of these spatial sizes."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        self._set(axes=arguments.axes(self.name, self.axes, self.spatial_rank()))

    def positions(self, shape: Shape) -> tuple[int, ...]:
        """Where the spatial axes stand in an input of this shape."""
        return spatial_positions(self.name, shape, self.spatial_rank(), cast("tuple[int, ...] | None", self.axes))

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        return self.result_shape(shape)

    def result_shape(self, shape: Shape) -> Shape:
        """`output_shape` of lengths that need not be known numbers: only + - * // and comparisons are asked of them."""
        positions = self.positions(shape)
        lengths = list(shape)
        for p, axis in zip(positions, self.spatial(tuple(shape[p] for p in positions)), strict=True):
            lengths[p] = axis.length
        return tuple(lengths)

    @remembered(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        (shape,) = shapes
        positions = self.positions(shape)
        return pool_geometry(shape, positions, self.spatial(tuple(shape[p] for p in positions)))


@dataclass(frozen=True, eq=False, repr=False)
class SlidingWindow(Pool):
    """A kernel that slides: kernel_size, stride, padding, dilation, ceil_mode."""

    kernel_size: Sequence[int]
    _: KW_ONLY
    stride: Ints | None = None
    padding: Padding = 0
    dilation: Ints = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        kernel = arguments.kernel(self.name, self.kernel_size)
        rank = len(kernel)
        stride = kernel if self.stride is None else arguments.per_axis(self.name, "stride", self.stride, rank, 1)
        self._set(
            kernel_size=kernel,
            stride=stride,
            padding=arguments.padding(self.name, self.padding, rank),
            dilation=arguments.per_axis(self.name, "dilation", self.dilation, rank, 1),
            ceil_mode=arguments.flag(self.name, "ceil_mode", self.ceil_mode),
        )
        super().__post_init__()

    def spatial_rank(self) -> int:
        return len(self.kernel_size)

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        stride, dilation = cast(Shape, self.stride), cast(Shape, self.dilation)
        padding = cast("str | Pairs", self.padding)
        return sliding_axes(self.name, sizes, self.kernel_size, stride, padding, dilation, self.ceil_mode)


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveWindow(Pool):
    """Bins that cover the input evenly: output_size, where None keeps an axis as it is."""

    output_size: Sequence[int | None]

    def __post_init__(self) -> None:
        self._set(output_size=arguments.output_size(self.name, self.output_size))
        super().__post_init__()

    def spatial_rank(self) -> int:
        return len(self.output_size)

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        return tuple(Adaptive(n, n if m is None else m) for n, m in zip(sizes, self.output_size, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class WholeWindow(Pool):
    """The whole plane of the last `rank` axes (or of `axes`): adaptive to 1, with the ones kept or dropped."""

    rank: int
    _: KW_ONLY
    keepdims: bool = True

    def __post_init__(self) -> None:
        self._set(
            rank=arguments.integer(self.name, "rank", self.rank, 0),
            keepdims=arguments.flag(self.name, "keepdims", self.keepdims),
        )
        super().__post_init__()

    def spatial_rank(self) -> int:
        return self.rank

    def spatial(self, sizes: Shape) -> tuple[Axis, ...]:
        return tuple(Adaptive(n, 1) for n in sizes)

    def result_shape(self, shape: Shape) -> Shape:
        full = super().result_shape(shape)
        dropped = () if self.keepdims else self.positions(shape)
        return tuple(n for p, n in enumerate(full) if p not in dropped)
