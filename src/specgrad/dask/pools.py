"""Pooling of dask arrays: tasks over slices, and how their results lie together.

A value, a tangent or an index is made per tile of outputs. A cotangent is made per chunk of the
operand, from all outputs that read the chunk, so that chunks do not wait for each other.
"""

from __future__ import annotations

import functools
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
from .tasks import Span, Tasks, zeros
from .tiling import Part, localised, readers, tiles

Chunked = Any
"""A dask array."""


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

    def boxes(self, x: Chunked, spans: Sequence[Span], batch: Sequence[int]) -> list[Span | int]:
        """Per axis of an array, the cells along spatial axes and the number of a chunk along
        others."""
        along, others = dict(zip(self.positions, spans, strict=True)), iter(batch)
        return [along[p] if p in along else next(others) for p in range(x.ndim)]

    def batches(self, x: Chunked) -> Iterable[tuple[int, ...]]:
        """The chunks along axes that are not spatial."""
        return itertools.product(*[range(n) for p, n in enumerate(x.numblocks) if p not in self.positions])

    def index(self, place: Sequence[int], batch: Sequence[int]) -> list[int]:
        """The index of a chunk of a result, of its places along spatial axes and along others."""
        along, others = dict(zip(self.positions, place, strict=True)), iter(batch)
        return [along[p] if p in along else next(others) for p in range(self.x.ndim)]

    def lengths(self, along: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """The chunks of a result that has these along spatial axes, and those of x along others."""
        own = dict(zip(self.positions, along, strict=True))
        return [own.get(p, chunks) for p, chunks in enumerate(self.x.chunks)]

    def per_tile(self, run: Callable[..., Any], arrays: Sequence[Chunked], dtype: Any, **given: Any) -> Chunked:
        """A number per output, by tasks over the cells of each tile."""
        grid = self.tiles()
        tasks = Tasks(self.op.name, arrays, self.op, run, given)
        for numbered in itertools.product(*[list(enumerate(own)) for own in grid]):
            parts = tuple(part for _, part in numbered)
            spans = [(p.begin, p.end) for p in parts]
            made = functools.partial(run, op=localised(self.op, parts), parts=parts, **given)
            for batch in self.batches(self.x):
                keys = [tasks.box(x, self.boxes(x, spans, batch)) for x in arrays]
                tasks.add(self.index([number for number, _ in numbered], batch), made, *keys)
        return tasks.array(self.lengths([[p.last - p.first for p in own] for own in grid]), dtype)

    def per_chunk(self, run: Callable[..., Any], cotangent: Chunked, more: Sequence[Any] = (), **given: Any) -> Chunked:
        """A number per cell of the operand, by tasks over all outputs that read a chunk; tasks also
        read `more`, which are Delayed."""
        x, grid = self.x, self.spans()
        tasks = Tasks(f"{self.op.name}-vjp", [x, cotangent], self.op, run, given)
        for numbered in itertools.product(*[list(enumerate(own)) for own in grid]):
            place, spans = [number for number, _ in numbered], tuple(span for _, span in numbered)
            read = [readers(*own) for own in zip(self.axes, self.chunks, *zip(*spans, strict=True), strict=True)]
            for batch in self.batches(x):
                runs = []
                for parts in itertools.product(*read):
                    made = functools.partial(
                        run, op=localised(self.op, parts), parts=parts, place=(self.positions, spans), **given
                    )
                    cells = tasks.box(x, self.boxes(x, [(p.begin, p.end) for p in parts], batch))
                    arriving = tasks.box(cotangent, self.boxes(cotangent, [(p.first, p.last) for p in parts], batch))
                    runs.append((made, cells, arriving, *[one.key for one in more]))
                index = self.index(place, batch)
                shape = [own[i] for own, i in zip(x.chunks, index, strict=True)]
                if runs:
                    tasks.add_sum(index, runs)
                elif x.dtype == object:
                    tasks.add(index, functools.partial(zeros, shape), tasks.box(x, self.boxes(x, spans, batch)))
                else:
                    tasks.add(index, functools.partial(np.zeros, shape, x.dtype))
        return tasks.array(x.chunks, x.dtype, more)


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
    whole = zeros(shape, gx)
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
