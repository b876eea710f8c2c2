"""Launches of windows given by tables (adaptive, whole, dilated and tied ones), and of winners'
tangents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton

from ...geometry import Adaptive, Sliding
from .calls import Call
from .kernels import arguments
from .kernels import tables as tables_kernels
from .kernels import whole as whole_kernels
from .kernels.arguments import Sizes, Tables
from .plan import Plan, taps_of
from .program import Program
from .tiles import accumulator, block_of, divisor, scale, shared_evenly
from .tuned import TUNE


def tables(made: Plan, device: Any, *names: str) -> Tables:
    return Tables(**{name: made.table(name, device) for name in names})


def cell_sizes(made: Plan) -> Sizes:
    """The layout of an operand's cells, and the numbers of windows."""
    outer, group, depth, row, column, inner = made.steps
    return Sizes(
        groups=made.groups,
        inner=made.inner,
        step_outer=outer,
        step_group=group,
        step_depth=depth,
        step_row=row,
        step_column=column,
        step_inner=inner,
        depths_out=made.depths[1],
        depth_taps=made.depths[2],
        rows_out=made.rows.length,
        columns_out=made.columns.length,
    )


def table_words(made: Plan, kind: str, dtype: Any, block: int) -> dict[str, Any]:
    """The constants of kernels with tables."""
    counted = divisor(made)[0] if kind == "sum" else "all"
    return {"KIND": kind, "COUNTED": counted, "WIDE": made.wide, "ACC": accumulator(dtype), "BLOCK": block}


