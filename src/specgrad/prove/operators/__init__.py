"""Statements about operators, for all real inputs of a geometry.

The specification runs over z3 terms. z3 has no exp and no log, so smooth maxima are left out. Real
numbers are not floats: the statements do not cover rounding, NaN, infinities and the sign of zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..statement import Found
from . import rows, values  # importing them registers their statements
from .cases import cases
from .vocabulary import STATEMENTS, Case, check, decide

__all__ = ["STATEMENTS", "Case", "check", "rows", "run", "tasks", "values"]


def tasks() -> list[Case]:
    """One task per case: an operator and the shapes of its operands."""
    return list(cases())


def run(task: Case, deadline: float) -> Iterator[Found]:
    """Decide every statement about a case."""
    for statement in STATEMENTS:
        if statement.takes(task):
            verdict = decide(statement, task, deadline)
            yield Found(task.op.name, statement.words, statement.holds, str(task), verdict)
