"""A graph of tasks over slices of dask arrays, made at once.

Every task reads a box of cells of each operand, in one piece, from the chunks that the box crosses.
One layer holds all tasks of an operator: arrays that are cut and joined one by one have a layer
each, and their number makes every further step slower.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from ..scalars import Family, find_family

Chunked = Any
"""A dask array."""
Span = tuple[int, int]
"""Cells from the first to behind the last."""
SMALL = 0.5
"""Up to this part of a chunk, cells that are cut from it are copied, so that the chunk can go."""


class Tasks:
    """Tasks whose results are the chunks of one array."""

    def __init__(self, word: str, operands: Sequence[Chunked], *what: Any) -> None:
        self.operands = list(operands)
        self.name = f"specgrad-{word}-" + tokenize(word, [x.name for x in operands], *what)
        self.layer: dict[Any, Any] = {}
        self.small: dict[Any, dict[Any, None]] = {}
        """Small pieces, by their chunk."""
        self.large: dict[Any, Any] = {}
        """The first box that has most of a chunk."""
        self.starts = {x.name: [np.cumsum([0, *own]).tolist() for own in x.chunks] for x in operands}

    def box(self, x: Chunked, spans: Sequence[Span | int]) -> Any:
        """The key of a box of cells of an operand: per axis cells, or the number of a chunk."""
        key = (f"{self.name}-cells", x.name, *spans)
        if key not in self.layer:
            crossed = [
                [(span, None)] if isinstance(span, int) else list(_crossed(starts, span))
                for span, starts in zip(spans, self.starts[x.name], strict=True)
            ]
            pieces = [self._piece(key, x, combination) for combination in itertools.product(*crossed)]
            self.layer[key] = (functools.partial(_joined, tuple(map(len, crossed))), pieces)
        return key

    def _piece(self, box: Any, x: Chunked, places: Sequence[tuple[int, Span | None]]) -> Any:
        """The cells that a box has of one chunk."""
        chunk = key = (x.name, *(number for number, _ in places))
        parts = [
            1.0 if span is None else (span[1] - span[0]) / max(own[number], 1)
            for (number, span), own in zip(places, x.chunks, strict=True)
        ]
        is_small = math.prod(parts) <= SMALL
        if any(span is not None for _, span in places):
            key = (f"{self.name}-piece", *chunk, *(span for _, span in places))
            cuts = tuple(slice(None) if span is None else slice(*span) for _, span in places)
            self.layer[key] = (functools.partial(_cut, cuts, is_small), chunk)
        if is_small:
            self.small.setdefault(chunk, {})[key] = None
        else:
            self.large.setdefault(chunk, box)
        return key

    def _graph(self, more: Sequence[Any]) -> Any:
        """All tasks. Before the first box that has most of a chunk, the small pieces of that chunk
        are cut, so that the chunk can go: a scheduler would cut them when others need them."""
        for chunk, box in self.large.items():
            join, pieces, *before = self.layer[box]
            self.layer[box] = (join, pieces, [*(before[0] if before else []), *self.small.get(chunk, {})])
        return HighLevelGraph.from_collections(self.name, self.layer, dependencies=[*self.operands, *more])

    def add(self, index: Sequence[int], run: Callable[..., Any], *keys: Any) -> None:
        """The chunk at an index of the result: run(*values of keys)."""
        self.layer[self.name, *index] = (run, *keys)

    def add_sum(self, index: Sequence[int], runs: Sequence[Any]) -> None:
        """The chunk at an index: the sum of run(*keys) over all (run, *keys), from the first on."""
        parts = [(f"{self.name}-part", *index, number) for number in range(len(runs))]
        self.layer.update(zip(parts, runs, strict=True))
        self.layer[self.name, *index] = (_summed, parts)

    def tree(self, runs: Sequence[Any], add: Callable[[Any, Any], Any], more: Sequence[Any]) -> Any:
        """What all (run, *keys) make, added in pairs: a Delayed."""
        level: list[Any] = [(f"{self.name}-part", number) for number in range(len(runs))]
        self.layer.update(zip(level, runs, strict=True))
        for depth in itertools.count():
            if len(level) == 1:
                break
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            joined = {(f"{self.name}-sum", depth, i): (add, *pair) for i, pair in enumerate(pairs) if len(pair) == 2}
            self.layer.update(joined)
            level = [*joined, *(pair[0] for pair in pairs if len(pair) == 1)]
        self.layer[self.name] = (_same, level[0])
        return Delayed(self.name, self._graph(more))

    def array(self, chunks: Any, dtype: Any, more: Sequence[Any] = ()) -> Chunked:
        """The result; `more` are other collections whose keys tasks read."""
        meta = np.empty((0,) * len(chunks), dtype)
        return da.Array(self._graph(more), self.name, chunks=tuple(map(tuple, chunks)), meta=meta)


def _crossed(starts: Sequence[int], span: Span) -> Iterator[tuple[int, Span | None]]:
    """The chunks that cells from begin to end lie in, and which of their cells; None: all."""
    begin, end = span
    for number, (start, stop) in enumerate(itertools.pairwise(starts)):
        low, high = max(begin, start), min(end, stop)
        if low < high or (begin == end and start <= begin <= stop):
            yield number, None if (low, high) == (start, stop) else (low - start, high - start)
            if begin == end:
                return


def _cut(cuts: tuple[slice, ...], is_small: bool, chunk: Any) -> Any:
    return chunk[cuts].copy() if is_small else chunk[cuts]


def _joined(counts: tuple[int, ...], pieces: list[Any], cut_before: Any = ()) -> Any:
    """Pieces side by side, in row-major order, so many along each axis."""
    if len(pieces) == 1:
        return pieces[0]
    steps = [math.prod(counts[axis + 1 :]) for axis in range(len(counts))]
    lengths = [
        [pieces[i * step].shape[axis] for i in range(count)]
        for axis, (count, step) in enumerate(zip(counts, steps, strict=True))
    ]
    ends = [np.cumsum([0, *own]).tolist() for own in lengths]
    whole = np.empty([own[-1] for own in ends], np.result_type(*pieces))
    for index, piece in zip(np.ndindex(*counts), pieces, strict=True):
        whole[tuple(slice(own[i], own[i + 1]) for own, i in zip(ends, index, strict=True))] = piece
    return whole


def _same(value: Any) -> Any:
    return value


def _summed(parts: list[Any]) -> Any:
    return functools.reduce(added, parts)


def _family(cells: Any) -> Family:
    return find_family("sum", ["x"], [cells])


def added(one: Any, other: Any) -> Any:
    """The sum of two arrays of one kind of scalar, which may be undefined without a word."""
    with _family(one).computing():
        return one + other


def summed(x: Chunked, axis: tuple[int, ...], keepdims: bool = False) -> Chunked:
    """The sum over axes, in the dtype of the cells."""
    return da.reduction(x, _reduced, _reduced, axis=axis, keepdims=keepdims, dtype=x.dtype) if axis else x


def _reduced(cells: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    with _family(cells).computing():
        return cells.sum(axis=axis, keepdims=keepdims, dtype=cells.dtype)


def zeros(shape: Sequence[int], like: Any) -> Any:
    """Zeros of the same kind of scalar as the cells of an array."""
    if like.dtype != object:
        return np.zeros(shape, like.dtype)
    family = _family(like)
    return family.leave(family.zeros(math.prod(shape)), tuple(shape))
