"""Calls on small arrays in row-major order, whose kernels are looked up once per operator, shape
and dtype.

All other calls are left to `pooling`: other layouts, windows without a cell, results of several
steps, and cells that need the exact kernels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dispatch
from ...caches import cached
from ...geometry import Shape
from ...memory import Array, empty
from . import limits, pooling, pools
from .codegen import CodegenError
from .codegen.thread_pool import Call


class Prepared(NamedTuple):
    """The kernels of an operator on arrays of one shape and dtype. What is None is left to
    `pooling`."""

    result: Shape
    value: Call
    push: Call | None
    pull: Call | None
    keep: Call | None = None
    """The value and the codes of winners, which `push` and `pull` read."""
    codes: Any = None
    """The dtype of codes."""
    gathers: bool = False
    """Whether `pull` takes cotangents before codes."""


@cached(256)
def prepared(op: Any, shape: Shape, dtype: np.dtype[Any]) -> Prepared | None:
    """The kernels for arrays of this shape and dtype, or None if the call is not that simple."""
    kind, is_small = pooling.REDUCES.get(type(op)), 0 < math.prod(shape) <= limits.MOST
    if kind not in ("max", "mean") or not is_small or not dtype.isnative or pooling.refuses_arrays(op, dtype, shape):
        return None
    try:
        pool = pools.contiguous_pool(op, shape, dtype, kind == "mean")
        is_plain = pool.is_in_order and pool.lengths == pool.shape and not pool.is_empty and not pool.blanks
        if not is_plain:
            return None
        chains = [pool.fold(name) for name in (("average", "spread") if kind == "mean" else ("max", "argmax"))]
        if any(chain.between for chain in chains):
            return None
        first, second = (chain.steps[0].call for chain in chains)
        if kind == "mean":
            return Prepared(pool.shape, first, first, second if pool.divisors.columns is None else None)
        if op.ties != "first" or dtype.kind in "iu":
            return Prepared(pool.shape, first, None, None)
        pull, gathers = pool.gathers or pool.winners("scatter"), pool.gathers is not None
        return Prepared(pool.shape, first, pool.winners("gather").call, pull.call, second, pool.code_dtype, gathers)
    except CodegenError:
        return None


def found(op: Any, x: Array) -> Prepared | None:
    """The kernels for this array, or None if the call is not that simple."""
    return None if dispatch.forced() is not None or not x.flags.carray else prepared(op, x.shape, x.dtype)


def value(op: Any, x: Array) -> Any:
    call = found(op, x)
    if call is None:
        return NotImplemented
    y = empty(call.result, x.dtype)
    return NotImplemented if call.value(x, y) else y


def vjp(op: Any, x: Array, gy: Any) -> Any:
    call = found(op, x)
    if call is None or call.pull is None or not _fits(gy, x, call.result):
        return NotImplemented
    gx = empty(x.shape, x.dtype)
    if call.keep is None:
        call.pull(gy, gx)
        return (gx,)
    codes = empty(call.result, call.codes)
    if call.keep(x, empty(call.result, x.dtype), codes):
        return NotImplemented
    call.pull(*((gy, codes, gx) if call.gathers else (codes, gy, gx)))
    return (gx,)


def jvp(op: Any, x: Array, dx: Any) -> Any:
    call = found(op, x)
    if call is None or call.push is None or not _fits(dx, x, x.shape):
        return NotImplemented
    y, dy = empty(call.result, x.dtype), empty(call.result, x.dtype)
    if call.keep is None:
        call.value(x, y)
        call.push(dx, dy)
        return y, dy
    codes = empty(call.result, call.codes)
    if call.keep(x, y, codes):
        return NotImplemented
    call.push(codes, dx, dy)
    return y, dy


def _fits(direction: Any, x: Array, shape: Shape) -> bool:
    """Whether a tangent or cotangent can be read as it is."""
    is_array = type(direction) is np.ndarray and direction.dtype == x.dtype
    return is_array and direction.shape == shape and direction.flags.carray


for rule in (value, vjp, jvp):
    dispatch.shortcuts[rule.__name__, np.ndarray] = rule
