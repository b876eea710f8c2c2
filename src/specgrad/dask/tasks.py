"""A graph of tasks over slices of dask arrays, made at once.

Every task reads a box of cells of each operand, in one piece, from the chunks that the box crosses.
One layer holds all tasks of an operator: arrays that are cut and joined one by one have a layer
each, and their number makes every further step slower.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

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
        self.starts = {x.name: [np.cumsum([0, *own]).tolist() for own in x.chunks] for x in operands}

    def box(self, x: Chunked, spans: Sequence[Span | int]) -> Any:
        """The key of a box of cells of an operand: per axis cells, or the number of a chunk."""
        if all(isinstance(span, int) for span in spans):
            return (x.name, *spans)
        key = (f"{self.name}-cells", x.name, *spans)
        if key not in self.layer:
            crossed = [
                [(span, None)] if isinstance(span, int) else list(_crossed(starts, span))
                for span, starts in zip(spans, self.starts[x.name], strict=True)
            ]
            if all(len(own) == 1 and own[0][1] is None for own in crossed):
                return (x.name, *(own[0][0] for own in crossed))
            pieces = [self._piece(x, combination) for combination in itertools.product(*crossed)]
            counts = tuple(map(len, crossed))
            self.layer[key] = pieces[0] if len(pieces) == 1 else (functools.partial(_joined, counts), pieces)
        return key

    def _piece(self, x: Chunked, places: Sequence[tuple[int, Span | None]]) -> Any:
        """The cells that a box has of one chunk."""
        chunk = (x.name, *(number for number, _ in places))
        if all(span is None for _, span in places):
            return chunk
        key = (f"{self.name}-piece", *chunk, *(span for _, span in places))
        cuts = tuple(slice(None) if span is None else slice(*span) for _, span in places)
        self.layer[key] = (functools.partial(_cut, cuts), chunk)
        return key

    def add(self, index: Sequence[int], run: Callable[..., Any], *keys: Any) -> None:
        """The chunk at an index of the result: run(*values of keys)."""
        self.layer[self.name, *index] = (run, *keys)

    def add_sum(self, index: Sequence[int], runs: Sequence[Any]) -> None:
        """The chunk at an index: the sum of run(*keys) over all (run, *keys), from the first on."""
        parts = [(f"{self.name}-part", *index, number) for number in range(len(runs))]
        self.layer.update(zip(parts, runs, strict=True))
        self.layer[self.name, *index] = (_summed, parts)

    def array(self, chunks: Any, dtype: Any, more: Sequence[Any] = ()) -> Chunked:
        """The result; `more` are other collections whose keys tasks read."""
        graph = HighLevelGraph.from_collections(self.name, self.layer, dependencies=[*self.operands, *more])
        return da.Array(graph, self.name, chunks=tuple(map(tuple, chunks)), meta=np.empty((0,) * len(chunks), dtype))


def _crossed(starts: Sequence[int], span: Span) -> Iterator[tuple[int, Span | None]]:
    """The chunks that cells from begin to end lie in, and which of their cells; None: all."""
    begin, end = span
    for number, (start, stop) in enumerate(itertools.pairwise(starts)):
        low, high = max(begin, start), min(end, stop)
        if low < high or (begin == end and start <= begin <= stop):
            yield number, None if (low, high) == (start, stop) else (low - start, high - start)
            if begin == end:
                return


def _cut(cuts: tuple[slice, ...], chunk: Any) -> Any:
    cells = chunk[cuts]
    return cells.copy() if cells.size <= SMALL * chunk.size else cells


def _joined(counts: tuple[int, ...], pieces: list[Any]) -> Any:
    """Pieces side by side, in row-major order, so many along each axis."""
    grid = np.empty(counts, object)
    grid.reshape(-1)[:] = [None] * len(pieces)
    for place, piece in enumerate(pieces):
        grid.reshape(-1)[place] = piece
    lengths = [
        [grid[tuple(i if p == axis else 0 for p in range(grid.ndim))].shape[axis] for i in range(count)]
        for axis, count in enumerate(counts)
    ]
    ends = [np.cumsum([0, *own]).tolist() for own in lengths]
    whole = np.empty([own[-1] for own in ends], np.result_type(*pieces))
    for index in np.ndindex(*counts):
        whole[tuple(slice(own[i], own[i + 1]) for own, i in zip(ends, index, strict=True))] = grid[index]
    return whole


def _summed(parts: list[Any]) -> Any:
    return functools.reduce(np.add, parts)
