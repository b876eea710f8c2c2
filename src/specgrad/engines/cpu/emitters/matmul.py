"""Products of matrices. Lanes run along the columns of the right one.

Terms are taken by panels. The panel of some columns of the right matrix is copied term by term, and
then that of each few rows of the left one: so a register tile reads cells that lie side by side, in
caches. The products of a panel are added up in registers, and their sum to those of the panels
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.values import WORD, Cell, Pointer, Value
from ..codegen.vector_math import fma
from .gemm import record, transposed
from .weight_gradient import totals
from .windows import copy, fill

PLACES = 5  # words of a record of `places`
AHEAD = 8  # terms whose columns are asked for before they are read
TOGETHER = 8  # tiles whose rows lie side by side that are copied together


@dataclass(frozen=True)
class Matmul:
    """A kernel for one blocking of the registers."""

    cell: Cell
    lanes: int
    rows: int
    vectors: int
    panel: int
    """Terms of a panel, at most."""
    is_across: bool
    """Whether the terms of a row of the left matrix lie side by side, rather than its columns."""
    is_down: bool
    """Whether the terms of a column of the right matrix lie side by side, rather than its rows."""
    side: int
    """Of squares of the right matrix that are transposed in registers; at most a panel's terms."""
    is_direct: bool
    """Whether rows of the right matrix are read where they lie, since there are but few tiles of
    rows that they meet."""

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    def copied(self, columns: int) -> int:
        """Cells of scratch for the panel of so many columns, whole tiles but for the last."""
        return self.panel * (self.width if self.is_direct else columns + self.width)


def emit(how: Matmul, vector: int) -> Kernel:
    """args: x, y, bias, z, places, sizes; z = x·y + bias. An item is a block of rows by a block of
    columns of one of several products. Of each product, `places` says where x, y, bias and z begin,
    and how many terms there are. The bias has a number for each column, up to the end of a tile.

    `x_apart`, `y_apart` and `z_apart` are what lies between rows; but of x, if not is_across, and
    of y, if is_down, what lies between columns, whose cells then lie side by side.
    """
    return _Matmul(how, vector).kernel


