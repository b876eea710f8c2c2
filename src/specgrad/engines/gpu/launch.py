"""Launches of sliding windows, held or streamed. See `cotangents` for VJPs, `smooth` and `tables`
for other windows, `tiles` for the work per program."""

from __future__ import annotations

from typing import Any

import triton

from .calls import Call
from .kernels import arguments
from .kernels import narrow as narrow_kernels
from .kernels import planes as planes_kernels
from .kernels import rows as rows_kernels
from .kernels import stream as stream_kernels
from .kernels import volume as volume_kernels
from .kernels.arguments import Sizes
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
    step_down,
    streams,
    streams_depth,
    whole_planes,
)
from .tuned import TUNE


def window_sizes(made: Plan, lanes: int, row_blocks: int, column_groups: int, together: int = 1) -> Sizes:
    """The sizes for kernels of sliding windows, with steps in vectors of `together` elements."""
    rows: Any = made.rows
    columns: Any = made.columns
    outer, group, _, row, column, inner = made.steps
    return Sizes(
        lanes=lanes,
        groups=made.groups,
        inner=made.inner,
        step_outer=outer // together,
        step_group=group // together,
        step_row=row // together,
        step_column=column,
        step_inner=inner,
        depths_out=made.depths[1],
        depth_taps=made.depths[2],
        rows=rows.size,
        rows_out=rows.length,
        rows_before=rows.before,
        rows_after=rows.after,
        row_blocks=row_blocks,
        columns=columns.size,
        columns_out=columns.length,
        columns_after=columns.after,
        column_groups=column_groups,
    )


def common_words(made: Plan, dtype: Any, lanes: int, block: int, even: bool = False) -> dict[str, Any]:
    """The constants of all kernels of sliding windows. `even`: whether a kernel with all lanes
    existing is compiled separately."""
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
    }


def lane_words(
    made: Plan, wide: int, together: int, first: int, length: int, low: Any, low_taps: int
) -> dict[str, Any]:
    """The constants of a lane's columns: `first` is the first column that it reads, `length` the
    number written."""
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
    """Launch a maximum, its winners or a sum of sliding windows, in one call."""
    deep = made.table("depths", x.device) if made.depth else y
    call = fold_call(made, kind, x, low, low_taps)
    program.launch(call, x, y if low is None else low, y, kept[0] if kept else y, deep, scale(made, kind, y))


def planes_words(made: Plan, held: tuple[int, int, int], dtype: Any) -> dict[str, Any]:
    """The constants of the kernels of `planes`."""
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
        "LOW_TAPS": columns.kernel,
        "PLANES": planes,
        "ROWS": high,
        "COLUMNS": across,
        "BLOCK": planes * across,
        "WIDE": made.wide,
        "ACC": accumulator(dtype),
    }


