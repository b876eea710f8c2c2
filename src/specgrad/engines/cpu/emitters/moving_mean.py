"""Means of integers over a window of rows and columns: exact running sums, truncated towards zero
after each axis.

Rows are first: a row of sums gains the row that enters the window and loses the row that leaves it,
which is exact for integers. The resulting means, with the cells beyond both ends of the row, are
then summed along the row, by blocks. Tables give the cells beyond an edge.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

from ..codegen.builder import Kernel
from ..codegen.combine import Sum
from ..codegen.values import WORD, Cell, Number, Pointer, Value, constant
from .windows import Window, block_of, split


@dataclass(frozen=True)
class MovingMean:
    """A kernel of means: its cells, the cells of sums, and the window, of which a side may be 1."""

    cell: Cell
    total: Cell
    rows: int
    columns: int
    lanes: int
    """Of vectors along a row, at most its cells."""


def emit(how: MovingMean, vector: int) -> Kernel:
    """args: x, y, tables of rows and of columns beyond the edges (-1: filled), a row of filling,
    sizes; an item is a band of rows of a plane. Scratch: three rows of sums of `pitch` cells."""
    return _MovingMean(how, vector).kernel


class _MovingMean:
    def __init__(self, how: MovingMean, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("moving_mean", vector)
        self.x, self.y = k.array("x", how.cell), k.array("y", how.cell)
        self.rows, self.columns = k.array("rows", WORD), k.array("columns", WORD)
        self.filling = k.array("filling", how.cell)
        self.n = k.sizes("height width bands band before pitch")
        self.sums = k.room(0, how.total)
        self.wide = self.sums + self.n.pitch
        self.blocks = self.wide + self.n.pitch
        with k.loop(k.begin, k.end) as each:
            cells = each.index // self.n.bands * (self.n.height * self.n.width)
            first = each.index % self.n.bands * self.n.band
            self._band(self.x + cells, self.y + cells, first, k.least(first + self.n.band, self.n.height))
        k.finish()

    def _along(self, body: Callable[[Value, int], None]) -> None:
        """body(index, lanes) for each cell of a row, once: in vectors, then one by one."""
        self.kernel.together(
            0, self.n.width, self.how.lanes, lambda index, lanes, _: body(index, lanes if lanes > 1 else 0)
        )

    def _row(self, plane: Pointer, number: Number) -> Pointer:
        k, place = self.kernel, self.kernel.load(self.rows, number)
        return k.select(place < 0, self.filling, plane + place * self.n.width)

    def _cells(self, row: Pointer, index: Number, lanes: int) -> Value:
        return self.kernel.cast(self.kernel.load(row, index, lanes), self.how.total.computed)

    def _divided(self, sums: Value, by: int) -> Value:
        if not self.how.total.signed or by == 1:
            return sums // by
        k = self.kernel
        return Value(k, k.builder.sdiv(sums.value, constant(sums.type, by)))

    def _band(self, plane: Pointer, target: Pointer, first: Value, last: Value) -> None:
        k, how = self.kernel, self.how

        def begin(index: Value, lanes: int) -> None:
            k.store(k.number(how.total, 0, lanes), self.sums, index)

        self._along(begin)
        with k.loop(first, first + (how.rows - 1)) as tap:
            row = self._row(plane, tap.index)

            def add(index: Value, lanes: int) -> None:
                k.store(k.load(self.sums, index, lanes) + self._cells(row, index, lanes), self.sums, index)

            self._along(add)
        with k.loop(first, last) as down:
            enters, leaves = self._row(plane, down.index + (how.rows - 1)), self._row(plane, down.index)
            line = target + down.index * self.n.width

            def move(index: Value, lanes: int) -> None:
                total = self._cells(enters, index, lanes)
                if how.rows > 1:
                    total = total + k.load(self.sums, index, lanes)
                    k.store(total - self._cells(leaves, index, lanes), self.sums, index)
                mean = self._divided(total, how.rows)
                if how.columns > 1:
                    k.store(mean, self.wide, self.n.before + index)
                else:
                    k.store(mean, line, index)

            self._along(move)
            if how.columns > 1:
                self._across(line)

    def _across(self, line: Pointer) -> None:
        """The means of the row in `wide`, across."""
        k, how, n = self.kernel, self.how, self.n
        filling = k.cast(k.load(self.filling), how.total.computed)
        with k.loop(0, how.columns - 1) as edge:
            place = k.load(self.columns, edge.index)
            inside = k.load(self.wide, n.before + k.most(place, 0))
            at = k.select(edge.index < n.before, edge.index, edge.index + n.width)
            k.store(k.select(place < 0, filling, inside), self.wide, at)
        block = block_of(Window(how.columns), Sum(how.total))
        if block > 1:
            with k.loop(0, n.width + (how.columns - block), how.lanes) as along:
                k.store(self._sum([(self.wide, t) for t in range(block)], along.index), self.blocks, along.index)
        parts = [(self.blocks if size > 1 else self.wide, start) for start, size in split(how.columns, block, False)]

        def body(index: Number) -> None:
            k.store(self._divided(self._sum(parts, index), how.columns), line, index)

        k.vectors(n.width, how.lanes, body)

    def _sum(self, parts: list[tuple[Pointer, int]], index: Number) -> Value:
        taken = [self.kernel.load(room, index + start, self.how.lanes) for room, start in parts]
        return functools.reduce(operator.add, taken)
