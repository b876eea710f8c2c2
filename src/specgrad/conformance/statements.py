"""Statements about an operator: its rows and calls agree with its value, over exact scalars and
over floats.

A statement is a function of a case that returns None if it holds, else the difference in words. All
statements are judged for a user's operator, the first two for our own operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .. import autograd, dispatch
from ..operator import Operator
from ..ops import OPERATORS
from ..scalars.dual import Dual
from .cases import Case
from .compare import same_bits

Array = np.ndarray[Any, Any]


class Statement(NamedTuple):
    """A function of a case, and Python lines that show where it does not hold."""

    judge: Callable[..., str | None]
    shown: tuple[str, ...]
    exact: bool = False
    """Whether the statement is about exact scalars, and so about the specification and not an
    engine."""

    def broken(self, case: Case) -> str | None:
        """The difference on a case, or None."""
        if not self.exact:
            return self.judge(case)
        with dispatch.engine("reference"):
            return self.judge(case, scalar_of(case.op))


def scalar_of(op: Any) -> type:
    """The exact scalar type of an operator or operator class: Decimal if exp is needed, else
    Fraction."""
    return Decimal if "exp" in op.needs else Fraction


def dual_witness(case: Case, scalar: Any = Fraction) -> str | None:
    """The JVP equals the derivative by Dual numbers in `value`, on operands without ties unless
    ties="first"."""
    operands, tangents, _ = replace(case, operands=without_ties(case.op, case.operands)).over(scalar)
    value, pushed = case.op.jvp(operands, tangents)
    witness = case.op(*(x if t is None else Dual(x, t) for x, t in zip(operands, tangents, strict=True)))
    if not (same(value, witness.primal) and same(pushed, witness.tangent)):
        return f"the JVP is {pushed.tolist()}, the Dual witness {witness.tangent.tolist()}"
    return None


WITNESS = Statement(
    dual_witness,
    (
        "moving = [x if slot.integer else Dual(x, t) for x, t, slot in zip(inputs, tangents, op.slots)]",
        "print(op.jvp(inputs, tangents)[1])",
        "print(op(*moving).tangent)  # expected to be the same: what Dual numbers find in the value",
    ),
    exact=True,
)


def adjoint(case: Case, scalar: Any = Fraction) -> str | None:
    """⟨JVP(dx), g⟩ = ⟨dx, VJP(g)⟩, ties included."""
    operands, tangents, cotangent = case.over(scalar)
    _, pushed = case.op.jvp(operands, tangents)
    pulled = case.op.vjp(operands, cotangent)
    left = inner(pushed, cotangent)
    right = sum(inner(t, p) for t, p in zip(tangents, pulled, strict=True) if t is not None and p is not None)
    return None if alike(scalar(left), scalar(right)) else f"⟨JVP(dx), g⟩ = {left} but ⟨dx, VJP(g)⟩ = {right}"


ADJOINT = Statement(
    adjoint,
    (
        "print(np.sum(op.jvp(inputs, tangents)[1] * cotangent))  # ⟨JVP(dx), g⟩",
        "pulled = zip(tangents, op.vjp(inputs, cotangent))",
        "print(sum(np.sum(t * p) for t, p in pulled if t is not None and p is not None))  # ⟨dx, VJP(g)⟩: the same",
    ),
    exact=True,
)


def inner(one: Array, other: Array) -> Any:
    """⟨one, other⟩: the sum of products over all cells."""
    return sum(a * b for a, b in zip(np.asarray(one).flat, np.asarray(other).flat, strict=True))


def without_ties(op: Operator, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Operands with distinct cells, for operators whose derivative at ties is not that of one
    branch."""
    if getattr(op, "ties", "first") == "first":
        return operands
    starts = np.cumsum([0, *(x.size for x in operands)])
    return tuple(
        x * starts[-1] + np.arange(start, start + x.size).reshape(x.shape)
        for x, start in zip(operands, starts, strict=False)
    )


def same(one: Array, other: Array) -> bool:
    """Equality of exact scalars, overlap of enclosures; for Decimals, equality up to the last
    digits.

    Decimals have 28 digits. The cases of `cases` sum some hundred terms with exponents below 100,
    so that rounding stays under 10^4 units of the last digit. A wrong rule differs by more than the
    allowed 10^-20.
    """
    pairs = zip(np.asarray(one).flat, np.asarray(other).flat, strict=True)
    return np.shape(one) == np.shape(other) and all(alike(a, b) for a, b in pairs)


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, Decimal):
        return bool(abs(a - b) <= Decimal("1e-20") * (1 + abs(a)))
    return bool(a.overlaps(b) if hasattr(a, "overlaps") else a == b)


def _shape(case: Case, scalar: type) -> str | None:
    operands, tangents, cotangent = case.over(scalar)
    value, pushed = case.op.jvp(operands, tangents)
    wanted = [("value", value, cotangent), ("JVP", pushed, cotangent)]
    pulled = zip(case.op.slots, case.op.vjp(operands, cotangent), operands, strict=False)
    wanted += [(f"VJP of {slot.name}", p, x) for slot, p, x in pulled if p is not None]
    for part, got, like in wanted:
        if np.shape(got) != np.shape(like):
            return f"the {part} has shape {np.shape(got)}, not {np.shape(like)}"
    return None


