"""Pooling of dask arrays: tasks over slices, and how their results lie together.

A value, a tangent or an index is made per tile of outputs. A cotangent is made per chunk of the
operand, from all outputs that read the chunk, so that chunks do not wait for each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np

from .. import dispatch
from ..errors import ArgumentError, Described, ShapeError, refusal
from ..geometry import Axis
from ..ops.window import WholeWindow
from .tiling import Part, localised, readers, tiles

Chunked = Any
"""A dask array."""
Span = tuple[int, int]
"""Cells from the first to behind the last."""


def chunked(name: str, argument: str, given: Any) -> Chunked:
    """An operand as a dask array whose shape is known."""
    x = given if isinstance(given, da.Array) else da.from_array(np.asarray(given), chunks=-1)
    if any(math.isnan(n) for n in x.shape):
        shown, rule = Described(f"dask array of shape {x.shape}"), "has chunks of unknown size"
        raise refusal(ShapeError, name, argument, shown, rule, "call x.compute_chunk_sizes() first")
    return x


def refuse_out(name: str, out: Any) -> None:
    if out is not None:
        rule, remedy = "a lazy value is not written into an array", "leave it out, or call da.store"
        raise refusal(ArgumentError, name, "out", Described("an array"), rule, remedy)


class Plane:
    """An operator over the chunks of an array, some of whose axes are spatial."""

    def __init__(self, op: Any, x: Chunked, positions: Sequence[int], axes: Sequence[Axis]) -> None:
        self.op, self.x, self.positions, self.axes = op, x, tuple(positions), tuple(axes)
        self.chunks = [x.chunks[p] for p in self.positions]

    def tiles(self) -> list[list[Part]]:
        """Per spatial axis the parts that make up the result."""
        return [tiles(axis, chunks) for axis, chunks in zip(self.axes, self.chunks, strict=True)]

    def spans(self) -> list[list[Span]]:
        """Per spatial axis the cells of each chunk."""
        return [list(itertools.pairwise(np.cumsum([0, *chunks]).tolist())) for chunks in self.chunks]

    def cut(self, x: Chunked, spans: Iterable[Span]) -> Chunked:
        """A slice of an array, in one chunk along the spatial axes."""
        index = [slice(None)] * x.ndim
        for p, span in zip(self.positions, spans, strict=True):
            index[p] = slice(*span)
        return x[tuple(index)].rechunk(dict.fromkeys(self.positions, -1))

    def cells(self, x: Chunked, parts: Sequence[Part]) -> Chunked:
        """The cells that parts read."""
        return self.cut(x, [(p.begin, p.end) for p in parts])

    def outputs(self, y: Chunked, parts: Sequence[Part]) -> Chunked:
        """The outputs of parts, of an array that has the result's shape."""
        return self.cut(y, [(p.first, p.last) for p in parts])

    def sized(self, x: Chunked, lengths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The chunks of an array with other lengths along the spatial axes, each in one chunk."""
        length = dict(zip(self.positions, lengths, strict=True))
        return tuple((length[p],) if p in length else chunks for p, chunks in enumerate(x.chunks))

    def joined(self, grid: Sequence[Sequence[Any]], make: Callable[[tuple[Any, ...]], Chunked]) -> Chunked:
        """What is made of each combination of entries, one per axis, side by side."""

        def build(chosen: tuple[Any, ...]) -> Chunked:
            if len(chosen) == len(grid):
                return make(chosen)
            rows = [build((*chosen, entry)) for entry in grid[len(chosen)]]
            return rows[0] if len(rows) == 1 else da.concatenate(rows, axis=self.positions[len(chosen)])

        return build(())

    def per_tile(self, run: Callable[..., Any], arrays: Sequence[Chunked], dtype: Any, **given: Any) -> Chunked:
        """A number per output, by tasks over the cells of each tile."""

        def make(parts: tuple[Part, ...]) -> Chunked:
            pieces = [self.cells(x, parts) for x in arrays]
            chunks = self.sized(pieces[0], [p.last - p.first for p in parts])
            return mapped(run, pieces, chunks, dtype, op=localised(self.op, parts), parts=parts, **given)

        return self.joined(self.tiles(), make)

    def per_chunk(self, run: Callable[..., Any], cotangent: Chunked, **given: Any) -> Chunked:
        """A number per cell of the operand, by tasks over all outputs that read a chunk."""
        x = self.x

        def make(spans: tuple[Span, ...]) -> Chunked:
            chunks = self.sized(x, [end - begin for begin, end in spans])
            axes = zip(self.axes, self.chunks, spans, strict=True)
            total = None
            for parts in itertools.product(*[readers(axis, own, *span) for axis, own, span in axes]):
                pieces = [self.cells(x, parts), self.outputs(cotangent, parts)]
                place = (self.positions, spans)
                added = mapped(
                    run, pieces, chunks, x.dtype, op=localised(self.op, parts), parts=parts, place=place, **given
                )
                total = added if total is None else total + added
            if total is None:
                total = da.zeros([sum(lengths) for lengths in chunks], dtype=x.dtype, chunks=chunks)
            return total

        return self.joined(self.spans(), make)


def mapped(run: Callable[..., Any], arrays: Sequence[Chunked], chunks: Any, dtype: Any, **given: Any) -> Chunked:
    """A task per chunk of the batch, whose result has these chunks."""
    meta = np.empty((0,) * len(chunks), dtype)
    return da.map_blocks(run, *arrays, dtype=dtype, meta=meta, chunks=chunks, **given)


def plane_of(op: Any, operands: Sequence[Any]) -> Plane:
    """A pooling operator over its operand; refuses now what tasks would refuse."""
    x = chunked(op.name, "x", operands[0])
    kept = replace(op, keepdims=True) if isinstance(op, WholeWindow) else op
    positions = op.positions(x.shape)
    plane = Plane(kept, x, positions, op.spatial(tuple(x.shape[p] for p in positions)))
    first = [parts[0] for parts in plane.tiles()]
    empty = np.zeros((0, *[p.end - p.begin for p in first]), x.dtype)
    dispatch.forward(replace(localised(kept, first), axes=None), (empty,))
    return plane


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Chunked:
    refuse_out(op.name, out)
    plane = plane_of(op, operands)
    return _dropped(op, plane, plane.per_tile(_value, [plane.x], plane.x.dtype))


def indices(op: Any, operands: tuple[Any, ...]) -> Chunked:
    plane = plane_of(op, operands)
    sizes = tuple(axis.size for axis in plane.axes)
    places = plane.per_tile(_indices, [plane.x], np.dtype(np.int64), positions=plane.positions, sizes=sizes)
    return _dropped(op, plane, places)


def push(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Chunked:
    plane = plane_of(op, operands)
    moved = chunked(op.name, "tangent of x", tangents[0]).rechunk(plane.x.chunks)
    return _dropped(op, plane, plane.per_tile(_tangent, [plane.x, moved], plane.x.dtype))


def pull(op: Any, operands: tuple[Any, ...], cotangent: Any, wanted: Sequence[bool]) -> tuple[Chunked, ...]:
    plane = plane_of(op, operands)
    x, g = plane.x, chunked(op.name, "cotangent", cotangent)
    if isinstance(op, WholeWindow) and not op.keepdims:
        g = g[tuple(None if p in plane.positions else slice(None) for p in range(x.ndim))]
    g = g.rechunk({p: own for p, own in enumerate(x.chunks) if p not in plane.positions})
    return (plane.per_chunk(_cotangent, g),)


def _dropped(op: Any, plane: Plane, y: Chunked) -> Chunked:
    """The result without the axes that a whole window drops."""
    return da.squeeze(y, plane.positions) if isinstance(op, WholeWindow) and not op.keepdims else y


def _value(x: Any, op: Any, parts: tuple[Part, ...]) -> Any:
    return dispatch.forward(op, (x,))


def _tangent(x: Any, dx: Any, op: Any, parts: tuple[Part, ...]) -> Any:
    return dispatch.jvp(op, (x,), (dx,))[1]


def _cotangent(x: Any, g: Any, op: Any, parts: tuple[Part, ...], place: Any) -> Any:
    return placed(dispatch.vjp(op, (x,), g)[0], parts, *place)


def placed(gx: Any, parts: tuple[Part, ...], positions: tuple[int, ...], spans: tuple[Span, ...]) -> Any:
    """The cotangents of a chunk's cells, of those of the cells that parts read; 0 of all others."""
    source, target, shape = [slice(None)] * gx.ndim, [slice(None)] * gx.ndim, list(gx.shape)
    for p, part, (begin, end) in zip(positions, parts, spans, strict=True):
        low, high = max(begin, part.begin), min(end, part.end)
        source[p], target[p] = slice(low - part.begin, high - part.begin), slice(low - begin, high - begin)
        shape[p] = end - begin
    inside = gx[tuple(source)]
    if inside.shape == tuple(shape):
        return inside
    whole = np.zeros(shape, gx.dtype)
    whole[tuple(target)] = inside
    return whole


def _indices(x: Any, op: Any, parts: tuple[Part, ...], positions: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """Flat indices in the whole plane, of those in the plane of a part; -1 stays."""
    found = dispatch.with_indices(op, (x,))[1]
    own, plane, rest = [x.shape[p] for p in positions], np.zeros_like(found), np.maximum(found, 0)
    stride = 1
    for length, part, size in zip(reversed(own), reversed(parts), reversed(sizes), strict=True):
        plane += (rest % length + part.begin) * stride
        rest, stride = rest // length, stride * size
    return np.where(found < 0, -1, plane)
