"""Convolution as a matrix product without an im2col matrix: each row of that matrix would be a
shifted copy of the first operand.

The cells of an item are copied once, with their padding, as one flat line per channel (`lay_out`).
Term k of a product (a channel and a tap) is then at one constant offset, offsets[k], from every
result cell. Rank, dilation and stride of a convolution change the tables only. Results are computed
in register tiles: `rows` target channels by `vectors` vectors of adjacent results. Results outside
the image are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.values import I32, WORD, Cell, Number, Pointer, Value
from ..codegen.vector_math import fma
from .windows import copy, fill

QUARTER = 4  # lanes of vectors for runs that are shorter than a vector
UNROLL = 8  # channels whose weights are packed together, cell by cell
AHEAD = 4  # rows of a tile, at least, whose next terms are asked for early
TERM, RUN, BAND, JOB, TILE, SEGMENT = 3, 6, 5, 5, 7, 4  # words of a record of each table


@dataclass(frozen=True)
class Gemm:
    """A kernel for one blocking of the registers."""

    cell: Cell
    lanes: int
    rows: int
    vectors: int
    stride: int
    """Between source cells that are laid out side by side."""
    apart: int
    """Between target cells whose results lie side by side."""
    skips: bool
    """Whether products with padding are skipped: 0 times infinity would be none."""
    is_turned: bool = False
    """Whether lanes run along target channels, and rows along cells."""
    row: tuple[int, int, int] = (0, 0, 0)
    """How rows are laid out together (`taps.Row`); zeros: run by run."""
    cuts: bool = False
    """Whether tiles skip taps all of whose cells lie in padding."""
    met: tuple[tuple[int, int], ...] = ()
    """Of each tap along the last axis, the rows of a turned tile that meet a cell, where all tiles
    are lines; none: all taps take all rows."""


@dataclass(frozen=True)
class Packing:
    """A kernel that packs weights: for each block of target channels, term by term, the weights of
    all its channels."""

    cell: Cell
    rows: int
    side: int
    """Of squares of weights that are transposed in registers; 1: terms do not lie side by side."""
    is_beside: bool
    """Whether weights of neighbouring channels lie side by side."""


def emit_packing(how: Packing, vector: int) -> Kernel:
    """args: weight, packed, terms (where the weight of each lies, where it is packed for the first
    block, and how far apart for others), sizes; an item is some terms of a block, in runs that lie
    side by side. Channels that a last block lacks are 0."""
    k, side = Kernel("packing", vector), how.side
    weight, packed, terms = k.array("weight", how.cell), k.array("packed", how.cell), k.array("terms", WORD)
    n = k.sizes("blocks channels channel group count near pieces run next_block next_piece")
    unroll, lanes = (side, side) if side > 1 else (math.gcd(how.rows, UNROLL), 0)
    zero = k.number(how.cell, 0, lanes)
    with k.loop(k.begin, k.end) as item, k.loop(0, how.rows, unroll) as row:
        of, begin = item.index // n.next_block % n.blocks, item.index // n.next_piece % n.pieces * n.near
        group = item.index // (n.blocks * n.pieces)
        block, first, end = group * n.blocks + of, of * how.rows + row.index, k.least(begin + n.near, n.count)
        source = weight + group * n.group
        rows = [source + k.least(first + i, n.channels - 1) * n.channel for i in range(unroll)]
        real = [first + i < n.channels for i in range(unroll)]
        if how.is_beside:
            is_whole = first + unroll <= n.channels
            with k.when(is_whole), k.loop(begin, end) as term:
                place, to, apart = record(k, terms, term.index, TERM)
                k.store(k.load(source, place + first, unroll), packed, to + block * apart + row.index)
            end = k.select(is_whole, begin, end)
        with k.loop(begin, end, n.run) as run:
            place, count = k.load(terms, run.index * TERM), k.least(n.run, end - run.index)
            with k.loop(0, count, side) as along:
                at = k.least(along.index, count - side)
                found = [k.select(real[i], k.load(rows[i], place + at, lanes), zero) for i in range(unroll)]
                for i, made in enumerate([[one] for one in transposed(k, found)] if lanes else [found]):
                    to, apart = record(k, terms, run.index + at + i, TERM, 1)
                    for j, one in enumerate(made):
                        k.store(one, packed, to + block * apart + row.index + j)
    return k.finish()


def transposed(k: Kernel, vectors: list[Value]) -> list[Value]:
    """As many vectors as they have lanes, transposed. Each turn interleaves the vectors of the
    first half with those of the second."""
    lanes = len(vectors)
    places = [place for i in range(lanes) for place in (i, i + lanes)]
    for _ in range(lanes.bit_length() - 1):
        pairs = list(zip(vectors[: lanes // 2], vectors[lanes // 2 :], strict=True))
        vectors = [k.shuffle(*pair, half) for pair in pairs for half in (places[:lanes], places[lanes:])]
    return vectors


def record(
    k: Kernel, table: Pointer, index: Number, words: int, first: int = 0, last: int | None = None
) -> list[Value]:
    """A record of a table, or some words of it."""
    return [k.load(table, index * words + i) for i in range(first, words if last is None else last)]


def lay_out(k: Kernel, how: Any, stride: int, source: Pointer | None, target: Pointer, runs: Any) -> None:
    """Runs (to, from, count, rows, apart, from_apart) of one channel: cells of the source, or zeros
    where `from` is negative; or rows of cells, so many of them. No source: ones for its cells."""
    table, first, last = runs
    with k.loop(first, last) as run:
        to, begin, count = record(k, table, run.index, RUN, 0, 3)
        with k.when(begin < 0):
            fill(k, target + to, count, how.lanes, k.number(how.cell, 0))
        place = None if source is None else source + begin
        rows = record(k, table, run.index, RUN, 3, 4)[0] if how.row[0] else None
        with k.when(begin >= 0 if rows is None else (begin >= 0) & rows.equals(0)):
            if place is None:
                fill(k, target + to, count, how.lanes, k.number(how.cell, 1))
            else:
                copy(k, place, stride, target + to, count, how.lanes if stride <= QUARTER else 0)
        if rows is not None:
            with k.when(rows > 0):
                lay_rows(k, how, stride, place, target + to, (count, rows, *record(k, table, run.index, RUN, 4)))


def lay_rows(k: Kernel, how: Any, stride: int, source: Pointer | None, target: Pointer, rows: Any) -> None:
    """Rows of `count` cells, each with the padding behind it."""
    (lanes, cells, span), (count, several, apart, from_apart) = how.row, rows
    zero, one = (k.number(how.cell, number, lanes) for number in (0, 1))
    is_cell = k.iota(lanes, I32) + (cells - lanes) < k.cast(count, I32)
    with k.loop(0, several) as row:
        for at in range(0, span, lanes):
            made = zero if at >= cells else one
            if source is not None and at < cells:
                made = k.strided(source + row.index * from_apart, at * stride, stride, lanes)
            if at + lanes == cells:
                made = k.select(is_cell, made, zero)
            k.store(made, target + row.index * apart, at)


def each_term(k: Kernel, count: Value, met: Any, sums: list[Value], made: Callable[..., list[Value]]) -> list[Value]:
    """Sums that are carried through made(term, sums) for all terms; or, of each channel's taps, for
    those from the first to the last that a tile meets: `met` are all, the first and the last."""
    taps, low, high = met or (count, 0, count)
    with k.loop(0, count, taps if met else 1, sums) as channel:
        if not met:
            channel.next = made(channel.index, channel.values)
        else:
            with k.loop(channel.index + low, channel.index + high, carried=channel.values) as term:
                term.next = made(term.index, term.values)
            channel.next = term.result
    return channel.result


def turned_sums(
    k: Kernel,
    how: Any,
    rows: list[tuple[Pointer, int]],
    terms: Any,
    sums: list[Value],
    met: Any = None,
    some: tuple[int, int] = (0, 1),
) -> list[Value]:
    """For each row, cells from (pointer, index) on, and each of how.vectors vectors of factors: the
    sum of their products, added to what it was. `terms`: where in a row cells lie, the factors, and
    how many terms there are. Of each channel's taps, `met` are all, the first and the last that a
    tile meets; of these terms, `some` are the first and the step."""
    places, factors, count = terms

    def made(term: Value, sums: list[Value]) -> list[Value]:
        place = k.load(places, term)
        found = [k.load(factors, (term * how.vectors + j) * how.lanes, how.lanes) for j in range(how.vectors)]
        new = []
        for i, (row, index) in enumerate(rows):
            one = k.splat(k.load(row + place, index), how.lanes)
            new += [fma(k, one, each, sums[i * how.vectors + j]) for j, each in enumerate(found)]
        return new

    first, step = some
    if not met:
        with k.loop(first, count, step, sums) as term:
            term.next = made(term.index, term.values)
        return term.result
    taps, low, high = met
    with k.loop(low + first, high, step, sums) as tap:
        with k.loop(tap.index, count, taps, tap.values) as term:
            term.next = made(term.index, term.values)
        tap.next = term.result
    return tap.result


def write_turned(
    k: Kernel, how: Any, source: Pointer, target: Pointer, counts: tuple[Value, Value], channel: Value, step: int = 1
) -> None:
    """Write so many channels of so many cells, rows of vectors of channels, to where channels lie
    `channel` apart and cells `step`: by squares that are transposed in registers, the last of which
    may overlap those before."""
    (channels, cells), size = counts, how.vectors * how.lanes
    side = 1 << min(how.rows, how.lanes).bit_length() - 1 if step == 1 else 1
    is_square = (channels >= side) & (cells >= side) if side > 1 else None
    if is_square is not None:
        with k.when(is_square), k.loop(0, channels, side) as down, k.loop(0, cells, side) as along:
            first, at = k.least(down.index, channels - side), k.least(along.index, cells - side)
            square = [k.load(source, (at + i) * size + first, side) for i in range(side)]
            for i, row in enumerate(transposed(k, square)):
                k.store(row, target, (first + i) * channel + at)
    with k.when(None if is_square is None else ~is_square), k.loop(0, channels) as down, k.loop(0, cells) as along:
        k.store(k.load(source, along.index * size + down.index), target, down.index * channel + along.index * step)


def emit(how: Gemm, vector: int) -> Kernel:
    """args: source, packed (weights), bias, target, tables, sizes.

    An item is (image, group, band, part of the blocks of target channels). A band says where its
    cells begin in source and target, its runs and its first job; a job, of one residue of target
    cells, its terms, where its offsets and weights begin, and its tiles; a tile, where it begins in
    the layout, its vectors, its segments, if it is one segment that fills it, where that is written
    (else -1), and the first and the last of the taps that it meets; a segment, its place in the
    tile, where it is written, its length, and whether it is a row, written by whole vectors,
    since later segments write what is beyond it.
    """
    return (_Turned if how.is_turned else _Gemm)(how, vector).kernel


class _Gemm:
    def __init__(self, how: Gemm, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("gemm", vector)
        self.source, self.weight, self.bias, self.target = (
            k.array(name, how.cell) for name in ("source", "packed", "bias", "target")
        )
        tables = "runs", "bands", "jobs", "offsets", "tiles", "segments"
        self.runs, self.bands, self.jobs, self.offsets, self.tiles, self.segments = (k.array(t, WORD) for t in tables)
        self.places = k.array("places", WORD) if how.skips else None
        sizes = "band_count groups part_count part blocks job_count channels chunk slots pitch out_channels "
        places = "source_image source_group source_channel target_image target_group target_channel"
        self.n = k.sizes(sizes + places)
        self.width = how.vectors * how.lanes
        self.tile = k.room(0 if how.is_turned else how.rows * self.width, how.cell)
        self.laid = k.room(0, how.cell)  # as much as sizes say, behind all other scratch
        with k.loop(k.begin, k.end) as item:
            self._item(item.index)
        k.finish()

    def _item(self, item: Value) -> None:
        k, n = self.kernel, self.n
        place, part = item // n.part_count, item % n.part_count
        band, place = place % n.band_count, place // n.band_count
        image, group = place // n.groups, place % n.groups
        begin, to, first, last, job = record(k, self.bands, band, BAND)
        source = self.source + (image * n.source_image + group * n.source_group + begin)
        self.target_here = self.target + (image * n.target_image + group * n.target_group + to)
        self._band(source, (self.runs, first, last), group, part, job)

    def _band(self, source: Pointer, runs: Any, group: Value, part: Value, job: Value) -> None:
        k, n = self.kernel, self.n
        end = n.channels * n.pitch  # cells behind it are read for results that are dropped
        self.kept = self.laid + (end + self.width)
        fill(k, self.laid + end, self.width, self.how.lanes, k.number(self.how.cell, 0))
        if self.how.skips:
            lay_out(k, self.how, 1, None, self.kept, runs)
            fill(k, self.kept + n.pitch, self.width, self.how.lanes, k.number(self.how.cell, 0))
        self._lay_out(source, runs, n.channels)
        with k.loop(0, n.job_count) as each:
            self._job(group, part, job + each.index)

    def _lay_out(self, source: Pointer, runs: Any, channels: Value) -> None:
        k, n = self.kernel, self.n
        with k.loop(0, channels) as channel:
            begin, to = channel.index * n.source_channel, channel.index * n.pitch
            lay_out(k, self.how, self.how.stride, source + begin, self.laid + to, runs)

    def _job(self, group: Value, part: Value, job: Value) -> None:
        k, n, rows = self.kernel, self.n, self.how.rows
        self.terms, self.first_term, weights, first, last = record(k, self.jobs, job, JOB)
        start = part * n.part
        with k.loop(start, k.least(start + n.part, n.blocks)) as block, k.loop(first, last) as tile:
            at = group * n.blocks + block.index
            self.weights = self.weight + (weights + at * self.terms * rows)
            self.added = self.bias + at * rows
            self.out = self.target_here + block.index * rows * n.target_channel
            self._tile(tile.index, k.least(n.out_channels - block.index * rows, rows))

    def _tile(self, tile: Value, rows: Value) -> None:
        k, how, n = self.kernel, self.how, self.n
        begin, vectors, first, last, whole = record(k, self.tiles, tile, TILE, 0, 5)
        self.met = (self.terms // n.channels, *record(k, self.tiles, tile, TILE, 5)) if how.cuts else None
        direct = (whole >= 0) & rows.equals(how.rows)
        target = k.select(direct, self.out + whole, self.tile)
        apart = k.select(direct, n.target_channel, self.width)
        places = self.laid + begin, self.kept + begin, self.offsets + self.first_term
        for some in range(1, how.vectors + 1):
            with k.when(vectors.equals(some)):
                for at, sums in enumerate(self._sums(*places, some)):
                    k.store(sums, target, apart * (at // some) + at % some * how.lanes)
        with k.when(~direct), k.loop(first, last) as segment:
            place, to, count, *is_early = record(k, self.segments, segment.index, SEGMENT, 0, 4 if how.row[0] else 3)
            with k.loop(0, rows) as row:
                source, out = self.tile + (row.index * self.width + place), self.out + row.index * n.target_channel + to
                self._write(source, out, count, *is_early)

    def _write(self, source: Pointer, out: Pointer, count: Value, is_early: Value | None = None) -> None:
        """Write a segment of a row."""
        k, how = self.kernel, self.how
        if is_early is not None:
            lanes, cells, _ = how.row
            with k.when(is_early > 0):
                for at in range(0, cells, lanes):
                    k.store(k.load(source, at, lanes), out, at)
        with k.when(None if is_early is None else is_early.equals(0)):
            copy(k, source, 1, out, count, how.lanes if how.apart <= QUARTER else 0, how.apart)

    def _sums(self, cells: Pointer, kept: Pointer, offsets: Pointer, vectors: int) -> list[Value]:
        """A tile's sums of all terms, row by row."""
        k, how, n = self.kernel, self.how, self.n
        added = [k.splat(k.load(self.added, i), how.lanes) for i in range(how.rows)]

        def made(term: Value, sums: list[Value]) -> list[Value]:
            source = cells + k.load(offsets, term)
            found = [k.load(source, j * how.lanes, how.lanes) for j in range(vectors)]
            if how.rows >= AHEAD:
                for j in range(vectors):
                    k.prefetch(source + n.pitch, j * how.lanes)  # the same tap of the next channel
            new = []
            for i in range(how.rows):
                weight = k.splat(k.load(self.weights, term * how.rows + i), how.lanes)
                new += [fma(k, weight, found[j], sums[i * vectors + j]) for j in range(vectors)]
            if self.places is None:
                return new
            here = kept + k.load(self.places, self.first_term + term)
            real = [k.load(here, j * how.lanes, how.lanes) > 0 for j in range(vectors)]
            return [k.select(real[at % vectors], *pair) for at, pair in enumerate(zip(new, sums, strict=True))]

        return each_term(k, self.terms, self.met, [one for one in added for _ in range(vectors)], made)