RESULTS = "(op(*inputs), *op.jvp(inputs, tangents), *op.vjp(inputs, cotangent))"
SHAPE = Statement(
    _shape,
    (
        f"print([np.shape(r) for r in {RESULTS}])",
        "print([*[np.shape(cotangent)] * 3, *map(np.shape, inputs)])  # expected to be the same",
    ),
    exact=True,
)


def _second(case: Case, scalar: type) -> str | None:
    """Second derivatives agree: by the row over Duals, by transforms, which use the hints of the
    class, and by the value alone."""
    op = case.op
    operands, tangents, cotangent = replace(case, operands=without_ties(op, case.operands)).over(scalar)
    if any(t is None for t in tangents):
        return None
    duals = tuple(Dual(x, t) for x, t in zip(operands, tangents, strict=True))
    zeros = (t * 0 for t in tangents)
    nested = op(*(Dual(d, Dual(t, z)) for d, t, z in zip(duals, tangents, zeros, strict=True)))
    moved = [_tangent(p, x) for p, x in zip(op.vjp(duals, cotangent), operands, strict=True)]
    along = sum(inner(t, m) for t, m in zip(tangents, moved, strict=True))
    right = inner(nested.tangent.tangent, cotangent)
    if not alike(scalar(along), scalar(right)):
        return f"⟨dx, the VJP's derivative along dx⟩ = {along}, but the value's second derivative is {right}"

    def pulled(*xs: Any) -> Any:
        return tuple(p for p in autograd.vjp(lambda *ys: op(*ys), *xs)[1](cotangent))

    by_rules = autograd.jvp(pulled, operands, tangents)[1]
    for slot, m, r in zip(op.slots, moved, by_rules, strict=True):
        if not same(m, np.asarray(r)):
            return (
                f"transforms give {np.asarray(r).tolist()} for the second derivative in {slot.name}, not {m.tolist()}"
            )
    return None


def _tangent(pulled: Any, operand: Array) -> Array:
    return operand * 0 if pulled is None else np.asarray(getattr(pulled, "tangent", operand * 0))


SECOND = Statement(
    _second,
    (
        "pulled = lambda *xs: vjp(lambda *ys: op(*ys), *xs)[1](cotangent)",
        "print(jvp(pulled, inputs, tangents)[1])  # by transforms, which trust the hints of the class",
        "duals = tuple(Dual(x, t) for x, t in zip(inputs, tangents))",
        "print([p.tangent for p in op.vjp(duals, cotangent)])  # expected to be the same: by the row over Duals",
        "twice = op(*(Dual(d, Dual(t, t * 0)) for d, t in zip(duals, tangents)))",
        "print(twice.tangent.tangent)  # along the tangents: by the value alone",
    ),
    exact=True,
)

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def _results(case: Case, dtype: np.dtype[Any]) -> list[Array]:
    """Value, JVP and VJPs over floats, by the default engine."""
    operands, tangents, cotangent = case.over(dtype)
    value, pushed = case.op.jvp(operands, tangents)
    return [case.op(*operands), value, pushed, *(p for p in case.op.vjp(operands, cotangent) if p is not None)]


def _dtype(case: Case) -> str | None:
    for dtype in FLOATS:
        for got in _results(case, dtype):
            if got.dtype != dtype:
                return f"a result is {got.dtype}, the input {dtype}"
    return None


DTYPE = Statement(_dtype, (f"print([r.dtype for r in {RESULTS} if r is not None])  # expected: float32 everywhere",))


def _value(case: Case) -> str | None:
    """Engines give the specification's value and JVP. Our own operators are left out: engines have
    other arithmetic for them."""
    if type(case.op) in OPERATORS:
        return None
    for dtype in FLOATS:
        with dispatch.engine("reference"):
            stated = _results(case, dtype)[:3]
        for got, wanted in zip(_results(case, dtype), stated, strict=False):
            if not np.array_equal(got, wanted, equal_nan=True):
                return f"a call gives {got.tolist()}, the statement {wanted.tolist()}"
    return None


VALUE = Statement(
    _value,
    (
        "print(op(*inputs), op.jvp(inputs, tangents))",
        'with engine("reference"):',
        "    print(op(*inputs), op.jvp(inputs, tangents))  # expected to be the same",
    ),
)


def _unmodified(case: Case) -> str | None:
    operands, tangents, cotangent = case.over(FLOATS[1])
    given = [a for a in (*operands, *tangents, cotangent) if a is not None]
    before = [a.copy() for a in given]
    case.op.jvp(operands, tangents)
    case.op.vjp(operands, cotangent)
    return None if all(map(same_bits, before, given)) else "a call writes into its arguments"


UNMODIFIED = Statement(
    _unmodified,
    (
        "before = [a.copy() for a in (*inputs, *tangents, cotangent)]",
        "op(*inputs), op.jvp(inputs, tangents), op.vjp(inputs, cotangent)",
        "print([np.array_equal(a, b) for a, b in zip(before, (*inputs, *tangents, cotangent))])  # expected: "
        "True everywhere",
    ),
)


def _deterministic(case: Case) -> str | None:
    once, again = (_results(case, FLOATS[0]) for _ in range(2))
    return None if all(map(same_bits, once, again)) else "the same call gave two results"


DETERMINISTIC = Statement(_deterministic, (f"print({RESULTS})", f"print({RESULTS})  # expected to be the same"))
