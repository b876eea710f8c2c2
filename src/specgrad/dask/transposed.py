"""Transposed convolution of dask arrays, by the convolution whose adjoint it is.

Its value is that convolution's input cotangent, its input cotangent that one's value; the weight's
cotangent is the same of both, with input and output changed over.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import dask.array as da

from ..ops.conv import Conv
from ..ops.pointwise import Add
from . import bilinear, cellwise
from .pools import Chunked, chunked, refuse_out
from .tasks import summed


class Adjoint:
    """The convolution whose adjoint an operator is, on the operator's input."""

    def __init__(self, op: Any, operands: Sequence[Any]) -> None:
        names = [slot.name for slot in op.slots]
        self.x, self.weight, *bias = [chunked(op.name, n, o) for n, o in zip(names, operands, strict=False)]
        self.shape = op.output_shape(*(x.shape for x in (self.x, self.weight, *bias)))
        self.rank = len(op.kernel_size)
        alike = {name: getattr(op, name) for name in ("stride", "padding", "dilation", "groups")}
        self.conv = Conv(op.kernel_size, **alike)
        lead = self.x.ndim - self.rank - 1
        spatial = [
            _stretched(own, step, size)
            for own, step, size in zip(self.x.chunks[lead + 1 :], op.stride, self.shape[lead + 1 :], strict=True)
        ]
        self.chunks = (*self.x.chunks[:lead], (self.shape[lead],), *spatial)

    def padded(self, x: Chunked) -> Chunked:
        """An array of the operator's input with zeros behind, as long as the convolution's output:
        output_padding may make that longer."""
        wanted = self.conv.output_shape(self.shape, self.weight.shape)
        more = [(0, m - n) for n, m in zip(x.shape, wanted, strict=True)]
        return da.pad(x, more) if any(behind for _, behind in more) else x

    def value(self, x: Chunked, weight: Any) -> Chunked:
        """Without the bias."""
        cells = da.zeros(self.shape, dtype=x.dtype, chunks=self.chunks)
        return bilinear.pull(self.conv, (cells, weight), self.padded(x), (True, False))[0]

    def along_channels(self, bias: Chunked) -> Chunked:
        return bias.reshape((-1, *(1,) * self.rank))


def _added(one: Chunked, other: Chunked) -> Chunked:
    return cellwise.forward(Add(), (one, other))


def _stretched(chunks: Sequence[int], step: int, size: int) -> tuple[int, ...]:
    """Chunks of the result, of those of the input: a step for each cell, the last with the rest."""
    made, left = [], size
    for n in chunks[:-1]:
        made.append(min(n * step, left))
        left -= made[-1]
    return tuple(n for n in (*made, left) if n) or (0,)


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Chunked:
    refuse_out(op.name, out)
    adjoint = Adjoint(op, operands)
    value = adjoint.value(adjoint.x, adjoint.weight)
    return _added(value, adjoint.along_channels(chunked(op.name, "bias", operands[2]))) if len(operands) > 2 else value


def push(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Chunked:
    adjoint = Adjoint(op, operands)
    dx, dw, *rest = tangents
    moved = [adjoint.value(chunked(op.name, "tangent of x", dx).rechunk(adjoint.x.chunks), adjoint.weight)] * (
        dx is not None
    )
    if dw is not None:
        moved.append(adjoint.value(adjoint.x, dw))
    if rest and rest[0] is not None:
        moved.append(adjoint.along_channels(chunked(op.name, "tangent of bias", rest[0])))
    return da.broadcast_to(functools.reduce(_added, moved), adjoint.shape)


def pull(op: Any, operands: tuple[Any, ...], cotangent: Any, wanted: Sequence[bool]) -> tuple[Chunked, ...]:
    adjoint = Adjoint(op, operands)
    g = chunked(op.name, "cotangent", cotangent).rechunk(adjoint.chunks)
    pulled: list[Any] = [None] * len(operands)
    if wanted[0]:
        read = bilinear.forward(adjoint.conv, (g, adjoint.weight))
        pulled[0] = read[tuple(slice(n) for n in adjoint.x.shape)]
    if wanted[1]:
        pulled[1] = bilinear.pull(adjoint.conv, (g, adjoint.weight), adjoint.padded(adjoint.x), (False, True))[1]
    if len(operands) > 2 and wanted[2]:
        channel = g.ndim - adjoint.rank - 1
        pulled[2] = summed(g, tuple(p for p in range(g.ndim) if p != channel))
    return tuple(pulled)
