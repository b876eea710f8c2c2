"""Launches of smooth maxima of small sliding windows and of their VJPs; see `tables` for other
windows."""

from __future__ import annotations

from typing import Any

from .calls import Call
from .cotangents import rows_backward
from .kernels import smooth as kernels
from .kernels.arguments import Sizes, tile
from .launch import common_words, lane_words, window_sizes
from .plan import Plan
from .program import Program
from .tiles import block_of, columns_forward, shared_evenly
from .tuned import TUNE


def fold(program: Program, made: Plan, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Launch smooth maxima of small sliding windows."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_forward(made, "smooth", x.element_size())
    groups = -(-columns.length // wide)
    cells = (wide - 1) * columns.stride + columns.kernel
    held = TUNE["cells smooth" + " half" * (x.element_size() == 2)] * 4 // x.element_size()
    most = max((held // cells - rows.kernel) // rows.stride + 1, 1)
    per, blocks = shared_evenly(rows.length, most)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes)
    words = {
        **common_words(made, x.dtype, lanes, block, even=True),
        **lane_words(made, wide, together, -columns.before, columns.length, None, 0),
        "ROWS": per,
        "STRIDE": rows.stride,
        "ZERO": made.op.pad == "zero",
        "KEEP": bool(kept),
        "RAGGED": made.op.ceil_mode,
        "DEEP": bool(made.depth),
    }
    programs = -(-lanes // block) * blocks * made.depths[1]
    sizes = window_sizes(made, lanes, blocks, groups, together)
    call = Call(kernels.smooth, programs, sizes, tile(**words), warps)
    depths = made.table("depths", x.device) if made.depth else y
    program.launch(call, x, y, *(kept or (y, y)), depths, made.table("numbers", x.device))


def spread(program: Program, made: Plan, gy: Any, gx: Any, kept: tuple[Any, ...], x: Any) -> None:
    """Launch cotangents of smooth maxima of small sliding windows."""
    rows: Any = made.rows
    columns: Any = made.columns
    per, blocks, start, read = rows_backward(made, TUNE["back weights"] // rows.stride * rows.stride)
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes)
    words = {
        **common_words(made, gy.dtype, lanes, block),
        "CELLS": per,
        "STRIDE": rows.stride,
        "READERS": read,
        "COLUMN_READERS": -(-columns.kernel // columns.stride),
        "DEEP": bool(made.depth),
    }
    depths, windows, _ = made.depths
    depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
    outer, group, depth, row, column, inner = made.steps
    sizes = Sizes(
        lanes=lanes,
        groups=made.groups,
        inner=made.inner,
        step_outer=outer,
        step_group=group,
        step_depth=depth,
        step_row=row,
        step_column=column,
        step_inner=inner,
        depths=depths,
        depths_out=windows,
        depth_candidates=depth_candidates,
        rows=rows.size,
        rows_out=rows.length,
        rows_before=rows.before,
        row_start=start,
        row_blocks=blocks,
        columns=columns.size,
        columns_out=columns.length,
        columns_before=columns.before,
    )
    call = Call(kernels.weigh, -(-lanes // block) * blocks * depths, sizes, tile(**words), warps)
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    program.launch(call, gy, *kept, gx, x, depth_readers, made.table("numbers", gy.device))
