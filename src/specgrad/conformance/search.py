"""Search by Hypothesis: equal seeds draw equal cases, nothing is stored, and there are no deadlines
per case."""

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
    """Visit `examples` cases. With `shrink`, after a case raises, visit smaller cases that raise
    too, the smallest last."""

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
    """`count` cases, the same for the same seed."""
    found: list[One] = []
    if count > 0:
        search(cases, count, start, found.append)
    return found


class TimeUp(KeyboardInterrupt):
    """Ends a search, after its time or enough cases: Hypothesis passes on a KeyboardInterrupt at
    once."""


def smallest(
    cases: st.SearchStrategy[One],
    fails: Callable[[One], bool],
    size: Callable[[One], Any],
    start: int,
    seconds: float,
    examples: int,
) -> One | None:
    """The smallest failing case found in this many seconds of processor time; of equally small
    cases the last."""
    best: One | None = None
    least: Any = None
    end, latest = time.process_time() + seconds, time.monotonic() + 20 * seconds  # a subject may run in another process

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
    except Exception as error:  # Hypothesis reports a non-deterministic subject as flaky; the best case so far is kept
        if "hypothesis" not in type(error).__module__:
            raise
    return best
