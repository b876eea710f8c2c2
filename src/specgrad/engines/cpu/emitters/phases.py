"""The VJP of windows of one size: each cell gathers the contributions of the windows that read it.

Cells of one phase (position modulo the stride) are read by the same taps of adjacent windows. So
lanes run along windows, and the phases of a row are interleaved when the row is written. Windows
are added in row-major order. Several rows of cells are computed at a time, so that the
contributions of a row of windows are loaded once. Rows of windows are read in place; short,
divided or converted rows are copied to lines of scratch.

`term` is the contribution of a window to a cell:

| term | contribution | VJP of |
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

from ..codegen.builder import Kernel
from ..codegen.combine import weight, working
from ..codegen.values import Cell, Number, Pointer, Value
from ..codegen.vector_math import fma
from .windows import Divisors, Window, load_padded


class Gather(NamedTuple):
    """What each cell gathers from the windows that read it."""

    term: str
    cell: Cell
    result: Cell
    beside: Cell | None = None
    """The cells of codes, or of the values of windows."""
    negative: bool = False
    """Whether β is."""
    marks: bool = False
    """Whether -0.0 is written where no window reads a cell: the next stage then brings nothing to
    what was folded into it."""


@dataclass(frozen=True)
class Phases:
    """A kernel that gathers cotangents."""

    what: Gather
    rows: Window
    columns: Window
    before: tuple[int, int]
    tile: tuple[int, int]
    """Most groups of rows and of columns in a tile; a group is as many cells as windows are
    apart."""
    rest: tuple[int, int]
    """Rows and columns of cells that are no whole group."""
    stack: int
    """Groups of rows that are filled together."""
    lanes: int
    lines: bool
    """Whether rows of windows are copied to scratch."""
    behind: int = 0
    """How far the windows that read the last whole group of a row reach beyond the last window;
    read where rows are not copied."""
    copy_lanes: int = 1
    """Lanes of the loads that copy a row of windows, at most its windows."""
    planes: int = 1
    """Planes of cells that a window reads; no two windows share one."""
    divides: str = "no"


class Reader(NamedTuple):
    """A window that reads a cell: where it is, counted from the cell's group, and by which tap it
    reads."""

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
    """args: source, [codes or values], [x], target, [divisors], [beta], sizes; items are tiles."""
    return _Phases(how, vector).kernel


class _Phases:
    def __init__(self, how: Phases, vector: int) -> None:
        self.how, self.what = how, how.what
        k, what = Kernel("phases", vector), how.what
        self.kernel = k
        self.given = [k.array("source", what.cell)]
        if what.beside is not None:
            self.given.append(k.array("codes" if what.term == "code" else "values", what.beside))
        self.compares = what.term in ("equal", "softmax")
        if self.compares:
            self.x = k.array("x", what.cell)
        self.gx = k.array("target", what.result)
        self.divisors = Divisors(k, how.divides, what.cell)
        if what.term == "softmax":
            k.beta = k.load(k.array("beta", working(what.cell)))
        names = "height width height_out width_out down across tile_rows tile_columns groups_down groups_across inside"
        self.n = k.sizes(names)
        none = {"code": -1, "softmax": -math.inf if what.negative else math.inf}.get(what.term, 0)
        self.nothing: list[Any] = [0, none][: len(self.given)]
        """What a window that does not exist brings, and what stands beside it."""
        self.down, self.across = readers(how.rows, how.before[0]), readers(how.columns, how.before[1])
        self.low_row, self.high_row = span(self.down)
        self.low, self.high = span(self.across)
        self._rooms()
        self._tiles()
        k.finish()

    def _rooms(self) -> None:
        """Scratch: lines, or one of nothing."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        rows, columns = how.tile
        self.pitch = -(-(columns + self.high - self.low) // lanes) * lanes + lanes
        lines = rows + self.high_row - self.low_row if how.lines else 1
        self.lines = [k.room(lines * self.pitch, working(one.cell)) for one in self.given]
        if not how.lines:
            self._fill(self.lines, 0, self.pitch)

    def _tiles(self) -> None:
        k, how, n = self.kernel, self.how, self.n
        tiles = n.down * n.across
        with k.loop(k.begin, k.end) as each:
            self.plane, tile = each.index // tiles, each.index % tiles
            self.top, self.left = tile // n.across * n.tile_rows, tile % n.across * n.tile_columns
            rows = k.least(n.tile_rows, n.groups_down - self.top)
            self.columns_here = k.least(n.tile_columns, n.groups_across - self.left)
            if how.lines:
                with k.loop(0, rows + (self.high_row - self.low_row)) as line:
                    self._copy_line(line.index)
            start = self.plane * (how.planes * n.height) * n.width
            first = start + self.top * how.rows.stride * n.width + self.left * how.columns.stride
            self.target = self.gx + first
            if self.compares:
                self.source = self.x + first
            is_last = k.cast((self.top + rows).equals(n.groups_down), rows.type)
            whole = rows - is_last if how.rest[0] else rows
            k.together(0, whole, how.stack, lambda group, some, _: self._groups(group, some, how.rows.stride))
            if how.rest[0]:
                with k.loop(whole, rows) as down:
                    self._groups(down.index, 1, how.rest[0])

    def _copy_line(self, index: Value) -> None:
        """Copy what a row of windows brings, and nothing where there are no windows."""
        k, how, n = self.kernel, self.how, self.n
        row = self.top + self.low_row + index
        lines = [room + index * self.pitch for room in self.lines]
        span = self.columns_here + (self.high - self.low)
        first = self.left + self.low  # the window at the beginning of the line
        is_real = (row >= 0) & (row < n.height_out)
        begin = k.select(is_real, k.integer(k.most(0, 0 - first)), k.integer(span))
        end = k.select(is_real, k.integer(k.least(span, n.width_out - first)), k.integer(span))
        self._fill(lines, 0, begin)
        source = (self.plane * n.height_out + row) * n.width_out + first

        def copy(i: Number) -> None:
            at = begin + i
            cells = [k.load(one, source + at, how.copy_lanes) for one in self.given]
            cells[0] = self.divisors.divide(cells[0], row, first + at)
            for one, line in zip(cells, lines, strict=True):
                k.store(one, line, at)

        k.vectors(end - begin, how.copy_lanes, copy)
        self._fill(lines, end, span)

    def _fill(self, lines: list[Pointer], begin: Number, end: Number) -> None:
        """No windows: nothing is brought."""
        k, lanes = self.kernel, self.how.lanes
        with k.loop(begin, end, lanes) as along:
            for line, nothing in zip(lines, self.nothing, strict=True):
                k.store(k.number(line.cell, nothing, lanes), line, along.index)

    def _groups(self, group: Value, some: int, phases: int) -> None:
        """The rows of cells of `some` groups of them, of the first `phases` rows of each."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        sources = {w: self._row(group + w) for w in range(self.low_row, some + self.high_row)}

        def fill(column: Number, edge: str = "") -> None:
            self._cells(sources, (group, some, phases), column, edge)

        columns, (begin, end) = self.columns_here, (k.integer(0), self.columns_here)
        if how.rest[1]:  # the last group of the last tile is not whole
            is_last = self.left + columns >= self.n.groups_across
            end = columns - k.cast(is_last, columns.type)
        whole = end
        last = end - lanes
        if not how.lines and self.low < 0:
            at_left = self.left.equals(0)
            with k.when(at_left):
                fill(0, "left")
            begin = k.select(at_left, k.integer(lanes), begin)
        if not how.lines and how.behind > 0:
            at_right = (self.left + columns).equals(self.n.groups_across)
            with k.when(at_right):
                fill(whole - lanes, "right")
            end, last = k.select(at_right, end - lanes, end), k.least(last, self.n.inside - self.left)
        with k.loop(begin, end, lanes) as along:
            fill(k.least(along.index, last))
        if how.rest[1]:
            with k.when(is_last):
                fill(whole, "rest")

    def _row(self, row: Value) -> list[Pointer]:
        """What a row of windows brings, from the first of the tile's on, counted in groups from its
        top."""
        k, n = self.kernel, self.n
        if self.how.lines:
            return [room + ((row - self.low_row) * self.pitch - self.low) for room in self.lines]
        at = self.top + row
        is_real = (at >= 0) & (at < n.height_out)
        start = (self.plane * n.height_out + at) * n.width_out + self.left
        begin = k.most(self.low, 0 - self.left)
        return [
            k.select(is_real, one + start, room + (0 - begin)) for one, room in zip(self.given, self.lines, strict=True)
        ]

    def _load(self, source: list[Pointer], column: Number, shift: int, edge: str) -> list[Value] | None:
        """What a vector of windows brings, `shift` from the groups of cells from `column` on; None
        where there are none."""
        k, how = self.kernel, self.how
        lanes = 1 if edge == "rest" else how.lanes
        if how.lines:
            return [k.load(one, column + shift, lanes) for one in source]
        place = {"left": shift, "right": shift - lanes - self.high + how.behind, "rest": shift - self.high + how.behind}
        if edge == "rest" and place[edge] >= 0:
            return None
        side, width = "" if edge == "rest" else edge, self.n.width_out - self.left
        loaded = [
            load_padded(k, one, column + shift, (1, lanes, 0), (side, place.get(edge), width), nothing)
            for one, nothing in zip(source, self.nothing, strict=True)
        ]
        loaded[0] = self.divisors.divide(loaded[0], 0, 0)
        return loaded

    def _cells(self, sources: dict[int, list[Pointer]], rows: Any, column: Number, edge: str) -> None:
        """Fill a vector of groups of cells, from `column` on; "rest" is one that is not whole."""
        k, how, stride = self.kernel, self.how, self.how.columns.stride
        group, some, phases = rows
        lanes, across = 1 if edge == "rest" else how.lanes, self.across
        if edge == "rest":
            across = across[: how.rest[1]]
        places = [
            (i, p, q, t)
            for i in range(some)
            for p in range(phases)
            for q in range(len(across))
            for t in range(self._totals)
        ]
        totals = {place: k.number(self.what.cell, -0.0 if self.what.marks else 0, lanes) for place in places}
        x = {}
        if self.compares:
            for i, p, q, t in places:
                at = ((group + i) * how.rows.stride + p) * self.n.width + column * stride + q
                x[i, p, q, t] = k.strided(self.source, at, stride if lanes > 1 else 1, lanes, q)
        for window, source in sources.items():
            for shift in range(self.low, self.high + 1):
                users = [
                    ((i, p, q, t), (t * how.rows.taps + above.tap) * how.columns.taps + beside.tap)
                    for i, p, q, t in places
                    for above in self.down[p]
                    if i + above.window == window
                    for beside in across[q]
                    if beside.window == shift
                ]
                loaded = self._load(source, column, shift, edge) if users else None
                for place, code in users if loaded else ():
                    totals[place] = self._added(totals[place], loaded, code, x.get(place))
        for i, p in dict.fromkeys((i, p) for i, p, _, _ in places):
            row = ((group + i) * how.rows.stride + p) * self.n.width
            for plane in range(how.planes):
                cells = [totals[i, p, q, plane % self._totals] for q in range(len(across))]
                target = self.target + plane * self.n.height * self.n.width
                if edge == "rest":
                    for q, cell in enumerate(cells):
                        k.store(cell, target, row + column * stride + q)
                else:
                    k.store(_interleaved(k, cells), target, row + column * stride)

    @property
    def _totals(self) -> int:
        """Planes of a window whose cells differ."""
        return self.how.planes if self.what.term == "code" else 1

    def _added(self, total: Value, loaded: Any, code: int, x: Any) -> Value:
        """The total, with what a window brings to a cell that is its tap `code`."""
        k, term = self.kernel, self.what.term
        if term == "all":
            return total + loaded[0]
        brought, value = loaded
        if term == "softmax":  # a NaN that no window reads gets nothing
            absent = value.equals(self.nothing[1]) | k.is_negative_zero(brought)
            return k.select(absent, total, fma(k, brought, weight(k, x, value), total))
        meets = value.equals(code) if term == "code" else value.equals(x) | (value.differs(value) & x.differs(x))
        return k.select(meets, total + brought, total)


def span(phases: list[list[Reader]]) -> tuple[int, int]:
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
