"""Small sliding windows over contiguous planes: a vector of windows of several adjacent rows at a
time, all in registers.

Each row of cells is reduced along the row without a copy. Then the rows are reduced, and adjacent
windows share the partial results of common rows, without writing them to memory. Windows may also
span several planes, if no two windows share a plane. Padding at the ends of a row is inserted into
the loaded vectors; rows of padding are read from a row of padding in scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import Part, working
from ..codegen.values import Number, Pointer, Value
from .windows import Reduction, Walk, Window, fold_parts, load_padded, stacked


@dataclass(frozen=True)
class Direct(Reduction):
    """A kernel of small windows: their axes, and how many are taken together."""

    planes: Window
    """Planes that a window reads; no two windows share one, and none is padding."""
    rows: Window
    columns: Window
    before: int
    """Padding before a row."""
    behind: int
    """Cells by which the last window of a row reaches beyond it; none if negative."""
    columns_of_tile: int
    stack: int
    """Rows of windows that are folded together."""
    lanes: int


def emit(how: Direct, vector: int) -> Kernel:
    """args: x, y, [codes], [divisors], sizes; one item is a band of rows of windows, or a part of
    their columns."""
    return _Direct(how, vector).kernel


class _Direct(Walk):
    def __init__(self, how: Direct, vector: int) -> None:
        super().__init__("direct", how, vector)
        k = self.kernel
        names = "depth height width depth_out height_out width_out above inside down across tile_rows tile_columns"
        self.n = k.sizes(names)
        if how.rows.padded:
            span = (how.columns_of_tile + how.lanes) * how.columns.stride + how.columns.extent
            span = -(-span // how.lanes) * how.lanes
            self.blank = k.room(span, working(self.combine.cell))
            with k.loop(0, span, how.lanes) as along:
                k.store(k.number(working(self.combine.cell), self.combine.identity, how.lanes), self.blank, along.index)
        self.tiles = self.n.down * self.n.across
        self.each_item(self._tile)

    def _tile(self, item: Value, flags: Value) -> Value:
        k, how, n = self.kernel, self.how, self.n
        plane, tile = item // self.tiles, item % self.tiles
        self.top, self.left = tile // n.across * n.tile_rows, tile % n.across * n.tile_columns
        rows = k.least(n.tile_rows, n.height_out - self.top)
        self.end = k.least(self.left + n.tile_columns, n.width_out)
        first = plane // n.depth_out * n.depth + plane % n.depth_out * how.planes.stride
        self.plane = self.x + first * n.height * n.width
        self.target = [y + (plane * n.height_out + self.top) * n.width_out for y in self.y]
        (flags,) = k.together(0, rows, how.stack, self._rows, [flags])
        return flags

    def _rows(self, row: Value, some: int, carried: list[Value]) -> list[Value]:
        """The windows of `some` rows from `row` of the tile on."""
        k, how, n, lanes = self.kernel, self.how, self.n, self.how.lanes
        rows, (flags,) = how.rows, carried
        first = (self.top + row) * rows.stride - n.above
        sources = [
            {j: self._source(plane * how.planes.dilation, first + j) for j in rows.offsets(some)}
            for plane in range(how.planes.taps)
        ]

        def fold(column: Number, edge: str, flag: Value) -> Value:
            return self._fold(sources, row, some, column, edge, flag)

        begin, end, last = self.left, self.end, self.end - lanes
        if how.before > 0:
            at_left = self.left.equals(0)
            with k.loop(0, k.cast(at_left, flags.type, False), carried=[flags]) as once:
                once.next = [fold(0, "left", once.values[0])]
            flags, begin = once.result[0], k.select(at_left, k.integer(lanes), begin)
        if how.behind > 0:
            at_right = self.end.equals(n.width_out)
            with k.loop(0, k.cast(at_right, flags.type, False), carried=[flags]) as once:
                once.next = [fold(n.width_out - lanes, "right", once.values[0])]
            flags, end, last = once.result[0], k.select(at_right, end - lanes, end), k.least(last, n.inside)
        with k.loop(begin, end, lanes, carried=[flags]) as along:
            along.next = [fold(k.least(along.index, last), "", along.values[0])]
        return along.result

    def _source(self, plane: int, row: Value) -> Pointer:
        """Where a row of cells lies; where there is none, one of padding."""
        k, n = self.kernel, self.n
        found = self.plane + (row + plane * n.height if plane else row) * n.width
        if not self.how.rows.padded:
            return found
        begin = k.most(0, self.left * self.how.columns.stride - self.how.before)
        return k.select((row >= 0) & (row < n.height), found, self.blank + (0 - begin))

    def _fold(self, sources: Any, row: Value, some: int, column: Number, edge: str, flag: Value) -> Value:
        """A vector of windows of each of `some` rows."""
        k, how = self.kernel, self.how
        seen: list[Value] = []
        folded = []
        for by_row in sources:
            parts = {j: self._across(source, column, edge, seen) for j, source in by_row.items()}
            folded.append(stacked(k, self.combine, parts, how.rows, some, how.columns.taps))
        flag = self.guard_nan(flag, seen)
        area = how.rows.taps * how.columns.taps
        for i in range(some):
            part, _ = fold_parts(k, self.combine, [(rows[i], plane) for plane, rows in enumerate(folded)], area)
            part = self.finished(part, self.top + row + i, column)
            flag = self.guard_padding(flag, part)
            self.store(part, self.target, (row + i) * self.n.width_out + column)
        return flag

    def _across(self, source: Pointer, column: Number, edge: str, seen: list[Value]) -> Part:
        """One row of cells of a vector of windows."""
        k, columns, lanes = self.kernel, self.how.columns, self.how.lanes
        taps = []
        for tap in range(columns.taps):
            offset = tap * columns.dilation
            lead = min(offset, columns.stride - 1)
            place = None
            if edge == "left":
                place = offset - lead - self.how.before
            elif edge == "right":
                place = self.how.behind - columns.extent - (lanes - 1) * columns.stride + offset - lead
            first = column * columns.stride + (offset - lead - self.how.before)
            edges = (edge, place, self.n.width)
            taps.append(load_padded(k, source, first, (columns.stride, lanes, lead), edges, self.combine.identity))
        if not edge:
            self.prefetch(source, column * columns.stride, lanes * columns.stride)
        seen += self.seen(taps)
        parts = [(self.combine.first(k, cells, tap), 0) for tap, cells in enumerate(taps)]
        return fold_parts(k, self.combine, parts)[0]
