"""Statements about every geometry: all sizes, kernels, strides, paddings and dilations.

The formulas are those that the operators run (`specgrad.geometry`). A statement called with numbers
returns whether it holds for them, and raises `Unmet` if they violate its assumptions. The names of
its parameters give their ranges:

- `axis`: a sliding axis of either rounding; `floor`, `ceil`: a sliding axis of that rounding;
- `bins`: an adaptive axis;
- `n`, `m`, `k`, `s`, `d`: integers from 1; `o`, `i`, `j`, `c`, `t`, `extra`: integers from 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..integers import decide
from ..statement import Found

from . import lengths, taps, bins, layout  # noqa: F401 # isort: skip # in the order of the report
from .vocabulary import PARAMETERS, STATEMENTS

SUBJECT = "all geometries"


def tasks() -> list[int]:
    """One task per statement."""
    return list(range(len(STATEMENTS)))


def run(task: int, deadline: float) -> Iterator[Found]:
    """Decide a statement."""
    statement = STATEMENTS[task]
    yield Found(SUBJECT, statement.words, statement.holds, "", decide(statement, PARAMETERS, deadline))
