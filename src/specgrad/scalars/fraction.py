"""Exact rationals of the standard library."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .base import Elements, Family

NO_EXP = "use float, Decimal, mpmath.mpf or flint.arb elements instead"


def algebraic(kind: str, remedy: str = NO_EXP) -> dict[str, tuple[str, str]]:
    """What scalars lack that have + - * and perhaps / only."""
    return {"exp": (f"{kind} no exp and no log", remedy), "root": (f"{kind} no roots", remedy)}


class Fractions(Elements):
    """Fraction: every sum, product and quotient is exact; there is no exponential."""

    lacks = algebraic("Fraction has")

    def lift(self, number: Any) -> Fraction:  # a Fraction of NumPy integers would wrap round
        exact = number if type(number) is Fraction else Fraction(number)
        top, bottom = exact.numerator, exact.denominator
        return exact if type(top) is type(bottom) is int else Fraction(int(top), int(bottom))


def normal(kind: type) -> Any:
    return Fraction


def family(kind: type) -> Family:
    return Fractions(Fraction)
