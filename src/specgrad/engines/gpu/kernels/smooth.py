"""Smooth maxima of small sliding windows and their cotangents: a lane is one column, and all its cells are in registers."""

import triton
import triton.language as tl

from .common import both, clamped, joined, lane, leads, outer_offset, pivot, tap_range
from .rows import filled


@triton.jit
def smooth(
    x, y, kept, kept_too, depths, numbers,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, columns_before,
    row_blocks, depths_out,
    ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr,
    ZERO: tl.constexpr, RAGGED: tl.constexpr, KEEP: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Smooth maxima of small sliding windows: all cells of a program in registers. RAGGED: some taps do not exist."""
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    outer, column, within, inside, program = lane(lanes, columns_out, inner, row_blocks * depths_out, BLOCK, WIDE, EVEN)
    depth = program // row_blocks
    row_out = (program - depth * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    if WIDE:
        row = row.to(tl.int64)
    start = column * COLUMN_STRIDE - columns_before
    base = outer_offset(outer, groups, step_outer, step_group) + within * step_inner + start * step_column
    base += row * step_row
    beta = tl.load(numbers).to(ACC)
    sign = tl.where(beta < 0, -1, 1).to(ACC)
    beta = beta * sign
    peaks = filled(float("-inf"), ROWS, BLOCK, ACC)
    totals = filled(0, ROWS, BLOCK, ACC)
    for t in range(depth_taps):
        source = x + base
        depth_real = True
        depth_exists = True
        if DEEP:
            offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
            depth_real = offset >= 0
            depth_exists = offset >= -1
            source += tl.maximum(offset, 0)
        cells = ()
        for i in tl.static_range(N):
            for j in tl.static_range(COLUMN_TAPS):
                real = (start + j >= 0) & (start + j < columns)
                real = both(real, (row + i >= 0) & (row + i < rows) & depth_real)
                cell = tl.load(source + i * step_row + j * step_column, mask=real, other=0).to(ACC) * sign
                if not ZERO:
                    cell = tl.where(real, cell, float("-inf"))
                elif RAGGED or DEEP:
                    exists = both(start + j < columns + columns_after, (row + i < rows + rows_after) & depth_exists)
                    cell = tl.where(exists, cell, float("-inf"))
                cells = cells + (cell,)
        new_peaks = ()
        new_totals = ()
        for o in tl.static_range(ROWS):
            peak = cells[o * STRIDE * COLUMN_TAPS]
            for i in tl.static_range(TAPS):
                for j in tl.static_range(COLUMN_TAPS):
                    cell = cells[(o * STRIDE + i) * COLUMN_TAPS + j]
                    peak = tl.where(leads(peak, cell), cell, peak)
            shift = pivot(peak)
            total = tl.zeros((BLOCK,), ACC)
            for i in tl.static_range(TAPS):
                for j in tl.static_range(COLUMN_TAPS):
                    total += tl.exp(beta * (cells[(o * STRIDE + i) * COLUMN_TAPS + j] - shift))
            if DEEP:
                peak, total = joined(peaks[o], totals[o], peak, total, beta)
            new_peaks = new_peaks + (peak,)
            new_totals = new_totals + (total,)
        peaks = new_peaks
        totals = new_totals
    first, last, existing = tap_range(start, columns, columns_after, COLUMN_TAPS, 1)
    depth_count = 1
    if DEEP:
        depth_count = tl.load(depths + depth * (depth_taps + 3) + (2 if ZERO else 1)).to(tl.int32)
    target = ((outer * depths_out + depth) * rows_out + row_out) * columns_out + column
    target = target * inner + within
    for o in tl.static_range(ROWS):
        present = both(inside, row_out + o < rows_out)
        row_first, row_last, row_existing = tap_range(row + o * STRIDE, rows, rows_after, TAPS, 1)
        if ZERO:
            counted = both(existing > 0, (row_existing > 0) & (depth_count > 0))
        else:
            counted = both(last > first, (row_last > row_first) & (depth_count > 0))
        total = tl.where(counted, totals[o], 1)
        shift = pivot(peaks[o])
        place = target + o * columns_out * inner
        value = sign * (shift + tl.log(total) / beta)
        if KEEP:
            tl.store(kept + place, (sign * shift).to(kept.dtype.element_ty), mask=present)
            tl.store(kept_too + place, total.to(kept_too.dtype.element_ty), mask=present)
        tl.store(y + place, value.to(y.dtype.element_ty), mask=present)


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
def weigh(
    gy, pivots, totals, gx, x, depth_readers, numbers,
    lanes, groups, inner, depths, depths_out, depth_candidates, step_outer, step_group, step_depth, step_row, step_column, step_inner,
    rows, rows_out, rows_before, columns, columns_out, columns_before, row_start, row_blocks,
    CELLS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, READERS: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    DEEP: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of a smooth maximum, whose weights are made of pivots and totals: one column of some rows."""
    N: tl.constexpr = CELLS // STRIDE + READERS - 1
    outer, column, within, inside, program = lane(lanes, columns, inner, row_blocks * depths, BLOCK, WIDE, EVEN)
    depth = program // row_blocks
    padded_row = row_start + (program - depth * row_blocks) * CELLS
    padded = column + columns_before
    newest = padded // COLUMN_STRIDE
    phase = (padded - newest * COLUMN_STRIDE).to(tl.int32)
    line = padded_row // STRIDE - (READERS - 1)
    step = columns_out * inner
    sums = filled(0, CELLS, BLOCK, ACC)
    cells = ()
    beta = tl.load(numbers).to(ACC)
    row = padded_row - rows_before
    if WIDE:
        row = row.to(tl.int64)
    own = outer_offset(outer, groups, step_outer, step_group) + within * step_inner + column * step_column
    own += depth * step_depth
    for i in tl.static_range(CELLS):
        cells = cells + (tl.load(x + own + clamped(row + i, rows - 1) * step_row).to(ACC),)
    for t in range(depth_candidates):
        window_depth = depth
        reached = inside
        if DEEP:
            window_depth = tl.load(depth_readers + (depth * depth_candidates + t) * 2)
            reached = both(inside, window_depth >= 0)
            window_depth = tl.maximum(window_depth, 0)
        base = ((outer * depths_out + window_depth) * rows_out + line) * step + within
        for c in tl.static_range(COLUMN_READERS):
            allowed = reached & (newest >= c) & (newest - c < columns_out) & (phase + c * COLUMN_STRIDE < COLUMN_TAPS)
            place = base + (newest - c) * inner
            sums = weigh_column(sums, cells, gy + place, pivots + place, totals + place, allowed, beta, step, line, rows_out, CELLS, READERS, TAPS, STRIDE, N, ACC)  # fmt: skip
    target = ((outer * depths + depth) * rows + padded_row - rows_before) * columns + column
    target = target * inner + within
    for i in tl.static_range(CELLS):
        present = both(inside, (padded_row + i >= rows_before) & (padded_row + i - rows_before < rows))
        tl.store(gx + target + i * columns * inner, sums[i].to(gx.dtype.element_ty), mask=present)
