"""Which kernels fold the windows of an operator, in which order: the one place that chooses.

Windows are products of axes, and sum, maximum and argmax are associative, so an N-D window is a chain of passes: the last two axes together,
then each axis before them. Each pass reads an array that lies whole and writes one.

| windows | walk |
|---|---|
| small, over planes whose columns lie side by side | `direct`: in registers |
| of one size, over such planes | `tiles`: rows first, so that order is kept |
| of all sizes (adaptive, whole), over such planes | `bins`: columns first, so that lanes are full |
| the way back through windows of one size that move by few cells | `phases`: each cell gathers |
| the way back through bins and windows far apart | `runs`: cells that the same windows read are written together |
| small, over axes behind which other cells lie (channels-last), and their way back | `channels`: lanes along these cells |
| over an axis behind which other cells lie, outer axes | `along`, axis by axis, lanes along these cells |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...geometry import Adaptive, Axis, Ranges, Sliding
from ...memory import room
from .codegen.builder import Cell
from .codegen.code_cache import cached
from .codegen.combine import LogSumExp, Sum, combine_of, working
from .codegen.object_code import Compiled
from .codegen.thread_pool import Call, address
from .emitters import along, bins, channels, direct, phases, runs, tiles, weights
from .emitters.windows import Window

Array = npt.NDArray[Any]

VECTOR = 64  # bytes of a vector, whatever registers the machine has
UNROLLED = 256  # taps of an axis that are joined without a loop, at most
REACH = 1024  # cells from the first tap of an axis to the last, at most, where rows are copied or kept
TILE = 256  # columns of windows in a tile, at most
LINES = 1 << 15  # cells of the lines of a tile
SMALL = (
    50  # taps of a window that is folded in registers, times its stride along a row, at most: more take long to compile
)
TOTALS = 4  # vectors that a way back adds up at a time, at most
TOGETHER = 4  # rows of windows that are folded together in registers
NEIGHBOURS = 16  # taps of a window, behind which cells lie, that are folded at once, at most
GATHERED = 16  # taps of a window of which each cell gathers what it won, at most
NEAR = 4  # cells that windows move by, at most, where lanes run along windows
LEAST, MOST = 1 << 13, 1 << 17  # cells that a task takes


class Step(NamedTuple):
    """A kernel, and the names of the arrays whose addresses it takes."""

    call: Call
    arrays: tuple[str, ...]
    reason: str
    tables: tuple[Array, ...] = ()
    """What must live as long as the call: tables whose addresses it knows."""
    walk: str = ""
    """The emitter."""


class Chain(NamedTuple):
    """Kernels that run one after another, with the arrays between them: their cells and types."""

    steps: tuple[Step, ...]
    between: tuple[tuple[str, int, np.dtype[Any]], ...]

    def __call__(self, **arrays: Array) -> int:
        """Run all; the flags of all, or those of the first that has any."""
        if not self.between:  # one step, as a rule
            flags = 0
            for step in self.steps:
                flags = flags or step.call.on(*[arrays[name] for name in step.arrays])
            return flags
        addresses = {name: address(array) for name, array in arrays.items()}
        held = []
        for name, cells, dtype in self.between:
            held.append(room((cells,), dtype))
            addresses[name] = address(held[-1])
        for step in self.steps:
            flags = step.call(*[addresses[name] for name in step.arrays])
            if flags:
                return flags
        return 0


class Divisors(NamedTuple):
    """What sums are divided by: one number per window along the first axis times one per window of all others; or one for all."""

    rows: Array
    columns: Array | None

    @property
    def kind(self) -> str:
        if self.columns is not None:
            return "each"
        return "scale" if math.frexp(self.rows[0])[0] == 0.5 else "all"


@functools.lru_cache(maxsize=256)
def compiled(emit: Any, how: Any) -> Compiled:
    """A kernel in machine code."""
    return cached((emit, how), lambda: emit(how, VECTOR))


def walk_of(emit: Any) -> str:
    """The name of an emitter."""
    return str(emit.__module__).rpartition(".")[2]


Divided = tuple[str, dict[str, int], tuple[Array, ...]]
"""How a kernel divides, the addresses of what it divides by, and the tables that lie there."""
NOT_DIVIDED: Divided = ("no", {}, ())


def even(axis: Axis) -> Axis:
    """An axis of bins that divide it evenly as the sliding axis that it is."""
    if isinstance(axis, Adaptive) and axis.length and axis.size % axis.length == 0:
        return Sliding(axis.size, axis.size // axis.length, axis.size // axis.length)
    return axis


def nominal(axis: Axis) -> int:
    """How many taps the codes of an axis tell apart."""
    return axis.kernel if isinstance(axis, Sliding) else int(axis.ranges().count.max(initial=1))


def window_of(axis: Axis) -> Window | None:
    """An axis of windows of one size, if they are not too large; None for bins."""
    if not isinstance(axis, Sliding) or axis.kernel > UNROLLED or axis.extent > REACH:
        return None
    return Window(axis.kernel, axis.stride, axis.dilation, axis.before > 0 or overhang(axis) > 0)


def overhang(axis: Sliding) -> int:
    """By how many cells the last window reaches beyond the axis; none if negative."""
    return (axis.length - 1) * axis.stride - axis.before + axis.extent - axis.size


def known_window(axis: Axis) -> Window:
    """An axis that is known to be of windows of one size."""
    window = window_of(axis)
    assert window is not None
    return window


@dataclass(frozen=True)
class Reversed:
    """An axis read backwards: its windows are the cells of `axis`, and each reads the windows that read it."""

    axis: Axis

    @property
    def size(self) -> int:
        return self.axis.length

    @property
    def length(self) -> int:
        return self.axis.size

    def ranges(self) -> Ranges:
        """The runs of windows that read each cell."""
        return self.axis.readers(np.arange(self.axis.size))


def reversed_axis(axis: Axis) -> Any:
    """The axis whose sums are the adjoint of this one's."""
    axis = even(axis)
    if isinstance(axis, Adaptive) or axis.stride > 1:
        return Reversed(axis)
    before = axis.extent - 1 - axis.before
    after = axis.size - 1 + axis.extent - axis.length - before
    return Sliding(axis.length, axis.kernel, 1, before, after, axis.dilation)


