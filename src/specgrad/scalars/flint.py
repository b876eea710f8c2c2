"""FLINT's numbers: fmpq, exact rationals; arb, balls that rigorously enclose a real number.

Over arb an undecided comparison yields the hull of both branches, so that a result always encloses
the true value; the maximum of two balls is that of their ends, which is less.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from .base import Elements, Family, Undecided, each, quotient
from .fraction import algebraic


class Rationals(Elements):
    """fmpq: exact, and much faster than Fraction on long numbers."""

    lacks = algebraic("fmpq has")

    def lift(self, number: Any) -> Any:
        if isinstance(number, float | Fraction):
            return fmpq(*number.as_integer_ratio())
        return number if isinstance(number, fmpq) else fmpq(number)


class Balls(Undecided):
    """arb: truth has three values, and None stands for "it depends on where in their balls the
    numbers are"."""

    def lift(self, number: Any) -> Any:
        if isinstance(number, Fraction):
            return quotient(number, arb)
        return number if isinstance(number, arb) else arb(number)

    def gt_of(self, a: Any, b: Any) -> bool | None:
        return True if a > b else False if a <= b else None

    def eq_of(self, a: Any, b: Any) -> bool | None:
        return True if a == b else False if a != b else None

    def and_of(self, a: None, b: None) -> None:
        return None

    or_of = and_of

    def not_of(self, a: None) -> None:
        return None

    def where_of(self, mask: None, a: Any, b: Any) -> Any:
        return a.union(b)

    def extreme(self, chosen: Any, a: Any, b: Any, lowest: bool = False) -> Any:
        open_ones = arb.min if lowest else arb.max
        return each(lambda m, p, q: (p if m else q) if isinstance(m, bool) else open_ones(p, q), chosen, a, b)

    def pi(self) -> Any:
        return self.constant(arb.pi())

    def pivot_of(self, a: Any) -> Any:  # a shift with a radius would widen every exponential
        return a.mid() if a.is_finite() else arb(0)


def normal(kind: type) -> Any:
    return kind if kind in (fmpq, arb) else None


def family(kind: type) -> Family:
    return Balls(arb) if kind is arb else Rationals(fmpq)
