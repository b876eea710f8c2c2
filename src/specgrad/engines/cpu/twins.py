"""Pooling by the kernels of another pooling: minima are maxima in the reversed order of cells, sums
are averages that are divided by 1. The minimum alone has kernels of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import write
from ...sizes import refuse_result
from .. import has_bare_window, twin
from . import pooling, pools
from .fallback import or_by_statement

TAKES = "minima of numbers, and sums of floats"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    (x,) = operands
    if type(x) is not np.ndarray:
        return f"it takes NumPy arrays only, not {type(x).__name__}"
    refuse_result(op.name, op.output_shape(x.shape), x.dtype.itemsize)  # in the operator's own name
    other, sign = twin(op)
    reason = pooling.refuses(other, operands)
    if reason is None and sign < 0 and has_bare_window(op, x.shape):
        reason = "a window has no real cell"
    return reason


def _signed(x: Any, sign: int) -> Any:
    """The cells, or for a minimum others in the reversed order: of integers the lowest has no
    negative."""
    if sign > 0:
        return x
    return np.asarray((np.invert if x.dtype.kind in "iu" else np.negative)(x))  # without axes NumPy makes a number


@or_by_statement
def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    other, sign = twin(op)
    if sign < 0 and (least := pools.minimum(op, operands[0])) is not None:
        return write(op.name, least, out)
    return write(op.name, _signed(pooling.forward(other, (_signed(operands[0], sign),)), sign), out)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    other, sign = twin(op)
    x = _signed(operands[0], sign)
    value, kept = pooling.keep(other, (x,))
    return write(op.name, _signed(value, sign), out), (other, x, kept)


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    other, sign = twin(op)
    x = _signed(operands[0], sign)
    return other, x, pooling.recall(other, (x,))


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    other, sign = twin(op)
    value, places = pooling.indices(other, (_signed(operands[0], sign),))
    return write(op.name, _signed(value, sign), out), places


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    other, x, inner = kept
    return pooling.push(other, (x,), inner, tangents, out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    other, x, inner = kept
    return pooling.pull(other, (x,), inner, cotangent, wanted, out)
