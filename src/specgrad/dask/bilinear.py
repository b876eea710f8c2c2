"""Convolution of dask arrays: the input in chunks, weight and bias whole in every task.

The cotangents of weight and bias are sums over tasks, added in a tree.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np

from .. import dispatch
from .pools import Chunked, Plane, chunked, placed, refuse_out
from .tasks import Tasks, added
from .tiling import Part, localised


class Channels:
    """A convolution over the chunks of its input, whose channels are in one chunk."""

    def __init__(self, op: Any, operands: tuple[Any, ...]) -> None:
        names = [slot.name for slot in op.slots]
        x, *rest = [chunked(op.name, n, o) for n, o in zip(names, operands, strict=False)]
        self.shape = op.output_shape(x.shape, *[w.shape for w in rest])
        rank = len(op.weight_kernel()[0])
        self.channel = x.ndim - rank - 1
        self.positions = tuple(range(self.channel + 1, x.ndim))
        self.x = x.rechunk({self.channel: -1})
        axes = [axis for axis, _ in op.sliding(tuple(x.shape[p] for p in self.positions))]
        self.plane = Plane(op, self.x, self.positions, axes)
        self.weights, self.op = rest, op
        self.rest = dask.delayed([dask.delayed(w) for w in rest])
        first = [parts[0] for parts in self.plane.tiles()]
        empty = np.zeros((0, x.shape[self.channel], *[p.end - p.begin for p in first]), x.dtype)
        tried = [np.zeros(w.shape, w.dtype) for w in rest]
        self.dtype = dispatch.forward(localised(op, first), (empty, *tried)).dtype

    def written(self, chunks: tuple[Any, ...]) -> tuple[Any, ...]:
        """The chunks of a result, of those of an input with the result's spatial lengths."""
        return (*chunks[: self.channel], (self.shape[self.channel],), *chunks[self.channel + 1 :])

    def per_tile(self, run: Any, arrays: Sequence[Chunked], more: Sequence[Any]) -> Chunked:
        """A task per tile of outputs, which also reads `more`."""
        plane, grid = self.plane, self.plane.tiles()
        tasks = Tasks(self.op.name, arrays, self.op, run, [one.key for one in more])
        for numbered in itertools.product(*[list(enumerate(own)) for own in grid]):
            parts = tuple(part for _, part in numbered)
            made = functools.partial(run, op=localised(self.op, parts))
            for batch in plane.batches(self.x):
                spans = [(p.begin, p.end) for p in parts]
                keys = [tasks.box(x, plane.boxes(x, spans, batch)) for x in arrays]
                index = plane.index([number for number, _ in numbered], batch)
                tasks.add(index, made, *[one.key for one in more], *keys)
        lengths = plane.lengths([[p.last - p.first for p in own] for own in grid])
        return tasks.array(self.written(tuple(lengths)), self.dtype, more)

    def partial_sums(self, cotangent: Chunked, slots: Sequence[int]) -> list[Chunked]:
        """Cotangents of weight and bias: those of every task, added in a tree."""
        plane = self.plane
        tasks = Tasks(f"{self.op.name}-sums", [self.x, cotangent], self.op, slots, self.rest.key)
        level: list[Any] = []
        for parts in itertools.product(*plane.tiles()):
            made = functools.partial(_weights, op=localised(self.op, parts), slots=tuple(slots))
            for batch in plane.batches(self.x):
                cells = tasks.box(self.x, plane.boxes(self.x, [(p.begin, p.end) for p in parts], batch))
                arriving = tasks.box(cotangent, plane.boxes(cotangent, [(p.first, p.last) for p in parts], batch))
                level.append((made, cells, arriving, self.rest.key))
        total = tasks.tree(level, _added, [self.rest])
        likes = [self.weights[slot - 1] for slot in slots]
        return [da.from_delayed(total[i], like.shape, like.dtype) for i, like in enumerate(likes)]


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Chunked:
    refuse_out(op.name, out)
    channels = Channels(op, operands)
    return channels.per_tile(_value, [channels.x], [channels.rest])


def push(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Chunked:
    channels = Channels(op, operands)
    dx, *moved = tangents
    along = None if dx is None else chunked(op.name, "tangent of x", dx).rechunk(channels.x.chunks)
    rest = dask.delayed([None if t is None else dask.delayed(t) for t in moved])
    arrays = [channels.x] if along is None else [channels.x, along]
    return channels.per_tile(_tangent, arrays, [channels.rest, rest])


def pull(op: Any, operands: tuple[Any, ...], cotangent: Any, wanted: Sequence[bool]) -> tuple[Chunked, ...]:
    channels = Channels(op, operands)
    batch = {p: own for p, own in enumerate(channels.x.chunks) if p < channels.channel}
    g = chunked(op.name, "cotangent", cotangent).rechunk({**batch, channels.channel: -1})
    slots = [slot for slot in range(1, len(operands)) if wanted[slot]]
    pulled: list[Any] = [None] * len(operands)
    if wanted[0]:
        pulled[0] = channels.plane.per_chunk(_cotangent, g, [channels.rest])
    for slot, total in zip(slots, channels.partial_sums(g, slots) if slots else [], strict=True):
        pulled[slot] = total
    return tuple(pulled)


def _value(rest: list[Any], x: Any, op: Any) -> Any:
    return dispatch.forward(op, (x, *rest))


def _tangent(rest: list[Any], moved: list[Any], x: Any, dx: Any = None, *, op: Any) -> Any:
    return dispatch.jvp(op, (x, *rest), (dx, *moved))[1]


def _pulled(op: Any, operands: tuple[Any, ...], g: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    return dispatch.pull(op, operands, dispatch.recall(op, operands), g, wanted)


def _cotangent(x: Any, g: Any, rest: list[Any], op: Any, parts: tuple[Part, ...], place: Any) -> Any:
    wanted = (True, *[False] * len(rest))
    return placed(_pulled(op, (x, *rest), g, wanted)[0], parts, *place)


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(added(a, b) for a, b in zip(one, other, strict=True))


def _weights(x: Any, g: Any, rest: list[Any], op: Any, slots: tuple[int, ...]) -> tuple[Any, ...]:
    wanted = [slot in slots for slot in range(len(rest) + 1)]
    pulled = _pulled(op, (x, *rest), g, wanted)
    return tuple(pulled[slot] for slot in slots)