class _Matmul:
    """Of a panel, term t of column j is at right[(j // width · panel + t) · width + j % width], and
    that of row i of a tile at left[i · pitch + t], or left[t · rows + i] if not is_across. Rows and
    columns that a last tile lacks repeat the last one or are 0."""

    def __init__(self, how: Matmul, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("matmul", vector)
        x, y, bias, z = (k.array(name, how.cell) for name in ("x", "y", "bias", "z"))
        places = k.array("places", WORD)
        n = self.n = k.sizes("rows columns panels down across high wide x_apart y_apart z_apart")
        self.pitch = how.panel + how.lanes if how.is_across else how.panel  # of copied rows, apart in a cache
        self.together = 1 if how.is_across else TOGETHER
        self.left = k.room(how.rows * self.pitch * self.together, how.cell)
        self.tile = k.room(how.rows * how.width, how.cell)
        self.right = k.room(0, how.cell)  # as much as sizes say, behind all other scratch
        with k.loop(k.begin, k.end) as item:
            product, block = item.index // (n.down * n.across), item.index % (n.down * n.across)
            x_at, y_at, bias_at, z_at, terms = record(k, places, product, PLACES)
            self.x, self.y, self.bias, self.z = x + x_at, y + y_at, bias + bias_at, z + z_at
            row, column = block // n.across * n.high, block % n.across * n.wide
            columns = column, k.least(column + n.wide, n.columns)
            with k.loop(0, n.panels) as panel:
                first, end = (terms * (panel.index + i) // n.panels for i in (0, 1))
                self._copy_right(columns, first, end - first)
                last_row = k.least(row + n.high, n.rows)
                with k.loop(row, last_row, how.rows * self.together) as some:
                    rows = some.index, k.least(some.index + how.rows * self.together, last_row)
                    self._copy_left(rows, first, end - first)
                    with k.loop(*rows, how.rows) as tile, k.loop(*columns, how.width) as along:
                        left = self.left + (tile.index - some.index) * self.pitch
                        factors = left, *self._right(along.index, column, first), end - first
                        self._tile(tile.index, along.index, factors, panel.index.equals(0))
        k.finish()

    def _copy_right(self, columns: tuple[Value, Value], first: Value, count: Value) -> None:
        """Copy terms of columns: a tile's columns of the first term, of the second one, and so on,
        and then those of the next tile."""
        k, how, n = self.kernel, self.how, self.n
        start, end = columns
        if not how.is_down:
            rest = (end - start) % how.width
            last = self.right + (0 if how.is_direct else (end - start - rest) * how.panel)
            with k.when(rest > 0):
                fill(k, last, count * how.width, how.lanes, k.number(how.cell, 0))
            with k.loop(0, count) as term:
                source, target = self.y + ((first + term.index) * n.y_apart + start), term.index * how.width
                with k.loop(0, 0 if how.is_direct else end - start - rest, how.width) as along:
                    for j in range(0, how.width, how.lanes):
                        one = k.load(source, along.index + j, how.lanes)
                        k.store(one, self.right, along.index * how.panel + target + j)
                with k.when(rest > 0):
                    copy(k, source + (end - start - rest), 1, last + target, rest, how.lanes)
            return
        side, lanes = how.side, how.side if how.side > 1 else 0
        with k.loop(start, end, how.width) as along, k.loop(0, how.width, side) as some:
            places = [k.least(along.index + some.index + i, n.columns - 1) for i in range(side)]
            sources = [self.y + (place * n.y_apart + first) for place in places]
            target = self.right + ((along.index - start) * how.panel + some.index)
            with k.loop(0, count, side) as term:
                at = k.least(term.index, count - side)
                for i, one in enumerate(transposed(k, [k.load(source, at, lanes) for source in sources])):
                    k.store(one, target, (at + i) * how.width)

    def _right(self, column: Value, start: Value, first: Value) -> tuple[Pointer, Any]:
        """Where a tile's terms of the right matrix lie, and how far apart."""
        k, how, n = self.kernel, self.how, self.n
        if not how.is_direct:
            return self.right + (column - start) * how.panel, how.width
        is_whole = column + how.width <= n.columns
        there = self.y + (first * n.y_apart + column)
        return k.select(is_whole, there, self.right), k.select(is_whole, n.y_apart, how.width)

    def _copy_left(self, rows: tuple[Value, Value], first: Value, count: Value) -> None:
        """Copy terms of rows: row by row, or term by term those of one tile and then those of the
        next, as they lie. Rows that a last tile lacks are those of the last one."""
        k, how, n = self.kernel, self.how, self.n
        row, end = rows
        if how.is_across:
            with k.loop(0, how.rows) as each:
                source = self.x + (k.least(row + each.index, n.rows - 1) * n.x_apart + first)
                copy(k, source, 1, self.left + each.index * self.pitch, count, how.lanes)
            return
        lanes = 1 << min(how.rows, how.lanes).bit_length() - 1
        with k.loop(0, count) as term, k.loop(row, end, how.rows) as tile:
            source = self.x + (first + term.index) * n.x_apart
            target = self.left + ((tile.index - row) * self.pitch + term.index * how.rows)
            is_whole = tile.index + how.rows <= n.rows
            with k.when(is_whole):
                for i in sorted({*range(0, how.rows - lanes + 1, lanes), how.rows - lanes}):
                    k.store(k.load(source, tile.index + i, lanes if lanes > 1 else 0), target, i)
            with k.when(~is_whole), k.loop(0, how.rows) as each:
                k.store(k.load(source, k.least(tile.index + each.index, n.rows - 1)), target, each.index)

    def _tile(self, row: Value, column: Value, factors: Any, is_first: Value) -> None:
        """Add the products of a panel to a tile of the result, or to the bias."""
        k, how, n = self.kernel, self.how, self.n
        out = self.z + (row * n.z_apart + column)
        rows, columns = k.least(n.rows - row, how.rows), k.least(n.columns - column, how.width)
        is_whole = rows.equals(how.rows) & columns.equals(how.width)
        target = k.select(is_whole, out, self.tile)
        apart = k.select(is_whole, n.z_apart, how.width)
        with k.when(~is_whole & ~is_first), k.loop(0, rows) as each:
            copy(k, out + each.index * n.z_apart, 1, self.tile + each.index * how.width, columns, how.lanes)
        before, between = k.select(is_first, self.bias + column, target), k.select(is_first, 0, apart)
        places = [(i, j) for i in range(how.rows) for j in range(0, how.width, how.lanes)]
        sums = self._sums(*factors)
        sums = [k.load(before, between * i + j, how.lanes) + one for (i, j), one in zip(places, sums, strict=True)]
        for (i, j), one in zip(places, sums, strict=True):
            k.store(one, target, apart * i + j)
        with k.when(~is_whole), k.loop(0, rows) as each:
            copy(k, self.tile + each.index * how.width, 1, out + each.index * n.z_apart, columns, how.lanes)

    def _sums(self, left: Pointer, right: Pointer, apart: Any, count: Value) -> list[Value]:
        """The products of the copied terms of a tile, added up, row by row."""
        k, how = self.kernel, self.how
        zeros = [k.number(how.cell, 0, how.lanes)] * (how.rows * how.vectors)
        with k.loop(0, count, carried=zeros) as term:
            columns = range(0, how.width, how.lanes)
            found = [k.load(right, term.index * apart + j, how.lanes) for j in columns]
            for j in columns:
                k.prefetch(right, (term.index + AHEAD) * apart + j)
            new: list[Any] = []
            for i in range(how.rows):
                place = term.index + i * self.pitch if how.is_across else term.index * how.rows + i
                one = k.splat(k.load(left, place), how.lanes)
                new += [fma(k, one, some, term.values[len(new) + j]) for j, some in enumerate(found)]
            term.next = new
        return term.result


@dataclass(frozen=True)
class Dots:
    """A kernel for few rows or columns, of matrices whose terms lie side by side: lanes run along
    terms, and nothing is copied."""

    cell: Cell
    lanes: int
    rows: int
    width: int
    """Rows and columns that are computed together."""


def emit_dots(how: Dots, vector: int) -> Kernel:
    """args: as of `emit`; an item is some rows by some columns of one of several products. Rows and
    columns that the last ones lack are the last row and column again, with the same results."""
    k = Kernel("dots", vector)
    x, y, bias, z = (k.array(name, how.cell) for name in ("x", "y", "bias", "z"))
    places = k.array("places", WORD)
    n = k.sizes("rows columns down across x_apart y_apart z_apart")
    zeros = [k.number(how.cell, 0, how.lanes)] * (how.rows * how.width)
    with k.loop(k.begin, k.end) as item:
        product, block = item.index // (n.down * n.across), item.index % (n.down * n.across)
        x_at, y_at, bias_at, z_at, terms = record(k, places, product, PLACES)
        rows = [k.least(block // n.across * how.rows + i, n.rows - 1) for i in range(how.rows)]
        columns = [k.least(block % n.across * how.width + j, n.columns - 1) for j in range(how.width)]
        lefts = [x + (x_at + n.x_apart * row) for row in rows]
        rights = [y + (y_at + n.y_apart * column) for column in columns]

        def added(at: Value, lanes: int, sums: list[Value]) -> list[Value]:
            left, right = ([k.load(one, at, lanes) for one in some] for some in (lefts, rights))
            return [fma(k, a, b, sums[i * how.width + j]) for i, a in enumerate(left) for j, b in enumerate(right)]

        whole = terms - terms % how.lanes
        with k.loop(0, whole, how.lanes, zeros) as term:
            term.next = added(term.index, how.lanes, term.values)
        joined = totals(k, term.result)
        sums = [k.lane(joined[at // how.lanes], at % how.lanes) for at in range(len(zeros))]
        with k.loop(whole, terms, carried=sums) as rest:
            rest.next = added(rest.index, 0, rest.values)
        numbers = [k.load(bias, bias_at + column) for column in columns]
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                k.store(rest.result[i * how.width + j] + numbers[j], z, z_at + n.z_apart * row + column)
    return k.finish()
