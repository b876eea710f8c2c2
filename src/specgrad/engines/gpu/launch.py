"""Launches of sliding windows: held or streamed, and back; `smooth` and `tables` have the others, `tiles` how much a program does."""

from __future__ import annotations

from typing import Any

import triton

from .calls import Call
from .kernels import halving as halving_kernels
from .kernels import narrow as narrow_kernels
from .kernels import planes as planes_kernels
from .kernels import rows as rows_kernels
from .kernels import spread as spread_kernels
from .kernels import stream as stream_kernels
from .kernels import volume as volume_kernels
from .plan import Plan
from .tiles import (
    accumulator,
    ahead,
    block_of,
    columns_backward,
    columns_forward,
    crossing,
    divisor,
    half_winners,
    lanes_of,
    limited,
    narrow,
    one_axis,
    packs,
    registers_ahead,
    rises,
    rows_held,
    scale,
    segments,
    shared_evenly,
    sinks,
    step_down,
    streams,
    whole_planes,
)
from .tuned import TUNE


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


def common_words(made: Plan, dtype: Any, lanes: int, block: int, warps: int, even: bool = False) -> dict[str, Any]:
    """What every kernel of sliding windows is compiled for. `even`: whether it is worth knowing that all lanes exist."""
    rows: Any = made.rows
    columns: Any = made.columns
    return {
        "TAPS": rows.kernel,
        "COLUMN_TAPS": columns.kernel,
        "COLUMN_STRIDE": columns.stride,
        "WIDE": made.wide,
        "EVEN": lanes % block == 0 and (even or made.inner > 1),
        "ACC": accumulator(dtype),
        "BLOCK": block,
        "num_warps": warps,
    }


def lane_words(
    made: Plan, wide: int, together: int, first: int, length: int, low: Any, low_taps: int
) -> dict[str, Any]:
    """How a lane's columns lie: `first` is the first that it reads, `length` how many are written."""
    columns: Any = made.columns
    return {
        "V": wide,
        "W": together,
        "LEAD": first % together,
        "DENSE": made.inner == 1 and wide > 1 and length % wide == 0,
        "COLUMN_BEFORE": columns.before,
        "LOW_TAPS": low_taps or columns.kernel,
        "LOW": low is not None,
    }


def fold(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any = None, low_taps: int = 0) -> None:
    """Maximum, winners or sum of sliding windows, in one call."""
    deep = made.table("depths", x.device) if made.depth else y
    call = made.once(("fold", kind, x.dtype, y.dtype, low is not None), lambda: fold_call(made, kind, x, low, low_taps))
    call(x, y if low is None else low, y, kept[0] if kept else y, deep, scale(made, kind, y))


