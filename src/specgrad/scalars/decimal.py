"""Decimal floating point of any precision (that of the current decimal context)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from .base import Cells, Elements, Family, Mask, each


class Decimals(Elements):
    """Decimal: correctly rounded to the context's precision."""

    def lift(self, number: Any) -> Decimal:
        if isinstance(number, Fraction):
            return Decimal(number.numerator) / Decimal(number.denominator)
        return number if isinstance(number, Decimal) else Decimal(number)

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
