"""Claims, one function each.

The first three are about an operator of the specification itself, over exact scalars: None where
the claim holds, else what differs, in words. The others, listed in `CLAIMS`, are about a subject on
a case that asks them: they return an Outcome, or None where a result cannot be compared because its
shape is wrong, which is the shape claim's to say. A case about NaN, infinity, ties or padding is
judged under that name, all others under value, JVP and VJP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..arguments import suggestion
from ..drawing.window import number
from ..operator import Operator
from ..scalars.dual import Dual
from . import bounds
from .cases import Case
from .compare import Outcome, compare, same_bits, worst
from .expected import Answer, Answers
from .golden import Fixed
from .subject import NotOffered
from .trial import Crashed, Refused, Trial

Array = np.ndarray[Any, Any]


def fixed_answer(fixed: Fixed) -> str | None:
    """The value and the cotangents are the published ones."""
    wrong = _differs("value", fixed.op(*fixed.operands), fixed.value, fixed.digits)
    if wrong is None and fixed.cotangent is not None:
        pulled = fixed.op.vjp(fixed.operands, fixed.cotangent)
        for name, got, expected in zip((slot.name for slot in fixed.op.slots), pulled, fixed.pulled, strict=False):
            if expected is None:
                wrong = wrong or (None if got is None else f"{name} has a cotangent")
            else:
                wrong = wrong or _differs(f"cotangent of {name}", got, expected, fixed.digits)
    return wrong and f"{fixed.op!r}: {wrong}"


def _differs(what: str, got: Array, expected: Any, digits: int | None) -> str | None:
    wanted = np.asarray(expected, dtype=got.dtype)
    allowed = 0.0 if digits is None else 0.5000001 * 10.0**-digits
    with np.errstate(invalid="ignore"):
        right = got.shape == wanted.shape and bool(np.all((got == wanted) | (np.abs(got - wanted) <= allowed)))
    return None if right else f"{what} is {got.tolist()}, not {wanted.tolist()}"


def dual_witness(case: Case, scalar: Any = Fraction) -> str | None:
    """The JVP equals the derivative that Dual numbers find in `value` (where cells tie: of
    ties="first")."""
    operands, tangents, _ = replace(case, operands=without_ties(case.op, case.operands)).over(scalar)
    value, pushed = case.op.jvp(operands, tangents)
    witness = case.op(*(x if t is None else Dual(x, t) for x, t in zip(operands, tangents, strict=True)))
    if not (same(value, witness.primal) and same(pushed, witness.tangent)):
        return f"{case!r}: the JVP is {pushed.tolist()}, the Dual witness {witness.tangent.tolist()}"
    return None


def adjoint(case: Case, scalar: Any = Fraction) -> str | None:
    """⟨JVP(dx), g⟩ = ⟨dx, VJP(g)⟩, ties included."""
    operands, tangents, cotangent = case.over(scalar)
    _, pushed = case.op.jvp(operands, tangents)
    pulled = case.op.vjp(operands, cotangent)
    left = inner(pushed, cotangent)
    right = sum(inner(t, p) for t, p in zip(tangents, pulled, strict=True) if t is not None and p is not None)
    return None if alike(scalar(left), scalar(right)) else f"{case!r}: ⟨JVP(dx), g⟩ = {left} but ⟨dx, VJP(g)⟩ = {right}"


def inner(one: Array, other: Array) -> Any:
    """⟨one, other⟩: the sum of products over all cells."""
    return sum(a * b for a, b in zip(np.asarray(one).flat, np.asarray(other).flat, strict=True))


def without_ties(op: Operator, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Operands whose cells all differ, for operators that treat tied cells in another way than a
    selected branch."""
    if getattr(op, "ties", "first") == "first":
        return operands
    starts = np.cumsum([0, *(x.size for x in operands)])
    return tuple(
        x * starts[-1] + np.arange(start, start + x.size).reshape(x.shape)
        for x, start in zip(operands, starts, strict=False)
    )


def same(one: Array, other: Array) -> bool:
    """Equal in exact scalars; not provably different in enclosures; in Decimals, equal but for the
    last digits.

    Decimals carry 28 digits. The cases of `cases` sum some hundred terms with exponents below 100,
    so that rounding stays under 10^4 units of the last digit: 10^-20 leaves room, and no wrong rule
    hides in it.
    """
    pairs = zip(np.asarray(one).flat, np.asarray(other).flat, strict=True)
    return np.shape(one) == np.shape(other) and all(alike(a, b) for a, b in pairs)


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, Decimal):
        return bool(abs(a - b) <= Decimal("1e-20") * (1 + abs(a)))
    return bool(a.overlaps(b) if hasattr(a, "overlaps") else a == b)


