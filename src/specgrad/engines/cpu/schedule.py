"""The choice of the kernels that reduce the windows of an operator, and their order.

`passes` sets the parameters of each walk, `limits` has the thresholds.

Windows are products of axes, and sum, maximum and argmax are associative, so an N-D window is a
chain of passes: the last two axes together, then each axis before them. Each pass reads and writes
a contiguous array.

| windows | walk |
|---|---|
| small, over planes with contiguous rows | `direct`: in registers |
| of one size, over such planes | `tiles`: rows first, so that order is kept |
| of all sizes (adaptive, whole), over such planes | `bins`: columns first, so that lanes are full |
| of small overlap, over axes that are followed by channels | `bins`: the same, rows with channels |
| VJP of windows of one size with small strides | `phases`: each cell gathers |
| VJP of bins, and of windows far apart | `runs`: cells with the same windows are written together |
| small, over axes that are followed by channels, and VJP | `channels`: lanes along channels |
| over an axis that is followed by channels, outer axes | `along`, axis by axis, lanes along
channels |

If windows have stride 1 along an axis followed by few channels, the channels become cells of that
axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...geometry import Axis
from ...memory import Array
from . import limits
from .axes import (
    Reversed,
    are_full,
    direct_lanes,
    even,
    flattened,
    in_phases,
    in_runs,
    is_apart,
    is_whole,
    nominal,
    readers_of_a_cell,
    tiles_planes,
    window_of,
)
from .passes import Fold, Planner
from .steps import Chain, Divisors

Pass = tuple[str, int]
"""A walk, and how many axes it folds."""


def chain(fold: Fold, divisors: Divisors | None = None, beta: Array | None = None) -> Chain:
    """The kernels of a fold."""
    axes, inner = flattened(tuple(map(even, fold.axes)), fold.inner, fold.cell.size)
    fold = fold._replace(inner=inner)
    is_uneven = divisors is not None and divisors.columns is not None
    first = over_planes(fold, axes, is_uneven) if fold.inner == 1 else behind(fold, axes)
    done = sum(count for _, count in first)
    return Planner(fold, axes, divisors, beta).plan([*first, *[("along", 1)] * (len(axes) - done)])


def over_planes(fold: Fold, axes: Sequence[Axis], is_uneven: bool) -> list[Pass]:
    """The first pass over planes whose columns lie side by side; none where it goes axis by
    axis."""
    count = min(len(axes), 2)
    last = axes[-count:]
    if any(isinstance(axis, Reversed) for axis in last):
        return backwards(axes, count)
    keeps_order = not fold.what.startswith("lse")  # or may do without, as `bins` does
    if keeps_order and all(map(is_whole, axes)) and axes[-1].size > 1:
        return [("whole", len(axes))]
    if is_small(fold, last, limits.SMALL) and direct_lanes(fold.cell.size, last[-1]):
        several = len(axes) > 2 and is_apart(axes[-3]) and not is_uneven  # divisors are by row of the first axis
        return [("direct", count + several)]
    windows = [window_of(axis) for axis in last]
    is_sliding, apart = all(windows), windows[-1].stride if windows[-1] else 0
    if is_sliding and not (apart > limits.NEAR and keeps_order):
        return [("tiles", count)]
    if keeps_order and all(map(are_full, last)):
        return [("bins", count)]
    return [("tiles", count)] if is_sliding and apart <= limits.FAR else []


def behind(fold: Fold, axes: Sequence[Axis]) -> list[Pass]:
    """The first pass over axes behind which cells lie; none where it goes axis by axis."""
    last = axes[-2:]
    if len(last) < 2:
        return []
    if fold.inner * fold.cell.size >= limits.LANES:
        if all(isinstance(axis, Reversed) and in_phases(axis) for axis in last):
            return [("channels_back", 2)]
        if is_small(fold, last, limits.NEIGHBOURS):
            return [("channels", 2)]
    reads_few = math.prod(map(readers_of_a_cell, last)) <= limits.AGAIN and nominal(last[0]) <= limits.ROWS
    keeps_order = not fold.what.startswith("lse")
    return [("bins", 2)] if keeps_order and reads_few and all(map(are_full, last)) else []


def is_small(fold: Fold, axes: Sequence[Axis], most: int) -> bool:
    """Whether windows have few taps, and are folded in their own type with nothing to look out
    for."""
    windows = [window_of(axis) for axis in axes]
    if not all(windows) or not fold.is_plain:
        return False
    apart = windows[-1].stride if windows[-1] and fold.inner == 1 else 1  # where lanes run along windows
    return math.prod(window.taps for window in windows if window) * apart <= most


def backwards(axes: Sequence[Any], count: int) -> list[Pass]:
    """The first pass of the way back through the last axes; none where it goes axis by axis."""
    last = axes[-count:]
    if all(map(in_phases, last)):
        return [("phases", 3 if tiles_planes([getattr(axis, "axis", axis) for axis in axes[-3:]]) else count)]
    return [("runs", count)] if all(map(in_runs, last)) else []
