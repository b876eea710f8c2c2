"""Parameters of the kernels in which cells gather from windows, or windows from weighted cells."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...geometry import Axis, Sliding, strides
from ...memory import Array
from . import limits
from .axes import even, known_window, least_read, nominal, rows_of
from .codegen.combine import working
from .codegen.values import CELLS, Cell
from .emitters import channels, flat, phases, weights, winners
from .emitters.phases import Gather
from .steps import NOT_DIVIDED, Divided, Step, cut, grain, plane, power, step, tiled


def phases_step(own: Sequence[Sliding], planes: int, what: Gather, beside: Divided = NOT_DIVIDED) -> Step:
    """The kernel by which each cell gathers, over the last two axes of windows, or one, or three of
    which the first share no plane. `beside`: how it divides, and its tables, β among them."""
    columns, kind = own[-1], beside[0]
    rows, planes = rows_of(own, planes)
    depth, planes = (own[0].kernel, planes * own[0].length) if len(own) == 3 else (1, planes)
    down, across = known_window(rows), known_window(columns)
    low, high = phases.span(phases.readers(across, columns.before))
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    whole, rest = divmod(columns.size, columns.stride)
    behind = whole + high - columns.length
    lanes, lines = _phase_lanes(columns, (low, high), what, kind)
    least = lanes + high - low + (1 if rest else 0)
    tile_columns, parts = cut(groups_across, -(-groups_across // max(limits.TILE, 8 * lanes)), least)
    most = max(1, min(groups_down, limits.LINES // 2 // max(tile_columns, 1)))
    if planes < 32:
        most = min(most, max(4 * down.shared, -(-groups_down * planes // 32)))
    tile_rows, bands = cut(groups_down, -(-groups_down // most))
    totals = rows.stride * columns.stride * (depth if what.term == "code" else 1)
    how = phases.Phases(
        what,
        down,
        across,
        (rows.before, columns.before),
        (tile_rows, -(-tile_columns // lanes) * lanes),
        (rows.size % rows.stride, rest),
        max(1, min(limits.TOTALS // totals, tile_rows)),
        lanes,
        lines,
        0 if lines else behind,
        power(lanes, least_read(groups_across, tile_columns, 1, (low, high), columns.length)) if lines else 1,
        depth,
        kind,
    )
    sizes = {
        **tiled(rows, columns, (tile_rows, tile_columns), (bands, parts)),
        "groups_down": groups_down,
        "groups_across": groups_across,
        "inside": columns.length - lanes - high,
        **beside[1],
    }
    items = planes * bands * parts
    cells = tile_rows * tile_columns * rows.stride * columns.stride * depth
    source = "from copied rows" if lines else "in registers"
    reason = f"small strides: {lanes} cells at a time gather from the windows that read them, {source}"
    return step(phases.emit, how, sizes, items, grain(items, cells), reason)


def fills_vectors(columns: Sliding, taps: int, what: Gather) -> float:
    """How full vectors of the cells of a row are; 0 where a scatter is faster: rows of windows are
    too short to be read where they lie, or vectors look at many taps per window."""
    reach = phases.span(phases.readers(known_window(columns), columns.before))
    lanes, lines = _phase_lanes(columns, reach, what._replace(cell=working(what.cell)), "no")
    groups = -(-columns.size // columns.stride)
    vectors = -(-groups // lanes)
    widest = limits.VECTOR // working(what.cell).size
    return 0 if lines or taps * vectors > limits.DENSE * groups else groups / (vectors * widest)


def flat_step(own: Sequence[Sliding], planes: int, inner: int, cell: Cell, codes: Cell) -> Step | None:
    """The kernel by which each cell gathers what it won, a plane at a time as one row; None where
    planes are large, or cells look at many taps per window."""
    axes = (*own, Sliding(inner, 1))
    sizes, lengths = ([getattr(axis, name) for axis in axes] for name in ("size", "length"))
    pitches = [max(axis.size, (axis.length - 1) * axis.stride + 1) for axis in axes]
    steps, pitched, taps = strides(tuple(pitches)), math.prod(pitches), math.prod(axis.kernel for axis in axes)
    widest = limits.VECTOR // working(cell).size
    window_row, windows_at = rows_in(lengths, [step * axis.stride for step, axis in zip(steps, axes, strict=True)])
    vectors = taps * -(-pitched // widest) + 3 * len(windows_at)  # that are looked at, and copied
    if vectors > limits.FLAT * math.prod(lengths) or pitched * working(cell).size > limits.PLANE:
        return None
    cell_row, cells_at = rows_in(sizes, steps)
    distances = sums_of(
        [(np.arange(axis.kernel) * axis.dilation - axis.before) * step for step, axis in zip(steps, axes, strict=True)]
    )
    before, behind = max(int(distances.max()), 0), max(-int(distances.min()), 0)
    span = -(-(before + pitched + behind) // 64) * 64
    several = [power(many * widest, pitched) for many in (4, 2, 1)]  # whose sums do not wait for each other
    how = flat.Flat(
        cell,
        codes,
        taps,
        min(several, key=lambda lanes: -(-pitched // lanes) * lanes),
        power(widest, window_row),
        power(widest, cell_row) if pitches != sizes else 0,
        span,
        4 if 4 * span * cell.size <= limits.NEAREST else 1,
    )
    given: dict[str, int | Array] = {
        "distances": distances,
        "windows_at": windows_at,
        "cells_at": cells_at,
        "before": before,
    }
    given |= {"window_rows": len(windows_at), "window_row": window_row, "pitched": pitched}
    given |= {"cell_rows": len(cells_at), "cell_row": cell_row, "cells": math.prod(sizes)}
    reason = f"small planes: {how.lanes} cells of a plane at a time gather what they won"
    return step(flat.emit, how, given, planes, grain(planes, pitched), reason)


def sums_of(parts: Sequence[Array]) -> Array:
    """The sums of one number of each part, in row-major order."""
    return functools.reduce(lambda one, two: np.add.outer(one, two).reshape(-1), parts, np.zeros(1, np.int64))


def rows_in(counts: Sequence[int], steps: Sequence[int]) -> tuple[int, Array]:
    """A box of so many cells along each axis, which lie such steps apart, as rows in one piece: how
    long these are, and where each begins."""
    row, outer = 1, len(counts)
    while outer and (counts[outer - 1] == 1 or steps[outer - 1] == row):
        outer -= 1
        row *= counts[outer]
    return row, sums_of([np.arange(count) * step for count, step in zip(counts[:outer], steps[:outer], strict=True)])


def channels_step(
    own: Sequence[Sliding], planes: int, inner: int, what: Gather, divides: Divided = NOT_DIVIDED
) -> Step:
    """The kernel by which each cell gathers, over two axes of windows behind which cells lie."""
    rows, columns = own
    lanes = power(limits.VECTOR // working(what.cell).size, inner)
    before = rows.before, columns.before
    how = channels.Channels(
        what, what.result, divides[0], known_window(rows), known_window(columns), lanes, before=before
    )
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    sizes = plane(rows, columns) | {"inner": inner, "groups": groups_down, "groups_across": groups_across} | divides[1]
    items, cells = planes * groups_down, rows.stride * columns.size * inner
    reason = f"small strides: cells gather from the windows that read them, vectors along the {inner} inner cells"
    return step(channels.emit_back, how, sizes, items, grain(items, cells), reason)


def _phase_lanes(columns: Sliding, reach: tuple[int, int], what: Gather, divides: str) -> tuple[int, bool]:
    """The lanes that fill a row of cells, and whether rows of windows are copied: where they are
    short, or not taken as they are."""
    low, high = reach
    whole = columns.size // columns.stride
    behind = whole + high - columns.length
    widest = lanes = min(limits.VECTOR // working(what.cell).size, max(64 // columns.stride, 1))
    if working(what.cell) is what.cell and divides != "each" and behind <= high - low:
        while lanes * what.cell.size >= 16:
            is_long = min(whole, columns.length) >= lanes + high - low
            if is_long and max(-low, 0) + max(behind, 0) <= lanes:
                return lanes, False
            lanes //= 2
    return power(widest, whole), True


def weights_step(own: Sequence[Sliding], planes: int, cell: Cell, term: str, beta: Array | None = None) -> Step:
    """The kernel that adds up what the cells of a window bring, times their weights; windows lie
    inside of the array."""
    columns = own[-1]
    rows, planes = rows_of(own, planes)
    down, across = known_window(rows), known_window(columns)
    lanes = min(limits.VECTOR // working(cell).size, max(64 // columns.stride, 1))
    lanes = power(lanes, columns.length) if columns.extent >= columns.stride else 1
    how = weights.Weights(term, cell, down, across, lanes)
    items, cells = planes * rows.length, columns.size * rows.stride * down.taps
    given = plane(rows, columns) | ({} if beta is None else {"beta": beta})
    return step(weights.emit, how, given, items, grain(items, cells), "weighted sums over windows")


def winners_step(
    what: str, axes: Sequence[Axis], by: Sequence[int], around: tuple[int, int], cells: tuple[Cell, Cell], blank: bool
) -> Step:
    """The kernel that scatters, gathers or numbers the winners of windows by their codes.

    `by` are the steps along the axes of a plane, `around` how many planes there are and cells
    behind each place, `cells` those of the operand and of codes, `blank` whether a window may have
    no winner.
    """
    own, (planes, inner), (cell, codes) = tuple(map(even, axes)), around, cells
    ranges, size = [axis.ranges() for axis in own], math.prod(axis.size for axis in own)
    kind = "int32" if size * inner < 1 << 30 else "int64"
    starts = [one.start * step for one, step in zip(ranges, by, strict=True)]
    base = sums_of(starts)
    if what != "index" and inner > 1 and (inner < limits.LANES // cell.size or len(base) * inner <= limits.PLACES):
        base = sums_of([base * inner, np.arange(inner)])  # cells behind a place are places themselves
        by, size, inner = [inner * step for step in by], size * inner, 1
    base = base.astype(kind)
    lanes = power(limits.VECTOR // np.dtype(kind).itemsize, inner if inner > 1 else len(base))
    several = what == "scatter" and working(cell) is cell and not blank and inner == 1
    is_near = 4 * size * cell.size <= limits.NEAREST
    at_once = 1 if not several else 4 if is_near else 2 if around[1] == 1 else 1
    how = winners.Winners(what, cell, codes, tuple(map(nominal, own)), lanes, inner > 1, blank, CELLS[kind], at_once)
    given: dict[str, Any] = {"windows": len(base), "cells": size, "base": base}
    given |= {f"step_{i}": one.step * step for i, (one, step) in enumerate(zip(ranges, by, strict=True))}
    given |= {"inner": inner} if inner > 1 else {}
    scratch = 4 * size * inner if how.widens else 0
    some = max(grain(planes, size * inner), min(how.planes, planes // 32))
    some = some - some % how.planes or some
    return step(winners.emit, how, given, planes, some, f"{what} by the codes of winners", scratch)