def shape(trial: Trial) -> Outcome | None:
    """The output has the shape of the formula; tangents have the output's, cotangents the inputs'
    shapes."""
    outcomes = [_shaped("value", trial.forward(), trial.answers.value.near.shape)]
    if not trial.answers.whole:
        with_jvp, with_vjp = _offered(trial.jvp), _offered(trial.vjp)
        if with_jvp is not None:
            outcomes.append(_shaped("JVP", with_jvp, trial.answers.value.near.shape))
        for name, x, pulled in zip(_names(trial), trial.case.operands, with_vjp or (), strict=False):
            if pulled is not None:
                outcomes.append(_shaped(f"VJP of {name}", pulled, x.shape))
    return worst(outcomes)


def dtype(trial: Trial) -> Outcome | None:
    """Results keep the input's dtype."""
    wanted = trial.case.operands[0].dtype
    got = np.asarray(trial.forward()).dtype
    words = None if got == wanted else f"the value is {got}, the input {wanted}"
    return Outcome(words=words, part="dtype of the value", expected=str(wanted), got=str(got))


def value(trial: Trial) -> Outcome | None:
    """The value is the specification's, within the derived bound; a maximum, bit for bit."""
    return compare("value", trial.forward(), trial.answers.value, trial.answers.dtype)


def jvp(trial: Trial) -> Outcome | None:
    """The output's tangent is Σ slope·dx."""
    return compare("JVP", trial.jvp(), trial.answers.jvp, trial.answers.dtype)


def vjp(trial: Trial) -> Outcome | None:
    """Every input's cotangent is Σ slope·g over the outputs that read it."""
    return _each("VJP of", trial, trial.vjp(), trial.answers.vjp)


def second(trial: Trial) -> Outcome | None:
    """The derivative of the VJP along the tangents: 0 for maxima and averages, bilinear for
    convolutions, β-terms for smooth maxima."""
    moved = trial.second()
    shaped = [
        _shaped(f"second derivative in {n}", m, x.shape)
        for n, m, x in zip(_names(trial), moved, trial.case.operands, strict=False)
        if m is not None
    ]
    wrong = [outcome for outcome in shaped if not outcome.holds]  # no other claim asks for second derivatives
    return wrong[0] if wrong else _each("second derivative in", trial, moved, trial.answers.second)


def parts(trial: Trial) -> list[Outcome] | None:
    """Value, JVP and VJP, as far as they are offered (and, of smooth maxima that are not finite,
    the value only)."""
    outcomes = [value(trial)]
    smooth = "exp" in trial.case.op.needs
    if not trial.answers.whole and not (trial.answers.special and smooth):
        for method in (jvp, vjp):
            try:
                outcomes.append(method(trial))
            except NotOffered:
                continue
            except Refused as error:
                outcomes.append(refusal(error))
    return [o for o in outcomes if o is not None] or None


def transpose(trial: Trial) -> Outcome | None:
    """⟨JVP(dx), g⟩ = ⟨dx, VJP(g)⟩ of the subject's own derivatives, within the sum of their
    bounds."""
    case, answers = trial.case, trial.answers
    pushed, pulled = trial.jvp(), trial.vjp()
    results = [np.asarray(pushed), *map(np.asarray, pulled)]
    if not all(np.isfinite(r.astype(float)).all() for r in (*results, *case.tangents, case.cotangent)):
        return None
    if results[0].shape != case.cotangent.shape or any(
        p.shape != x.shape for p, x in zip(results[1:], case.operands, strict=True)
    ):
        return None
    key = tuple((r.dtype, r.tobytes()) for r in results)
    known: Outcome | None = answers.adjoints.get(key)  # most right subjects agree in every bit
    outcome = _adjoints(trial, results) if known is None else known
    answers.adjoints[key] = outcome
    return outcome


