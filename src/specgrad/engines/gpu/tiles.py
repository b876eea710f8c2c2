"""Tiles: a small model of the geometry says how many rows and columns a program and a lane have; no measurement, no benchmark's shape.

A lane has so many neighbouring columns that it reads sixteen bytes at once where they lie aligned, as far as registers allow what it holds
or carries of each. Rows of windows that move one row at a time are streamed down long segments; others are held, a few at a time.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from ...geometry import Sliding
from .calls import INTERPRETED
from .kernels.rows import LAST
from .plan import Plan, taps_of

LONGEST = 32
"""Rows of a window that are held in registers at most."""
TUNE = {
    "lanes": 128,  # per program
    "lanes inner": 512,  # where neighbours in memory are of the inner batch, so that a thread has sixteen bytes of it
    "taps inner": 9,
    "lanes short": 512,  # where a program has one or two rows only
    "rows small": 8,  # rows of windows per program
    "rows max": 104,  # registers for rows
    "rows winners": 40,
    "rows packed": 104,
    "rows sum": 64,
    "columns max": 8,  # columns of windows per lane, at most
    "columns winners": 4,
    "columns packed": 8,
    "columns sum": 8,
    "vectors max": 1,  # of sixteen bytes per lane
    "vectors winners": 1,
    "vectors packed": 1,
    "vectors sum": 1,
    "columns odd": 4,  # of rows that do not lie aligned
    "columns back": 52,  # columns of cells per lane × rows of windows that each meets
    "one call": 16,  # columns of a window up to which rows are folded in the same call
    "stream": 4,  # rows of a window from which rows are streamed
    "step": 4,  # rows that a program reads before it writes
    "step low": 2,  # of winners of windows of up to five rows
    "step large": 2,  # of windows of more than eight rows
    "segment": 4,  # rows of a program, as a multiple of the window's
    "segment large": 9,
    "segment least": 28,
    "cells smooth": 32,  # cells in registers
    "back small": 8,  # rows of cells per program
    "back weights": 8,
    "matches": 512,  # of cells with windows, in one step
    "rows bins": 28,
    "rows collect": 16,
    "rows collect, overlapping": 8,
    "fill": 1024,  # cells of four bytes that a program of whole planes fills at once
    "chunks": 8,  # and how often
    "unroll": 1,
    "tile max": 512,  # taps that a program of `reduce` reads at once
    "tile sum": 1024,
    "tile across max": 4096,  # where neighbours in memory are of different windows
    "tile across sum": 2048,
    "taps across max": 256,
    "taps across sum": 128,
    "warps across": 8,
    "taps max": 8,  # of one window, where windows are small
    "taps sum": 64,
    "taps large": 1024,  # of four bytes
}
"""The numbers of the model, found by measuring one geometry of each kind on an H200; they are the same for all shapes."""
SMALL = 16
"""Taps of rows and columns up to which a smooth maximum holds all its cells."""
LARGE = 32
"""Taps from which a window that does not slide is reduced by many threads."""

ACCUMULATOR = {torch.float64: tl.float64}
COMPUTED = {torch.float64: torch.float64}


def accumulator(dtype: Any) -> Any:
    return ACCUMULATOR.get(dtype, tl.float32)


def computed(dtype: Any) -> Any:
    """The type in which cells are computed."""
    return COMPUTED.get(dtype, torch.float32)


def code_type(taps: int) -> Any:
    return torch.uint8 if taps <= 255 else torch.int32


def shared_evenly(length: int, most: int, multiple: int = 1) -> tuple[int, int]:
    """(per block, blocks): at most `most` of `length` in a block, the blocks nearly equal."""
    blocks = -(-length // max(most, 1))
    per = -(-length // blocks)
    per = -(-per // multiple) * multiple
    return per, -(-length // per)


def slides(made: Plan) -> bool:
    """Whether rows and columns slide without gaps, over few enough rows to hold."""
    if "slides" not in made.made:
        rows, columns = made.rows, made.columns
        found = False
        if isinstance(rows, Sliding) and isinstance(columns, Sliding):
            found = rows.dilation == columns.dilation == 1 and max(rows.kernel, rows.stride) <= LONGEST
        made.made["slides"] = found
    known: bool = made.made["slides"]
    return known


def plane_taps(made: Plan) -> int:
    return taps_of(made.rows) * taps_of(made.columns)


def counting(op: Any) -> tuple[str, int]:
    """What an average is divided by: ("all", a number), or ("exists" or "real", 1), the taps that do."""
    if getattr(op, "divisor_override", None) is not None:
        return "all", op.divisor_override
    return ("exists" if getattr(op, "count_include_pad", True) else "real"), 1


def divisor(made: Plan) -> tuple[str, int]:
    """As `counting`, but the number itself where all windows have the same."""
    if "divisor" not in made.made:
        how, number = counting(made.op)
        if how != "all":
            field = "existing" if how == "exists" else "count"
            counts = [getattr(axis.ranges(), field) for axis in (*made.depth, made.rows, made.columns)]
            if all(c.size and (c == c[0]).all() for c in counts):
                how, number = "all", max(math.prod(int(c[0]) for c in counts), 1)
        made.made["divisor"] = how, number
    found: tuple[str, int] = made.made["divisor"]
    return found


def scale(made: Plan, kind: str, like: Any) -> Any:
    """The number that a sum is divided by, as a table; anything if there is none."""
    return made.table("scale", like.device) if kind == "sum" else like


def block_of(lanes: int, block: int = 0) -> tuple[int, int]:
    """Lanes per program, and warps."""
    return (block or TUNE["lanes"], 4) if lanes > 64 or not INTERPRETED else (32, 1)


def lanes_of(made: Plan, rows: int) -> int:
    """Lanes per program: four in a thread where it has few rows, or where neighbours in memory are of the inner batch."""
    small = plane_taps(made) <= TUNE["taps inner"]
    return TUNE["lanes inner" if made.inner % 16 == 0 and small else "lanes short" if rows <= 2 else "lanes"]


def block_rows(made: Plan, most: int, columns: int) -> tuple[int, int, int, int, int]:
    """Rows of windows per program, blocks of them, lanes, lanes per program, and warps."""
    per, blocks = shared_evenly(made.rows.length, most)
    lanes = made.outer * columns * made.inner
    block, warps = block_of(lanes)
    return per, blocks, lanes, block, warps


def power_within(*numbers: int) -> int:
    """The largest power of two that divides all numbers."""
    return math.gcd(*numbers) & -math.gcd(*numbers) if any(numbers) else 1 << 30


def below_power(number: int) -> int:
    """The largest power of two that is not greater."""
    return 1 << (max(number, 1).bit_length() - 1)


def packs(made: Plan, kind: str, size: int, low: bool) -> str:
    """"packed" for the winners of half floats, where the codes that a program counts have room beside them."""
    rows: Any = made.rows
    columns: Any = made.columns
    if kind != "winners" or size > 2 or low:
        return kind
    per = max(segments(rows.length, rows.kernel)[0], TUNE["rows small"] * rows.stride)
    reach = (per + rows.kernel * (1 + made.depths[2])) * columns.kernel + TUNE["columns packed"] * columns.stride
    return "packed" if reach < LAST.value else kind


def columns_forward(made: Plan, kind: str, size: int) -> tuple[int, int]:
    """(columns of windows that a lane has, columns of cells that it reads at once)."""
    rows: Any = made.rows
    columns: Any = made.columns
    outer, group, depth, row, column, _ = made.steps
    most = below_power(min(TUNE["rows " + kind] // rows.kernel, columns.length, TUNE["columns " + kind]))
    if made.inner > 1:
        most = min(most, (2 if kind == "winners" and columns.kernel <= 3 else 4) // columns.stride)
        return max(most, 1) if columns.kernel > columns.stride else 1, 1
    together, most_odd = max(16 // size, 1), most
    most = min(most, triton.next_power_of_2(-(-together * TUNE["vectors " + kind] // columns.stride)))
    aligned = power_within(outer, group, depth if made.depth else 0, row, columns.size) if column == 1 else 1
    while most > 1 and (columns.length % most or aligned == 1):
        most //= 2
    if most == 1 and columns.stride == 1 and columns.kernel > 3:
        return min(TUNE["columns odd"], most_odd, below_power(columns.length)), 1
    return most, min(together, aligned, power_within(most * columns.stride))


def columns_backward(made: Plan, kind: str, size: int) -> tuple[int, int]:
    """(columns of cells that a lane has, columns of windows that it reads at once)."""
    columns: Any = made.columns
    stride, readers = columns.stride, -(-made.rows.kernel // made.rows.stride)  # type: ignore[union-attr]
    if stride & (stride - 1) or stride > 8:
        return 1, 1
    overlap = columns.kernel > stride
    if made.inner > 1:
        return (4 if overlap and columns.size >= 4 and stride <= 4 else stride if columns.size >= stride else 1), 1
    most = max(16 // size, 1)
    if kind == "first":
        most = min(most, max(below_power(TUNE["columns back"] // readers), stride))
    while most > 1 and columns.size % most:
        most //= 2
    if most == 1 and stride == 1 and columns.kernel > 3:
        return min(TUNE["columns odd"], below_power(columns.size)), 1
    if most % stride:
        return 1, 1
    return most, power_within(most // stride, columns.length)


def streams(made: Plan) -> bool:
    """Whether rows of windows are streamed: they move one row at a time, and are too high to be held together."""
    rows: Any = made.rows
    return bool(not made.depth and rows.stride == 1 and rows.kernel >= TUNE["stream"])


def step_down(made: Plan, kind: str) -> int:
    """Rows that a program which streams reads before it writes."""
    rows: Any = made.rows
    return TUNE["step large" if rows.kernel > 8 else "step low" if kind == "winners" and rows.kernel < 6 else "step"]


def segments(length: int, taps: int) -> tuple[int, int]:
    """(rows per program, programs): long enough that few rows are read twice."""
    blocks = -(-length // max(TUNE["segment large" if taps > 8 else "segment"] * taps, TUNE["segment least"]))
    per = -(-length // blocks)
    return per, -(-length // per)


def rows_backward(made: Plan, most: int) -> tuple[int, int, int, int]:
    """Rows of cells per program, blocks of them, the padded row that the first starts with, and how many rows of windows read a cell."""
    rows: Any = made.rows
    start = rows.before // rows.stride * rows.stride
    per, blocks = shared_evenly(rows.size + rows.before - start, max(most, rows.stride), rows.stride)
    return per, blocks, start, -(-rows.kernel // rows.stride)
