"""Claims about an operator, one function each: every one returns None where it holds, else what differs, in words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..operator import Operator
from ..scalars.dual import Dual
from .cases import Case, Fixed, as_scalars

Array = np.ndarray[Any, Any]


def fixed_answer(fixed: Fixed) -> str | None:
    """The value and the cotangents are the published ones."""
    wrong = _differs("value", fixed.op(*fixed.operands), fixed.value, fixed.digits)
    if wrong is None and fixed.cotangent is not None:
        pulled = fixed.op.vjp(fixed.operands, fixed.cotangent)
        for name, got, expected in zip((slot.name for slot in fixed.op.slots), pulled, fixed.pulled, strict=False):
            wrong = wrong or _differs(f"cotangent of {name}", got, expected, fixed.digits)
    return wrong and f"{fixed.op!r}: {wrong}"


def _differs(what: str, got: Array, expected: Any, digits: int | None) -> str | None:
    wanted = np.asarray(expected, dtype=got.dtype)
    allowed = 0.0 if digits is None else 0.5000001 * 10.0**-digits
    with np.errstate(invalid="ignore"):
        right = got.shape == wanted.shape and bool(np.all((got == wanted) | (np.abs(got - wanted) <= allowed)))
    return None if right else f"{what} is {got.tolist()}, not {wanted.tolist()}"


def dual_witness(case: Case, scalar: Any = Fraction) -> str | None:
    """The JVP equals the derivative that Dual numbers find in `value` (where cells tie: of ties="first")."""
    operands = tuple(as_scalars(x, scalar) for x in without_ties(case.op, case.operands))
    tangents = tuple(as_scalars(t, scalar) for t in case.tangents)
    value, pushed = case.op.jvp(operands, tangents)
    witness = case.op(*(Dual(x, t) for x, t in zip(operands, tangents, strict=True)))
    if not (same(value, witness.primal) and same(pushed, witness.tangent)):
        return f"{case!r}: the JVP is {pushed.tolist()}, the Dual witness {witness.tangent.tolist()}"
    return None


def adjoint(case: Case, scalar: Any = Fraction) -> str | None:
    """⟨JVP(dx), g⟩ = ⟨dx, VJP(g)⟩, ties included."""
    operands = tuple(as_scalars(x, scalar) for x in case.operands)
    tangents = tuple(as_scalars(t, scalar) for t in case.tangents)
    cotangent = as_scalars(case.cotangent, scalar)
    _, pushed = case.op.jvp(operands, tangents)
    pulled = case.op.vjp(operands, cotangent)
    left = inner(pushed, cotangent)
    right = sum(map(inner, tangents, pulled))
    return (
        None if _alike(scalar(left), scalar(right)) else f"{case!r}: ⟨JVP(dx), g⟩ = {left} but ⟨dx, VJP(g)⟩ = {right}"
    )


def inner(one: Array, other: Array) -> Any:
    """⟨one, other⟩: the sum of products over all cells."""
    return sum(a * b for a, b in zip(one.flat, other.flat, strict=True))


def without_ties(op: Operator, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Operands whose cells all differ, for operators that treat tied cells in another way than a selected branch."""
    if getattr(op, "ties", "first") == "first":
        return operands
    return tuple(x * x.size + np.arange(x.size).reshape(x.shape) for x in operands)


def same(one: Array, other: Array) -> bool:
    """Equal in exact scalars; not provably different in enclosures; in Decimals, equal but for the last digits.

    Decimals carry 28 digits. The cases of `cases` sum some hundred terms with exponents below 100, so that rounding stays under
    10^4 units of the last digit: 10^-20 leaves room, and no wrong rule hides in it.
    """
    pairs = zip(np.asarray(one).flat, np.asarray(other).flat, strict=True)
    return np.shape(one) == np.shape(other) and all(_alike(a, b) for a, b in pairs)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, Decimal):
        return bool(abs(a - b) <= Decimal("1e-20") * (1 + abs(a)))
    return bool(a.overlaps(b) if hasattr(a, "overlaps") else a == b)
