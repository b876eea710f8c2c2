"""Small windows over two axes that are followed by inner cells (channels-last), and their VJP:
lanes along the inner cells, all taps at once.

Several adjacent windows without padding are reduced, or gathered, together, and share their loads.
At the edges each tap is handled separately: a tap in padding loads the nearest cell, whose value is
then ignored.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import Part, working
from ..codegen.values import Number, Pointer, Value
from .phases import Reader, readers, span
from .windows import Divisors, Reduction, Walk, Window, fold_parts, stacked


@dataclass(frozen=True)
class Channels(Reduction):
    """A kernel of windows; or of the way back, of which `combine` is what each cell gathers."""

    rows: Window
    columns: Window
    lanes: int
    """At most the cells behind a place."""
    stack: int = 1
    """Neighbouring windows that are folded together."""
    before: tuple[int, int] = (0, 0)
    """Padding before both axes; the way back is specialised on it."""


def place_of(
    k: Kernel, array: Pointer, place: tuple[Value, Value], sizes: tuple[Value, Value, Value], edge: bool
) -> tuple[Pointer, Any]:
    """Where the cells behind a place (row, column) of a plane lie, and at the edge whether there is
    such a place. `sizes`: rows and columns of the plane, and cells behind each place."""
    (row, column), (height, width, inner) = place, sizes
    if not edge:
        return array + (row * width + column) * inner, None
    real = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    row, column = (k.most(0, k.least(at, size - 1)) for at, size in ((row, height), (column, width)))
    return array + (row * width + column) * inner, real


def emit(how: Channels, vector: int) -> Kernel:
    """args: x, y, [codes], [divisors], sizes; an item is a row of windows of a plane."""
    return _Forward(how, vector).kernel


class _Forward(Walk):
    def __init__(self, how: Channels, vector: int) -> None:
        super().__init__("channels", how, vector)
        k = self.kernel
        names = "height width height_out width_out above before inner whole_begin whole_end whole_top whole_bottom"
        self.n = k.sizes(names)
        self.each_item(self._row)

    def _row(self, item: Value, flags: Value) -> Value:
        k, how, n = self.kernel, self.how, self.n
        plane, self.row = item // n.height_out, item % n.height_out
        self.plane = self.x + plane * n.height * n.width * n.inner
        self.target = [y + item * n.width_out * n.inner for y in self.y]
        self.first = self.row * how.rows.stride - n.above
        is_whole = (self.row >= n.whole_top) & (self.row < n.whole_bottom)
        begin = k.select(is_whole, n.whole_begin, n.width_out)
        end = k.select(is_whole, n.whole_end, n.width_out)
        carried = [flags]
        parts = ((0, begin, 1, True), (begin, end, how.stack, False), (end, n.width_out, 1, True))
        for start, stop, most, edge in parts:
            carried = k.together(start, stop, most, functools.partial(self._windows, edge), carried)
        return carried[0]

    def _windows(self, edge: bool, column: Value, some: int, carried: list[Value]) -> list[Value]:
        """`some` neighbouring windows from `column` on."""
        k, how, n = self.kernel, self.how, self.n
        combine, rows, columns = how.combine, how.rows, how.columns
        left = column * columns.stride - n.before
        sizes = n.height, n.width, n.inner
        places = [
            {
                j: place_of(k, self.plane, (self.first + t * rows.dilation, left + j), sizes, edge)
                for j in columns.offsets(some)
            }
            for t in range(rows.taps)
        ]

        def fold(index: Number, flag: Value) -> Value:
            seen: list[Value] = []
            folded = []
            for row in places:
                cells = {j: self._load(*place, index, seen) for j, place in row.items()}
                folded.append(stacked(k, combine, cells, columns, some, 1))
            flag = self.guard_nan(flag, seen)
            for i in range(some):
                part, _ = fold_parts(k, combine, [(row[i], t) for t, row in enumerate(folded)], columns.taps)
                place = (column + i) * n.inner + index
                part = self.finished(part, self.row, place)
                flag = self.guard_padding(flag, part)
                self.store(part, self.target, place)
            return flag

        return [self.vectors(n.inner, how.lanes, fold, carried[0])]

    def _load(self, cells: Pointer, real: Any, index: Number, seen: list[Value]) -> Part:
        k, combine, lanes = self.kernel, self.how.combine, self.how.lanes
        loaded = k.load(cells, index, lanes)
        if real is not None:
            loaded = k.select(real, loaded, k.number(working(combine.cell), combine.identity, lanes))
        seen.append(loaded)
        part: Part = combine.first(k, loaded, 0)
        return part


def emit_back(how: Channels, vector: int) -> Kernel:
    """args: source, [codes], target, [divisors], sizes; an item is a group of rows of cells: as
    many as windows are apart."""
    return _Back(how, vector).kernel


class _Back:
    def __init__(self, how: Channels, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("channels", vector)
        self.cell, self.codes = how.combine.cell, how.combine.beside
        self.given = [k.array("source", self.cell)]
        if self.codes is not None:
            self.given.append(k.array("codes", self.codes))
        self.gx = k.array("target", how.result)
        self.divisors = Divisors(k, how.divides, self.cell)
        self.n = k.sizes("height width height_out width_out inner groups groups_across")
        self.down, self.across = readers(how.rows, how.before[0]), readers(how.columns, how.before[1])
        self.reach = span(self.down), span(self.across)
        with k.loop(k.begin, k.end) as each:
            self._groups(each.index)
        k.finish()

    def _groups(self, item: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        plane, self.group = item // n.groups, item % n.groups
        windows = plane * n.height_out * n.width_out * n.inner
        self.planes = [one + windows for one in self.given]
        self.target = self.gx + plane * n.height * n.width * n.inner
        (top, bottom), (left, right) = self.reach
        rows = (self.group + top >= 0) & (self.group + bottom < n.height_out)
        rows = rows & ((self.group + 1) * how.rows.stride <= n.height)
        begin = k.least(k.most(0, 0 - left), n.groups_across)
        end = k.most(begin, k.least(n.width_out - right, n.width // how.columns.stride))
        begin, end = k.select(rows, begin, n.groups_across), k.select(rows, end, n.groups_across)
        for start, stop, edge in ((0, begin, True), (begin, end, False), (end, n.groups_across, True)):
            with k.loop(start, stop) as along:
                self._group(along.index, edge)

    def _group(self, column: Value, edge: bool) -> None:
        """The cells of a group of rows and columns: a place per phase of both."""
        k, how, n = self.kernel, self.how, self.n
        (top, bottom), (left, right) = self.reach
        windows = {
            (w, v): [
                place_of(k, one, (self.group + w, column + v), (n.height_out, n.width_out, n.inner), edge)
                for one in self.planes
            ]
            for w in range(top, bottom + 1)
            for v in range(left, right + 1)
        }
        places = {
            (p, q): place_of(
                k,
                self.target,
                (self.group * how.rows.stride + p, column * how.columns.stride + q),
                (n.height, n.width, n.inner),
                edge,
            )
            for p in range(how.rows.stride)
            for q in range(how.columns.stride)
        }

        def gather(index: Number) -> None:
            loaded = {window: self._load(found, index) for window, found in windows.items()}
            for (p, q), (target, real) in places.items():
                total = self._total(loaded, self.down[p], self.across[q])
                with k.when(real):
                    k.store(total, target, index)

        k.vectors(n.inner, how.lanes, gather)

    def _load(self, found: list[tuple[Pointer, Any]], index: Number) -> list[Value]:
        """What a window brings, and its code; nothing where there is no window."""
        k, lanes = self.kernel, self.how.lanes
        loaded = [k.load(cells, index, lanes) for cells, _ in found]
        loaded[0] = self.divisors.divide(loaded[0], 0, 0)
        real = found[0][1]
        if real is not None:
            loaded[0] = k.select(real, loaded[0], k.number(self.cell, 0, lanes))
        return loaded

    def _total(self, loaded: dict[tuple[int, int], list[Value]], down: list[Reader], across: list[Reader]) -> Value:
        k, columns = self.kernel, self.how.columns
        total = k.number(self.cell, 0, self.how.lanes)
        for above in down:
            for beside in across:
                brought, *code = loaded[above.window, beside.window]
                added = total + brought
                if code:
                    meets = code[0].equals(above.tap * columns.taps + beside.tap)
                    added = k.select(meets, added, total)
                total = added
        return total
