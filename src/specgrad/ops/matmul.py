"""The product of matrices, or of stacks of them that broadcast."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..caches import cached
from ..errors import ShapeError, refusal, shape_words
from ..geometry import AxisReads, Geometry, Shape, each, strides
from ..operator import checked_shapes, operator
from .pointwise import PAIR
from .sums import Products


@operator
class Matmul(Products):
    """Σ_k x[..., i, k] · y[..., k, j], as NumPy's matmul: leading axes broadcast, and a vector is a
    row or a column that is dropped.

    Domain: any ring.

    >>> import numpy as np
    >>> Matmul()(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
    array([21., 43.])
    """

    name: ClassVar = "matmul"
    slots: ClassVar = PAIR

    def output_shape(self, *shapes: Shape) -> Shape:
        x, y = checked_shapes(self, shapes)
        for slot, shape in zip(self.slots, (x, y), strict=True):
            if not shape:
                rule, remedy = "has no axis to sum over", "multiply by a number with *"
                raise refusal(ShapeError, self.name, slot.name, shape_words(shape), rule, remedy)
        left, right = _matrices(x, y)
        if left[-1] != right[-2]:
            rule = f"has {right[-2]} rows, but x of shape {x} has {left[-1]} columns"
            raise refusal(ShapeError, self.name, "y", shape_words(y), rule, "transpose one of them")
        try:
            batch = np.broadcast_shapes(left[:-2], right[:-2])
        except ValueError:
            rule = f"its leading axes do not broadcast with x of shape {x}"
            remedy = "make each pair of lengths, counted from the last axis, equal or 1"
            raise refusal(ShapeError, self.name, "y", shape_words(y), rule, remedy) from None
        return (*batch, *left[-2:-1][: len(x) - 1], *right[-1:][: len(y) - 1])

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        self.output_shape(*shapes)
        left, right = _matrices(*shapes)
        (rows, inner), columns = left[-2:], right[-1]
        axes = []
        for p, length in enumerate(np.broadcast_shapes(left[:-2], right[:-2])[::-1], 3):  # counted from the last axis
            moves = (strides(s)[-p] if p <= len(s) and s[-p] > 1 else 0 for s in (left, right))
            axes.append(each(length, *moves))
        column, k = np.arange(columns)[:, None], np.arange(inner)
        every = np.ones((columns, inner), np.bool_)
        last = AxisReads((k + 0 * column, k * columns + column), every, every)
        axes = [*axes[::-1], each(rows, inner, 0), last]
        return Geometry(tuple(axes), tuple(range(len(axes))))


def _matrices(x: Shape, y: Shape) -> tuple[Shape, Shape]:
    """A vector on the left as a row, one on the right as a column."""
    return (1, *x) if len(x) == 1 else x, (*y, 1) if len(y) == 1 else y
