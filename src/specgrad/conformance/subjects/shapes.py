"""Conversions for peers: planes as (batch, channels, *spatial), and parameters in the peer's
form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...geometry import same_padding
from ...ops.conv import Bilinear
from ..subject import NotOffered

Array = np.ndarray[Any, Any]


def is_a(op: Any, kinds: Any) -> bool:
    """isinstance(op, kinds), without narrowing the type: `op` keeps type Any, since the declared
    types of parameters are wider than their normal forms."""
    return isinstance(op, kinds)


def batched_shape(op: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """(batch, channels, *spatial): leading axes merged into the batch, missing axes added."""
    rank = op.spatial_rank()
    lead, spatial = shape[: len(shape) - rank], shape[len(shape) - rank :]
    if isinstance(op, Bilinear) or lead:
        return (math.prod(lead[:-1]), lead[-1], *spatial)
    return (1, 1, *spatial)


def to_last(op: Any, ndim: int) -> tuple[int, ...]:
    """The order of axes that puts the spatial ones last."""
    if getattr(op, "axes", None) is None:
        return tuple(range(ndim))
    spatial = tuple(p % ndim for p in op.axes)
    return (*(p for p in range(ndim) if p not in spatial), *spatial)


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    """Transpose by the array's own method, so that its library's derivatives work."""
    return x if order == tuple(range(len(order))) else getattr(x, "permute", x.transpose)(order)


def fed(op: Any, x: Any, run: Callable[[Any], Any]) -> Any:
    """run(x) on (batch, channels, *spatial), with the result in the layout of the operator's
    output."""
    shape = tuple(x.shape)
    order = to_last(op, len(shape))
    moved = _transposed(x, order)
    y = run(moved.reshape(batched_shape(op, tuple(moved.shape))))
    lead = tuple(moved.shape)[: len(shape) - op.spatial_rank()]
    if isinstance(op, Bilinear):
        lead = (*lead[:-1], y.shape[1])
    y = y.reshape((*lead, *tuple(y.shape)[2:]))
    if not getattr(op, "keepdims", True):
        return y.reshape(lead)
    return _transposed(y, tuple(int(i) for i in np.argsort(order)))


def pairs(op: Any, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The padding of every axis as (before, after)."""
    if op.padding == "same":
        every = zip(sizes, op.kernel_size, op.stride, op.dilation, strict=True)
        return tuple(same_padding(n, k, s, d) for n, k, s, d in every)
    return tuple(op.padding)


def symmetric(op: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """One padding per axis, for a peer that pads both sides equally."""
    if any(before != after for before, after in pairs(op, sizes)):
        raise NotOffered("padding that differs before and after")
    return tuple(before for before, _ in pairs(op, sizes))


def lengths_of(op: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The output lengths of an adaptive operator; None is the input's length."""
    return tuple(n if m is None else m for m, n in zip(op.output_size, sizes, strict=True))


def only(condition: bool, words: str) -> None:
    """Raise NotOffered(words) if the condition is false."""
    if not condition:
        raise NotOffered(words)


def sizes_of(op: Any, x: Array) -> tuple[int, ...]:
    """The spatial lengths of an input whose spatial axes are last."""
    return tuple(x.shape)[len(x.shape) - op.spatial_rank() :]
