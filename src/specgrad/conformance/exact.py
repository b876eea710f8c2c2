"""The specification against itself, over exact scalars: published answers, Dual witness and
adjointness of every operator.

Fractions, and Decimals where an exponential is needed; operators without windows are here too.
Cases are searched and shrunk by Hypothesis from the strategies that the tests use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from .. import dispatch
from ..operator import Operator
from ..ops import OPERATORS
from . import claims, refusals
from .cases import STRATEGIES, Case
from .cells import Cell, Difference
from .compare import Outcome
from .messages import array_words, imports
from .search import drawn, search

NAME = "specgrad exact"

EXACT: dict[str, Callable[..., str | None]] = {"adjoint": claims.adjoint, "witness": claims.dual_witness}


def cells(
    examples: int, start: int, wanted: Sequence[str], kinds: Sequence[type[Operator]] = OPERATORS
) -> Iterator[Cell]:
    """The claims about the specification itself that are among the wanted ones, one after the
    other."""
    for kind in kinds:
        if "fixed" in wanted:
            yield _fixed(kind)
        chosen = {name: claim for name, claim in EXACT.items() if name in wanted}
        cases = drawn(STRATEGIES[kind], examples, start) if chosen else []
        for name, claim in chosen.items():
            yield _tried(kind, name, claim, cases, start)


def _fixed(kind: type[Operator]) -> Cell:
    cell = Cell(NAME, kind.__name__, "fixed")
    for answer in refusals.fixed_of(kind):
        cell.asked += 1
        with dispatch.engine("reference"):  # the specification, not the engine that a call would find
            words = claims.fixed_answer(answer)
        for broken in cell.tried([Outcome(words=words, part="exact")]):
            case = refusals.fixed_case(answer)
            cell.differences.append(Difference("a published answer", broken, pasteable(case, "fixed"), case))
    return cell


def _tried(
    kind: type[Operator], name: str, claim: Callable[..., str | None], cases: Sequence[Case], start: int
) -> Cell:
    """The claim on cases that were drawn for all claims together; where it breaks, a search of its
    own shrinks the case."""
    cell = Cell(NAME, kind.__name__, name)
    for case in cases:
        cell.asked += 1
        if cell.tried([Outcome(words=_broken(kind, claim, case), part="exact")]):
            found, words = _shrunk(kind, claim, len(cases), start) or (case, _broken(kind, claim, case))
            outcome = Outcome(words=words, part="exact")
            cell.differences.append(Difference("found by search", outcome, pasteable(found, name), found))
            break
    return cell


def _scalar(kind: type[Operator]) -> type:
    """The exact scalars of an operator."""
    return Decimal if "exp" in kind.needs else Fraction


SHOWN = {
    "fixed": ["print(op(*inputs))", "print(op.vjp(inputs, cotangent))"],
    "witness": [
        "moving = [x if slot.integer else Dual(x, t) for x, t, slot in zip(inputs, tangents, op.slots)]",
        "print(op.jvp(inputs, tangents)[1])",
        "print(op(*moving).tangent)  # expected to be the same: what Dual numbers find in the value",
    ],
    "adjoint": [
        "print(np.sum(op.jvp(inputs, tangents)[1] * cotangent))  # ⟨JVP(dx), g⟩",
        "pulled = zip(tangents, op.vjp(inputs, cotangent))",
        "print(sum(np.sum(t * p) for t, p in pulled if t is not None and p is not None))  # ⟨dx, VJP(g)⟩: the same",
    ],
}
"""What a counterexample prints: two things that should be equal, or what is to be compared with the
published answer."""


def pasteable(case: Case, claim: str) -> str:
    """Python that shows how the specification of an operator breaks a claim about it."""
    if claim == "witness":
        case = replace(case, operands=claims.without_ties(case.op, case.operands))
    exact = "({})" if claim == "fixed" else "exact({})"  # a published answer may be infinite
    forms = ["{}" if slot.integer else exact for slot in case.op.slots]
    inputs = [form.format(array_words(x)) for x, form in zip(case.operands, forms, strict=False)]
    tangents = ["None" if f == "{}" else f.format(array_words(t)) for t, f in zip(case.tangents, forms, strict=False)]
    scalar = _scalar(type(case.op))
    lines = [*imports(case, "Dual", "engine"), f"from {scalar.__module__} import {scalar.__name__}"]
    lines += [f"exact = np.vectorize({scalar.__name__}, otypes=[object])"]
    lines += [f"op = {case.op!r}", f"inputs = ({', '.join(inputs)},)"]
    lines += [f"tangents = ({', '.join(tangents)},)", f"cotangent = {exact.format(array_words(case.cotangent))}"]
    return "\n".join([*lines, 'with engine("reference"):', *(f"    {line}" for line in SHOWN[claim])])


def _broken(kind: type[Operator], claim: Callable[..., str | None], case: Case) -> str | None:
    try:
        return claim(case, _scalar(kind))
    except Exception as error:  # whatever a claim meets is a finding
        return f"{case!r}: {type(error).__name__}: {error}"


def _shrunk(
    kind: type[Operator], claim: Callable[..., str | None], examples: int, start: int
) -> tuple[Case, str] | None:
    """Search anew for a case that breaks the claim, and shrink it."""
    failures: list[tuple[Case, str]] = []

    def attempt(case: Case) -> None:
        words = _broken(kind, claim, case)
        if words:
            failures.append((case, words))
            raise AssertionError(words)

    with contextlib.suppress(AssertionError):
        search(STRATEGIES[kind], examples, start, attempt, shrink=True)
    return failures[-1] if failures else None
