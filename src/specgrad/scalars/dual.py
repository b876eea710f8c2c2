"""Dual numbers p + t*eps with eps*eps = 0: a value pushed forward with its derivative, and no rule
of ours consulted.

A Dual is a pair of arrays (or numbers) of any family, Duals included: nesting gives higher
derivatives. It is the independent witness of every operator's row. Comparisons look at the primal
alone, so at a tie it follows the selected branch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array_methods import ArrayMethods
from ..errors import ShapeError, refusal
from .base import Cells, Family, Mask, Number


class Dual(ArrayMethods):
    """primal + tangent*eps. Arithmetic with anything that is not a Dual treats it as a constant.

    A Dual of arrays has the methods of arrays: ``z[0]``, ``z.sum()``, ``z @ w``.

    >>> z = Dual(3.0, 1.0)
    >>> z * z + 1
    Dual(10.0, 6.0)
    """

    __slots__ = ("primal", "tangent")
    called = "Dual"

    def __init__(self, primal: Any, tangent: Any) -> None:
        primal, tangent = _listed("primal", primal), _listed("tangent", tangent)
        expected, given = getattr(primal, "shape", ()), getattr(tangent, "shape", ())
        if expected != given:
            rule = f"must have the primal's shape {expected}"
            raise refusal(ShapeError, "Dual", "tangent", tangent, rule, "give one tangent per element")
        self.primal = primal
        self.tangent = tangent

    @property
    def shape(self) -> tuple[int, ...]:
        return getattr(self.primal, "shape", ())

    @property
    def dtype(self) -> Any:
        """The dtype of the primal."""
        return np.asarray(self.primal).dtype if np.isscalar(self.primal) else self.primal.dtype

    def __repr__(self) -> str:
        return f"Dual({self.primal!r}, {self.tangent!r})"

    def __neg__(self) -> Dual:
        return Dual(-self.primal, -self.tangent)

    def __add__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.primal + other.primal, self.tangent + other.tangent)
        total = self.primal + other
        return Dual(total, _spread(self.tangent, total))

    def __sub__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.primal - other.primal, self.tangent - other.tangent)
        rest = self.primal - other
        return Dual(rest, _spread(self.tangent, rest))

    def __rsub__(self, other: Any) -> Dual:
        rest = other - self.primal
        return Dual(rest, _spread(-self.tangent, rest))

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.primal * other.primal, self.tangent * other.primal + self.primal * other.tangent)
        return Dual(self.primal * other, self.tangent * other)

    def __truediv__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            quotient = self.primal / other.primal
            return Dual(quotient, (self.tangent - quotient * other.tangent) / other.primal)
        return Dual(self.primal / other, self.tangent / other)

    def __rtruediv__(self, other: Any) -> Dual:
        quotient = other / self.primal
        return Dual(quotient, -quotient * self.tangent / self.primal)

    __radd__ = __add__
    __rmul__ = __mul__


class ConstantDual(Dual):
    """A Dual that does not move: its tangent is a zero that was never made, and is never
    multiplied."""

    __slots__ = ()

    def __init__(self, primal: Any) -> None:
        self.primal = primal
        self.tangent = None


def _listed(argument: str, part: Any) -> Any:
    """Nested lists as an array; everything else as it is."""
    if not isinstance(part, list | tuple):
        return part
    try:
        return np.asarray(part)
    except ValueError:
        raise refusal(ShapeError, "Dual", argument, part, "is ragged", "give rows of equal length") from None


def _spread(tangent: Any, like: Any) -> Any:
    """A tangent broadcast to the shape that its primal took on."""
    wanted = getattr(like, "shape", ())
    if isinstance(tangent, Dual):
        return Dual(_spread(tangent.primal, like), _spread(tangent.tangent, like))
    return tangent if getattr(tangent, "shape", ()) == wanted else np.broadcast_to(tangent, wanted)


def gathered(array: Any) -> Any:
    """An object array that holds Duals, as the Dual of two arrays; any other array as it is."""
    if array.dtype != object or not any(isinstance(e, Dual) for e in array.flat):
        return array
    parts = np.empty(array.shape, object), np.empty(array.shape, object)
    for place, e in np.ndenumerate(array):
        parts[0][place], parts[1][place] = (e.primal, e.tangent) if isinstance(e, Dual) else (e, 0)
    return Dual(gathered(parts[0]), gathered(parts[1]))


def depth(array: Any) -> int:
    """How many levels of Dual an array carries."""
    return 1 + max(depth(array.primal), depth(array.tangent)) if isinstance(array, Dual) else 0


def deepened(scalars: Family, levels: int) -> Family:
    """A family that computes at least so many levels of Dual."""
    while (scalars.depth if isinstance(scalars, DualFamily) else 0) < levels:
        scalars = DualFamily(scalars)
    return scalars


class DualFamily(Family):
    """Duals over another family. Cells that are not Duals are constants, so that no zero tangent is
    ever multiplied."""

    def __init__(self, inner: Family) -> None:
        self.inner = inner
        self.lacks = inner.lacks
        self.decides = inner.decides

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        if not isinstance(array, Dual):
            return self.inner.enter(name, argument, array)
        if isinstance(array, ConstantDual):
            cells = self.inner.enter(name, argument, array.primal)
            # a Dual without a tangent here would pass for one of this level
            return Dual(cells, self.inner.zeros(math.prod(array.shape))) if isinstance(cells, Dual) else cells
        return Dual(self.inner.enter(name, argument, array.primal), self.inner.enter(name, argument, array.tangent))

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Dual:
        primal, tangent = self._parts(cells)
        return Dual(self.inner.leave(primal, shape), self.inner.leave(tangent, shape))

    @property
    def depth(self) -> int:
        """How many levels of Dual this family computes."""
        return 1 + (self.inner.depth if isinstance(self.inner, DualFamily) else 0)

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        return self.inner.computing()

    def holds(self, number: Number) -> bool:
        return self.inner.holds(number)

    def constant(self, number: Any) -> Cells:
        return self.inner.constant(number)

    def number(self, name: str, argument: str, number: Number) -> Cells:
        return self.inner.number(name, argument, number)

    def zeros(self, size: int) -> Cells:
        return self.inner.zeros(size)

    def _parts(self, cells: Cells) -> tuple[Cells, Cells]:
        if isinstance(cells, Dual):
            return cells.primal, cells.tangent
        return cells, self.inner.zeros(cells.shape[0]) if cells.shape else self.inner.constant(0)

    def _each(self, function: Any, *cells: Cells) -> Dual:
        """A linear function of cells, applied to the primals and to the tangents."""
        primals, tangents = zip(*map(self._parts, cells), strict=True)
        return Dual(function(primals), function(tangents))

    def take(self, cells: Cells, index: Any) -> Cells:
        if not isinstance(cells, Dual):
            return self.inner.take(cells, index)
        return self._each(lambda parts: self.inner.take(parts[0], index), cells)

    def join(self, blocks: Sequence[Cells]) -> Cells:
        return self._each(self.inner.join, *blocks) if blocks else self.inner.join(blocks)

    def interleave(self, columns: Sequence[Cells]) -> Cells:
        return self._each(self.inner.interleave, *columns)

    def add_at(self, target: Cells, index: Any, values: Cells) -> Cells:
        return self._each(lambda parts: self.inner.add_at(parts[0], index, parts[1]), target, values)

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        if not isinstance(a, Dual) and not isinstance(b, Dual):
            return self.inner.where(mask, a, b)
        return self._each(lambda parts: self.inner.where(mask, *parts), a, b)

    def extreme(self, chosen: Mask, a: Cells, b: Cells, lowest: bool = False) -> Cells:
        primal = self.inner.extreme(chosen, _primal(a), _primal(b), lowest)
        both = self.where(chosen, a, b)
        return Dual(primal, both.tangent) if isinstance(both, Dual) else primal

    def divide(self, a: Cells, b: Cells) -> Cells:
        if not isinstance(b, Dual):
            if not isinstance(a, Dual):
                return self.inner.divide(a, b)
            return Dual(self.inner.divide(a.primal, b), self.inner.divide(a.tangent, b))
        primal = _primal(a)
        quotient = self.inner.divide(primal, b.primal)
        moved = -(quotient * b.tangent)
        return Dual(quotient, self.inner.divide(a.tangent + moved if isinstance(a, Dual) else moved, b.primal))

    def gt(self, a: Cells, b: Cells) -> Mask:
        return self.inner.gt(_primal(a), _primal(b))

    def eq(self, a: Cells, b: Cells) -> Mask:
        return self.inner.eq(_primal(a), _primal(b))

    def is_nan(self, a: Cells) -> Mask:
        return self.inner.is_nan(_primal(a))

    def both(self, a: Mask, b: Mask) -> Mask:
        return self.inner.both(a, b)

    def either(self, a: Mask, b: Mask) -> Mask:
        return self.inner.either(a, b)

    def negate(self, a: Mask) -> Mask:
        return self.inner.negate(a)

    def exp(self, a: Cells) -> Cells:
        value = self.inner.exp(_primal(a))
        return Dual(value, value * a.tangent) if isinstance(a, Dual) else value

    def log(self, a: Cells) -> Cells:
        value = self.inner.log(_primal(a))
        return Dual(value, self.inner.divide(a.tangent, a.primal)) if isinstance(a, Dual) else value

    def sqrt(self, a: Cells) -> Cells:
        value = self.inner.sqrt(_primal(a))
        return Dual(value, self.inner.divide(a.tangent, 2 * value)) if isinstance(a, Dual) else value

    def tanh(self, a: Cells) -> Cells:
        value = self.inner.tanh(_primal(a))
        return Dual(value, (1 - value * value) * a.tangent) if isinstance(a, Dual) else value

    def erf(self, a: Cells) -> Cells:
        value = self.inner.erf(_primal(a))
        if not isinstance(a, Dual):
            return value
        slope = self.inner.divide(2 * self.inner.exp(-(a.primal * a.primal)), self.inner.sqrt(self.inner.pi()))
        return Dual(value, slope * a.tangent)

    def pi(self) -> Cells:
        return self.inner.pi()

    def logistic(self, a: Cells) -> Cells:
        value = self.inner.logistic(_primal(a))
        return Dual(value, value * self.inner.logistic(-a.primal) * a.tangent) if isinstance(a, Dual) else value

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        value = self.inner.logaddexp(_primal(a), _primal(b))
        moved = [self.inner.exp(x.primal - value) * x.tangent for x in (a, b) if isinstance(x, Dual)]
        return Dual(value, sum(moved[1:], moved[0])) if moved else value

    def power(self, a: Cells, exponent: Number) -> Cells:
        value = self.inner.power(_primal(a), exponent)
        if not isinstance(a, Dual):
            return value
        slope = self.inner.constant(exponent) * self.inner.power(a.primal, exponent - 1) if exponent else 0 * value
        return Dual(value, slope * a.tangent)

    def still(self, a: Cells) -> Cells:
        return self.inner.still(_primal(a))

    def pivot(self, a: Cells) -> Cells:
        return self.inner.pivot(_primal(a))


def _primal(cells: Cells) -> Cells:
    return cells.primal if isinstance(cells, Dual) else cells
