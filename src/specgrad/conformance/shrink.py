"""The smallest failing case near a given one: Hypothesis draws simplifications and shrinks them.

Each choice is between something simple and the original: a parameter's default or its value, a
shorter axis or the whole axis, a small integer or the original number. Choices shrink towards the
simple, so that only the parts that the failure needs remain.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from ..drawing.window import widened
from ..errors import SpecgradError
from ..ops.conv import Bilinear
from .cases import Case
from .search import smallest

Array = np.ndarray[Any, Any]

SIMPLE_CELLS = (0, 1, 2, 3, -1, -2)


def smaller(case: Case, fails: Callable[[Case], bool], start: int, seconds: float) -> Case:
    """The simplest failing case near `case`, which fails, found in `seconds` of processor time."""
    found = smallest(simpler(case), fails, size, start, seconds, 150)
    return case if found is None or size(found) >= size(case) else found


def size(case: Case) -> tuple[int, int, float]:
    """A key that orders counterexamples by length: cells, the length of the operator, the
    numbers."""
    arrays = (*case.operands, case.cotangent)
    weight = sum(
        float(np.abs(np.nan_to_num(widened(a), nan=9, posinf=9, neginf=9)).sum()) for a in (*arrays, *case.tangents)
    )
    odd = sum(float((np.nan_to_num(widened(a)) % 1 != 0).sum()) for a in arrays)
    return sum(a.size + a.ndim for a in arrays), len(repr(case.op)), odd * 100 + weight


@st.composite
def simpler(draw: st.DrawFn, case: Case) -> Case:
    """Simplifications of a case, including the case itself."""
    try:
        op, operands = _smaller_convolution(draw, case) if isinstance(case.op, Bilinear) else _smaller_pool(draw, case)
        shape = op.output_shape(*(x.shape for x in operands))
    except SpecgradError:
        assume(False)
        raise
    assume(math.prod(shape) > 0 or case.cotangent.size == 0)
    operands = tuple(_cells(draw, x) for x in operands)
    tangents = tuple(_direction(draw, x.shape, t) for x, t in zip(operands, case.tangents, strict=False))
    return Case(op, operands, tangents, _direction(draw, shape, case.cotangent))


def _keep(draw: st.DrawFn, simple: Any, original: Any) -> Any:
    """The original in most draws; shrinking gives the simple one."""
    return simple if draw(st.integers(0, 7)) == 0 else original


def _upto(draw: st.DrawFn, most: int, least: int = 1) -> int:
    """A number from `least` to `most`, usually `most`."""
    drawn = draw(st.integers(least, most + 3 * (most > least)))
    return min(drawn, most)


def _parameters(draw: st.DrawFn, op: Any, axes: list[int]) -> dict[str, Any]:
    """The operator's parameters on these axes, each unchanged or simpler."""
    made: dict[str, Any] = {}
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        if field.name in ("kernel_size", "dilation", "output_size"):
            made[field.name] = tuple(v if v in (None, 0) else _upto(draw, v) for v in (value[i] for i in axes))
        elif field.name == "stride":
            made[field.name] = tuple(_upto(draw, value[i]) for i in axes)
        elif field.name in ("padding", "output_padding") and not isinstance(value, str):
            made[field.name] = tuple(_padding(draw, value[i]) for i in axes)
        elif field.name == "rank":
            made[field.name] = len(axes)
        elif field.name in ("groups", "axes", "beta", "ties") or field.default is dataclasses.MISSING:
            made[field.name] = value
        else:
            made[field.name] = _keep(draw, field.default, value)
    return made


def _padding(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_upto(draw, v, 0) for v in value)
    return _upto(draw, value, 0)


