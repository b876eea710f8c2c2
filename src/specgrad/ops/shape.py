"""Operators that move cells and compute nothing: each output cell is a cell of an operand, or
padding.

An operator says once, in NumPy's words, how arrays are moved. Moving the numbers of the cells gives
its geometry over any scalar; moving the cells themselves is what an engine does with an array of
floats. The transpose of such an operator sums the cells back.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, ClassVar, cast

import numpy as np

from .. import arguments
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import AxisReads, Geometry, Shape, broadcast_geometry
from ..operator import Entry, Operator, Slot, Window, checked_shapes, operator, parameter
from ..scalars.base import Cells, Family
from ..sizes import refuse_result, refuse_table
from .pointwise import Pointwise, Slope
from .reduce import Sum


@operator
class Same(Pointwise):
    """The operand's cells as they are."""

    alias: ClassVar = True

    def function(self, S: Family, x: Cells) -> Cells:
        return x

    def slopes(self, S: Family, x: Cells) -> Any:
        return (Slope(),)


@operator
class Reshape(Same):
    """The same cells in the same row-major order with another shape; one length may be -1.

    Domain: any scalars.

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

    shape: Sequence[int] = parameter(arguments.shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        cells, known = math.prod(shapes[0]), math.prod(n for n in self.shape if n != -1)
        open_axis = -1 in self.shape
        if (not open_axis and known != cells) or (open_axis and (known == 0 or cells % known)):
            rule, remedy = f"has not the {cells} cells of x of shape {shapes[0]}", "keep the number of cells"
            raise refusal(ArgumentError, self.name, "shape", self.shape, rule, remedy)
        return tuple(cells // known if n == -1 else n for n in self.shape)

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        self.output_shape(*shapes)
        flat = (math.prod(shapes[0]),)
        return broadcast_geometry(flat, (flat,))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return Reshape(shapes[0])(cotangent)


@operator
class Detach(Same):
    """x as a constant: the operand is not differentiable, so its derivative is 0.

    Domain: any scalars.

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


@operator
class Move(Operator):
    """Each output cell is one cell of one operand, with slope 1, or padding."""

    slots: ClassVar[tuple[Slot, ...]] = (Slot("x"),)
    curvature: ClassVar = "none"
    keeps: ClassVar = False

    @abstractmethod
    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        """The output as NumPy moves arrays, and `fill` where it is padding."""

    def padding_value(self) -> Any:
        """What padding is."""
        return 0

    def reads(self, slot: int) -> frozenset[int]:
        return frozenset()

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        refuse_table(self.name, math.prod(self.output_shape(*shapes)), len(shapes))
        refuse_table(self.name, sum(map(math.prod, shapes)), 1, 8)
        ends = np.cumsum([0, *map(math.prod, shapes)])
        numbers = (np.arange(a, b).reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False))
        cell = np.asarray(self.move(*numbers, fill=-1)).reshape(-1, 1)
        real = (cell >= ends[:-1]) & (cell < ends[1:])  # a tap for each operand
        places = (np.where(real[:, [s]], cell - ends[s], 0) for s in range(len(shapes)))
        return Geometry((AxisReads(tuple(np.broadcast_to(p, real.shape) for p in places), real, real),), (0,))

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        cells = S.repeated(S.number(self.name, "value", self.padding_value()), window.size)
        for slot, tap in self._taps(window):
            cells = S.where(tap.real, tap.cells(slot), cells)
        return cells, None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        for slot, tap in self._taps(window):
            yield tap.entry(slot, tap.real)

    @staticmethod
    def _taps(window: Window) -> Iterator[tuple[int, Any]]:
        """The taps that read a cell somewhere: an empty operand has none to take."""
        return ((slot, tap) for slot, tap in enumerate(window) if tap.real.any())


def axis_in(name: str, argument: str, value: Any, axis: int, rank: int) -> int:
    """An axis of an array with `rank` axes, counted from 0."""
    if not -rank <= axis < rank:
        remedy = f"write an integer from {-rank} to {rank - 1}" if rank else "give an array with axes"
        rule = f"{axis} is not an axis of an array with {rank} axes"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)
    return axis % rank


