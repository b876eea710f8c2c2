"""Which kernel runs what, and with which tiles: a small model of the geometry, no measurement and no benchmark's shape.

Sliding windows of up to LONGEST rows go to `rows` and `spread`, which hold rows in registers; as many rows are taken at once as REGISTERS
allow, shared evenly among the blocks of a plane. Other windows go to `reduce` if they are large, else to `visit`, and their cotangents
to `collect`. Maxima of large windows are spread axis by axis: the cost of a cell then grows with the sum of the kernel's sides.
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import torch
import triton
import triton.language as tl

from ...geometry import Sliding
from .kernels import rows as rows_kernels
from .kernels import spread as spread_kernels
from .kernels import tables as tables_kernels
from .plan import Plan, taps_of

INTERPRETED = bool(triton.knobs.runtime.interpret) if hasattr(triton, "knobs") else False
LONGEST = 32
REGISTERS = 44
"""Rows of windows or cells that a program holds at once."""
LARGE = 32
"""Taps from which a window that does not slide is reduced by many threads."""
MATCHES = 25
"""Windows per cell up to which a maximum's cotangents are found in one pass."""
UNROLL = 4

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


def slides(made: Plan, dilated: bool = True) -> bool:
    """Whether rows and columns slide, over few enough rows to hold."""
    rows, columns = made.rows, made.columns
    if not isinstance(rows, Sliding) or not isinstance(columns, Sliding):
        return False
    if not dilated and (rows.dilation > 1 or columns.dilation > 1):
        return False
    return rows.extent <= LONGEST and rows.stride <= LONGEST


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


def block_of(lanes: int) -> tuple[int, int]:
    """Lanes per program, and warps."""
    return (128, 4) if lanes > 64 or not INTERPRETED else (32, 1)


