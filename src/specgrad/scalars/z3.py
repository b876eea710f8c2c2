"""Real terms of the z3 prover: a result is a statement about all inputs of a shape. No truth value
is ever asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import z3

from .base import Family, Undecided
from .fraction import algebraic


class Terms(Undecided):
    """z3 real arithmetic: comparisons are formulas, selections are If-terms."""

    lacks = algebraic("over the reals z3 has", "use flint.arb elements for enclosures instead")

    def lift(self, number: Any) -> Any:
        if isinstance(number, z3.ArithRef):
            return z3.ToReal(number) if number.is_int() else number  # the quotient of two z3 integers rounds
        return z3.RealVal(str(Fraction(number)))

    def gt_of(self, a: Any, b: Any) -> Any:
        return a > b

    def eq_of(self, a: Any, b: Any) -> Any:
        return a == b

    def and_of(self, a: Any, b: Any) -> Any:
        return z3.And(a, b)

    def or_of(self, a: Any, b: Any) -> Any:
        return z3.Or(a, b)

    def not_of(self, a: Any) -> Any:
        return z3.Not(a)

    def where_of(self, mask: Any, a: Any, b: Any) -> Any:
        return z3.If(mask, a, b)


def normal(kind: type) -> Any:
    return z3.ArithRef if issubclass(kind, z3.ArithRef) else None


def family(kind: type) -> Family:
    return Terms(z3.ArithRef)
