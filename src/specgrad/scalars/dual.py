"""Dual numbers p + t*eps with eps*eps = 0: a value pushed forward with its derivative, and no rule
of ours consulted.

A Dual is a pair of arrays (or numbers) of any family, Duals included: nesting gives higher
derivatives. It is the independent witness of every operator's row. Comparisons look at the primal
alone, so at a tie it follows the selected branch.
"""

from __future__ import annotations

import contextlib
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

    def __neg__(self) -> Any:
        return joined(-self.primal, None if self.tangent is None else -self.tangent)

    def __add__(self, other: Any) -> Any:
        (p, t), (q, u) = parts(self), parts(other)
        return joined(p + q, _sum(t, u))

    def __sub__(self, other: Any) -> Any:
        (p, t), (q, u) = parts(self), parts(other)
        return joined(p - q, _difference(t, u))

    def __rsub__(self, other: Any) -> Any:
        return joined(other - self.primal, _difference(None, self.tangent))

    def __mul__(self, other: Any) -> Any:
        (p, t), (q, u) = parts(self), parts(other)
        return joined(p * q, _sum(None if t is None else t * q, None if u is None else p * u))

    def __truediv__(self, other: Any) -> Any:
        (p, t), (q, u) = parts(self), parts(other)
        quotient = p / q
        moved = _difference(t, None if u is None else quotient * u)
        return joined(quotient, None if moved is None else moved / q)

    def __rtruediv__(self, other: Any) -> Any:
        return ConstantDual(other) / self

    __radd__ = __add__
    __rmul__ = __mul__


class ConstantDual(Dual):
    """A Dual that does not move: its tangent is a zero that was never made, and is never
    multiplied."""

    __slots__ = ()

    def __init__(self, primal: Any) -> None:
        self.primal = primal
        self.tangent = None


def parts(cells: Any) -> tuple[Any, Any]:
    """The primal, and the tangent or None where nothing moves."""
    return (cells.primal, cells.tangent) if isinstance(cells, Dual) else (cells, None)


def joined(primal: Any, tangent: Any) -> Any:
    """What has these parts. A constant remains a Dual where its primal is one: without a tangent of
    its own it would pass for a Dual of this level."""
    if tangent is not None:
        return Dual(primal, _spread(tangent, primal))
    return ConstantDual(primal) if isinstance(primal, Dual) else primal


def _sum(t: Any, u: Any) -> Any:
    """t + u, where None is a zero that was never made."""
    if t is None or u is None:
        return u if t is None else t
    return t + u


def _difference(t: Any, u: Any) -> Any:
    return _sum(t, None if u is None else -u)


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
        primal, moved = parts(tangent)
        return joined(_spread(primal, like), None if moved is None else _spread(moved, like))
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
    """Duals over another family. Cells that are not Duals, and tangents of None, are constants, so
    that no zero is ever multiplied."""

    def __init__(self, inner: Family) -> None:
        self.inner = inner
        self.lacks = inner.lacks
        self.decides = inner.decides

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        primal, tangent = parts(array)
        moved = None if tangent is None else self.inner.enter(name, argument, tangent)
        return joined(self.inner.enter(name, argument, primal), moved)

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Dual:
        primal, tangent = parts(cells)
        tangent = self._zero(primal) if tangent is None else tangent
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

    def _zero(self, like: Cells) -> Cells:
        return self.inner.zeros(like.shape[0]) if like.shape else self.inner.constant(0)

    def _each(self, function: Any, *cells: Cells) -> Cells:
        """A linear function of cells, applied to the primals and to the tangents."""
        primals, tangents = zip(*map(parts, cells), strict=True)
        if all(t is None for t in tangents):
            return joined(function(primals), None)
        moved = [self._zero(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
        return joined(function(primals), function(moved))

    def _chain(self, function: Any, a: Cells, move: Any) -> Cells:
        """A function of cells, and move(its value, the primal, the tangent) where they move."""
        primal, tangent = parts(a)
        value = function(primal)
        return joined(value, None if tangent is None else move(value, primal, tangent))

    def take(self, cells: Cells, index: Any) -> Cells:
        return self._each(lambda parts: self.inner.take(parts[0], index), cells)

    def join(self, blocks: Sequence[Cells]) -> Cells:
        return self._each(self.inner.join, *blocks) if blocks else self.inner.join(blocks)

    def interleave(self, columns: Sequence[Cells]) -> Cells:
        return self._each(self.inner.interleave, *columns)

    def add_at(self, target: Cells, index: Any, values: Cells) -> Cells:
        return self._each(lambda parts: self.inner.add_at(parts[0], index, parts[1]), target, values)

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        return self._each(lambda parts: self.inner.where(mask, *parts), a, b)

    def extreme(self, chosen: Mask, a: Cells, b: Cells, lowest: bool = False) -> Cells:
        primal = self.inner.extreme(chosen, _primal(a), _primal(b), lowest)
        return joined(primal, parts(self.where(chosen, a, b))[1])

    def divide(self, a: Cells, b: Cells) -> Cells:
        (p, t), (q, u) = parts(a), parts(b)
        quotient = self.inner.divide(p, q)
        moved = _difference(t, None if u is None else quotient * u)
        return joined(quotient, None if moved is None else self.inner.divide(moved, q))

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
        return self._chain(self.inner.exp, a, lambda value, p, t: value * t)

    def log(self, a: Cells) -> Cells:
        return self._chain(self.inner.log, a, lambda value, p, t: self.inner.divide(t, p))

    def sqrt(self, a: Cells) -> Cells:
        return self._chain(self.inner.sqrt, a, lambda value, p, t: self.inner.divide(t, 2 * value))

    def tanh(self, a: Cells) -> Cells:
        return self._chain(self.inner.tanh, a, lambda value, p, t: (1 - value * value) * t)

    def erf(self, a: Cells) -> Cells:
        def move(value: Cells, p: Cells, t: Cells) -> Cells:
            return self.inner.divide(2 * self.inner.exp(-(p * p)), self.inner.sqrt(self.inner.pi())) * t

        return self._chain(self.inner.erf, a, move)

    def pi(self) -> Cells:
        return self.inner.pi()

    def logistic(self, a: Cells) -> Cells:
        return self._chain(self.inner.logistic, a, lambda value, p, t: value * self.inner.logistic(-p) * t)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        value = self.inner.logaddexp(_primal(a), _primal(b))
        one, other = (None if t is None else self.inner.exp(p - value) * t for p, t in map(parts, (a, b)))
        return joined(value, _sum(one, other))

    def power(self, a: Cells, exponent: Number) -> Cells:
        def move(value: Cells, p: Cells, t: Cells) -> Cells:
            return self.inner.constant(exponent) * self.inner.power(p, exponent - 1) * t if exponent else None

        return self._chain(lambda p: self.inner.power(p, exponent), a, move)

    def still(self, a: Cells) -> Cells:
        return self.inner.still(_primal(a))

    def pivot(self, a: Cells) -> Cells:
        return self.inner.pivot(_primal(a))


def _primal(cells: Cells) -> Cells:
    return parts(cells)[0]