def fold(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any = None, low_taps: int = 0) -> None:
    """Values of sliding windows, in one call."""
    key = "fold", kind, x.dtype, low is not None
    if key not in made.made:
        rows, columns = made.rows, made.columns
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        most = max((REGISTERS - rows.extent) // rows.stride + 1, 1)
        if rows.extent <= 3:
            most = min(most, 16)
        per, blocks = shared_evenly(rows.length, most)
        lanes = made.outer * columns.length * made.inner
        block, warps = block_of(lanes)
        used = {o * rows.stride + j * rows.dilation for o in range(per) for j in range(rows.kernel)}
        how, by = divisor(made) if kind == "sum" else ("all", 1)
        words = {
            "KIND": kind,
            "ROWS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "DILATION": rows.dilation,
            "LEVELS": rows.kernel.bit_length() - 1,
            "NEED": sum(1 << i for i in used),
            "UNROLLED": columns.kernel if columns.kernel <= UNROLL else 0,
            "COUNTED": how,
            "ZERO": getattr(made.op, "pad", "") == "zero",
            "DEEP": bool(made.depth),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        outer, group, _, row, column, inner = made.steps
        numbers = (
            lanes, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
            rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.before, columns.after,
            columns.stride, columns.dilation, columns.kernel, blocks, made.depths[1],
            low_taps or columns.kernel, by,
        )  # fmt: skip
        grid = (-(-lanes // block) * blocks * made.depths[1],)
        made.made[key] = grid, numbers, words
    grid, numbers, words = made.made[key]
    one, other = (*kept, y, y)[:2]
    depths = made.table("depths", x.device) if made.depth else y
    table = made.table("numbers", x.device) if kind == "smooth" else y
    with on(x.device):
        rows_kernels.fold[grid](x, y if low is None else low, y, one, other, depths, table, *numbers, **words)


def visit(made: Plan, kind: str, x: Any, moved: Any, y: Any, kept: tuple[Any, ...], shared: bool = False) -> None:
    """Values or tangents of any windows, tap by tap."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    how, by = divisor(made) if kind == "sum" else ("all", 1)
    outer, group, _, row, column, inner = made.steps
    depths, rows, columns, numbers = (made.table(t, x.device) for t in ("depths", "rows", "columns", "numbers"))
    grid = (-(-lanes // block) * made.rows.length * made.depths[1],)
    one, other = (*kept, y, y)[:2]
    with on(x.device):
        tables_kernels.visit[grid](
            x, moved, y, one, other, depths, rows, columns, numbers,
            lanes, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
            made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns),
            taps_of(made.rows), taps_of(made.columns), made.depths[1], by,
            KIND=kind, COUNTED=how, ZERO=shared or getattr(made.op, "pad", "") == "zero", WIDE=made.wide,
            ACC=accumulator(x.dtype), BLOCK=block, num_warps=warps,
        )  # fmt: skip


def step_of(axis: Any) -> int:
    return axis.dilation if isinstance(axis, Sliding) else 1


def reduce(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Values of large windows."""
    across = made.inner >= 8
    tile = 2048
    block = min(triton.next_power_of_2(made.taps), 64 if across else tile)
    outputs = max(min(tile // block, triton.next_power_of_2(made.outputs)), 1)
    how, by = divisor(made) if kind == "sum" else ("all", 1)
    outer, group, _, row, column, inner = made.steps
    depths, rows, columns = (made.table(t, x.device) for t in ("depths", "rows", "columns"))
    with on(x.device):
        tables_kernels.reduce[(-(-made.outputs // outputs),)](
            x, y, kept[0] if kept else y, depths, rows, columns,
            made.outputs, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
            made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns),
            taps_of(made.rows), taps_of(made.columns), made.depths[1], by,
            KIND=kind, COUNTED=how, DEEP=bool(made.depth), ACROSS=across, WIDE=made.wide, ACC=accumulator(x.dtype),
            OUTPUTS=outputs, BLOCK=block, num_warps=4,
        )  # fmt: skip


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


def collect(made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...], shared: bool = False) -> None:
    """Cotangents of any windows."""
    device = gy.device
    lanes = made.outer * made.columns.size * made.inner
    block, warps = block_of(lanes)
    per, blocks = shared_evenly(made.rows.size, 8)
    how, by = divisor(made) if kind == "sum" else ("all", 1)
    readers = [made.table(t, device) for t in ("depth_readers", "row_readers", "column_readers")]
    tables = [made.table(t, device) for t in ("depths", "rows", "columns", "numbers")]
    one, other = (*kept, gy, gy)[:2]
    with on(device):
        tables_kernels.collect[(-(-lanes // block) * blocks * made.depths[0],)](
            gy, gx if x is None else x, gx, one, other, *readers, *tables,
            lanes, made.groups, made.inner, *made.steps,
            made.depths[0], made.rows.size, made.columns.size,
            made.depths[1], made.rows.length, made.columns.length,
            *(table.shape[1] for table in readers),
            made.depths[2], taps_of(made.rows), taps_of(made.columns), blocks, by,
            KIND=kind, COUNTED=how, SHARED=shared, ROWS=per, WIDE=made.wide, ACC=accumulator(gy.dtype), BLOCK=block,
            num_warps=warps,
        )  # fmt: skip


def spread(made: Plan, kind: str, gy: Any, gx: Any, codes: Any = None, low: Any = None, low_taps: int = 0) -> None:
    """Cotangents of sliding windows without dilation, in one call."""
    key = "spread", kind, gy.dtype, low is not None
    if key not in made.made:
        rows, columns = made.rows, made.columns
        assert isinstance(rows, Sliding)
        assert isinstance(columns, Sliding)
        stride = rows.stride
        candidates = -(-columns.kernel // columns.stride)
        read = -(-rows.kernel // stride)
        start = rows.before // stride * stride
        held = REGISTERS // 2 if kind == "first" and candidates > 1 else REGISTERS
        most = max((held - read + 1) * stride, stride)
        if rows.kernel <= 3:
            most = max(16 // stride * stride, stride)
        per, blocks = shared_evenly(rows.size + rows.before - start, most, stride)
        lanes = made.outer * columns.size * made.inner
        block, warps = block_of(lanes)
        how, by = divisor(made) if kind == "sum" else ("all", 1)
        words = {
            "KIND": kind,
            "CELLS": per,
            "TAPS": rows.kernel,
            "STRIDE": stride,
            "READERS": read,
            "LEVELS": rows.kernel.bit_length() - 1,
            "UNROLLED": candidates if candidates <= UNROLL else 0,
            "COUNTED": how,
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
            rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.before, columns.after,
            columns.stride, columns.kernel, candidates, start, blocks,
            low_taps or columns.kernel, rows.kernel * (low_taps or columns.kernel), by,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks * depths,), numbers, words
    grid, numbers, words = made.made[key]
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    with on(gy.device):
        spread_kernels.spread[grid](
            gy, gy if codes is None else codes, gx, gx if low is None else low, depth_readers, *numbers, **words
        )