def visit(
    program: Program, made: Plan, kind: str, x: Any, moved: Any, y: Any, kept: tuple[Any, ...], shared: bool = False
) -> None:
    """Launch values or tangents of any windows, tap by tap."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    sizes = cell_sizes(made)._replace(
        lanes=lanes,
        step_depth=None,
        row_taps=taps_of(made.rows),
        row_dilation=dilation_of(made.rows),
        column_taps=taps_of(made.columns),
        column_dilation=dilation_of(made.columns),
    )
    tile = arguments.tile(
        ZERO=shared or getattr(made.op, "pad", "") == "zero",
        KEEP=bool(kept),
        **table_words(made, kind, x.dtype, block),
    )
    given = tables(made, x.device, "depths", "rows", "columns", "numbers", *(("scale",) if kind == "sum" else ()))
    programs = -(-lanes // block) * made.rows.length * made.depths[1]
    call = Call(tables_kernels.visit, programs, sizes, tile, warps, tables=given)
    program.launch(call, x, moved, y, *(*kept, y, y)[:2])


def dilation_of(axis: Any) -> int:
    return axis.dilation if isinstance(axis, Sliding) else 1


def flat(made: Plan) -> Plan:
    """The plan with rows and columns merged to one axis, if windows are whole contiguous planes;
    else the plan itself."""

    def make() -> Plan:
        rows, columns, (*_, row, column, _) = made.rows, made.columns, made.steps
        whole = isinstance(rows, Adaptive) and isinstance(columns, Adaptive) and rows.length == columns.length == 1
        if not whole or row != columns.size * column:
            return made
        one = Adaptive(rows.size * columns.size, 1)
        return replace(made, rows=Adaptive(1, 1), columns=one, made={"divisor": divisor(made)})

    found: Plan = made.once("flat", make)
    return found


def fills(made: Plan) -> bool:
    """Whether windows are whole planes of contiguous cells."""
    whole = flat(made)
    return not made.depth and whole is not made and whole.inner == whole.groups == whole.steps[4] == 1


def reduce(program: Program, made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Launch values of large windows."""
    made = flat(made)
    across, folded = made.inner >= 8, "sum" if kind == "sum" else "max"
    few, values = made.taps <= 512, kind == folded
    if across or few:
        block, taps = TUNE["taps" + " across" * across], TUNE["tile" + " across" * across]
    elif values or x.element_size() > 2:
        block, taps = TUNE["taps large"], TUNE["bytes large"] // x.element_size()
    else:
        block = taps = TUNE["taps large half"]
    taps = max(taps, block)
    block = min(triton.next_power_of_2(made.taps), block)
    outputs = max(min(taps // block, triton.next_power_of_2(made.outputs)), 1)
    axes = (made.rows, made.columns)
    exact = all(bool((axis.ranges().count == taps_of(axis)).all()) for axis in axes)
    warps = TUNE["warps across"] if across else max(block // TUNE[f"share {folded}"], 4)
    tile = arguments.tile(
        TAPS=taps_of(made.rows),
        COLUMN_TAPS=taps_of(made.columns),
        EXACT=exact,
        DEEP=bool(made.depth),
        PLANE=not made.depth and made.rows.size == 1 and made.columns.length == 1 and exact,
        ACROSS=across,
        UNROLL=TUNE["unroll" if across or (values and not few) else "unroll winners"],
        OUTPUTS=outputs,
        **table_words(made, kind, x.dtype, block),
    )
    sizes = cell_sizes(made)._replace(
        outputs=made.outputs,
        step_depth=None,
        row_dilation=dilation_of(made.rows),
        column_dilation=dilation_of(made.columns),
    )
    given = tables(made, x.device, "depths", "rows", "columns", *(("scale",) if kind == "sum" else ()))
    call = Call(whole_kernels.reduce, -(-made.outputs // outputs), sizes, tile, warps, tables=given)
    program.launch(call, x, y, kept[-1] if kept else y)


def select(program: Program, made: Plan, moved: Any, y: Any, codes: Any, index: bool) -> None:
    """Launch tangents or indices of winners."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    sizes = cell_sizes(made)._replace(
        lanes=lanes,
        rows=made.rows.size,
        row_taps=taps_of(made.rows),
        row_dilation=dilation_of(made.rows),
        columns=made.columns.size,
        column_taps=taps_of(made.columns),
        column_dilation=dilation_of(made.columns),
    )
    tile = arguments.tile(INDEX=index, **table_words(made, "", torch.float32, block))
    given = tables(made, codes.device, "depths", "rows", "columns")
    programs = -(-lanes // block) * made.rows.length * made.depths[1]
    call = Call(tables_kernels.select, programs, sizes, tile, warps, tables=given)
    program.launch(call, moved, y, codes)


def fill(program: Program, made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Launch cotangents of maxima of whole contiguous planes."""
    whole = flat(made)
    cells = whole.columns.size
    block = min(triton.next_power_of_2(cells), TUNE["fill"] * 4 // gx.element_size())
    chunks, blocks = shared_evenly(-(-cells // block), TUNE["chunks" + " half" * (gx.element_size() == 2)])
    tile = arguments.tile(CHUNKS=chunks, **table_words(made, kind, gy.dtype, block))
    sizes = Sizes(cells=cells, blocks=blocks, step_outer=whole.steps[0])
    call = Call(whole_kernels.fill, whole.outer * blocks, sizes, tile, 4)
    one, other = (*kept, gy, gy)[:2]
    program.launch(call, gy, gx if x is None else x, gx, one, other)


def pour(program: Program, made: Plan, gy: Any, gx: Any) -> None:
    """Launch cotangents of averages of whole planes."""
    block = min(triton.next_power_of_2(made.cells), TUNE["fill"] * 4 // gx.element_size())
    tile = arguments.tile(EVEN=made.cells % block == 0, **table_words(made, "", gy.dtype, block))
    sizes = Sizes(cells=made.cells, inner=made.inner, step_outer=made.cells // made.outer)
    call = Call(whole_kernels.pour, -(-made.cells // block), sizes, tile, 4)
    program.launch(call, gy, gx, scale(made, "sum", gy))


def bins(program: Program, made: Plan, kind: str, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Launch cotangents of adaptive windows whose rows of cells have few readers."""
    names = ("row_spans", "column_readers", "rows", "columns", *(("scale",) if kind == "sum" else ()))
    given = tables(made, gy.device, *names)
    rows, columns = made.rows, made.columns
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes, TUNE["lanes bins"])
    per, blocks = shared_evenly(rows.size, TUNE["rows bins"])
    sizes = Sizes(
        lanes=lanes,
        inner=made.inner,
        rows=rows.size,
        rows_out=rows.length,
        row_blocks=blocks,
        columns=columns.size,
        columns_out=columns.length,
        column_taps=taps_of(columns),
        column_candidates=int(given.column_readers.shape[1]),
    )
    tile = arguments.tile(ROWS=per, **table_words(made, kind, gy.dtype, block))
    call = Call(tables_kernels.bins, -(-lanes // block) * blocks, sizes, tile, warps, tables=given)
    program.launch(call, gy, kept[0] if kept else gy, gx)


def collect(program: Program, made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Launch cotangents of any windows: "first", "sum", "weights"; for ties "tied", "alone" (whole
    planes only) and "shared"."""
    rows, columns = made.rows, made.columns
    whole = all(isinstance(axis, Adaptive) and axis.length == 1 for axis in (*made.depth, rows, columns))
    if kind == "sum" and whole and divisor(made)[0] == "all":
        pour(program, made, gy, gx)
        return
    if kind not in ("weights", "sum") and fills(made):
        fill(program, made, kind, x, gy, gx, kept)
        return
    adaptive = not made.depth and isinstance(rows, Adaptive) and isinstance(columns, Adaptive)
    if kind in ("first", "sum") and adaptive and rows.length <= rows.size:
        bins(program, made, kind, gy, gx, kept)
        return
    names = ("depth_readers", "row_readers", "column_readers", "depths", "rows", "columns", "numbers")
    given = tables(made, gy.device, *names, *(("scale",) if kind == "sum" else ()))
    candidates = [int(table.shape[1]) for table in (given.depth_readers, given.row_readers, given.column_readers)]
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes)
    per, blocks = shared_evenly(rows.size, TUNE["rows collect"])
    sizes = cell_sizes(made)._replace(
        lanes=lanes,
        depths=made.depths[0],
        depth_candidates=candidates[0],
        rows=rows.size,
        row_taps=taps_of(rows),
        row_candidates=candidates[1],
        row_blocks=blocks,
        columns=columns.size,
        column_taps=taps_of(columns),
        column_candidates=candidates[2],
    )
    tile = arguments.tile(ROWS=per, **table_words(made, kind, gy.dtype, block))
    programs = -(-lanes // block) * blocks * made.depths[0]
    call = Call(tables_kernels.collect, programs, sizes, tile, warps, tables=given)
    program.launch(call, gy, gx if x is None else x, gx, *(*kept, gy, gy)[:2])
