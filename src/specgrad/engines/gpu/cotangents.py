"""Launches of the cotangents of sliding windows: gathered row by row, streamed, or by halves.
`tiles` sets the work per program."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl

from .calls import INTERPRETED, NVIDIA, Call
from .kernels import arguments
from .kernels import halving as halving_kernels
from .kernels import planes as planes_kernels
from .kernels import spread as spread_kernels
from .kernels import stream as stream_kernels
from .kernels import volume as volume_kernels
from .kernels.arguments import Sizes
from .launch import common_words, lane_words, planes_call
from .plan import Plan
from .program import Program
from .tiles import (
    accumulator,
    ahead,
    block_of,
    columns_backward,
    crossing,
    divisor,
    lanes_of,
    one_axis,
    ring,
    ring_bytes,
    scale,
    segments,
    shared_evenly,
    streams_depth_back,
    whole_planes,
)
from .tuned import TUNE


def spread(
    program: Program, made: Plan, kind: str, gy: Any, gx: Any, codes: Any = None, low: Any = None, low_taps: int = 0
) -> None:
    """Launch the cotangents of sliding windows in one call."""
    call = spread_call(made, kind, gy, gx, low, low_taps)
    beside = made.table("depth_readers", gy.device) if made.depth else gy
    if INTERPRETED and not made.depth:
        beside = program.between((1 << 15,), torch.uint8)  # in place of shared memory
    given = (gy if t is None else t for t in (codes, gx, low))
    program.launch(call, gy, *given, beside, scale(made, kind, gy))


def spread_call(made: Plan, kind: str, gy: Any, gx: Any, low: Any, low_taps: int) -> Call:
    rows: Any = made.rows
    columns: Any = made.columns
    held = whole_planes(made, kind, gy.element_size()) if kind == "first" and low is None else None
    if held is not None:
        return planes_call(made, planes_kernels.spread, held, Sizes(outer=made.outer), gy.dtype)
    wide = columns_backward(made, kind, gx.element_size())[0]
    if kind == "first" and not made.depth and rows.stride == 1:
        crossed = crossing(made, gx.element_size())
        if crossed is not None or (one_axis(made) and rows.kernel > 1):
            return vjp_halving_call(made, gy, gx, columns.kernel if crossed else low_taps or 1, crossed)
        if rows.kernel > 1 and wide % columns.stride == 0:
            return vjp_stream_call(made, gy, gx)
    if kind == "first" and low is None and streams_depth_back(made):
        return volume_backward_call(made, gy, gx)
    return spread_rows_call(made, kind, gy, gx, low, low_taps)


def sliding_sizes(made: Plan, lanes: int, row_blocks: int, column_groups: int) -> Sizes:
    """The sizes of rows and columns for kernels of cotangents."""
    rows: Any = made.rows
    columns: Any = made.columns
    return Sizes(
        lanes=lanes,
        inner=made.inner,
        rows=rows.size,
        rows_out=rows.length,
        rows_before=rows.before,
        row_blocks=row_blocks,
        columns=columns.size,
        columns_out=columns.length,
        column_groups=column_groups,
    )


def vjp_stream_call(made: Plan, gy: Any, gx: Any) -> Call:
    """The call for winners of windows with row stride 1."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    candidates = -(-columns.kernel // columns.stride)
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes, lanes_of(made, rows.size))
    per, blocks = segments(made, rows.size)
    words = {
        **common_words(made, gy.dtype, lanes, block),
        **lane_words(made, wide, together, columns.before // columns.stride - candidates + 1, columns.size, None, 0),
        "STEP": max(min(TUNE["step"], TUNE["matches"] // (rows.kernel * candidates * wide)), 1),
        "COLUMN_READERS": candidates,
    }
    sizes = sliding_sizes(made, lanes, blocks, groups)._replace(per=per)
    return Call(stream_kernels.vjp_stream, -(-lanes // block) * blocks, sizes, arguments.tile(**words), warps)


def pairs(like: Any) -> bool:
    """Whether two 16-bit numbers are compared at once, with the minimum of both: on devices of
    compute capability 9 and later. Triton's interpreter and compilation without a device follow the
    same path."""
    able = not like.is_cuda or (NVIDIA and torch.cuda.get_device_capability(like.device) >= (9, 0))
    return able and accumulator(like.dtype) == tl.float32


def vjp_halving_call(made: Plan, gy: Any, gx: Any, low_taps: int, crossed: tuple[int, int] | None) -> Call:
    """The call for winners of large windows with row stride 1. If `crossed`, the call also does
    columns, by programs of one warp."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    left, right = crossed or (0, 0)
    half = min(gy.element_size(), gx.element_size()) == 2
    whole = made.made.get("whole", made.whole)
    pays = rows.kernel >= TUNE["taps paired"] if crossed else half
    groups = -(-max(columns.size, columns.length) // wide)
    lanes = made.outer * groups
    block, warps = (32, 1) if crossed else block_of(lanes)
    per, blocks = segments(made, rows.size)
    slots = ring(made, gx.element_size()) if crossed else 0
    words = {
        "LOW_TAPS": low_taps,
        "STEP": TUNE[
            "step low" if half and not slots and (rows.kernel == 1 or rows.kernel > TUNE["taps ahead"]) else "step"
        ],
        "TAPS": rows.kernel,
        "V": wide,
        "W": together,
        "DENSE": wide > 1 and columns.size == groups * wide,
        "CROSS_TAPS": columns.kernel if crossed else 0,
        "CROSS_BEFORE": columns.before if crossed else 0,
        "LEFT": left,
        "RIGHT": right,
        "WHOLE": whole,
        "SPARSE": made.made.get("sparse", False),
        "AHEAD": rows.size >= TUNE["rows ahead"]
        if slots
        else not crossed and rows.kernel > TUNE["taps ahead"] and ahead(made, "first"),
        "PAIRED": whole and pays and wide > 1 and rows.kernel * low_taps < 1 << 14 and pairs(gy),
        "SLOTS": slots,
        "ASKED": f"{{ .shared .align 16 .b8 ring[{ring_bytes(slots, wide, block)}]; mov.b32 $0, ring; }}",
        "WIDE": made.wide,
        "EVEN": lanes % block == 0 and not crossed,
        "ACC": accumulator(gy.dtype),
        "BLOCK": block,
    }
    sizes = sliding_sizes(made, lanes, blocks, groups)._replace(per=per)
    programs = -(-lanes // (block - left - right)) * blocks
    return Call(halving_kernels.vjp_halving, programs, sizes, arguments.tile(**words), warps)


def volume_backward_call(made: Plan, gy: Any, gx: Any) -> Call:
    """The call for winners of windows of three axes with stride 1."""
    depth: Any = made.depth[0]
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes)
    per_rows, blocks = shared_evenly(rows.size, max(TUNE["sums volume_backward"] // (wide * depth.kernel), 1))
    per, segments_deep = shared_evenly(depth.size, TUNE["segment volume_backward"] * depth.kernel)
    words = {
        **common_words(made, gy.dtype, lanes, block, even=True),
        **lane_words(made, wide, together, columns.before - columns.kernel + 1, columns.size, None, 0),
        "ROWS": per_rows,
        "DEPTH_TAPS": depth.kernel,
        "COLUMN_READERS": columns.kernel,
        "PAIRED": wide > 1 and pairs(gy),
    }
    sizes = sliding_sizes(made, lanes, blocks, groups)._replace(
        per=per,
        depths=depth.size,
        depths_out=depth.length,
        depths_before=depth.before,
        depth_blocks=segments_deep,
    )
    programs = -(-lanes // block) * blocks * segments_deep
    return Call(volume_kernels.volume_backward, programs, sizes, arguments.tile(**words), warps)


def rows_backward(made: Plan, most: int) -> tuple[int, int, int, int]:
    """Rows of cells per program, number of blocks, padded row of the first program, and number of
    rows of windows that read a cell."""
    rows: Any = made.rows
    start = rows.before // rows.stride * rows.stride
    per, blocks = shared_evenly(rows.size + rows.before - start, max(most, rows.stride), rows.stride)
    return per, blocks, start, -(-rows.kernel // rows.stride)


def spread_rows_call(made: Plan, kind: str, gy: Any, gx: Any, low: Any, low_taps: int) -> Call:
    """The call for some rows of cells, of any sliding windows."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, kind, gx.element_size())
    fixed = wide % columns.stride == 0
    candidates = -(-columns.kernel // columns.stride)
    read = -(-rows.kernel // rows.stride)
    most = rows.stride if made.inner > 1 else max(TUNE["back small"], rows.stride)
    if kind == "first":
        most = min(most, max(TUNE["matches"] // (wide * read * candidates), rows.stride))
    per, blocks, start, read = rows_backward(made, most // rows.stride * rows.stride)
    first = columns.before // columns.stride - candidates + 1 if fixed else 0
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes, lanes_of(made, per))
    words = {
        **common_words(made, gy.dtype, lanes, block),
        **lane_words(made, wide, together, first, columns.size, low, low_taps),
        "KIND": kind,
        "CELLS": per,
        "STRIDE": rows.stride,
        "READERS": read,
        "COLUMN_READERS": candidates,
        "FIXED": fixed,
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "DEEP": bool(made.depth),
    }
    depths, windows, _ = made.depths
    depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
    sizes = sliding_sizes(made, lanes, blocks, groups)._replace(
        depths=depths,
        depths_out=windows,
        depth_candidates=depth_candidates,
        rows_after=rows.after,
        row_start=start,
        columns_after=columns.after,
    )
    return Call(spread_kernels.spread, -(-lanes // block) * blocks * depths, sizes, arguments.tile(**words), warps)
