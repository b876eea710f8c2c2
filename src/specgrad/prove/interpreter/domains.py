"""The domains of floating-point cells in an interpreted kernel: IEEE floats, exact rationals, or
any class with the interface `Domain`.

A comparison gives a bool, or for an undecided one an object of the domain, which has & | ^ with
bools and such objects. The interpreter passes a selection or a branch on such an object to
:meth:`Domain.select` or :meth:`Domain.decide`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ...engines.cpu.codegen.values import F16, F32, F64
from .memory import UNDEFINED, Fault, Undecided

Comparison = Callable[[Any, Any], Any]


ORDERS: dict[str, Comparison] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}


def _apart(a: Any, b: Any) -> bool:
    return bool(a < b) or bool(a > b)


COMPARISONS: dict[str, Comparison] = {
    "oeq": lambda a, b: bool(a == b),
    "ogt": lambda a, b: bool(a > b),
    "oge": lambda a, b: bool(a >= b),
    "olt": lambda a, b: bool(a < b),
    "ole": lambda a, b: bool(a <= b),
    "one": _apart,
    "ord": lambda a, b: bool(a == a) and bool(b == b),
    "ueq": lambda a, b: not _apart(a, b),
    "ugt": lambda a, b: not a <= b,
    "uge": lambda a, b: not a < b,
    "ult": lambda a, b: not a >= b,
    "ule": lambda a, b: not a > b,
    "une": lambda a, b: bool(a != b),
    "uno": lambda a, b: bool(a != a) or bool(b != b),
}
"""LLVM's comparisons of numbers whose Python operators are the ordered ones: with a NaN, o… is
false and u… is true."""


class Domain:
    """Numbers with Python's operators. A domain may depend on the LLVM type of a number (half,
    float, double) or not."""

    add: Any = staticmethod(operator.add)
    sub: Any = staticmethod(operator.sub)
    mul: Any = staticmethod(operator.mul)
    div: Any = staticmethod(operator.truediv)
    neg: Any = staticmethod(operator.neg)
    fabs: Any = staticmethod(abs)

    def constant(self, number: Any, kind: Any) -> Any:
        """A constant of the kernel, or a number of an operand, as a number of this domain."""
        raise NotImplementedError

    def cast(self, value: Any, kind: Any) -> Any:
        """A number converted to another floating-point type."""
        return value

    def integer(self, number: int, kind: Any) -> Any:
        """A (signed) integer as a floating-point number."""
        return self.constant(number, kind)

    def truncated(self, value: Any) -> int:
        """A number rounded towards zero to an integer."""
        return int(value)

    def bits(self, value: Any, kind: Any) -> Any:
        """The bits of a number of this type: an int, or an object that represents them."""
        raise Undecided(f"the bits of {value!r} are needed")

    def from_bits(self, bits: Any, kind: Any) -> Any:
        """The number of this type with these bits."""
        raise Undecided(f"a number is made of the bits {bits}")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        return self.add(self.mul(a, b), c)

    def exp(self, a: Any) -> Any:
        """exp(a), as one function; kernels compute it by arithmetic."""
        raise Undecided(f"the exponential of {a!r} is needed")

    def comparison(self, predicate: str) -> Comparison:
        """The function for LLVM's comparison with this predicate."""
        return COMPARISONS[predicate]

    def select(self, condition: Any, one: Any, other: Any) -> Any:
        """`one` if an undecided comparison holds, else `other`: floating-point numbers, integers or
        bools."""
        raise Undecided(f"a selection on {condition!r}")

    def decide(self, condition: Any) -> bool:
        """The outcome of a branch on an undecided comparison."""
        raise Undecided(f"a branch on {condition!r}")

    def maximum(self, a: Any, b: Any) -> Any:
        """max(a, b); NaN if a or b is NaN; 0 is above -0."""
        return a if a >= b else b

    def minimum(self, a: Any, b: Any) -> Any:
        """min(a, b); NaN if a or b is NaN; -0 is below 0."""
        return a if a <= b else b


class Infinity:
    """An infinity: above (sign 1) or below (sign -1) every int and Fraction. A sum or product
    without a value is a fault."""

    __slots__ = ("sign",)

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def __repr__(self) -> str:
        return "infinity" if self.sign > 0 else "-infinity"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Infinity) and other.sign == self.sign

    def __hash__(self) -> int:
        return self.sign

    def __lt__(self, other: Any) -> bool:
        return self.sign < 0 and self != other

    def __gt__(self, other: Any) -> bool:
        return self.sign > 0 and self != other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __neg__(self) -> Infinity:
        return Infinity(-self.sign)

    def __abs__(self) -> Infinity:
        return Infinity(1)

    def __add__(self, other: Any) -> Any:
        if other == -self:
            raise Fault(f"{self} and {other} have no sum")
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Infinity:
        if other == 0:
            raise Fault(f"{self} and {other} have no product")
        return self if other > 0 else -self

    __radd__, __rmul__ = __add__, __mul__