class _Turned(_Gemm):
    """Tiles of cells by vectors of target channels, for images whose rows are short: no lane lies
    in the padding between them. A tile's weights are many, so that channels are taken by chunks,
    whose weights a first-level cache holds; sums wait in slots for the next chunk."""

    def _band(self, source: Pointer, runs: Any, group: Value, part: Value, job: Value) -> None:
        k, n, how = self.kernel, self.n, self.how
        start, size = part * n.part, how.vectors * how.lanes
        first_tile = k.load(self.jobs, job * JOB + 3)
        slots = self.laid + (n.chunk * n.pitch + how.rows)
        with k.loop(0, n.channels, n.chunk) as chunk:
            count = k.least(n.chunk, n.channels - chunk.index)
            self._lay_out(source + chunk.index * n.source_channel, runs, count)
            fill(k, self.laid + count * n.pitch, k.integer(how.rows), how.lanes, k.number(how.cell, 0))
            is_first, is_last = chunk.index.equals(0), chunk.index + n.chunk >= n.channels
            with k.loop(job, job + n.job_count) as each:
                terms, first_term, weights, first, last = record(k, self.jobs, each.index, JOB)
                taps = terms // n.channels
                offsets = self.offsets + first_term
                with k.loop(start, k.least(start + n.part, n.blocks)) as block:
                    at = group * n.blocks + block.index
                    here = self.weight + (weights + (at * terms + chunk.index * taps) * size)
                    with k.loop(first, last) as tile:
                        slot = slots + ((block.index - start) * n.slots + tile.index - first_tile) * (how.rows * size)
                        begun = k.select(is_first, self.bias + at * size, slot)
                        apart = k.select(is_first, k.integer(0), k.integer(size))
                        begin = k.load(self.tiles, tile.index * TILE)
                        begins, ends = record(k, self.tiles, tile.index, TILE, 2, 4)
                        met = (taps, *record(k, self.tiles, tile.index, TILE, 5)) if how.cuts else None
                        sums = [k.load(begun, apart * i + j * how.lanes, how.lanes) for i, j in self._places()]
                        rows = [(self.laid + begin, i) for i in range(how.rows)]
                        for tap, (a, b) in enumerate(how.met or [(0, how.rows)]):
                            here_met = slice(a * how.vectors, b * how.vectors)
                            given = rows[a:b], (offsets, here, count * taps), sums[here_met], met
                            sums[here_met] = turned_sums(k, how, *given, (tap, len(how.met) or 1))
                        for (i, j), some in zip(self._places(), sums, strict=True):
                            k.store(some, slot, i * size + j * how.lanes)
                        out = self.target_here + block.index * size * n.target_channel
                        channels = k.least(n.out_channels - block.index * size, size)
                        with k.when(is_last), k.loop(begins, ends) as segment:
                            place, to, cells = record(k, self.segments, segment.index, SEGMENT, 0, 3)
                            counts = channels, cells
                            write_turned(k, how, slot + place * size, out + to, counts, n.target_channel, how.apart)

    def _places(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.how.rows) for j in range(self.how.vectors)]
