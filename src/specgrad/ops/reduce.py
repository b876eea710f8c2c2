"""Reductions over whole axes: sum, mean, and the logarithm of softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, cast

import numpy as np

from .. import arguments
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import AxisReads, Geometry, Shape, each, reduced_geometry, strides
from ..operator import Entry, Operator, Slot, Window, checked_shapes, operator, parameter
from ..scalars.base import Cells, Family
from ..sizes import refuse_table
from .pool import argmax_fold
from .sums import Total


@operator
class Sum(Total):
    """Σ x over all axes, or over `axis` (an integer or several); keepdims keeps the axes as ones.

    Window: whole axes, row-major. Domain: any ring; the sum of no cells is 0.

    >>> import numpy as np
    >>> Sum(axis=0)(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([4., 6.])
    """

    name: ClassVar = "sum"

    axis: int | Sequence[int] | None = parameter(arguments.several, default=None)
    _: KW_ONLY
    keepdims: bool = parameter(arguments.flag, default=False)

    def positions(self, shape: Shape) -> tuple[int, ...]:
        """The axes that are summed over, counted from 0."""
        rank = len(shape)
        if self.axis is None:
            return tuple(range(rank))
        axes = cast(tuple[int, ...], self.axis)
        for p in axes:
            if not -rank <= p < rank:
                rule = f"{p} is not an axis of an array with {rank} axes"
                remedy = f"write integers from {-rank} to {rank - 1}" if rank else "leave it out"
                raise refusal(ArgumentError, self.name, "axis", self.axis, rule, remedy)
        positions = tuple(p % rank for p in axes)
        if len(set(positions)) < len(positions):
            raise refusal(ArgumentError, self.name, "axis", self.axis, "names an axis twice", "name each axis once")
        return positions

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        positions = self.positions(shape)
        if self.keepdims:
            return tuple(1 if p in positions else n for p, n in enumerate(shape))
        return tuple(n for p, n in enumerate(shape) if p not in positions)

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        self.output_shape(*shapes)
        return reduced_geometry(shapes[0], self.positions(shapes[0]))


@operator
class Mean(Sum):
    """Σ x / count over all axes, or over `axis`; keepdims keeps the axes as ones.

    Window: whole axes, row-major. Domain: scalars that divide; the mean of no cells is an error.

    >>> import numpy as np
    >>> Mean()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array(2.5)
    """

    name: ClassVar = "mean"
    needs: ClassVar = ("division",)
    curvature: ClassVar = "none"
    keeps: ClassVar = False

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        for p in self.positions(shapes[0]):
            if shapes[0][p] == 0:
                rule = "the mean of no cell is not a number"
                raise refusal(ShapeError, self.name, "x", shape_words(shapes[0]), rule, "drop the empty input", p)
        return super().output_shape(*shapes)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        return S.divide(super().value(S, window)[0], self._count(S, window)), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        for tap in window:
            yield tap.entry(0, tap.real, over=self._count(S, window))

    @staticmethod
    def _count(S: Family, window: Window) -> Cells:
        return S.constant(window.block.count("real"))


@operator
class LogSoftmax(Operator):
    """x_c - log Σ_j exp(x_j) over the last axis.

    Window: the last axis. The slope in x_j is [c = j] - softmax_j. There is no overflow: exponents
    are shifted by the maximum. Domain: scalars with exp and log.

    >>> import numpy as np
    >>> LogSoftmax()(np.array([0.0, 0.0])).round(6)
    array([-0.693147, -0.693147])
    """

    name: ClassVar = "log_softmax"
    slots: ClassVar = (Slot("x"),)
    needs: ClassVar = ("real", "division", "exp")

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        if not shapes[0]:
            rule = "has no last axis"
            raise refusal(ShapeError, self.name, "x", shape_words(shapes[0]), rule, "give it an axis of classes")
        return shapes[0]

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        *batch, classes = self.output_shape(*shapes)
        refuse_table(self.name, classes, classes)
        every = np.ones((classes, classes), np.bool_)
        reads = AxisReads((np.arange(classes) + np.zeros((classes, 1), np.intp),), every, every)
        axes = (*(each(n, step) for n, step in zip(batch, strides(shapes[0]), strict=False)), reads)
        return Geometry(axes, tuple(range(len(axes))))

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        pivot, total, own = self._shifted(S, window)
        return own - S.log(total), (pivot, total)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        for tap, slope in self._slopes(S, window, *kept):
            yield tap.entry(0, window.everywhere, times=slope)

    @staticmethod
    def _shifted(S: Family, window: Window) -> tuple[Cells, Cells, Cells]:
        """A number near the maximum, Σ exp(x - it), and the output's own cell less it."""
        pivot = S.pivot(argmax_fold(S, window, "real")[0])
        total, own = S.zeros(window.size), S.zeros(window.size)
        for tap in window:
            total = total + S.exp(tap.cells(0) - pivot)
            own = S.where(tap.place[0] == window.block.cells, tap.cells(0), own)
        return pivot, total, own - pivot

    @staticmethod
    def _slopes(S: Family, window: Window, pivot: Cells, total: Cells) -> Iterator[tuple[Any, Cells]]:
        """Tap by tap, [it is the output's own cell] - softmax."""
        for tap in window:
            own = S.where(tap.place[0] == window.block.cells, S.constant(1), S.constant(0))
            yield tap, own - S.divide(S.exp(tap.cells(0) - pivot), total)


@operator
class Softmax(LogSoftmax):
    """exp(x_c) / Σ_j exp(x_j) over the last axis.

    Window: the last axis. The slope in x_j is softmax_c ([c = j] - softmax_j). There is no
    overflow: exponents are shifted by the maximum. Domain: scalars with exp.

    >>> import numpy as np
    >>> Softmax()(np.array([0.0, 1000.0, 1000.0]))
    array([0. , 0.5, 0.5])
    """

    name: ClassVar = "softmax"

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        pivot, total, own = self._shifted(S, window)
        share = S.divide(S.exp(own), total)
        return share, (share, pivot, total)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        share, *rest = kept
        for tap, slope in self._slopes(S, window, *rest):
            yield tap.entry(0, window.everywhere, times=share * slope)
