"""The weight gradient of a convolution: for each narrow channel, wide channel and tap, a sum over
cells.

Wide and narrow cells are copied as in `gemm`, with zeros around the narrow cells, so that a sum is
the inner product of two flat lines, one of which is shifted. Lanes run along cells; sums of `rows`
narrow channels and `vectors` shifted lines stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.values import I32, WORD, Cell, Pointer, Value
from ..codegen.vector_math import fma
from .gemm import RUN, lay_out, record, transposed, turned_sums, write_turned
from .windows import fill

BAND = 6  # words of a band's record


@dataclass(frozen=True)
class WeightGradient:
    """A kernel for one blocking of the registers."""

    cell: Cell
    lanes: int
    rows: int
    vectors: int
    """Of sums with the same row, one for each of so many terms."""
    is_turned: bool
    """Whether lanes run along narrow channels, and rows along terms."""
    stride: int
    """Between wide cells that are laid out side by side."""
    skips: bool
    """Whether products with padding are skipped: 0 times infinity would be none."""
    row: tuple[int, int, int] = (0, 0, 0)
    """As of `gemm.Gemm`."""
    is_direct: bool = False
    """Whether cells are read where they lie: those of a band lie side by side, wide and narrow."""


def emit(how: WeightGradient, vector: int) -> Kernel:
    """args: wide, narrow, weight, tables, sizes.

    An item is (share of images and bands, group, part of the narrow channels, part of the wide
    ones); each share has a weight of its own. A band says where its cells begin in wide and narrow,
    its runs, those of wide cells first, and how many narrow cells it has."""
    kind = _Turned if how.is_turned else _Direct if how.is_direct else _WeightGradient
    return kind(how, vector).kernel


class _WeightGradient:
    def __init__(self, how: WeightGradient, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("weight_gradient", vector)
        self.wide, self.narrow, self.weight = (k.array(name, how.cell) for name in ("wide", "narrow", "weight"))
        self.runs, self.bands, self.offsets = (k.array(t, WORD) for t in ("runs", "bands", "offsets"))
        self.places = k.array("places", WORD) if how.skips or how.is_turned else None
        sizes = (
            "band_count image_bands share groups part_count part channels taps out_parts out_part out_channels "
            "pitch length out_blocks slots "
        )
        places = "wide_image wide_group wide_channel narrow_image narrow_group narrow_channel"
        self.n = n = k.sizes(sizes + places)
        self._take_rooms()
        with k.loop(k.begin, k.end) as item:
            part, place = item.index % n.part_count, item.index // n.part_count
            self.first_row, place = place % n.out_parts * n.out_part, place // n.out_parts
            self._item(place // n.groups, place % n.groups, part)
        k.finish()

    def _take_rooms(self) -> None:
        k, how, n = self.kernel, self.how, self.n
        self.sums = k.room(-(-how.rows * how.vectors // how.lanes) * how.lanes, how.cell)
        self.arrived = k.room(0, how.cell)  # as much as sizes say, behind all other scratch
        self.met = self.arrived + how.rows * n.length
        self.laid = self.met + n.length

    def _item(self, share: Value, group: Value, part: Value) -> None:
        k, n = self.kernel, self.n
        first = part * n.part
        self.count = k.least(n.part, n.channels - first)
        self.row = n.channels * n.taps
        self.rows = k.least(n.out_part, n.out_channels - self.first_row)
        own = (share * n.groups + group) * n.out_channels + self.first_row
        self.target = self.weight + (own * self.row + first * n.taps)
        self._begin()
        start = share * n.share
        with k.loop(start, k.least(start + n.share, n.image_bands)) as place:
            self._band(place.index // n.band_count, place.index % n.band_count, group, first)
        self._end()

    def _begin(self) -> None:
        k, zero = self.kernel, self.kernel.number(self.how.cell, 0)
        with k.loop(0, self.rows) as row:
            fill(k, self.target + row.index * self.row, self.count * self.n.taps, self.how.lanes, zero)

    def _end(self) -> None:
        """Nothing: sums were added where they belong."""

    def _band(self, image: Value, band: Value, group: Value, first: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        begin, arrives, first_run, middle, last_run = (k.load(self.bands, band * BAND + i) for i in range(5))
        wide = self.wide + (image * n.wide_image + group * n.wide_group + begin)
        narrow = self.narrow + (image * n.narrow_image + group * n.narrow_group + arrives)
        narrow = narrow + self.first_row * n.narrow_channel
        of_wide, of_narrow = (self.runs, first_run, middle), (self.runs, middle, last_run)
        with k.loop(0, self.count) as channel:
            source = wide + (first + channel.index) * n.wide_channel
            lay_out(k, how, how.stride, source, self.laid + channel.index * n.pitch, of_wide)
        self._products(narrow, of_wide, of_narrow, band)

    def _products(self, narrow: Pointer, of_wide: Any, of_narrow: Any, band: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        zero, self.kept = k.number(how.cell, 0, how.lanes), self.laid + (self.count * n.pitch + how.lanes)
        k.store(zero, self.laid, self.count * n.pitch)  # vectors of the last line may end here
        if how.skips:
            lay_out(k, how, 1, None, self.kept, of_wide)
            k.store(zero, self.kept, n.pitch)
            lay_out(k, how, 1, None, self.met, of_narrow)
        with k.loop(0, self.rows, how.rows) as row:
            with k.loop(0, k.least(how.rows, self.rows - row.index)) as one:
                source = narrow + (row.index + one.index) * n.narrow_channel
                lay_out(k, how, 1, source, self.arrived + one.index * n.length, of_narrow)
            with k.loop(0, self.count * n.taps, how.vectors) as term:
                self._sums(term.index, row.index)

    def _sums(self, term: Value, row: Value) -> None:
        """Add the sums of a block of rows and terms to the weight; those beyond the last are made
        of the last, and dropped."""
        k, how, n = self.kernel, self.how, self.n
        last = self.count * n.taps
        terms = [k.least(term + j, last - 1) for j in range(how.vectors)]
        lines = [self.laid + k.load(self.offsets, one) for one in terms]
        rows = [self.arrived + k.least(i, self.rows - 1 - row) * n.length for i in range(how.rows)]

        def added(at: Value, sums: list[Value], loaded: Callable[[Pointer, Value], Value]) -> list[Value]:
            arrived = [loaded(one, at) for one in rows]
            made: list[Value] = []
            for one, line in zip(terms, lines, strict=True):
                cells = loaded(line, at)
                new = [fma(k, some, cells, sums[len(made) + i]) for i, some in enumerate(arrived)]
                if self.places is not None:
                    kept = k.load(self.kept + k.load(self.places, one), at, how.lanes)
                    real = (kept > 0) & (k.load(self.met, at, how.lanes) > 0)
                    new = [k.select(real, some, sums[len(made) + i]) for i, some in enumerate(new)]
                made += new
            return made

        sums = self._over_cells(added, [k.number(how.cell, 0, how.lanes)] * (how.rows * how.vectors))
        sums = [sums[j * how.rows + i] for i in range(how.rows) for j in range(how.vectors)]
        for place, some in enumerate(totals(k, sums)):
            k.store(some, self.sums, place * how.lanes)
        is_whole = (row + how.rows <= self.rows) & (term + how.vectors <= last)
        with k.when(is_whole):
            for i in range(how.rows):
                target = self.target + ((row + i) * self.row + term)
                k.store(k.load(target, 0, how.vectors) + k.load(self.sums, i * how.vectors, how.vectors), target)
        rows_left, terms_left = k.least(how.rows, self.rows - row), k.least(how.vectors, last - term)
        with k.when(~is_whole), k.loop(0, rows_left) as down, k.loop(0, terms_left) as along:
            target = self.target + ((row + down.index) * self.row + term + along.index)
            k.store(k.load(target) + k.load(self.sums, down.index * how.vectors + along.index), target)

    def _over_cells(self, added: Callable[..., list[Value]], sums: list[Value]) -> list[Value]:
        """Sums carried through added(cell, sums, load) for all cells of a line."""
        k, how, n = self.kernel, self.how, self.n
        with k.loop(0, n.length, how.lanes, sums) as at:
            at.next = added(at.index, at.values, lambda line, cell: k.load(line, cell, how.lanes))
        return at.result


class _Direct(_WeightGradient):
    """Nothing is copied: a wide channel's cells are a line, and so are a narrow channel's, of which
    `length` is how far apart they lie."""

    def _take_rooms(self) -> None:
        k, how = self.kernel, self.how
        self.sums = k.room(-(-how.rows * how.vectors // how.lanes) * how.lanes, how.cell)

    def _band(self, image: Value, band: Value, group: Value, first: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        begin, self.cells = (k.load(self.bands, band * BAND + i) for i in (0, 5))
        self.laid = self.wide + (image * n.wide_image + group * n.wide_group + first * n.wide_channel + begin)
        narrow = self.narrow + (image * n.narrow_image + group * n.narrow_group + begin)
        with k.loop(0, self.count * n.taps, how.vectors) as term, k.loop(0, self.rows, how.rows) as row:
            self.arrived = narrow + (self.first_row + row.index) * n.length
            self._sums(term.index, row.index)

    def _over_cells(self, added: Callable[..., list[Value]], sums: list[Value]) -> list[Value]:
        """The last vector begins where it still is full, without cells that were added before."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        whole = self.cells - self.cells % lanes
        with k.loop(0, whole, lanes, sums) as at:
            at.next = added(at.index, at.values, lambda line, cell: k.load(line, cell, lanes))
        fresh = k.iota(lanes, I32) >= k.splat(k.cast(whole + lanes - self.cells, I32), lanes)
        with k.loop(whole, self.cells, lanes, at.result) as rest:
            loaded = lambda line, cell: k.select(fresh, k.load(line, cell, lanes), k.number(how.cell, 0, lanes))  # noqa: E731
            rest.next = added(self.cells - lanes, rest.values, loaded)
        return rest.result


