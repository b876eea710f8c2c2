"""Code shared by the walks: the axis of a window, how its parts are combined, and NaN detection."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import Part, Sum, working
from ..codegen.values import I1, Cell, Number, Pointer, Value, constant

AHEAD = 2048  # bytes from a load to what is asked for meanwhile
DIRECT = 8  # taps of a row that are joined one by one; more go by blocks


@dataclass(frozen=True)
class Window:
    """One axis of a window: taps, and how far apart windows and taps are; whether any window
    reaches beyond the cells."""

    taps: int
    stride: int = 1
    dilation: int = 1
    padded: bool = False

    @property
    def extent(self) -> int:
        """From the first tap to the last, both included."""
        return self.dilation * (self.taps - 1) + 1

    def offsets(self, windows: int) -> list[int]:
        """Where the taps of so many neighbouring windows lie, counted from the first."""
        return sorted({i * self.stride + t * self.dilation for i in range(windows) for t in range(self.taps)})

    @property
    def shared(self) -> int:
        """How many neighbouring windows have cells in common."""
        return -(-self.extent // self.stride)


@dataclass(frozen=True)
class Reduction:
    """What all kernels that fold windows are told."""

    combine: Any
    result: Cell
    divides: str
    """See `Divisors`."""


class Divisors:
    """What sums are divided by: kind "no", "all" by one number, "scale" by a power of two, which is
    one multiplication, or "each" by a number per row times one per column."""

    def __init__(self, k: Kernel, kind: str, cell: Cell) -> None:
        self.kernel, self.kind = k, kind
        if kind != "no":
            self.rows = k.array("row_divisors", working(cell))
        if kind == "each":
            self.columns = k.array("column_divisors", working(cell))

    def divide(self, sums: Value, row: Number, column: Number) -> Value:
        """The sums of windows of a row from `column` on, divided."""
        k, kind, lanes = self.kernel, self.kind, sums.lanes
        if kind == "no":
            return sums
        by = k.load(self.rows, row if kind == "each" else 0)
        by = k.splat(by, lanes) if lanes else by
        if kind == "each":
            by = by * k.load(self.columns, column, lanes)
        return sums * by if kind == "scale" else sums / by


class Walk:
    """A kernel that folds windows, being emitted: its operand, with codes or without, its results,
    and what they are divided by."""

    def __init__(self, name: str, how: Any, vector: int, has_codes: bool = False) -> None:
        self.how = how
        self.combine: Sum = how.combine
        combine = self.combine
        k = self.kernel = Kernel(name, vector)
        self.x = k.array("x", combine.cell)
        self.x_codes = k.array("x_codes", combine.cells()[1]) if has_codes else None
        self.y = [k.array(name, cell) for name, cell in combine.written(how.result)]
        self.divisors = Divisors(k, how.divides, combine.cell)

    def each_item(self, handle: Callable[[Value, Value], Value]) -> None:
        """The end of the kernel: flags go through handle(item, flags) for each item of the task."""
        k = self.kernel
        with k.loop(k.begin, k.end, carried=[0]) as each:
            each.next = [handle(each.index, each.values[0])]
        k.finish(each.result[0])

    def vectors(
        self, count: Number, lanes: int, body: Callable[[Number, Value], Value], flags: Value, is_free: bool = False
    ) -> Value:
        """Flags through body(index, flags) for vectors that cover `count` places: the last begins
        where it still is full, unless what lies behind is free to be read and written."""
        k = self.kernel
        last = 0 if is_free else count - lanes
        with k.loop(0, count, lanes, carried=[flags]) as along:
            along.next = [body(along.index if is_free else k.least(along.index, last), along.values[0])]
        return along.result[0]

    def finished(self, part: Part, row: Number, column: Number) -> Part:
        """What is written of whole windows of a row, from `column` on."""
        value, *beside = self.combine.finish(self.kernel, part)
        return [self.divisors.divide(value, row, column), *beside]

    def store(self, part: Part, targets: list[Pointer], index: Number) -> None:
        """Write the results of windows."""
        for one, target in zip(part, targets, strict=True):
            self.kernel.store(one, target, index)

    def prefetch(self, source: Pointer, index: Number, cells: int) -> None:
        """Ask for as many cells of the array, some way ahead, as are read now."""
        size = self.combine.cell.size
        for line in range(0, max(cells * size, 64), 64):
            self.kernel.prefetch(source, index + (AHEAD + line) // size)

    def seen(self, taps: list[Value]) -> list[Value]:
        """Of the taps of vectors of windows those that together see every cell of a row."""
        stride = self.how.columns.stride
        few = self.how.columns.dilation > 1 or len(taps) <= 2 * stride
        return taps if few else taps[:stride] + taps[-stride:]

    def guard_nan(self, flags: Value, cells: list[Value]) -> Value:
        """Flags, with a bit more if there is a number among cells that a fold is right without: the
        first for a NaN, the second for a -0.0."""
        k = self.kernel
        if not self.combine.guards:
            return flags
        pairs = [(cells[i].value, cells[min(i + 1, len(cells) - 1)].value) for i in range(0, len(cells), 2)]
        flags = flags | _any_of(k, [Value(k, k.builder.fcmp_unordered("uno", *pair)) for pair in pairs], flags)
        if self.combine.guards_zero:
            flags = flags | _any_of(k, [k.is_negative_zero(one) for one in cells], flags) * 2
        return flags

    def guard_padding(self, flags: Value, part: Part, here: Value | None = None) -> Value:
        """Flags, with a bit more if the code of a padded window may be that of padding: its result,
        in a lane that is `here`, is the number that padding is taken for."""
        combine, is_padded = self.combine, self.how.rows.padded or self.how.columns.padded
        if not is_padded or not combine.counts or combine.masks:
            return flags
        tied = part[0].equals(combine.identity)
        return flags | _any_of(self.kernel, [tied if here is None else tied & here], flags)


def copy_whole(k: Kernel, source: Pointer | None, target: Pointer, count: Value, lanes: int) -> None:
    """Copy many cells, or write zeros where there is no source, by loops that LLVM knows."""

    def some(index: Value, here: int, _: Any) -> None:
        vector = here if here > 1 else 0
        cells = k.number(target.cell, 0, vector) if source is None else k.load(source, index, vector)
        k.store(cells, target, index)

    k.together(0, count, lanes, some)


def fill(k: Kernel, target: Pointer, count: Number, lanes: int, one: Value) -> None:
    """Write a number into so many cells; if that is a constant, into whole vectors."""
    if isinstance(count, int):
        for at in range(0, count, lanes):
            k.store(k.splat(one, lanes), target, at)
        return
    each_cell(k, target, count, lanes, lambda _, some, is_end: k.splat(one, some) if some else one)


def copy(k: Kernel, source: Pointer, stride: int, target: Pointer, count: Value, lanes: int, apart: int = 1) -> None:
    """Copy so many cells, `stride` apart in the source and `apart` in the target. Other cells that
    a vector reads lie behind its own, or before them at the end."""

    def made(at: Number, some: int, is_end: bool) -> Value:
        if not some:
            return k.load(source, at * stride)
        return k.strided(source, at * stride, stride, some, stride - 1 if is_end else 0)

    each_cell(k, target, count, lanes, made, apart)


def each_cell(k: Kernel, target: Pointer, count: Value, lanes: int, made: Callable[..., Value], apart: int = 1) -> None:
    """Write made(index, lanes, is_end) into so many cells, by vectors. The last of them may overlap
    the one before; it is never the first one too, so that there are cells before it. No lanes: cell
    by cell."""
    below = None
    some = lanes
    while some > 1:
        fits = count > some
        with k.when(fits if below is None else fits & below):
            last = count - some
            with k.loop(0, last, some) as along:
                k.store_strided(made(along.index, some, False), target, along.index * apart, apart)
            k.store_strided(made(last, some, True), target, last * apart, apart)
        below, some = count <= some, some // 2
    with k.loop(0, count if below is None else k.select(below, count, 0)) as one:
        k.store(made(one.index, 0, False), target, one.index * apart)


def load_padded(
    k: Kernel, row: Pointer, first: Number, which: tuple[int, int, int], edge: tuple[str, Any, Value], padding: Any
) -> Value:
    """Cells of a row, as `strided` takes them from `first` on, with padding where the row has none.
    `which` is the stride, the lanes and the lead; `edge` says whether the vector lies at the "left"
    or the "right" end of the row or between them (""), where its first cell lies, counted from that
    end, and how many cells the row has, which are a vector's at least."""
    stride, lanes, lead = which
    side, place, width = edge
    cells = lanes * stride
    if not side or (place >= 0 if side == "left" else place + cells <= 0):
        if side == "left":
            first = place
        return k.strided(row, first + lead if lead else first, stride, lanes, lead)
    loaded = k.load(row, 0 if side == "left" else width - cells, cells)
    nothing = Value(k, constant(loaded.type, padding), loaded.signed)
    wanted = [place + lead + stride * lane + (0 if side == "left" else cells) for lane in range(lanes)]
    return k.shuffle(loaded, nothing, [at if 0 <= at < cells else cells for at in wanted])


