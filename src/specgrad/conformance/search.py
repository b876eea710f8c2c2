"""How Hypothesis is asked: equal seeds draw equal cases, nothing is stored, and nothing is judged
by the clock."""

from __future__ import annotations

import time
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


class TimeUp(KeyboardInterrupt):
    """Ends a search, when it has had its time or enough cases: Hypothesis passes on an interruption
    at once."""


def smallest(
    cases: st.SearchStrategy[One],
    fails: Callable[[One], bool],
    size: Callable[[One], Any],
    start: int,
    seconds: float,
    examples: int,
) -> One | None:
    """The smallest failing case that was found in so many seconds of processor time; of those as
    small, the last."""
    best: One | None = None
    least: Any = None
    end, latest = time.process_time() + seconds, time.monotonic() + 20 * seconds  # a subject may be elsewhere

    def attempt(case: One) -> None:
        nonlocal best, least
        if time.process_time() > end or time.monotonic() > latest:
            raise TimeUp
        if fails(case):
            if best is None or size(case) <= least:
                best, least = case, size(case)
            raise AssertionError

    try:
        search(cases, examples, start, attempt, shrink=True)
    except (AssertionError, TimeUp):
        pass
    except Exception as error:  # a subject that does not repeat itself is reported as flaky; what was found stands
        if "hypothesis" not in type(error).__module__:
            raise
    return best
