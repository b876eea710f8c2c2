"""Operators of one cell of each operand per output cell: what they have in common, arithmetic, and
functions of your own.

Each is a function of cells and its slopes, written once over any scalar. Operands broadcast as
NumPy's do, and cotangents are summed back because the row names the operand's own cell: nothing
here, nor in any layer above, sums over a broadcast axis by a rule of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import arguments
from ..arithmetic import SYMBOLS
from ..caches import cached
from ..errors import ArgumentError, ShapeError, refusal, shape_words
from ..geometry import Geometry, Shape, broadcast_geometry
from ..operator import Entry, Operator, Slot, Window, checked_shapes, operator, parameter
from ..scalars.base import Cells, Family, Mask

PAIR = (Slot("x"), Slot("y"))


class Slope(NamedTuple):
    """The slope in an operand: times/over (1 where they are None) where `present` (None:
    everywhere), and absent elsewhere."""

    times: Cells | None = None
    over: Cells | None = None
    present: Mask | None = None

    def apply(self, S: Family, cells: Cells) -> Cells:
        """slope * cells."""
        return Entry(0, None, self.present, self.times, self.over).apply(S, cells)


@operator
class Pointwise(Operator):
    """One output cell per cell of the operands, broadcast together."""

    slots: ClassVar[tuple[Slot, ...]] = (Slot("x"),)
    keeps: ClassVar = False
    pointwise: ClassVar = True

    function: ClassVar[Callable[..., Cells]]
    """(S, *cells) -> the output cells, in array functions of the family S."""
    slopes: ClassVar[Callable[..., tuple[Slope | Cells | None, ...]]]
    """(S, *cells) -> one slope per operand: a :class:`Slope`, the cells to multiply by, or None
    where there is none."""

    def output_shape(self, *shapes: Shape) -> Shape:
        shapes = checked_shapes(self, shapes)
        for place in range(1, len(shapes)):
            try:
                np.broadcast_shapes(*shapes[: place + 1])
            except ValueError:
                before = " and ".join(
                    f"{s.name} of shape {n}" for s, n in zip(self.slots[:place], shapes, strict=False)
                )
                remedy = "make each pair of lengths, counted from the last axis, equal or 1"
                raise refusal(
                    ShapeError,
                    self.name,
                    self.slots[place].name,
                    shape_words(shapes[place]),
                    f"does not broadcast with {before}",
                    remedy,
                ) from None
        return np.broadcast_shapes(*shapes)

    @cached(64, Geometry.cells)  # equal operators share their geometry
    def geometry(self, *shapes: Shape) -> Geometry:
        return broadcast_geometry(self.output_shape(*shapes), shapes)

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        (tap,) = window
        return self.function(S, *map(tap.cells, range(len(window.operands)))), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        (tap,) = window
        for slot, slope in enumerate(self.slopes_of(S, *map(tap.cells, range(len(window.operands))))):
            if slope is not None:
                yield tap.entry(slot, slope.present, slope.times, slope.over)

    def slopes_of(self, S: Family, *cells: Cells) -> tuple[Slope | None, ...]:
        """`slopes` in its one normal form."""
        return tuple(s if s is None or isinstance(s, Slope) else Slope(s) for s in self.slopes(S, *cells))


@operator
class Add(Pointwise):
    """x + y, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Add()(np.array([1.0, 2.0]), np.array(10.0))
    array([11., 12.])
    """

    name: ClassVar = "add"
    slots: ClassVar = PAIR
    curvature: ClassVar = "none"

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        return x + y

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        return Slope(), Slope()

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return cotangent if shapes[slot] == cotangent.shape else NotImplemented


@operator
class Sub(Pointwise):
    """x - y, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Sub().vjp((np.array([1.0, 2.0]), np.array(10.0)), np.array([1.0, 1.0]))
    (array([1., 1.]), array(-2.))
    """

    name: ClassVar = "sub"
    slots: ClassVar = PAIR
    curvature: ClassVar = "none"

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        return x - y

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        return Slope(), -S.constant(1)  # which unsigned integers have too

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        if shapes[slot] != cotangent.shape:
            return NotImplemented
        return Scale(-1)(cotangent) if slot else cotangent


@operator
class Mul(Pointwise):
    """x * y cell by cell, broadcast as NumPy does.

    Domain: any ring.

    >>> import numpy as np
    >>> Mul().vjp((np.array([1.0, 2.0]), np.array(10.0)), np.array([1.0, 1.0]))
    (array([10., 10.]), array(3.))
    """

    name: ClassVar = "mul"
    slots: ClassVar = PAIR
    curvature: ClassVar = "multilinear"
    factors: ClassVar = (0, 1)

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        return x * y

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        return y, x


@operator
class Div(Pointwise):
    """x / y cell by cell, broadcast as NumPy does; slopes 1/y and -(x/y)/y.

    Domain: scalars that divide. Floats divided by 0 give an infinity or NaN; for exact scalars a
    division by 0 is an error.

    >>> import numpy as np
    >>> Div().vjp((np.array([1.0, 2.0]), np.array(4.0)), np.array([16.0, 16.0]))
    (array([4., 4.]), array(-3.))
    """

    name: ClassVar = "div"
    slots: ClassVar = PAIR
    needs: ClassVar = ("division",)

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        return S.divide(x, y)

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        return Slope(over=y), Slope(-S.divide(x, y), over=y)


@operator
class Scale(Pointwise):
    """factor * x, for a constant finite real factor.

    Domain: any ring; a factor that is not an integer needs scalars that divide.

    >>> import numpy as np
    >>> Scale(3)(np.array([1.0, 2.0]))
    array([3., 6.])
    """

    name: ClassVar = "scale"
    curvature: ClassVar = "none"

    factor: int | float | Fraction = parameter(arguments.factor, "write a number, or multiply by an array with mul")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factor != int(self.factor):
            self._set(needs=("division",))

    def function(self, S: Family, x: Cells) -> Cells:
        return x * S.number(self.name, "factor", self.factor)

    def slopes(self, S: Family, x: Cells) -> Any:
        return (S.number(self.name, "factor", self.factor),)

    def adjoint(self, slot: int, shapes: Sequence[Shape], cotangent: Any) -> Any:
        return self(cotangent)


def _exponent(name: str, argument: str, value: Any) -> int | float | Fraction:
    exact = arguments.factor(name, argument, value, "write a number; of arrays, exp(y * log(x))")
    exact = arguments.exponent(name, argument, value, exact)
    return int(exact) if exact == int(exact) else exact


@operator
class Power(Pointwise):
    """x to the power of a constant finite real exponent; the slope is exponent * x^(exponent - 1).

    Domain: any ring for integer exponents from 0 up (0^0 is 1), scalars that divide for negative
    integers, scalars with exp for other exponents. Floats give NaN where the power of a negative
    number is not real.

    >>> import numpy as np
    >>> Power(3).vjp((np.array([1.0, 2.0]),), np.array([1.0, 1.0]))
    (array([ 3., 12.]),)
    """

    name: ClassVar = "power"

    exponent: int | float | Fraction = parameter(_exponent)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = ("division",) if self.exponent < 0 else ()
        self._set(needs=whole if isinstance(self.exponent, int) else ("real", "division", "exp", "root"))

    def function(self, S: Family, x: Cells) -> Cells:
        return S.power(x, self.exponent)

    def slopes(self, S: Family, x: Cells) -> Any:
        if self.exponent in (0, 1):
            return (Slope() if self.exponent else None,)
        return (S.number(self.name, "exponent", self.exponent) * S.power(x, self.exponent - 1),)


@operator
class Own(Pointwise):
    """A pointwise operator that `pointwise` made."""

    called: str
    formula: Callable[..., Cells]
    slope: Callable[..., Any]
    required: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        words = list(inspect.signature(self.formula).parameters)[1:]
        self._set(name=self.called, needs=tuple(self.required), slots=tuple(map(Slot, words)))

    def function(self, S: Family, *cells: Cells) -> Cells:
        found = self.formula(S, *cells)
        if found is None:
            raise refusal(ArgumentError, self.name, "value", self.formula, "gives nothing", "return the cells")
        return found

    def slopes(self, S: Family, *cells: Cells) -> Any:
        found = self.slope(S, *cells)
        slopes = found if isinstance(found, tuple) and not isinstance(found, Slope) else (found,)
        if len(slopes) != len(self.slots) or found is None:
            rule, remedy = (
                f"gives {len(slopes)} slopes for {len(self.slots)} operands",
                "return one for each, as a tuple",
            )
            raise refusal(ArgumentError, self.name, "slope", self.slope, rule, remedy)
        return slopes

    def __repr__(self) -> str:
        return f"pointwise({self.called!r}, …)"


def pointwise(name: str, value: Callable[..., Any], slope: Callable[..., Any], needs: Sequence[str] = ()) -> Own:
    """Make a pointwise operator from two functions of cells: value(S, x, …) and slope(S, x, …).
    With several operands, slope returns one slope for each.

    Both functions use + - * of the cells, integers, and the functions of S (`constant` for other
    numbers, `divide`, `gt`, `where`, `exp`, `log`, `sqrt`, `tanh`, …), so they run over every
    scalar type. `needs` names the operations needed beyond + - *: "real" (an order), "division",
    "exp". Derivatives use the slope as it is; it is not derived from the value.

    >>> import numpy as np
    >>> cube = pointwise("cube", lambda S, x: x * x * x, lambda S, x: 3 * x * x)
    >>> cube.jvp((np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (array([1., 8.]), array([ 3., 12.]))
    """
    if not isinstance(name, str) or not name or len(name) > 100:
        remedy = "write a string" + " of at most 100 characters" * isinstance(name, str)
        raise refusal(ArgumentError, "pointwise", "name", name, "is not a word", remedy)
    for argument, given in (("value", value), ("slope", slope)):
        arguments.function("pointwise", given, argument)
    known = ("real", "division", "exp", "root", "erf")
    wanted = (needs,) if isinstance(needs, str) else needs
    if not isinstance(wanted, list | tuple):
        raise refusal(ArgumentError, "pointwise", "needs", needs, "is not a tuple of words", f"write some of {known}")
    for need in wanted:
        arguments.choice("pointwise", "needs", need, known)
    if isinstance(value, type) or len(inspect.signature(value).parameters) < 2:
        rule, remedy = "must take the family of scalars and an operand at least", "write lambda S, x: …"
        raise refusal(ArgumentError, "pointwise", "value", value, rule, remedy)
    return Own(name, value, slope, tuple(wanted))


SYMBOLS.update({"+": Add(), "-": Sub(), "*": Mul(), "/": Div()})
