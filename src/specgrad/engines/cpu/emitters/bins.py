"""Windows of all sizes over the last two axes of planes: adaptive bins, and whole planes as one
row.

The rows of a bin are reduced into a line of scratch, with lanes along the row, and then the line is
reduced into the bin. So cells are read by vectors. In channels-last planes a row includes the
channels of its cells, and lanes run along the channels in a bin. Parts are combined in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import Part, no_winner
from ..codegen.values import I32, WORD, Number, Pointer, Value
from .windows import Reduction, Walk


@dataclass(frozen=True)
class Bins(Reduction):
    """A kernel of bins: `width` codes to a row of a bin; the line has room for `room` cells."""

    lanes: int
    """Of vectors along a row, at most its cells."""
    room: int
    """Cells of a row, at least, where bins have several rows; 0 where all have one."""
    bin_lanes: int
    """Of vectors that fold a line into bins; where these have one row, at most its cells, and at
    most the cells behind a place."""
    width: int = 1
    inner: bool = False
    """Whether cells lie behind each place."""


def emit(how: Bins, vector: int) -> Kernel:
    """args: x, y, [codes], [divisors], tables of rows and of columns (the first cell, how many, and
    with codes the taps before the first), sizes; an item is a row of bins of a plane."""
    return _Bins(how, vector).kernel


class _Bins(Walk):
    def __init__(self, how: Bins, vector: int) -> None:
        super().__init__("bins", how, vector)
        k = self.kernel
        names = ("first_row", "row_count", "first_column", "column_count")
        self.first_row, self.row_count, self.first_column, self.column_count = (k.array(n, WORD) for n in names)
        if self.combine.codes is not None:
            self.skipped_rows, self.skipped_columns = (k.array(n, WORD) for n in ("skipped_rows", "skipped_columns"))
        self.combine.begin(k)
        self.n = k.sizes("height width height_out width_out" + " inner" * how.inner)
        self.inner: Any = self.n.inner if how.inner else 1
        self.cells = self.n.width * self.inner
        self.lines = [k.room(how.room + how.bin_lanes, cell) for cell in self.combine.cells()] if how.room else []
        if how.room:  # vectors may go beyond the last bin
            self.store(self.combine.nothing(k, how.bin_lanes), self.lines, self.cells)
        self.each_item(self._row)

    def _row(self, item: Value, flags: Value) -> Value:
        k = self.kernel
        plane, self.row = item // self.n.height_out, item % self.n.height_out
        first, count = k.load(self.first_row, self.row), k.load(self.row_count, self.row)
        source = self.x + (plane * self.n.height + first) * self.cells
        if self.how.room:
            flags = self._down(source, count, flags)
        return self._bins(source, [y + item * self.n.width_out * self.inner for y in self.y], flags)

    def _down(self, source: Pointer, count: Value, flags: Value) -> Value:
        """Fold the rows of a row of bins into the line."""
        k, lanes = self.kernel, self.how.lanes

        def body(index: Number, flag: Value) -> Value:
            cells = k.load(source, index, lanes)
            flag = self.guard_nan(flag, [cells])
            with k.loop(1, count, carried=[*self.combine.first(k, cells, 0), flag]) as down:
                *so_far, flag = down.values
                cells = k.load(source, down.index * self.cells + index, lanes)
                flag = self.guard_nan(flag, [cells])
                part = self._coded(cells, down.index * self.how.width)
                down.next = [*self.combine.follow(k, so_far, part), flag]
            *part, flag = down.result
            self.store(part, self.lines, index)
            return flag

        return self.vectors(self.cells, lanes, body, flags)

    def _coded(self, cells: Value, code: Any) -> Part:
        """The part of cells that all have one code."""
        part = self.combine.first(self.kernel, cells, 0)
        if self.combine.codes is None:
            return part
        k = self.kernel
        own = k.cast(k.integer(code), self.combine.codes.computed, False)
        return [cells, k.splat(own, cells.lanes) if cells.lanes else own]

    def _bins(self, source: Pointer, target: list[Pointer], flags: Value) -> Value:
        """Fold the cells of the line, or of the row itself, into bins."""
        k = self.kernel
        with k.loop(0, self.n.width_out, carried=[flags]) as each:
            first, count = k.load(self.first_column, each.index), k.load(self.column_count, each.index)

            def behind(index: Number, flag: Value) -> Value:
                part, flag = self._behind(source, first * self.inner + index, count, flag)
                self._store(part, target, each.index, index)
                return flag

            if self.how.inner:
                each.next = [self.vectors(self.inner, self.how.bin_lanes, behind, each.values[0])]
            else:
                part, each.next[0] = self._across(source, first, count, each.values[0])
                self._store(part, target, each.index, 0)
        return each.result[0]

    def _store(self, part: Part, target: list[Pointer], column: Value, index: Number) -> None:
        """Write a bin, or a vector of the cells behind it."""
        k, place = self.kernel, column * self.inner + index
        part = self.finished(part, self.row, place)
        if self.combine.codes is not None:
            rows, columns = k.load(self.skipped_rows, self.row), k.load(self.skipped_columns, column)
            part = [part[0], part[1] + k.cast(rows * self.how.width + columns, part[1].element, False)]
        self.store(part, target, place)

    def _behind(self, row: Pointer, first: Value, count: Value, flag: Value) -> tuple[Part, Value]:
        """A vector of the cells behind a bin, place by place."""
        k, combine, lanes = self.kernel, self.combine, self.how.bin_lanes

        def cells(tap: Number, flag: Value) -> list[Value]:
            at = first + tap * self.inner
            part = [k.load(line, at, lanes) for line in self.lines] or combine.first(k, k.load(row, at, lanes), 0)
            if combine.codes is not None:
                part[1] = part[1] + self._coded(part[0], tap)[1]
            return [*part, flag if self.lines else self.guard_nan(flag, part[:1])]

        with k.loop(1, count, carried=cells(0, flag)) as along:
            *so_far, flag = along.values
            *part, flag = cells(along.index, flag)
            along.next = [*(combine.join if self.lines else combine.follow)(k, so_far, part), flag]
        *part, flag = along.result
        return part, flag

    def _across(self, row: Pointer, first: Value, count: Value, flag: Value) -> tuple[Part, Value]:
        """The cells of a bin in the line, or in the row itself, by vectors. The first holds those
        that are no whole one, beside cells that count for nothing; none reaches beyond the row."""
        k, combine, lanes = self.kernel, self.combine, self.how.bin_lanes

        def cells(at: Value, flag: Value, here: Value | None = None) -> list[Value]:
            part = [k.load(line, at, lanes) for line in self.lines] or combine.first(k, k.load(row, at, lanes), 0)
            if combine.codes is not None:
                part[1] = part[1] + self._coded(part[0], at - first)[1] + k.cast(k.iota(lanes), part[1].element, False)
            if here is not None:
                nothing = combine.nothing(k, lanes)
                if combine.codes is not None:
                    nothing[1] = k.number(combine.codes, no_winner(combine.codes), lanes)
                part = [k.select(here, one, none) for one, none in zip(part, nothing, strict=True)]
            return [*part, flag if self.lines else self.guard_nan(flag, part[:1])]

        some = (count - 1) % lanes + 1
        at = first if self.lines else k.least(first, self.n.width - lanes)
        skips = first - at
        begin, end = (k.splat(k.cast(n, I32), lanes) for n in (skips, skips + some))
        start = cells(at, flag, (k.iota(lanes, I32) >= begin) & (k.iota(lanes, I32) < end))
        with k.loop(some, count, lanes, carried=start) as along:
            *so_far, flag = along.values
            *part, flag = cells(first + along.index, flag)
            along.next = [*(combine.join if self.lines else combine.follow)(k, so_far, part), flag]
        *part, flag = along.result
        return self._reduced(part), flag

    def _reduced(self, part: Part) -> Part:
        """All lanes joined to one."""
        k, lanes = self.kernel, part[0].lanes
        while lanes > 1:
            lanes //= 2
            low, high = range(lanes), range(lanes, 2 * lanes)
            part = self.combine.join(k, [k.shuffle(p, p, low) for p in part], [k.shuffle(p, p, high) for p in part])
        return [k.lane(p, 0) for p in part]
