"""Plans of `emitters.weight_gradient`. If there are few wide channels, the images are split into
shares too, and the weight gradients of all shares are summed."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...memory import Array, room
from .bilinear import Plan
from .codegen.values import CELLS
from .emitters.weight_gradient import WeightGradient, emit
from .gemm import ITEMS, LAID, Blocking, arranged, grain, strides, turned, vectors
from .steps import Step, cut, step
from .taps import Layout, Row, grid_of, in_rows, runs_of

LONG = 1024  # cells of a sum: lanes are summed once for each, and lines of several channels stay in cache
CHANNEL = 24 << 10  # bytes of a channel's layout, at most, where it can be cut: a first-level cache holds it
WORTH = 256  # multiplications of a cell, at least, for which it is laid out once more,
WORTHY = 64  # and narrow channels for which wide cells are
TERMS = 12  # of a block, at most
LINES = 8  # rows of a turned block, at most: each has an address of its own
NEAR, APART = 200, 128  # cells of a band, and narrow channels of a part, at most, of turned blocks,
FINE = 128  # and terms of a part, at least, that is made for more threads,
COPIED = 16  # as many of which take as long as to transpose a narrow cell
SUMMING = 1.4  # how much longer a multiplication takes whose sums are of lanes


def blocking(channels: int, terms: int, itemsize: int) -> Blocking:
    """Rows of narrow channels by terms that take least time, each sum a vector: all registers but
    those of the rows' cells and one of a line may hold sums, and two loads take as long as a
    multiplication."""
    lanes, registers = vectors(itemsize)
    found = []
    for rows in range(1, min(channels, 4 if registers >= 32 else 3) + 1):
        most = min(TERMS, (registers - 1 - rows) // rows)
        some = -(-terms // -(-terms // most))
        blocks = -(-channels // rows) * -(-terms // some)
        found.append((blocks * (rows * some + (rows + some) / 2), Blocking(lanes, rows, some)))
    return min(found)[1]


class Gradient(NamedTuple):
    """What makes a weight's cotangent; `step` is None where no tap meets a cell."""

    shares: int
    taps: Array
    """The taps that meet a cell,"""
    every: int
    """of how many."""
    step: Step | None

    def __call__(self, wide: Array, narrow: Array, out: Array) -> None:
        matrix, is_whole = out.reshape(-1, self.every), len(self.taps) == self.every
        if self.step is not None and self.shares == 1 and is_whole:
            self.step.call(wide, narrow, out)
            return
        if not is_whole:
            matrix[...] = 0
        if self.step is not None:
            made = room((self.shares, len(matrix), len(self.taps)), out.dtype)
            self.step.call(wide, narrow, made)
            total = matrix if is_whole else room(made.shape[1:], out.dtype)
            made.sum(axis=0, out=total)
            if not is_whole:
                matrix[:, self.taps] = total


