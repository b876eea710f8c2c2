"""Plans of `emitters.gemm`: register tiles, and how the work is split into bands and items.

The number of items depends on the number of threads. The bits of the result do not: the terms of a
result are always added in the same order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...memory import Array, room
from .bilinear import Plan
from .codegen.object_code import host
from .codegen.values import CELLS
from .emitters.gemm import JOB, Gemm, Packing, emit, emit_packing
from .steps import Step, cut, step
from .taps import Grid, Layout, Row, grid_of, in_rows, tiles_of

FORMATS = {"x86-64-v4": (64, 32), "x86-64-v3": (32, 16), "x86-64": (16, 16)}
"""Bytes of a vector, and how many registers hold one; elsewhere 16 and 32."""

WIDEST, ROWS = 8, 14  # vectors of a tile, and rows of a turned one, at most
LAID = 7 << 16  # bytes of a band's layout, at most, where it can be cut: a second-level cache holds it
TOGETHER, FEWER = 512, 32  # terms that are packed together, whose weights lie side by side or apart
FEW = 512  # targets of a band, at least, where images are small
NEAR = 16 << 10  # bytes of a turned tile's weights: a first-level cache holds them
BETWEEN, WRITING, WAITING = 2, 2, 4  # multiplications that a term of a turned tile, writing a result of it,
# and keeping a vector of sums for the next chunk take
MET = 0.96  # of all taps, at most, that tiles, or rows of a tile, meet, for which others are skipped
ITEMS, TASKS = 16, 64  # into how many items large work is cut, at least, and how many tasks take them, at most


class Blocking(NamedTuple):
    """A tile of the results: rows of vectors. Rows are target channels, and lanes run along cells;
    or, if it is turned, along target channels."""

    lanes: int
    rows: int
    vectors: int
    is_turned: bool = False

    @property
    def channels(self) -> int:
        """Target channels of it."""
        return self.vectors * self.lanes if self.is_turned else self.rows

    @property
    def cells(self) -> int:
        """Target cells of a channel."""
        return self.rows if self.is_turned else self.vectors * self.lanes


def vectors(itemsize: int) -> tuple[int, int]:
    """Lanes of a vector on this machine, and how many registers hold one."""
    size, registers = FORMATS.get(host().cpu, (16, 32))
    return size // itemsize, registers


def blocking(channels: int, itemsize: int) -> Blocking:
    """All registers but those of a row of sources and one weight hold sums."""
    lanes, registers = vectors(itemsize)
    most = 8 if registers >= 32 else 4
    rows = -(-channels // -(-channels // most))
    return Blocking(lanes, rows, min(WIDEST, (registers - 1) // (rows + 1)))


def turned(
    count: int, channels: int, itemsize: int, most: int = ROWS, beside: int = 1, items: int = 1
) -> tuple[int, Blocking]:
    """The time of a term of so many results of each channel, in multiplications of vectors, and the
    turned tile, of `most` rows, by which it ends first: blocks of channels, of so many images and
    groups beside, are shared out to so many items."""
    lanes, registers = vectors(itemsize)
    found = []
    for some in (2, 3, 4):
        rows = -(-count // -(-count // min(most, (registers - 1) // some - 1)))
        blocks = -(-channels // (some * lanes))
        block = -(-count // rows) * (rows * some + BETWEEN)
        found.append((-(-blocks * beside // items) * block, blocks * block, Blocking(lanes, rows, some, True)))
    return min(found)[1:]


def taps_of(grid: Grid) -> int:
    """Taps of a target, at most, and one at least."""
    return max(1, *(len(job.taps) for job in Layout(grid, 1).jobs))


def met_of(grid: Grid, rows: int) -> tuple[tuple[int, int], ...]:
    """Of each tap along the last axis, the rows of a turned tile that meet a cell; none where tiles
    are no lines, or where there are few others."""
    axis = grid.axes[-1]
    if len(axis.residues) != 1 or axis.count != rows:
        return ()
    found = []
    for _, offset in axis.residues[0].taps:
        first, end = max(0, -(offset // axis.stride)), -((offset - axis.size) // axis.stride)
        found.append((first, min(end, rows)))
    return tuple(found) if share(found, rows) <= MET else ()


def share(met: Sequence[tuple[int, int]], rows: int) -> float:
    """How many of all rows taps meet."""
    return sum(end - first for first, end in met) / (len(met) * rows) if met else 1


def chosen(grid: Grid, channels: int, outs: int, p: Plan, itemsize: int, items: int) -> Blocking:
    """The tile that takes least time: lanes that lie in padding between rows and images count
    against the one, how its results are written against the turned one."""
    width, plain, images = grid.axes[-1].count, blocking(outs, itemsize), p.images
    time, tile = turned(width, outs, itemsize, beside=images * p.groups, items=items)
    taps = [len(job.taps) for job in Layout(grid, 1).jobs]
    lines, terms = math.prod(axis.count for axis in grid.axes[:-1]), channels * max(1, sum(taps)) / len(taps)
    chunks = -(-channels * max(taps) * tile.channels * itemsize // NEAR)
    one = Layout(grid.beside(images, 0, 0), 1)
    together = max(1, min(images, LAID // (one.pitch * channels * itemsize)))
    padded = -(-one.units[0] * together // plain.lanes) / together * plain.rows * -(-outs // plain.rows)
    between = (WRITING + WAITING / tile.lanes * chunks) * width * outs / terms
    return tile if lines * (time * share(met_of(grid, tile.rows), tile.rows) + between) < padded else plain


class Product(NamedTuple):
    """What makes targets of sources: weights are packed, then all items run."""

    packing: Step | None
    packed: int
    target: tuple[int, int, int]
    """Groups, channels of each and cells of a channel."""
    rows: int
    """Channels of a group, rounded up to whole blocks."""
    step: Step | None
    """None where no tap meets a cell."""
    fills: bool
    """Whether some targets have no taps, and are but the bias."""

    def __call__(self, source: Array, weight: Array, bias: Array | None, target: Array) -> None:
        groups, channels, cells = self.target
        if self.fills:
            target.reshape(-1, groups * channels, cells)[...] = 0 if bias is None else bias.reshape(-1, 1)
        if self.step is None or self.packing is None:
            return
        packed, added = room((self.packed,), source.dtype), np.zeros((groups, self.rows), source.dtype)
        if bias is not None:
            added[:, :channels] = bias.reshape(groups, channels)
        self.packing.call(weight, packed)
        self.step.call(source, packed, added, target)


@functools.lru_cache(maxsize=256)
def product(p: Plan, forward: bool, dtype: np.dtype[Any], skips: bool, most: int = ITEMS) -> Product:
    """Narrow cells made of wide ones (forward), or wide cells of narrow ones; cut into so many
    items, or more if there must be more."""
    cell, item = CELLS[dtype.name], dtype.itemsize
    channels, outs = (p.wide_channels, p.narrow_channels)[:: 1 if forward else -1]
    cells, out_cells = (p.wide_cells, p.narrow_cells)[:: 1 if forward else -1]
    target, grid = (p.groups, outs, out_cells), grid_of(p.axes, forward)
    made = math.prod(sum(residue.length for residue in axis.residues) for axis in grid.axes)
    if not made:
        return Product(None, 0, target, 0, None, True)
    items = 1 if p.is_small else most
    tile = blocking(outs, item) if skips else chosen(grid, channels, outs, p, item, items)
    blocks = -(-outs // tile.channels)
    bands = -(-items // (p.groups * blocks))  # of all images, at least
    sizes = strides("source", p.groups, channels, cells) | strides("target", *target)
    chunk = min(channels, -(-NEAR // (tile.channels * taps_of(grid) * item))) if tile.is_turned else channels
    fits = lambda laid: laid.pitch * chunk * item <= LAID  # noqa: E731
    few, lanes = (FEW // 2, 1) if tile.is_turned else (FEW, tile.lanes)
    images, layout = arranged(p, grid, sizes, fits, few, lanes, bands)
    width = tile.cells if layout.is_dense and not skips and not tile.is_turned else 0
    taps = len(layout.jobs[0].taps)
    pitch, cells = (taps * width, taps * layout.padded(width)) if width else (layout.pitch, layout.pitch)
    rows = Row(0, 0, 0) if width else layout.row(tile.lanes)
    tables, begins = tabled(layout, channels, tile, p.groups * blocks, width, rows)
    packing = packed(p, forward, (cell, tile), layout, begins, most)
    jobs, tiles = tables["jobs"], tables["tiles"]
    met, every_tap = (tiles[:, 6] - tiles[:, 5]).sum(), (jobs[:, 0] // channels * (jobs[:, 4] - jobs[:, 3])).sum()
    ends = jobs.reshape(-1, len(layout.jobs), JOB)
    slots = int((ends[:, -1, 4] - ends[:, 0, 3]).max()) if tile.is_turned else 0
    around, held = images * p.groups * len(tables["bands"]), slots * tile.rows * tile.channels * item
    part, parts = cut(blocks, max(-(-items // around), -(-blocks * held // LAID)))
    last = grid.axes[-1]
    if not skips:
        del tables["places"]
    sizes |= {"band_count": len(tables["bands"]), "groups": p.groups, "part": part, "part_count": parts}
    sizes |= {"blocks": blocks, "job_count": len(layout.jobs), "channels": channels, "out_channels": outs}
    sizes |= {"chunk": chunk, "slots": slots, "pitch": pitch}
    scratch = (cells * (chunk + skips) + tile.cells * (1 + skips)) * item + part * held
    cuts = bool(met < MET * every_tap)
    row_met = met_of(grid, tile.rows) if tile.is_turned else ()
    how = Gemm(cell, *tile[:3], last.stride, last.residues[0].step, skips, tile.is_turned, rows, cuts, row_met)
    reason = f"tiles of {tile.rows} channels × {tile.vectors} vectors of cells"
    if tile.is_turned:
        reason = f"short rows: tiles of {tile.rows} cells × {tile.vectors} vectors of channels"
    reason += f", {len(tables['bands'])} bands"
    tasks = grain(p, around * parts, max(TASKS, 2 * most))
    final = step(emit, how, sizes | tables, around * parts, tasks, reason, scratch)
    return Product(packing, begins[-1], target, blocks * tile.channels, final, made < out_cells)


def packed(p: Plan, forward: bool, kind: tuple[Any, Blocking], layout: Layout, begins: list[int], most: int) -> Step:
    """What packs all weights, by so many tasks, which are read in the order in which they lie:
    pieces of the same channels one after another or, backward, the same terms of one block of
    channels after another."""
    cell, tile = kind
    channels, outs = (p.wide_channels, p.narrow_channels)[:: 1 if forward else -1]
    row, column = (p.columns, p.taps)[:: 1 if forward else -1]
    found = []
    for job, begin in zip(layout.jobs, begins, strict=False):
        places = np.add.outer(np.arange(channels) * column, job.taps).reshape(-1)
        to = begin + np.arange(len(places)) * tile.channels
        found.append(np.stack([places, to, np.full(len(places), len(places) * tile.channels)], axis=1))
    terms = np.concatenate(found)
    terms = np.ascontiguousarray(terms[np.argsort(terms[:, 0])])
    taps = max(1, len(terms) // channels)
    near = cut(len(terms), -(-len(terms) // TOGETHER))[0] if forward else max(1, FEWER // taps) * taps
    run, shortest = beside(terms[:, 0], near)
    blocks, pieces = -(-outs // tile.channels), max(1, -(-len(terms) // near))
    items = p.groups * blocks * pieces
    sizes: dict[str, Any] = {"blocks": blocks, "channels": outs, "channel": row, "count": len(terms), "terms": terms}
    sizes |= {"group": p.narrow_channels * p.columns, "near": near, "pieces": pieces, "run": run}
    sizes |= {"next_block": pieces if forward else 1, "next_piece": 1 if forward else blocks}
    side = math.gcd(tile.channels, 1 << min(shortest, tile.lanes).bit_length() - 1)
    how = Packing(cell, tile.channels, side, row == 1)
    reason = "weights of a block term by term"
    return step(emit_packing, how, sizes, items, grain(p, items, max(ITEMS, most)), reason)


def beside(places: Array, near: int) -> tuple[int, int]:
    """The length of runs of places side by side, of which pieces of `near` are made up, and that of
    the shortest; 1 where they are not alike."""
    runs = np.diff(np.flatnonzero(np.diff(places, prepend=-2, append=-2) != 1))
    if len(runs) == 1:
        return near, len(places) % near or near
    is_alike = len(runs) > 0 and (runs == runs[0]).all() and near % runs[0] == 0
    return (int(runs[0]), int(runs[0])) if is_alike else (1, 1)


def strides(name: str, groups: int, channels: int, cells: int) -> dict[str, Any]:
    """How far apart the images, groups and channels of an array lie."""
    every = groups * channels * cells
    return {f"{name}_image": every, f"{name}_group": channels * cells, f"{name}_channel": cells}


def grain(p: Plan, items: int, tasks: int) -> int:
    """How many items a task takes."""
    return items if p.is_small else -(-items // tasks)


def arranged(
    p: Plan,
    grid: Grid,
    sizes: dict[str, Any],
    fits: Callable[[Layout], bool],
    few: int,
    lanes: int = 1,
    bands: int = 1,
) -> tuple[int, Layout]:
    """How many images items tell apart, and the layout, which should fit, in so many bands:
    several images together where these have few targets, else bands of one, which fill vectors of
    so many lanes."""
    image = [sizes[name] for name in sizes if name.endswith("_image")]
    whole = grid.beside(p.images, *image)
    if bands <= p.images and fits(one := Layout(whole, 1)):
        return 1, largest(whole, max(1, min(p.images // bands, -(-few // one.units[0]))), fits, lanes)
    is_cut = lambda laid: fits(laid) and laid.is_cut(-(-bands // p.images))  # noqa: E731
    return p.images, largest(grid, grid.axes[0].count, is_cut, lanes)


def largest(grid: Grid, most: int, fits: Callable[[Layout], bool], lanes: int) -> Layout:
    """The layout that fits of most targets along the first axis, in bands that are alike, or that
    take fewer vectors."""
    least = 1
    while least < most:
        some = (least + most + 1) // 2
        least, most = (some, most) if fits(Layout(grid, some)) else (least, some - 1)
    count, unit = grid.axes[0].count, Layout(grid, 1).units[0]
    alike, bands = cut(count, -(-count // least))

    def taken(some: int) -> int:
        return (bands - 1) * -(-some * unit // lanes) + -(-(count - (bands - 1) * some) * unit // lanes)

    larger = range(alike + 1, min(least, (count - 1) // max(1, bands - 1)) + 1)
    return Layout(grid, min([alike, *larger], key=taken))


def tabled(
    layout: Layout, channels: int, tile: Blocking, blocks: int, width: int, rows: Row
) -> tuple[dict[str, Array], list[int]]:
    """All tables of a layout, of which bands that are alike share theirs; and where the packed
    weights of each job begin, and all end. `width`: of panels, or 0."""
    stride = layout.grid.axes[-1].stride
    made: dict[str, list[Any]] = {name: [] for name in ("jobs", "runs", "tiles", "segments")}
    terms, weights = [0], [0]
    for job in layout.jobs:
        terms.append(terms[-1] + channels * len(job.taps))
        weights.append(blocks * tile.channels * terms[-1])

    def of_band(start: int, count: int) -> tuple[int, ...]:
        """Where its runs begin and end, and its jobs begin."""
        at, first_job, runs = len(made["runs"]), len(made["jobs"]), layout.runs(start, count, width)
        if width:
            lane, place = np.divmod(runs[:, 0], layout.padded(width))
            runs[:, 0] = place // width * width * terms[-1] + lane * width + place % width
        made["runs"] += in_rows(runs, rows, stride)
        for number, job in enumerate(layout.jobs):
            step = job.residues[-1].step * layout.grid.target[-1]
            targets = layout.targets(job, start, count)
            lanes, some = (1, tile.rows) if tile.is_turned else (tile.lanes, tile.vectors)
            met = layout.met(job, start, count)
            tiles, segments = tiles_of(targets, met, step, lanes, some, rows)
            begin, far = len(made["tiles"]), len(made["segments"])
            made["tiles"] += [
                (q * terms[-1] if width else q, some, a + far, b + far, *rest) for q, some, a, b, *rest in tiles
            ]
            made["segments"] += segments
            of = channels * len(job.taps), terms[number], weights[number], begin, begin + len(tiles)
            made["jobs"].append(of)
        return at, len(made["runs"]), first_job

    made["bands"] = layout.bands(of_band)
    tables = {name: np.array(table, np.int64) for name, table in made.items()}
    apart = np.arange(channels) * layout.pitch
    offsets = [np.add.outer(apart, job.places).reshape(-1) for job in layout.jobs]
    tables["offsets"] = np.arange(terms[-1]) * width if width else np.concatenate(offsets)
    tables["places"] = np.concatenate([np.tile(job.places, channels) for job in layout.jobs])
    return tables, weights
