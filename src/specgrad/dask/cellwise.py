"""Pointwise operators of dask arrays: a task per chunk, in the chunks of the first dask array; and
`reshape`, which is dask's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from .. import dispatch
from ..ops import Reshape
from .pools import Chunked, chunked, refuse_out
from .tasks import summed


def _alike(op: Any, operands: Sequence[Any], *more: Any) -> tuple[list[Chunked], list[Chunked], Any]:
    """Operands, and arrays of the result's shape, in its chunks; the dtype of the result."""
    names = [slot.name for slot in op.slots]
    arrays = [chunked(op.name, n, o) for n, o in zip(names, operands, strict=False)]
    op.output_shape(*[x.shape for x in arrays])  # what does not broadcast is refused in the operator's own name
    dtype = np.dtype(object)  # whose cells are not known before they are computed
    if all(x.dtype != object for x in arrays):
        dtype = dispatch.forward(op, tuple(np.ones((1,) * x.ndim, x.dtype) for x in arrays)).dtype
    together = da.broadcast_arrays(*arrays)
    grid = da.core.unify_chunks(*[part for x in together for part in (x, range(x.ndim))])[1]
    others = [chunked(op.name, "cotangent", m).rechunk(grid[0].chunks) for m in more]
    return grid, others, dtype


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Chunked:
    refuse_out(op.name, out)
    if type(op) is Reshape:
        x = chunked(op.name, "x", operands[0])
        return _reshaped(op, x, op.output_shape(x.shape))
    arrays, _, dtype = _alike(op, operands)
    return da.map_blocks(_value, *arrays, op=op, dtype=dtype)


def push(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Chunked:
    if type(op) is Reshape:
        return forward(op, tangents)
    present = [t is not None for t in tangents]
    moved = [
        da.broadcast_to(chunked(op.name, "tangent", t), op.output_shape(*[o.shape for o in operands]))
        for t in tangents
        if t is not None
    ]
    arrays, others, dtype = _alike(op, operands, *moved)
    return da.map_blocks(_tangent, *arrays, *others, op=op, present=present, dtype=dtype)


def pull(op: Any, operands: tuple[Any, ...], cotangent: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    if type(op) is Reshape:
        return (_reshaped(op, cotangent, operands[0].shape),)
    arrays, (g,), _ = _alike(op, operands, cotangent)
    return tuple(
        _summed(da.map_blocks(_cotangent, *arrays, g, op=op, slot=slot, dtype=x.dtype), operand.shape) if w else None
        for slot, (x, operand, w) in enumerate(zip(arrays, operands, wanted, strict=True))
    )


def _reshaped(op: Any, x: Any, shape: tuple[int, ...]) -> Chunked:
    lazy = chunked(op.name, "x", x)
    if not lazy.size:  # which dask does not reshape
        return da.zeros(shape, dtype=lazy.dtype)
    try:
        return lazy.reshape(shape)
    except NotImplementedError:  # axes that are neither merged nor split evenly
        return lazy.reshape(-1).reshape(shape)


def _summed(gx: Chunked, shape: tuple[int, ...]) -> Chunked:
    """A cotangent summed back over the axes along which its operand was broadcast."""
    gx = summed(gx, tuple(range(gx.ndim - len(shape))))
    return summed(gx, tuple(p for p, n in enumerate(shape) if n == 1 and gx.shape[p] != 1), keepdims=True)


def _value(*arrays: Any, op: Any) -> Any:
    return dispatch.forward(op, arrays)


def _tangent(*arrays: Any, op: Any, present: list[bool]) -> Any:
    operands, given = arrays[: len(present)], iter(arrays[len(present) :])
    return dispatch.jvp(op, operands, tuple(next(given) if p else None for p in present))[1]


def _cotangent(*arrays: Any, op: Any, slot: int) -> Any:
    return dispatch.vjp(op, arrays[:-1], arrays[-1])[slot]
