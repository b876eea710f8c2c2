"""Windows that are a whole plane, by reductions of XLA's: taps that are composed one by one would
be as many as cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ..operator import Entry
from ..ops import AdaptiveAvgPool, AdaptiveMaxPool, GlobalAvgPool, GlobalMaxPool
from ..scalars.jax import Arrays


def is_whole(op: Any) -> bool:
    """Whether this is a maximum or an average of whole planes."""
    if type(op) in (AdaptiveAvgPool, AdaptiveMaxPool):
        return len(op.output_size) > 0 and set(op.output_size) == {1}
    return type(op) in (GlobalAvgPool, GlobalMaxPool) and op.rank > 0


def value(S: Arrays, op: Any, x: Any) -> Any:
    """The maximum, with the bits of the first maximal cell or of the last NaN; or the mean."""
    planes = _planes(op, x)
    if hasattr(op, "ties"):
        found = jnp.take_along_axis(planes, _winner(planes), -1)[..., 0]
    else:
        found = planes.sum(-1) / S.constant(planes.shape[-1])
    return jnp.expand_dims(found, op.positions(x.shape))


def row(S: Arrays, op: Any, x: Any) -> Callable[[Any], Any]:
    """The linear function from a tangent of x to that of the output."""
    planes = _planes(op, x)
    present, over = None, S.constant(planes.shape[-1])
    if hasattr(op, "ties"):
        winner = _winner(planes)
        best = jnp.take_along_axis(planes, winner, -1)
        tied = S.either(S.eq(planes, best), S.both(S.is_nan(planes), S.is_nan(best)))
        present = jnp.arange(planes.shape[-1]) == winner if op.ties == "first" else tied
        over = tied.sum(-1, keepdims=True).astype(S.computed) if op.ties == "split" else None
    entry = Entry(0, None, present, None, over)
    return lambda dx: jnp.expand_dims(entry.apply(S, _planes(op, dx)).sum(-1), op.positions(x.shape))


def winners(op: Any, x: Any) -> Any:
    """The flat index of the winner in each plane."""
    return jnp.expand_dims(_winner(_planes(op, x))[..., 0], op.positions(x.shape))


def _planes(op: Any, x: Any) -> Any:
    """x with each plane along the last axis, row-major in the order of the operator's axes."""
    positions = op.positions(x.shape)
    batch = x.ndim - len(positions)
    moved = jnp.moveaxis(x, positions, range(batch, x.ndim))
    return moved.reshape(*moved.shape[:batch], math.prod(moved.shape[batch:]))


def _winner(planes: Any) -> Any:
    """Where the first maximal cell or the last NaN of each plane is."""
    nan = jnp.isnan(planes)
    last = planes.shape[-1] - 1 - jnp.argmax(nan[..., ::-1], -1, keepdims=True)
    return jnp.where(nan.any(-1, keepdims=True), last, jnp.argmax(planes, -1, keepdims=True))