def _adjoints(trial: Trial, results: list[Array]) -> Outcome:
    case, answers = trial.case, trial.answers
    tangents, arriving = [bounds.fractions(t) for t in case.tangents], bounds.fractions(case.cotangent)
    left = inner(bounds.fractions(results[0]), arriving)
    right = sum(inner(t, bounds.fractions(p)) for t, p in zip(tangents, results[1:], strict=True))
    allowed = inner(np.abs(arriving), answers.jvp.bound)
    allowed += sum(inner(np.abs(t), a.bound) for t, a in zip(tangents, answers.vjp, strict=True))
    return _equal("⟨JVP(dx), g⟩", left, "⟨dx, VJP(g)⟩", right, allowed)


def witness(trial: Trial) -> Outcome | None:
    """The subject's derivative is what Dual numbers find in the value alone, without any rule for
    slopes."""
    answers = trial.answers
    pushed = _offered(trial.jvp)
    if pushed is not None:
        return compare("JVP", pushed, answers.witness, answers.dtype)
    pulled = trial.vjp()
    if any(
        np.shape(p) != x.shape or not np.isfinite(np.asarray(p, float)).all()
        for p, x in zip(pulled, trial.case.operands, strict=True)
    ):
        return None
    tangents, arriving = [bounds.fractions(t) for t in trial.case.tangents], bounds.fractions(trial.case.cotangent)
    right = sum(inner(t, bounds.fractions(np.asarray(p))) for t, p in zip(tangents, pulled, strict=True))
    allowed = sum(inner(np.abs(t), a.bound) for t, a in zip(tangents, answers.vjp, strict=True))
    return _equal("⟨dy of the Dual witness, g⟩", inner(answers.witness.exact, arriving), "⟨dx, VJP(g)⟩", right, allowed)


def unmodified(trial: Trial) -> Outcome | None:
    """No call writes into its inputs, tangents or cotangents."""
    trial.forward()
    for method in (trial.jvp, trial.vjp):
        _offered(method)
    if not trial.modified:
        return Outcome()
    culprit, what = next(iter(trial.modified.items()))
    return Outcome(words=f"{culprit} writes into {what}", part=f"arguments of {culprit}")


def deterministic(trial: Trial) -> Outcome | None:
    """Equal calls give equal bits."""
    results = [("value", trial.forward(), trial.again("forward"))]
    pulled = None if trial.answers.whole else _offered(trial.vjp)
    if pulled is not None:
        names = (f"VJP of {name}" for name in _names(trial))
        results += zip(names, pulled, trial.again("vjp", trial.case.cotangent), strict=False)
    for part, once, again in results:
        if not same_bits(once, again):
            words = f"the same call gave two results: {part}"
            return Outcome(words=words, part=part, expected=np.asarray(once), got=np.asarray(again))
    return Outcome()


RADIUS = 0.125
"""How far around the first operand bounds are asked for; half as far they must hold what the
specification computes."""


def encloses(trial: Trial) -> Outcome | None:
    """Bounds on a box around the first operand hold the values at inputs inside of it.

    The inputs lie in the middle and half way to two corners, so that no rounding of the bounds is
    at stake.
    """
    case = trial.case
    x, *rest = case.operands
    got = np.asarray(trial.bounds(np.full(x.shape, RADIUS, x.dtype)))
    if got.shape != (2, *case.cotangent.shape):
        words = f"the bounds have shape {got.shape}, not {(2, *case.cotangent.shape)}"
        return Outcome(words=words, part="shape of the bounds", got=got.shape, expected=(2, *case.cotangent.shape))
    for way in (0, RADIUS / 2, -RADIUS / 2):
        moved = np.asarray(x + x.dtype.type(way), x.dtype)
        answer = trial.answers.value if not way else Answers(replace(case, operands=(moved, *rest))).value
        for cell in np.ndindex(answer.near.shape):
            low, high = (float(end[cell]) for end in got)
            exact, bound = answer.exact[cell], answer.bound[cell]
            apart = [Fraction(end) - exact if np.isfinite(end) else end for end in (low, high)]
            if not (low <= high and apart[0] <= bound and -apart[1] <= bound):
                words = (
                    f"bounds at {list(cell)} are {number(low)} and {number(high)}, "
                    f"of {number(float(exact))} at an input inside"
                )
                return Outcome(words=words, part="bounds", cell=cell, expected=answer.near, got=got)
    return Outcome()


def _asks_bounds(answers: Answers) -> bool:
    """Finite floats, beside which the radius is no trifle."""
    if answers.dtype not in (np.float32, np.float64) or answers.special:
        return False
    return all(float(np.abs(x).max(initial=0)) <= 2.0**12 for x in answers.case.operands)


