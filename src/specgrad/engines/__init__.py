"""Engines: modules that run operators. `dispatch.ENGINES` lists them, `dispatch.Engine` says what they offer.

An engine that has arithmetic of its own runs an operator only if its exact class is one that the engine declares. A
subclass may have another value or another row, so it runs on the specification.
"""

from __future__ import annotations

from typing import Any

from ..ops.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)

REDUCTIONS: dict[type[Any], str] = {
    MaxPool: "max",
    AdaptiveMaxPool: "max",
    GlobalMaxPool: "max",
    AvgPool: "mean",
    AdaptiveAvgPool: "mean",
    GlobalAvgPool: "mean",
    SmoothMaxPool: "logsumexp",
}
"""The pooling operators for which engines have kernels, by exact class, and what each makes of a window."""


def reduction(op: Any) -> str | None:
    """What an operator makes of a window: "max", "mean" or "logsumexp"; None for a class that is not in `REDUCTIONS`."""
    return REDUCTIONS.get(type(op))
