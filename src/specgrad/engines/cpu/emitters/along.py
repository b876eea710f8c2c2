"""Windows along one axis of (outer, axis, inner) with contiguous inner cells: channels-last,
columns, and the outer axes of volumes.

Lanes run along the inner cells, so a window is a few loads for any stride and layout. Several
windows of one size that read real cells only are computed together, and share partial results.
Windows at the edges, and bins of all sizes, are computed tap by tap from tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen.builder import Kernel
from ..codegen.combine import Part
from ..codegen.values import WORD, Number, Value
from .windows import Reduction, Walk, Window, stacked


@dataclass(frozen=True)
class Along(Reduction):
    """A kernel of windows along an axis."""

    window: Window | None
    """Windows of one size; None for bins of all sizes."""
    stack: int
    lanes: int
    width: int = 1
    """How many codes a tap of this axis counts: those of the taps of axes behind it."""
    has_codes: bool = False
    """Whether the operand comes with codes of the axes behind this one."""


def emit(how: Along, vector: int) -> Kernel:
    """args: x, [x_codes], y, [codes], [divisors], first, count, skipped, sizes; an item is one
    block of inner cells of one outer index, and a range of windows."""
    return _Along(how, vector).kernel


class _Along(Walk):
    def __init__(self, how: Along, vector: int) -> None:
        super().__init__("along", how, vector, how.has_codes)
        k = self.kernel
        self.first, self.count, self.skipped = (k.array(name, WORD) for name in ("first", "count", "skipped"))
        self.combine.begin(k)
        self.n = k.sizes("size length inner step bands band blocks block whole_begin whole_end")
        self.each_item(self._item)

    def _item(self, item: Value, flags: Value) -> Value:
        """Items are outer indices × bands of windows × blocks of inner cells."""
        k, n = self.kernel, self.n
        outer, rest = item // (n.bands * n.blocks), item % (n.bands * n.blocks)
        begin, self.left = rest // n.blocks * n.band, rest % n.blocks * n.block
        end = k.least(begin + n.band, n.length)
        self.cells = k.least(n.block, n.inner - self.left)
        self.source = outer * n.size * n.inner + self.left
        self.target = [y + (outer * n.length * n.inner + self.left) for y in self.y]
        return self._windows(begin, end, flags)

    def _windows(self, begin: Value, end: Value, flags: Value) -> Value:
        """Windows begin to end: those at the edges one by one, those between several at a time."""
        k, stack = self.kernel, self.how.stack
        if self.how.window is None:
            return self._one_by_one(begin, end, flags)
        low = k.most(begin, k.least(self.n.whole_begin, end))
        high = k.most(low, k.least(self.n.whole_end, end))
        whole = high - (high - low) % stack
        flags = self._one_by_one(begin, low, flags)
        with k.loop(low, whole, stack, carried=[flags]) as down:
            down.next = [self._together(down.index, stack, down.values[0])]
        return self._one_by_one(whole, end, down.result[0])

    def _together(self, row: Value, some: int, flags: Value) -> Value:
        """`some` neighbouring windows, all of whose taps are cells."""
        k, window, lanes = self.kernel, self.how.window, self.how.lanes
        assert window is not None
        start = k.load(self.first, row) * self.n.inner
        offsets = window.offsets(some)

        def body(index: Number, flag: Value) -> Value:
            lines = {j: self._part(start + j * self.n.inner + index, lanes) for j in offsets}
            flag = self.guard_nan(flag, [lines[j][0] for j in self._seen(offsets, some)])
            for i, part in enumerate(stacked(k, self.combine, lines, window, some, self.how.width)):
                self._store(part, row + i, index)
            return flag

        return self.vectors(self.cells, lanes, body, flags)

    def _seen(self, offsets: list[int], some: int) -> list[int]:
        """Of the rows that windows read together those that the windows before did not."""
        window = self.how.window
        assert window is not None
        shared = window.dilation == 1 and window.taps > window.stride
        return offsets if not shared else offsets[: some * window.stride] + offsets[-window.stride :]

    def _one_by_one(self, begin: Value, end: Value, flags: Value) -> Value:
        """Each window tap by tap, from tables: where it begins, how many cells it has, and how many
        taps were skipped before the first of them."""
        k = self.kernel
        with k.loop(begin, end, carried=[flags]) as each:
            row = each.index
            first, count, skipped = (k.load(table, row) for table in (self.first, self.count, self.skipped))

            def body(index: Number, flag: Value) -> Value:
                part, flag = self._taps(first, count, index, flag)
                if self.combine.counts:
                    part = [part[0], self._moved(part[1], skipped)]
                self._store(part, row, index)
                return flag

            each.next = [self.vectors(self.cells, self.how.lanes, body, each.values[0])]
        return each.result[0]

    def _taps(self, first: Value, count: Value, index: Number, flag: Value) -> tuple[Part, Value]:
        """A vector of windows that have `count` cells from `first` on."""
        k, lanes = self.kernel, self.how.lanes
        with k.loop(0, count, carried=[*self.combine.nothing(k, lanes), flag]) as taps:
            *so_far, flag = taps.values
            part = self._part((first + taps.index * self.n.step) * self.n.inner + index, lanes)
            flag = self.guard_nan(flag, [part[0]])
            if self.combine.counts:
                part = [part[0], self._moved(part[1], taps.index)]
            is_first = self.kernel.splat(taps.index.equals(0), lanes)
            joined = self.combine.join(k, so_far, part)
            taps.next = [*(k.select(is_first, one, other) for one, other in zip(part, joined, strict=True)), flag]
        *part, flag = taps.result
        return part, flag

    def _moved(self, code: Value, taps: Value) -> Value:
        """A code, so many taps of this axis further on."""
        k = self.kernel
        by = k.cast(taps * self.how.width, code.element, code.signed)
        moved: Value = self.how.combine.shifted(k, code, k.splat(by, code.lanes))
        return moved

    def _part(self, index: Number, lanes: int) -> Part:
        """What is known of the cells from `index` on."""
        k, at = self.kernel, self.source + index
        cells = k.load(self.x, at, lanes)
        return self.combine.first(k, cells, 0) if self.x_codes is None else [cells, k.load(self.x_codes, at, lanes)]

    def _store(self, part: Part, row: Number, index: Number) -> None:
        self.store(self.finished(part, row, self.left + index), self.target, row * self.n.inner + index)
