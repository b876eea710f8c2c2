"""Checks for a user's pytest suite: one check per operator and claim of a subject."""

from __future__ import annotations

from typing import Any

from ..drawing.window import as_text
from ..operator import Operator
from .claims import CLAIMS, claim_called
from .curated import WINDOWED, operator_called
from .runner import Effort, Session


class Check:
    """One claim about one operator of a subject. A call raises AssertionError with the
    counterexample, or skips."""

    def __init__(self, subject: Any, kind: type[Operator], claim: str, session: Session) -> None:
        self.subject, self.kind, self.claim, self.session = subject, kind, claim, session

    def __call__(self) -> None:
        __tracebackhide__ = True
        import pytest

        self.session.claims = (self.claim,)
        (cell,) = self.session.one(self.subject, self.kind, self.session.effort.examples)
        broken = [*cell.differences, *cell.refusals]
        if broken:
            told = [(cell.sentence(d), d.likeness, d.python, d.picture and as_text(d.picture)) for d in broken]
            raise AssertionError("\n".join(part for parts in told for part in parts if part))
        if cell.status == "not tried":
            raise AssertionError(f"{self!r} was not tried: no result could be compared")
        if not cell.cases:
            pytest.skip(cell.not_offered or "no case asks this")

    def __repr__(self) -> str:
        return f"{self.kind.__name__}-{self.claim}"


def pytest_cases(
    subject: Any, *, operators: Any = None, claims: Any = None, examples: int = 10, seed: int = 0
) -> list[Any]:
    import pytest

    kinds = [operator_called(one) for one in _listed("operators", operators, [kind.__name__ for kind in WINDOWED])]
    wanted = [claim_called(one) for one in _listed("claims", claims, list(CLAIMS))]
    session = Session(Effort(examples, examples, 2.0), seed)  # shared: cases and answers are computed once
    return [
        pytest.param(Check(subject, kind, claim, session), id=f"{kind.__name__}-{claim}")
        for kind in kinds
        for claim in wanted
    ]


def _listed(argument: str, given: Any, names: list[str]) -> list[Any]:
    """What a list names, or all names; raises ValueError for a list that selects nothing."""
    chosen = names if given is None else [] if isinstance(given, str) else list(given)
    if not chosen:
        rule = "must be a list of at least one name"
        raise ValueError(f"pytest_cases: {argument}={given!r}: {rule}; choose from {', '.join(names)}")
    return chosen
