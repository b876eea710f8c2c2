"""The claims with cases of their own: invalid calls are refused, and published answers are met."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..operator import Operator
from ..ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    Linear,
    MaxPool,
    MinPool,
    SmoothMaxPool,
    SumPool,
)
from .cases import Case
from .compare import Outcome
from .curated import NamedCase, distinct
from .golden import FIXED, Fixed
from .subject import NotOffered
from .trial import Crashed, Refused, Trial

Array = np.ndarray[Any, Any]


def illegal() -> list[NamedCase]:
    """Operands that an operator must refuse. (Wrong parameters raise before a subject is
    called.)"""
    x, empty = distinct((1, 3, 4)), np.zeros((1, 1, 0, 3), np.float32)
    made: list[tuple[Any, ...]] = [
        ("the kernel exceeds the input", MaxPool((3,), stride=1), distinct((1, 1, 2))),
        ("the kernel exceeds the input", AvgPool((3,), stride=1), distinct((1, 1, 2))),
        ("the kernel exceeds the input", SmoothMaxPool((3,), stride=1, beta=1), distinct((1, 1, 2))),
        ("the kernel exceeds the input", MinPool((3,), stride=1), distinct((1, 1, 2))),
        ("the kernel exceeds the input", SumPool((3,), stride=1), distinct((1, 1, 2))),
        ("the kernel exceeds the padded input", MaxPool((2,), stride=1, dilation=3), distinct((1, 2, 3))),
        ("the kernel exceeds the padded input", AvgPool((3,), stride=1, padding=1), distinct((1, 2, 0))),
        ("an empty spatial axis", MaxPool((2, 2), stride=1, padding=1), empty),
        ("an empty spatial axis", AvgPool((2, 2), stride=1, padding=1), empty),
        ("an empty spatial axis", AdaptiveMaxPool((2, 2)), empty),
        ("an empty spatial axis", AdaptiveAvgPool((2, 2)), empty),
        ("channels that do not fit the weight", Conv((2,)), x, distinct((2, 2, 2))),
        ("channels that do not fit the weight", ConvTranspose((2,)), x, distinct((2, 2, 2))),
        ("channels that the groups do not divide", Conv((2,), groups=2), x, distinct((2, 1, 2))),
        ("the kernel exceeds the padded input", Conv((4,)), distinct((1, 1, 3)), distinct((1, 1, 4))),
        ("a bias that does not fit the weight", Conv((2,)), x, distinct((2, 3, 2)), distinct((3,))),
        ("nothing is left of the result", ConvTranspose((2,), padding=2), distinct((1, 1, 2)), distinct((1, 1, 2))),
        ("features that do not fit the weight", Linear(), distinct((2, 3)), distinct((2, 4))),
    ]
    return [NamedCase(title, Case(op, tuple(operands), (), np.zeros(0))) for title, op, *operands in made]


def refuses(subject: Any, one: NamedCase) -> Outcome:
    """Whether a subject refuses invalid operands with an error; raises NotOffered as the subject
    does."""
    try:
        got = Trial(subject, one.case).forward()
    except Crashed as error:
        return Outcome(words=f"{one.title}: {error}", part="ended by forward")
    except Refused:
        return Outcome()
    words = f"{one.title}: answered with an array of shape {np.shape(got)} instead of an error"
    return Outcome(words=words, part="refusal", expected="an error", got=got)


def fixed_case(answer: Fixed) -> Case:
    """A published answer as a case: zero tangents, and the published cotangent or ones."""
    cotangent = np.ones(np.shape(answer.value)) if answer.cotangent is None else answer.cotangent
    return Case(answer.op, answer.operands, tuple(np.zeros_like(x) for x in answer.operands), cotangent)


def fixed(subject: Any, answer: Fixed) -> Outcome:
    """Whether value and cotangents are the published ones; raises NotOffered or Refused as the
    subject does."""
    trial = Trial(subject, fixed_case(answer))
    parts = [("value", trial.forward(), answer.value)]
    if answer.cotangent is not None:
        try:
            pulled = trial.vjp()
        except NotOffered:
            pulled = ()
        names = (f"VJP of {slot.name}" for slot in answer.op.slots)
        parts += zip(names, pulled, answer.pulled, strict=False)
    allowed = 0.0 if answer.digits is None else 0.5000001 * 10.0**-answer.digits
    for part, got, wanted in parts:
        if wanted is None:  # no derivative reaches this operand
            if got is not None:
                return Outcome(np.inf, words=f"there is a {part}", part=part, expected="nothing", got=got)
            continue
        expected = np.asarray(wanted, float)
        array = np.zeros(expected.shape) if got is None else np.asarray(got)
        if not _agrees(array, expected, allowed):
            words = f"{part} is {array.tolist()}, not {expected.tolist()}"
            return Outcome(np.inf, words=words, part=part, expected=expected, got=array)
    return Outcome()


def _agrees(array: Array, expected: Array, allowed: float) -> bool:
    if array.shape != expected.shape or array.dtype.kind not in "biufV":
        return False
    wide = array.astype(float)
    with np.errstate(invalid="ignore"):
        return bool(np.all((wide == expected) | (np.abs(wide - expected) <= allowed)))


def fixed_of(kind: type[Operator]) -> list[Fixed]:
    return [answer for answer in FIXED if type(answer.op) is kind]


def listed(kind: type[Operator]) -> Iterator[tuple[str, str, Case, Callable[[Any], Outcome]]]:
    """For each such case: the claim, the title, the case, and the function that judges a
    subject."""
    for answer in fixed_of(kind):
        yield "fixed", "a published answer", fixed_case(answer), functools.partial(fixed, answer=answer)
    for one in illegal():
        if type(one.case.op) is kind:
            yield "refuses", one.title, one.case, functools.partial(refuses, one=one)
