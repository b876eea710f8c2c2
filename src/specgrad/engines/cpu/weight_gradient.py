"""Plans of `emitters.weight_gradient`. Where wide channels are few, images are shared out too, and
the weights of all shares are summed."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...memory import room
from .bilinear import Plan
from .codegen.builder import CELLS
from .codegen.thread_pool import Call, address
from .emitters.weight_gradient import WeightGradient, emit
from .gemm import ITEMS, LAID, arranged, cut, grain, strides, vectors
from .steps import Step, compiled
from .taps import Layout, grid_of, runs_of

Array = npt.NDArray[Any]

LONG = 1024  # cells of a sum: lanes are summed once for each, and lines of several channels stay in cache
WORTH = 256  # multiplications of a cell, at least, for which it is laid out once more,
WORTHY = 64  # and narrow channels for which wide cells are
TERMS = 12  # of a block, at most


def blocking(channels: int, terms: int, itemsize: int) -> tuple[int, int, int]:
    """Lanes, rows and terms: all registers but those of the rows' cells and one of a line hold
    sums."""
    lanes, registers = vectors(itemsize)
    rows = min(channels, 4 if registers >= 32 else 3)
    most = min(TERMS, (registers - 1 - rows) // rows)
    return lanes, rows, -(-terms // -(-terms // most))


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
            self.step.call.on(wide, narrow, out)
            return
        if not is_whole:
            matrix[...] = 0
        if self.step is not None:
            made = room((self.shares, len(matrix), len(self.taps)), out.dtype)
            self.step.call.on(wide, narrow, made)
            total = matrix if is_whole else room(made.shape[1:], out.dtype)
            made.sum(axis=0, out=total)
            if not is_whole:
                matrix[:, self.taps] = total


@functools.lru_cache(maxsize=256)
def gradient(p: Plan, dtype: np.dtype[Any], skips: bool) -> Gradient:
    """The kernel and its tables for a plan."""
    item, grid = dtype.itemsize, grid_of(p.axes, True)
    taps = Layout(grid, 1).jobs[0].taps
    if not len(taps):
        return Gradient(0, taps, p.taps, None)
    terms = p.wide_channels * len(taps)
    items = 1 if p.is_small else -(-ITEMS // p.groups)
    out_part, out_parts = cut(p.narrow_channels, min(items, p.narrow_channels // max(WORTHY, WORTH // len(taps))))
    part, parts = cut(p.wide_channels, min(-(-items // out_parts), terms // WORTH))
    sizes = strides("wide", p.groups, p.wide_channels, p.wide_cells)
    sizes |= strides("narrow", p.groups, p.narrow_channels, p.narrow_cells)
    fits = lambda laid: laid.pitch * part * item <= LAID and laid.count * laid.units[0] <= LONG  # noqa: E731
    images, layout = arranged(p, grid, sizes, fits, LONG)
    lanes, rows, some = blocking(out_part, part * len(taps), item)
    tables, length = tabled(layout, part, lanes)
    bands = images * len(tables["bands"])
    share, shares = cut(bands, -(-items // (out_parts * parts)))
    if not skips:
        del tables["places"]
    sizes |= {"band_count": len(tables["bands"]), "image_bands": bands, "share": share, "groups": p.groups}
    sizes |= {"part_count": parts, "part": part, "channels": p.wide_channels, "taps": len(taps)}
    sizes |= {"out_channels": p.narrow_channels, "out_part": out_part, "out_parts": out_parts}
    sizes |= {"pitch": layout.pitch, "length": length} | {name: address(table) for name, table in tables.items()}
    how = WeightGradient(CELLS[dtype.name], lanes, rows, some, grid.axes[-1].stride, skips)
    items = shares * p.groups * parts * out_parts
    cells = (out_part + 1) * length + (part + 1) * layout.pitch + 2 * lanes + rows * some
    call = Call(compiled(emit, how), sizes, items, grain(p, items, 64), cells * item + 64)
    reason = f"{rows} rows of {some} terms, {bands} bands, {shares}×{out_parts}×{parts} parts"
    return Gradient(shares, taps, p.taps, Step(call, ("wide", "narrow", "weight"), reason, tuple(tables.values())))


def tabled(layout: Layout, part: int, lanes: int) -> tuple[dict[str, Array], int]:
    """The tables of a layout, of which bands that are alike share theirs; and the length of a line
    of narrow cells."""
    (job,) = layout.jobs
    last = int(layout.targets(job, 0, layout.count)[0][-1]) + 1
    length = -(-last // lanes) * lanes
    length += lanes * (length % 512 == 0)  # neighbouring lines should not share few places of a cache
    runs: list[Any] = []
    bands, known = [], dict[Any, tuple[int, ...]]()
    for start, count, key, source, target in layout.bands():
        if key not in known:
            places, cells = layout.targets(job, start, count)
            narrow = np.full(length, -1, np.int64)
            narrow[places] = cells
            ends = [len(runs)]
            for some in (layout.runs(start, count), runs_of(narrow, layout.grid.target[-1])):
                runs += some.tolist()
                ends.append(len(runs))
            known[key] = tuple(ends)
        bands.append((source, target, *known[key]))
    tables = {"bands": np.array(bands, np.int64), "runs": np.array(runs, np.int64)}
    tables["offsets"] = np.add.outer(np.arange(part) * layout.pitch, job.places).reshape(-1)
    return tables | {"places": np.tile(job.places, part)}, length
