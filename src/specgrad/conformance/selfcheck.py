"""The self-check of `specgrad check`: every operator against its fixed answers, its Dual witness and its own adjoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

from ..operator import Operator
from ..ops import OPERATORS
from . import claims
from .cases import FIXED, STRATEGIES, Case


class Finding(NamedTuple):
    """What became of one claim about one operator: how many cases were tried, and the smallest that breaks it."""

    operator: str
    claim: str
    cases: int
    difference: str | None


def run(examples: int = 40, start: int = 0) -> Iterator[Finding]:
    """Every operator under every claim; findings come as they are made."""
    for kind in OPERATORS:
        fixed = [answer for answer in FIXED if type(answer.op) is kind]
        wrong = next((w for w in map(claims.fixed_answer, fixed) if w), None)
        yield Finding(kind.__name__, "fixed answers", len(fixed), wrong)
        for name, claim in (("Dual witness", claims.dual_witness), ("adjoint", claims.adjoint)):
            yield search(kind, name, claim, examples, start)


def search(kind: type[Operator], name: str, claim: Callable[..., str | None], examples: int, start: int) -> Finding:
    """Search for a case that breaks the claim, and shrink it."""
    scalar = Decimal if "exp" in kind.needs else Fraction
    tried: list[Case] = []
    failures: list[str] = []

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(STRATEGIES[kind])
    def attempt(case: Case) -> None:
        tried.append(case)
        try:
            difference = claim(case, scalar)
        except Exception as error:  # whatever a claim meets is a finding
            difference = f"{case!r}: {type(error).__name__}: {error}"
        if difference:
            failures.append(difference)
            raise AssertionError(difference)

    try:
        attempt()
    except AssertionError:
        return Finding(kind.__name__, name, len(tried), failures[-1])
    return Finding(kind.__name__, name, len(tried), None)
