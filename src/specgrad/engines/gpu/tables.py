"""Launches of windows that are given by tables: adaptive, whole, dilated and tied ones, and tangents of winners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import triton

from ...geometry import Adaptive, Sliding
from .kernels import tables as tables_kernels
from .plan import Plan, taps_of
from .tiles import TUNE, accumulator, block_of, divisor, on, scale, shared_evenly


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
