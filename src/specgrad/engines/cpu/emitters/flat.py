"""The way back of maxima on small planes: each cell gathers what it won, a plane at a time as one
row of cells.

Windows are copied to scratch, each to the place of a cell, so that every tap lies a fixed distance
from its window and lanes run on from row to row. What a vector meets beside a row, and where there
is no window, has a code that no tap has. Windows are added in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import no_winner, working
from ..codegen.values import WORD, Cell, Number, Pointer, Value


@dataclass(frozen=True)
class Flat:
    """A kernel that gathers cotangents by codes."""

    cell: Cell
    codes: Cell
    taps: int
    lanes: int
    """At most the cells of a plane in scratch."""
    window_lanes: int
    """Of the vectors that copy a row of windows, at most its windows."""
    cell_lanes: int
    """Of those that copy a row of cells from scratch, at most its cells; 0 where planes lie in
    scratch as they do in memory."""
    span: int
    """Room for the windows of a plane, and for what is looked at before and behind them."""
    planes: int
    """How many planes are copied together: a vector that was just written in parts is slow to
    read."""


def emit(how: Flat, vector: int) -> Kernel:
    """args: source, codes, target, tables (the distance of each tap; where each row of windows, and
    of cells, begins), sizes: rows and cells of a row, of windows and of cells; cells of a plane in
    memory and in scratch; and those before the first window. An item is a plane."""
    return _Flat(how, vector).kernel


class _Flat:
    def __init__(self, how: Flat, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("flat", vector)
        self.source, self.codes = k.array("source", how.cell), k.array("codes", how.codes)
        self.target = k.array("target", how.cell)
        distances, self.windows_at, self.cells_at = (k.array(n, WORD) for n in ("distances", "windows_at", "cells_at"))
        self.n = k.sizes("window_rows window_row cell_rows cell_row cells pitched before")
        self.distances = [k.load(distances, tap) for tap in range(how.taps)]
        self.brought = k.room(how.planes * how.span, working(how.cell))
        self.winners = k.room(how.planes * how.span, how.codes)
        self.made = k.room(how.span, working(how.cell)) if how.cell_lanes else None
        with k.loop(0, how.planes * how.span, vector) as each:  # what is no window stays so
            k.store(k.number(self.brought.cell, 0, vector), self.brought, each.index)
            k.store(k.number(how.codes, no_winner(how.codes), vector), self.winners, each.index)
        k.together(k.begin, k.end, how.planes, self._planes)
        k.finish()

    def _planes(self, first: Value, count: int, _: Any) -> None:
        k, n = self.kernel, self.n
        for plane in range(count):
            start = (first + plane) * (n.window_rows * n.window_row)
            with k.loop(0, n.window_rows) as row:
                place = k.load(self.windows_at, row.index) + (n.before + plane * self.how.span)
                self._copy(start + row.index * n.window_row, place)
        for plane in range(count):
            self._gather(plane, self.target + (first + plane) * n.cells)

    def _copy(self, start: Value, place: Value) -> None:
        """Copy a row of windows."""
        k, lanes = self.kernel, self.how.window_lanes

        def copy(index: Number) -> None:
            k.store(k.load(self.source, start + index, lanes), self.brought, place + index)
            k.store(k.load(self.codes, start + index, lanes), self.winners, place + index)

        k.vectors(self.n.window_row, lanes, copy)

    def _gather(self, plane: int, target: Pointer) -> None:
        """The cells of a plane."""
        k, how, n, made = self.kernel, self.how, self.n, self.made
        first = n.before + plane * how.span

        def gather(index: Number) -> None:
            total = k.number(how.cell, 0, how.lanes)
            for tap in reversed(range(how.taps)):
                at = first + index - self.distances[tap]
                meets = k.load(self.winners, at, how.lanes).equals(tap)
                total = k.select(meets, total + k.load(self.brought, at, how.lanes), total)
            k.store(total, target if made is None else made, index)

        k.vectors(n.pitched, how.lanes, gather)
        if made is None:
            return
        with k.loop(0, n.cell_rows) as row:
            place, start = k.load(self.cells_at, row.index), row.index * n.cell_row

            def copy(index: Number, made: Pointer = made) -> None:
                k.store(k.load(made, place + index, how.cell_lanes), target, start + index)

            k.vectors(n.cell_row, how.cell_lanes, copy)
