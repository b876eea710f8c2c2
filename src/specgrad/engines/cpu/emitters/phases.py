"""The way back through windows of one size: each cell gathers what the windows that read it bring.

Cells of one phase (their place modulo the stride) are read by the same taps of neighbouring windows, so lanes run along windows, and
the phases of a row are interleaved when it is written. Windows are added in row-major order. What a window brings to a cell is said by `term`:

| term | brings | VJP of |
|---|---|---|
| "all" | its cotangent, to all its cells | a sum |
| "code" | its cotangent, to the cell whose tap is its code | a maximum, ties "first" |
| "equal" | its cotangent, to cells that equal its value | a maximum, other ties |
| "softmax" | its cotangent times exp(β (cell - value)) | a smooth maximum |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..codegen.builder import F32, I32, I64, Cell, Kernel, Number, Pointer, Value
from ..codegen.combine import weight, working
from ..codegen.vector_math import fma
from .windows import Window, copy_exactly


@dataclass(frozen=True)
class Phases:
    """A kernel that gathers cotangents."""

    term: str
    cell: Cell
    result: Cell
    beside: Cell | None
    """The cells of codes, or of the values of windows."""
    rows: Window
    columns: Window
    before: tuple[int, int]
    tile: tuple[int, int]
    """Most groups of rows and of columns in a tile; a group is as many cells as windows are apart."""
    narrow: bool
    """Whether a row has fewer cells than a vector of groups."""
    rest: int
    """Cells of a row that are no whole group."""
    lanes: int
    copy_lanes: int
    """Lanes of the loads that copy a row of windows, at most its windows."""
    divides: str = "no"
    negative: bool = False
    """Whether β is."""
    marks: bool = False
    """Whether -0.0 is written where no window reads a cell: the next stage then brings nothing to what was folded into it."""


class Reader(NamedTuple):
    """A window that reads a cell: where it is, counted from the cell's group, and by which tap it reads."""

    window: int
    tap: int


