"""Columns of a convolution: for each tap a line with the wide cells that it reads for all narrow cells, one after the other.

The wide side is what a convolution reads, the narrow side what it writes. Narrow cells are counted row by row: cell t stands in row
t // length and column t % length. rows[r, o] is where the wide row begins that outer tap o of row r reads (-1: padding); in it, tap j
of column c reads c*stride - before + j*dilation, which is real for low[j] <= c < high[j]. What is done with the cells that meet:

| what | does | of all taps |
|---|---|---|
| "pack" | line = wide, 0 for padding | the columns of a product of matrices |
| "unpack" | wide += line | its adjoint |
| "correlate" | narrow += weight·wide | the product without columns, which skips padding |
| "spread" | wide += weight·narrow | its adjoint in the wide cells |
| "weigh" | weight += Σ narrow·wide | its adjoint in the weight |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import WORD, Cell, Kernel, Number, Pointer, Value
from ..codegen.vector_math import fma

QUARTER = 4  # lanes of vectors for runs that are shorter than a vector


@dataclass(frozen=True)
class Columns:
    """A kernel over the taps of pairs of planes."""

    what: str
    cell: Cell
    stride: int
    joined: bool
    """Whether narrow rows are as long as wide ones and move by 1, so that rows that lie side by side are one run."""
    lanes: int

    @property
    def is_line(self) -> bool:
        """Whether each tap has a line of its own."""
        return self.what in ("pack", "unpack")


def emit(how: Columns, vector: int) -> Kernel:
    """args: wide, narrow (or lines), [weight], [bias], rows, low, high, sizes. An item has `inner` pairs of planes; how far apart these are for
    items, within an item, and lines for taps, is said by sizes; weights begin anew after `period` items. Planes that are spread to are
    filled with a bias first."""
    return _Columns(how, vector).kernel


class _Columns:
    def __init__(self, how: Columns, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("columns", vector)
        wide, narrow = k.array("wide", how.cell), k.array("narrow", how.cell)
        weight = None if how.is_line else k.array("weight", how.cell)
        bias = k.array("bias", how.cell) if how.what == "spread" else None
        self.rows, self.low, self.high = (k.array(name, WORD) for name in ("rows", "low", "high"))
        names = "inner wide_item wide_inner narrow_item narrow_inner size start stop length outer taps before dilation"
        n = self.n = k.sizes(*names.split(), *(["line"] if how.is_line else ["period", "weight_item"]))
        self.first_row, self.last_row = n.start // n.length, (n.stop + n.length - 1) // n.length
        every = n.outer * n.taps
        with k.loop(k.begin, k.end) as item:
            if bias is not None:
                added = k.load(bias, item.index % n.period)
                put = self._put(wide + item.index * n.wide_item, 1)
                each_cell(
                    k, n.size, how.lanes, lambda at, lanes, is_end: k.splat(added, lanes) if lanes else added, put
                )
            with k.loop(0, n.inner) as pair, k.loop(0, every) as tap:
                self.wide = wide + (item.index * n.wide_item + pair.index * n.wide_inner)
                here = item.index * n.narrow_item + pair.index * n.narrow_inner
                self.narrow = narrow + (here + tap.index * n.line if how.is_line else here)
                if weight is not None:
                    own = item.index % n.period * n.weight_item + pair.index * every
                    self.weight = weight + (own + tap.index)
                self._tap(tap.index // n.taps, tap.index % n.taps)
        k.finish()

    def _tap(self, o: Value, j: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        self.o, self.low_here, self.high_here = o, k.load(self.low, j), k.load(self.high, j)
        self.shift = j * n.dilation - n.before
        self.factor = k.load(self.weight) if how.what in ("correlate", "spread") else None
        if how.what == "unpack" and how.joined:
            self._clear_edges()
        if how.what == "weigh":
            zero = k.number(how.cell, 0)
            with k.loop(self.first_row, self.last_row, carried=[zero]) as row:
                row.next = [self._dot(row.index, row.values[0])]
            k.store(k.load(self.weight) + row.result[0], self.weight)
            return
        with k.loop(self.first_row, self.last_row, carried=[n.start]) as row:
            row.next = [self._row(row.index, row.values[0])]
        if how.what == "pack":
            self._clear_edges()

    def _row(self, r: Value, begin: Value) -> Value:
        """Do a run that ends with row r, if one does; where the next one begins."""
        k, how, n = self.kernel, self.how, self.n
        place, end = k.load(self.rows, r * n.outer + self.o), k.least((r + 1) * n.length, n.stop)
        is_real, following = place >= 0, end
        if how.joined:
            is_last = (r + 1).equals(self.last_row)
            below = k.load(self.rows, k.select(is_last, r, r + 1) * n.outer + self.o)
            ends = is_last | below.differs(place + n.length) | (place < 0)
            is_real, following = is_real & ends, k.select(ends, end, begin)
        if how.what == "pack":
            with k.when(place < 0):
                zero = lambda at, lanes, is_end: k.number(how.cell, 0, lanes)  # noqa: E731
                each_cell(k, end - begin, how.lanes, zero, self._put(self.narrow + (begin - n.start), 1))
        with k.when(is_real):
            first, last = self._real(r, place, begin, end)
            source = self.wide + (place + self.shift + (first - r * n.length) * how.stride)
            line = self.narrow + (first - n.start)
            self._run(source, line, last - first)
        return following

    def _real(self, r: Value, place: Value, begin: Value, end: Value) -> tuple[Value, Value]:
        """The part of a run whose cells lie in the plane or, where it is one row, are real."""
        k, n = self.kernel, self.n
        start = r * n.length
        if self.how.joined:
            at = place + self.shift - start  # where the cell of narrow cell 0 would lie
            return k.most(begin, 0 - at), k.least(end, n.size - at)
        return k.most(begin, start + self.low_here), k.least(end, start + self.high_here)

    def _run(self, wide: Pointer, narrow: Pointer, count: Value) -> None:
        k, how = self.kernel, self.how
        to_narrow = how.what in ("pack", "correlate")
        (target, apart), (source, step) = ((narrow, 1), (wide, how.stride))[:: 1 if to_narrow else -1]
        lanes = how.lanes if apart == 1 else 0

        def made(at: Number, lanes: int, is_end: bool) -> Value:
            cells = strided(k, source, at, step, lanes, is_end)
            if how.what == "pack":
                return cells
            before = k.load(target, at * apart, lanes)
            if self.factor is None:
                return before + cells
            return fma(k, k.splat(self.factor, lanes) if lanes else self.factor, cells, before)

        each_cell(k, count, lanes, made, self._put(target, apart))

    def _put(self, target: Pointer, apart: int) -> Callable[[Value, Number], None]:
        return lambda cells, at: self.kernel.store(cells, target, at * apart)

    def _dot(self, r: Value, total: Value) -> Value:
        """The total, with the products of a row."""
        k, n = self.kernel, self.n
        place = k.load(self.rows, r * n.outer + self.o)
        first, last = r * n.length + self.low_here, r * n.length + self.high_here
        source = self.wide + (place + self.shift - r * n.length * self.how.stride)
        with k.loop(first, k.select(place >= 0, last, first), carried=[total]) as along:
            cell = k.load(source, along.index * self.how.stride)
            along.next = [fma(k, k.load(self.narrow, along.index), cell, along.values[0])]
        return along.result[0]

    def _clear_edges(self) -> None:
        """Zero the cells of a line that stand for padding within rows."""
        k, n = self.kernel, self.n
        zero = k.number(self.how.cell, 0)
        with k.when((self.low_here > 0) | (self.high_here < n.length)), k.loop(self.first_row, self.last_row) as row:
            start = row.index * n.length
            for begin, end in ((start, start + self.low_here), (start + self.high_here, start + n.length)):
                with k.loop(k.most(begin, n.start), k.least(end, n.stop)) as cell:
                    k.store(zero, self.narrow, cell.index - n.start)


def each_cell(k: Kernel, count: Value, lanes: int, made: Callable[..., Value], put: Callable[..., Any]) -> None:
    """put(made(index, lanes, is_end), index) for so many cells, by vectors. The last of them, which may overlap the one before, is made first, so
    that what is added to a cell is added once; it is never the first one too, so that there are cells before it. No lanes: cell by cell."""
    below = None
    for some in dict.fromkeys((lanes, min(lanes, QUARTER))):
        if some > 1:
            fits = count > some
            with k.when(fits if below is None else fits & below):
                last = count - some
                end = made(last, some, True)
                with k.loop(0, last, some) as along:
                    put(made(along.index, some, False), along.index)
                put(end, last)
            below = count <= some
    with k.loop(0, count if below is None else k.select(below, count, 0)) as one:
        put(made(one.index, 0, False), one.index)


def strided(k: Kernel, source: Pointer, index: Number, stride: int, lanes: int, is_end: bool) -> Value:
    """Cells `stride` apart from the one of this index on; other cells that are read lie behind it, or before it at the end."""
    if not lanes:
        return k.load(source, index * stride)
    return k.strided(source, index * stride, stride, lanes, stride - 1 if is_end else 0)
