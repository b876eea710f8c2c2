"""The calls that compile the common kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...ops import AdaptiveMaxPool, AvgPool, GlobalMaxPool, MaxPool, SmoothMaxPool


def steps(dtypes: tuple[str, ...] = ("float32", "float64")) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and call of everything worth compiling ahead: value and VJP of the windows that most
    networks have."""
    common = (
        MaxPool((2, 2)),
        MaxPool((3, 3), stride=2, padding=1),
        MaxPool((3, 3), stride=1, padding=1),
        AvgPool((2, 2)),
        AvgPool((3, 3), stride=1, padding=1),
        AdaptiveMaxPool((7, 7)),
        GlobalMaxPool(2),
        SmoothMaxPool((2, 2), beta=1.0),
    )
    for dtype in dtypes:
        inputs = [np.arange(2 * size**2, dtype=dtype).reshape(2, size, size) for size in (14, 56, 112)]
        for op in common:
            yield f"{op.name} {dtype}", functools.partial(_run, op, *inputs)


def _run(op: Any, *inputs: Any) -> None:
    for x in inputs:
        op.vjp((x,), op(x))