def in_phases(axis: Any) -> bool:
    """Whether cells of an axis that is read backwards are better gathered by phases."""
    own = axis.axis if isinstance(axis, Reversed) else axis
    return isinstance(own, Sliding) and own.stride <= NEAR and own.kernel <= 8 and own.extent <= REACH


def in_runs(axis: Any) -> bool:
    """Whether the windows that read a cell of an axis lie side by side."""
    return isinstance(axis, Reversed) and axis.ranges().step == 1


def grain(items: int, cells: int) -> int:
    """How many items of so many cells a task takes: some 64 tasks, none so small or large that its own cost shows."""
    return max(1, min(max(items * cells // 64, LEAST), MOST) // max(cells, 1))


def power(lanes: int, cells: int) -> int:
    """The lanes of vectors of which one at least fits into so many cells."""
    return min(lanes, 1 << max(cells, 1).bit_length() - 1)


class Fold(NamedTuple):
    """What is folded: a reduction over the windows of some axes of an array (planes, *axes, inner)."""

    what: str
    """"sum", "max", "min", "argmax", or the pairs of log-sum-exp for positive and negative β: "lse+", "lse-"."""
    exact: bool
    """Whether NaNs, and padding that could tie with a cell, are looked out for."""
    axes: tuple[Axis, ...]
    planes: int
    inner: int
    cell: Cell

    @property
    def codes(self) -> int:
        """How many codes winners have."""
        return math.prod(nominal(axis) for axis in self.axes)

    def combine(self, cell: Cell, ordered: bool = True, guards: bool = True) -> Sum:
        """How parts are joined."""
        name = self.what
        if name.startswith("lse"):
            return LogSumExp(cell, name == "lse-")
        if name != "sum":
            name = "any_" + name if not ordered else "nan_" + name if self.exact else name
        made = combine_of(name, cell, self.codes)
        made.guards = made.guards and guards
        return made


def chain(fold: Fold, divisors: Divisors | None = None, beta: Array | None = None) -> Chain:
    """The kernels of a fold."""
    axes = tuple(map(even, fold.axes))
    passes: list[tuple[str, int]] = []
    rank, done = len(axes), len(axes)
    whole = all((isinstance(a, Adaptive) and a.length == 1) or (isinstance(a, Sliding) and _is_whole(a)) for a in axes)
    in_order = fold.what not in ("sum", "max", "argmax")  # which `bins` does not keep
    if fold.inner == 1 and rank:
        count = min(rank, 2)
        windows = [window_of(axis) for axis in axes[-count:]]
        if any(isinstance(axis, Reversed) for axis in axes[-count:]):
            passes += backwards(axes, count)
        elif whole and axes[-1].size > 1 and not in_order:
            passes.append(("whole", rank))
        elif (direct_plan := plan_direct(fold, axes)) is not None:
            is_uneven = (
                divisors is not None and divisors.columns is not None
            )  # divisors by row are those of the first axis
            passes.append(("direct", count if is_uneven else direct_plan[0]))
        elif all(window is not None and (in_order or window.stride <= NEAR) for window in windows[-1:]) and windows[0]:
            passes.append(("tiles", count))
        elif all(map(are_full, axes[-count:])) and not in_order:
            passes.append(("bins", count))
        elif all(window is not None for window in windows):
            passes.append(("tiles", count))
        done = rank - sum(count for _, count in passes)
    elif rank > 1 and fold.inner * fold.cell.size >= 32:
        if all(isinstance(axis, Reversed) and in_phases(axis) for axis in axes[-2:]):
            passes.append(("channels_back", 2))
        elif behind_cells(fold, axes[-2:]):
            passes.append(("channels", 2))
        done = rank - sum(count for _, count in passes)
    passes += [("along", 1)] * done
    return _Planner(fold, axes, divisors, beta).plan(passes)


def plan_direct(fold: Fold, axes: Sequence[Axis]) -> tuple[int, int, int] | None:
    """How many axes are folded at once in registers, by which lanes and how many rows of windows together; None where windows are too large."""
    columns, rows = axes[-1], axes[-2] if len(axes) > 1 else Sliding(1, 1)
    down, across = window_of(rows), window_of(columns)
    if (
        fold.what not in ("sum", "max", "min", "argmax")
        or down is None
        or across is None
        or working(fold.cell) is not fold.cell
    ):
        return None
    if (
        (fold.exact and fold.what == "argmax")
        or across.stride > min(NEAR, across.extent)
        or down.taps * across.taps * across.stride > SMALL
    ):
        return None
    assert isinstance(columns, Sliding)
    behind = overhang(columns)
    lanes = VECTOR // fold.cell.size
    while not _fits(columns, across, behind, lanes):
        lanes //= 2
        if lanes * fold.cell.size < 16:
            return None
    count = min(len(axes), 2)
    if len(axes) > 2:
        outer, window = axes[-3], window_of(axes[-3])
        is_apart = window is not None and not window.padded and window.extent <= window.stride
        count += is_apart and isinstance(outer, Sliding) and outer.before == 0
    return count, lanes, TOGETHER


def behind_cells(fold: Fold, axes: Sequence[Axis]) -> bool:
    """Whether small windows over two axes, behind which cells lie, are folded at once."""
    windows = [window_of(axis) for axis in axes]
    is_plain = fold.what in ("sum", "max", "min", "argmax") and not (fold.exact and fold.what == "argmax")
    if not is_plain or working(fold.cell) is not fold.cell or any(window is None for window in windows):
        return False
    return math.prod(window.taps for window in windows if window) <= NEIGHBOURS


def _fits(columns: Sliding, window: Window, behind: int, lanes: int) -> bool:
    """Whether the rows of windows are long enough for vectors: each has padding at one end at most."""
    cells, apart = lanes * window.stride, (columns.length - lanes) * window.stride
    if columns.length < lanes:
        return False
    if columns.before > 0 and (max(cells, cells - window.stride + window.extent - columns.before) > columns.size):
        return False
    if behind > 0 and (cells > columns.size or columns.size + columns.before < cells - window.stride + window.extent):
        return False
    is_single = not apart and not behind > 0
    return is_single or (apart >= columns.before and columns.before + max(behind, 0) <= cells)


def backwards(axes: Sequence[Any], count: int) -> list[tuple[str, int]]:
    """The first pass of the way back through the last `count` axes; none where it goes axis by axis."""
    last = axes[-count:]
    if all(map(in_phases, last)):
        outer = axes[-3:]
        if len(outer) == 3 and tiles_planes([getattr(axis, "axis", axis) for axis in outer]):
            return [("phases", 3)]
        return [("phases", count)]
    if all(in_runs(axis) for axis in last):
        return [("runs", count)]
    return []


def are_full(axis: Axis) -> bool:
    """Whether all windows of an axis have cells, side by side."""
    ranges = axis.ranges()
    return ranges.step == 1 and bool((ranges.count > 0).all())


def _is_whole(axis: Sliding) -> bool:
    return axis.length == 1 and axis.kernel == axis.size and not axis.before and axis.dilation == 1


class _Planner:
    """Puts the passes of a fold together."""

    def __init__(
        self, fold: Fold, axes: tuple[Axis, ...], divisors: Divisors | None, beta: Array | None = None
    ) -> None:
        self.fold, self.axes, self.divisors, self.beta = fold, axes, divisors, beta
        self.ordered, self.lines = True, False
        self.steps: list[Step] = []
        self.between: list[tuple[str, int, np.dtype[Any]]] = []

    def plan(self, passes: Sequence[tuple[str, int]]) -> Chain:
        self.ordered = all(walk in ("tiles", "along", "direct", "channels") for walk, _ in passes)
        stop = len(self.axes)
        for turn, (walk, count) in enumerate(passes):
            self.first, self.last = turn == 0, turn == len(passes) - 1
            self.lines = count == 1 and walk != "along"  # which are taken as the rows of one plane
            names = self._arrays(turn, stop - count)
            getattr(self, "_" + walk)(stop - count, stop, names)
            stop -= count
        return Chain(tuple(self.steps), tuple(self.between))

    def _arrays(self, turn: int, done: int) -> tuple[str, ...]:
        """The names of the arrays of a pass after which all axes but the first `done` are folded; those between passes are entered."""
        fold = self.fold
        pairs = fold.what.startswith("lse")
        has_codes = fold.what == "argmax" or (not self.ordered and fold.exact) or pairs
        reads = ("x",) if turn == 0 else (f"cells {turn}", *([f"codes {turn}"] if has_codes else []))
        if self.last:
            writes: tuple[str, ...] = ("y", *(["codes"] if has_codes else []))
            if has_codes and fold.what != "argmax" and not pairs:
                self.between.append(("codes", self._cells(0), self._code_type()))
            return reads + writes
        cells = self._cells(done)
        self.between.append((f"cells {turn + 1}", cells, np.dtype(working(fold.cell).name)))
        if has_codes:
            self.between.append((f"codes {turn + 1}", cells, self._code_type()))
        return (*reads, f"cells {turn + 1}", *([f"codes {turn + 1}"] if has_codes else []))

    def _code_type(self) -> np.dtype[Any]:
        codes = self._combine(self.fold.cell).codes
        assert codes is not None
        return np.dtype(codes.name)

    def _cells(self, done: int) -> int:
        """Cells of the array of which all axes from `done` on are folded."""
        fold = self.fold
        sizes = [axis.size for axis in self.axes[:done]] + [axis.length for axis in self.axes[done:]]
        return fold.planes * math.prod(sizes) * fold.inner

    def _combine(self, cell: Cell) -> Sum:
        fold = self.fold
        if not self.ordered and fold.what != "sum" and fold.exact:
            return combine_of("any_nan_argmax", cell, fold.codes)
        return fold.combine(cell, self.ordered, self.first)

    @property
    def _cell(self) -> Cell:
        """Of the operand of this pass."""
        return self.fold.cell if self.first else working(self.fold.cell)

    @property
    def _result(self) -> Cell:
        return self.fold.cell if self.last else working(self.fold.cell)

    def _divides(self, at_first: bool = False) -> Divided:
        """How this pass divides, and the tables that it divides by."""
        if self.divisors is None or not (self.first if at_first else self.last):
            return NOT_DIVIDED
        rows, columns = self.divisors
        if columns is not None and self.lines:
            rows, columns = np.ones(self.fold.planes, rows.dtype), rows
        if self.divisors.kind == "scale":
            rows = 1 / rows
        tables = {"row_divisors": address(rows)}
        if columns is not None:
            columns = np.append(columns, np.ones(VECTOR // columns.itemsize, columns.dtype))  # read by whole vectors
            tables["column_divisors"] = address(columns)
        kind, self.divisors = self.divisors.kind, self.divisors if self.last else None
        return kind, tables, (rows, *([] if columns is None else [columns]))

    def _add(
        self, emit: Any, how: Any, sizes: dict[str, int], items: int, cells: int, names: Any, tables: Any, reason: str
    ) -> None:
        divides, by, held = self._divides()
        assert divides == how.divides
        if self.beta is not None:
            by, held = {**by, "beta": address(self.beta)}, (*held, self.beta)
        call = Call(compiled(emit, how), {**sizes, **by}, items, grain(items, cells))
        self.steps.append(Step(call, tuple(names), reason, (*tables, *held), walk_of(emit)))

    # the walks

    def _tiles(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Windows of one size over planes."""
        columns = self.axes[stop - 1]
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        rows: Axis = self.axes[start]
        if stop - start == 1:  # lines are the rows of one plane
            rows, planes = Sliding(planes, 1), 1
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        down, across = known_window(rows), known_window(columns)
        combine = self._combine(self._cell)
        lanes = VECTOR // working(self._cell).size
        parts = -(-columns.length // max(TILE, 8 * lanes)) or 1
        tile_columns = -(-columns.length // parts)
        pitch = -(-tile_columns // lanes) * lanes
        total = planes * max(rows.size * columns.size, 1)
        cells = min(LINES, max(total // 32, 1 << 12))
        tile_rows = max(1, min(rows.length, (cells // pitch - down.extent) // down.stride, 1 << 12))
        bands = -(-rows.length // tile_rows) or 1
        tile_rows = -(-rows.length // bands)
        stack = 1
        if down.dilation == 1 and down.taps > 1:
            stack = max(1, min(down.shared, tile_rows, 8 if combine.codes is None else 4))
        narrow = columns.length < lanes
        converts = working(self._cell) is not self._cell
        copies = narrow or converts or across.padded or across.stride > across.taps
        how = tiles.Tiles(
            combine,
            self._result,
            down,
            across,
            (tile_rows, pitch),
            stack,
            narrow,
            copies,
            self._divides()[0],
            lanes,
            power(lanes, min(columns.size, self._least_cells(columns, tile_columns, parts))),
        )
        sizes = {
            "height": rows.size,
            "width": columns.size,
            "height_out": rows.length,
            "width_out": columns.length,
            "above": rows.before,
            "before": columns.before,
            "down": bands,
            "across": parts,
            "tile_rows": tile_rows,
            "tile_columns": tile_columns,
        }
        reason = f"windows of one size: rows first, tiles of {tile_rows}×{tile_columns}, {stack} rows of windows share what they can"
        items = planes * bands * parts
        self._add(
            tiles.emit, how, sizes, items, tile_rows * tile_columns * down.stride * across.stride, names, (), reason
        )

    def _direct(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Small windows over planes, in registers."""
        axes = self.axes[start:stop]
        columns, rows = axes[-1], axes[-2] if len(axes) > 1 else Sliding(1, 1)
        outer: Axis = axes[0] if len(axes) > 2 else Sliding(1, 1)
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        plan = plan_direct(self.fold, self.axes[:stop])
        assert plan is not None
        _, lanes, stack = plan
        if stop - start == 1:  # lines are the rows of one plane
            rows, planes = Sliding(planes, 1), 1
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        across_planes, down, across = known_window(outer), known_window(rows), known_window(columns)
        behind = overhang(columns)
        parts = -(-columns.length // max(8 * TILE, 8 * lanes))
        tile_columns = -(-columns.length // parts)
        if columns.length - (parts - 1) * tile_columns < lanes:
            parts, tile_columns = 1, columns.length
        stack = min(stack, rows.length) if down.taps > 1 else 1
        items = planes * outer.length * parts
        cells = columns.size * rows.stride * across_planes.taps
        most = max(stack, min(rows.length, MOST // max(cells, 1)))
        if items < 32:
            most = max(stack, min(most, -(-rows.length * items // 32)))
        bands = -(-rows.length // most)
        tile_rows = -(-rows.length // bands)
        tile_rows = min(-(-tile_rows // stack) * stack, rows.length)
        bands = -(-rows.length // tile_rows)
        how = direct.Direct(
            self._combine(self._cell),
            self._result,
            across_planes,
            down,
            across,
            columns.before,
            behind,
            tile_columns,
            stack,
            lanes,
            self._divides()[0],
        )
        sizes = {
            "depth": outer.size,
            "height": rows.size,
            "width": columns.size,
            "depth_out": outer.length,
            "height_out": rows.length,
            "width_out": columns.length,
            "above": rows.before,
            "inside": (columns.size + columns.before - across.extent) // across.stride - lanes + 1,
            "down": bands,
            "across": parts,
            "tile_rows": tile_rows,
            "tile_columns": tile_columns,
        }
        reason = f"small windows: folded in registers, {stack} rows of {lanes} at a time"
        self._add(direct.emit, how, sizes, items * bands, tile_rows * cells // parts, names, (), reason)

    @staticmethod
    def _least_cells(columns: Sliding, tile_columns: int, parts: int) -> int:
        """The fewest real cells that a tile reads of a row."""
        least = columns.size
        for part in range(parts):
            left, right = part * tile_columns, min((part + 1) * tile_columns, columns.length)
            begin = max(0, left * columns.stride - columns.before)
            end = min(columns.size, (right - 1) * columns.stride - columns.before + columns.extent)
            least = min(least, end - begin)
        return max(least, 1)

    def _phases(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """The way back through windows of one size over planes."""
        own: list[Any] = [
            axis.axis if isinstance(axis, Reversed) else reversed_axis(axis) for axis in self.axes[start:stop]
        ]
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        what = Gather("all", self._cell, self._result)
        self.steps.append(phases_step(own, planes, what, self._divides(at_first=True))._replace(arrays=names))

    def _runs(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """The way back through bins over planes."""
        rows, columns = self.axes[start] if stop - start == 2 else Reversed(Sliding(1, 1)), self.axes[stop - 1]
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        divides, by, held = self._divides(at_first=True)
        lanes = VECTOR // working(self._cell).size
        down, across = runs_of(rows), runs_of(columns)
        how = runs.Runs(
            self._cell,
            self._result,
            -(-columns.size // 64) * 64,
            -(-columns.length // 64) * 64,
            lanes,
            power(lanes, columns.size),
            power(lanes, columns.length),
            divides,
        )
        sizes = {
            "height": rows.length,
            "width": columns.length,
            "height_out": rows.size,
            "width_out": columns.size,
            "runs_down": len(down),
            "runs_across": len(across),
            "down": address(down),
            "across": address(across),
            **by,
        }
        items, cells = planes * len(down), rows.length * columns.length // max(len(down), 1)
        call = Call(compiled(runs.emit, how), sizes, items, grain(items, cells))
        reason = "bins, or windows far apart: cells that the same windows read are written together"
        self.steps.append(Step(call, names, reason, (down, across, *held), walk_of(runs.emit)))

    def _whole(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Whole planes, each as one row."""
        cells = math.prod(axis.size for axis in self.axes)
        self._fill_bins(self.fold.planes, Adaptive(1, 1), Adaptive(cells, 1), names, "whole planes, each as one row")

    def _bins(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Bins over planes."""
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        rows = self.axes[start] if stop - start == 2 else Adaptive(1, 1)
        self._fill_bins(
            planes, rows, self.axes[stop - 1], names, "windows of all sizes: rows of a bin first, by whole vectors"
        )

    def _fill_bins(self, planes: int, rows: Axis, columns: Axis, names: tuple[str, ...], reason: str) -> None:
        down, across = rows.ranges(), columns.ranges()
        lanes = power(VECTOR // working(self._cell).size, columns.size)
        single = int(down.count.max(initial=1)) == 1
        combine = self._combine(self._cell)
        room = 0 if single else -(-columns.size // 64) * 64
        bin_lanes = min(VECTOR // working(self._cell).size, 1 << (int(across.count.max(initial=1)) - 1).bit_length())
        how = bins.Bins(combine, self._result, lanes, room, bin_lanes, nominal(columns), self._divides()[0])
        by_name = {"first_row": down.first, "row_count": down.count}
        by_name |= {"first_column": across.first, "column_count": across.count}
        if combine.codes is not None:
            by_name |= {"skipped_rows": down.first - down.start, "skipped_columns": across.first - across.start}
        tables = {name: np.ascontiguousarray(table, np.int64) for name, table in by_name.items()}
        sizes = {
            "height": rows.size,
            "width": columns.size,
            "height_out": rows.length,
            "width_out": columns.length,
            **{name: address(table) for name, table in tables.items()},
        }
        cells = rows.size * columns.size // max(rows.length, 1)
        self._add(bins.emit, how, sizes, planes * rows.length, cells, names, tables.values(), reason)

    def _channels(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Small windows over two axes, lanes along what lies behind them."""
        rows, columns = self.axes[start:stop]
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        planes, inner = self.fold.planes * math.prod(axis.size for axis in self.axes[:start]), self.fold.inner
        down, across = known_window(rows), known_window(columns)
        whole = [np.flatnonzero(axis.ranges().count == axis.kernel) for axis in (rows, columns)]
        (top, bottom), (begin, end) = ((int(w[0]), int(w[-1]) + 1) if w.size else (0, 0) for w in whole)
        lanes = power(VECTOR // self._cell.size, inner)
        how = channels.Channels(
            self._combine(self._cell), self._result, down, across, lanes, TOGETHER, divides=self._divides()[0]
        )
        sizes = {
            "height": rows.size,
            "width": columns.size,
            "height_out": rows.length,
            "width_out": columns.length,
            "above": rows.before,
            "before": columns.before,
            "inner": inner,
            "whole_begin": begin,
            "whole_end": end,
            "whole_top": top,
            "whole_bottom": bottom,
        }
        reason = f"small windows: lanes along the {inner} cells behind each, {TOGETHER} windows together"
        cells = rows.stride * columns.size * inner
        self._add(channels.emit, how, sizes, planes * rows.length, cells, names, (), reason)

    def _channels_back(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """The way back through small windows over two axes, lanes along what lies behind them."""
        planes = self.fold.planes * math.prod(axis.size for axis in self.axes[:start])
        own: list[Any] = [getattr(axis, "axis", axis) for axis in self.axes[start:stop]]
        what = Gather("all", self._cell, self._result)
        step = channels_step(own, planes, self.fold.inner, what, self._divides(at_first=True))
        self.steps.append(step._replace(arrays=names))

    def _along(self, start: int, stop: int, names: tuple[str, ...]) -> None:
        """Windows along one axis, lanes along what lies behind it."""
        axis, fold = self.axes[start], self.fold
        outer = fold.planes * math.prod(a.size for a in self.axes[:start])
        inner = math.prod(a.length for a in self.axes[stop:]) * fold.inner
        combine, window = self._combine(self._cell), window_of(axis)
        lanes = power(VECTOR // working(self._cell).size, inner)
        ranges = axis.ranges()
        first, count = (np.ascontiguousarray(t, np.int64) for t in (ranges.first, np.maximum(ranges.count, 0)))
        skipped = np.ascontiguousarray((ranges.first - ranges.start) // ranges.step, np.int64)
        inside = np.flatnonzero(count == (window.taps if window else -1))
        stack = 1
        if window is not None and window.dilation == 1:
            stack = max(1, min(window.shared, 8 if combine.codes is None else 4))
        width = math.prod(nominal(a) for a in self.axes[stop:])
        has_codes = not self.first and len(combine.cells()) > 1
        how = along.Along(combine, self._result, window, stack, lanes, width, has_codes, self._divides()[0])
        block = min(inner, max(lanes, 2048 // max(min(nominal(axis), 8), 1)))
        blocks = -(-inner // block) or 1
        block = max(-(-inner // blocks), lanes)
        blocks = -(-inner // block) or 1
        if inner - (blocks - 1) * block < lanes:  # the last block must hold a vector
            block, blocks = inner, 1
        band = max(stack, min(axis.length, (1 << 15) // max(block, 1)))
        bands = -(-axis.length // max(band, 1)) or 1
        sizes = {
            "size": axis.size,
            "length": axis.length,
            "inner": inner,
            "step": ranges.step,
            "bands": bands,
            "band": band,
            "blocks": blocks,
            "block": block,
            "whole_begin": int(inside[0]) if inside.size else 0,
            "whole_end": int(inside[-1]) + 1 if inside.size else 0,
            **dict(zip(("first", "count", "skipped"), map(address, (first, count, skipped)), strict=True)),
        }
        reason = f"axis {start}: lanes along the {inner} cells behind each, {stack} windows together"
        cells = band * block * axis.size // max(axis.length, 1)
        self._add(along.emit, how, sizes, outer * bands * blocks, cells, names, (first, count, skipped), reason)


def runs_of(axis: Any) -> Array:
    """Runs of cells that the same windows read: the first cell, the end, the first window and how many there are."""
    ranges = axis.ranges()
    first, count = ranges.first, np.maximum(ranges.count, 0)
    changes = np.flatnonzero((np.diff(first, prepend=first[:1] - 1) != 0) | (np.diff(count, prepend=-1) != 0))
    table = [changes, np.append(changes[1:], first.size), first[changes], count[changes]]
    return np.ascontiguousarray(np.stack(table, axis=1), np.int64)


class Gather(NamedTuple):
    """What each cell gathers from the windows that read it: see `phases`."""

    term: str
    cell: Cell
    result: Cell
    beside: Cell | None = None
    beta: Array | None = None
    marks: bool = False


def phases_step(own: Sequence[Sliding], planes: int, what: Gather, divides: Divided = NOT_DIVIDED) -> Step:
    """The kernel by which each cell gathers, over the last two axes of windows, or one, or three of which the first share no plane."""
    columns, kind, beta = own[-1], divides[0], what.beta
    rows, depth = own[-2] if len(own) > 1 else Sliding(planes, 1), own[0].kernel if len(own) == 3 else 1
    planes = 1 if len(own) == 1 else planes * own[0].length if len(own) == 3 else planes
    down, across = known_window(rows), known_window(columns)
    low, high = phases.span(phases.readers(across, columns.before))
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    whole, rest = divmod(columns.size, columns.stride)
    behind = whole + high - columns.length
    lanes, lines = _phase_lanes(columns, (low, high), what, kind)
    narrow = whole < lanes
    parts = 1 if narrow else -(-groups_across // max(TILE, 8 * lanes))
    tile_columns = -(-groups_across // parts)
    if not narrow and groups_across - (parts - 1) * tile_columns - (1 if rest else 0) < lanes + high - low:
        parts, tile_columns = 1, groups_across
    most = max(1, min(groups_down, LINES // 2 // max(tile_columns, 1)))
    if planes < 32:
        most = min(most, max(4 * down.shared, -(-groups_down * planes // 32)))
    bands = -(-groups_down // most)
    tile_rows = -(-groups_down // bands)
    totals = rows.stride * columns.stride * (depth if what.term == "code" else 1)
    how = phases.Phases(
        what.term,
        what.cell,
        what.result,
        what.beside,
        down,
        across,
        (rows.before, columns.before),
        (tile_rows, -(-tile_columns // lanes) * lanes),
        (rows.size % rows.stride, rest),
        max(1, min(TOTALS // totals, tile_rows)),
        lanes,
        lines,
        0 if lines else behind,
        narrow,
        power(lanes, _least_windows(columns, tile_columns, parts)) if lines else 1,
        depth,
        kind,
        beta is not None and bool(beta[0] < 0),
        what.marks,
    )
    sizes = {
        "height": rows.size,
        "width": columns.size,
        "height_out": rows.length,
        "width_out": columns.length,
        "down": bands,
        "across": parts,
        "tile_rows": tile_rows,
        "tile_columns": tile_columns,
        "groups_down": groups_down,
        "groups_across": groups_across,
        "inside": columns.length - lanes - high,
        **divides[1],
        **({} if beta is None else {"beta": address(beta)}),
    }
    items = planes * bands * parts
    cells = tile_rows * tile_columns * rows.stride * columns.stride * depth
    call = Call(compiled(phases.emit, how), sizes, items, grain(items, cells))
    held = (*divides[2], *([] if beta is None else [beta]))
    source = "from copied rows" if lines else "in registers"
    reason = f"near windows: {lanes} cells at a time gather from those that read them, {source}"
    return Step(call, (), reason, held, walk_of(phases.emit))


def channels_step(
    own: Sequence[Sliding], planes: int, inner: int, what: Gather, divides: Divided = NOT_DIVIDED
) -> Step:
    """The kernel by which each cell gathers, over two axes of windows behind which cells lie."""
    rows, columns = own
    lanes = power(VECTOR // working(what.cell).size, inner)
    before = rows.before, columns.before
    how = channels.Channels(
        (what.cell, what.beside), what.result, known_window(rows), known_window(columns), lanes, 1, before, divides[0]
    )
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    sizes = {
        "height": rows.size,
        "width": columns.size,
        "height_out": rows.length,
        "width_out": columns.length,
        "inner": inner,
        "groups": groups_down,
        "groups_across": groups_across,
        **divides[1],
    }
    items, cells = planes * groups_down, rows.stride * columns.size * inner
    call = Call(compiled(channels.emit_back, how), sizes, items, grain(items, cells))
    reason = f"near windows: cells gather from those that read them, lanes along the {inner} cells behind each"
    return Step(call, (), reason, divides[2], walk_of(channels.emit_back))


def _phase_lanes(columns: Sliding, reach: tuple[int, int], what: Gather, divides: str) -> tuple[int, bool]:
    """The lanes that fill a row of cells, and whether rows of windows are copied: where they are short, or not taken as they are."""
    low, high = reach
    whole = columns.size // columns.stride
    behind = whole + high - columns.length
    widest = lanes = min(VECTOR // working(what.cell).size, max(64 // columns.stride, 1))
    if working(what.cell) is what.cell and divides != "each" and behind <= high - low:
        while lanes * what.cell.size >= 16:
            is_long = min(whole, columns.length) >= lanes + high - low
            if is_long and max(-low, 0) + max(behind, 0) <= lanes:
                return lanes, False
            lanes //= 2
    reads_cells = what.term in ("equal", "softmax")  # where they are written
    return power(widest, whole) if reads_cells else widest, True


def _least_windows(columns: Sliding, tile_columns: int, parts: int) -> int:
    """The fewest windows of a row that a tile reads."""
    low, high = phases.span(phases.readers(known_window(columns), columns.before))
    groups = -(-columns.size // columns.stride)
    counts = []
    for part in range(parts):
        left, right = part * tile_columns, min((part + 1) * tile_columns, groups)
        counts.append(min(right + high, columns.length) - max(left + low, 0))
    return max(min(counts), 1)


def tiles_planes(axes: Sequence[Axis]) -> bool:
    """Whether each plane of the first of three axes is read by exactly one window, of few planes."""
    first = axes[0]
    if len(axes) != 3 or not isinstance(first, Sliding) or first.before or first.dilation > 1:
        return False
    return first.kernel == first.stride <= NEAR and first.kernel * first.length == first.size


def weights_step(own: Sequence[Sliding], planes: int, cell: Cell, term: str, beta: Array | None = None) -> Step:
    """The kernel that adds up what the cells of a window bring, times their weights; windows lie inside of the array."""
    columns = own[-1]
    rows = own[0] if len(own) == 2 else Sliding(planes, 1)
    planes = planes if len(own) == 2 else 1
    down, across = known_window(rows), known_window(columns)
    lanes = min(VECTOR // working(cell).size, max(64 // columns.stride, 1))
    lanes = power(lanes, columns.length) if columns.extent >= columns.stride else 1
    how = weights.Weights(term, cell, cell, down, across, lanes)
    sizes = {
        "height": rows.size,
        "width": columns.size,
        "height_out": rows.length,
        "width_out": columns.length,
        **({} if beta is None else {"beta": address(beta)}),
    }
    items, cells = planes * rows.length, columns.size * rows.stride * down.taps
    call = Call(compiled(weights.emit, how), sizes, items, grain(items, cells))
    return Step(call, (), "weighted sums over windows", () if beta is None else (beta,), walk_of(weights.emit))
