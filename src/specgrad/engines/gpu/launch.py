"""Which kernel runs what, and with which tiles: a small model of the geometry, no measurement and no benchmark's shape.

Sliding windows of up to LONGEST rows go to `rows` and `spread`, which hold rows in registers; as many rows are taken at once as TUNE
allows, shared evenly among the blocks of a plane. Other windows go to `reduce` if they are large, else to `visit`, and their cotangents
to `collect`. Maxima of large windows are spread axis by axis: the cost of a cell then grows with the sum of the kernel's sides.
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl

from ...geometry import Adaptive, Sliding
from .kernels import rows as rows_kernels
from .kernels import spread as spread_kernels
from .kernels import stream as stream_kernels
from .kernels import tables as tables_kernels
from .plan import Plan, taps_of

INTERPRETED = bool(triton.knobs.runtime.interpret) if hasattr(triton, "knobs") else False
LONGEST = 32
"""Rows of a window that are held in registers at most."""
TUNE = {
    "lanes": 128,  # per program
    "lanes short": 512,  # where a program has one or two rows only
    "rows small": 8,  # rows of windows per program
    "rows max": 64,  # registers for rows
    "rows winners": 40,
    "rows sum": 64,
    "columns max": 8,  # columns of windows per lane, at most
    "columns winners": 4,
    "columns sum": 8,
    "columns odd": 4,  # of rows that do not lie aligned
    "columns back": 52,  # columns of cells per lane × rows of windows that each meets
    "one call": 16,  # columns of a window up to which rows are folded in the same call
    "stream": 4,  # rows of a window from which rows are streamed
    "step": 4,  # rows that a program reads before it writes
    "step winners": 2,
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
    "fill": 1024,
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


@functools.cache
def _no_guard() -> Any:
    return contextlib.nullcontext()


def on(device: Any) -> Any:
    """Kernels launch on the current device: make it the operand's."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return _no_guard()
    return torch.cuda.device(device)


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


def block_rows(made: Plan, most: int, columns: int) -> tuple[int, int, int, int, int]:
    """Rows of windows per program, blocks of them, lanes, lanes per program, and warps."""
    per, blocks = shared_evenly(made.rows.length, most)
    lanes = made.outer * columns * made.inner
    block, warps = block_of(lanes)
    return per, blocks, lanes, block, warps


def power_within(*numbers: int) -> int:
    """The largest power of two that divides all numbers."""
    return math.gcd(*numbers) & -math.gcd(*numbers) if any(numbers) else 1 << 30