@operator
class Transpose(Move):
    """The axes in another order: reversed, or as `axes` lists them.

    Domain: any scalars.

    >>> import numpy as np
    >>> Transpose()(np.array([[1.0, 2.0, 3.0]]))
    array([[1.],
           [2.],
           [3.]])
    """

    name: ClassVar = "transpose"

    axes: Sequence[int] | None = parameter(arguments.several, default=None)

    def order(self, rank: int) -> tuple[int, ...]:
        """The operand's axes in the order of the output's."""
        if self.axes is None:
            return tuple(range(rank))[::-1]
        order = tuple(axis_in(self.name, "axes", self.axes, axis, rank) for axis in self.axes)
        if sorted(order) != list(range(rank)):
            rule = f"does not name each of {rank} axes once"
            raise refusal(ArgumentError, self.name, "axes", self.axes, rule, "list every axis of x")
        return order

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        return tuple(shape[p] for p in self.order(len(shape)))

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        return arrays[0].transpose(self.order(arrays[0].ndim))

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        order = self.order(len(shapes[0]))
        return Transpose(tuple(order.index(p) for p in range(len(order))))(cotangent)


Part = int | tuple[int | None, int | None, int | None] | EllipsisType | None


def _index(name: str, argument: str, value: Any) -> tuple[Part, ...]:
    """Whole numbers, slices as (start, stop, step), None and an ellipsis."""

    def whole(n: Any) -> int:
        return arguments.integer(name, argument, n, None, whole=value, most=2**62)

    def stored(part: Any) -> Part:
        if part is None or part is Ellipsis:
            return cast(Part, part)
        if isinstance(part, slice):
            part = (part.start, part.stop, part.step)
        if isinstance(part, tuple) and len(part) == 3:
            start, stop, step = (None if n is None else whole(n) for n in part)
            if step == 0:
                raise refusal(ArgumentError, name, argument, value, "has a step of 0", "write another step")
            return start, stop, step
        if isinstance(part, bool | np.bool_ | list | tuple) or (isinstance(part, np.ndarray) and part.ndim > 0):
            rule, remedy = "holds more than integers, slices, None and ...", "use take for integers, where for booleans"
            raise refusal(ArgumentError, name, argument, value, rule, remedy)
        return whole(part)

    parts = tuple(value) if isinstance(value, list | tuple) else (value,)
    return tuple(map(stored, arguments.bounded(name, argument, parts)))


@operator
class Slice(Move):
    """x[index], for an index of integers, slices, None and one ellipsis, as in NumPy; a slice is
    stored as (start, stop, step).

    Domain: any scalars.

    >>> import numpy as np
    >>> Slice((0, slice(None, None, 2)))(np.arange(6.0).reshape(2, 3))
    array([0., 2.])
    >>> Slice((0, (None, None, 2))).vjp((np.zeros((2, 3)),), np.array([5.0, 7.0]))
    (array([[5., 0., 7.],
           [0., 0., 0.]]),)
    """

    name: ClassVar = "slice"

    index: Any = parameter(_index)

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        try:
            return tuple(self.move(np.broadcast_to(np.int8(0), shape)).shape)
        except IndexError as error:
            rule, remedy = f"of x of shape {shape}, {str(error).split(' for axis')[0]}", "write an index that x has"
            raise refusal(ArgumentError, self.name, "index", self.index, rule, remedy) from None

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        return arrays[0][tuple(slice(*part) if isinstance(part, tuple) else part for part in self.index)]


def _indices(name: str, argument: str, value: Any) -> Any:
    """Whole numbers in nested tuples."""
    if isinstance(value, range):
        refuse_result(name, (len(value),), 8)
    array = np.asarray(value)
    if array.size == 0:
        array = array.astype(np.intp)
    if array.dtype.kind not in "iu":
        raise refusal(ArgumentError, name, argument, value, "must be integers", "write whole numbers")
    if array.size and int(array.max()) > arguments.LONGEST:
        rule, remedy = "holds an integer of more than 63 bits", "write indices that the axis has"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)
    return nested(array.tolist())


