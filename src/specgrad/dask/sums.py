"""Sums and means of dask arrays: sums of chunks, added up as a tree. Half floats are summed in
float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..ops import Mean
from .pools import Chunked, chunked, refuse_out
from .tasks import summed


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Chunked:
    refuse_out(op.name, out)
    x = chunked(op.name, "x", operands[0])
    op.output_shape(x.shape)
    total = summed(_wide(x), op.positions(x.shape), op.keepdims)
    return _cast(total / _count(op, x) if type(op) is Mean else total, x.dtype)


def push(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Chunked:
    return forward(op, tangents)


def pull(op: Any, operands: tuple[Any, ...], cotangent: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    x, g = chunked(op.name, "x", operands[0]), chunked(op.name, "cotangent", cotangent)
    at = op.positions(x.shape)
    share = g.reshape([1 if p in at else n for p, n in enumerate(x.shape)])
    if type(op) is Mean:
        share = _cast(_wide(share) / _count(op, x), g.dtype)
    share = share.rechunk(tuple((1,) if p in at else chunks for p, chunks in enumerate(x.chunks)))
    return (da.broadcast_to(share, x.shape, chunks=x.chunks),)


def _wide(x: Chunked) -> Chunked:
    """Half floats as float32."""
    return _cast(x, np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _cast(x: Chunked, dtype: Any) -> Chunked:
    return x if x.dtype == dtype else da.map_blocks(_cells, x, dtype, dtype=dtype)


def _cells(cells: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):  # a half float overflows to infinity, as everywhere
        return cells.astype(dtype)


def _count(op: Any, x: Chunked) -> int:
    return math.prod(x.shape[p] for p in op.positions(x.shape))
