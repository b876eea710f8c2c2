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
        return mpmath.log(a) if a > 0 else -mpmath.inf if a == 0 else mpmath.nan  # mpmath's would be complex

    def sqrt_of(self, a: Any) -> Any:
        return self.root_of(a, 0.5)

    def tanh_of(self, a: Any) -> Any:
        return mpmath.tanh(a)

    def erf_of(self, a: Any) -> Any:
        return mpmath.erf(a)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        return each(self._logaddexp, a, b)

    def _logaddexp(self, a: Any, b: Any) -> Any:
        if not (mpmath.isfinite(a) and mpmath.isfinite(b)):
            return self.log_of(mpmath.exp(a) + mpmath.exp(b))
        return max(a, b) + mpmath.log1p(mpmath.exp(-abs(a - b)))

    def pi(self) -> Any:
        return self.constant(+mpmath.pi)

    def root_of(self, a: Any, exponent: Any) -> Any:
        return mpmath.inf if a == 0 > exponent else a**exponent if a >= 0 else mpmath.nan

    def pivot_of(self, a: Any) -> Any:
        return a if mpmath.isfinite(a) else mpmath.mpf(0)


def normal(kind: type) -> Any:
    return mpmath.mpf if issubclass(kind, mpmath.mpf) else None


def family(kind: type) -> Family:
    return MpFloats(mpmath.mpf)
