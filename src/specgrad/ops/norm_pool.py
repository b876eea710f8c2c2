"""Pooling by a p-norm, and the unpooling of maxima."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from .. import arguments
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import AxisReads, Geometry, Shape, each
from ..operator import Entry, Operator, Slot, Window, checked_shapes, operator, parameter
from ..scalars.base import Cells, Family, Mask
from .order import Abs
from .window import SlidingWindow


def _finite_order(name: str, argument: str, value: Any) -> int | float | Fraction:
    order = arguments.real(value)
    if order is None or order <= 1:
        rule = "must be a finite number greater than 1"
        raise refusal(ArgumentError, name, argument, value, rule, "the function lp_pool takes 1 and infinity too")
    return arguments.exponent(name, argument, value, order)


@operator
class LpPool(SlidingWindow):
    """(Σ |cell|^p)^(1/p) over each window of a sliding kernel, for a finite p > 1. The slope in a
    cell is sign(cell) (|cell| / value)^(p - 1).

    `lp_pool` also takes p = 1, the sum of the absolute values, and p = ∞, their maximum. Window:
    sliding. Padding: adds 0. A cell that is 0 has no slope; for an even p its slope is the number
    0, which has derivatives. A window of zeros has no slopes. Domain: scalars with roots. Only a
    value that is too large itself overflows: cells are divided by the largest first.

    >>> import numpy as np
    >>> LpPool((2,), p=2).jvp((np.array([3.0, -4.0]),), (np.array([5.0, 10.0]),))
    (array([5.]), array([-5.]))
    """

    name: ClassVar = "lp_pool"
    needs: ClassVar = ("real", "division", "exp", "root")

    _: KW_ONLY
    p: int | float | Fraction = parameter(_finite_order)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        zero, one = S.constant(0), S.constant(1)
        largest = S.zeros(window.size)
        for tap in window:
            size = self._size(S, tap)
            largest = S.where(S.gt(size, largest), size, largest)
        largest = S.pivot(largest)
        unit = S.where(S.gt(largest, zero), largest, one)
        total = S.zeros(window.size)
        for tap in window:
            power = S.power(S.divide(self._base(S, tap), unit), self.p)
            total = total + S.where(self._moves(S, tap), power, zero)
        empty = S.eq(total, zero)  # whose root has an infinite slope that no cell meets
        root = S.power(S.where(empty, one, total), Fraction(1) / Fraction(self.p))
        return S.where(empty, zero, unit * root), (unit * root, empty)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        norm, empty = kept
        for tap in window:
            share = S.power(S.divide(self._base(S, tap), norm), self.p - 1)
            times = share if self._is_even else S.where(S.gt(S.constant(0), tap.cells(0)), -share, share)
            yield tap.entry(0, S.both(self._moves(S, tap), S.negate(empty)), times=times)

    @property
    def _is_even(self) -> bool:
        """Whether |cell|^p is cell^p, which has all derivatives at 0; other powers lack some."""
        return self.p % 2 == 0

    def _base(self, S: Family, tap: Any) -> Cells:
        """What is raised to a power: 1 where the power is selected away, since the derivatives of a
        power of 0 may be infinite."""
        base = tap.cells(0) if self._is_even else Abs().function(S, tap.cells(0))
        # where a comparison may be open, the hull with 1 would widen enclosures
        return S.where(self._moves(S, tap) if S.decides else tap.real, base, S.constant(1))

    def _moves(self, S: Family, tap: Any) -> Mask:
        """Whether the norm of the window has a derivative in this cell."""
        return tap.real if self._is_even else S.both(tap.real, S.negate(S.eq(tap.cells(0), S.constant(0))))

    @staticmethod
    def _size(S: Family, tap: Any) -> Cells:
        return S.where(tap.real, Abs().function(S, tap.cells(0)), S.constant(0))


@operator
class MaxUnpool(Operator):
    """Writes each cell of y to its index in a plane of `output_size` zeros: a partial inverse of
    `max_pool`.

    Indices are those of `max_pool(…, return_indices=True)`: flat indices in the plane of the last
    axes. A cell with index -1 is not written. If several cells have the same index, the last one is
    written, and only this cell has a slope. Domain: any scalars. Indices are integers for every
    scalar type, and have no derivative.

    >>> import numpy as np
    >>> MaxUnpool((4,))(np.array([5.0, 7.0]), np.array([1, 2]))
    array([0., 5., 7., 0.])
    """

    name: ClassVar = "max_unpool"
    slots: ClassVar = (Slot("y"), Slot("indices", differentiable=False, integer=True))
    curvature: ClassVar = "piecewise_linear"
    keeps: ClassVar = False

    output_size: Sequence[int] = parameter(arguments.lengths, 0, "(28, 28)")

    def output_shape(self, *shapes: Shape) -> Shape:
        y, indices = checked_shapes(self, shapes)
        rank = len(self.output_size)
        if len(y) < rank:
            rule = f"has {len(y)} axes, fewer than the {rank} of output_size"
            raise refusal(ShapeError, self.name, "y", shape_words(y), rule, "give fewer lengths")
        if indices != y:
            rule = f"must have shape {y}: one index per cell of y"
            raise refusal(ShapeError, self.name, "indices", shape_words(indices), rule, "give the indices of max_pool")
        return (*y[: len(y) - rank], *self.output_size)

    def check(self, operands: Sequence[Any]) -> None:
        cells, indices = math.prod(self.output_size), np.asarray(operands[1])
        wrong = indices[(indices < -1) | (indices >= cells)]
        if wrong.size:
            rule = f"is not the index of one of {cells} cells"
            remedy = f"write indices from 0 to {cells - 1}, or -1 for none, or a larger output_size"
            raise refusal(ArgumentError, self.name, "indices", int(wrong.flat[0]), rule, remedy)

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        batch = self.output_shape(*shapes)[: len(shapes[0]) - len(self.output_size)]
        plane, cells = math.prod(shapes[0][len(batch) :]), math.prod(self.output_size)
        read = np.broadcast_to(np.arange(plane), (cells, plane))  # every output reads all cells of its plane
        every = np.broadcast_to(np.bool_(True), read.shape)
        return Geometry((each(math.prod(batch), plane, plane), AxisReads((read, read), every, every)), (0, 1))

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        cells = S.zeros(window.size)
        for tap, here in self._found(window):
            cells = S.where(here, tap.cells(0), cells)
        return cells, None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        taken = np.zeros(window.size, np.bool_)
        for tap, here in reversed(list(self._found(window))):
            yield tap.entry(0, here & ~taken)
            taken |= here

    def _found(self, window: Window) -> Iterator[tuple[Any, Mask]]:
        """Tap by tap, whether the index there names the output's own cell."""
        own = window.block.cells % max(math.prod(self.output_size), 1)
        return ((tap, window.operands[1][tap.place[1]] == own) for tap in window)
