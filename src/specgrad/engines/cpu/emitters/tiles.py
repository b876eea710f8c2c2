"""Sliding windows over the last two axes of contiguous planes: tiles of some rows and columns of
windows.

Each row of a tile is reduced once, into a line of scratch. Then the lines are reduced, several rows
of windows at a time, which share partial results. Rows are first, so that parts are combined in
row-major order. Rows with padding, short rows and rows of half floats are copied to scratch, or
held in a register if they fit; other rows are read in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import Part, working
from ..codegen.values import I32, Number, Pointer, Value
from .shifts import fold_row, load_row
from .windows import Reduction, Walk, Window, block_of, copy_whole, fold_parts, split, stacked


@dataclass(frozen=True)
class Tiles(Reduction):
    """A kernel of sliding windows: its windows, its types, and the greatest size of a tile."""

    rows: Window
    columns: Window
    tile: tuple[int, int]
    """Most rows and columns of windows in a tile."""
    stack: int
    """Rows of windows that are folded down together."""
    narrow: bool
    """Whether rows of windows are shorter than a vector."""
    copies: bool
    """Whether rows of cells are copied, with their padding."""
    lanes: int
    row_lanes: int
    """Lanes of the loads that copy a row, at most its cells."""
    register: tuple[int, int] | None = None
    """The cells of a row and where its first window begins, before them, if whole rows are held in
    a register."""


def emit(how: Tiles, vector: int) -> Kernel:
    """args: x, y, [codes], [divisors], sizes; one item is one tile."""
    return _Tiles(how, vector).kernel


class _Tiles(Walk):
    def __init__(self, how: Tiles, vector: int) -> None:
        super().__init__("tiles", how, vector)
        k, self.cells = self.kernel, self.combine.cells()
        self.combine.begin(k)
        self.n = k.sizes("height width height_out width_out above before down across tile_rows tile_columns")
        self._rooms()
        if self.combine.multiplies and how.copies:
            zeros = k.number(working(self.combine.cell), 0, how.lanes)
            with k.loop(0, self.fresh_rows * self.room_of_row, how.lanes) as each:
                k.store(zeros, self.copy, each.index)
        self.tiles = self.n.down * self.n.across
        self.each_item(self._tile)

    def _rooms(self) -> None:
        """Scratch: rows that are copied, lines that are folded across, their blocks, and results of
        narrow rows."""
        how, k, lanes = self.how, self.kernel, self.how.lanes
        rows, columns = how.tile
        self.pitch = -(-columns // lanes) * lanes
        self.room_of_row = -(-(self.pitch * how.columns.stride + how.columns.extent) // lanes) * lanes + lanes
        self.height_of_lines = (rows - 1) * how.rows.stride + how.rows.extent
        self.fresh_rows = (how.stack - 1) * how.rows.stride + how.rows.extent
        if how.copies:
            self.copy = k.room(self.fresh_rows * self.room_of_row, working(self.combine.cell))
        self.block = block_of(how.columns, self.combine) if how.register is None else 1
        if self.block > 1:
            self.blocks = [k.room(self.room_of_row + lanes, cell) for cell in self.cells]
        if how.rows.taps > 1 or how.rows.padded:
            self.lines = [k.room(self.height_of_lines * self.pitch, cell) for cell in self.cells]
        if how.narrow:
            self.stage = [k.room(rows * columns + lanes, cell) for _, cell in self.combine.written(how.result)]

    # the order of tiles and rows

    def _tile(self, item: Value, flags: Value) -> Value:
        k, how = self.kernel, self.how
        plane, tile = item // self.tiles, item % self.tiles
        self.top, self.left = tile // self.n.across * self.n.tile_rows, tile % self.n.across * self.n.tile_columns
        self.rows_here = k.least(self.n.tile_rows, self.n.height_out - self.top)
        self.columns_here = k.least(self.n.tile_columns, self.n.width_out - self.left)
        self.plane = self.x + plane * self.n.height * self.n.width
        first_cell = plane * self.n.height_out * self.n.width_out + self.top * self.n.width_out + self.left
        self.target = [y + first_cell for y in self.y]
        self.first_row = self.top * how.rows.stride - self.n.above
        self.first_column = self.left * how.columns.stride - self.n.before
        flags, _ = k.together(0, self.rows_here, how.stack, self._stack, [flags, 0])
        if how.narrow:
            self._unstage()
        return flags

    def _stack(self, row: Value, some: int, carried: list[Value]) -> tuple[Value, Value]:
        """The windows of `some` rows from `row` on. Carried: flags, and up to which line lines are
        folded across."""
        k, rows, (flags, done) = self.kernel, self.how.rows, carried
        if rows.taps == 1 and not rows.padded:
            return self._single(row, flags), done
        needed = row * rows.stride + (some - 1) * rows.stride + rows.extent
        begin = k.most(done, row * rows.stride)
        flags = self._copy_rows(begin, needed, flags)
        with k.loop(begin, needed, carried=[flags]) as fresh:
            line = [room + fresh.index * self.pitch for room in self.lines]
            copy = self._copied(fresh.index - begin)
            fresh.next = [self._line(self.first_row + fresh.index, copy, line, fresh.values[0])]
        flags = fresh.result[0]
        here = [room + row * (rows.stride * self.pitch) for room in self.lines]

        def down(column: Number, flag: Value) -> Value:
            parts = {
                j: [k.load(room, j * self.pitch + column, self.how.lanes) for room in here] for j in rows.offsets(some)
            }
            for i, part in enumerate(stacked(k, self.combine, parts, rows, some, self.how.columns.taps)):
                flag = self._store(part, flag, row + i, column)
            return flag

        flags = self.vectors(self.columns_here, self.how.lanes, down, flags, self.how.narrow)
        return flags, k.integer(needed)

    # a row of cells

    def _copied(self, number: Value) -> Pointer | None:
        """Where the copy of one of the fresh rows lies."""
        return None if not self.how.copies else self.copy + number * self.room_of_row

    def _copy_rows(self, begin: Value, end: Value, flags: Value) -> Value:
        """Copy fresh rows, all before any is read: a vector that was just written in parts is slow
        to read."""
        k = self.kernel
        if not self.how.copies:
            return flags
        with k.loop(begin, end, carried=[flags]) as each:
            row, copy = self.first_row + each.index, self.copy + (each.index - begin) * self.room_of_row
            if self.how.rows.padded:
                row = k.most(0, k.least(row, self.n.height - 1))
            each.next = [self._copy_row(row, copy, each.values[0])]
        return each.result[0]

    def _line(self, row: Value, copy: Pointer | None, line: list[Pointer], flags: Value) -> Value:
        """Fold a row of cells across into a line of scratch; padding where there is no such row."""
        k = self.kernel
        if not self.how.rows.padded:
            return self._across(row, copy, line, flags)
        is_real = (row >= 0) & (row < self.n.height)
        with k.loop(0, k.cast(is_real, row.type), carried=[flags]) as once:
            once.next = [self._across(row, copy, line, once.values[0])]
        with k.when(~is_real), k.loop(0, self.columns_here, self.how.lanes) as along:
            self.store(self.combine.nothing(k, self.how.lanes), line, along.index)
        return once.result[0]

    def _across(self, row: Value, copy: Pointer | None, line: list[Pointer], flags: Value) -> Value:
        source, flags = self._source(row, copy, flags)

        def across(column: Number, flag: Value) -> Value:
            part, flag = self._windows(source, column, flag)
            self.store(part, line, column)
            return flag

        if self.how.register is not None:
            return across(0, flags)
        return self.vectors(self.columns_here, self.how.lanes, across, flags, self.how.copies)

    def _single(self, row: Value, flags: Value) -> Value:
        """A row of windows that have one row."""
        at = self.first_row + row * self.how.rows.stride
        copy = self._copied(self.kernel.integer(0))
        if copy is not None:
            flags = self._copy_row(at, copy, flags)
        source, flags = self._source(at, copy, flags)

        def across(column: Number, flag: Value) -> Value:
            return self._store(*self._windows(source, column, flag), row, column)

        return self.vectors(self.columns_here, self.how.lanes, across, flags, self.how.narrow)

    def _source(self, row: Value, copy: Pointer | None, flags: Value) -> tuple[Any, Value]:
        """Where the cells of a row lie from the first window's first tap on, and flags: also as
        blocks, if windows have many taps."""
        first = self.first_column if self.how.register is None else 0
        source = self.plane + (row * self.n.width + first) if copy is None else copy
        if self.block > 1:
            flags = self._fold_blocks(source, flags)
        return source, flags

    def _real_cells(self) -> tuple[Value, Value, Value]:
        """Of the cells that the tile reads of a row: where the real ones begin and end, and where
        all do."""
        k, columns = self.kernel, self.how.columns
        span = (self.columns_here - 1) * columns.stride + columns.extent
        return k.most(0, 0 - self.first_column), k.least(span, self.n.width - self.first_column), span

    def _copy_row(self, row: Value, copy: Pointer, flags: Value) -> Value:
        """Copy the cells of a row that the tile reads, or those at its ends, and padding beside
        them."""
        k, how, lanes = self.kernel, self.how, self.how.row_lanes
        begin, end, span = self._real_cells()
        cells, real = self.plane + (row * self.n.width + self.first_column), end - begin
        nothing = k.number(working(self.combine.cell), self.combine.identity, how.lanes)
        if how.columns.padded:
            with k.loop(0, begin, how.lanes) as left:
                k.store(nothing, copy, left.index)

        def copy_some(index: Number, flag: Value) -> Value:
            loaded = k.load(cells, begin + index, lanes)
            self.prefetch(cells, begin + index, lanes)
            k.store(loaded, copy, begin + index)
            return self.guard_nan(flag, [loaded])

        flags = self.vectors(real, lanes, copy_some, flags)
        if how.columns.padded:
            with k.loop(end, span, how.lanes) as right:
                k.store(nothing, copy, right.index)
        return flags

    # a vector of windows

    def _windows(self, source: Any, column: Number, flag: Value) -> tuple[Part, Value]:
        """The parts of one row of cells of a vector of windows, from `column` on."""
        k, columns, lanes = self.kernel, self.how.columns, self.how.lanes
        if self.how.register is not None:
            size, before = self.how.register
            self.prefetch(source, 0, size)
            taps = load_row(k, self.combine, source, size, lanes)
            return fold_row(k, self.combine, taps, columns, before), self.guard_nan(flag, taps[:1])
        if self.block > 1:
            parts = []
            for start, size in split(columns.taps, self.block, self.combine.overlaps):
                at = start * columns.dilation
                if size == 1:
                    part = self.combine.first(k, self._strided(source, column, at), 0)
                else:
                    part = [self._strided(room, column, at) for room in self.blocks]
                parts.append((part, start))
            return fold_parts(k, self.combine, parts)[0], flag
        loaded = [self._strided(source, column, t * columns.dilation) for t in range(columns.taps)]
        if not self.how.copies:
            flag = self.guard_nan(flag, self.seen(loaded))
            self.prefetch(source, column * columns.stride, lanes * columns.stride)
        return self._joined(loaded, column * columns.stride, columns.stride), flag

    def _joined(self, taps: list[Value], first: Number, stride: int) -> Part:
        """The part of neighbouring taps: vectors of cells `stride` apart; the first tap's begins at
        cell `first` of the tile."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        parts = []
        for t, cells in enumerate(taps):
            real = None
            if self.combine.masks and how.columns.padded:
                base = self.first_column + first + t * how.columns.dilation
                at = k.splat(k.integer(base), lanes) + k.iota(lanes, step=stride)
                real = (at >= 0) & (at < self.n.width)
            parts.append((self.combine.first(k, cells, t, real), 0))
        return fold_parts(k, self.combine, parts)[0]

    def _strided(self, source: Pointer, column: Number, offset: int) -> Value:
        """Cells of a vector of windows at a tap; of those between, none that lies behind the last
        window's last tap."""
        columns = self.how.columns
        lead = min(offset, columns.stride - 1) if not self.how.copies else 0
        return self.kernel.strided(source, column * columns.stride + offset, columns.stride, self.how.lanes, lead)

    def _fold_blocks(self, source: Any, flags: Value) -> Value:
        """Fold `block` neighbouring taps, from every cell on, into scratch."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        span = (self.columns_here - 1) * how.columns.stride + how.columns.extent
        starts = span - (self.block - 1) * how.columns.dilation

        def fold(index: Number, flag: Value) -> Value:
            taps = [k.load(source, index + t * how.columns.dilation, lanes) for t in range(self.block)]
            if not how.copies:
                flag = self.guard_nan(flag, [taps[0], taps[-1]])
                self.prefetch(source, index, lanes)
            self.store(self._joined(taps, index, 1), self.blocks, index)
            return flag

        return self.vectors(starts, lanes, fold, flags, how.copies)

    # NaNs, results

    def _store(self, part: Part, flag: Value, row: Value, column: Number) -> Value:
        """Write the results of a vector of windows."""
        k, how = self.kernel, self.how
        part = self.finished(part, self.top + row, self.left + column)
        here = None
        if how.narrow:  # lanes behind the last window hold anything
            windows = k.cast(self.columns_here - column, I32)
            here = k.iota(how.lanes, I32) < k.splat(windows, how.lanes)
        flag = self.guard_padding(flag, part, here)
        targets, pitch = (self.stage, self.columns_here) if how.narrow else (self.target, self.n.width_out)
        self.store(part, targets, row * pitch + column)
        return flag

    def _unstage(self) -> None:
        """Copy the results of narrow rows to where they belong."""
        k = self.kernel
        count = self.rows_here * self.columns_here
        for stage, target in zip(self.stage, self.target, strict=True):
            copy_whole(k, stage, target, count, k.vector // working(stage.cell).size)