def planes_words(made: Plan, held: tuple[int, int, int], dtype: Any) -> dict[str, Any]:
    """What the kernels of `planes` are compiled for."""
    planes, high, across = held
    rows: Any = made.rows
    columns: Any = made.columns
    return {
        "SIZE": rows.size,
        "LENGTH": rows.length,
        "TAPS": rows.kernel,
        "BEFORE": rows.before,
        "COLUMN_SIZE": columns.size,
        "COLUMN_LENGTH": columns.length,
        "COLUMN_TAPS": columns.kernel,
        "COLUMN_BEFORE": columns.before,
        "PLANES": planes,
        "ROWS": high,
        "COLUMNS": across,
        "WIDE": made.wide,
        "ACC": accumulator(dtype),
        "num_warps": max(TUNE["lanes planes"] // 32, 1),
    }


def fold_call(made: Plan, kind: str, x: Any, low: Any, low_taps: int) -> Call:
    rows: Any = made.rows
    columns: Any = made.columns
    held = whole_planes(made, kind, x.element_size()) if low is None else None
    if held is not None:
        outer, group, _, row, _, _ = made.steps
        words = {"KIND": kind, **planes_words(made, held, x.dtype)}
        return Call(planes_kernels.fold, -(-made.outer // held[0]), (made.outer, made.groups, outer, group, row), words)
    if low is None and narrow(made, kind, x.element_size()):
        return narrow_call(made, kind, x)
    kind = packs(made, kind, x.element_size(), low is not None)
    words = {"KIND": kind}
    if kind == "max" and x.element_size() > 4 and not sinks(made, kind):
        kind = "winners"  # as many registers: there is no maximum of doubles in hardware, so they are compared
    wide, together = columns_forward(made, kind, x.element_size())
    groups = -(-columns.length // wide)
    lanes = made.outer * groups * made.inner
    words |= {
        **lane_words(made, wide, together, -columns.before, columns.length, low, low_taps),
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "WHOLE": made.whole,
        "PADDED": any(bool((axis.ranges().count < axis.kernel).any()) for axis in (rows, columns)),
    }
    if streams(made, kind, x.element_size()):
        per, blocks = segments(made, rows.length)
        block, warps = block_of(lanes, TUNE["lanes inner" if made.inner > 1 and kind != "winners" else "lanes stream"])
        words |= {
            "STEP": step_down(made, kind, together),
            "ALONE": blocks == 1 and rows.before < rows.kernel,
            "AHEAD": ahead(made, kind),
            **registers_ahead(made, kind, x.element_size(), wide),
            **common_words(made, x.dtype, lanes, block, warps, even=kind != "sum"),
        }
        numbers = (*window_numbers(made, lanes, blocks, groups, together), per)
        return Call(stream_kernels.slide, -(-lanes // block) * blocks, numbers, words)
    if sinks(made, kind):
        return sink_call(made, kind, x, wide, together, words)
    per, blocks = shared_evenly(rows.length, rows_held(made, kind, x.element_size(), wide))
    half = half_winners(made, kind, x.element_size())
    block, warps = block_of(lanes, TUNE["lanes half"] if half else lanes_of(made, per * rows.stride, kind))
    used = {o * rows.stride + j for o in range(per) for j in range(rows.kernel)}
    alone = blocks == 1 and rows.size <= (per - 1) * rows.stride + rows.kernel
    words |= {
        **common_words(made, x.dtype, lanes, block, warps, even=kind != "sum"),
        "ROWS": per,
        "STRIDE": rows.stride,
        "SHARE": "all" if kind == "winners" else "pairs" if rows.kernel <= 3 or x.element_size() >= 4 else "",
        "NEED": sum(1 << i for i in used),
        "SIZE": rows.size if alone else 0,
        "BEFORE": rows.before if blocks == 1 else 0,
        "DEEP": bool(made.depth),
        **(limited(TUNE["registers half"]) if half else {}),
    }
    programs = -(-lanes // block) * blocks * made.depths[1]
    return Call(rows_kernels.fold, programs, window_numbers(made, lanes, blocks, groups, together), words)


def narrow_call(made: Plan, kind: str, x: Any) -> Call:
    """Windows of narrow planes."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide = together = min(columns_forward(made, kind, x.element_size())[1], 4)
    groups = columns.size // wide
    per, block = narrow(made, kind, x.element_size()), TUNE["lanes narrow"]
    lanes = made.outer * (rows.size // per) * groups
    left, right = -(-rows.before // per), -(-rows.after // per)
    words = {
        "KIND": kind,
        "ROWS": per,
        "SIZE": rows.size,
        "TAPS": rows.kernel,
        "BEFORE": rows.before,
        "COLUMN_SIZE": columns.size,
        "COLUMN_TAPS": columns.kernel,
        "COLUMN_BEFORE": columns.before,
        "V": wide,
        "W": together,
        "LEAD": -columns.before % together,
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "LEFT": left,
        "RIGHT": right,
        "N": triton.next_power_of_2(left + right),
        "WIDE": made.wide,
        "ACC": accumulator(x.dtype),
        "BLOCK": block,
        "num_warps": block // 32,
    }
    outer, group, _, row, _, _ = made.steps
    numbers = (lanes, made.groups, outer // together, group // together, row // together, rows.after, columns.after)
    return Call(narrow_kernels.fold, -(-lanes // (block - (left + right) * groups)), numbers, words)


def sink_call(made: Plan, kind: str, x: Any, wide: int, together: int, words: dict[str, Any]) -> Call:
    """Windows of three axes that move one cell at a time along depth."""
    rows: Any = made.rows
    depth: Any = made.depth[0]
    groups = -(-made.columns.length // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes)
    most = min(TUNE["rows sink " + kind] // (wide * (depth.kernel - 1)), TUNE["rows sink"])
    per_rows, blocks = shared_evenly(rows.length, max(most, 1))
    per, segments_deep = shared_evenly(
        depth.length, TUNE["segment sink" + (" sum" + " large" * (depth.kernel > 3)) * (kind == "sum")] * depth.kernel
    )
    many = x.element_size() <= 4 if kind == "winners" else x.element_size() == 4 and kind == "max" and depth.kernel > 3
    words = words | {
        **common_words(made, x.dtype, lanes, block, warps, even=True),
        "ROWS": per_rows,
        "STRIDE": rows.stride,
        "DEPTH_TAPS": depth.kernel,
        "PADDED": words["PADDED"] or bool((depth.ranges().count < depth.kernel).any()),
        **(limited(TUNE["registers sink " + kind]) if many and made.inner == 1 else {}),
    }
    numbers = (
        *window_numbers(made, lanes, blocks, groups, together),
        made.steps[2] // together, depth.size, depth.before, depth.after, segments_deep, per,
    )  # fmt: skip
    return Call(volume_kernels.sink, -(-lanes // block) * blocks * segments_deep, numbers, words)


def spread(made: Plan, kind: str, gy: Any, gx: Any, codes: Any = None, low: Any = None, low_taps: int = 0) -> None:
    """Cotangents of sliding windows, in one call."""
    key = "spread", kind, gy.dtype, gx.dtype, low is not None
    call = made.once(key, lambda: spread_call(made, kind, gy, gx, low, low_taps))
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    given = (gy if t is None else t for t in (codes, gx, low))
    call(gy, *given, depth_readers, scale(made, kind, gy))


def spread_call(made: Plan, kind: str, gy: Any, gx: Any, low: Any, low_taps: int) -> Call:
    rows: Any = made.rows
    columns: Any = made.columns
    held = whole_planes(made, kind, gy.element_size()) if kind == "first" and low is None else None
    if held is not None:
        words = planes_words(made, held, gy.dtype)
        return Call(planes_kernels.spread, -(-made.outer // held[0]), (made.outer,), words)
    wide = columns_backward(made, kind, gx.element_size())[0]
    if kind == "first" and not made.depth and rows.stride == 1:
        crossed = crossing(made, wide)
        if crossed is not None or (one_axis(made) and rows.kernel > 1):
            return halving_call(made, gy, gx, columns.kernel if crossed else low_taps or 1, crossed)
        if rows.kernel > 1 and wide % columns.stride == 0:
            return trail_call(made, gy, gx)
    if kind == "first" and low is None and rises(made):
        return rise_call(made, gy, gx)
    return rows_call(made, kind, gy, gx, low, low_taps)


def trail_call(made: Plan, gy: Any, gx: Any) -> Call:
    """Winners of windows that move down one row at a time."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    candidates = -(-columns.kernel // columns.stride)
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes, lanes_of(made, rows.size))
    per, blocks = segments(made, rows.size)
    words = {
        **common_words(made, gy.dtype, lanes, block, warps),
        **lane_words(made, wide, together, columns.before // columns.stride - candidates + 1, columns.size, None, 0),
        "STEP": max(min(TUNE["step"], TUNE["matches"] // (rows.kernel * candidates * wide)), 1),
        "COLUMN_READERS": candidates,
    }  # fmt: skip
    numbers = (
        lanes, made.inner, rows.size, rows.length, rows.before, columns.size, columns.length, groups, blocks, per,
    )  # fmt: skip
    return Call(stream_kernels.trail, -(-lanes // block) * blocks, numbers, words)


def halving_call(made: Plan, gy: Any, gx: Any, low_taps: int, crossed: tuple[int, int] | None) -> Call:
    """Winners of large windows that move down one row at a time; if `crossed`, columns in the same call, by programs of one warp."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    left, right = crossed or (0, 0)
    half = min(gy.element_size(), gx.element_size()) == 2
    groups = -(-max(columns.size, columns.length) // wide)
    lanes = made.outer * groups
    block, warps = (32, 1) if crossed else block_of(lanes)
    per, blocks = segments(made, rows.size)
    words = {
        "LOW_TAPS": low_taps,
        "STEP": TUNE["step low" if half and (rows.kernel == 1 or rows.kernel > TUNE["taps ahead"]) else "step"],
        "TAPS": rows.kernel,
        "V": wide,
        "W": together,
        "DENSE": wide > 1 and columns.size == groups * wide,
        "CROSS_TAPS": columns.kernel if crossed else 0,
        "CROSS_BEFORE": columns.before if crossed else 0,
        "LEFT": left,
        "RIGHT": right,
        "WHOLE": made.made.get("whole", made.whole),
        "SPARSE": made.made.get("sparse", False),
        "AHEAD": not crossed and rows.kernel > TUNE["taps ahead"] and ahead(made, "first"),
        "WIDE": made.wide,
        "EVEN": lanes % block == 0 and not crossed,
        "ACC": accumulator(gy.dtype),
        "BLOCK": block,
        "num_warps": warps,
    }
    numbers = (lanes, rows.size, rows.length, rows.before, columns.size, columns.length, groups, blocks, per)
    return Call(halving_kernels.trail, -(-lanes // (block - left - right)) * blocks, numbers, words)


def rise_call(made: Plan, gy: Any, gx: Any) -> Call:
    """Winners of windows of three axes that move by one cell."""
    depth: Any = made.depth[0]
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, "first", gx.element_size())
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes)
    per_rows, blocks = shared_evenly(rows.size, max(TUNE["sums rise"] // (wide * depth.kernel), 1))
    per, segments_deep = shared_evenly(depth.size, TUNE["segment rise"] * depth.kernel)
    words = {
        **common_words(made, gy.dtype, lanes, block, warps, even=True),
        **lane_words(made, wide, together, columns.before - columns.kernel + 1, columns.size, None, 0),
        "ROWS": per_rows,
        "DEPTH_TAPS": depth.kernel,
        "COLUMN_READERS": columns.kernel,
    }
    numbers = (
        lanes, made.inner, depth.size, depth.length, depth.before, segments_deep, per,
        rows.size, rows.length, rows.before, blocks, columns.size, columns.length, groups,
    )  # fmt: skip
    return Call(volume_kernels.rise, -(-lanes // block) * blocks * segments_deep, numbers, words)


def rows_backward(made: Plan, most: int) -> tuple[int, int, int, int]:
    """Rows of cells per program, blocks of them, the padded row that the first starts with, and how many rows of windows read a cell."""
    rows: Any = made.rows
    start = rows.before // rows.stride * rows.stride
    per, blocks = shared_evenly(rows.size + rows.before - start, max(most, rows.stride), rows.stride)
    return per, blocks, start, -(-rows.kernel // rows.stride)


def rows_call(made: Plan, kind: str, gy: Any, gx: Any, low: Any, low_taps: int) -> Call:
    """Some rows of cells, of any sliding windows."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide, together = columns_backward(made, kind, gx.element_size())
    fixed = wide % columns.stride == 0
    candidates = -(-columns.kernel // columns.stride)
    read = -(-rows.kernel // rows.stride)
    most = max(TUNE["back inner" if made.inner > 1 else "back small"], rows.stride)
    if kind == "first":
        most = min(most, max(TUNE["matches"] // (wide * read * candidates), rows.stride))
    per, blocks, start, read = rows_backward(made, most // rows.stride * rows.stride)
    first = columns.before // columns.stride - candidates + 1 if fixed else 0
    groups = -(-columns.size // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes, lanes_of(made, per))
    words = {
        **common_words(made, gy.dtype, lanes, block, warps),
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
    numbers = (
        lanes, made.inner, depths, windows, depth_candidates,
        rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.after, groups,
        start, blocks,
    )  # fmt: skip
    return Call(spread_kernels.spread, -(-lanes // block) * blocks * depths, numbers, words)