@functools.lru_cache(maxsize=256)
def gradient(p: Plan, dtype: np.dtype[Any], skips: bool, most: int = ITEMS) -> Gradient:
    """The kernel and its tables for a plan, cut into so many items, or more if there must be
    more."""
    item, grid = dtype.itemsize, grid_of(p.axes, True)
    taps = Layout(grid, 1).jobs[0].taps
    if not len(taps):
        return Gradient(0, taps, p.taps, None)
    terms = p.wide_channels * len(taps)
    time, block = turned(terms, p.narrow_channels, item, LINES)
    padded = Layout(grid.beside(p.images, 0, 0), 1).units[0] / block.lanes
    own = p.narrow_cells * (time + p.narrow_channels)
    is_turned = not skips and own < SUMMING * padded * p.narrow_channels * terms
    parts = turned_parts(p, terms, block, item, most) if is_turned else plain_parts(p, terms)
    (out_part, out_parts), (part, every), shares, widest = parts
    if not is_turned:
        block = blocking(out_part, part * len(taps), item)
    is_direct = not (is_turned or skips) and p.pointwise and p.narrow_cells >= block.lanes
    sizes = strides("wide", p.groups, p.wide_channels, p.wide_cells)
    sizes |= strides("narrow", p.groups, p.narrow_channels, p.narrow_cells)

    def fits(laid: Layout) -> bool:
        if is_turned:
            return laid.pitch * widest * item <= LAID and laid.cells <= NEAR
        return laid.pitch * item <= min(CHANNEL, LAID // widest) and laid.count * laid.units[0] <= LONG

    if is_direct:
        images, pitch, length, rows = p.images, p.wide_cells, p.narrow_cells, Row(0, 0, 0)
        tables = in_place(p, part, block)
    else:
        images, layout = arranged(p, grid, sizes, fits, LONG)
        pitch, rows = layout.pitch, layout.row(block.lanes)
        tables, length = tabled(layout, part, block, rows)
    bands = images * len(tables["bands"])
    share, shares = cut(bands, shares)
    if not skips and not is_turned:
        tables.pop("places", None)
    out_blocks, slots = -(-out_part // block.channels), -(-part * len(taps) // block.rows)
    sizes |= {"band_count": len(tables["bands"]), "image_bands": bands, "share": share, "groups": p.groups}
    sizes |= {"part_count": every, "part": part, "channels": p.wide_channels, "taps": len(taps)}
    sizes |= {"out_channels": p.narrow_channels, "out_part": out_part, "out_parts": out_parts}
    sizes |= {"pitch": pitch, "length": length, "out_blocks": out_blocks, "slots": slots}
    how = WeightGradient(CELLS[dtype.name], *block, grid.axes[-1].stride, skips, rows, is_direct)
    items = shares * p.groups * every * out_parts
    cells = 0 if is_direct else (part + 1) * pitch + 2 * block.lanes
    if is_turned:
        cells += out_blocks * block.channels * (length + slots * block.rows)
    elif not is_direct:
        cells += (block.rows + 1) * length
    reason = f"tiles of {block.rows} channels × {block.vectors} terms, lanes along cells"
    reason = f"windows of one cell: {reason}, which are read in place" if is_direct else f"few channels: {reason}"
    if is_turned:
        reason = f"tiles of {block.rows} terms × {block.vectors} vectors of channels"
    reason += f", {bands} bands, {shares}×{out_parts}×{every} parts"
    made = step(emit, how, sizes | tables, items, grain(p, items, 64), reason, cells * item)
    return Gradient(shares, taps, p.taps, made)


def in_place(p: Plan, part: int, block: Blocking) -> dict[str, Array]:
    """The tables of windows of one cell: bands of whole vectors but for the last."""
    count = -(-cut(p.narrow_cells, -(-p.narrow_cells // LONG))[0] // block.lanes) * block.lanes
    bands = [(at, 0, 0, 0, 0, min(count, p.narrow_cells - at)) for at in range(0, p.narrow_cells, count)]
    tables = {"bands": np.array(bands, np.int64), "runs": np.zeros(1, np.int64)}
    return tables | {"offsets": np.arange(part) * p.wide_cells}


class Parts(NamedTuple):
    """How work is cut."""

    narrow: tuple[int, int]
    """Narrow channels of a part, and parts of these,"""
    wide: tuple[int, int]
    """wide ones likewise."""
    shares: int
    """Into which images and bands are shared out, each with sums of its own: bits depend on them,
    and they on no number of threads."""
    widest: int
    """Wide channels of a part, at most, for any number of threads."""


def plain_parts(p: Plan, terms: int) -> Parts:
    items = 1 if p.is_small else -(-ITEMS // p.groups)
    taps = terms // p.wide_channels
    narrow = cut(p.narrow_channels, min(items, p.narrow_channels // max(WORTHY, WORTH // taps)))
    wide = cut(p.wide_channels, min(-(-items // narrow[1]), terms // WORTH))
    return Parts(narrow, wide, -(-items // (narrow[1] * wide[1])), wide[0])


def turned_parts(p: Plan, terms: int, block: Blocking, itemsize: int, most: int) -> Parts:
    """Sums of a part fit into a cache. Parts of its size or smaller are alike, shares are not: so
    there are only as many as the smallest parts leave to do. Of several cuts, the one is taken by
    which all threads end first, each of which copies the narrow cells of its parts."""
    items, every = (1, 1) if p.is_small else (-(-n // p.groups) for n in (most, ITEMS))
    channels, taps = p.narrow_channels, terms // p.wide_channels
    is_worth = taps * APART * p.narrow_cells >= WORTH * p.wide_cells
    larger = -(-channels // (APART if is_worth else 2 * APART))
    large = cut(channels, larger)[0]
    fewest = -(-terms // (LAID // (-(-large // block.channels) * block.channels * itemsize)))
    finest, smaller = max(fewest, terms // FINE), max(larger, channels // WORTHY)
    shares = -(-every // (finest * smaller))
    found = []
    for one in range(larger, max(larger, min(smaller, items)) + 1):
        for other in range(fewest, max(fewest, min(finest, items)) + 1):
            wide, (blocks, parts) = cut(p.wide_channels, other), cut(-(-channels // block.channels), one)
            narrow, count = (min(blocks * block.channels, channels), parts), wide[1] * parts
            time = -(-count * shares // items) * (wide[0] * taps + COPIED) * blocks
            found.append((time, count, Parts(narrow, wide, shares, cut(p.wide_channels, fewest)[0])))
    return min(found)[2]


def tabled(layout: Layout, part: int, block: Blocking, rows: Row) -> tuple[dict[str, Array], int]:
    """The tables of a layout, of which bands that are alike share theirs; and the length of a line
    of narrow cells. `places` are those of taps or, where cells are transposed, of these."""
    (job,) = layout.jobs
    every = layout.targets(job, 0, layout.count)[0]
    length = -(-(int(every[-1]) + 1) // block.lanes) * block.lanes
    length += block.lanes * (length % 512 == 0)  # neighbouring lines should not share few places of a cache
    length = len(every) if block.is_turned else length
    runs: list[Any] = []

    def of_band(start: int, count: int) -> tuple[int, ...]:
        """Where its runs begin, those of narrow cells begin, and all end; and its narrow cells."""
        places, cells = layout.targets(job, start, count)
        narrow = cells if block.is_turned else np.full(length, -1, np.int64)
        if not block.is_turned:
            narrow[places] = cells
        ends = [len(runs)]
        runs.extend(in_rows(layout.runs(start, count), rows, layout.grid.axes[-1].stride))
        ends.append(len(runs))
        runs.extend(in_rows(runs_of(narrow, layout.grid.target[-1]), Row(0, 0, 0) if block.is_turned else rows))
        return *ends, len(runs), len(cells)

    bands = layout.bands(of_band)
    tables = {"bands": np.array(bands, np.int64), "runs": np.array(runs, np.int64)}
    tables["offsets"] = np.add.outer(np.arange(part) * layout.pitch, job.places).reshape(-1)
    return tables | {"places": every if block.is_turned else np.tile(job.places, part)}, length
