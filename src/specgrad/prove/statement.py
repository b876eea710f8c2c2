"""Statements, their verdicts, and calls of z3, for all families."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import z3

Claim = TypeVar("Claim", bound=Callable[..., Any])
ATTEMPTS, STEPS = 5, 2_000_000  # about half a second


class Unmet(Exception):
    """The numbers do not meet an assumption of the statement."""


@dataclass(frozen=True)
class Statement:
    """A claim in words and as a function; `holds` is False for a false belief, to be refuted."""

    words: str
    claim: Callable[..., Any]
    holds: bool = True


class Statements(list[Any]):
    """The statements of a family, in order; the decorators `holds` and `believed` add to the
    list."""

    def __init__(self, make: Callable[..., Any] = Statement) -> None:
        super().__init__()
        self.make = make

    def holds(self, words: str, **about: Any) -> Callable[[Claim], Claim]:
        """A decorator that adds a statement to be proved."""
        return self._enter(words, True, about)

    def believed(self, words: str, **about: Any) -> Callable[[Claim], Claim]:
        """A decorator that adds a common belief, to be refuted."""
        return self._enter(words, False, about)

    def _enter(self, words: str, holds: bool, about: dict[str, Any]) -> Callable[[Claim], Claim]:
        def enter(claim: Claim) -> Claim:
            self.append(self.make(words, claim, holds, **about))
            return claim

        return enter


@dataclass(frozen=True)
class Verdict:
    """The outcome: "proved", "refuted" with a counterexample, or "undecided" with a reason."""

    status: str
    seconds: float
    counterexample: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Found:
    """The verdict on one case of a statement about a subject, for example an operator."""

    subject: str
    words: str
    holds: bool
    case: str
    verdict: Verdict

    @property
    def as_stated(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.verdict.status == ("proved" if self.holds else "refuted")


def solved(formulas: Sequence[Any], deadline: float = math.inf) -> Any:
    """None if the formulas have no model; else a model, or z3's reason for having neither.

    Two strategies alternate, with growing limits. Limits count z3's own steps, and each attempt has
    its own context, so that no result depends on the load of the machine or on earlier calls.
    `deadline` (as `time.time()`) ends a run early.
    """
    reason = "out of time"
    for attempt in range(2 * ATTEMPTS):
        left = deadline - time.time()
        if left <= 0:
            break
        context = z3.Context()
        solver = z3.Solver(ctx=context)
        if attempt % 2 == 0:
            steps = [z3.Tactic(name, ctx=context) for name in ("simplify", "propagate-values", "solve-eqs", "smt")]
            solver = z3.Then(*steps, ctx=context).solver()
        solver.set("rlimit", STEPS << attempt // 2)
        if left < math.inf:
            solver.set("timeout", math.ceil(1000 * left))
        solver.set("random_seed", attempt)
        solver.add(*(formula.translate(context) for formula in formulas))
        outcome = solver.check()
        if outcome == z3.unsat:
            return None
        if outcome == z3.sat:
            return solver.model()
        reason = solver.reason_unknown()
    return reason
