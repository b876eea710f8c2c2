"""Means of narrow integers by one kernel: exact, and cut towards zero after each axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..memory import room
from .arguments import Array, Line
from .edges import source

NARROW = ("uint8", "int8", "uint16", "int16")
BAND = 64
"""Rows of a band, at least, unless that is all there are."""


def integer_mean(x: Array, lines: Sequence[Line], cval: float) -> Array | None:
    """The means over lines, one after the other; None where the kernel does not take them."""
    if x.dtype == np.bool_:
        made = integer_mean(x.view(np.uint8), lines, cval) if cval in (0, 1) else None
        return None if made is None else made.view(np.bool_)
    if x.dtype.name not in NARROW or not all(_fits(x.dtype, line, cval) for line in lines):
        return None
    from ..engines.cpu.codegen import CodegenError

    filling = int(cval) if any(line.mode == "constant" for line in lines) else 0
    x, rest = np.ascontiguousarray(x), list(lines)
    last = x.ndim - 1
    while rest:
        line = rest.pop(0)
        rows, columns = (None, line) if line.axis == last else (line, None)
        if rest and (line.axis, rest[0].axis) == (last - 1, last):
            columns = rest.pop(0)
        start = line.axis if rows else last
        stop = start + 1 if rows else last
        planes = math.prod(x.shape[:start]) if rows else 1
        height = x.shape[start] if rows else math.prod(x.shape[:last])
        y = room(x.shape, x.dtype)
        try:
            step = _step(x.dtype.name, (planes, height, math.prod(x.shape[stop:])), rows, columns, filling)
        except CodegenError:
            return None
        step.call(x, y)
        x = y
    return x


def _fits(dtype: np.dtype[Any], line: Line, cval: float) -> bool:
    """Whether sums of a line fit into 32 bits, and cells have the filling."""
    about = np.iinfo(dtype)
    is_held = line.mode != "constant" or (about.min <= cval <= about.max and cval.is_integer())
    return is_held and line.size * (about.max + 1) < 1 << 31


@functools.lru_cache(maxsize=64)
def _step(name: str, shape: tuple[int, int, int], rows: Line | None, columns: Line | None, cval: int) -> Any:
    """The kernel of means over planes of this shape, with its tables."""
    from ..engines.cpu import limits, steps
    from ..engines.cpu.codegen.values import CELLS
    from ..engines.cpu.emitters import moving_mean

    planes, height, width = shape
    cell, taps = CELLS[name], [1 if line is None else line.size for line in (rows, columns)]
    largest = max(taps) * (int(np.iinfo(name).max) + 1)
    total = CELLS[("int" if cell.signed else "uint") + ("16" if largest < 1 << (15 if cell.signed else 16) else "32")]
    lanes = steps.power(limits.VECTOR // total.size, width)
    bands = max(height // max(BAND, 4 * taps[0]), 1)
    is_filled = [line is not None and line.mode == "constant" for line in (rows, columns)]
    tables = {
        "rows": _places(
            rows, np.arange(height) if rows is None else np.arange(-rows.before, height + rows.after), height
        ),
        "columns": _places(columns, _beyond(columns, width), width),
        "filling": np.full(width if any(is_filled) else lanes, cval if any(is_filled) else 0, name),
    }
    band = -(-height // bands)
    pitch = -(-(width + taps[1] + 2 * lanes) // 64) * 64
    given: dict[str, Any] = {**tables, "height": height, "width": width, "pitch": pitch}
    given |= {"band": band, "bands": -(-height // band), "before": 0 if columns is None else columns.before}
    how = moving_mean.MovingMean(cell, total, taps[0], taps[1], lanes)
    items, scratch = planes * given["bands"], 3 * pitch * total.size
    some = max(1, min(BAND * 256 // max(band * width, 1), -(-items // 64)))
    return steps.step(moving_mean.emit, how, given, items, some, "sums that move", scratch)


def _beyond(line: Line | None, length: int) -> Array:
    """The places beyond both ends of an axis."""
    return np.empty(0, np.int64) if line is None else np.r_[-line.before : 0, length : length + line.after]


def _places(line: Line | None, places: Array, length: int) -> Array:
    """The cell that stands for each place, or -1 for the filling."""
    if line is None or line.mode != "constant":
        return np.ascontiguousarray(places if line is None else source(line.mode, length, places), np.int64)
    return np.where((places >= 0) & (places < length), places, -1).astype(np.int64)
