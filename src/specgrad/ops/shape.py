"""Operators that move cells and compute nothing: each output cell is a cell of an operand, or padding.

An operator says once how an array is moved, in NumPy's own words. Moving the numbers of the cells gives its geometry, over any scalar;
moving the cells themselves is what an engine does with an array of floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arguments
from ..errors import ArgumentError, refusal
from ..geometry import Geometry, Shape, broadcast_geometry
from ..operator import Slot, checked_shapes
from ..remembering import remembered
from ..scalars.base import Cells, Family
from .pointwise import Pointwise, Slope


@dataclass(frozen=True, eq=False, repr=False)
class Same(Pointwise):
    """The operand's cells as they are."""

    alias: ClassVar = True

    def function(self, S: Family, x: Cells) -> Cells:
        return x

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(),)


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

    def function(self, S: Family, x: Cells) -> Cells:
        return S.still(x)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (None,)
