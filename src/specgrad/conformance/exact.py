"""The specification against itself, over exact scalars: published answers, Dual witness and adjointness of every operator.

Fractions, and Decimals where an exponential is needed; operators without windows are here too. Cases are searched and shrunk by
Hypothesis from the strategies that the tests use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .. import dispatch
from ..operator import Operator
from ..ops import OPERATORS
from . import claims, refusals
from .cases import STRATEGIES, Case
from .judge import Outcome
from .runner import Cell, Difference
from .search import drawn, search

NAME = "specgrad exact"

EXACT: dict[str, Callable[..., str | None]] = {"adjoint": claims.adjoint, "witness": claims.dual_witness}


def cells(
    examples: int, start: int, wanted: Sequence[str], kinds: Sequence[type[Operator]] = OPERATORS
) -> Iterator[Cell]:
    """The claims about the specification itself that are among the wanted ones, one after the other."""
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
        cell.cases += 1
        with dispatch.engine("reference"):  # the specification, not the engine that a call would find
            words = claims.fixed_answer(answer)
        if words is not None:
            case = Case(answer.op, answer.operands, (), np.asarray(answer.value, float))
            cell.differences.append(Difference("a published answer", case, Outcome(words=words, part="exact")))
    return cell


def _tried(
    kind: type[Operator], name: str, claim: Callable[..., str | None], cases: Sequence[Case], start: int
) -> Cell:
    """The claim on cases that were drawn for all claims together; where it breaks, a search of its own shrinks the case."""
    cell = Cell(NAME, kind.__name__, name)
    for case in cases:
        cell.cases += 1
        words = _broken(kind, claim, case)
        if words:
            smaller = _shrunk(kind, claim, len(cases), start) or (case, words)
            cell.differences.append(Difference("found by search", smaller[0], Outcome(words=smaller[1], part="exact")))
            break
    return cell


def _broken(kind: type[Operator], claim: Callable[..., str | None], case: Case) -> str | None:
    try:
        return claim(case, Decimal if "exp" in kind.needs else Fraction)
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
