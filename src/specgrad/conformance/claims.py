"""Claims about a subject: one function per claim, and one record in `CLAIMS`.

A claim returns an Outcome for a case, or None if a result cannot be compared because its shape is
wrong: the claim `shape` reports this. A case with NaN, infinity, ties or padding counts for the
claim of that name, all other cases for value, JVP and VJP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..arguments import suggestion
from ..drawing.window import number
from . import bounds, statements
from .compare import Outcome, compare, same_bits, worst
from .expected import Answer, Answers
from .statements import Statement, inner
from .subject import NotOffered
from .trial import Crashed, Refused, Trial

Array = np.ndarray[Any, Any]


def shape(trial: Trial) -> Outcome | None:
    """The output has the shape of the formula; tangents have the output's shape, cotangents the
    inputs' shapes."""
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
    """Value, JVP and VJP, as far as they are offered; for smooth maxima with NaN or infinity, the
    value alone."""
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
    known: Outcome | None = answers.adjoints.get(key)  # most correct subjects return the same bits
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
    """The subject's derivative is the tangent that Dual numbers give in `value`, which has no rule
    for slopes."""
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
            return Outcome(words=words, part=f"repeated {part}", expected=np.asarray(once), got=np.asarray(again))
    return Outcome()


RADIUS = 0.125
"""The half-width of the box around the first operand for which bounds are requested. Inputs half as
far away must have values inside of the bounds."""


def encloses(trial: Trial) -> Outcome | None:
    """Bounds on a box around the first operand contain the values at inputs inside of the box.

    The inputs are the centre and the points half way to two corners, so that the rounding of the
    bounds does not matter.
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
    """Whether all operands are finite floats of at most 2^12, for which the radius is not lost to
    rounding."""
    if answers.dtype not in (np.float32, np.float64) or answers.special:
        return False
    return all(float(np.abs(x).max(initial=0)) <= 2.0**12 for x in answers.case.operands)


class Claim(NamedTuple):
    """A claim about a subject: its words, its judge, and the cases to which it applies."""

    words: str
    judge: Callable[[Trial], Outcome | list[Outcome] | None] | None = None
    """None: the claim brings cases of its own."""
    asked: Callable[[Answers], bool] = lambda answers: True
    conduct: bool = False
    """Whether refusals are reported under the other claims, which need the result."""
    stated: Statement | None = None
    """The same claim for a user's operator, whose only specification is its own value."""

    def asks(self, answers: Answers) -> bool:
        """Whether the claim applies to a case."""
        return self.judge is not None and self.asked(answers)


def _about(aspect: str, derivative: bool = False) -> Callable[[Answers], bool]:
    return lambda answers: answers.aspect == aspect and not (derivative and answers.whole)


def _asks_derivatives(answers: Answers) -> bool:
    return not answers.whole


def _asks_second(answers: Answers) -> bool:
    return not (answers.whole or answers.special)


def _asks_witness(answers: Answers) -> bool:
    tied = answers.aspect == "ties" and getattr(answers.case.op, "ties", "first") != "first"
    return not (answers.whole or answers.special or tied)


CLAIMS: dict[str, Claim] = {
    "shape": Claim("the shape formula", shape, conduct=True, stated=statements.SHAPE),
    "dtype": Claim("the input's dtype is kept", dtype, conduct=True, stated=statements.DTYPE),
    "value": Claim("the value", value, _about(""), stated=statements.VALUE),
    "jvp": Claim("the JVP", jvp, _about("", derivative=True)),
    "vjp": Claim("the VJP", vjp, _about("", derivative=True)),
    "adjoint": Claim("JVP and VJP are adjoint", transpose, _asks_derivatives, True, statements.ADJOINT),
    "witness": Claim(
        "the derivative is that of the value (Dual witness)", witness, _asks_witness, True, statements.WITNESS
    ),
    "second": Claim("second order", second, _asks_second, stated=statements.SECOND),
    "padding": Claim("padding", parts, _about("padding")),
    "ties": Claim("tied maxima", parts, _about("ties")),
    "nan": Claim("NaN", parts, _about("NaN")),
    "infinity": Claim("infinities", parts, _about("infinity")),
    "encloses": Claim("bounds hold every value", encloses, _asks_bounds),
    "unmodified": Claim("inputs are not modified", unmodified, conduct=True, stated=statements.UNMODIFIED),
    "deterministic": Claim("equal calls give equal bits", deterministic, conduct=True, stated=statements.DETERMINISTIC),
    "fixed": Claim("the published answers"),
    "refuses": Claim("invalid calls are refused"),
}


def head(claim: str) -> str:
    """The first letters of a claim's name, which head its column and are accepted by `--claim`."""
    return claim[:3]


def claim_called(name: str) -> str:
    """The claim with this name or prefix; raises ValueError with the names of all claims."""
    begun = [claim for claim in CLAIMS if claim.startswith(name)] if name not in CLAIMS else [name]
    if len(begun) != 1 or not name:
        raise ValueError(suggestion(name, CLAIMS))
    return begun[0]


def _names(trial: Trial) -> list[str]:
    return [slot.name for slot in trial.case.op.slots]


def _offered(method: Callable[[], Any]) -> Any:
    """A result, or None if the subject does not offer or refuses it."""
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
    """The outcome of a legal case that was refused, or during which the process ended."""
    return Outcome(words=str(error), part=f"{'ended' if isinstance(error, Crashed) else 'refused'} by {error.method}")


def _equal(left_words: str, left: Any, right_words: str, right: Any, allowed: Any) -> Outcome:
    distance = abs(left - right)
    share = 0.0 if distance == 0 else float(distance / allowed) if allowed else float("inf")
    if share <= 1:
        return Outcome(share)
    words = f"{left_words} = {number(left)} but {right_words} = {number(right)}"
    return Outcome(share, words=words, part="inner products", expected=left_words, got=right_words)
