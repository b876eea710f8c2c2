"""The axes of windows in the form that kernels use: windows of one size, bins, and axes of a
VJP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...geometry import Adaptive, Axis, Ranges, Sliding
from ...memory import Array
from . import limits
from .emitters.windows import Window


def even(axis: Axis) -> Axis:
    """An axis of bins that divide it evenly as the sliding axis that it is."""
    if isinstance(axis, Adaptive) and axis.length and axis.size % axis.length == 0:
        return Sliding(axis.size, axis.size // axis.length, axis.size // axis.length)
    return axis


def is_whole(axis: Axis) -> bool:
    """Whether the one window of an axis is all of it."""
    if isinstance(axis, Sliding):
        return axis.length == 1 and axis.kernel == axis.size and not axis.before and axis.dilation == 1
    return isinstance(axis, Adaptive) and axis.length == 1


def flattened(axes: Sequence[Axis], inner: int, size: int) -> tuple[tuple[Axis, ...], int]:
    """Axes behind which few cells of so many bytes lie, and how many: where the last axis moves by
    single cells, the same as one axis whose taps lie `inner` apart, with nothing behind it."""
    last = axes[-1]
    if 1 < inner < limits.LANES // size and isinstance(last, Sliding) and last.stride == 1:
        after = last.length + last.extent - 1 - last.size - last.before
        before, after, dilation = (inner * n for n in (last.before, after, last.dilation))
        flat = Sliding(inner * last.size, last.kernel, 1, before, after, dilation)
        if window_of(flat) is not None:
            return (*axes[:-1], flat), 1
    return tuple(axes), inner


def nominal(axis: Axis) -> int:
    """How many taps the codes of an axis tell apart."""
    return axis.most_taps if isinstance(axis, Sliding | Adaptive) else int(axis.ranges().count.max(initial=1))


def window_of(axis: Axis) -> Window | None:
    """An axis of windows of one size, if they are not too large; None for bins."""
    if not isinstance(axis, Sliding) or axis.kernel > limits.UNROLLED or axis.extent > limits.REACH:
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
    """An axis read backwards: its windows are the cells of `axis`, and each reads the windows that
    read it."""

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
    """The axis whose sums are the adjoint of this one's, which is `even`."""
    if isinstance(axis, Adaptive) or axis.stride > 1:
        return Reversed(axis)
    before = axis.extent - 1 - axis.before
    after = axis.size - 1 + axis.extent - axis.length - before
    return Sliding(axis.length, axis.kernel, 1, before, after, axis.dilation)


def adjoint_axes(axes: Sequence[Axis]) -> tuple[Any, ...]:
    """The axes whose sums are the adjoint of these ones'. Where one of the last two goes by runs of
    cells, both do."""
    # of one window that is all of an axis, the stride says nothing
    own = [even(Adaptive(axis.size, 1) if is_whole(axis) else axis) for axis in axes]
    made, runs = [reversed_axis(axis) for axis in own], [Reversed(axis) for axis in own[-2:]]
    far = [axis for axis in made[-2:] if isinstance(axis, Reversed) and not in_phases(axis)]
    if far and all(map(in_runs, runs)):
        made[-2:] = runs
    return tuple(made)


def in_phases(axis: Any) -> bool:
    """Whether cells of an axis that is read backwards are better gathered by phases."""
    own = axis.axis if isinstance(axis, Reversed) else axis
    return isinstance(own, Sliding) and own.stride <= limits.NEAR and own.kernel <= 8 and own.extent <= limits.REACH


def in_runs(axis: Any) -> bool:
    """Whether the windows that read a cell of an axis lie side by side."""
    return isinstance(axis, Reversed) and axis.ranges().step == 1


def are_full(axis: Axis) -> bool:
    """Whether all windows of an axis have cells, side by side."""
    ranges = axis.ranges()
    return ranges.step == 1 and bool((ranges.count > 0).all())


def readers_of_a_cell(axis: Axis) -> float:
    """How many windows of an axis read a cell, on average."""
    return float(axis.ranges().count.sum()) / max(axis.size, 1)


