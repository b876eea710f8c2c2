"""Cotangents of sliding windows, gathered: each cell reads the windows that read it, and is written once.

Rows are counted from the padded edge (q = row + before), and a program starts at a multiple of the stride, so that which window meets
which row by which tap is known when the kernel is compiled: row q is read by the windows q // stride - c by tap q % stride + c * stride.
"""

import triton
import triton.language as tl

from .common import both, divide, lane, tap_range
from .rows import down_sum, filled


@triton.jit
def match_column(sums, lows, gy, codes, allowed, target, step, low_taps, line, lines, CELLS: tl.constexpr, READERS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr, LOW: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the cotangents of one column of windows to the cells that won them."""
    arriving = ()
    winners = ()
    for k in tl.static_range(N):
        real = both(allowed, (line + k >= 0) & (line + k < lines))
        arriving = arriving + (tl.load(gy + k * step, mask=real, other=0).to(ACC),)
        code = tl.load(codes + k * step, mask=real, other=255).to(tl.int32)
        if LOW:
            code = tl.where(real, code, 1 << 30)
        winners = winners + (code - target,)
    new_sums = ()
    new_lows = ()
    for i in tl.static_range(CELLS):
        total = sums[i]
        known = lows[i]
        for c in tl.static_range(READERS):
            if i % STRIDE + c * STRIDE < TAPS:
                k: tl.constexpr = i // STRIDE + READERS - 1 - c
                tap: tl.constexpr = i % STRIDE + c * STRIDE
                if LOW:
                    won = winners[k] // low_taps == tap
                    known = tl.where(won, winners[k] % low_taps, known)
                else:
                    won = winners[k] == tap * low_taps
                total += tl.where(won, arriving[k], 0)
        new_sums = new_sums + (total,)
        new_lows = new_lows + (known,)
    return new_sums, new_lows


@triton.jit
def add_column(sums, gy, allowed, step, line, lines, columns_taken, rows_before, rows, rows_after, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr, COUNTED: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the shares of one column of windows to each of N rows of them."""
    new = ()
    for k in tl.static_range(N):
        real = both(allowed, (line + k >= 0) & (line + k < lines))
        share = tl.load(gy + k * step, mask=real, other=0).to(ACC)
        if COUNTED != "all":
            first, last, existing = tap_range((line + k) * STRIDE - rows_before, rows, rows_after, TAPS, 1)
            if COUNTED == "exists":
                share = divide(share, tl.maximum(existing * columns_taken, 1), ACC)
            else:
                share = divide(share, tl.maximum((last - first) * columns_taken, 1), ACC)
        new = new + (sums[k] + share,)
    return new


@triton.jit
def spread(
    gy, codes, gx, low, depth_readers,
    lanes, inner, depths, depths_out, depth_candidates,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_before, columns_after,
    stride, taps, candidates, row_start, row_blocks, low_taps, plane_taps, divisor,
    KIND: tl.constexpr, CELLS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, READERS: tl.constexpr,
    LEVELS: tl.constexpr, UNROLLED: tl.constexpr, COUNTED: tl.constexpr, DEEP: tl.constexpr, LOW: tl.constexpr,
    WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of a maximum (by codes) or an average, of windows without dilation.

    LOW: windows along the rows axis only; `low` is what the codes say about the other axes, to be spread in a next call.
    """
    N: tl.constexpr = CELLS // STRIDE + READERS - 1
    outer, column, within, inside, program = lane(lanes, columns, inner, row_blocks * depths, BLOCK, WIDE)
    depth = program // row_blocks
    padded_row = row_start + (program - depth * row_blocks) * CELLS
    padded = column + columns_before
    newest = padded // stride
    phase = padded - newest * stride
    line = padded_row // STRIDE - (READERS - 1)
    step = columns_out * inner
    lows = filled(0, CELLS, BLOCK, tl.int32)
    if KIND == "sum":
        sums = filled(0, N, BLOCK, ACC)
    else:
        sums = filled(0, CELLS, BLOCK, ACC)
    for t in range(depth_candidates):
        window_depth = depth
        depth_tap = 0
        reached = inside
        if DEEP:
            window_depth = tl.load(depth_readers + (depth * depth_candidates + t) * 2)
            depth_tap = tl.load(depth_readers + (depth * depth_candidates + t) * 2 + 1)
            reached = both(inside, window_depth >= 0)
        base = ((outer * depths_out + window_depth) * rows_out + line) * step + within
        if UNROLLED:
            for c in tl.static_range(UNROLLED):
                window, tap = newest - c, phase + c * stride
                allowed = reached & (window >= 0) & (window < columns_out) & (tap < taps)
                place = base + window * inner
                if KIND == "sum":
                    first, last, existing = tap_range(window * stride - columns_before, columns, columns_after, taps, 1)
                    taken = existing if COUNTED == "exists" else last - first
                    sums = add_column(sums, gy + place, allowed, step, line, rows_out, taken, rows_before, rows, rows_after, TAPS, STRIDE, N, COUNTED, ACC)  # fmt: skip
                else:
                    sums, lows = match_column(sums, lows, gy + place, codes + place, allowed, tap + depth_tap * plane_taps, step, low_taps, line, rows_out, CELLS, READERS, TAPS, STRIDE, N, LOW, ACC)  # fmt: skip
        else:
            for c in range(candidates):
                window, tap = newest - c, phase + c * stride
                allowed = reached & (window >= 0) & (window < columns_out) & (tap < taps)
                place = base + window * inner
                if KIND == "sum":
                    first, last, existing = tap_range(window * stride - columns_before, columns, columns_after, taps, 1)
                    taken = existing if COUNTED == "exists" else last - first
                    sums = add_column(sums, gy + place, allowed, step, line, rows_out, taken, rows_before, rows, rows_after, TAPS, STRIDE, N, COUNTED, ACC)  # fmt: skip
                else:
                    sums, lows = match_column(sums, lows, gy + place, codes + place, allowed, tap + depth_tap * plane_taps, step, low_taps, line, rows_out, CELLS, READERS, TAPS, STRIDE, N, LOW, ACC)  # fmt: skip
    if KIND == "sum":
        if STRIDE == 1:
            sums = down_sum(sums, CELLS, TAPS, 1, 1, LEVELS, N)
        else:
            gathered = ()
            for i in tl.static_range(CELLS):
                total = tl.zeros((BLOCK,), ACC)
                for c in tl.static_range(READERS):
                    if i % STRIDE + c * STRIDE < TAPS:
                        total += sums[i // STRIDE + READERS - 1 - c]
                gathered = gathered + (total,)
            sums = gathered
    for i in tl.static_range(CELLS):
        row = padded_row + i - rows_before
        present = both(inside, (row >= 0) & (row < rows))
        target = (((outer * depths + depth) * rows + row) * columns + column) * inner + within
        total = sums[i]
        if KIND == "sum" and COUNTED == "all":
            total = divide(total, divisor, ACC)
        tl.store(gx + target, total.to(gx.dtype.element_ty), mask=present)
        if LOW:
            tl.store(low + target, lows[i].to(low.dtype.element_ty), mask=present)