def columns_forward(made: Plan, kind: str, size: int) -> tuple[int, int]:
    """(columns of windows that a lane has, columns of cells that it reads at once)."""
    rows: Any = made.rows
    columns: Any = made.columns
    outer, group, depth, row, column, inner = made.steps
    most = below_power(min(TUNE["rows " + kind] // rows.kernel, columns.length, TUNE["columns " + kind]))
    if made.inner > 1:
        most = min(most, (2 if kind == "winners" and columns.kernel <= 3 else 4) // columns.stride)
        return max(most, 1) if columns.kernel > columns.stride else 1, 1
    together = max(16 // size, 1)
    most = min(most, triton.next_power_of_2(-(-together // columns.stride)))
    aligned = power_within(outer, group, depth if made.depth else 0, row, columns.size) if column == 1 else 1
    while most > 1 and (columns.length % most or aligned == 1):
        most //= 2
    if most == 1 and columns.stride == 1 and columns.kernel > 3:
        return min(TUNE["columns odd"] // (2 if kind == "winners" else 1), below_power(columns.length)), 1
    return most, min(together, aligned, power_within(most * columns.stride))


def below_power(number: int) -> int:
    """The largest power of two that is not greater."""
    return 1 << (max(number, 1).bit_length() - 1)


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


def window_numbers(made: Plan, lanes: int, blocks: int, last: int, together: int = 1) -> tuple[int, ...]:
    """What the kernels of `rows` take; steps in vectors of so many together."""
    rows: Any = made.rows
    columns: Any = made.columns
    outer, group, _, row, column, inner = made.steps
    return (
        lanes, made.groups, made.inner, made.depths[2], outer // together, group // together, row // together, column, inner,
        rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.after, last,
        blocks, made.depths[1],
    )  # fmt: skip


def fold(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any = None, low_taps: int = 0) -> None:
    """Maximum, winners or sum of sliding windows, in one call."""
    if streams(made, kind):
        slide(made, kind, x, y, kept, low, low_taps)
        return
    key = "fold", kind, x.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_forward(made, kind, x.element_size())
        held = max(TUNE["rows " + kind] // wide, 1)
        most = min(max((held - rows.kernel) // rows.stride + 1, 1), TUNE["rows small"])
        groups = -(-columns.length // wide)
        per, blocks, lanes, block, warps = block_rows(made, most, groups)
        used = {o * rows.stride + j for o in range(per) for j in range(rows.kernel)}
        counts = [axis.ranges().count for axis in (rows, columns)]
        words = {
            "KIND": kind,
            "ROWS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_BEFORE": columns.before,
            "LEAD": -columns.before % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.length % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "NEED": sum(1 << i for i in used),
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "SIZE": rows.size if blocks == 1 and rows.size <= (per - 1) * rows.stride + rows.kernel else 0,
            "BEFORE": rows.before if blocks == 1 else 0,
            "WHOLE": made.whole,
            "PADDED": any(bool((count < axis.kernel).any()) for count, axis in zip(counts, (rows, columns), strict=True)),
            "DEEP": bool(made.depth),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        grid = (-(-lanes // block) * blocks * made.depths[1],)
        made.made[key] = grid, window_numbers(made, lanes, blocks, groups, together), words
    grid, numbers, words = made.made[key]
    depths = made.table("depths", x.device) if made.depth else y
    with on(x.device):
        rows_kernels.fold[grid](
            x, y if low is None else low, y, kept[0] if kept else y, depths, scale(made, kind, y), *numbers, **words
        )


def streams(made: Plan, kind: str) -> bool:
    """Whether rows of windows are streamed: they move one row at a time, and are too high to be held together."""
    rows: Any = made.rows
    if made.depth or rows.stride > 1:
        return False
    return bool(rows.kernel >= TUNE["stream"])


def segments(length: int, taps: int) -> tuple[int, int]:
    """(rows per program, programs): long enough that few rows are read twice."""
    blocks = -(-length // max(TUNE["segment large" if taps > 8 else "segment"] * taps, TUNE["segment least"]))
    per = -(-length // blocks)
    return per, -(-length // per)


def slide(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any, low_taps: int) -> None:
    """As `fold`, of windows that move down one row at a time."""
    key = "slide", kind, x.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_forward(made, kind, x.element_size())
        groups = -(-columns.length // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes)
        per, blocks = segments(rows.length, rows.kernel)
        counts = [axis.ranges().count for axis in (rows, columns)]
        words = {
            "KIND": kind,
            "STEP": TUNE["step large" if rows.kernel > 8 else "step winners" if kind == "winners" else "step"],
            "TAPS": rows.kernel,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_BEFORE": columns.before,
            "LEAD": -columns.before % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.length % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "WHOLE": made.whole,
            "PADDED": any(bool((count < axis.kernel).any()) for count, axis in zip(counts, (rows, columns), strict=True)),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        numbers = (*window_numbers(made, lanes, blocks, groups, together), per)
        made.made[key] = (-(-lanes // block) * blocks,), numbers, words
    grid, numbers, words = made.made[key]
    with on(x.device):
        stream_kernels.slide[grid](
            x, y if low is None else low, y, kept[0] if kept else y, y, scale(made, kind, y), *numbers, **words
        )


def trail(made: Plan, gy: Any, gx: Any, codes: Any, low: Any, low_taps: int) -> None:
    """As `spread`, of the winners of windows that move down one row at a time."""
    key = "trail", gy.dtype, gx.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_backward(made, "first", gx.element_size())
        candidates = -(-columns.kernel // columns.stride)
        groups = -(-columns.size // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes)
        per, blocks = segments(rows.size, rows.kernel)
        step = max(min(TUNE["step"], TUNE["matches"] // (rows.kernel * candidates * wide)), 1)
        first = columns.before // columns.stride - candidates + 1
        words = {
            "STEP": step,
            "TAPS": rows.kernel,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": candidates,
            "COLUMN_BEFORE": columns.before,
            "LEAD": first % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.size % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(gy.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        numbers = (
            lanes, made.inner, rows.size, rows.length, rows.before, columns.size, columns.length, groups,
            blocks, per,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks,), numbers, words
    grid, numbers, words = made.made[key]
    with on(gy.device):
        stream_kernels.trail[grid](gy, codes, gx, gx if low is None else low, *numbers, **words)


def smooth(made: Plan, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Smooth maxima of small sliding windows."""
    key = "smooth", x.dtype, bool(kept)
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        most = max((TUNE["cells smooth"] // columns.kernel - rows.kernel) // rows.stride + 1, 1)
        per, blocks, lanes, block, warps = block_rows(made, most, columns.length)
        words = {
            "ROWS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "ZERO": made.op.pad == "zero",
            "KEEP": bool(kept),
            "RAGGED": made.op.ceil_mode,
            "DEEP": bool(made.depth),
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        grid = (-(-lanes // block) * blocks * made.depths[1],)
        made.made[key] = grid, window_numbers(made, lanes, blocks, columns.before), words
    grid, numbers, words = made.made[key]
    depths = made.table("depths", x.device) if made.depth else y
    with on(x.device):
        rows_kernels.smooth[grid](x, y, *(kept or (y, y)), depths, made.table("numbers", x.device), *numbers, **words)


def visit(made: Plan, kind: str, x: Any, moved: Any, y: Any, kept: tuple[Any, ...], shared: bool = False) -> None:
    """Values or tangents of any windows, tap by tap."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    how = divisor(made)[0] if kind == "sum" else "all"
    outer, group, _, row, column, inner = made.steps
    depths, rows, columns, numbers = (made.table(t, x.device) for t in ("depths", "rows", "columns", "numbers"))
    grid = (-(-lanes // block) * made.rows.length * made.depths[1],)
    one, other = (*kept, y, y)[:2]
    with on(x.device):
        tables_kernels.visit[grid](
            x, moved, y, one, other, depths, rows, columns, numbers, scale(made, kind, y),
            lanes, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
            made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns),
            taps_of(made.rows), taps_of(made.columns), made.depths[1],
            KIND=kind, COUNTED=how, ZERO=shared or getattr(made.op, "pad", "") == "zero", KEEP=bool(kept), WIDE=made.wide,
            ACC=accumulator(x.dtype), BLOCK=block, num_warps=warps,
        )  # fmt: skip


def step_of(axis: Any) -> int:
    return axis.dilation if isinstance(axis, Sliding) else 1


def flat(made: Plan) -> Plan:
    """A plan whose rows and columns are one axis, where windows are whole planes that lie so."""
    if "flat" not in made.made:
        found = made
        rows, columns, (*_, row, column, _) = made.rows, made.columns, made.steps
        whole = isinstance(rows, Adaptive) and isinstance(columns, Adaptive) and rows.length == columns.length == 1
        if whole and row == columns.size * column:
            one = Adaptive(rows.size * columns.size, 1)
            found = replace(made, rows=Adaptive(1, 1), columns=one, made={"divisor": divisor(made)})
        made.made["flat"] = found
    known: Plan = made.made["flat"]
    return known


def reduce(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Values of large windows."""
    made = flat(made)
    key = "reduce", kind, x.dtype
    if key not in made.made:
        across = made.inner >= 8
        reduced = ("across " if across else "") + ("sum" if kind == "sum" else "max")
        large = TUNE["taps large"] * 4 // x.element_size()
        block = TUNE["taps " + reduced] if across or made.taps <= 512 else large
        tile = max(TUNE["tile " + reduced], block)
        block = min(triton.next_power_of_2(made.taps), block)
        outputs = max(min(tile // block, triton.next_power_of_2(made.outputs)), 1)
        axes = (made.rows, made.columns)
        exact = all(bool((axis.ranges().count == taps_of(axis)).all()) for axis in axes)
        words = {
            "KIND": kind,
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "ROW_TAPS": taps_of(made.rows),
            "COLUMN_TAPS": taps_of(made.columns),
            "EXACT": exact,
            "DEEP": bool(made.depth),
            "PLANE": not made.depth and made.rows.size == 1 and made.columns.length == 1 and exact,
            "ACROSS": across,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "OUTPUTS": outputs,
            "BLOCK": block,
            "num_warps": TUNE["warps across"] if across else 4,
        }
        outer, group, _, row, column, inner = made.steps
        numbers = (
            made.outputs, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
            made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns), made.depths[1],
        )  # fmt: skip
        made.made[key] = (-(-made.outputs // outputs),), numbers, words
    grid, numbers, words = made.made[key]
    depths, rows, columns = (made.table(t, x.device) for t in ("depths", "rows", "columns"))
    with on(x.device):
        tables_kernels.reduce[grid](
            x, y, kept[0] if kept else y, depths, rows, columns, scale(made, kind, y), *numbers, **words
        )


def select(made: Plan, moved: Any, y: Any, codes: Any, index: bool) -> None:
    """Tangents or places of winners."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    depths, rows, columns = (made.table(t, codes.device) for t in ("depths", "rows", "columns"))
    with on(codes.device):
        tables_kernels.select[(-(-lanes // block) * made.rows.length * made.depths[1],)](
            moved, y, codes, depths, rows, columns,
            lanes, made.groups, made.inner, made.depths[2], *made.steps,
            made.rows.size, made.columns.size, made.rows.length, made.columns.length,
            step_of(made.rows), step_of(made.columns), taps_of(made.rows), taps_of(made.columns), made.depths[1],
            INDEX=index, WIDE=made.wide, BLOCK=block, num_warps=warps,
        )  # fmt: skip


def fill(made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...], shared: bool) -> bool:
    """Cotangents of whole planes of neighbouring cells; False if the windows are not such."""
    whole = flat(made)
    if whole is made or made.depth or whole.inner != 1 or whole.groups != 1 or whole.steps[4] != 1:
        return False
    cells = whole.columns.size
    block = min(triton.next_power_of_2(cells), TUNE["fill"])
    blocks = -(-cells // block)
    one, other = (*kept, gy, gy)[:2]
    with on(gy.device):
        tables_kernels.fill[(whole.outer * blocks,)](
            gy, gx if x is None else x, gx, one, other, scale(whole, kind, gy), cells, blocks, whole.steps[0],
            KIND=kind, SHARED=shared, WIDE=made.wide, ACC=accumulator(gy.dtype), BLOCK=block, num_warps=4,
        )  # fmt: skip
    return True


def bins(made: Plan, kind: str, gy: Any, gx: Any, kept: tuple[Any, ...]) -> bool:
    """Cotangents of adaptive windows, whose rows of cells meet few rows of windows; False if the windows are not such."""
    rows, columns = made.rows, made.columns
    if made.depth or not isinstance(rows, Adaptive) or not isinstance(columns, Adaptive) or rows.length > rows.size:
        return False
    device = gy.device
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes)
    readers = made.table("column_readers", device)
    per, blocks = shared_evenly(rows.size, TUNE["rows bins"])
    with on(device):
        tables_kernels.bins[(-(-lanes // block) * blocks,)](
            gy, kept[0] if kept else gy, gx, made.table("row_spans", device), readers, made.table("rows", device),
            made.table("columns", device), scale(made, kind, gy),
            lanes, made.inner, rows.size, columns.size, rows.length, columns.length, readers.shape[1], taps_of(columns), blocks,
            KIND=kind, COUNTED=divisor(made)[0] if kind == "sum" else "all", ROWS=per, WIDE=made.wide,
            ACC=accumulator(gy.dtype), BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return True


def collect(made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...], shared: bool = False) -> None:
    """Cotangents of any windows."""
    if kind != "weights" and fill(made, kind, x, gy, gx, kept, shared):
        return
    if kind in ("first", "sum") and bins(made, kind, gy, gx, kept):
        return
    device = gy.device
    lanes = made.outer * made.columns.size * made.inner
    block, warps = block_of(lanes)
    readers = [made.table(t, device) for t in ("depth_readers", "row_readers", "column_readers")]
    single = all(table.shape[1] == 1 for table in readers)
    per, blocks = shared_evenly(made.rows.size, TUNE["rows collect" if single else "rows collect, overlapping"])
    how = divisor(made)[0] if kind == "sum" else "all"
    tables = [made.table(t, device) for t in ("depths", "rows", "columns", "numbers")]
    one, other = (*kept, gy, gy)[:2]
    with on(device):
        tables_kernels.collect[(-(-lanes // block) * blocks * made.depths[0],)](
            gy, gx if x is None else x, gx, one, other, *readers, *tables, scale(made, kind, gy),
            lanes, made.groups, made.inner, *made.steps,
            made.depths[0], made.rows.size, made.columns.size,
            made.depths[1], made.rows.length, made.columns.length,
            *(table.shape[1] for table in readers),
            made.depths[2], taps_of(made.rows), taps_of(made.columns), blocks,
            KIND=kind, COUNTED=how, SHARED=shared, ROWS=per, WIDE=made.wide, ACC=accumulator(gy.dtype), BLOCK=block,
            num_warps=warps,
        )  # fmt: skip


def rows_backward(made: Plan, most: int) -> tuple[int, int, int, int]:
    """Rows of cells per program, blocks of them, the padded row that the first starts with, and how many rows of windows read a cell."""
    rows: Any = made.rows
    start = rows.before // rows.stride * rows.stride
    per, blocks = shared_evenly(rows.size + rows.before - start, max(most, rows.stride), rows.stride)
    return per, blocks, start, -(-rows.kernel // rows.stride)


def spread(made: Plan, kind: str, gy: Any, gx: Any, codes: Any = None, low: Any = None, low_taps: int = 0) -> None:
    """Cotangents of sliding windows, in one call."""
    if kind == "first" and not made.depth and made.rows.kernel > 1 and made.rows.stride == 1:  # type: ignore[union-attr]
        wide = columns_backward(made, kind, gx.element_size())[0]
        if wide % made.columns.stride == 0:  # type: ignore[union-attr]
            trail(made, gy, gx, codes, low, low_taps)
            return
    key = "spread", kind, gy.dtype, gx.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_backward(made, kind, gx.element_size())
        fixed = wide % columns.stride == 0
        candidates = -(-columns.kernel // columns.stride)
        read = -(-rows.kernel // rows.stride)
        most = max(TUNE["back small"], rows.stride)
        if kind == "first":
            most = min(most, max(TUNE["matches"] // (wide * read * candidates), rows.stride))
        per, blocks, start, read = rows_backward(made, most // rows.stride * rows.stride)
        first = columns.before // columns.stride - candidates + 1
        groups = -(-columns.size // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes, TUNE["lanes short" if per <= 2 else "lanes"])
        words = {
            "KIND": kind,
            "CELLS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "READERS": read,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": candidates,
            "COLUMN_BEFORE": columns.before,
            "FIXED": fixed,
            "LEAD": first % together if fixed else 0,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.size % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "DEEP": bool(made.depth),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(gy.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        depths, windows, _ = made.depths
        depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
        numbers = (
            lanes, made.inner, depths, windows, depth_candidates,
            rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.after, groups,
            start, blocks,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks * depths,), numbers, words
    grid, numbers, words = made.made[key]
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    given = (gy if t is None else t for t in (codes, gx, low))
    with on(gy.device):
        spread_kernels.spread[grid](gy, *given, depth_readers, scale(made, kind, gy), *numbers, **words)


def weigh(made: Plan, gy: Any, gx: Any, kept: tuple[Any, ...], x: Any) -> None:
    """Cotangents of smooth maxima of small sliding windows."""
    key = "weigh", gy.dtype
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        per, blocks, start, read = rows_backward(made, TUNE["back weights"] // rows.stride * rows.stride)
        lanes = made.outer * columns.size * made.inner
        block, warps = block_of(lanes)
        words = {
            "CELLS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "READERS": read,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": -(-columns.kernel // columns.stride),
            "DEEP": bool(made.depth),
            "WIDE": made.wide,
            "ACC": accumulator(gy.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        depths, windows, _ = made.depths
        depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
        numbers = (
            lanes, made.groups, made.inner, depths, windows, depth_candidates, *made.steps,
            rows.size, rows.length, rows.before, columns.size, columns.length, columns.before, start, blocks,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks * depths,), numbers, words
    grid, numbers, words = made.made[key]
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    with on(gy.device):
        spread_kernels.weigh[grid](gy, *kept, gx, x, depth_readers, made.table("numbers", gy.device), *numbers, **words)
