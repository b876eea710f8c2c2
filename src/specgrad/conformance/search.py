"""How Hypothesis is asked: equal seeds draw equal cases, nothing is stored, and nothing is judged
by the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

One = TypeVar("One")


def search(
    cases: st.SearchStrategy[One], examples: int, start: int, visit: Callable[[One], Any], shrink: bool = False
) -> None:
    """Visit so many cases; where one raises and `shrink` is asked for, visit smaller ones that
    raise too, the smallest last."""

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
    )
    @given(cases)
    def each(case: Any) -> None:
        visit(case)

    each()


def drawn(cases: st.SearchStrategy[One], count: int, start: int) -> list[One]:
    """So many cases, the same for the same seed."""
    found: list[One] = []
    if count > 0:
        search(cases, count, start, found.append)
    return found
