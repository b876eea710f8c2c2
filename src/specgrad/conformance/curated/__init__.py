"""The deterministic curated cases of every operator, each with a title; mistakes that real projects
shipped are all here.

Numbers are distinct unless a case is about ties, so that no other question is asked by accident.
Sums hold thirds, so that every order of summation rounds differently. What a case is about
(padding, ties, NaN, infinity) is read off the case itself.
"""

from __future__ import annotations

from typing import Any

from ...arguments import suggestion
from ...operator import Operator
from . import bilinear, pooling
from .windows import FLOATS, NamedCase, directed, distinct, row

__all__ = ["NUMERIC", "WINDOWED", "NamedCase", "curated", "directed", "distinct", "operator_called", "row"]

NUMERIC = frozenset(
    {
        *("subnormal numbers", "large offsets", "the lowest finite number", "a mean of large offsets"),
        *("a running sum must not lose precision", "cancellation of large terms", *FLOATS),
    }
)
"""The titles of plain cases about numbers; of those about windows, a run of a slow subject may
leave some out."""

_LISTS = {**pooling.LISTS, **bilinear.LISTS}

WINDOWED = tuple(_LISTS)
"""The operators that have curated cases: those with windows."""


def operator_called(name: Any) -> type[Operator]:
    """The operator with this name, `MaxPool` or `max_pool`, or the class itself; raises ValueError
    with those there are."""
    for kind in WINDOWED:
        if name in (kind, kind.__name__, kind.name):
            return kind
    raise ValueError(suggestion(name, [kind.__name__ for kind in WINDOWED]))


def curated(kind: type[Operator]) -> list[NamedCase]:
    """The curated cases of an operator."""
    return list(_LISTS[kind]())
