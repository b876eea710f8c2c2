"""Tiles: the numbers of rows and columns per program and lane, by a small model of the geometry.
The model's constants are in `tuned`; it has no special cases for benchmarked shapes.

A lane has enough neighbouring columns to read sixteen bytes at once if aligned, as far as registers
suffice. Rows of windows with stride 1 are streamed in long segments. Other rows are held, a few at
a time. Small planes are held whole.
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
from .tuned import LARGE as LARGE
from .tuned import LONGEST, TUNE
from .tuned import SMALL as SMALL

ACCUMULATOR = {torch.float64: tl.float64}
COMPUTED = {torch.float64: torch.float64}


def accumulator(dtype: Any) -> Any:
    return ACCUMULATOR.get(dtype, tl.float32)


def computed(dtype: Any) -> Any:
    """The dtype in which cells are computed."""
    return COMPUTED.get(dtype, torch.float32)


def code_type(taps: int) -> Any:
    return torch.uint8 if taps <= 255 else torch.int32


def shared_evenly(length: int, most: int, multiple: int = 1) -> tuple[int, int]:
    """(per block, blocks): `length` divided into nearly equal blocks of at most `most`."""
    blocks = -(-length // max(most, 1))
    per = -(-length // blocks)
    per = -(-per // multiple) * multiple
    return per, -(-length // per)


def slides(made: Plan) -> bool:
    """Whether rows and columns are sliding, without dilation, and with few enough taps for
    registers."""
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
    """The divisor of an average: ("all", a number), or ("exists" or "real", 1) for the number of
    such taps."""
    if getattr(op, "divisor_override", None) is not None:
        return "all", op.divisor_override
    return ("exists" if getattr(op, "count_include_pad", True) else "real"), 1


def divisor(made: Plan) -> tuple[str, int]:
    """`counting`, with the number itself if all windows have the same divisor."""
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
    """A table with the divisor of a sum; any tensor for other kinds."""
    return made.table("scale", like.device) if kind == "sum" else like


def block_of(lanes: int, block: int = 0) -> tuple[int, int]:
    """(lanes per program, warps)."""
    block = block or TUNE["lanes"]
    return (block, min(block // 32, 4)) if lanes > 64 or not INTERPRETED else (32, 1)


def lanes_of(made: Plan, rows: int) -> int:
    """Lanes per program. A thread has several lanes if it has few rows of one plane, or if
    neighbours in memory are of the inner batch."""
    small = plane_taps(made) <= TUNE["taps inner"]
    short = rows <= 2 and not made.depth
    return TUNE["lanes inner" if made.inner % 16 == 0 and small else "lanes short" if short else "lanes"]


def power_within(*numbers: int) -> int:
    """The largest power of two that divides all numbers."""
    return math.gcd(*numbers) & -math.gcd(*numbers) if any(numbers) else 1 << 30


def below_power(number: int) -> int:
    """The largest power of two of at most `number`."""
    return 1 << (max(number, 1).bit_length() - 1)


def packs(made: Plan, kind: str, size: int, low: bool) -> str:
    """The kind "packed" for winners of half floats whose codes fit beside the numbers, else
    `kind`."""
    rows: Any = made.rows
    columns: Any = made.columns
    if kind != "winners" or size > 2 or low or not streams(made, kind, size):
        return kind
    reach = (segments(made, rows.length)[0] + 2 * rows.kernel) * columns.kernel
    reach += TUNE["columns packed"] * columns.stride
    return "packed" if reach < LAST.value else kind


def half_winners(made: Plan, kind: str, size: int) -> bool:
    """Whether these are winners of half floats in windows with stride 1, for which twice as many
    columns fit."""
    rows: Any = made.rows
    columns: Any = made.columns
    flat = not made.depth and made.inner == rows.stride == columns.stride == 1
    return bool(flat and kind == "winners" and size == 2)


def registers_for(made: Plan, kind: str, size: int) -> int:
    """The number of registers of a lane for rows."""
    half = (kind == "max" and size == 2) or half_winners(made, kind, size)
    return TUNE["rows " + kind + (" half" if half else "")]


def columns_forward(made: Plan, kind: str, size: int) -> tuple[int, int]:
    """(columns of windows per lane, columns of cells read at once)."""
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
    """(columns of cells per lane, columns of windows read at once)."""
    columns: Any = made.columns
    stride, readers = columns.stride, -(-made.rows.kernel // made.rows.stride)  # type: ignore[union-attr]
    if stride & (stride - 1) or stride > 8:
        return 1, 1
    overlap = columns.kernel > stride
    if made.inner > 1:
        return (4 if overlap and columns.size >= 4 and stride <= 4 else stride if columns.size >= stride else 1), 1
    most = max(16 // size, 1)
    if kind == "first" and not ring(made, size):
        most = min(most, max(below_power(TUNE["columns back"] // readers), stride))
    while most > 1 and columns.size % most:
        most //= 2
    if most == 1 and stride == 1 and columns.kernel > 3:
        return min(TUNE["columns odd back"], below_power(columns.size)), 1
    if most % stride:
        return stride, 1
    return most, power_within(most // stride, columns.length)


def streams(made: Plan, kind: str, size: int) -> bool:
    """Whether rows of windows are streamed: stride 1, and too many taps to be held together."""
    rows: Any = made.rows
    least = TUNE["stream " + (kind if kind in ("max", "sum") else "winners")]
    return bool(not made.depth and rows.stride == 1 and rows.kernel >= least)


def ahead(made: Plan, kind: str) -> bool:
    """Whether a streaming program prefetches the next step's rows: with so many carried registers,
    too few programs run at once to hide latency."""
    rows: Any = made.rows
    columns: Any = made.columns
    many = rows.kernel >= TUNE["taps ahead"] or (kind in ("winners", "packed") and columns.kernel > 1)
    return bool(many and made.inner == 1 and rows.size >= TUNE["rows ahead"])


def limited(registers: int) -> int:
    """The register limit of a lane, or 0 if it cannot be set. Without a limit the compiler uses a
    few more registers, and fewer programs run at once."""
    return registers if NVIDIA else 0


def registers_ahead(made: Plan, kind: str, size: int, wide: int) -> int:
    """The register limit of lanes that carry this many columns of rows; 0 if the compiler chooses
    better."""
    rows: Any = made.rows
    columns: Any = made.columns
    knows = size > 4 or (size < 4 and kind != "sum") or (kind == "winners" and columns.kernel == 1)
    carried = (rows.kernel - 1) * wide * (2 if kind == "winners" else 1)
    return limited(TUNE["registers"] + carried) if ahead(made, kind) and not knows else 0


def whole_planes(made: Plan, kind: str, size: int) -> tuple[int, int, int] | None:
    """(planes, rows, columns) of a program that holds whole small planes, with stride 1; None if
    programs hold none."""
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


def narrow(made: Plan, kind: str, size: int) -> int:
    """The number of rows per lane of narrow planes, with stride 1 and as many windows as cells; 0
    if rows are long, or begin at cache lines."""
    rows: Any = made.rows
    columns: Any = made.columns
    if made.depth or made.inner > 1 or made.steps[4] != 1 or not made.whole or rows.stride * columns.stride > 1:
        return 0
    short = columns.size <= TUNE["columns narrow"] and columns.size * size % 128 > 0
    same = rows.length == rows.size and columns.length == columns.size
    aligned = power_within(*made.steps[:2], made.steps[3], columns.size)
    most = TUNE["taps narrow max" if kind == "max" else "taps narrow"]
    few = min(rows.kernel, columns.kernel) > 1 and max(rows.kernel, columns.kernel) <= most
    if not (short and same and few and aligned > 1):
        return 0
    per = power_within(rows.size, TUNE["rows narrow"])
    heard = (-(-rows.before // per) - (-rows.after // per)) * columns.size // min(aligned, 16 // size, 4)
    return per if rows.kernel - 1 <= 2 * per and heard <= TUNE["lanes narrow"] // 4 else 0


def rows_held(made: Plan, kind: str, size: int, wide: int) -> int:
    """The largest number of rows of windows per program, if a lane has `wide` columns."""
    rows: Any = made.rows
    most = TUNE["rows small"]
    if made.depth and kind == "winners":
        most = TUNE["rows deep"]
    elif not made.depth and rows.kernel <= 3 and (rows.stride > 1 or made.columns.length < 32):
        most = TUNE["rows few"]
    held: int = (registers_for(made, kind, size) // wide - rows.kernel) // rows.stride + 1
    return min(max(held, 1), most)


def moves_by_one(made: Plan) -> bool:
    """Whether winners' cotangents can be spread along rows and then columns in one call."""
    rows: Any = made.rows
    columns: Any = made.columns
    return not made.depth and made.inner == rows.stride == columns.stride == 1 and columns.before < columns.kernel