def totals(k: Kernel, vectors: list[Value]) -> list[Value]:
    """The sum of all lanes of each vector, side by side. Each turn joins two vectors: halves of
    their segments, which stand for one sum each, are added; a last one without another is joined
    with itself."""
    lanes = half = vectors[0].lanes
    while half > 1:
        half //= 2
        low = [place for place in range(2 * lanes) if place // half % 2 == 0]
        high = [place + half for place in low]
        pairs = zip(vectors[::2], [*vectors[1::2], *vectors[-1:]], strict=False)
        vectors = [k.shuffle(one, other, low) + k.shuffle(one, other, high) for one, other in pairs]
    return vectors


class _Turned(_WeightGradient):
    """Lanes run along narrow channels, whose cells are transposed for it, and rows along terms. So
    no sum has to be made of lanes, and no cell of padding is met. A band's sums are added to those
    before in slots, which are written at the end."""

    def _take_rooms(self) -> None:
        k, how, n = self.kernel, self.how, self.n
        self.size = how.vectors * how.lanes
        self.arrived = k.room(0, how.cell)
        self.slots = self.arrived + n.out_blocks * n.length * self.size
        self.laid = self.slots + n.out_blocks * n.slots * (how.rows * self.size)

    def _begin(self) -> None:
        k, n = self.kernel, self.n
        self.last = self.count * n.taps
        self.blocks = (self.rows + (self.size - 1)) // self.size
        count = n.out_blocks * n.slots * (self.how.rows * self.size)
        fill(k, self.slots, count, self.how.lanes, k.number(self.how.cell, 0))

    def _slot(self, block: Value, row: Value) -> Pointer:
        return self.slots + (block * self.n.slots + row // self.how.rows) * (self.how.rows * self.size)

    def _products(self, narrow: Pointer, of_wide: Any, of_narrow: Any, band: Value) -> None:
        k, how = self.kernel, self.how
        _, first, last = of_narrow
        with k.loop(0, self.blocks * how.vectors) as some, k.loop(first, last) as run:
            self._transpose(narrow, some.index, *record(k, self.runs, run.index, RUN, 0, 3))
        count = k.load(self.bands, band * BAND + 5)
        with k.loop(0, self.blocks) as block, k.loop(0, self.last, how.rows) as row:
            self._turned_sums(block.index, row.index, count)

    def _transpose(self, narrow: Pointer, some: Value, to: Value, begin: Value, count: Value) -> None:
        """The cells of a run, of a vector of channels; beyond the last, of the last."""
        k, how, n, lanes = self.kernel, self.how, self.n, self.how.lanes
        rows = [narrow + (k.least(some * lanes + i, self.rows - 1) * n.narrow_channel + begin) for i in range(lanes)]
        place = some // how.vectors * n.length + to
        target = self.arrived + (place * self.size + some % how.vectors * lanes)
        with k.when(count < lanes), k.loop(0, count) as one:
            for i, row in enumerate(rows):
                k.store(k.load(row, one.index), target, one.index * self.size + i)
        with k.when(count >= lanes), k.loop(0, count, lanes) as along:
            at = k.least(along.index, count - lanes)
            for i, column in enumerate(transposed(k, [k.load(row, at, lanes) for row in rows])):
                k.store(column, target, (at + i) * self.size)

    def _turned_sums(self, block: Value, row: Value, count: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        assert self.places is not None
        lines = [(self.laid + k.load(self.offsets, k.least(row + i, self.last - 1)), 0) for i in range(how.rows)]
        cells = self.places, self.arrived + block * n.length * self.size, count
        zeros = [k.number(how.cell, 0, how.lanes)] * (how.rows * how.vectors)
        slot = self._slot(block, row)
        for at, sums in enumerate(turned_sums(k, how, lines, cells, zeros)):
            k.store(k.load(slot, at * how.lanes, how.lanes) + sums, slot, at * how.lanes)

    def _end(self) -> None:
        """Write the slots, few channels at a time, since cells of many may share few places of a
        cache."""
        k, how = self.kernel, self.how
        side = 1 << min(how.rows, how.lanes).bit_length() - 1
        with k.loop(0, self.rows, side) as some, k.loop(0, self.last, how.rows) as row:
            slot = self._slot(some.index // self.size, row.index) + some.index % self.size
            counts = k.least(side, self.rows - some.index), k.least(how.rows, self.last - row.index)
            write_turned(k, how, slot, self.target + (some.index * self.row + row.index), counts, self.row)
