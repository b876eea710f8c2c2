"""The CPU engine: NumPy arrays by compiled folds (pooling), products of matrices (convolution) and NumPy itself (networks).

One part per kind of operator; this file decides which part runs what. Kernels are compiled by Numba on first use.
"""

from __future__ import annotations

import functools
from typing import Any

from ...ops.conv import Bilinear
from ...ops.loss import Loss
from ...ops.pointwise import Pointwise
from ...ops.pool import Pool
from ...ops.reduce import LogSoftmax, Sum
from . import convolution, network, pooling

PARTS = {Pool: pooling, Bilinear: convolution, Pointwise: network, Sum: network, LogSoftmax: network, Loss: network}

TAKES = "; ".join(part.TAKES for part in dict.fromkeys(PARTS.values()))


@functools.cache
def part(kind: Any) -> Any:
    """Who runs operators of this kind, or None."""
    return next((part for known, part in PARTS.items() if issubclass(kind, known)), None)


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    found = part(op.__class__)
    return found.refuses(op, operands) if found else f"it does not run {op.name}"


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return part(op.__class__).forward(op, operands, out)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    kept: tuple[Any, Any] = part(op.__class__).keep(op, operands, out)
    return kept


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return part(op.__class__).recall(op, operands)


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    found: tuple[Any, Any] = part(op.__class__).indices(op, operands, out)
    return found


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    return part(op.__class__).push(op, operands, kept, tangents, out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    pulled: tuple[Any, ...] = part(op.__class__).pull(op, operands, kept, cotangent, wanted, out)
    return pulled


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    return pooling.jvp(op, operands, tangents) if part(op.__class__) is pooling else NotImplemented


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> Any:
    return pooling.vjp(op, operands, cotangent) if part(op.__class__) is pooling else NotImplemented