def ring(made: Plan, size: int) -> int:
    """Rows of the ring with which winners' cotangents are spread along rows by runs, if each window
    has a winner; 0 for halves."""
    rows: Any = made.rows
    columns: Any = made.columns
    matches = rows.kernel * columns.kernel
    pays = matches >= TUNE["matches cross"] if size < 4 else size == 4 and matches > TUNE["matches crossed"]
    pays = pays and rows.kernel <= TUNE["taps ring"] and rows.size >= TUNE["rows ahead"] and columns.kernel > 1
    slots: int = triton.next_power_of_2(rows.kernel + 1)
    return slots if pays and rows.kernel > 1 and moves_by_one(made) and made.made.get("whole", made.whole) else 0


def ring_bytes(slots: int, wide: int, lanes: int) -> int:
    """Bytes of a ring: a word for each column of each lane, and a byte for its code."""
    return slots * (wide + -(-wide // 4)) * lanes * 4


def crossing(made: Plan, size: int) -> tuple[int, int] | None:
    """The numbers of lanes to the left and right with which a lane exchanges data, if cotangents
    are spread along rows and then columns in one call; else None."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, matches = columns_backward(made, "first", size)[0], rows.kernel * columns.kernel
    if rows.kernel == 1:
        pays = columns.kernel >= TUNE["taps cross"]
    else:
        pays = columns.kernel > 1 and TUNE["matches cross"] <= matches
        pays = pays and (matches <= TUNE["matches crossed"] or ring(made, size) > 0)
    if not moves_by_one(made) or not pays:
        return None
    lanes = -(-(columns.kernel - 1 - columns.before) // wide), -(-columns.before // wide)
    return lanes if sum(lanes) <= TUNE["lanes cross"] else None


def one_axis(made: Plan) -> bool:
    """Whether columns have no reduction."""
    columns: Any = made.columns
    return bool(made.inner == columns.kernel == columns.stride == 1 and columns.length == columns.size)


def one_depth(made: Plan) -> Sliding | None:
    """The depth, if it is one sliding axis with few enough taps for registers; else None."""
    axis = made.depth[0] if len(made.depth) == 1 else None
    if not isinstance(axis, Sliding) or axis.dilation > 1:
        return None
    return axis if max(axis.kernel, axis.stride) <= LONGEST else None


def streams_depth(made: Plan, kind: str) -> bool:
    """Whether windows of three axes are reduced in one call that streams down the depth, since few
    rows are read twice."""
    rows: Any = made.rows
    columns: Any = made.columns
    axis, most = one_depth(made), TUNE["depth volume_forward winners" if kind == "winners" else "depth volume_forward"]
    if axis is None or axis.stride > 1 or rows.stride > 1:
        return False
    return bool(2 < axis.kernel <= most and max(rows.kernel, columns.kernel) <= most)


def streams_depth_back(made: Plan) -> bool:
    """Whether cotangents of winners in windows of three axes are computed in one call that streams
    down the depth."""
    rows: Any = made.rows
    columns: Any = made.columns
    axis = one_depth(made)
    return bool(axis is not None and axis.kernel > 1 and axis.stride == rows.stride == columns.stride == 1)


def step_down(made: Plan, kind: str, together: int) -> int:
    """Rows that a streaming program reads before it writes."""
    rows: Any = made.rows
    columns: Any = made.columns
    low = kind in ("winners", "packed") and rows.kernel > TUNE["rows low winners"] and columns.kernel > 1
    low = low or (kind == "max" and columns.kernel == 1) or (together == 1 and made.inner == 1)
    return TUNE["step low" if low else "step"]


def segments(made: Plan, length: int) -> tuple[int, int]:
    """(rows per program, programs): long enough that few rows are read twice."""
    taps = taps_of(made.rows)
    most = TUNE["segment small"] if taps <= 3 else taps * TUNE["segment large" if taps > 8 else "segment"]
    blocks = -(-length // most)
    per = -(-length // blocks)
    return per, -(-length // per)
