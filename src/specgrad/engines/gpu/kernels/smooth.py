"""Smooth maxima of small sliding windows and their cotangents: all cells of a lane are in
registers."""

import triton
import triton.language as tl

from .common import (
    both,
    clamped,
    edges,
    joined,
    lane,
    outer_offset,
    pivot,
    power,
    read_line,
    rough_logarithm,
    stacked,
    tap_range,
    write_line,
)
from .folds import filled
from .rows import reach


@triton.jit
def smooth(
    x, y, kept, kept_too, depths, numbers,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, column_groups,
    row_blocks, depths_out,
    LOW_TAPS: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, V: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_BEFORE: tl.constexpr, LEAD: tl.constexpr,
    W: tl.constexpr,
    DENSE: tl.constexpr, ZERO: tl.constexpr, RAGGED: tl.constexpr, KEEP: tl.constexpr, DEEP: tl.constexpr,
    LOW: tl.constexpr,
    WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Smooth maxima of small sliding windows: all cells of a program in registers. RAGGED: some
    taps do not exist."""
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    CELLS: tl.constexpr = (V - 1) * COLUMN_STRIDE + COLUMN_TAPS
    HALF: tl.constexpr = y.dtype.element_ty.primitive_bitwidth == 16
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks * depths_out, BLOCK, WIDE,
                                                 EVEN)  # fmt: skip
    depth = program // row_blocks
    row_out = (program - depth * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    if WIDE:
        row = row.to(tl.int64)
    column = group * V
    begin = column * COLUMN_STRIDE - COLUMN_BEFORE - LEAD
    real_columns = edges(begin, columns, LEAD, CELLS, W)
    base = outer_offset(outer, groups, step_outer, step_group)
    if W > 1:
        base += group * (V * COLUMN_STRIDE // W) - (COLUMN_BEFORE + LEAD) // W
    else:
        base += within * step_inner + begin * step_column
    beta = tl.load(numbers).to(ACC)
    sign = tl.where(beta < 0, -1, 1).to(ACC)
    beta = beta * sign
    binary = tl.load(numbers + 1).to(ACC) * sign
    peaks = filled(float("-inf"), ROWS * V, BLOCK, ACC)
    totals = filled(0, ROWS * V, BLOCK, ACC)
    for t in range(depth_taps):
        source = base
        depth_real = True
        depth_exists = True
        if DEEP:
            offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
            depth_real = offset >= 0
            depth_exists = offset >= -1
            source += tl.maximum(offset, 0) // W
        cells = ()
        for i in tl.static_range(N):
            line = source + (row + i) * step_row
            if W > 1:
                line = line * W
            allowed = (row + i >= 0) & (row + i < rows) & depth_real
            found = read_line(x + line, step_column, real_columns, allowed, 0, LEAD, CELLS, W, BLOCK, ACC)
            for e in tl.static_range(CELLS):
                cell = found[e] * sign
                if not ZERO:
                    cell = tl.where(both(real_columns[(LEAD + e) // W], allowed), cell, float("-inf"))
                elif RAGGED or DEEP:
                    exists = both(begin + LEAD + e < columns + columns_after,
                                  (row + i < rows + rows_after) & depth_exists)  # fmt: skip
                    cell = tl.where(exists, cell, float("-inf"))
                cells = cells + (cell,)
        new_peaks = ()
        new_totals = ()
        for o in tl.static_range(ROWS):
            for v in tl.static_range(V):
                peak = cells[o * STRIDE * CELLS + v * COLUMN_STRIDE]
                for i in tl.static_range(TAPS):
                    for j in tl.static_range(COLUMN_TAPS):
                        cell = cells[(o * STRIDE + i) * CELLS + v * COLUMN_STRIDE + j]
                        peak = tl.maximum(peak, cell, propagate_nan=tl.PropagateNan.ALL)
                shift = pivot(peak)
                total = tl.zeros((BLOCK,), ACC)
                for i in tl.static_range(TAPS):
                    for j in tl.static_range(COLUMN_TAPS):
                        cell = cells[(o * STRIDE + i) * CELLS + v * COLUMN_STRIDE + j]
                        total += power(binary * (cell - shift), HALF)
                if DEEP:
                    peak, total = joined(peaks[o * V + v], totals[o * V + v], peak, total, beta)
                new_peaks = new_peaks + (peak,)
                new_totals = new_totals + (total,)
        peaks = new_peaks
        totals = new_totals
    depth_count = 1
    if DEEP:
        depth_count = tl.load(depths + depth * (depth_taps + 3) + (2 if ZERO else 1)).to(tl.int32)
    place = (outer * depths_out + depth) * rows_out + row_out
    if DENSE:
        step_out = column_groups
        place = place * step_out + group
    else:
        step_out = columns_out * inner
        place = place * step_out + column * inner + within
    _first, count, existing, _shift = reach(column, columns, columns_after, COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE,
                                            V, BLOCK)  # fmt: skip
    for o in tl.static_range(ROWS):
        present = both(inside, row_out + o < rows_out)
        row_first, row_last, row_existing = tap_range(row + o * STRIDE, rows, rows_after, TAPS, 1)
        if ZERO:
            counted = both(existing > 0, (row_existing > 0) & (depth_count > 0))
        else:
            counted = both(count > 0, (row_last > row_first) & (depth_count > 0))
        shifts = ()
        sums = ()
        for v in tl.static_range(V):
            shifts = shifts + (pivot(peaks[o * V + v]),)
            sums = sums + (totals[o * V + v],)
        shift = stacked(shifts, V, BLOCK)
        total = tl.where(counted, stacked(sums, V, BLOCK), 1)
        target = place + o * step_out
        if DENSE:
            target = target * V
        if KEEP:
            write_line(kept + target, inner, sign * shift, present, column, columns_out, V, DENSE, BLOCK)
            write_line(kept_too + target, inner, total, present, column, columns_out, V, DENSE, BLOCK)
        logarithm = rough_logarithm(total) / binary if HALF else tl.log(total) / beta
        value = sign * (shift + logarithm)
        write_line(y + target, inner, value, present, column, columns_out, V, DENSE, BLOCK)


@triton.jit
def weigh_column(sums, cells, gy, pivots, totals, allowed, binary, step, line, lines, CELLS: tl.constexpr,
                 READERS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, N: tl.constexpr,
                 ACC: tl.constexpr):  # fmt: skip
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
                reader = line + i // STRIDE + READERS - 1 - c
                real = both(allowed, (reader >= 0) & (reader < lines))
                weight = tl.exp2(binary * (cells[i] - shifts[i // STRIDE + READERS - 1 - c]))
                sum_of += tl.where(real, weight * shares[i // STRIDE + READERS - 1 - c], 0)
        new = new + (sum_of,)
    return new


@triton.jit
def weigh(
    gy, pivots, totals, gx, x, depth_readers, numbers,
    lanes, groups, inner, depths, depths_out, depth_candidates, step_outer, step_group, step_depth, step_row,
    step_column, step_inner,
    rows, rows_out, rows_before, columns, columns_out, columns_before, row_start, row_blocks,
    CELLS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, READERS: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    DEEP: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of a smooth maximum, whose weights are made of pivots and totals: one column of
    some rows."""
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
    binary = tl.load(numbers + 1).to(ACC)
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
            sums = weigh_column(sums, cells, gy + place, pivots + place, totals + place, allowed, binary, step, line,
                                rows_out, CELLS, READERS, TAPS, STRIDE, N, ACC)  # fmt: skip
    target = ((outer * depths + depth) * rows + padded_row - rows_before) * columns + column
    target = target * inner + within
    for i in tl.static_range(CELLS):
        present = both(inside, (padded_row + i >= rows_before) & (padded_row + i - rows_before < rows))
        tl.store(gx + target + i * columns * inner, sums[i].to(gx.dtype.element_ty), mask=present)
