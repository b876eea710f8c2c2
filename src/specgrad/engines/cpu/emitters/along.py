"""Windows along one axis of (outer, axis, inner), whose inner cells lie side by side:
channels-last, columns, and the outer axes of volumes.

Lanes run along the inner cells, so a window is a few loads, whatever the stride or the layout.
Windows of one size that read real cells only are joined several at a time, which share what they
have in common; windows at the edges, and bins of all sizes, tap by tap, from tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import WORD, Cell, Kernel, Number, Value
from ..codegen.combine import Part, Sum
from .windows import Divisors, Window, guard_nan, stacked


@dataclass(frozen=True)
class Along:
    """A kernel of windows along an axis."""

    combine: Any
    result: Cell
    window: Window | None
    """Windows of one size; None for bins of all sizes."""
    stack: int
    lanes: int
    width: int = 1
    """How many codes a tap of this axis counts: those of the taps of axes behind it."""
    has_codes: bool = False
    """Whether the operand comes with codes of the axes behind this one."""
    divides: str = "no"


def emit(how: Along, vector: int) -> Kernel:
    """args: x, [x_codes], y, [codes], [divisors], first, count, skipped, sizes; an item is one
    block of inner cells of one outer index, and a range of windows."""
    return _Along(how, vector).kernel


class _Along:
    def __init__(self, how: Along, vector: int) -> None:
        self.how, self.combine = how, how.combine
        k = self.kernel = Kernel("along", vector)
        combine: Sum = how.combine
        self.x = [k.array("x", combine.cell)]
        if how.has_codes:
            self.x.append(k.array("x_codes", combine.cells()[1]))
        self.y = [k.array(name, cell) for name, cell in combine.written(how.result)]
        self.divisors = Divisors(k, how.divides, combine.cell)
        self.first, self.count, self.skipped = (k.array(name, WORD) for name in ("first", "count", "skipped"))
        self.combine.begin(k)
        self.n = k.sizes(
            "size", "length", "inner", "step", "bands", "band", "blocks", "block", "whole_begin", "whole_end"
        )
        k.finish(self._items())

    def _items(self) -> Value:
        """Outer indices × bands of windows × blocks of inner cells."""
        k = self.kernel
        with k.loop(k.begin, k.end, carried=[0]) as each:
            outer, rest = each.index // (self.n.bands * self.n.blocks), each.index % (self.n.bands * self.n.blocks)
            begin, left = rest // self.n.blocks * self.n.band, rest % self.n.blocks * self.n.block
            end = k.least(begin + self.n.band, self.n.length)
            self.cells = k.least(self.n.block, self.n.inner - left)
            self.source = [x + (outer * self.n.size * self.n.inner + left) for x in self.x]
            self.target = [y + (outer * self.n.length * self.n.inner + left) for y in self.y]
            self.left = left
            each.next = [self._windows(begin, end, each.values[0])]
        return each.result[0]

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
        offsets = sorted({i * window.stride + t * window.dilation for i in range(some) for t in range(window.taps)})

        def body(index: Number, carried: list[Any]) -> list[Any]:
            lines = {j: self._part(start + j * self.n.inner + index, lanes) for j in offsets}
            flag = guard_nan(k, self.combine, carried[0], [lines[j][0] for j in self._seen(offsets, some)])
            for i, part in enumerate(stacked(k, self.combine, lines, window, some, self.how.width)):
                flag = self._store(part, row + i, index, lanes, flag)
            return [flag]

        return self._vectors(body, flags)

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
            first, count = k.load(self.first, each.index), k.load(self.count, each.index)
            skipped = k.load(self.skipped, each.index)
            row = each.index

            def body(
                index: Number, carried: list[Any], lanes: int, first: Any = first, count: Any = count, row: Any = row
            ) -> list[Any]:
                part, flag = self._taps(first, count, index, lanes, carried[0])
                if self.combine.counts:
                    part = [part[0], self._moved(part[1], skipped)]
                return [self._store(part, row, index, lanes, flag)]

            each.next = [self._vectors(body, each.values[0], by_lanes=True)]
        return each.result[0]

    def _taps(self, first: Value, count: Value, index: Number, lanes: int, flag: Value) -> tuple[Part, Value]:
        """A vector of windows that have `count` cells from `first` on."""
        k = self.kernel
        with k.loop(0, count, carried=[*self.combine.nothing(k, lanes), flag]) as taps:
            *so_far, flag = taps.values
            part = self._part((first + taps.index * self.n.step) * self.n.inner + index, lanes)
            flag = guard_nan(k, self.combine, flag, [part[0]])
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
        moved = code + k.splat(by, code.lanes)
        none = getattr(self.combine, "none", None)
        return moved if none is None else k.select(code.equals(none), code, moved)

    def _part(self, index: Number, lanes: int) -> Part:
        """What is known of the cells from `index` on."""
        k = self.kernel
        cells = k.load(self.source[0], index, lanes)
        if self.how.has_codes:
            return [cells, k.load(self.source[1], index, lanes)]
        return self.combine.first(k, cells, 0)

    def _vectors(self, body: Any, flags: Value, by_lanes: bool = False) -> Value:
        """body for vectors of the inner cells of a block: the last begins where it still is
        full."""
        lanes = self.how.lanes
        run = (lambda index, carried: body(index, carried, lanes)) if by_lanes else body
        result: Value = self.kernel.vectors(self.cells, lanes, run, [flags])[0]
        return result

    def _store(self, part: Part, row: Number, index: Number, lanes: int, flag: Value) -> Value:
        k = self.kernel
        part = self.combine.finish(k, part)
        part = [self.divisors.divide(part[0], row, self.left + index), *part[1:]]
        for one, target in zip(part, self.target, strict=True):
            k.store(one, target, row * self.n.inner + index)
        return flag
