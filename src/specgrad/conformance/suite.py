"""A user's own pytest suite: one check per operator and claim of a subject."""

from __future__ import annotations

from typing import Any

from ..operator import Operator
from .runner import ALL_CLAIMS, Effort, Session, claim_called
from .telling import WINDOWED, operator_called
from .words import drawn, likeness, pasteable, sentence


class Check:
    """One claim about one operator of a subject; call it: it raises AssertionError with the counterexample, or skips."""

    def __init__(self, subject: Any, kind: type[Operator], claim: str, session: Session) -> None:
        self.subject, self.kind, self.claim, self.session = subject, kind, claim, session

    def __call__(self) -> None:
        __tracebackhide__ = True
        import pytest

        self.session.claims = (self.claim,)
        (cell,) = self.session.one(self.subject, self.kind, self.session.effort.examples)
        broken = [*cell.differences, *cell.refusals]
        if broken:
            parts = [
                part for d in broken for part in (sentence(cell, d), likeness(d), pasteable(d, None), drawn(d)) if part
            ]
            raise AssertionError("\n".join(parts))
        if not cell.cases:
            pytest.skip(cell.not_offered or "no case asks this")

    def __repr__(self) -> str:
        return f"{self.kind.__name__}-{self.claim}"


def pytest_cases(
    subject: Any, *, operators: Any = None, claims: Any = None, examples: int = 10, seed: int = 0
) -> list[Any]:
    import pytest

    kinds = [operator_called(one) for one in (WINDOWED if operators is None else operators)]
    wanted = [claim_called(one) for one in (ALL_CLAIMS if claims is None else claims)]
    session = Session(Effort(examples, examples, 2.0), seed)  # cases and their answers are worked out once for all
    return [
        pytest.param(Check(subject, kind, claim, session), id=f"{kind.__name__}-{claim}")
        for kind in kinds
        for claim in wanted
    ]