def planes_call(made: Plan, kernel: Any, held: tuple[int, int, int], sizes: Sizes, dtype: Any, kind: str = "") -> Call:
    tile = arguments.tile(KIND=kind, **planes_words(made, held, dtype))
    return Call(kernel, -(-made.outer // held[0]), sizes, tile, max(TUNE["lanes planes"] // 32, 1))


def fold_call(made: Plan, kind: str, x: Any, low: Any, low_taps: int) -> Call:
    """The call for these windows."""
    held = whole_planes(made, kind, x.element_size()) if low is None else None
    if held is not None:
        outer, group, _, row, _, _ = made.steps
        sizes = Sizes(outer=made.outer, groups=made.groups, step_outer=outer, step_group=group, step_row=row)
        return planes_call(made, planes_kernels.fold, held, sizes, x.dtype, kind)
    if low is None and narrow(made, kind, x.element_size()):
        return narrow_call(made, kind, x)
    rows: Any = made.rows
    columns: Any = made.columns
    words: dict[str, Any] = {"KIND": packs(made, kind, x.element_size(), low is not None)}
    kind = words["KIND"]
    if kind == "max" and x.element_size() > 4 and not streams_depth(made, kind):
        kind = "winners"  # doubles have no hardware maximum: comparing takes as many registers
    wide, together = columns_forward(made, kind, x.element_size())
    words |= {
        **lane_words(made, wide, together, -columns.before, columns.length, low, low_taps),
        "COUNTED": divisor(made)[0] if kind == "sum" else "all",
        "WHOLE": made.whole,
        "PADDED": any(bool((axis.ranges().count < axis.kernel).any()) for axis in (rows, columns)),
    }
    if streams(made, kind, x.element_size()):
        return stream_call(made, kind, x, wide, together, words)
    if streams_depth(made, kind):
        return volume_forward_call(made, kind, x, wide, together, words)
    return rows_call(made, kind, x, wide, together, words)


def rows_call(made: Plan, kind: str, x: Any, wide: int, together: int, words: dict[str, Any]) -> Call:
    """The call for windows with some rows held in registers."""
    rows: Any = made.rows
    groups = -(-made.columns.length // wide)
    lanes = made.outer * groups * made.inner
    per, blocks = shared_evenly(rows.length, rows_held(made, kind, x.element_size(), wide))
    block, warps = block_of(lanes, lanes_of(made, per * rows.stride))
    used = {o * rows.stride + j for o in range(per) for j in range(rows.kernel)}
    alone = blocks == 1 and rows.size <= (per - 1) * rows.stride + rows.kernel
    words = words | {
        **common_words(made, x.dtype, lanes, block, even=kind != "sum"),
        "ROWS": per,
        "STRIDE": rows.stride,
        "SHARE": "all" if kind == "winners" else "pairs" if rows.kernel <= 3 or x.element_size() >= 4 else "",
        "NEED": sum(1 << i for i in used),
        "SIZE": rows.size if alone else 0,
        "BEFORE": rows.before if blocks == 1 else 0,
        "DEEP": bool(made.depth),
        "PADDED": words["PADDED"] or bool(made.depth),
    }
    programs = -(-lanes // block) * blocks * made.depths[1]
    sizes = window_sizes(made, lanes, blocks, groups, together)
    registers = limited(TUNE["registers half"]) if half_winners(made, kind, x.element_size()) else 0
    return Call(rows_kernels.fold, programs, sizes, arguments.tile(**words), warps, registers)


def stream_call(made: Plan, kind: str, x: Any, wide: int, together: int, words: dict[str, Any]) -> Call:
    """The call for windows with row stride 1, streamed."""
    rows: Any = made.rows
    groups = -(-made.columns.length // wide)
    lanes = made.outer * groups * made.inner
    per, blocks = segments(made, rows.length)
    block, warps = block_of(lanes, TUNE["lanes inner" if made.inner > 1 and kind != "winners" else "lanes"])
    words = words | {
        "STEP": step_down(made, kind, together),
        "ALONE": blocks == 1 and rows.before < rows.kernel,
        "AHEAD": ahead(made, kind),
        **common_words(made, x.dtype, lanes, block, even=kind != "sum"),
    }
    sizes = window_sizes(made, lanes, blocks, groups, together)._replace(per=per)
    registers = registers_ahead(made, kind, x.element_size(), wide)
    return Call(stream_kernels.slide, -(-lanes // block) * blocks, sizes, arguments.tile(**words), warps, registers)


def narrow_call(made: Plan, kind: str, x: Any) -> Call:
    """The call for windows of narrow planes."""
    rows: Any = made.rows
    columns: Any = made.columns
    wide = together = min(columns_forward(made, kind, x.element_size())[1], 4)
    groups = columns.size // wide
    per, block = narrow(made, kind, x.element_size()), TUNE["lanes narrow"]
    lanes = made.outer * (rows.size // per) * groups
    left, right = -(-rows.before // per), -(-rows.after // per)
    tile = arguments.tile(
        KIND=kind,
        ROWS=per,
        SIZE=rows.size,
        TAPS=rows.kernel,
        BEFORE=rows.before,
        COLUMN_SIZE=columns.size,
        COLUMN_TAPS=columns.kernel,
        COLUMN_BEFORE=columns.before,
        LOW_TAPS=columns.kernel,
        V=wide,
        W=together,
        LEAD=-columns.before % together,
        DENSE=True,
        PADDED=True,
        COUNTED=divisor(made)[0] if kind == "sum" else "all",
        LEFT=left,
        RIGHT=right,
        N=triton.next_power_of_2(left + right),
        WIDE=made.wide,
        ACC=accumulator(x.dtype),
        BLOCK=block,
    )
    outer, group, _, row, _, _ = made.steps
    sizes = Sizes(
        lanes=lanes,
        groups=made.groups,
        inner=1,
        step_outer=outer // together,
        step_group=group // together,
        step_row=row // together,
        rows_after=rows.after,
        columns_after=columns.after,
    )
    return Call(narrow_kernels.fold, -(-lanes // (block - (left + right) * groups)), sizes, tile, block // 32)


def volume_forward_call(made: Plan, kind: str, x: Any, wide: int, together: int, words: dict[str, Any]) -> Call:
    """The call for windows of three axes with depth stride 1."""
    rows: Any = made.rows
    depth: Any = made.depth[0]
    groups = -(-made.columns.length // wide)
    lanes = made.outer * groups * made.inner
    block, warps = block_of(lanes)
    most = min(TUNE["rows volume_forward " + kind] // (wide * (depth.kernel - 1)), TUNE["rows volume_forward"])
    per_rows, blocks = shared_evenly(rows.length, max(most, 1))
    per, segments_deep = shared_evenly(depth.length, TUNE["segment volume_forward"] * depth.kernel)
    many = x.element_size() <= 4 if kind == "winners" else x.element_size() == 4 and kind == "max" and depth.kernel > 3
    words = words | {
        **common_words(made, x.dtype, lanes, block, even=True),
        "ROWS": per_rows,
        "STRIDE": rows.stride,
        "DEPTH_TAPS": depth.kernel,
        "DEEP": True,
        "PADDED": words["PADDED"] or bool((depth.ranges().count < depth.kernel).any()),
    }
    sizes = window_sizes(made, lanes, blocks, groups, together)._replace(
        step_depth=made.steps[2] // together,
        depths=depth.size,
        depths_before=depth.before,
        depths_after=depth.after,
        depth_blocks=segments_deep,
        per=per,
    )
    registers = limited(TUNE["registers volume_forward " + kind]) if many and made.inner == 1 else 0
    programs = -(-lanes // block) * blocks * segments_deep
    return Call(volume_kernels.volume_forward, programs, sizes, arguments.tile(**words), warps, registers)
