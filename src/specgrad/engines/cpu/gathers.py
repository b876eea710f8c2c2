"""The numbers of kernels by which cells gather from windows, or windows from weighted cells."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...geometry import Axis, Sliding
from . import limits
from .axes import edges, even, known_window, nominal, rows_of
from .codegen.builder import CELLS, Cell
from .codegen.combine import working
from .codegen.thread_pool import address
from .emitters import channels, phases, weights, winners
from .steps import NOT_DIVIDED, Divided, Step, cut, grain, plane, power, step, tiled

Array = npt.NDArray[Any]


class Gather(NamedTuple):
    """What each cell gathers from the windows that read it: see `phases`."""

    term: str
    cell: Cell
    result: Cell
    beside: Cell | None = None
    beta: Array | None = None
    marks: bool = False


def phases_step(own: Sequence[Sliding], planes: int, what: Gather, divides: Divided = NOT_DIVIDED) -> Step:
    """The kernel by which each cell gathers, over the last two axes of windows, or one, or three of
    which the first share no plane."""
    columns, kind, beta = own[-1], divides[0], what.beta
    rows, planes = rows_of(own, planes)
    depth, planes = (own[0].kernel, planes * own[0].length) if len(own) == 3 else (1, planes)
    down, across = known_window(rows), known_window(columns)
    low, high = phases.span(phases.readers(across, columns.before))
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    whole, rest = divmod(columns.size, columns.stride)
    behind = whole + high - columns.length
    lanes, lines = _phase_lanes(columns, (low, high), what, kind)
    tile_columns, parts = cut(groups_across, -(-groups_across // max(limits.TILE, 8 * lanes)))
    if groups_across - (parts - 1) * tile_columns - (1 if rest else 0) < lanes + high - low:
        parts, tile_columns = 1, groups_across
    most = max(1, min(groups_down, limits.LINES // 2 // max(tile_columns, 1)))
    if planes < 32:
        most = min(most, max(4 * down.shared, -(-groups_down * planes // 32)))
    tile_rows, bands = cut(groups_down, -(-groups_down // most))
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
        max(1, min(limits.TOTALS // totals, tile_rows)),
        lanes,
        lines,
        0 if lines else behind,
        power(lanes, _least_windows(columns, tile_columns, parts)) if lines else 1,
        depth,
        kind,
        beta is not None and bool(beta[0] < 0),
        what.marks,
    )
    sizes = {
        **tiled(rows, columns, (tile_rows, tile_columns), (bands, parts)),
        "groups_down": groups_down,
        "groups_across": groups_across,
        "inside": columns.length - lanes - high,
        **divides[1],
        **({} if beta is None else {"beta": address(beta)}),
    }
    items = planes * bands * parts
    cells = tile_rows * tile_columns * rows.stride * columns.stride * depth
    held = (*divides[2], *([] if beta is None else [beta]))
    source = "from copied rows" if lines else "in registers"
    reason = f"near windows: {lanes} cells at a time gather from those that read them, {source}"
    return step(phases.emit, how, sizes, items, grain(items, cells), reason, held)


def fills_vectors(columns: Sliding, taps: int, what: Gather) -> bool:
    """Whether cells that gather are faster than a scatter: rows of windows are long enough to be
    read where they lie, and vectors of cells look at few taps per window."""
    reach = phases.span(phases.readers(known_window(columns), columns.before))
    lanes, lines = _phase_lanes(columns, reach, what._replace(cell=working(what.cell)), "no")
    groups = -(-columns.size // columns.stride)
    return not lines and taps * -(-groups // lanes) <= limits.DENSE * groups


def channels_step(
    own: Sequence[Sliding], planes: int, inner: int, what: Gather, divides: Divided = NOT_DIVIDED
) -> Step:
    """The kernel by which each cell gathers, over two axes of windows behind which cells lie."""
    rows, columns = own
    lanes = power(limits.VECTOR // working(what.cell).size, inner)
    before = rows.before, columns.before
    how = channels.Channels(
        (what.cell, what.beside), what.result, known_window(rows), known_window(columns), lanes, 1, before, divides[0]
    )
    groups_down, groups_across = -(-rows.size // rows.stride), -(-columns.size // columns.stride)
    sizes = {
        **plane(rows, columns),
        "inner": inner,
        "groups": groups_down,
        "groups_across": groups_across,
        **divides[1],
    }
    items, cells = planes * groups_down, rows.stride * columns.size * inner
    reason = f"near windows: cells gather from those that read them, lanes along the {inner} cells behind each"
    return step(channels.emit_back, how, sizes, items, grain(items, cells), reason, divides[2])


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


def _least_windows(columns: Sliding, tile_columns: int, parts: int) -> int:
    """The fewest windows of a row that a tile reads."""
    low, high = phases.span(phases.readers(known_window(columns), columns.before))
    groups = -(-columns.size // columns.stride)
    tiles = edges(groups, tile_columns, parts)
    return max(min(min(right + high, columns.length) - max(left + low, 0) for left, right in tiles), 1)


def weights_step(own: Sequence[Sliding], planes: int, cell: Cell, term: str, beta: Array | None = None) -> Step:
    """The kernel that adds up what the cells of a window bring, times their weights; windows lie
    inside of the array."""
    columns = own[-1]
    rows, planes = rows_of(own, planes)
    down, across = known_window(rows), known_window(columns)
    lanes = min(limits.VECTOR // working(cell).size, max(64 // columns.stride, 1))
    lanes = power(lanes, columns.length) if columns.extent >= columns.stride else 1
    how = weights.Weights(term, cell, cell, down, across, lanes)
    sizes = {
        **plane(rows, columns),
        **({} if beta is None else {"beta": address(beta)}),
    }
    items, cells = planes * rows.length, columns.size * rows.stride * down.taps
    held = () if beta is None else (beta,)
    return step(weights.emit, how, sizes, items, grain(items, cells), "weighted sums over windows", held)


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
    base = functools.reduce(lambda one, two: np.add.outer(one, two).reshape(-1), starts)
    if what != "index" and 1 < inner < limits.LANES // cell.size:  # few cells behind a place are places themselves
        base = np.add.outer(base * inner, np.arange(inner)).reshape(-1)
        by, size, inner = [inner * step for step in by], size * inner, 1
    base = base.astype(kind)
    lanes = power(limits.VECTOR // np.dtype(kind).itemsize, inner if inner > 1 else len(base))
    several = what == "scatter" and working(cell) is cell and not blank and inner == 1
    at_once = (4 if 4 * size * cell.size <= limits.NEAREST else 2) if several else 1
    how = winners.Winners(what, cell, codes, tuple(map(nominal, own)), lanes, inner > 1, blank, CELLS[kind], at_once)
    numbers = {"windows": len(base), "cells": size, "base": address(base)}
    numbers |= {f"step_{i}": one.step * step for i, (one, step) in enumerate(zip(ranges, by, strict=True))}
    numbers |= {"inner": inner} if inner > 1 else {}
    scratch = 4 * size * inner if how.widens else 0
    some = max(grain(planes, size * inner), min(how.planes, planes // 32))
    names, reason = ("codes", "source", "target"), f"{what} by the codes of winners"
    return step(winners.emit, how, numbers, planes, some - some % how.planes or some, reason, (base,), names, scratch)
