"""The common kernels: which calls compile them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...ops import AdaptiveMaxPool, AvgPool, GlobalMaxPool, MaxPool, SmoothMaxPool


def steps(dtypes: tuple[str, ...] = ("float32", "float64")) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and call of everything worth compiling ahead: value and VJP of small, strided, other and tall windows, and of whole and uneven ones."""
    common = (
        MaxPool((2, 2)),
        MaxPool((4, 4)),
        MaxPool((5, 5), stride=1, padding=2),
        MaxPool((9, 9), stride=1, padding=4),
        AvgPool((2, 2)),
        AvgPool((4, 4)),
        AvgPool((5, 5), stride=1, padding=2),
        AvgPool((9, 9), stride=1, padding=4),
        AdaptiveMaxPool((7, 7)),
        GlobalMaxPool(2),
        SmoothMaxPool((2, 2), beta=1.0),
    )
    for dtype in dtypes:
        # narrow planes are laid out as lines, many of them side by side
        few, many, wide = (
            np.arange(n * size**2, dtype=dtype).reshape(n, size, size) for n, size in ((2, 16), (64, 16), (1, 72))
        )
        for op in common:
            yield f"{op.name} {dtype}", functools.partial(_run, op, few, many, wide)


def _run(op: Any, *inputs: Any) -> None:
    for x in inputs:
        op.vjp((x,), op(x))
