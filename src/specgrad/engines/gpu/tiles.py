"""Tiles: a small model of the geometry says how many rows and columns a program and a lane have; no measurement, no benchmark's shape.

A lane has so many neighbouring columns that it reads sixteen bytes at once where they lie aligned, as far as registers allow what it holds
or carries of each. Rows of windows that move one row at a time are streamed down long segments; others are held, a few at a time. Small planes are held whole.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from ...geometry import Sliding
from .calls import INTERPRETED, NVIDIA
from .kernels.folds import LAST
from .plan import Plan, taps_of

LONGEST = 32
"""Rows of a window that are held in registers at most; of columns, fewer than twice as many."""
TUNE = {
    "lanes": 128,  # per program
    "lanes stream": 64,  # where rows are streamed
    "lanes half": 32,  # of winners of half floats
    "lanes short": 512,  # where a program has one or two rows only
    "lanes inner": 256,  # where neighbours in memory are of the inner batch, so that a thread has several of them
    "taps inner": 9,  # of rows and columns, up to which that pays
    "rows small": 8,  # rows of windows per program
    "rows few": 4,  # of up to three taps that move by more than one, or in rows of less than 32 bytes of codes
    "rows deep": 1,  # of winners, where windows have depth too
    "rows max": 64,  # registers for rows
    "rows max half": 104,  # of half floats, whose vectors have twice the columns
    "rows winners": 56,
    "rows winners half": 80,  # where windows move by one cell
    "rows packed": 104,
    "rows sum": 64,
    "rows smooth": 16,
    "wide winners": 27,  # registers for rows that are streamed
    "wide winners ahead": 52,  # and fetched ahead
    "wide sum half": 104,
    "columns max": 8,  # columns of windows per lane, at most
    "columns winners": 4,
    "columns winners half": 8,
    "columns packed": 8,
    "columns sum": 8,
    "columns smooth": 4,
    "columns odd": 2,  # of rows that do not lie aligned
    "columns odd back": 4,
    "columns back": 52,  # columns of cells per lane × rows of windows that each meets
    "vectors": 2,  # of sixteen bytes per lane, where rows of maxima are streamed
    "one call": 16,  # columns of a window up to which rows are folded in the same call
    "one call inner": 8,  # of winners, where neighbours in memory are of the inner batch
    "stream max": 6,  # rows of a window from which rows are streamed
    "stream winners": 4,
    "stream winners low": 6,  # in planes of few rows
    "stream sum": 8,
    "step": 4,  # rows that a program reads before it writes
    "step low": 2,  # of winners of more than `rows low` rows, of maxima of one column, and where cells are read one by one
    "rows low winners": 9,
    "rows low packed": 13,
    "rows ahead": 32,  # of a plane, from which the next step's rows are fetched
    "taps ahead": 9,  # and of windows; of winners along two axes, all that are streamed
    "registers": 112,  # of a lane, beside those that carry rows
    "registers sink": 96,  # of a lane that streams down the depth
    "registers half": 144,  # where winners of half floats are held
    "segment": 8,  # rows of a program, as a multiple of the window's
    "segment large": 9,  # of more than eight
    "segment small": 14,  # rows of a program, where windows have up to three
    "segment small inner": 28,
    "depth sink": 5,  # taps along each of three axes up to which these are folded in one call
    "depth sink winners": 3,
    "rows sink": 4,  # rows of a program that streams down the depth
    "rows sink max": 32,  # and registers for its planes
    "rows sink winners": 16,
    "rows sink sum": 64,
    "segment sink": 13,  # planes of a program, as a multiple of the window's
    "segment sink sum": 6,
    "segment sink sum large": 7,  # of more than three
    "sums rise": 24,  # that a lane carries which streams down the depth, backwards
    "segment rise": 11,
    "cells smooth": 48,  # cells of four bytes in registers
    "cells smooth half": 16,
    "back small": 4,  # rows of cells per program
    "back inner": 1,
    "back weights": 8,
    "matches": 512,  # of cells with windows, in one step
    "matches flat": 49,  # windows per cell up to which a maximum's cotangents are found in one call
    "matches deep": 27,
    "matches cross": 25,  # from here on, one call goes along rows and then columns
    "matches crossed": 100,  # up to here
    "taps cross": 9,  # columns from which cotangents along these alone go so
    "lanes cross": 8,  # lanes of a warp that only tell the others what they know, at most
    "plane": 16,  # rows and columns up to which whole planes are held
    "plane taps": 4,  # rows of a window from which that pays for values of any plane, and any type
    "lanes planes": 32,  # of a program that has whole planes: one warp, in which numbers change threads without waiting
    "lanes bins": 256,
    "rows bins": 14,
    "rows collect": 16,
    "rows collect, overlapping": 8,
    "fill": 1024,  # cells of four bytes that a program of whole planes fills at once
    "chunks": 8,  # and how often
    "tile max": 512,  # taps that a program of `reduce` reads at once
    "tile sum": 1024,
    "tile across": 2048,  # where neighbours in memory are of different windows
    "taps across": 128,
    "warps across": 8,
    "taps max": 8,  # of one window, where windows are small
    "taps sum": 32,
    "taps large": 1024,
    "unroll": 4,  # how often that is unrolled
    "unroll across max": 1,
    "unroll across": 2,
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
    """Whether rows and columns slide without gaps, over few enough of them to hold."""
    if "slides" not in made.made:
        rows, columns = made.rows, made.columns
        found = False
        if isinstance(rows, Sliding) and isinstance(columns, Sliding):
            found = rows.dilation == columns.dilation == 1 and max(rows.kernel, rows.stride) <= LONGEST
            found = found and columns.kernel < 2 * LONGEST
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
    block = block or TUNE["lanes"]
    return (block, min(block // 32, 4)) if lanes > 64 or not INTERPRETED else (32, 1)


def lanes_of(made: Plan, rows: int) -> int:
    """Lanes per program: four in a thread where it has few rows of one plane, or where neighbours in memory are of the inner batch."""
    small = plane_taps(made) <= TUNE["taps inner"]
    short = rows <= 2 and not made.depth
    return TUNE["lanes inner" if made.inner % 16 == 0 and small else "lanes short" if short else "lanes"]


def power_within(*numbers: int) -> int:
    """The largest power of two that divides all numbers."""
    return math.gcd(*numbers) & -math.gcd(*numbers) if any(numbers) else 1 << 30


def below_power(number: int) -> int:
    """The largest power of two that is not greater."""
    return 1 << (max(number, 1).bit_length() - 1)


def packs(made: Plan, kind: str, size: int, low: bool) -> str:
    """ "packed" for the winners of half floats, where the codes that a program counts have room beside them."""
    rows: Any = made.rows
    columns: Any = made.columns
    if kind != "winners" or size > 2 or low or not streams(made, kind, size):
        return kind
    reach = (segments(made, rows.length)[0] + 2 * rows.kernel) * columns.kernel
    reach += TUNE["columns packed"] * columns.stride
    return "packed" if reach < LAST.value else kind


def half_winners(made: Plan, kind: str, size: int) -> bool:
    """Whether these are winners of half floats in windows that move by one cell: they leave room for twice the columns."""
    rows: Any = made.rows
    columns: Any = made.columns
    flat = not made.depth and made.inner == rows.stride == columns.stride == 1
    return bool(flat and kind == "winners" and size == 2)


def registers_for(made: Plan, kind: str, size: int) -> int:
    """How many numbers of rows a lane holds."""
    half = (kind == "max" and size == 2) or half_winners(made, kind, size)
    return TUNE["rows " + kind + (" half" if half else "")]


def columns_forward(made: Plan, kind: str, size: int) -> tuple[int, int]:
    """(columns of windows that a lane has, columns of cells that it reads at once)."""
    rows: Any = made.rows
    columns: Any = made.columns
    outer, group, depth, row, column, _ = made.steps
    together, streamed = max(16 // size, 1), streams(made, kind, size)
    registers = registers_for(made, kind, size)
    if kind == "winners" and streamed:
        registers = TUNE["wide winners" + " ahead" * ahead(made, kind)]
    elif kind == "sum" and streamed and size == 2:
        registers = TUNE["wide sum half"]
    widest = TUNE["columns winners half" if half_winners(made, kind, size) else "columns " + kind]
    most = below_power(min(registers // rows.kernel, columns.length, widest))
    if made.inner > 1:
        most = min(most, (2 if kind == "winners" and columns.kernel <= 3 else 4) // columns.stride)
        return max(most, 1) if columns.kernel > columns.stride else 1, 1
    most_odd, vectors = most, TUNE["vectors"] if streamed and kind == "max" else 1
    most = min(most, triton.next_power_of_2(-(-together * vectors // columns.stride)))
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
        return min(TUNE["columns odd back"], below_power(columns.size)), 1
    if most % stride:
        return stride, 1
    return most, power_within(most // stride, columns.length)


def streams(made: Plan, kind: str, size: int) -> bool:
    """Whether rows of windows are streamed: they move one row at a time, and are too high to be held together."""
    rows: Any = made.rows
    least = TUNE["stream " + (kind if kind in ("max", "sum") else "winners")]
    if kind == "winners" and size > 2 and rows.size < TUNE["rows ahead"] and made.inner == 1:
        least = TUNE["stream winners low"]
    return bool(not made.depth and rows.stride == 1 and rows.kernel >= least)


def ahead(made: Plan, kind: str) -> bool:
    """Whether a program that streams has the next step's rows fetched while it folds this one's: it carries so many that too few
    programs run side by side for one to work while another waits."""
    rows: Any = made.rows
    columns: Any = made.columns
    many = rows.kernel >= TUNE["taps ahead"] or (kind in ("winners", "packed") and columns.kernel > 1)
    return bool(many and made.inner == 1 and rows.size >= TUNE["rows ahead"])


def limited(registers: int) -> dict[str, int]:
    """Words for the compiler: a lane has so many registers at most. It takes a few more otherwise, and fewer programs find room."""
    return {"maxnreg": registers} if NVIDIA else {}


def registers_ahead(made: Plan, kind: str, size: int, wide: int) -> dict[str, int]:
    """As `limited`, for lanes that carry so many columns of rows; nothing where the compiler knows better."""
    rows: Any = made.rows
    columns: Any = made.columns
    knows = size > 4 or (size < 4 and kind != "sum") or (kind == "winners" and columns.kernel == 1)
    carried = (rows.kernel - 1) * wide * (2 if kind == "winners" else 1)
    return limited(TUNE["registers"] + carried) if ahead(made, kind) and not knows else {}


def whole_planes(made: Plan, kind: str, size: int) -> tuple[int, int, int] | None:
    """(planes, rows, columns) that a program holds of small planes, whose windows move by one cell; None if it does not hold any."""
    rows: Any = made.rows
    columns: Any = made.columns
    if made.depth or made.inner > 1 or made.steps[4] != 1 or rows.stride * columns.stride > 1 or not made.whole:
        return None
    if min(rows.kernel, columns.kernel) == 1 or (kind == "sum" and divisor(made)[0] != "all"):
        return None
    high, across = (triton.next_power_of_2(max(axis.size, axis.length)) for axis in (rows, columns))
    if max(high, across) > TUNE["plane"] or 2 * rows.size * columns.size < high * across:
        return None
    large = size > 2 and min(high, across) == TUNE["plane"]
    if kind in ("max", "sum") and rows.kernel < TUNE["plane taps"] and not large:
        return None
    return TUNE["lanes planes"] // max(high, across), high, across


def crossing(made: Plan, wide: int) -> tuple[int, int] | None:
    """How many lanes to its left and right a lane of so many columns hears from, where cotangents go along rows and then columns in one
    call; None if they do not."""
    rows: Any = made.rows
    columns: Any = made.columns
    moves = not made.depth and made.inner == rows.stride == columns.stride == 1 and columns.before < columns.kernel
    if rows.kernel == 1:
        pays = columns.kernel >= TUNE["taps cross"]
    else:
        pays = columns.kernel > 1 and TUNE["matches cross"] <= rows.kernel * columns.kernel <= TUNE["matches crossed"]
    if not moves or not pays:
        return None
    lanes = -(-(columns.kernel - 1 - columns.before) // wide), -(-columns.before // wide)
    return lanes if sum(lanes) <= TUNE["lanes cross"] else None


def one_axis(made: Plan) -> bool:
    """Whether nothing is folded along columns."""
    columns: Any = made.columns
    return bool(made.inner == columns.kernel == columns.stride == 1 and columns.length == columns.size)


def one_depth(made: Plan) -> Sliding | None:
    """The depth, if it is one sliding axis that can be held in registers."""
    axis = made.depth[0] if len(made.depth) == 1 else None
    if not isinstance(axis, Sliding) or axis.dilation > 1:
        return None
    return axis if max(axis.kernel, axis.stride) <= LONGEST else None


def sinks(made: Plan, kind: str) -> bool:
    """Whether windows of three axes are folded in one call that streams down the depth: few rows of theirs are read twice."""
    rows: Any = made.rows
    columns: Any = made.columns
    axis, most = one_depth(made), TUNE["depth sink winners" if kind == "winners" else "depth sink"]
    if axis is None or axis.stride > 1 or rows.stride > 1:
        return False
    return bool(2 < axis.kernel <= most and max(rows.kernel, columns.kernel) <= most)


def rises(made: Plan) -> bool:
    """Whether cotangents of winners in windows of three axes are found in one call that streams down the depth."""
    rows: Any = made.rows
    columns: Any = made.columns
    axis = one_depth(made)
    return bool(axis is not None and axis.kernel > 1 and axis.stride == rows.stride == columns.stride == 1)


def step_down(made: Plan, kind: str, together: int) -> int:
    """Rows that a program which streams reads before it writes."""
    rows: Any = made.rows
    columns: Any = made.columns
    low = rows.kernel > TUNE.get("rows low " + kind, rows.kernel) and columns.kernel > 1
    low = low or (kind == "max" and columns.kernel == 1) or (together == 1 and made.inner == 1)
    return TUNE["step low" if low else "step"]


def segments(made: Plan, length: int) -> tuple[int, int]:
    """(rows per program, programs): long enough that few rows are read twice."""
    taps, small = taps_of(made.rows), TUNE["segment small inner" if made.inner > 1 else "segment small"]
    most = small if taps <= 3 else taps * TUNE["segment large" if taps > 8 else "segment"]
    blocks = -(-length // most)
    per = -(-length // blocks)
    return per, -(-length // per)