class Claim(NamedTuple):
    """A claim about a subject: in words, how a case is judged, and which cases ask it."""

    words: str
    judge: Callable[[Trial], Outcome | list[Outcome] | None] | None = None
    """None: the claim brings cases of its own."""
    asked: Callable[[Answers], bool] = lambda answers: True
    conduct: bool = False
    """Whether a refusal is told under other claims, which wanted the result."""

    def asks(self, answers: Answers) -> bool:
        """Whether a case is one for this claim."""
        return self.judge is not None and self.asked(answers)


def _about(aspect: str, derivative: bool = False) -> Callable[[Answers], bool]:
    return lambda answers: answers.aspect == aspect and not (derivative and answers.whole)


def _asks_witness(answers: Answers) -> bool:
    tied = answers.aspect == "ties" and getattr(answers.case.op, "ties", "first") != "first"
    return not (answers.whole or answers.special or tied)


CLAIMS: dict[str, Claim] = {
    "shape": Claim("the shape formula", shape, conduct=True),
    "dtype": Claim("the input's dtype is kept", dtype, conduct=True),
    "value": Claim("the value", value, _about("")),
    "jvp": Claim("the JVP", jvp, _about("", derivative=True)),
    "vjp": Claim("the VJP", vjp, _about("", derivative=True)),
    "adjoint": Claim("JVP and VJP are adjoint", transpose, lambda answers: not answers.whole, conduct=True),
    "witness": Claim("the derivative is that of the value (Dual witness)", witness, _asks_witness, conduct=True),
    "second": Claim("second order", second, lambda answers: not (answers.whole or answers.special)),
    "padding": Claim("the part that padding takes", parts, _about("padding")),
    "ties": Claim("tied maxima", parts, _about("ties")),
    "nan": Claim("NaN", parts, _about("NaN")),
    "infinity": Claim("infinities", parts, _about("infinity")),
    "encloses": Claim("bounds hold every value", encloses, _asks_bounds),
    "unmodified": Claim("inputs are not modified", unmodified, conduct=True),
    "deterministic": Claim("equal calls give equal bits", deterministic, conduct=True),
    "fixed": Claim("the published answers"),
    "refuses": Claim("what does not fit is refused"),
}


def head(claim: str) -> str:
    """The head of a claim's column: enough of its name to be told from the others, also after
    `--claim`."""
    return claim[:3]


def claim_called(name: str) -> str:
    """The claim with this name, or the one whose name begins so; raises ValueError with those there
    are."""
    begun = [claim for claim in CLAIMS if claim.startswith(name)] if name not in CLAIMS else [name]
    if len(begun) != 1 or not name:
        raise ValueError(suggestion(name, CLAIMS))
    return begun[0]


def _names(trial: Trial) -> list[str]:
    return [slot.name for slot in trial.case.op.slots]


def _offered(method: Callable[[], Any]) -> Any:
    """A result, or None where the subject does not give one."""
    try:
        return method()
    except Crashed:
        raise
    except (NotOffered, Refused):
        return None


def _shaped(part: str, got: Any, wanted: tuple[int, ...]) -> Outcome:
    shape = np.shape(got)
    words = None if shape == wanted else f"the {part} has shape {shape}, not {wanted}"
    return Outcome(words=words, part=f"shape of the {part}", expected=wanted, got=shape)


def _each(part: str, trial: Trial, got: tuple[Any, ...], answers: list[Answer]) -> Outcome | None:
    outcomes = []
    for name, result, answer in zip(_names(trial), got, answers, strict=False):
        given = np.zeros(answer.near.shape) if result is None else result
        outcomes.append(compare(f"{part} {name}", given, answer, trial.answers.dtype))
    judged = [o for o in outcomes if o is not None]
    return worst(judged) if len(judged) == len(outcomes) else None


def refusal(error: Refused) -> Outcome:
    """The outcome of a legal case that was refused, or that ended the process."""
    return Outcome(words=str(error), part=f"{'ended' if isinstance(error, Crashed) else 'refused'} by {error.method}")


def _equal(left_words: str, left: Any, right_words: str, right: Any, allowed: Any) -> Outcome:
    distance = abs(left - right)
    share = 0.0 if distance == 0 else float(distance / allowed) if allowed else float("inf")
    if share <= 1:
        return Outcome(share)
    words = f"{left_words} = {number(left)} but {right_words} = {number(right)}"
    return Outcome(share, words=words, part="inner products", expected=left_words, got=right_words)
