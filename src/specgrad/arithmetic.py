"""+ - * / of recorded values, as operators; and numbers that take on the scalar of what they meet.

The operators themselves are declared with all others, in `ops`, and entered in `SYMBOLS` there: a
tape or a graph adds up contributions without knowing by what.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from .array_methods import ArrayMethods
from .scalars import as_operand, find_family, is_tensor, is_traced
from .scalars.dual import Dual

SYMBOLS: dict[str, Any] = {}


class Arithmetic(ArrayMethods):
    """What a Var inherits: ``+ - * /`` with arrays, numbers and other Vars, ``-a``, and the methods
    of arrays."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return combine("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return combine("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return combine("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return combine("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return combine("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return combine("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return combine("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return combine("/", other, self)

    def __neg__(self) -> Any:
        return combine("*", self, -1)


def combine(symbol: str, a: Any, b: Any) -> Any:
    """a symbol b."""
    return applied(SYMBOLS[symbol], a, b)


def applied(op: Any, *operands: Any) -> Any:
    """op(*operands); a Python number among them takes on the scalar of the others, as a NumPy
    array's dtype would decide."""
    known = next((place for place, x in enumerate(operands) if not is_number(x)), 0)
    names = [slot.name for slot in op.slots]
    return op(
        *(
            like(operands[known], x, (), op.name, names[known], name) if is_number(x) and place != known else x
            for place, (name, x) in enumerate(zip(names, operands, strict=True))
        )
    )


def is_open(constant: Any) -> bool:
    """Whether a constant takes on the scalar of what it meets: a Python number, or an array of
    booleans, which are 1 and 0."""
    return is_number(constant) or getattr(constant, "dtype", None) == np.bool_


def settled(operand: Any, constant: Any, shape: tuple[int, ...] = ()) -> Any:
    """A constant in the scalar of an operand: a number fills the shape, a mask is 1 and 0, floats
    are converted."""
    if is_number(constant):
        return like(operand, constant, shape)
    return indicator(operand, constant) if is_open(constant) else lifted(operand, constant)


def indicator(operand: Any, mask: Any) -> Any:
    """1 where a mask of booleans holds, else 0, in the scalar of an operand (an array, a Dual, or a
    Var)."""
    if hasattr(type(operand), "__specgrad__"):
        return operand.indicator(mask)
    array = as_operand("constant", "operand", operand)
    if is_tensor(mask):
        return mask.to(array.dtype)
    if is_traced(mask):
        return mask * np.ones((), array.dtype)
    S = find_family("constant", ["operand"], [array])
    return S.leave(S.constant(np.asarray(mask).astype(np.int64).reshape(-1)), np.shape(mask))


def total(a: Any, b: Any) -> Any:
    """a + b where None is a zero that was never made."""
    if a is None or b is None:
        return b if a is None else a
    if hasattr(type(a), "__specgrad__") or hasattr(type(b), "__specgrad__"):
        return SYMBOLS["+"](a, b)
    with np.errstate(all="ignore"):  # as in the operators themselves
        both = a + b
    return np.asarray(both) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else both


def is_number(value: Any) -> bool:
    """Python's own numbers, which have no dtype of their own."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool) and not hasattr(value, "dtype")


def is_negative(number: Any) -> bool:
    """Whether a number has a minus sign; -0.0 has one."""
    return math.copysign(1, number) < 0


def like(
    operand: Any,
    number: Any,
    shape: tuple[int, ...] = (),
    name: str = "constant",
    argument: str = "operand",
    its_argument: str = "number",
) -> Any:
    """An array of this shape, filled with a number, in the scalar of an operand (an array, a Dual,
    or a Var).

    A refusal names the operator that met both, the operand's argument and the number's.
    """
    if hasattr(type(operand), "__specgrad__"):
        return operand.filled(number, shape)
    S = find_family(name, [argument], [as_operand(name, argument, operand)])
    if number == 0 and not is_negative(number):
        return S.leave(S.zeros(math.prod(shape)), shape)
    return S.filled(name, its_argument, number, shape)


def lifted(operand: Any, array: Any) -> Any:
    """A constant array in the scalar of an operand: float weights among Fractions are Fractions,
    exactly.

    Between floats it is cast. An array that is not of NumPy's floats, or that integers meet, stays
    as it is.
    """
    while hasattr(operand, "value") or isinstance(operand, Dual):
        operand = operand.primal if isinstance(operand, Dual) else operand.value
    if hasattr(type(operand), "__specgrad__") or not isinstance(array, np.ndarray) or array.dtype.kind not in "fV":
        return array
    S = find_family("constant", ["operand"], [as_operand("constant", "operand", operand)])
    if "division" in S.lacks or getattr(operand, "dtype", None) == array.dtype:
        return array
    return S.leave(S.constant(array.flatten()), array.shape)