@operator
class Take(Move):
    """The cells of x at these indices along an axis, which is replaced by the axes of the indices;
    an index may repeat.

    Domain: any scalars.

    >>> import numpy as np
    >>> Take((2, 0, 2)).vjp((np.zeros(3),), np.array([1.0, 10.0, 100.0]))
    (array([ 10.,   0., 101.]),)
    """

    name: ClassVar = "take"

    indices: Any = parameter(_indices)
    axis: int = parameter(arguments.integer, None, default=0)

    def output_shape(self, *shapes: Shape) -> Shape:
        (shape,) = checked_shapes(self, shapes)
        axis = axis_in(self.name, "axis", self.axis, self.axis, len(shape))
        array = np.asarray(self.indices, np.intp)
        wrong = array[(array < -shape[axis]) | (array >= shape[axis])]
        if wrong.size:
            rule = f"{wrong.flat[0]} is not the index of one of {shape[axis]} cells"
            remedy = "write indices that the axis has"
            raise refusal(ArgumentError, self.name, "indices", self.indices, rule, remedy, axis)
        return (*shape[:axis], *array.shape, *shape[axis + 1 :])

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        return np.take(arrays[0], np.asarray(self.indices, np.intp), self.axis)


def nested(value: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple(map(nested, value)) if isinstance(value, list) else value


@operator
class Concatenate(Move):
    """`count` arrays joined along an axis; all other lengths must be equal.

    Domain: any scalars.

    >>> import numpy as np
    >>> Concatenate(2)(np.array([1.0, 2.0]), np.array([3.0]))
    array([1., 2., 3.])
    """

    name: ClassVar = "concatenate"

    count: int = parameter(arguments.integer, 1, None, None, arguments.MANY)
    axis: int = parameter(arguments.integer, None, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(slots=tuple(Slot(f"arrays[{place}]") for place in range(self.count)))

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        first = shapes[0]
        axis = axis_in(self.name, "axis", self.axis, self.axis, len(first))
        for slot, shape in zip(self.slots, shapes, strict=True):
            if len(shape) != len(first) or any(
                m != n for p, (m, n) in enumerate(zip(shape, first, strict=True)) if p != axis
            ):
                rule = f"does not fit behind an array of shape {first} along axis {axis}"
                remedy = "make all other lengths equal"
                raise refusal(ShapeError, self.name, slot.name, shape_words(shape), rule, remedy)
        return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        return np.concatenate(arrays, self.axis)

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        axis = self.axis % len(shapes[0])
        start = sum(shape[axis] for shape in shapes[:slot])
        return Slice((*[slice(None)] * axis, slice(start, start + shapes[slot][axis])))(cotangent)


def _closed_shape(name: str, argument: str, value: Any) -> Shape:
    shape = arguments.shape(name, argument, value)
    if -1 in shape:
        raise refusal(ArgumentError, name, argument, shape, "has an open length", "write every length")
    return shape


@operator
class BroadcastTo(Move):
    """x repeated to a shape, as NumPy broadcasts; the cotangents of repeated cells are summed.

    Domain: any scalars.

    >>> import numpy as np
    >>> BroadcastTo((2, 3)).vjp((np.zeros(3),), np.ones((2, 3)))
    (array([2., 2., 2.]),)
    """

    name: ClassVar = "broadcast_to"

    shape: Sequence[int] = parameter(_closed_shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        (given,) = checked_shapes(self, shapes)
        wanted = tuple(self.shape)
        fits = len(given) <= len(wanted) and all(n in (1, m) for n, m in zip(given[::-1], wanted[::-1], strict=False))
        if not fits:
            rule = f"does not broadcast to {wanted}"
            remedy = "make each length, counted from the last axis, equal to the shape's or 1"
            raise refusal(ShapeError, self.name, "x", shape_words(given), rule, remedy)
        return wanted

    def move(self, *arrays: Any, fill: Any = 0) -> Any:
        return np.broadcast_to(arrays[0], self.shape)

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        (shape,), fresh = shapes, len(self.shape) - len(shapes[0])
        repeated = [p for p, n in enumerate(self.shape) if p < fresh or n != shape[p - fresh]]
        return Reshape(shape)(Sum(repeated)(cotangent)) if repeated else cotangent
