"""Operators that read one cell of each operand per output cell: arithmetic, relu, and changes of shape.

Operands broadcast as NumPy's do, and cotangents are summed back because the row names the operand's own cell: nothing here, nor in
any layer above, sums over a broadcast axis by a rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from .. import arguments
from ..arithmetic import SYMBOLS
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import Geometry, Shape, broadcast_geometry
from ..operator import Entry, Operator, Slot, Window, checked_shapes
from ..remembering import remembered
from ..scalars.base import Cells, Family


@dataclass(frozen=True, eq=False, repr=False)
class Pointwise(Operator):
    """One output cell per cell of the operands, broadcast together."""

    slots: ClassVar[tuple[Slot, ...]] = (Slot("x"),)
    keeps: ClassVar = False
    pointwise: ClassVar = True

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            rule = f"does not broadcast with {self.slots[0].name} of shape {shapes[0]}"
            remedy = "make each pair of lengths, counted from the last axis, equal or 1"
            raise refusal(ShapeError, self.name, self.slots[1].name, shape_words(shapes[1]), rule, remedy) from None

    @remembered(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        return broadcast_geometry(self.output_shape(*shapes), shapes)


@dataclass(frozen=True, eq=False, repr=False)
class Relu(Pointwise):
    """max(x, 0), with slope 1 where x > 0 and 0 elsewhere, at 0 too.

    Domain: ordered scalars. NaN passes, with slope 1 as in PyTorch; -0.0 gives 0.

    >>> import numpy as np
    >>> Relu()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    name: ClassVar = "relu"
    needs: ClassVar = ("real",)
    curvature: ClassVar = "steps"

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return S.where(self._passes(S, tap.cells(0)), tap.cells(0), S.constant(0)), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, self._passes(S, tap.cells(0)))

    @staticmethod
    def _passes(S: Family, cells: Cells) -> Any:
        return S.either(S.gt(cells, S.constant(0)), S.is_nan(cells))


@dataclass(frozen=True, eq=False, repr=False)
class Add(Pointwise):
    """x + y, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Add()(np.array([1.0, 2.0]), np.array(10.0))
    array([11., 12.])
    """

    name: ClassVar = "add"
    slots: ClassVar = (Slot("x"), Slot("y"))
    curvature: ClassVar = "none"

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return tap.cells(0) + tap.cells(1), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, window.everywhere)
        yield tap.entry(1, window.everywhere)

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return cotangent if shapes[slot] == cotangent.shape else NotImplemented


@dataclass(frozen=True, eq=False, repr=False)
class Sub(Pointwise):
    """x - y, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Sub().vjp((np.array([1.0, 2.0]), np.array(10.0)), np.array([1.0, 1.0]))
    (array([1., 1.]), array(-2.))
    """

    name: ClassVar = "sub"
    slots: ClassVar = (Slot("x"), Slot("y"))
    curvature: ClassVar = "none"

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return tap.cells(0) - tap.cells(1), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, window.everywhere)
        yield tap.entry(1, window.everywhere, times=S.constant(-1))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        if shapes[slot] != cotangent.shape:
            return NotImplemented
        return Scale(-1)(cotangent) if slot else cotangent


@dataclass(frozen=True, eq=False, repr=False)
class Mul(Pointwise):
    """x * y cell by cell, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Mul().vjp((np.array([1.0, 2.0]), np.array(10.0)), np.array([1.0, 1.0]))
    (array([10., 10.]), array(3.))
    """

    name: ClassVar = "mul"
    slots: ClassVar = (Slot("x"), Slot("y"))
    curvature: ClassVar = "products"
    factors: ClassVar = (0, 1)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return tap.cells(0) * tap.cells(1), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, window.everywhere, times=tap.cells(1))
        yield tap.entry(1, window.everywhere, times=tap.cells(0))


@dataclass(frozen=True, eq=False, repr=False)
class Scale(Pointwise):
    """factor * x, for a finite real factor that is part of the operator.

    Domain: any ring; a factor that is not a whole number needs scalars that divide.

    >>> import numpy as np
    >>> Scale(3)(np.array([1.0, 2.0]))
    array([3., 6.])
    """

    name: ClassVar = "scale"
    curvature: ClassVar = "none"

    factor: int | float | Fraction

    def __post_init__(self) -> None:
        self._set(factor=arguments.factor(self.name, self.factor))
        if self.factor != int(self.factor):
            self._set(needs=("division",))

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return tap.cells(0) * S.number(self.name, "factor", self.factor), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, window.everywhere, times=S.number(self.name, "factor", self.factor))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return self(cotangent)


@dataclass(frozen=True, eq=False, repr=False)
class Same(Pointwise):
    """The operand's cells as they are."""

    alias: ClassVar = True

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return tap.cells(0), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        yield tap.entry(0, window.everywhere)


@dataclass(frozen=True, eq=False, repr=False)
class Reshape(Same):
    """The same cells in the same row-major order under another shape; one length may be -1.

    Domain: anything.

    >>> import numpy as np
    >>> Reshape((2, -1))(np.arange(4.0))
    array([[0., 1.],
           [2., 3.]])
    """

    name: ClassVar = "reshape"
    curvature: ClassVar = "none"
    keeps: ClassVar = False
    pointwise: ClassVar = True
    alias: ClassVar = True

    shape: Sequence[int]

    def __post_init__(self) -> None:
        self._set(shape=arguments.shape(self.name, self.shape))

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        cells, known = math.prod(shapes[0]), math.prod(n for n in self.shape if n != -1)
        open_axis = -1 in self.shape
        if (not open_axis and known != cells) or (open_axis and (known == 0 or cells % known)):
            rule, remedy = f"has not the {cells} cells of x of shape {shapes[0]}", "keep the number of cells"
            raise refusal(ArgumentError, self.name, "shape", self.shape, rule, remedy)
        return tuple(cells // known if n == -1 else n for n in self.shape)

    @remembered(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        self.output_shape(*shapes)
        flat = (math.prod(shapes[0]),)
        return broadcast_geometry(flat, (flat,))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return Reshape(shapes[0])(cotangent)


@dataclass(frozen=True, eq=False, repr=False)
class Detach(Same):
    """x, declared constant: its slot is not differentiable, so no derivative passes.

    Domain: anything.

    >>> import numpy as np
    >>> Detach().vjp((np.array([1.0, 2.0]),), np.array([1.0, 1.0]))
    (None,)
    """

    name: ClassVar = "detach"
    slots: ClassVar = (Slot("x", differentiable=False),)
    curvature: ClassVar = "none"
    alias: ClassVar = True

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return S.still(tap.cells(0)), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        return iter(())


SYMBOLS.update({"+": Add(), "-": Sub(), "*": Mul()})
