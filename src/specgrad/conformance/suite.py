"""A user's own pytest suite: one check per operator and claim of a subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..operator import Operator
from .runner import ALL_CLAIMS, Effort, Session
from .telling import WINDOWED
from .words import drawn, likeness, pasteable, sentence


class Check:
    """One claim about one operator of a subject; call it: it raises AssertionError with the counterexample, or skips."""

    def __init__(self, subject: Any, kind: type[Operator], claim: str, examples: int, seed: int) -> None:
        self.subject, self.kind, self.claim, self.examples, self.seed = subject, kind, claim, examples, seed

    def __call__(self) -> None:
        import pytest

        session = Session(Effort(self.examples, self.examples, 2.0), self.seed, (self.claim,))
        (cell,) = session.one(self.subject, self.kind, self.examples)
        broken = [*cell.differences, *cell.refusals]
        if broken:
            parts = [
                part
                for d in broken
                for part in (sentence(cell, d), likeness(d), pasteable(d, self.subject.name), drawn(d))
                if part
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

    kinds = [kind for kind in WINDOWED if operators is None or kind in operators or kind.__name__ in operators]
    wanted: Sequence[str] = [claim for claim in ALL_CLAIMS if claims is None or claim in claims]
    return [
        pytest.param(Check(subject, kind, claim, examples, seed), id=f"{kind.__name__}-{claim}")
        for kind in kinds
        for claim in wanted
    ]