def whole_windows(axis: Axis) -> tuple[int, int]:
    """Where the windows of one size begin and end all of whose taps are cells."""
    assert isinstance(axis, Sliding)
    whole = np.flatnonzero(axis.ranges().count == axis.kernel)
    return (int(whole[0]), int(whole[-1]) + 1) if whole.size else (0, 0)


def is_apart(axis: Axis) -> bool:
    """Whether the windows of an axis share no cell and lie inside of it."""
    window = window_of(axis)
    if not isinstance(axis, Sliding) or window is None:
        return False
    return axis.before == 0 and not window.padded and window.extent <= window.stride


def runs_of(axis: Any) -> Array:
    """Runs of cells that the same windows read: the first cell, the end, the first window and how
    many there are."""
    ranges = axis.ranges()
    first, count = ranges.first, np.maximum(ranges.count, 0)
    changes = np.flatnonzero((np.diff(first, prepend=first[:1] - 1) != 0) | (np.diff(count, prepend=-1) != 0))
    table = [changes, np.append(changes[1:], first.size), first[changes], count[changes]]
    return np.ascontiguousarray(np.stack(table, axis=1), np.int64)


def rows_of(axes: Sequence[Any], planes: int) -> tuple[Any, int]:
    """The axis of rows of so many planes, of one or more axes, and how many planes there are: lines
    are the rows of one plane."""
    return (axes[-2], planes) if len(axes) > 1 else (Sliding(planes, 1), 1)


def tiles_planes(axes: Sequence[Axis]) -> bool:
    """Whether each plane of the first of three axes is read by one window, of few planes."""
    first = axes[0]
    if len(axes) != 3 or not isinstance(first, Sliding) or first.before or first.dilation > 1:
        return False
    return first.kernel == first.stride <= limits.NEAR and first.kernel * first.length == first.size


def least_read(count: int, part: int, stride: int, reach: tuple[int, int], size: int) -> int:
    """The fewest of `size` cells that a part of a row of so many places reads, where place i reads
    those from i·stride + reach[0] to i·stride + reach[1], as far as they are real."""
    lefts = range(0, max(count, 1), max(part, 1))
    ends = [(left * stride + reach[0], (min(left + part, count) - 1) * stride + reach[1]) for left in lefts]
    return max(1, min(min(size, last + 1) - max(0, first) for first, last in ends))


def direct_lanes(size: int, columns: Axis) -> int:
    """The lanes of vectors of windows, of cells of so many bytes, that rows are long enough for; 0
    if they are not, or windows lie far apart."""
    assert isinstance(columns, Sliding)
    window, lanes = known_window(columns), limits.VECTOR // size
    if window.stride > min(limits.NEAR, window.extent):
        return 0
    while not _fits(columns, window, overhang(columns), lanes):
        lanes //= 2
        if lanes * size < 16:
            return 0
    return lanes


def _fits(columns: Sliding, window: Window, behind: int, lanes: int) -> bool:
    """Whether rows of windows hold vectors of so many: each has padding at one end at most."""
    cells, apart = lanes * window.stride, (columns.length - lanes) * window.stride
    if columns.length < lanes:
        return False
    if columns.before > 0 and (max(cells, cells - window.stride + window.extent - columns.before) > columns.size):
        return False
    if behind > 0 and (cells > columns.size or columns.size + columns.before < cells - window.stride + window.extent):
        return False
    is_single = not apart and not behind > 0
    return is_single or (apart >= columns.before and columns.before + max(behind, 0) <= cells)


def row_lanes(columns: Sliding, lanes: int) -> int:
    """The lanes of one or two registers of so many that hold a row, and where its windows begin; 0
    if a row is too long, or so short that it is not worth it."""
    most = max(columns.size, (columns.length - 1) * columns.stride + 1)
    held = 1 << (most - 1).bit_length()
    fits = columns.size >= 4 and held <= 2 * lanes <= 32 and columns.kernel > 1 and columns.before >= 0
    return held if fits else 0
