"""Calls on small arrays in row-major order, whose kernels are looked up once per operator, shape
and dtype.

All other calls are left to `pooling`: other layouts, windows without a cell, results of several
steps, and cells that need the exact kernels. Values of other operators are those of
`network.at_once`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dispatch
from ...caches import cached, cached_property
from ...geometry import Shape
from ...memory import Array, empty
from . import limits, network, pooling, pools
from .codegen import CodegenError
from .codegen.thread_pool import Call


def kernel(find: Callable[[Prepared], Call | None]) -> cached_property[Call | None]:
    """A kernel that is compiled when it is first called; None where LLVM refuses it."""

    @functools.wraps(find)
    def compiled(prepared: Prepared) -> Call | None:
        try:
            return find(prepared)
        except CodegenError:
            return None

    return cached_property(compiled)


class Prepared:
    """The kernels of an operator on arrays of one shape and dtype. What is None is left to
    `pooling`."""

    def __init__(self, pool: pools.Pool, is_mean: bool) -> None:
        self.pool, self.is_mean, self.result = pool, is_mean, pool.shape
        self.codes: Any = None if is_mean else pool.code_dtype
        """The dtype of codes, by which maxima know their winners."""

    def _alone(self, what: str) -> Call | None:
        chain = self.pool.fold(what)
        return None if chain.between else chain.steps[0].call

    @kernel
    def value(self) -> Call | None:
        return self._alone("average" if self.is_mean else "max")

    @kernel
    def keep(self) -> Call | None:
        """The value and the codes of winners, which `push` and `pull` of a maximum read."""
        if self.is_mean:
            return None
        is_first = self.pool.op.ties == "first" and self.pool.dtype.kind not in "iu"
        return self._alone("argmax") if is_first else None

    @kernel
    def push(self) -> Call | None:
        return self.value if self.is_mean else self.keep and self.pool.winners("gather").call

    @kernel
    def share(self) -> Call | None:
        """What divides cotangents by the divisors of their windows, where these differ."""
        return self._alone("shares") if self.is_mean and self.pool.divisors.columns is not None else None

    @kernel
    def pull(self) -> Call | None:
        if self.is_mean:
            is_whole = self.pool.divisors.columns is None or (self.share is not None and not self.pool.is_half)
            return self._alone("spread") if is_whole else None
        return self.keep and (self.pool.gathers or self.pool.winners("scatter")).call


@cached(256)
def prepared(op: Any, shape: Shape, dtype: np.dtype[Any]) -> Prepared | None:
    """The kernels for arrays of this shape and dtype, or None if the call is not that simple."""
    kind, is_small = pooling.REDUCES.get(type(op)), 0 < math.prod(shape) <= limits.MOST
    if kind not in ("max", "mean") or not is_small or not dtype.isnative or pooling.refuses_arrays(op, dtype, shape):
        return None
    try:
        pool = pools.contiguous_pool(op, shape, dtype, kind == "mean")
    except CodegenError:
        return None
    is_plain = pool.is_in_order and pool.lengths == pool.shape and not pool.is_empty and not pool.blanks
    return Prepared(pool, kind == "mean") if is_plain else None


def found(op: Any, x: Array) -> Prepared | None:
    """The kernels for this array, or None if the call is not that simple."""
    return None if dispatch.forced() is not None or not x.flags.carray else prepared(op, x.shape, x.dtype)


def value(op: Any, x: Array) -> Any:
    call = found(op, x)
    if call is None or call.value is None:
        return network.at_once(op, x)
    y = empty(call.result, x.dtype)
    return NotImplemented if call.value(x, y) else y


def vjp(op: Any, x: Array, gy: Any) -> Any:
    call = found(op, x)
    if call is None or call.pull is None or not _fits(gy, x, call.result):
        return NotImplemented
    gx = empty(x.shape, x.dtype)
    if call.keep is None:
        if call.share is not None:
            shares = empty(call.result, x.dtype)
            call.share(gy, shares)
            gy = shares
        call.pull(gy, gx)
        return (gx,)
    codes = empty(call.result, call.codes)
    if call.keep(x, empty(call.result, x.dtype), codes):
        return NotImplemented
    call.pull(gy, codes, gx)
    return (gx,)


def jvp(op: Any, x: Array, dx: Any) -> Any:
    call = found(op, x)
    if call is None or call.push is None or not _fits(dx, x, x.shape):
        return NotImplemented
    y, dy = empty(call.result, x.dtype), empty(call.result, x.dtype)
    if call.keep is None:
        call.push(x, y)
        call.push(dx, dy)
        return y, dy
    codes = empty(call.result, call.codes)
    if call.keep(x, y, codes):
        return NotImplemented
    call.push(dx, codes, dy)
    return y, dy


def _fits(direction: Any, x: Array, shape: Shape) -> bool:
    """Whether a tangent or cotangent can be read as it is."""
    is_array = type(direction) is np.ndarray and direction.dtype == x.dtype
    return is_array and direction.shape == shape and direction.flags.carray


for rule in (value, vjp, jvp):
    dispatch.shortcuts[rule.__name__, np.ndarray] = rule
dispatch.shortcuts["values", np.ndarray] = network.at_once
