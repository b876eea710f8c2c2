"""Cotangents of sliding windows, gathered: each cell reads the windows that read it, and is written once.

Rows are counted from the padded edge (q = row + before), and a program starts at a multiple of the stride, so that which window meets
which row by which tap is known when the kernel is compiled: row q is read by the windows q // stride - c by tap q % stride + c * stride.
"""

import triton
import triton.language as tl

from .common import both, clamped, divide, lane, outer_offset, scaled, tap_range
from .rows import down_sum, filled


@triton.jit
def match_column(sums, lows, gy, codes, allowed, target, step, line, lines, LOW_TAPS: tl.constexpr, CELLS: tl.constexpr, READERS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr, LOW: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the cotangents of one column of windows to the cells that won them."""
    arriving = ()
    winners = ()
    others = ()
    for k in tl.static_range(N):
        real = both(allowed, (line + k >= 0) & (line + k < lines))
        arriving = arriving + (tl.load(gy + k * step, mask=real, other=0).to(ACC),)
        code = tl.load(codes + k * step, mask=real, other=255).to(tl.int32)
        if LOW:
            high = code // LOW_TAPS
            others = others + (code - high * LOW_TAPS,)
            winners = winners + (tl.where(real, high, -1),)
        else:
            winners = winners + (code - target,)
    new_sums = ()
    new_lows = ()
    for i in tl.static_range(CELLS):
        total = sums[i]
        known = lows[i]
        for c in tl.static_range(READERS):
            if i % STRIDE + c * STRIDE < TAPS:
                if LOW:
                    won = winners[i // STRIDE + READERS - 1 - c] == i % STRIDE + c * STRIDE
                    known = tl.where(won, others[i // STRIDE + READERS - 1 - c], known)
                else:
                    won = winners[i // STRIDE + READERS - 1 - c] == (i % STRIDE + c * STRIDE) * LOW_TAPS
                total += tl.where(won, arriving[i // STRIDE + READERS - 1 - c], 0)
        new_sums = new_sums + (total,)
        new_lows = new_lows + (known,)
    return new_sums, new_lows


@triton.jit
def add_column(sums, gy, allowed, step, line, lines, columns_taken, rows_before, rows, rows_after, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr, COUNTED: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the shares of one column of windows to each of N rows of them."""
    new = ()
    for k in tl.static_range(N):
        share = tl.load(gy + clamped(line + k, lines - 1) * step, mask=allowed, other=0).to(ACC)
        if COUNTED != "all":
            first, last, existing = tap_range((line + k) * STRIDE - rows_before, rows, rows_after, TAPS, 1)
            if COUNTED == "exists":
                share = divide(share, tl.maximum(existing * columns_taken, 1), ACC)
            else:
                share = divide(share, tl.maximum((last - first) * columns_taken, 1), ACC)
        new = new + (sums[k] + share,)
    return new


@triton.jit
def weigh_column(sums, cells, gy, pivots, totals, allowed, beta, step, line, lines, CELLS: tl.constexpr, READERS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the weighted cotangents of one column of smooth maxima."""
    shares = ()
    shifts = ()
    for k in tl.static_range(N):
        real = both(allowed, (line + k >= 0) & (line + k < lines))
        total = tl.load(totals + k * step, mask=real, other=1).to(ACC)
        shares = shares + (tl.load(gy + k * step, mask=real, other=0).to(ACC) / total,)
        # what no window reads has the share 0 and a shift that makes no exponential large
        shifts = shifts + (tl.load(pivots + k * step, mask=real, other=0).to(ACC),)
    new = ()
    for i in tl.static_range(CELLS):
        sum_of = sums[i]
        for c in tl.static_range(READERS):
            if i % STRIDE + c * STRIDE < TAPS:
                real = both(allowed, (line + i // STRIDE + READERS - 1 - c >= 0) & (line + i // STRIDE + READERS - 1 - c < lines))  # fmt: skip
                weight = tl.exp(beta * (cells[i] - shifts[i // STRIDE + READERS - 1 - c]))
                sum_of += tl.where(real, weight * shares[i // STRIDE + READERS - 1 - c], 0)
        new = new + (sum_of,)
    return new


@triton.jit
def spread(
    gy, codes, gx, low, x, totals, depth_readers, scale,
    lanes, groups, inner, depths, depths_out, depth_candidates, step_outer, step_group, step_depth, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_before, columns_after,
    row_start, row_blocks,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, CELLS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, READERS: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    LEVELS: tl.constexpr, UNROLLED: tl.constexpr, COUNTED: tl.constexpr, DEEP: tl.constexpr, LOW: tl.constexpr,
    WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of a maximum ("first", by codes), an average ("sum") or a smooth maximum ("weights": codes are pivots).

    LOW: windows along the rows axis only; `low` is what the codes say about the other axes, to be spread in a next call.
    """
    N: tl.constexpr = CELLS // STRIDE + READERS - 1
    outer, column, within, inside, program = lane(lanes, columns, inner, row_blocks * depths, BLOCK, WIDE)
    depth = program // row_blocks
    padded_row = row_start + (program - depth * row_blocks) * CELLS
    padded = column + columns_before
    newest = padded // COLUMN_STRIDE
    phase = (padded - newest * COLUMN_STRIDE).to(tl.int32)
    line = padded_row // STRIDE - (READERS - 1)
    step = columns_out * inner
    lows = filled(0, CELLS, BLOCK, tl.int32)
    sums = filled(0, N if KIND == "sum" else CELLS, BLOCK, ACC)
    cells = ()
    if KIND == "weights":
        beta = tl.load(scale).to(ACC)
        row = padded_row - rows_before
        if WIDE:
            row = row.to(tl.int64)
        own = outer_offset(outer, groups, step_outer, step_group) + within * step_inner + column * step_column
        own += depth * step_depth
        for i in tl.static_range(CELLS):
            cells = cells + (tl.load(x + own + clamped(row + i, rows - 1) * step_row).to(ACC),)
    for t in range(depth_candidates):
        window_depth = depth
        depth_tap = 0
        reached = inside
        if DEEP:
            window_depth = tl.load(depth_readers + (depth * depth_candidates + t) * 2)
            depth_tap = tl.load(depth_readers + (depth * depth_candidates + t) * 2 + 1)
            reached = both(inside, window_depth >= 0)
            window_depth = tl.maximum(window_depth, 0)
        base = (outer * depths_out + window_depth) * rows_out * step + within
        if KIND != "sum":
            base += line * step
        if UNROLLED:
            for c in tl.static_range(COLUMN_READERS):
                allowed = (
                    reached & (newest >= c) & (newest - c < columns_out) & (phase + c * COLUMN_STRIDE < COLUMN_TAPS)
                )
                place = base + (newest - c) * inner
                if KIND == "sum":
                    first, last, existing = tap_range((newest - c) * COLUMN_STRIDE - columns_before, columns, columns_after, COLUMN_TAPS, 1)  # fmt: skip
                    taken = existing if COUNTED == "exists" else last - first
                    sums = add_column(sums, gy + place, allowed, step, line, rows_out, taken, rows_before, rows, rows_after, TAPS, STRIDE, N, COUNTED, ACC)  # fmt: skip
                elif KIND == "weights":
                    sums = weigh_column(sums, cells, gy + place, codes + place, totals + place, allowed, beta, step, line, rows_out, CELLS, READERS, TAPS, STRIDE, N, ACC)  # fmt: skip
                else:
                    sums, lows = match_column(sums, lows, gy + place, codes + place, allowed, phase + c * COLUMN_STRIDE + depth_tap * (TAPS * LOW_TAPS), step, line, rows_out, LOW_TAPS, CELLS, READERS, TAPS, STRIDE, N, LOW, ACC)  # fmt: skip
        else:
            for c in range(COLUMN_READERS):
                allowed = (
                    reached & (newest >= c) & (newest - c < columns_out) & (phase + c * COLUMN_STRIDE < COLUMN_TAPS)
                )
                place = base + (newest - c) * inner
                if KIND == "sum":
                    first, last, existing = tap_range((newest - c) * COLUMN_STRIDE - columns_before, columns, columns_after, COLUMN_TAPS, 1)  # fmt: skip
                    taken = existing if COUNTED == "exists" else last - first
                    sums = add_column(sums, gy + place, allowed, step, line, rows_out, taken, rows_before, rows, rows_after, TAPS, STRIDE, N, COUNTED, ACC)  # fmt: skip
                elif KIND == "weights":
                    sums = weigh_column(sums, cells, gy + place, codes + place, totals + place, allowed, beta, step, line, rows_out, CELLS, READERS, TAPS, STRIDE, N, ACC)  # fmt: skip
                else:
                    sums, lows = match_column(sums, lows, gy + place, codes + place, allowed, phase + c * COLUMN_STRIDE + depth_tap * (TAPS * LOW_TAPS), step, line, rows_out, LOW_TAPS, CELLS, READERS, TAPS, STRIDE, N, LOW, ACC)  # fmt: skip
    if KIND == "sum":
        taken_rows = ()
        for k in tl.static_range(N):
            taken_rows = taken_rows + (tl.where((line + k >= 0) & (line + k < rows_out), sums[k], 0),)
        if STRIDE == 1:
            sums = down_sum(taken_rows, CELLS, TAPS, 1, LEVELS, N)
        else:
            gathered = ()
            for i in tl.static_range(CELLS):
                total = tl.zeros((BLOCK,), ACC)
                for c in tl.static_range(READERS):
                    if i % STRIDE + c * STRIDE < TAPS:
                        total += taken_rows[i // STRIDE + READERS - 1 - c]
                gathered = gathered + (total,)
            sums = gathered
    target = ((outer * depths + depth) * rows + padded_row - rows_before) * columns + column
    target = target * inner + within
    for i in tl.static_range(CELLS):
        present = both(inside, (padded_row + i >= rows_before) & (padded_row + i - rows_before < rows))
        total = sums[i]
        if KIND == "sum" and COUNTED == "all":
            total = scaled(total, scale, ACC)
        tl.store(gx + target + i * columns * inner, total.to(gx.dtype.element_ty), mask=present)
        if LOW:
            tl.store(low + target + i * columns * inner, lows[i].to(low.dtype.element_ty), mask=present)
