"""The passes of a reduction, each with the parameters of its kernel: how planes are split into
tiles and tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ...geometry import Adaptive, Axis, Sliding
from ...memory import Array
from . import limits
from .axes import (
    Reversed,
    direct_lanes,
    known_window,
    least_read,
    nominal,
    overhang,
    reversed_axis,
    row_lanes,
    rows_of,
    runs_of,
    whole_windows,
    window_of,
)
from .codegen.combine import ArgMax, LogSumExp, Max, Sum, working
from .codegen.values import Cell
from .emitters import along, bins, channels, direct, runs, tiles
from .emitters.phases import Gather
from .gathers import channels_step, phases_step
from .steps import NOT_DIVIDED, Chain, Divided, Divisors, Step, cut, grain, plane, power, step, tiled


class Fold(NamedTuple):
    """What is folded: a reduction over the windows of some axes of an array (planes, *axes,
    inner)."""

    what: str
    """"sum", "max", "min", "argmax", "argmin", or log-sum-exp for positive and negative β: "lse+",
    "lse-"."""
    exact: bool
    """Whether NaNs, and padding that could tie with a cell, are looked out for."""
    axes: tuple[Axis, ...]
    planes: int
    inner: int
    cell: Cell
    ends: str = "pairs"
    """In what log-sum-exp ends: "pairs" of an extreme and a sum, the smooth maximum "alone", or all
    that is to be "kept"."""

    @property
    def codes(self) -> int:
        """How many codes winners have."""
        return math.prod(nominal(axis) for axis in self.axes)

    @property
    def is_plain(self) -> bool:
        """Whether cells are folded in their own type, and nothing is looked out for that has to be
        told by codes."""
        is_looking = self.what.startswith("arg") and self.exact
        return not self.what.startswith("lse") and not is_looking and working(self.cell) is self.cell

    def combine(self, cell: Cell, ordered: bool, first: bool, last: bool) -> Sum:
        """How parts are joined by a pass."""
        name = self.what
        if name.startswith("lse"):
            return LogSumExp(cell, name == "lse-", self.ends if last else "pairs")
        if name == "sum":
            return Sum(cell)
        how = name.endswith("min"), self.exact, ordered
        by_codes = name.startswith("arg") or (self.exact and not ordered)  # which tell what is first
        made = ArgMax(cell, self.codes, *how) if by_codes else Max(cell, *how)
        made.guards = made.guards and first
        return made


class Planner:
    """Puts the passes of a fold together."""

    def __init__(
        self, fold: Fold, axes: tuple[Axis, ...], divisors: Divisors | None, beta: Array | None = None
    ) -> None:
        self.fold, self.axes, self.divisors, self.beta = fold, axes, divisors, beta
        self.ordered = True
        self.steps: list[Step] = []
        self.between: list[tuple[str, int, np.dtype[Any]]] = []

    def plan(self, passes: Sequence[tuple[str, int]]) -> Chain:
        self.ordered = all(walk in ("tiles", "along", "direct", "channels") for walk, _ in passes)
        stop = len(self.axes)
        for turn, (walk, count) in enumerate(passes):
            self.first, self.last = turn == 0, turn == len(passes) - 1
            self.combine = self.fold.combine(self._cell, self.ordered, self.first, self.last)
            names, self.divided = self._arrays(turn, stop - count), self._divides(walk, count)
            self.steps.append(getattr(self, "_" + walk)(stop - count, stop)._replace(arrays=names))
            stop -= count
        return Chain(tuple(self.steps), tuple(self.between))

    def _arrays(self, turn: int, done: int) -> tuple[str, ...]:
        """The names of the arrays of a pass after which all axes but the first `done` are folded;
        those between passes are entered."""
        combine = self.combine
        kinds = [np.dtype(cell.name) for cell in combine.cells()]
        held = ("cells", "codes")[: len(kinds)]
        reads = [f"{name} {turn}" for name in held] if turn else ["x"]
        if self.last:
            writes = [name for name, _ in combine.written(self.fold.cell)]
            if "codes" in writes and self.fold.what in ("max", "min"):  # which are not asked for
                self.between.append(("codes", self._cells(0), kinds[1]))
            return *reads, *writes
        writes = [f"{name} {turn + 1}" for name in held]
        self.between += [(name, self._cells(done), kind) for name, kind in zip(writes, kinds, strict=True)]
        return *reads, *writes

    def _planes(self, start: int) -> int:
        """How many planes, or lines, the axes from `start` on make up."""
        return self.fold.planes * math.prod(axis.size for axis in self.axes[:start])

    def _cells(self, done: int) -> int:
        """Cells of the array of which all axes from `done` on are folded."""
        fold = self.fold
        sizes = [axis.size for axis in self.axes[:done]] + [axis.length for axis in self.axes[done:]]
        return fold.planes * math.prod(sizes) * fold.inner

    @property
    def _cell(self) -> Cell:
        """Of the operand of this pass."""
        return self.fold.cell if self.first else working(self.fold.cell)

    @property
    def _result(self) -> Cell:
        return self.fold.cell if self.last else working(self.fold.cell)

    @property
    def _common(self) -> tuple[Sum, Cell, str]:
        """What all kernels that fold windows are told."""
        return self.combine, self._result, self.divided[0]

    def _divides(self, walk: str, count: int) -> Divided:
        """How this pass over so many axes divides, and the tables that it divides by: sums at the
        end, what windows bring on the way back at first."""
        is_back = walk in ("phases", "runs", "channels_back")
        if self.divisors is None or not (self.first if is_back else self.last):
            return NOT_DIVIDED
        rows, columns = self.divisors
        if columns is not None and count == 1 and walk != "along":  # lines are the rows of one plane
            rows, columns = np.ones(self.fold.planes, rows.dtype), np.multiply.outer(rows, columns).reshape(-1)
        if self.divisors.kind == "scale":
            rows = 1 / rows
        tables = {"row_divisors": rows}
        if columns is not None:
            spare = np.ones(2 * limits.VECTOR // columns.itemsize, columns.dtype)  # read by two vectors
            tables["column_divisors"] = np.append(columns, spare)
        kind, self.divisors = self.divisors.kind, self.divisors if self.last else None
        return kind, tables

    def _step(self, emit: Any, how: Any, given: dict[str, Any], items: int, cells: int, reason: str) -> Step:
        """A kernel on items of so many cells."""
        beta = {} if self.beta is None else {"beta": self.beta}
        return step(emit, how, {**given, **self.divided[1], **beta}, items, grain(items, cells), reason)

    # the walks

    def _tiles(self, start: int, stop: int) -> Step:
        """Windows of one size over planes."""
        columns: Any = self.axes[stop - 1]
        rows, planes = rows_of(self.axes[start:stop], self._planes(start))
        down, across = known_window(rows), known_window(columns)
        combine = self.combine
        lanes = limits.VECTOR // working(self._cell).size
        tile_columns, parts = cut(columns.length, -(-columns.length // max(limits.TILE, 16 * lanes)))
        converts = working(self._cell) is not self._cell
        register = None
        if parts == 1 and not converts and not combine.masks and (held := row_lanes(columns, lanes)):
            register, lanes = (columns.size, columns.before), held
        pitch = (-(-tile_columns // lanes) | 1) * lanes  # odd, so that lines lie in different sets of a cache
        total = planes * max(rows.size * columns.size, 1)
        cells = min(limits.LINES * max(1, 4 // sum(cell.size for cell in combine.cells())), max(total // 32, 1 << 12))
        fewest = -(-down.extent // down.stride)  # so that no line is folded more than twice or so
        most = max(1, min(rows.length, max((cells // pitch - down.extent) // down.stride, fewest), 1 << 12))
        tile_rows, bands = cut(rows.length, -(-rows.length // most))
        stack = 1
        if down.dilation == 1 and down.taps > 1:
            stack = max(1, min(down.shared, tile_rows, 8 if combine.codes is None else 4))
        narrow = columns.length < lanes
        copies = register is None and (narrow or converts or across.padded or across.stride > across.taps)
        reach = -columns.before, columns.extent - 1 - columns.before
        least = least_read(columns.length, tile_columns, columns.stride, reach, columns.size)
        how = tiles.Tiles(
            *self._common,
            down,
            across,
            (tile_rows, pitch),
            stack,
            narrow,
            copies,
            lanes,
            power(lanes, min(columns.size, least)),
            register,
        )
        sizes = tiled(rows, columns, (tile_rows, tile_columns), (bands, parts))
        reason = f"windows of one size: rows first, tiles of {tile_rows}×{tile_columns}"
        if stack > 1:
            reason += f", {stack} rows of windows at a time, which share partial results"
        cells = tile_rows * tile_columns * down.stride * across.stride
        return self._step(tiles.emit, how, sizes, planes * bands * parts, cells, reason)

    def _direct(self, start: int, stop: int) -> Step:
        """Small windows over planes, in registers."""
        columns: Any = self.axes[stop - 1]
        rows, planes = rows_of(self.axes[start:stop], self._planes(start))
        outer: Axis = self.axes[start] if stop - start == 3 else Sliding(1, 1)
        lanes = direct_lanes(self.fold.cell.size, columns)
        across_planes, down, across = known_window(outer), known_window(rows), known_window(columns)
        behind = overhang(columns)
        tile_columns, parts = cut(columns.length, -(-columns.length // max(8 * limits.TILE, 8 * lanes)), lanes)
        shares_few = 2 * (down.extent - down.stride) <= down.stride  # rows with the next window
        stack = min(2 if shares_few else limits.TOGETHER, rows.length) if down.taps > 1 else 1
        items = planes * outer.length * parts
        cells = columns.size * rows.stride * across_planes.taps
        most = max(stack, min(rows.length, limits.MOST // max(cells, 1)))
        if items < 32:
            most = max(stack, min(most, -(-rows.length * items // 32)))
        tile_rows, _ = cut(rows.length, -(-rows.length // most))
        tile_rows = min(-(-tile_rows // stack) * stack, rows.length)
        bands = -(-rows.length // tile_rows)
        how = direct.Direct(
            *self._common,
            across_planes,
            down,
            across,
            columns.before,
            behind,
            tile_columns,
            stack,
            lanes,
        )
        sizes = tiled(rows, columns, (tile_rows, tile_columns), (bands, parts))
        sizes |= {"depth": outer.size, "depth_out": outer.length}
        sizes["inside"] = (columns.size + columns.before - across.extent) // across.stride - lanes + 1
        reason = f"small windows: reduced in registers, {stack} rows of {lanes} windows at a time"
        return self._step(direct.emit, how, sizes, items * bands, tile_rows * cells // parts, reason)

    def _phases(self, start: int, stop: int) -> Step:
        """The way back through windows of one size over planes."""
        own: list[Any] = [
            axis.axis if isinstance(axis, Reversed) else reversed_axis(axis) for axis in self.axes[start:stop]
        ]
        return phases_step(own, self._planes(start), Gather("all", self._cell, self._result), self.divided)

    def _runs(self, start: int, stop: int) -> Step:
        """The way back through bins over planes."""
        rows, columns = Reversed(Sliding(1, 1)), cast(Reversed, self.axes[stop - 1])
        if stop - start == 2:
            rows = cast(Reversed, self.axes[start])
        planes = self._planes(start)
        lanes = limits.VECTOR // working(self._cell).size
        down, across = runs_of(rows), runs_of(columns)
        how = runs.Runs(
            self._cell,
            self._result,
            -(-columns.size // 64) * 64,
            -(-columns.length // 64) * 64,
            lanes,
            power(lanes, columns.size),
            power(lanes, columns.length),
            self.divided[0],
        )
        given = plane(rows.axis, columns.axis) | {"runs_down": len(down), "runs_across": len(across)}
        cells = rows.length * columns.length // max(len(down), 1)
        reason = "bins, or large strides: cells that the same windows read are written together"
        given |= {"down": down, "across": across}
        return self._step(runs.emit, how, given, planes * len(down), cells, reason)

    def _whole(self, start: int, stop: int) -> Step:
        """Whole planes, each as one row."""
        cells = math.prod(axis.size for axis in self.axes)
        return self._fill_bins(self.fold.planes, Adaptive(1, 1), Adaptive(cells, 1), "whole planes, each as one row")

    def _bins(self, start: int, stop: int) -> Step:
        """Bins over planes."""
        planes = self._planes(start)
        rows = self.axes[start] if stop - start == 2 else Adaptive(1, 1)
        reason = "windows of several sizes: rows of a bin first, by full vectors"
        return self._fill_bins(planes, rows, self.axes[stop - 1], reason)

    def _fill_bins(self, planes: int, rows: Axis, columns: Axis, reason: str) -> Step:
        down, across, inner = rows.ranges(), columns.ranges(), self.fold.inner
        single = int(down.count.max(initial=1)) == 1
        combine = self.combine
        room = 0 if single else -(-columns.size * inner // 64) * 64
        widest = limits.VECTOR // working(self._cell).size
        lanes = power(widest, columns.size * inner)
        bin_lanes = min(widest, 1 << (int(across.count.max(initial=1)) - 1).bit_length())
        bin_lanes = power(widest, inner) if inner > 1 else min(bin_lanes, lanes) if single else bin_lanes
        how = bins.Bins(*self._common, lanes, room, bin_lanes, nominal(columns), inner > 1)
        given = plane(rows, columns) | words(first_row=down.first, row_count=down.count)
        given |= words(first_column=across.first, column_count=across.count)
        given |= {"inner": inner} if inner > 1 else {}
        if combine.codes is not None:
            given |= words(skipped_rows=down.first - down.start, skipped_columns=across.first - across.start)
        cells = rows.size * columns.size * inner // max(rows.length, 1)
        return self._step(bins.emit, how, given, planes * rows.length, cells, reason)

    def _channels(self, start: int, stop: int) -> Step:
        """Small windows over two axes, lanes along what lies behind them."""
        rows, columns = [axis for axis in self.axes[start:stop] if isinstance(axis, Sliding)]
        planes, inner = self._planes(start), self.fold.inner
        down, across = known_window(rows), known_window(columns)
        lanes = power(limits.VECTOR // self._cell.size, inner)
        together = limits.TOGETHER if across.shared > 1 else 1  # which share cells
        how = channels.Channels(*self._common, down, across, lanes, together)
        (top, bottom), (begin, end) = whole_windows(rows), whole_windows(columns)
        sizes = plane(rows, columns) | {"above": rows.before, "before": columns.before, "inner": inner}
        sizes |= {"whole_top": top, "whole_bottom": bottom, "whole_begin": begin, "whole_end": end}
        reason = f"small windows: vectors along the {inner} inner cells, {together} windows together"
        cells = rows.stride * columns.size * inner
        return self._step(channels.emit, how, sizes, planes * rows.length, cells, reason)

    def _channels_back(self, start: int, stop: int) -> Step:
        """The way back through small windows over two axes, lanes along what lies behind them."""
        own: list[Any] = [getattr(axis, "axis", axis) for axis in self.axes[start:stop]]
        what = Gather("all", self._cell, self._result)
        return channels_step(own, self._planes(start), self.fold.inner, what, self.divided)

    def _along(self, start: int, stop: int) -> Step:
        """Windows along one axis, lanes along what lies behind it."""
        axis, fold = self.axes[start], self.fold
        outer = self._planes(start)
        inner = math.prod(a.length for a in self.axes[stop:]) * fold.inner
        combine, window = self.combine, window_of(axis)
        lanes = power(limits.VECTOR // working(self._cell).size, inner)
        ranges = axis.ranges()
        stack = 1
        if window is not None and window.dilation == 1:
            stack = max(1, min(window.shared, 8 if combine.codes is None else 4))
        width = math.prod(nominal(a) for a in self.axes[stop:])
        has_codes = not self.first and len(combine.cells()) > 1
        how = along.Along(*self._common, window, stack, lanes, width, has_codes)
        most = max(lanes, 2048 // max(min(nominal(axis), 8), 1))
        block, blocks = cut(inner, -(-inner // most), lanes)  # the last block must hold a vector
        band = max(stack, min(axis.length, (1 << 15) // max(block, 1)))
        bands = -(-axis.length // max(band, 1)) or 1
        begin, end = whole_windows(axis) if window is not None else (0, 0)
        skipped = (ranges.first - ranges.start) // ranges.step
        given = words(first=ranges.first, count=np.maximum(ranges.count, 0), skipped=skipped)
        given |= {"size": axis.size, "length": axis.length, "inner": inner, "step": ranges.step}
        given |= {"band": band, "bands": bands, "block": block, "blocks": blocks}
        given |= {"whole_begin": begin, "whole_end": end}
        reason = f"axis {start}: vectors along the {inner} inner cells, {stack} windows together"
        cells = band * block * axis.size // max(axis.length, 1)
        return self._step(along.emit, how, given, outer * bands * blocks, cells, reason)


def words(**tables: Array) -> dict[str, Any]:
    """Tables of 64-bit integers, as kernels read them."""
    return {name: np.ascontiguousarray(table, np.int64) for name, table in tables.items()}