class Bits:
    """The bits of an exact number, which can only be compared for equality."""

    __slots__ = ("kind", "value")
    __hash__ = object.__hash__

    def __init__(self, value: Any, kind: Any) -> None:
        self.value, self.kind = value, kind

    def __repr__(self) -> str:
        return f"the bits of {self.value}"

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Bits):
            return bool(self.value == other.value)
        number = Floats().from_bits(other, self.kind)
        is_one = number == number and (number != 0 or not other)  # NaN and -0.0 are no exact numbers
        return bool(is_one) and bool(Rationals().constant(number, self.kind) == self.value)

    def _used(self, *_: Any) -> Any:
        raise Undecided(f"something is computed with {self!r}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lshift__ = __rshift__ = __floordiv__ = __mod__ = (
        _used
    )
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = _used


class Rationals(Domain):
    """Exact numbers: ints, Fractions and the two infinities, without NaN, rounding and the sign of
    zero."""

    maximum: Any = staticmethod(max)
    minimum: Any = staticmethod(min)

    def constant(self, number: Any, kind: Any) -> Any:
        if isinstance(number, int | Fraction | Infinity):
            return number
        number = float(number)
        if number != number:
            return UNDEFINED
        if math.isinf(number):
            return Infinity(1 if number > 0 else -1)
        return int(number) if number.is_integer() else Fraction(number)

    def bits(self, value: Any, kind: Any) -> Any:
        return Bits(value, kind)

    def from_bits(self, bits: Any, kind: Any) -> Any:
        if isinstance(bits, Bits):
            return bits.value
        return self.constant(Floats().from_bits(bits, kind), kind)

    def comparison(self, predicate: str) -> Comparison:
        return ORDERS.get(predicate[1:]) or super().comparison(predicate)

    def truncated(self, value: Any) -> int:
        if isinstance(value, Infinity):
            raise Fault(f"an integer is made of {value}")
        return int(value)

    def div(self, a: Any, b: Any) -> Any:
        if b == 0 or (isinstance(a, Infinity) and isinstance(b, Infinity)):
            raise Fault(f"{a} and {b} have no quotient")
        return 0 if isinstance(b, Infinity) else a * Fraction(1, b)


class Floats(Domain):
    """IEEE numbers as NumPy scalars, with each operation rounded in its type: the bits that the
    processor computes.

    Only the bits of computed NaNs may differ, since LLVM leaves them open.
    """

    TYPES = {F16: np.float16, F32: np.float32, F64: np.float64}
    WORDS = {F16: np.uint16, F32: np.uint32, F64: np.uint64}

    def constant(self, number: Any, kind: Any) -> Any:
        return self.TYPES[kind](number)

    def cast(self, value: Any, kind: Any) -> Any:
        return self.TYPES[kind](value)

    def integer(self, number: int, kind: Any) -> Any:
        return (np.int64(number) if number < 1 << 63 else np.uint64(number)).astype(self.TYPES[kind])

    def truncated(self, value: Any) -> int:
        if not np.isfinite(value):
            raise Fault(f"an integer is made of {value}")
        return int(value)

    def bits(self, value: Any, kind: Any) -> int:
        return int(value.view(self.WORDS[kind]))

    def from_bits(self, bits: int, kind: Any) -> Any:
        made: Any = np.array(bits, self.WORDS[kind]).view(self.TYPES[kind])[()]
        return made

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        if type(a) is np.float64:
            return _fma(a, b, c)
        product, other = float(a) * float(b), float(c)  # the product is exact
        total = product + other
        back = total - product
        return type(a)(_to_odd(total, (product - (total - back)) + (other - back)))

    def maximum(self, a: Any, b: Any) -> Any:
        if a != a or b != b:
            return a + b
        if a == b:
            return b if math.copysign(1, a) < 0 else a
        return a if a > b else b

    def minimum(self, a: Any, b: Any) -> Any:
        return -self.maximum(-a, -b)


def _fma(a: Any, b: Any, c: Any) -> Any:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        return np.float64(float(exact)) if exact else a * b + c
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def _to_odd(near: float, error: float) -> float:
    """near + error (at most half an ulp), rounded to odd. Rounding the result to half the digits is
    then the same as rounding the exact sum once."""
    if not error or error != error or int(np.float64(near).view(np.uint64)) & 1:
        return near
    return math.nextafter(near, math.copysign(math.inf, error))
