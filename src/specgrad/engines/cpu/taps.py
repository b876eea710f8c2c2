"""The source cells that each target cell of a convolution reads, axis by axis, and a memory layout
of the source in which a tap is a constant offset.

Forward, narrow cell j of an axis reads wide cells j·stride + offset. Backward, the wide cells of
one residue, first + j·stride, read narrow cells j + offset of the taps that meet them. In both
cases, targets first + j·step read sources j·stride + offset.

Source cells of one residue modulo the stride are contiguous, and so are the lines of the last axis.
The padding after a line is also the padding before the next line. So target j is at Σ j·unit, and a
tap is a constant offset from it.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...caches import cached_property
from ...geometry import Integers, Sliding, strides

ROW = 8  # vectors of a row that is laid out together with others, at most


class Row(NamedTuple):
    """How rows are laid out together: by vectors of how many lanes, up to how many cells are read,
    and, with the padding behind a row, are written."""

    lanes: int
    cells: int
    span: int

    def fits(self, count: int) -> bool:
        """Whether a row of so many cells ends in the last vector that is read."""
        return self.cells - self.lanes < count <= self.cells


class Residue(NamedTuple):
    """Targets first + j·step, j < length, and where each of their taps reads for j = 0."""

    first: int
    step: int
    length: int
    taps: tuple[tuple[int, int], ...]
    """(tap, offset)"""


@dataclass(frozen=True)
class TapAxis:
    """An axis of sources and targets."""

    size: int
    stride: int
    residues: tuple[Residue, ...]

    @cached_property
    def base(self) -> int:
        """The least source cell that is read for j = 0."""
        return min((offset for r in self.residues for _, offset in r.taps), default=0)

    @cached_property
    def lanes(self) -> tuple[int, ...]:
        """The residues of source cells, from `base` on, that are read."""
        return tuple(sorted({(o - self.base) % self.stride for r in self.residues for _, o in r.taps} or {0}))

    @property
    def count(self) -> int:
        """Targets of the residue that has most."""
        return max((r.length for r in self.residues), default=0)

    def place(self, offset: int) -> tuple[int, int]:
        """Among which lane's cells a tap reads, and how far on."""
        beyond, lane = divmod(offset - self.base, self.stride)
        return self.lanes.index(lane), beyond

    def extent(self, count: int) -> int:
        """Cells of a lane that `count` targets read."""
        reach = max((self.place(offset)[1] for r in self.residues for _, offset in r.taps), default=0)
        return count + reach

    def pitch(self) -> int:
        """How far apart lines lie: no real cell lies in the padding of another line, and no two
        targets at one place."""
        extent, lead, behind = self.extent(self.count), [], []
        for lane in self.lanes:
            lead.append(min(extent, max(0, -((self.base + lane) // self.stride))))
            behind.append(min(extent, -((self.base + lane - self.size) // self.stride)))
        return max(self.count, *behind, extent - min(lead))


def forward_axis(axis: Sliding, length: int) -> TapAxis:
    """Narrow cells read wide ones."""
    taps = [(tap, tap * axis.dilation - axis.before) for tap in range(axis.kernel)]
    return TapAxis(axis.size, axis.stride, (Residue(0, 1, length, met(taps, axis.size, axis.stride, length)),))


def backward_axis(axis: Sliding, length: int) -> TapAxis:
    """Wide cells read the narrow ones that read them; residues that none reads are left out."""
    by: dict[int, list[tuple[int, int]]] = {}
    for tap in range(axis.kernel):
        first = (tap * axis.dilation - axis.before) % axis.stride
        by.setdefault(first, []).append((tap, (first + axis.before - tap * axis.dilation) // axis.stride))
    residues = []
    for first, taps in sorted(by.items()):
        count = -(-(axis.size - first) // axis.stride)
        residues.append(Residue(first, axis.stride, count, met(taps, length, 1, count)))
    return TapAxis(length, 1, tuple(r for r in residues if r.taps))


def met(taps: list[tuple[int, int]], size: int, stride: int, count: int) -> tuple[tuple[int, int], ...]:
    """The taps that read a cell for some target."""
    first = [max(0, -(offset // stride)) for _, offset in taps]
    return tuple(tap for tap, j in zip(taps, first, strict=True) if j < count and j * stride + tap[1] < size)


def plain_axis(size: int) -> TapAxis:
    """Each target reads its own source."""
    return TapAxis(size, 1, (Residue(0, 1, size, ((0, 0),)),))


class Grid(NamedTuple):
    """Axes, with how far apart their cells lie in source and target, and their taps in a weight."""

    axes: tuple[TapAxis, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    kernel: tuple[int, ...]

    def beside(self, count: int, source: int, target: int) -> Grid:
        """Many of them along one more axis, before all others."""
        return Grid((plain_axis(count), *self.axes), (source, *self.source), (target, *self.target), (0, *self.kernel))


def grid_of(axes: tuple[tuple[Sliding, int], ...], forward: bool) -> Grid:
    """The axes of a convolution; those along which each target reads its own source alone, one
    after another, are one."""
    made: list[tuple[TapAxis, int, int, int]] = []
    for axis, length in axes or ((Sliding(1, 1), 1),):
        one = forward_axis(axis, length) if forward else backward_axis(axis, length)
        sizes = (axis.size, length) if forward else (length, axis.size)
        if made and one == plain_axis(one.size) and made[-1][0] == plain_axis(made[-1][1]):
            _, before, _, taps_before = made.pop()
            count = before * one.size
            made.append((plain_axis(count), count, count, taps_before * axis.kernel))  # other taps meet no cell
        else:
            made.append((one, *sizes, axis.kernel))
    taps, source, target, kernel = zip(*made, strict=True)
    return Grid(taps, strides(source), strides(target), strides(kernel))


class Job(NamedTuple):
    """A residue of target cells on every axis: taps of the weight, their lanes' numbers and
    distances, and targets."""

    residues: tuple[Residue, ...]
    taps: Integers
    places: Integers


@dataclass(frozen=True)
class Layout:
    """The layout of bands of `count` targets along the first axis."""

    grid: Grid
    count: int

    @cached_property
    def units(self) -> tuple[int, ...]:
        """How far apart neighbouring targets lie in the layout, axis by axis."""
        return strides((1, *(axis.pitch() for axis in self.grid.axes[1:])))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        first, *rest = self.grid.axes
        return (first.extent(self.count), *(axis.extent(axis.count) for axis in rest))

    @cached_property
    def block(self) -> int:
        """Cells of one combination of lanes."""
        return sum((e - 1) * unit for e, unit in zip(self.extents, self.units, strict=True)) + 1

    @cached_property
    def lanes(self) -> tuple[int, ...]:
        return strides(tuple(len(axis.lanes) for axis in self.grid.axes))

    @cached_property
    def pitch(self) -> int:
        """Cells of a channel: no multiple of a page, whose cells would share few places of a
        cache."""
        cells = math.prod(len(axis.lanes) for axis in self.grid.axes) * self.block
        return cells + 16 * (cells % 512 == 0)

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        made = []
        for residues in itertools.product(*(axis.residues for axis in self.grid.axes)):
            taps, places = [], []
            for each in itertools.product(*(r.taps for r in residues)):
                taps.append(sum(tap * by for (tap, _), by in zip(each, self.grid.kernel, strict=True)))
                found = [axis.place(offset) for axis, (_, offset) in zip(self.grid.axes, each, strict=True)]
                lane = sum(lane * by for (lane, _), by in zip(found, self.lanes, strict=True))
                far = sum(beyond * unit for (_, beyond), unit in zip(found, self.units, strict=True))
                places.append(lane * self.block + far)
            made.append(Job(residues, np.array(taps, np.int64), np.array(places, np.int64)))
        return tuple(made)

    def row(self, lanes: int) -> Row:
        """How rows are laid out; none where they are long, or where there is but one."""
        axis, (pitch, *_) = self.grid.axes[-1], (*self.units[-2:-1], lanes * ROW + 1)
        some = min(lanes, 1 << (pitch - 1).bit_length())
        sources = [np.arange(self.extents[-1]) * axis.stride + axis.base + lane for lane in axis.lanes]
        cells = max(int(((place >= 0) & (place < axis.size)).sum()) for place in sources)
        found = Row(some, -(-cells // some) * some, -(-pitch // some) * some)
        return found if some > 1 and cells and found.span * axis.stride <= ROW * lanes else Row(0, 0, 0)

    def is_cut(self, bands: int) -> bool:
        """Whether there are so many bands, or as many as can be."""
        return self.count == 1 or -(-self.grid.axes[0].count // self.count) >= bands

    @property
    def cells(self) -> int:
        """Targets of a band, of the residue that has most."""
        return self.count * math.prod(axis.count for axis in self.grid.axes[1:])

    @cached_property
    def is_dense(self) -> bool:
        """Whether targets lie end to end, and no two of their taps read the same cells."""
        if len(self.jobs) > 1 or self.block > self.cells:
            return False
        places = self.jobs[0].places
        return len(places) > 0 and np.array_equal(places, np.arange(len(places)) * self.block)

    def padded(self, width: int) -> int:
        """Cells of a block, rounded up to whole panels of this width."""
        return -(-self.block // width) * width

    def runs(self, start: int, count: int, width: int = 0) -> Integers:
        """(to, from, cells) of a band of `count` targets from `start` on: cells that lie in one
        line, or zeros (from: -1); from the source cell on that `start` alone would read. `width`:
        runs end where so many cells do, and zeros fill the last."""
        count_lanes = math.prod(len(axis.lanes) for axis in self.grid.axes)
        cells = np.full((count_lanes, self.padded(width or 1)), -1, np.int64)
        first = self.grid.axes[0]
        for at, lanes in enumerate(itertools.product(*(axis.lanes for axis in self.grid.axes))):
            froms = tos = np.zeros(1, np.int64)
            for a, (axis, lane) in enumerate(zip(self.grid.axes, lanes, strict=True)):
                begin = start if a == 0 else 0
                beyond = np.arange(first.extent(count) if a == 0 else self.extents[a])
                source = (begin + beyond) * axis.stride + axis.base + lane
                real = (source >= 0) & (source < axis.size)
                source, beyond = source[real] - begin * axis.stride, beyond[real]
                froms = np.add.outer(froms, source * self.grid.source[a]).reshape(-1)
                tos = np.add.outer(tos, beyond * self.units[a]).reshape(-1)
            cells[at, tos] = froms + self.zero
        return runs_of(cells.reshape(-1), self.grid.axes[-1].stride * self.grid.source[-1], width)

    def bands(self, made: Callable[[int, int], tuple[int, ...]]) -> list[tuple[int, ...]]:
        """A record of each band: where it begins in source and target, and what `made` makes of its
        first target and of how many it has. Bands that are alike share the latter."""
        first, grid = self.grid.axes[0], self.grid
        found, known = [], dict[Any, tuple[int, ...]]()
        for start in range(0, first.count, self.count):
            count = min(self.count, first.count - start)
            begin, reach = start * first.stride + first.base, first.extent(count) * first.stride
            counts = tuple(min(count, residue.length - start) for residue in first.residues)
            source = start * first.stride * grid.source[0] - self.zero
            target = start * max(r.step for r in first.residues) * grid.target[0]
            key = counts, max(0, -begin), min(reach, first.size - begin)
            if key not in known:
                known[key] = made(start, count)
            found.append((source, target, *known[key]))
        return found

    @property
    def zero(self) -> int:
        """Added to sources that may lie before those of a band's first target, so that none is
        negative."""
        return max(0, -self.grid.axes[0].base) * self.grid.source[0]

    def targets(self, job: Job, start: int, count: int) -> tuple[Integers, Integers]:
        """Where the targets of a job lie in the layout of a band, and in the target, from that of
        `start` on; in the layout's order."""
        places = cells = np.zeros(1, np.int64)
        for a, residue in enumerate(job.residues):
            j = np.arange(min(count, residue.length - start) if a == 0 else residue.length)
            places = np.add.outer(places, j * self.units[a]).reshape(-1)
            cells = np.add.outer(cells, (residue.first + j * residue.step) * self.grid.target[a]).reshape(-1)
        return places, cells

    def met(self, job: Job, start: int, count: int) -> tuple[Integers, Integers]:
        """Of the taps of a job, for each of its targets, in the layout's order: which are the first
        and the last that meet a cell, as far as all axes but the last say."""
        real, several = np.ones((1, 1), np.bool_), len(job.residues[-1].taps)
        for a, (axis, residue) in enumerate(zip(self.grid.axes[:-1], job.residues[:-1], strict=True)):
            first, end = (start, min(start + count, residue.length)) if a == 0 else (0, residue.length)
            place = np.arange(first, end)[:, None] * axis.stride + [offset for _, offset in residue.taps]
            real = np.kron(real, (place >= 0) & (place < axis.size))
        found = np.where(real, np.arange(1, real.shape[1] + 1), 0)
        high = found.max(axis=1, initial=0)
        low = np.where(high, real.argmax(axis=1) if real.size else 0, 0)
        last = job.residues[-1].length
        length = last if len(job.residues) > 1 else min(count, last - start)
        return np.repeat(low, length) * several, np.repeat(high, length) * several


def runs_of(cells: Integers, step: int, width: int = 0) -> Integers:
    """(to, from, count) of cells, of which neighbours are `step` apart, and of runs of -1."""
    are, were = cells[1:] >= 0, cells[:-1] >= 0
    is_end = (are | were) & ~(are & were & (np.diff(cells) == step))
    is_end[width - 1 :: width or len(cells)] |= width > 0
    ends = np.flatnonzero(is_end) + 1
    begins = np.concatenate([[0], ends])
    return np.stack([begins, cells[begins], np.diff(np.append(begins, len(cells)))], axis=1)


def in_rows(runs: Integers, row: Row, stride: int = 1) -> list[tuple[int, ...]]:
    """(to, from, count, rows, apart, from_apart) of runs: rows of cells that lie alike, and the
    padding between them, are one run, except for the last of them. What is read and written beyond
    such a row must be cells of later ones."""
    if not row.lanes:
        return [(*run, 0, -1, -1) for run in runs.tolist()]
    made: list[tuple[int, ...]] = []
    todo, at = runs.tolist(), 0
    while at < len(todo):
        (to, begin, count), places = todo[at], [at]
        apart = from_apart = 0
        while begin >= 0 and row.fits(count) and (following := _next_row(todo, places[-1], count)):
            step, far = todo[following][0] - todo[places[-1]][0], todo[following][1] - todo[places[-1]][1]
            apart, from_apart = apart or step, from_apart or far
            if (step, far) != (apart, from_apart) or apart > row.span or far <= 0:
                break
            places.append(following)
        rest = 0
        while rest < len(places) > 1 and not (
            rest * apart + count >= row.span and rest * from_apart + (count - 1) * stride + 1 >= row.cells * stride
        ):
            rest += 1
        rows = len(places) - rest
        made.append((to, begin, count, *((rows, apart, from_apart) if rows > 1 else (0, -1, -1))))
        at = at + 1 if rows < 2 else places[rows] if rest else places[-1] + 1
    return made


def _next_row(runs: list[Any], at: int, count: int) -> int:
    """The next run of so many cells, behind zeros at most; or 0."""
    following = at + 1 + (at + 1 < len(runs) and runs[at + 1][1] < 0)
    return following if following < len(runs) and runs[following][1] >= 0 and runs[following][2] == count else 0


def tiles_of(
    targets: tuple[Integers, Integers],
    met: tuple[Integers, Integers],
    step: int,
    lanes: int,
    vectors: int,
    row: Row,
) -> tuple[list[Any], list[Any]]:
    """Tiles (begin, vectors, first segment, last, cell if it is one full segment, first tap that is
    met, last) and segments (place, cell, count, whether it is a row, and later ones write what is
    beyond it up to row.cells) of targets."""
    places, cells = targets
    breaks = (np.flatnonzero((np.diff(places) != 1) | (np.diff(cells) != step)) + 1).tolist()
    early = np.zeros(len(cells), np.bool_)  # targets from which on row.cells of them lie side by side
    if step == 1 and 0 < row.cells <= len(cells):
        early[: len(cells) - row.cells + 1] = cells[row.cells - 1 :] - cells[: len(cells) - row.cells + 1] < row.cells
    tiles: list[Any] = []
    segments: list[Any] = []
    known, at, cut = places.tolist(), 0, 0
    begins: list[int] = []
    while at < len(known):
        begin = known[at]
        begins.append(at)
        end = bisect.bisect_left(known, begin + lanes * vectors)
        some = -(-(known[end - 1] + 1 - begin) // lanes)
        before, cut = cut, bisect.bisect_left(breaks, end)
        cuts = [at, *(one for one in breaks[before:cut] if one > at), end]
        first = len(segments)
        for a, b in itertools.pairwise(cuts):
            is_early = row.fits(b - a) and a + row.cells <= end and early[a]
            segments.append((known[a] - begin, int(cells[a]), b - a, int(is_early)))
        whole = step == 1 and len(cuts) == 2 and end - at == some * lanes
        tiles.append((begin, some, first, len(segments), int(cells[at]) if whole else -1))
        at = end
    if not begins:
        return [], []
    low, high = (find.reduceat(taps, begins).tolist() for find, taps in zip((np.minimum, np.maximum), met, strict=True))
    return [(*tile, *taps) for tile, *taps in zip(tiles, low, high, strict=True)], segments
