"""The deterministic curated cases of every operator, each with a title; they include the bugs that
other projects had.

Numbers are distinct unless a case is about ties, so that no case tests two rules by accident. Sums
are of thirds, so that every order of summation rounds differently. The subject of a case (padding,
ties, NaN, infinity) is found from the case itself.
"""

from __future__ import annotations

from typing import Any

from ...arguments import suggestion
from ...operator import Operator
from ...ops import OPERATORS
from . import bilinear, pooling
from .windows import FLOATS, NamedCase, directed, distinct, row

__all__ = ["NUMERIC", "WINDOWED", "NamedCase", "curated", "directed", "distinct", "operator_called", "row"]

NUMERIC = frozenset(
    {
        *("subnormal numbers", "large offsets", "the lowest finite number", "a mean of large offsets"),
        *("a running sum must not lose precision", "cancellation of large terms", *FLOATS),
    }
)
"""The titles of plain cases about numbers. A run of a slow subject may skip some of the cases about
windows, but none of these."""

_LISTS = {**pooling.LISTS, **bilinear.LISTS}

WINDOWED = tuple(_LISTS)
"""The operators with curated cases: those with windows."""


def operator_called(name: Any) -> type[Operator]:
    """The operator with this name (`MaxPool` or `max_pool`) or class; raises ValueError with all
    names."""
    for kind in WINDOWED:
        if name in (kind, kind.__name__, kind.name):
            return kind
    known = [kind.__name__ for kind in WINDOWED]
    if any(name in (kind, kind.__name__, kind.name) for kind in OPERATORS):
        raise ValueError(f"{name}: other libraries are not checked for this operator; choose from {', '.join(known)}")
    raise ValueError(suggestion(name, known))


def curated(kind: type[Operator]) -> list[NamedCase]:
    """The curated cases of an operator."""
    return list(_LISTS[kind]())
