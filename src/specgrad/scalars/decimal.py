"""Decimal floating point of any precision (that of the current decimal context)."""

from __future__ import annotations

import contextlib
import decimal
import functools
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np

from .base import Cells, Elements, Family, Mask, each, quotient

GUARD = 6  # digits beyond the context's, in which a series is summed


class Decimals(Elements):
    """Decimal: correctly rounded to the context's precision."""

    def lift(self, number: Any) -> Decimal:
        if isinstance(number, Fraction):
            return cast(Decimal, quotient(number, Decimal))
        return number if isinstance(number, Decimal) else Decimal(number)

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        context = decimal.getcontext().copy()
        context.clear_traps()
        return decimal.localcontext(context)

    def gt(self, a: Cells, b: Cells) -> Mask:  # Decimal raises where a NaN is ordered
        return each(lambda p, q: not (p.is_nan() or q.is_nan()) and p > q, a, b).astype(np.bool_)

    def log_of(self, a: Any) -> Any:
        return a.ln()

    def tanh_of(self, a: Any) -> Any:
        with decimal.localcontext() as context:
            context.prec = 2 * context.prec + GUARD  # half of the digits may cancel
            if -a.adjusted() * 2 > context.prec:
                value = a - a * a * a / 3
            else:
                below = (-2 * abs(a)).exp()
                value = (1 - below) / (1 + below)
        return (+value).copy_sign(a)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        return each(self._logaddexp, a, b)

    def _logaddexp(self, a: Any, b: Any) -> Any:
        if not (a.is_finite() and b.is_finite()):
            return (a.exp() + b.exp()).ln()
        less = (-abs(a - b)).exp()
        total = 1 + less
        return max(a, b) + (total.ln() * less / (total - 1) if total != 1 else less)  # log1p without loss of digits

    def erf_of(self, a: Any) -> Any:
        """2/√π exp(-a²) Σ (2a²)ⁿ a / (1·3·5 … (2n+1)), whose terms all have one sign."""
        with decimal.localcontext() as context:
            context.prec += GUARD
            if a.is_nan():
                return a
            if a * a > 3 * context.prec:  # then 1 - |erf| has no digit in this precision
                return Decimal(1).copy_sign(a)
            total = term = a
            odd = 1
            while total + term != total:
                odd += 2
                term = term * 2 * a * a / odd
                total += term
            value = 2 * total * (-a * a).exp() / _pi(context.prec).sqrt()
        return +value

    def pi(self) -> Any:
        return self.constant(+_pi(decimal.getcontext().prec + GUARD))

    def pivot_of(self, a: Any) -> Any:
        return a if a.is_finite() else Decimal(0)


@functools.lru_cache(maxsize=8)
def _pi(digits: int) -> Decimal:
    """16 arctan(1/5) - 4 arctan(1/239)."""
    unit = 10 ** (digits + GUARD)

    def arctan(n: int) -> int:
        power, total, odd = unit // n, 0, 1
        while power:
            total, power, odd = total + power // odd * (2 - odd % 4), power // (n * n), odd + 2
        return total

    with decimal.localcontext(decimal.Context(prec=digits + GUARD)):
        return Decimal(16 * arctan(5) - 4 * arctan(239)).scaleb(-digits - GUARD)


def normal(kind: type) -> Any:
    return Decimal


def family(kind: type) -> Family:
    return Decimals(Decimal)
