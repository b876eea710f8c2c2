"""What the walks share: a window's axis, how parts of it are joined, and how NaNs are noticed."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import F32, I1, I32, I64, Cell, Kernel, Number, Pointer, Value, constant
from ..codegen.combine import Part, Sum, working

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

    @property
    def shared(self) -> int:
        """How many neighbouring windows have cells in common."""
        return -(-self.extent // self.stride)


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


def copy_exactly(k: Kernel, source: Pointer, target: Pointer, count: Value, lanes: int) -> None:
    """Copy so many cells, in vectors as far as they are full."""
    whole = count - count % lanes
    with k.loop(0, whole, lanes) as along:
        k.store(k.load(source, along.index, lanes), target, along.index)
    with k.loop(whole, count) as rest:
        k.store(k.load(source, rest.index), target, rest.index)


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


def any_lane(k: Kernel, mask: Value) -> Value:
    """Whether it holds in any lane."""
    return k.call("llvm.vector.reduce.or.{}", I1, mask)


def guard_nan(k: Kernel, combine: Sum, flags: Value, cells: list[Value]) -> Value:
    """Flags, with a bit more if there is a number among cells that a fold is right without: the
    first for a NaN, the second for a -0.0."""
    if not combine.guards:
        return flags
    pairs = [(cells[i], cells[min(i + 1, len(cells) - 1)]) for i in range(0, len(cells), 2)]
    flags = flags | _any_of(k, [Value(k, k.builder.fcmp_unordered("uno", a.value, b.value)) for a, b in pairs], flags)
    if combine.guards_zero:
        word = I32 if cells[0].element == F32 else I64
        negative = [k.bits(one, word).equals(-1 << (word.width - 1)) for one in cells]
        flags = flags | _any_of(k, negative, flags) * 2
    return flags


def _any_of(k: Kernel, seen: list[Value], flags: Value) -> Value:
    met = functools.reduce(operator.or_, seen)
    return k.cast(any_lane(k, met) if met.lanes else met, flags.type, False)


def guard_identity(k: Kernel, combine: Sum, flags: Value, part: Part) -> Value:
    """Flags, with a bit more if a result is the number that padding is taken for."""
    return flags | k.cast(any_lane(k, part[0].equals(combine.identity)), flags.type, False)


def tree(k: Kernel, combine: Sum, parts: list[Part]) -> Part:
    """Join neighbouring parts, each of which tells its place by itself, in pairs."""
    while len(parts) > 1:
        parts = [
            combine.join(k, parts[i], parts[i + 1]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)
        ]
    return parts[0]


def fold_parts(k: Kernel, combine: Sum, parts: list[tuple[Part, int]], step: int = 1) -> tuple[Part, int]:
    """Join neighbouring parts that begin so many steps on, of `step` taps each."""
    while len(parts) > 1:
        joined = []
        for i in range(0, len(parts), 2):
            if i + 1 == len(parts):
                joined.append(parts[i])
            else:
                (one, start), (two, other) = parts[i], parts[i + 1]
                joined.append((combine.join(k, one, two, (other - start) * step), start))
        parts = joined
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
    if some == 1 or rows.dilation > 1 or (some - 1) * rows.stride >= rows.taps:
        return [
            fold_parts(k, combine, [(lines[i * rows.stride + t * rows.dilation], t) for t in range(rows.taps)], width)[
                0
            ]
            for i in range(some)
        ]
    begin, end = (some - 1) * rows.stride, rows.taps
    core = fold_parts(k, combine, [(lines[j], j) for j in range(begin, end)], width)
    suffixes: dict[int, tuple[Part, int]] = {begin: core}
    for j in range(begin - 1, -1, -1):
        later, start = suffixes[j + 1]
        suffixes[j] = combine.join(k, lines[j], later, (start - j) * width), j
    prefixes: dict[int, tuple[Part, int] | None] = {end: None}
    for j in range(end, (some - 1) * rows.stride + rows.taps):
        earlier = prefixes[j]
        if earlier is None:
            prefixes[j + 1] = lines[j], j
        else:
            prefixes[j + 1] = combine.join(k, earlier[0], lines[j], (j - earlier[1]) * width), earlier[1]
    results = []
    for i in range(some):
        one, start = suffixes[i * rows.stride]
        behind = prefixes[i * rows.stride + rows.taps]
        results.append(one if behind is None else combine.join(k, one, behind[0], (behind[1] - start) * width))
    return results
