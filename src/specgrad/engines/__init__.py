"""Engines: modules that run operators. `dispatch.ENGINES` lists them, `dispatch.Engine` says what
they offer.

An engine that has arithmetic of its own runs an operator only if its exact class is one that the
engine declares. A subclass may have another value or another row, so it runs on the specification.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..ops.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    MinPool,
    SmoothMaxPool,
    SumPool,
)
from ..sizes import refuse_table

REDUCTIONS: dict[type[Any], str] = {
    MaxPool: "max",
    AdaptiveMaxPool: "max",
    GlobalMaxPool: "max",
    AvgPool: "mean",
    AdaptiveAvgPool: "mean",
    GlobalAvgPool: "mean",
    SmoothMaxPool: "logsumexp",
}
"""The pooling operators for which engines have kernels, by exact class, and what each makes of a
window."""


TWINS: dict[type[Any], tuple[type[Any], int, dict[str, Any]]] = {
    MinPool: (MaxPool, -1, {}),
    SumPool: (AvgPool, 1, {"divisor_override": 1}),
}
"""Operators that are another one with a sign: op(x) = sign * other(sign * x). So their slopes are
those of the other at sign * x."""


def twin(op: Any) -> tuple[Any, int]:
    """The operator that has kernels, and the sign."""
    kind, sign, more = TWINS[type(op)]
    return kind(**{field.name: getattr(op, field.name) for field in dataclasses.fields(op)}, **more), sign


def has_bare_window(op: Any, shape: tuple[int, ...]) -> bool:
    """Whether a window has no real cell: its 0 would get a sign."""
    axes = op.spatial(tuple(shape[p] for p in op.positions(shape)))
    for axis in axes:
        refuse_table(op.name, axis.length, 1)
    return any(bool((axis.ranges().count == 0).any()) for axis in axes)


def reduction(op: Any) -> str | None:
    """What an operator makes of a window: "max", "mean" or "logsumexp"; None for a class that is
    not in `REDUCTIONS`."""
    return REDUCTIONS.get(type(op))
