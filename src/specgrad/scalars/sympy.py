"""SymPy expressions: results are formulas to read."""

from __future__ import annotations

from typing import Any

import sympy

from ..errors import ScalarError, refusal
from .base import Cells, Family, Undecided


class Expressions(Undecided):
    """sympy.Expr: comparisons that SymPy can decide are decided, the others become Piecewise."""

    def lift(self, number: Any) -> Any:
        return sympy.sympify(number)

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        cells = super().enter(name, argument, array)
        for e in cells:
            if e.is_extended_real is False or e.has(sympy.nan, sympy.zoo):
                rule = f"{e} is not a real expression"
                raise refusal(ScalarError, name, argument, array, rule, "leave I, nan and zoo out")
        return cells

    def _truth(self, relation: Any) -> Any:
        return bool(relation) if relation in (sympy.true, sympy.false) else relation

    def gt_of(self, a: Any, b: Any) -> Any:
        return self._truth(sympy.Gt(a, b))

    def eq_of(self, a: Any, b: Any) -> Any:
        return self._truth(sympy.Eq(a, b))

    def and_of(self, a: Any, b: Any) -> Any:
        return self._truth(sympy.And(a, b))

    def or_of(self, a: Any, b: Any) -> Any:
        return self._truth(sympy.Or(a, b))

    def not_of(self, a: Any) -> Any:
        return self._truth(sympy.Not(a))

    def where_of(self, mask: Any, a: Any, b: Any) -> Any:
        return sympy.Piecewise((a, mask), (b, True))

    def exp_of(self, a: Any) -> Any:
        return sympy.exp(a)

    def log_of(self, a: Any) -> Any:
        return sympy.log(a)

    def sqrt_of(self, a: Any) -> Any:
        return sympy.sqrt(a)

    def tanh_of(self, a: Any) -> Any:
        return sympy.tanh(a)

    def erf_of(self, a: Any) -> Any:
        return sympy.erf(a)

    def pi(self) -> Any:
        return self.constant(sympy.pi)

    def pivot_of(self, a: Any) -> Any:  # no overflow to avoid, and the formula reads better
        return sympy.Integer(0)


def normal(kind: type) -> Any:
    return sympy.Expr if issubclass(kind, sympy.Expr) else None


def family(kind: type) -> Family:
    return Expressions(sympy.Expr)