def readers(window: Window, before: int) -> list[list[Reader]]:
    """Of each phase the windows that read its cells, ascending."""
    phases = []
    for phase in range(window.stride):
        places = [(phase + before - tap * window.dilation, tap) for tap in range(window.taps)]
        found = [Reader(place // window.stride, tap) for place, tap in places if place % window.stride == 0]
        phases.append(sorted(found))
    return phases


def emit(how: Phases, vector: int) -> Kernel:
    """args: g, [codes or values], [x], gx, [divisors], [beta], sizes; an item is a tile."""
    return _Phases(how, vector).kernel


class _Phases:
    def __init__(self, how: Phases, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("phases", vector)
        self.g = k.array("g", how.cell)
        if how.beside is not None:
            self.beside = k.array("codes" if how.term == "code" else "values", how.beside)
        if how.term in ("equal", "softmax"):
            self.x = k.array("x", how.cell)
        self.gx = k.array("gx", how.result)
        if how.divides != "no":
            self.row_divisors = k.array("row_divisors", working(how.cell))
        if how.divides == "each":
            self.column_divisors = k.array("column_divisors", working(how.cell))
        if how.term == "softmax":
            k.beta = k.load(k.array("beta", working(how.cell)))
        names = "height width height_out width_out down across tile_rows tile_columns groups_down groups_across"
        self.n = k.sizes(*names.split())
        self.none: Any = {"code": -1, "softmax": -math.inf if how.negative else math.inf}.get(how.term, 0)
        """What stands beside a cotangent where there is no window."""
        self.down, self.across = readers(how.rows, how.before[0]), readers(how.columns, how.before[1])
        self.low_row, self.high_row = _span(self.down)
        self.low, self.high = _span(self.across)
        lanes, (rows, columns) = how.lanes, how.tile
        self.pitch = -(-(columns + self.high - self.low) // lanes) * lanes + lanes
        lines = rows + self.high_row - self.low_row
        self.lines = k.room(lines * self.pitch, working(how.cell))
        if how.beside is not None:
            self.beside_lines = k.room(lines * self.pitch, working(how.beside))
        if how.narrow:
            cells = rows * how.rows.stride * columns * how.columns.stride
            self.stage = k.room(cells + how.columns.stride * lanes, how.result)
        self._tiles()
        k.finish()

    def _tiles(self) -> None:
        k, how, n = self.kernel, self.how, self.n
        tiles = n.down * n.across
        with k.loop(k.begin, k.end) as each:
            self.plane, tile = each.index // tiles, each.index % tiles
            self.top, self.left = tile // n.across * n.tile_rows, tile % n.across * n.tile_columns
            self.rows_here = k.least(n.tile_rows, n.groups_down - self.top)
            self.columns_here = k.least(n.tile_columns, n.groups_across - self.left)
            with k.loop(0, self.rows_here + (self.high_row - self.low_row)) as line:
                self._copy_line(line.index)
            start = self.plane * n.height * n.width
            first = start + self.top * how.rows.stride * n.width + self.left * how.columns.stride
            self.target = self.gx + first
            if how.term in ("equal", "softmax"):
                self.source = self.x + first
            with k.loop(0, self.rows_here) as down:
                for phase, above in enumerate(self.down):
                    row = down.index * how.rows.stride + phase
                    with k.when(self.top * how.rows.stride + row < n.height) if phase else k.always():
                        self._row(down.index, row, above)
            if how.narrow:
                cells = k.least(self.rows_here * how.rows.stride, n.height - self.top * how.rows.stride) * n.width
                copy_exactly(k, self.stage, self.target, cells, how.lanes)

    def _copy_line(self, index: Value) -> None:
        """Copy what a row of windows brings, and nothing where there are no windows."""
        k, how, n = self.kernel, self.how, self.n
        row = self.top + self.low_row + index
        line = self.lines + index * self.pitch
        beside = self.beside_lines + index * self.pitch if how.beside is not None else None
        span = self.columns_here + (self.high - self.low)
        first = self.left + self.low  # the window at the beginning of the line
        is_real = (row >= 0) & (row < n.height_out)
        begin = k.select(is_real, k.integer(k.most(0, 0 - first)), k.integer(span))
        end = k.select(is_real, k.integer(k.least(span, n.width_out - first)), k.integer(span))
        zero = k.number(how.cell, 0, how.lanes)
        self._fill(line, beside, 0, begin, zero)
        source = (self.plane * n.height_out + row) * n.width_out + first
        lanes = how.copy_lanes

        def copy(i: Number, carried: list[Any]) -> None:
            at = begin + i
            cells = k.load(self.g, source + at, lanes)
            if how.divides != "no":
                cells = cells / self._divisors(row, first + at, lanes)
            k.store(cells, line, at)
            if beside is not None:
                k.store(k.load(self.beside, source + at, lanes), beside, at)

        k.vectors(end - begin, lanes, copy)
        self._fill(line, beside, end, span, zero)

    def _fill(self, line: Pointer, beside: Pointer | None, begin: Number, end: Number, zero: Value) -> None:
        """No windows: nothing is brought."""
        k, how = self.kernel, self.how
        with k.loop(begin, end, how.lanes) as along:
            k.store(zero, line, along.index)
            if beside is not None:
                k.store(k.number(beside.cell, self.none, how.lanes), beside, along.index)

    def _divisors(self, row: Value, column: Number, lanes: int) -> Value:
        k = self.kernel
        if self.how.divides == "all":
            return k.splat(k.load(self.row_divisors), lanes)
        return k.splat(k.load(self.row_divisors, row), lanes) * k.load(self.column_divisors, column, lanes)

    def _row(self, group: Value, row: Value, above: list[Reader]) -> None:
        """One row of cells."""
        k, how, n, stride = self.kernel, self.how, self.n, self.how.columns.stride
        lanes, columns, across = how.lanes, self.columns_here, list(enumerate(self.across))

        def cells(index: Number) -> Value:
            return _interleaved(k, [self._gather(group, row, index, p, above, beside, lanes) for p, beside in across])

        if how.narrow:
            with k.loop(0, columns, lanes) as along:
                k.store(cells(along.index), self.stage, row * n.width + along.index * stride)
            return
        whole = columns
        if how.rest:  # the last group of the last tile is not whole
            is_last = self.left + columns >= n.groups_across
            whole = columns - k.cast(is_last, columns.type)
        target = self.target + row * n.width
        k.vectors(whole, lanes, lambda index, carried: k.store(cells(index), target, index * stride))
        if how.rest:
            with k.when(is_last):
                for phase, beside in across[: how.rest]:
                    cell = self._gather(group, row, whole, phase, above, beside, 1)
                    k.store(cell, target, whole * stride + phase)

    def _gather(
        self,
        group: Value,
        row: Value,
        column: Number,
        phase: int,
        above: list[Reader],
        beside: list[Reader],
        lanes: int,
    ) -> Value:
        """What the windows that read the cells of one phase bring, from the group `column` on."""
        k, how = self.kernel, self.how
        total, x = k.number(how.cell, -0.0 if how.marks else 0, lanes), None
        if how.term in ("equal", "softmax"):
            stride = how.columns.stride
            at = row * self.n.width + column * stride + phase
            x = k.strided(self.source, at, stride, lanes, phase) if lanes > 1 else k.load(self.source, at, 1)
        for down in above:
            line = (group + (down.window - self.low_row)) * self.pitch
            for across in beside:
                at = line + column + (across.window - self.low)
                brought = k.load(self.lines, at, lanes)
                if how.beside is None:
                    total = total + brought
                    continue
                value = k.load(self.beside_lines, at, lanes)
                total = self._added(total, brought, value, down.tap * how.columns.taps + across.tap, x)
        return total

    def _added(self, total: Value, brought: Value, value: Value, code: int, x: Any) -> Value:
        """The total, with what a window brings to a cell that is its tap `code`."""
        k, term = self.kernel, self.how.term
        if term == "softmax":  # a NaN that no window reads gets nothing
            word = I32 if brought.element == F32 else I64
            absent = value.equals(self.none) | k.bits(brought, word).equals(-1 << (word.width - 1))
            return k.select(absent, total, fma(k, brought, weight(k, x, value), total))
        meets = value.equals(code) if term == "code" else value.equals(x) | (value.differs(value) & x.differs(x))
        return k.select(meets, total + brought, total)


def _span(phases: list[list[Reader]]) -> tuple[int, int]:
    """The first and the last window, counted from a group, that reads any of its cells."""
    windows = [reader.window for phase in phases for reader in phase]
    return min(windows, default=0), max(windows, default=0)


def _interleaved(k: Kernel, phases: list[Value]) -> Value:
    """Lane 0 of all phases, then lane 1 of all, and so on."""
    if len(phases) == 1:
        return phases[0]
    lanes, joined = phases[0].lanes, phases[0]
    for number, phase in enumerate(phases[1:], 1):
        wide = k.shuffle(phase, phase, [i if i < lanes else 0 for i in range(number * lanes)])
        joined = k.shuffle(joined, wide, [*range(number * lanes), *range(number * lanes, (number + 1) * lanes)])
    return k.shuffle(joined, joined, [p * lanes + i for i in range(lanes) for p in range(len(phases))])
