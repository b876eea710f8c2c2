"""Launches of windows that are given by tables: adaptive, whole, dilated and tied ones, and
tangents of winners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import triton

from ...geometry import Adaptive, Sliding
from .calls import Call
from .kernels import tables as tables_kernels
from .kernels import whole as whole_kernels
from .plan import Plan, taps_of
from .program import Program
from .tiles import accumulator, block_of, divisor, scale, shared_evenly
from .tuned import SMALL, TUNE


def tables(made: Plan, device: Any, *names: str) -> tuple[Any, ...]:
    return tuple(made.table(name, device) for name in names)


def visit(
    program: Program, made: Plan, kind: str, x: Any, moved: Any, y: Any, kept: tuple[Any, ...], shared: bool = False
) -> None:
    """Values or tangents of any windows, tap by tap."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    outer, group, _, row, column, inner = made.steps
    numbers = (
        lanes, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
        made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns),
        taps_of(made.rows), taps_of(made.columns), made.depths[1],
    )  # fmt: skip
    words = {
        "KIND": kind,
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "ZERO": shared or getattr(made.op, "pad", "") == "zero",
        "KEEP": bool(kept),
        "WIDE": made.wide,
        "ACC": accumulator(x.dtype),
        "BLOCK": block,
        "num_warps": warps,
    }
    programs = -(-lanes // block) * made.rows.length * made.depths[1]
    call = Call(tables_kernels.visit, programs, numbers, words)
    one, other = (*kept, y, y)[:2]
    given = tables(made, x.device, "depths", "rows", "columns", "numbers")
    program.launch(call, x, moved, y, one, other, *given, scale(made, kind, y))


def step_of(axis: Any) -> int:
    return axis.dilation if isinstance(axis, Sliding) else 1


def flat(made: Plan) -> Plan:
    """A plan whose rows and columns are one axis, where windows are whole planes that lie so."""

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
    """Whether windows are whole planes of neighbouring cells."""
    whole = flat(made)
    return not made.depth and whole is not made and whole.inner == whole.groups == whole.steps[4] == 1


def reduce(program: Program, made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Values of large windows."""
    made = flat(made)
    across, folded = made.inner >= 8, "sum" if kind == "sum" else "max"
    few, values = made.taps <= 512, kind == folded
    if across or few:
        beside = folded if not across else "across small" if made.taps <= SMALL * 4 else "across"
        block, tile = TUNE[f"taps {beside}"], TUNE[f"tile {beside}"]
    elif values or x.element_size() > 2:
        block, tile = TUNE["taps large"], TUNE["bytes large"] // x.element_size()
    else:
        block = tile = TUNE["taps large half"]
    tile = max(tile, block)
    block = min(triton.next_power_of_2(made.taps), block)
    outputs = max(min(tile // block, triton.next_power_of_2(made.outputs)), 1)
    axes = (made.rows, made.columns)
    exact = all(bool((axis.ranges().count == taps_of(axis)).all()) for axis in axes)
    warps = TUNE[f"warps {beside}"] if across else max(block // TUNE[f"share {folded}"], 4)
    words = {
        "KIND": kind,
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "ROW_TAPS": taps_of(made.rows),
        "COLUMN_TAPS": taps_of(made.columns),
        "EXACT": exact,
        "DEEP": bool(made.depth),
        "PLANE": not made.depth and made.rows.size == 1 and made.columns.length == 1 and exact,
        "ACROSS": across,
        "UNROLL": TUNE["unroll" if across or (values and not few) else "unroll winners"],
        "WIDE": made.wide,
        "ACC": accumulator(x.dtype),
        "OUTPUTS": outputs,
        "BLOCK": block,
        "num_warps": warps,
    }
    outer, group, _, row, column, inner = made.steps
    numbers = (
        made.outputs, made.groups, made.inner, made.depths[2], outer, group, row, column, inner,
        made.rows.length, made.columns.length, step_of(made.rows), step_of(made.columns), made.depths[1],
    )  # fmt: skip
    call = Call(whole_kernels.reduce, -(-made.outputs // outputs), numbers, words)
    given = tables(made, x.device, "depths", "rows", "columns")
    program.launch(call, x, y, kept[-1] if kept else y, *given, scale(made, kind, y))


def select(program: Program, made: Plan, moved: Any, y: Any, codes: Any, index: bool) -> None:
    """Tangents or places of winners."""
    lanes = made.outer * made.columns.length * made.inner
    block, warps = block_of(lanes)
    numbers = (
        lanes, made.groups, made.inner, made.depths[2], *made.steps,
        made.rows.size, made.columns.size, made.rows.length, made.columns.length,
        step_of(made.rows), step_of(made.columns), taps_of(made.rows), taps_of(made.columns), made.depths[1],
    )  # fmt: skip
    words = {"INDEX": index, "WIDE": made.wide, "BLOCK": block, "num_warps": warps}
    programs = -(-lanes // block) * made.rows.length * made.depths[1]
    call = Call(tables_kernels.select, programs, numbers, words)
    program.launch(call, moved, y, codes, *tables(made, codes.device, "depths", "rows", "columns"))


def fill(program: Program, made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Cotangents of maxima of whole planes of neighbouring cells."""
    whole = flat(made)
    cells = whole.columns.size
    block = min(triton.next_power_of_2(cells), TUNE["fill"] * 4 // gx.element_size())
    chunks, blocks = shared_evenly(-(-cells // block), TUNE["chunks" + " half" * (gx.element_size() == 2)])
    words = {"KIND": kind, "CHUNKS": chunks, "WIDE": made.wide, "ACC": accumulator(gy.dtype), "BLOCK": block,
             "num_warps": 4}  # fmt: skip
    call = Call(whole_kernels.fill, whole.outer * blocks, (cells, blocks, whole.steps[0]), words)
    one, other = (*kept, gy, gy)[:2]
    program.launch(call, gy, gx if x is None else x, gx, one, other)


def pour(program: Program, made: Plan, gy: Any, gx: Any) -> None:
    """Cotangents of averages of whole planes."""
    block = min(triton.next_power_of_2(made.cells), TUNE["fill"] * 4 // gx.element_size())
    words = {"EVEN": made.cells % block == 0, "WIDE": made.wide, "ACC": accumulator(gy.dtype), "BLOCK": block,
             "num_warps": 4}  # fmt: skip
    call = Call(whole_kernels.pour, -(-made.cells // block), (made.cells // made.outer, made.inner, made.cells), words)
    program.launch(call, gy, gx, scale(made, "sum", gy))


def cells_words(made: Plan, kind: str, dtype: Any, rows: int, block: int, warps: int) -> dict[str, Any]:
    """What kernels are compiled for that gather so many rows of cells."""
    counted = divisor(made)[0] if kind == "sum" else "all"
    acc = accumulator(dtype)
    return {"KIND": kind, "COUNTED": counted, "ROWS": rows, "WIDE": made.wide, "ACC": acc, "BLOCK": block,
            "num_warps": warps}  # fmt: skip


def bins(program: Program, made: Plan, kind: str, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Cotangents of adaptive windows, whose rows of cells meet few rows of windows."""
    given = tables(made, gy.device, "row_spans", "column_readers", "rows", "columns")
    rows, columns = made.rows, made.columns
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes, TUNE["lanes bins"])
    per, blocks = shared_evenly(rows.size, TUNE["rows bins"])
    numbers = (
        lanes, made.inner, rows.size, columns.size, rows.length, columns.length, int(given[1].shape[1]),
        taps_of(columns), blocks,
    )  # fmt: skip
    words = cells_words(made, kind, gy.dtype, per, block, warps)
    call = Call(tables_kernels.bins, -(-lanes // block) * blocks, numbers, words)
    program.launch(call, gy, kept[0] if kept else gy, gx, *given, scale(made, kind, gy))


def collect(program: Program, made: Plan, kind: str, x: Any, gy: Any, gx: Any, kept: tuple[Any, ...]) -> None:
    """Cotangents of any windows: "first", "sum", "weights"; of ties, "tied", "alone" (only of whole
    planes) and "shared"."""
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
    readers = tables(made, gy.device, "depth_readers", "row_readers", "column_readers")
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes)
    single = all(table.shape[1] == 1 for table in readers)
    per, blocks = shared_evenly(rows.size, TUNE["rows collect" if single else "rows collect, overlapping"])
    numbers = (
        lanes, made.groups, made.inner, *made.steps,
        made.depths[0], rows.size, columns.size, made.depths[1], rows.length, columns.length,
        *(int(table.shape[1]) for table in readers), made.depths[2], taps_of(rows), taps_of(columns), blocks,
    )  # fmt: skip
    words = cells_words(made, kind, gy.dtype, per, block, warps)
    call = Call(tables_kernels.collect, -(-lanes // block) * blocks * made.depths[0], numbers, words)
    one, other = (*kept, gy, gy)[:2]
    source = gx if x is None else x
    given = tables(made, gy.device, "depths", "rows", "columns", "numbers")
    program.launch(call, gy, source, gx, one, other, *readers, *given, scale(made, kind, gy))
