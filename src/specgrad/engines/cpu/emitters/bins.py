"""Windows of all sizes over the last two axes of planes that lie whole: adaptive bins, and whole
planes as one row.

The rows of a bin are folded down into a line of scratch, lanes along the row, then the cells of the
line into the bin, so that most cells are read by vectors. Parts are joined in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import I32, WORD, Cell, Kernel, Number, Pointer, Value
from ..codegen.combine import Part
from .windows import Walk


@dataclass(frozen=True)
class Bins:
    """A kernel of bins: `width` codes to a row of a bin; the line has room for `room` cells."""

    combine: Any
    result: Cell
    lanes: int
    """Of vectors along a row, at most its cells."""
    room: int
    """Cells of a row, at least, where bins have several rows; 0 where all have one."""
    bin_lanes: int
    """Of vectors that fold a line into bins."""
    width: int = 1
    divides: str = "no"


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
        self.n = k.sizes("height width height_out width_out")
        self.lines = [k.room(how.room + how.bin_lanes, cell) for cell in self.combine.cells()] if how.room else []
        if how.room:  # vectors may go beyond the last bin
            self.store(self.combine.nothing(k, how.bin_lanes), self.lines, self.n.width)
        k.finish(self._rows())

    def _rows(self) -> Value:
        k = self.kernel
        with k.loop(k.begin, k.end, carried=[0]) as each:
            plane, row = each.index // self.n.height_out, each.index % self.n.height_out
            first, count = k.load(self.first_row, row), k.load(self.row_count, row)
            source = self.x + (plane * self.n.height + first) * self.n.width
            self.row = row
            flags = each.values[0]
            if self.how.room:
                flags = self._down(source, count, flags)
            target = [y + each.index * self.n.width_out for y in self.y]
            each.next = [self._bins(source, target, flags)]
        return each.result[0]

    def _down(self, source: Pointer, count: Value, flags: Value) -> Value:
        """Fold the rows of a row of bins into the line."""
        k, lanes = self.kernel, self.how.lanes

        def body(index: Number, carried: list[Any]) -> list[Any]:
            cells = k.load(source, index, lanes)
            flag = self.guard_nan(carried[0], [cells])
            with k.loop(1, count, carried=[*self.combine.first(k, cells, 0), flag]) as down:
                *so_far, flag = down.values
                cells = k.load(source, down.index * self.n.width + index, lanes)
                flag = self.guard_nan(flag, [cells])
                part = self._coded(cells, down.index * self.how.width)
                down.next = [*self.combine.follow(k, so_far, part), flag]
            *part, flag = down.result
            self.store(part, self.lines, index)
            return [flag]

        result: Value = k.vectors(self.n.width, lanes, body, [flags])[0]
        return result

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
            part, flag = self._across(source, first, count, each.values[0])
            part = self.finished(part, self.row, each.index)
            if self.combine.codes is not None:
                skipped = k.load(self.skipped_rows, self.row) * self.how.width + k.load(
                    self.skipped_columns, each.index
                )
                part = [part[0], part[1] + k.cast(skipped, part[1].element, False)]
            self.store(part, target, each.index)
            each.next = [flag]
        return each.result[0]

    def _across(self, source: Pointer, first: Value, count: Value, flag: Value) -> tuple[Part, Value]:
        """The cells of a bin."""
        return (self._in_line(first, count), flag) if self.how.room else self._in_row(source, first, count, flag)

    def _in_line(self, first: Value, count: Value) -> Part:
        """Those of a line, by vectors, of which lanes behind the bin count for nothing."""
        k, lanes = self.kernel, self.how.bin_lanes
        nothing = self.combine.nothing(k, lanes)
        if self.combine.codes is not None:
            nothing[1] = k.number(self.combine.codes, (1 << 8 * self.combine.codes.size) - 1, lanes)

        def cells(index: Number) -> Part:
            here = k.iota(lanes, I32) < k.splat(k.cast(count - index, I32), lanes)
            part = [k.load(line, first + index, lanes) for line in self.lines]
            if self.combine.codes is not None:
                part[1] = part[1] + self._coded(part[0], index)[1] + k.cast(k.iota(lanes), part[1].element, False)
            return [k.select(here, one, none) for one, none in zip(part, nothing, strict=True)]

        with k.loop(lanes, count, lanes, carried=cells(0)) as along:
            along.next = self.combine.join(k, along.values, cells(along.index))
        return self._reduced(along.result)

    def _in_row(self, source: Pointer, first: Value, count: Value, flag: Value) -> tuple[Part, Value]:
        """Those of a row: as far as they fill vectors by these, the rest one by one."""
        k, lanes = self.kernel, self.how.lanes
        part, flag = self._cells(source, first, 0, 0, flag)
        whole = count - count % lanes if lanes > 1 else 0
        if lanes > 1:
            with k.loop(0, k.least(whole, 1), carried=[*part, flag]) as once:
                *_, flag = once.values
                start, flag = self._cells(source, first, 0, lanes, flag)
                with k.loop(lanes, whole, lanes, carried=[*start, flag]) as along:
                    *so_far, flag = along.values
                    cells, flag = self._cells(source, first, along.index, lanes, flag)
                    along.next = [*self.combine.follow(k, so_far, cells), flag]
                *vector, flag = along.result
                once.next = [*self._reduced(vector), flag]
            *part, flag = once.result
        with k.loop(k.most(whole, 1), count, carried=[*part, flag]) as rest:
            *so_far, flag = rest.values
            cells, flag = self._cells(source, first, rest.index, 0, flag)
            rest.next = [*self.combine.follow(k, so_far, cells), flag]
        *part, flag = rest.result
        return part, flag

    def _cells(self, source: Pointer, first: Value, index: Any, lanes: int, flag: Value) -> tuple[Part, Value]:
        """What is known of the cells of a row from `index` on."""
        k, combine = self.kernel, self.combine
        cells = k.load(source, first + index, lanes)
        part, flag = self._coded(cells, index), self.guard_nan(flag, [cells])
        if combine.codes is not None and lanes:
            part[1] = part[1] + k.cast(k.iota(lanes), combine.codes.computed, False)
        return part, flag

    def _reduced(self, part: Part) -> Part:
        """All lanes joined to one."""
        k, lanes = self.kernel, part[0].lanes
        while lanes > 1:
            lanes //= 2
            low, high = range(lanes), range(lanes, 2 * lanes)
            part = self.combine.join(k, [k.shuffle(p, p, low) for p in part], [k.shuffle(p, p, high) for p in part])
        return [k.lane(p, 0) for p in part]