def _smaller_pool(draw: st.DrawFn, case: Case) -> tuple[Any, tuple[Array, ...]]:
    op: Any = case.op
    (x,) = case.operands
    positions = list(op.positions(x.shape))
    axes = [i for i in range(len(positions)) if not (len(positions) > 1 and draw(st.integers(0, 7)) == 0)] or [0]
    axes = axes if positions else []
    index: list[Any] = [slice(None)] * x.ndim
    for p, n in enumerate(x.shape):
        if p in positions and positions.index(p) in axes:
            start = _upto_start(draw, n)
            index[p] = slice(start, start + _upto(draw, n - start))
        elif p in positions or (n and draw(st.integers(0, 7)) == 0):
            index[p] = draw(st.integers(0, n - 1))
        elif n:
            index[p] = slice(0, _upto(draw, n))
    smaller = np.asarray(x[tuple(index)])
    left = [p for p in range(x.ndim) if isinstance(index[p], slice)]
    words = _parameters(draw, op, axes)
    if op.axes is not None:
        words["axes"] = tuple(left.index(positions[i]) for i in axes)
    if words.get("axes") == tuple(range(len(left) - len(axes), len(left))):
        words["axes"] = None
    return type(op)(**words), (smaller,)


def _upto_start(draw: st.DrawFn, n: int) -> int:
    return draw(st.integers(1, n - 1)) if n > 1 and draw(st.integers(0, 7)) == 7 else 0


def _smaller_convolution(draw: st.DrawFn, case: Case) -> tuple[Any, tuple[Array, ...]]:
    op: Any = case.op
    x, weight, *bias = case.operands
    rank = weight.ndim - 2
    transposed = case.op.name == "conv_transpose"
    batch = x.ndim - rank - 1
    groups = _upto(draw, getattr(op, "groups", 1))
    axes = list(range(rank))
    words = _parameters(draw, op, axes)
    if "groups" in words:
        words["groups"] = groups
    per_read = x.shape[batch] // getattr(op, "groups", 1)
    written = weight.shape[1] if transposed else weight.shape[0] // getattr(op, "groups", 1)
    read_kept, written_kept = _upto(draw, per_read), _upto(draw, written)
    index: list[Any] = []
    for n in x.shape[:batch]:
        index.append(
            draw(st.integers(0, n - 1)) if n and draw(st.integers(0, 7)) == 0 else slice(0, _upto(draw, n) if n else 0)
        )
    channels = [g * per_read + c for g in range(groups) for c in range(read_kept)]
    outputs = [g * written + c for g in range(groups) for c in range(written_kept)]
    kernel = words.get("kernel_size", ())
    within = tuple(slice(0, k) for k in kernel)
    smaller_x = np.take(x, channels, axis=batch)[
        (*index, slice(None), *(slice(0, _upto(draw, n)) for n in x.shape[batch + 1 :]))
    ]
    if transposed:
        smaller_weight = np.take(weight, channels, axis=0)[(slice(None), slice(0, written_kept), *within)]
    else:
        smaller_weight = np.take(weight, outputs, axis=0)[(slice(None), slice(0, read_kept), *within)]
    smaller_bias = [b[outputs] for b in bias if draw(st.integers(0, 7)) > 0]
    return type(op)(**words), (smaller_x, smaller_weight, *smaller_bias)


def _cells(draw: st.DrawFn, x: Array) -> Array:
    """The array with each cell unchanged or a simple integer."""
    if x.size > 64:
        return x
    if x.dtype.kind == "f" and draw(st.integers(0, 3)) < 3:
        wide = widened(x)
        x = np.where(np.isfinite(wide) & (np.abs(wide) < 1e6) & (wide != 0), np.rint(wide) + 0.0, wide).astype(x.dtype)
    made = np.array(x)
    for place in np.ndindex(x.shape):
        choice = draw(st.integers(0, 11))
        if choice < len(SIMPLE_CELLS):
            made[place] = SIMPLE_CELLS[choice]
    return made


def _direction(draw: st.DrawFn, shape: tuple[int, ...], original: Array) -> Array:
    """A tangent or cotangent of this shape: ones, one cell, small integers, or a part of the
    original."""
    kind = draw(st.integers(0, 3))
    count = math.prod(shape)
    if kind == 0 or not count:
        return np.ones(shape, original.dtype)
    if kind == 1:
        single = np.zeros(count, original.dtype)
        single[draw(st.integers(0, count - 1))] = 1
        return single.reshape(shape)
    if kind == 2 or original.size < count:
        return np.asarray(1 + np.arange(count).reshape(shape) % 5, original.dtype)
    return original.reshape(-1)[:count].reshape(shape)
