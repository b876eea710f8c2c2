"""Decimal floating point of any precision (that of the current decimal context)."""

from __future__ import annotations

import contextlib
import decimal
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np

from .base import Cells, Elements, Family, Mask, each, quotient


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

    def pivot_of(self, a: Any) -> Any:
        return a if a.is_finite() else Decimal(0)


def normal(kind: type) -> Any:
    return Decimal


def family(kind: type) -> Family:
    return Decimals(Decimal)
