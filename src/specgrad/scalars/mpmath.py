"""Binary floating point of any precision (that of mpmath's context)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath

from .base import Cells, Elements, Family, each, quotient


class MpFloats(Elements):
    """mpmath.mpf: rounded to mpmath.mp.prec bits."""

    def lift(self, number: Any) -> Any:
        if isinstance(number, Fraction):
            return quotient(number, mpmath.mpf)
        return number if isinstance(number, mpmath.mpf) else mpmath.mpf(number)

    def divide(self, a: Cells, b: Cells) -> Cells:  # mpf raises where other floats give an infinity or NaN
        return each(lambda p, q: p / q if q else p * mpmath.inf, a, b)

    def exp_of(self, a: Any) -> Any:
        return mpmath.exp(a)

    def log_of(self, a: Any) -> Any:
        return mpmath.log(a)

    def pivot_of(self, a: Any) -> Any:
        return a if mpmath.isfinite(a) else mpmath.mpf(0)


def normal(kind: type) -> Any:
    return mpmath.mpf if issubclass(kind, mpmath.mpf) else None


def family(kind: type) -> Family:
    return MpFloats(mpmath.mpf)
