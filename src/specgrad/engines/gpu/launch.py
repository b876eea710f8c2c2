"""Launches of sliding windows: held, streamed or smooth, and back; `tables` has all others, `tiles` how much a program does."""

from __future__ import annotations

from typing import Any

from .kernels import rows as rows_kernels
from .kernels import smooth as smooth_kernels
from .kernels import spread as spread_kernels
from .kernels import stream as stream_kernels
from .plan import Plan
from .tiles import INTERPRETED as INTERPRETED
from .tiles import (
    TUNE,
    accumulator,
    block_of,
    block_rows,
    columns_backward,
    columns_forward,
    divisor,
    on,
    rows_backward,
    scale,
    segments,
    streams,
)


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


def fold(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any = None, low_taps: int = 0) -> None:
    """Maximum, winners or sum of sliding windows, in one call."""
    if streams(made):
        slide(made, kind, x, y, kept, low, low_taps)
        return
    key = "fold", kind, x.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_forward(made, kind, x.element_size())
        held = max(TUNE["rows " + kind] // wide, 1)
        most = min(max((held - rows.kernel) // rows.stride + 1, 1), TUNE["rows small"])
        groups = -(-columns.length // wide)
        per, blocks, lanes, block, warps = block_rows(made, most, groups)
        used = {o * rows.stride + j for o in range(per) for j in range(rows.kernel)}
        counts = [axis.ranges().count for axis in (rows, columns)]
        words = {
            "KIND": kind,
            "ROWS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_BEFORE": columns.before,
            "LEAD": -columns.before % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.length % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "NEED": sum(1 << i for i in used),
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "SIZE": rows.size if blocks == 1 and rows.size <= (per - 1) * rows.stride + rows.kernel else 0,
            "BEFORE": rows.before if blocks == 1 else 0,
            "WHOLE": made.whole,
            "PADDED": any(
                bool((count < axis.kernel).any()) for count, axis in zip(counts, (rows, columns), strict=True)
            ),
            "DEEP": bool(made.depth),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        grid = (-(-lanes // block) * blocks * made.depths[1],)
        made.made[key] = grid, window_numbers(made, lanes, blocks, groups, together), words
    grid, numbers, words = made.made[key]
    depths = made.table("depths", x.device) if made.depth else y
    with on(x.device):
        rows_kernels.fold[grid](
            x, y if low is None else low, y, kept[0] if kept else y, depths, scale(made, kind, y), *numbers, **words
        )


def slide(made: Plan, kind: str, x: Any, y: Any, kept: tuple[Any, ...], low: Any, low_taps: int) -> None:
    """As `fold`, of windows that move down one row at a time."""
    key = "slide", kind, x.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_forward(made, kind, x.element_size())
        groups = -(-columns.length // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes)
        per, blocks = segments(rows.length, rows.kernel)
        counts = [axis.ranges().count for axis in (rows, columns)]
        words = {
            "KIND": kind,
            "STEP": TUNE[
                "step large" if rows.kernel > 8 else "step low" if kind == "winners" and rows.kernel < 6 else "step"
            ],
            "ALONE": blocks == 1,
            "TAPS": rows.kernel,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_BEFORE": columns.before,
            "LEAD": -columns.before % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.length % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
            "WHOLE": made.whole,
            "PADDED": any(
                bool((count < axis.kernel).any()) for count, axis in zip(counts, (rows, columns), strict=True)
            ),
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        numbers = (*window_numbers(made, lanes, blocks, groups, together), per)
        made.made[key] = (-(-lanes // block) * blocks,), numbers, words
    grid, numbers, words = made.made[key]
    with on(x.device):
        stream_kernels.slide[grid](
            x, y if low is None else low, y, kept[0] if kept else y, y, scale(made, kind, y), *numbers, **words
        )


def trail(made: Plan, gy: Any, gx: Any, codes: Any, low: Any, low_taps: int) -> None:
    """As `spread`, of the winners of windows that move down one row at a time."""
    key = "trail", gy.dtype, gx.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_backward(made, "first", gx.element_size())
        candidates = -(-columns.kernel // columns.stride)
        groups = -(-columns.size // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes)
        per, blocks = segments(rows.size, rows.kernel)
        step = max(min(TUNE["step"], TUNE["matches"] // (rows.kernel * candidates * wide)), 1)
        first = columns.before // columns.stride - candidates + 1
        words = {
            "STEP": step,
            "TAPS": rows.kernel,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": candidates,
            "COLUMN_BEFORE": columns.before,
            "LEAD": first % together,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.size % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "LOW": low is not None,
            "WIDE": made.wide,
            "ACC": accumulator(gy.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        numbers = (
            lanes, made.inner, rows.size, rows.length, rows.before, columns.size, columns.length, groups,
            blocks, per,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks,), numbers, words
    grid, numbers, words = made.made[key]
    with on(gy.device):
        stream_kernels.trail[grid](gy, codes, gx, gx if low is None else low, *numbers, **words)


def smooth(made: Plan, x: Any, y: Any, kept: tuple[Any, ...]) -> None:
    """Smooth maxima of small sliding windows."""
    key = "smooth", x.dtype, bool(kept)
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        most = max((TUNE["cells smooth"] // columns.kernel - rows.kernel) // rows.stride + 1, 1)
        per, blocks, lanes, block, warps = block_rows(made, most, columns.length)
        words = {
            "ROWS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "ZERO": made.op.pad == "zero",
            "KEEP": bool(kept),
            "RAGGED": made.op.ceil_mode,
            "DEEP": bool(made.depth),
            "WIDE": made.wide,
            "ACC": accumulator(x.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        grid = (-(-lanes // block) * blocks * made.depths[1],)
        made.made[key] = grid, window_numbers(made, lanes, blocks, columns.before), words
    grid, numbers, words = made.made[key]
    depths = made.table("depths", x.device) if made.depth else y
    with on(x.device):
        smooth_kernels.smooth[grid](x, y, *(kept or (y, y)), depths, made.table("numbers", x.device), *numbers, **words)


def spread(made: Plan, kind: str, gy: Any, gx: Any, codes: Any = None, low: Any = None, low_taps: int = 0) -> None:
    """Cotangents of sliding windows, in one call."""
    if kind == "first" and not made.depth and made.rows.kernel > 1 and made.rows.stride == 1:  # type: ignore[union-attr]
        wide = columns_backward(made, kind, gx.element_size())[0]
        if wide % made.columns.stride == 0:  # type: ignore[union-attr]
            trail(made, gy, gx, codes, low, low_taps)
            return
    key = "spread", kind, gy.dtype, gx.dtype, low is not None
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        wide, together = columns_backward(made, kind, gx.element_size())
        fixed = wide % columns.stride == 0
        candidates = -(-columns.kernel // columns.stride)
        read = -(-rows.kernel // rows.stride)
        most = max(TUNE["back small"], rows.stride)
        if kind == "first":
            most = min(most, max(TUNE["matches"] // (wide * read * candidates), rows.stride))
        per, blocks, start, read = rows_backward(made, most // rows.stride * rows.stride)
        first = columns.before // columns.stride - candidates + 1
        groups = -(-columns.size // wide)
        lanes = made.outer * groups * made.inner
        block, warps = block_of(lanes, TUNE["lanes short" if per <= 2 else "lanes"])
        words = {
            "KIND": kind,
            "CELLS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "READERS": read,
            "V": wide,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": candidates,
            "COLUMN_BEFORE": columns.before,
            "FIXED": fixed,
            "LEAD": first % together if fixed else 0,
            "W": together,
            "DENSE": made.inner == 1 and wide > 1 and columns.size % wide == 0,
            "LOW_TAPS": low_taps or columns.kernel,
            "COUNTED": divisor(made)[0] if kind == "sum" else "all",
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
            rows.size, rows.length, rows.before, rows.after, columns.size, columns.length, columns.after, groups,
            start, blocks,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks * depths,), numbers, words
    grid, numbers, words = made.made[key]
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    given = (gy if t is None else t for t in (codes, gx, low))
    with on(gy.device):
        spread_kernels.spread[grid](gy, *given, depth_readers, scale(made, kind, gy), *numbers, **words)


def weigh(made: Plan, gy: Any, gx: Any, kept: tuple[Any, ...], x: Any) -> None:
    """Cotangents of smooth maxima of small sliding windows."""
    key = "weigh", gy.dtype
    if key not in made.made:
        rows: Any = made.rows
        columns: Any = made.columns
        per, blocks, start, read = rows_backward(made, TUNE["back weights"] // rows.stride * rows.stride)
        lanes = made.outer * columns.size * made.inner
        block, warps = block_of(lanes)
        words = {
            "CELLS": per,
            "TAPS": rows.kernel,
            "STRIDE": rows.stride,
            "READERS": read,
            "COLUMN_TAPS": columns.kernel,
            "COLUMN_STRIDE": columns.stride,
            "COLUMN_READERS": -(-columns.kernel // columns.stride),
            "DEEP": bool(made.depth),
            "WIDE": made.wide,
            "ACC": accumulator(gy.dtype),
            "BLOCK": block,
            "num_warps": warps,
        }
        depths, windows, _ = made.depths
        depth_candidates = made.candidates("depth_readers", gy.device) if made.depth else 1
        numbers = (
            lanes, made.groups, made.inner, depths, windows, depth_candidates, *made.steps,
            rows.size, rows.length, rows.before, columns.size, columns.length, columns.before, start, blocks,
        )  # fmt: skip
        made.made[key] = (-(-lanes // block) * blocks * depths,), numbers, words
    grid, numbers, words = made.made[key]
    depth_readers = made.table("depth_readers", gy.device) if made.depth else gy
    with on(gy.device):
        smooth_kernels.weigh[grid](gy, *kept, gx, x, depth_readers, made.table("numbers", gy.device), *numbers, **words)
