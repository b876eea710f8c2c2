"""Launches of smooth maxima of small sliding windows, and back; `tables` has the others."""

from __future__ import annotations

from typing import Any

from .calls import Call
from .cotangents import rows_backward
from .kernels import smooth as kernels
from .launch import common_words, lane_words, window_numbers
from .plan import Plan
from .program import Program
from .tiles import block_of, columns_forward, shared_evenly
from .tuned import TUNE


def fold(program: Program, made: Plan, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Smooth maxima of small sliding windows."""
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
        **common_words(made, x.dtype, lanes, block, warps, even=True),
        **lane_words(made, wide, together, -columns.before, columns.length, None, 0),
        "ROWS": per,
        "STRIDE": rows.stride,
        "ZERO": made.op.pad == "zero",
        "KEEP": bool(kept),
        "RAGGED": made.op.ceil_mode,
        "DEEP": bool(made.depth),
    }
    programs = -(-lanes // block) * blocks * made.depths[1]
    call = Call(kernels.smooth, programs, window_numbers(made, lanes, blocks, groups, together), words)
    depths = made.table("depths", x.device) if made.depth else y
    program.launch(call, x, y, *(kept or (y, y)), depths, made.table("numbers", x.device))


def spread(program: Program, made: Plan, gy: Any, gx: Any, kept: tuple[Any, ...], x: Any) -> None:
    """Cotangents of smooth maxima of small sliding windows."""
    rows: Any = made.rows
    columns: Any = made.columns
    per, blocks, start, read = rows_backward(made, TUNE["back weights"] // rows.stride * rows.stride)
    lanes = made.outer * columns.size * made.inner
    block, warps = block_of(lanes)
    words = {
        **common_words(made, gy.dtype, lanes, block, warps),
        "CELLS": per,
        "STRIDE": rows.stride,
        "READERS": read,
        "COLUMN_READERS": -(-columns.kernel // columns.stride),
        "DEEP": bool(made.depth),
    }
    depths, windows, _ = made.depths
    depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
    numbers = (
        lanes, made.groups, made.inner, depths, windows, depth_candidates, *made.steps,
        rows.size, rows.length, rows.before, columns.size, columns.length, columns.before, start, blocks,
    )  # fmt: skip
    call = Call(kernels.weigh, -(-lanes // block) * blocks * depths, numbers, words)
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    program.launch(call, gy, *kept, gx, x, depth_readers, made.table("numbers", gy.device))