def _any_of(k: Kernel, seen: list[Value], flags: Value) -> Value:
    """1, of the type of flags, if one of these holds in any lane."""
    met = functools.reduce(operator.or_, seen)
    return k.cast(k.call("llvm.vector.reduce.or.{}", I1, met) if met.lanes else met, flags.type, False)


Placed = tuple[Part, int]
"""A part, and where it begins. Parts that tell their places by themselves all begin at 0."""


def join_placed(k: Kernel, combine: Sum, step: int, one: Placed, two: Placed) -> Placed:
    """One part of two neighbours, whose places are `step` taps apart."""
    return combine.join(k, one[0], two[0], (two[1] - one[1]) * step), one[1]


def fold_parts(k: Kernel, combine: Sum, parts: list[Placed], step: int = 1) -> Placed:
    """Join neighbouring parts in pairs."""
    join = functools.partial(join_placed, k, combine, step)
    while len(parts) > 1:
        parts = [functools.reduce(join, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def block_of(window: Window, combine: Sum) -> int:
    """How many taps make a block, so that few blocks and few taps are joined; 1 where taps are
    joined one by one."""
    if window.taps <= DIRECT:
        return 1
    return min(range(2, window.taps), key=lambda b: b + len(split(window.taps, b, combine.overlaps)))


def split(taps: int, block: int, overlaps: bool) -> list[tuple[int, int]]:
    """Parts that make up a window: where each begins and how many taps it has, which is `block` or,
    where no tap may be joined twice, 1."""
    parts = [(start, block) for start in range(0, taps - block + 1, block)]
    rest = taps - len(parts) * block
    if rest and overlaps:
        return [*parts, (taps - block, block)]
    return parts + [(taps - rest + t, 1) for t in range(rest)]


def stacked(k: Kernel, combine: Sum, lines: dict[int, Part], rows: Window, some: int, width: int) -> list[Part]:
    """Of lines, by their row, the windows of `some` neighbouring rows of windows, each of
    `rows.taps` lines. What is common to all is joined once, what stands before and behind it step
    by step."""
    starts = [i * rows.stride for i in range(some)]
    begin, end = starts[-1], rows.taps
    if some == 1 or rows.dilation > 1 or begin >= end:
        taps = [[(lines[start + t * rows.dilation], t) for t in range(rows.taps)] for start in starts]
        return [fold_parts(k, combine, parts, width)[0] for parts in taps]
    join = functools.partial(join_placed, k, combine, width)
    suffixes = {begin: fold_parts(k, combine, [(lines[j], j) for j in range(begin, end)], width)}
    for j in reversed(range(begin)):
        suffixes[j] = join((lines[j], j), suffixes[j + 1])
    prefixes = {end + 1: (lines[end], end)}
    for j in range(end + 1, begin + end):
        prefixes[j + 1] = join(prefixes[j], (lines[j], j))
    behind = [prefixes.get(start + rows.taps) for start in starts]
    return [(join(suffixes[s], b) if b else suffixes[s])[0] for s, b in zip(starts, behind, strict=True)]
