"""Pooling of NumPy arrays by generated kernels: which part of the engine runs which operator.

Peak extra memory of a call, beyond its result and some lines per thread:

- each window axis before the last two: an array of the operand's size after those two are reduced;
- an operand that is not contiguous in any order of its axes: a copy;
- codes of winners: one, two or four bytes per window;
- VJPs of maxima of half floats: a plane per thread;
- smooth maxima, and ties "all" and "split": a copy of a padded operand, and one array per axis if
  windows have more than 16 taps.

No part grows with the kernel size.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...dispatch import check_out, write
from ...memory import Array
from ...operator import output_shape
from ...ops.pool import MinPool, SumPool
from ...scalars.floats import Numbers, admitted
from ...sizes import refuse_result, refuse_table
from .. import REDUCTIONS
from . import fallback, pools, tied, weighted
from .codegen import CodegenError
from .fallback import ByStatement
from .operands import cell_of, handed_over, native
from .steps import Step

REDUCES: dict[type[Any], str] = {**REDUCTIONS, MinPool: "max", SumPool: "mean"}
"""What each operator makes of a window: a minimum is a maximum in the reversed order, a sum an
average that is divided by 1."""

TAKES = "pooling of NumPy arrays: float64, float32, float16 and bfloat16; integers where the operator takes them"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    x = operands[0]
    if type(x) is not np.ndarray:
        return f"it takes NumPy arrays only, not {type(x).__name__}"
    return refuses_arrays(op, x.dtype, x.shape)


@functools.lru_cache(maxsize=256)
def refuses_arrays(op: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
    reduces = REDUCES[type(op)]
    if cell_of(dtype) is None:
        return f"it does not take {dtype}"
    result = op.output_shape(shape)
    refuse_result(op.name, result, dtype.itemsize)
    refuse_table(op.name, max(result, default=0), 1)  # also of results without cells
    is_integer = dtype.kind in "iu"
    if is_integer and reduces != "max":
        return "it takes integers for a maximum only"
    if is_integer and op.ties == "split":
        return "integers do not split"
    if reduces == "max" and pools.taps(op, shape) >= 1 << 31:
        return "windows have 2^31 taps or more"
    if reduces == "logsumexp":
        if not Numbers(dtype).holds(op.beta):
            return f"beta is 0 or infinite as {dtype}"
        try:
            how = weighted.weighted_of(op, shape, native(dtype))
        except CodegenError as problem:
            fallback.warn(op, problem)
            return str(problem)
        if how is None:
            return f"it takes up to {weighted.TAPS} taps, and windows up to {weighted.APART} cells apart, along an axis"
    return None


def _check_result(op: Any, x: Array, out: Any) -> None:
    if out is not None:
        check_out(op.name, out, output_shape(op, (x.shape,)), native(x.dtype))


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    (x,) = operands
    reduces = REDUCES[type(op)]
    _check_result(op, x, out)
    if reduces == "max":
        return pools.maximum(op, x, out)
    if reduces == "mean":
        return pools.average(op, x, out)
    how = _smooth(op, x)
    return fallback.forward(op, operands, out) if how is None else weighted.smooth_value(how, x, out)


def _smooth(op: Any, x: Array) -> Any:
    """How a smooth maximum is computed; None of an array without cells, or without windows."""
    return weighted.weighted_of(op, x.shape, native(x.dtype)) if x.size else None


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    (x,) = operands
    reduces = REDUCES[type(op)]
    _check_result(op, x, out)
    if reduces == "mean":
        return pools.average(op, x, out), recall(op, operands)
    if reduces == "max" and op.ties == "first":
        return pools.keep_maximum(op, x, out)
    if reduces == "max":
        value = pools.maximum(op, x, out)
        return value, tied.keep(op, x, value) or fallback.recall(op, operands)
    how = _smooth(op, x)
    return fallback.keep(op, operands, out) if how is None else weighted.keep_smooth(how, x, out)


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    (x,) = operands
    return pools.seen(op, x, any_order=True)[0] if REDUCES[type(op)] == "mean" else keep(op, operands)[1]


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    (x,) = operands
    _check_result(op, x, out)
    value, kept = pools.keep_maximum(op, x, out)
    return value, pools.indices(kept)


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    (x,), (dx,) = operands, tangents
    if dx is None:
        _check_result(op, x, out)
        return handed_over(np.zeros(output_shape(op, (x.shape,)), native(x.dtype)), out)
    dx = admitted(native(x.dtype), op.name, "tangent of x", dx)
    if isinstance(kept, ByStatement):
        return fallback.push(op, operands, kept, (dx,), out)
    _check_result(op, x, out)
    if out is not None and np.may_share_memory(out, dx):
        return write(op.name, push(op, operands, kept, (dx,)), out)
    return DERIVATIVES[type(kept)][0](kept, dx, out)


def pull(
    op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None, out: Any = None
) -> tuple[Any, ...]:
    (x,) = operands
    gy = admitted(native(x.dtype), op.name, "cotangent", cotangent)
    target = None if out is None else out[0]
    if target is not None:
        check_out(op.name, target, x.shape, native(x.dtype))
        if np.may_share_memory(target, gy):
            return (write(op.name, pull(op, operands, kept, gy)[0], target),)
    if isinstance(kept, ByStatement):
        return fallback.pull(op, operands, kept, gy, wanted, out)
    return (DERIVATIVES[type(kept)][1](kept, gy, target),)


def plan(op: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, tuple[Step, ...]]:
    """The kernels that run on arrays of this shape that lie whole, one after the other, by what
    they compute."""
    reduces, dtype = REDUCES[type(op)], native(dtype)
    if reduces == "logsumexp":
        how = weighted.weighted_of(op, shape, dtype)
        stages = [] if how is None else how.stages
        value = () if how is None else how.alone.steps
        forth, back = (tuple(getattr(stage, name) for stage in stages) for name in ("forward", "back"))
        return {"value": value, "JVP": forth, "VJP": back[::-1]}
    pool = pools.foreseen(op, shape, None, dtype, any_order=reduces == "mean")
    if reduces == "mean":
        average = pool.fold("average").steps
        return {"value": average, "JVP": average, "VJP": pool.fold("spread").steps}
    value, kept = pool.fold("max").steps, pool.fold("argmax").steps
    if op.ties != "first":
        return {"value": value}
    return {
        "value": value,
        "value and winners": kept,
        "JVP": (pool.winners("gather"),),
        "VJP": (pool.gathers or pool.winners("scatter"),),
    }


DERIVATIVES: dict[Any, tuple[Any, Any]] = {
    pools.Pool: (pools.push_average, pools.pull_average),
    pools.Kept: (pools.push, pools.pull),
    weighted.Kept: (weighted.push, weighted.pull),
    tied.Kept: (tied.push, tied.pull),
}
"""What pushes and pulls with what was kept."""
