"""Launches of sliding windows: held or streamed; `cotangents` has those of the way back, `smooth`
and `tables` those of other windows, `tiles` how much a program does."""

from __future__ import annotations

from typing import Any

import triton

from .calls import Call
from .kernels import narrow as narrow_kernels
from .kernels import planes as planes_kernels
from .kernels import rows as rows_kernels
from .kernels import stream as stream_kernels
from .kernels import volume as volume_kernels
from .plan import Plan
from .program import Program
from .tiles import (
    accumulator,
    ahead,
    block_of,
    columns_forward,
    divisor,
    half_winners,
    lanes_of,
    limited,
    narrow,
    packs,
    registers_ahead,
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
        lanes, made.groups, made.inner, made.depths[2], outer // together, group // together, row // together, column,
        inner,
        rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.after, last,
        blocks, made.depths[1],
    )  # fmt: skip


def common_words(made: Plan, dtype: Any, lanes: int, block: int, warps: int, even: bool = False) -> dict[str, Any]:
    """What every kernel of sliding windows is compiled for. `even`: whether it is worth knowing
    that all lanes exist."""
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
    """How a lane's columns lie: `first` is the first that it reads, `length` how many are
    written."""
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


def fold(
    program: Program, made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any = None, low_taps: int = 0
) -> None:
    """Maximum, winners or sum of sliding windows, in one call."""
    deep = made.table("depths", x.device) if made.depth else y
    call = fold_call(made, kind, x, low, low_taps)
    program.launch(call, x, y if low is None else low, y, kept[0] if kept else y, deep, scale(made, kind, y))


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
    most = min(TUNE["rows volume_forward " + kind] // (wide * (depth.kernel - 1)), TUNE["rows volume_forward"])
    per_rows, blocks = shared_evenly(rows.length, max(most, 1))
    per, segments_deep = shared_evenly(
        depth.length,
        TUNE["segment volume_forward" + (" sum" + " large" * (depth.kernel > 3)) * (kind == "sum")] * depth.kernel,
    )
    many = x.element_size() <= 4 if kind == "winners" else x.element_size() == 4 and kind == "max" and depth.kernel > 3
    words = words | {
        **common_words(made, x.dtype, lanes, block, warps, even=True),
        "ROWS": per_rows,
        "STRIDE": rows.stride,
        "DEPTH_TAPS": depth.kernel,
        "PADDED": words["PADDED"] or bool((depth.ranges().count < depth.kernel).any()),
        **(limited(TUNE["registers volume_forward " + kind]) if many and made.inner == 1 else {}),
    }
    numbers = (
        *window_numbers(made, lanes, blocks, groups, together),
        made.steps[2] // together, depth.size, depth.before, depth.after, segments_deep, per,
    )  # fmt: skip
    return Call(volume_kernels.volume_forward, -(-lanes // block) * blocks * segments_deep, numbers, words)
