"""Pooling on NumPy arrays at the speed of memory, by kernels that Numba compiles on first use.

An N-dimensional window is a chain of one-dimensional folds, so the cost of a cell does not grow with the window's volume.
This file decides who runs what; the folds are in `kernels`, how an array is walked is in `plan`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch import check_out
from ...ops.pool import Average, Maximum, Pool
from ...scalars.floats import admitted
from .. import reference
from . import average, maximum
from .cells import Array, canonical, kind, see

TAKES = "pooling of NumPy arrays: float64, float32, float16 and bfloat16; integers where the operator takes them"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    x = operands[0]
    if not isinstance(op, Pool):
        return "it runs pooling only"
    if type(x) is not np.ndarray:
        return f"it takes NumPy arrays only, not {type(x).__name__}"
    found = kind(x.dtype)
    if found is None:
        return f"it does not take {x.dtype}"
    if found.dtype.kind in "iu" and not isinstance(op, Maximum):
        return "it takes integers for a maximum only"
    if not isinstance(op, Average) and (not isinstance(op, Maximum) or op.ties != "first"):
        return "not yet"
    return None


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    (x,) = operands
    if out is not None:
        check_out(op.name, out, op.output_shape(x.shape), kind(x.dtype).dtype)
    return (maximum if isinstance(op, Maximum) else average).value(op, x, out)


def keep(op: Any, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    (x,) = operands
    if isinstance(op, Average):
        return average.value(op, x, None), see(op, x, any_order=True)
    return maximum.keep(op, x)


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    (x,) = operands
    if out is not None:
        check_out(op.name, out, op.output_shape(x.shape), kind(x.dtype).dtype)
    return maximum.indices(op, x, out)


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...]) -> Any:
    (x,), (dx,) = operands, tangents
    if dx is None:
        dx = np.zeros_like(x)
    if type(dx) is not np.ndarray or dx.dtype == object:
        return reference.push(op, operands, reference.keep(op, operands)[1], tangents)
    dx = admitted(kind(x.dtype).dtype, op.name, "tangent of x", dx)
    if isinstance(op, Average):
        return average.value(op, dx, None)
    return maximum.push(kept, dx)


def pull(op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any) -> tuple[Any, ...]:
    (x,) = operands
    if type(cotangent) is not np.ndarray or cotangent.dtype == object:
        return reference.pull(op, operands, reference.keep(op, operands)[1], cotangent)
    gy = admitted(kind(x.dtype).dtype, op.name, "cotangent", cotangent)
    return ((average if isinstance(op, Average) else maximum).pull(kept, gy).reshape(x.shape),)
