"""Smooth maxima of small sliding windows and their cotangents, with all cells of a lane in
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
def smooth(x, y, kept, kept_too, depths, numbers, sizes, tile: tl.constexpr):
    """Smooth maxima of small sliding windows. RAGGED: some taps do not exist."""
    N: tl.constexpr = (tile.ROWS - 1) * tile.STRIDE + tile.TAPS
    CELLS: tl.constexpr = (tile.V - 1) * tile.COLUMN_STRIDE + tile.COLUMN_TAPS
    HALF: tl.constexpr = y.dtype.element_ty.primitive_bitwidth == 16
    outer, group, within, inside, program = lane(sizes, sizes.column_groups, sizes.row_blocks * sizes.depths_out, tile)
    depth = program // sizes.row_blocks
    row_out = (program - depth * sizes.row_blocks) * tile.ROWS
    row = row_out * tile.STRIDE - sizes.rows_before
    if tile.WIDE:
        row = row.to(tl.int64)
    column = group * tile.V
    begin = column * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE - tile.LEAD
    real_columns = edges(begin, sizes.columns, tile.LEAD, CELLS, tile.W)
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
    if tile.W > 1:
        base += group * (tile.V * tile.COLUMN_STRIDE // tile.W) - (tile.COLUMN_BEFORE + tile.LEAD) // tile.W
    else:
        base += within * sizes.step_inner + begin * sizes.step_column
    beta = tl.load(numbers).to(tile.ACC)
    sign = tl.where(beta < 0, -1, 1).to(tile.ACC)
    beta = beta * sign
    binary = tl.load(numbers + 1).to(tile.ACC) * sign
    peaks = filled(float("-inf"), tile.ROWS * tile.V, tile.BLOCK, tile.ACC)
    totals = filled(0, tile.ROWS * tile.V, tile.BLOCK, tile.ACC)
    for t in range(sizes.depth_taps):
        source = base
        depth_real = True
        depth_exists = True
        if tile.DEEP:
            offset = tl.load(depths + depth * (sizes.depth_taps + 3) + 3 + t)
            depth_real = offset >= 0
            depth_exists = offset >= -1
            source += tl.maximum(offset, 0) // tile.W
        cells = ()
        for i in tl.static_range(N):
            line = source + (row + i) * sizes.step_row
            if tile.W > 1:
                line = line * tile.W
            allowed = (row + i >= 0) & (row + i < sizes.rows) & depth_real
            found = read_line(x + line, sizes.step_column, real_columns, allowed, 0, CELLS, tile.ACC, tile)
            for e in tl.static_range(CELLS):
                cell = found[e] * sign
                if not tile.ZERO:
                    cell = tl.where(both(real_columns[(tile.LEAD + e) // tile.W], allowed), cell, float("-inf"))
                elif tile.RAGGED or tile.DEEP:
                    exists = both(
                        begin + tile.LEAD + e < sizes.columns + sizes.columns_after,
                        (row + i < sizes.rows + sizes.rows_after) & depth_exists,
                    )
                    cell = tl.where(exists, cell, float("-inf"))
                cells = cells + (cell,)
        new_peaks = ()
        new_totals = ()
        for o in tl.static_range(tile.ROWS):
            for v in tl.static_range(tile.V):
                peak = cells[o * tile.STRIDE * CELLS + v * tile.COLUMN_STRIDE]
                for i in tl.static_range(tile.TAPS):
                    for j in tl.static_range(tile.COLUMN_TAPS):
                        cell = cells[(o * tile.STRIDE + i) * CELLS + v * tile.COLUMN_STRIDE + j]
                        peak = tl.maximum(peak, cell, propagate_nan=tl.PropagateNan.ALL)
                shift = pivot(peak)
                total = tl.zeros((tile.BLOCK,), tile.ACC)
                for i in tl.static_range(tile.TAPS):
                    for j in tl.static_range(tile.COLUMN_TAPS):
                        cell = cells[(o * tile.STRIDE + i) * CELLS + v * tile.COLUMN_STRIDE + j]
                        total += power(binary * (cell - shift), HALF)
                if tile.DEEP:
                    peak, total = joined(peaks[o * tile.V + v], totals[o * tile.V + v], peak, total, beta)
                new_peaks = new_peaks + (peak,)
                new_totals = new_totals + (total,)
        peaks = new_peaks
        totals = new_totals
    depth_count = 1
    if tile.DEEP:
        depth_count = tl.load(depths + depth * (sizes.depth_taps + 3) + (2 if tile.ZERO else 1)).to(tl.int32)
    place = (outer * sizes.depths_out + depth) * sizes.rows_out + row_out
    if tile.DENSE:
        step_out = sizes.column_groups
        place = place * step_out + group
    else:
        step_out = sizes.columns_out * sizes.inner
        place = place * step_out + column * sizes.inner + within
    _first, count, existing, _shift = reach(column, sizes, tile)
    for o in tl.static_range(tile.ROWS):
        present = both(inside, row_out + o < sizes.rows_out)
        row_first, row_last, row_existing = tap_range(row + o * tile.STRIDE, sizes.rows, sizes.rows_after, tile.TAPS, 1)
        if tile.ZERO:
            counted = both(existing > 0, (row_existing > 0) & (depth_count > 0))
        else:
            counted = both(count > 0, (row_last > row_first) & (depth_count > 0))
        shifts = ()
        sums = ()
        for v in tl.static_range(tile.V):
            shifts = shifts + (pivot(peaks[o * tile.V + v]),)
            sums = sums + (totals[o * tile.V + v],)
        shift = stacked(shifts, tile.V, tile.BLOCK)
        total = tl.where(counted, stacked(sums, tile.V, tile.BLOCK), 1)
        target = place + o * step_out
        if tile.DENSE:
            target = target * tile.V
        if tile.KEEP:
            write_line(kept + target, sizes.inner, sign * shift, present, column, sizes.columns_out, tile)
            write_line(kept_too + target, sizes.inner, total, present, column, sizes.columns_out, tile)
        logarithm = rough_logarithm(total) / binary if HALF else tl.log(total) / beta
        value = sign * (shift + logarithm)
        write_line(y + target, sizes.inner, value, present, column, sizes.columns_out, tile)


@triton.jit
def weigh_column(sums, cells, read, allowed, binary, step, line, lines, tile: tl.constexpr):
    """Add the weighted cotangents of one column of smooth maxima; `read` points to their
    cotangents, pivots and totals."""
    N: tl.constexpr = tile.CELLS // tile.STRIDE + tile.READERS - 1
    gy, pivots, totals = read
    shares = ()
    shifts = ()
    for k in tl.static_range(N):
        real = both(allowed, (line + k >= 0) & (line + k < lines))
        total = tl.load(totals + k * step, mask=real, other=1).to(tile.ACC)
        shares = shares + (tl.load(gy + k * step, mask=real, other=0).to(tile.ACC) / total,)
        # windows that do not exist have share 0, and a shift that makes no exponential large
        shifts = shifts + (tl.load(pivots + k * step, mask=real, other=0).to(tile.ACC),)
    new = ()
    for i in tl.static_range(tile.CELLS):
        sum_of = sums[i]
        for c in tl.static_range(tile.READERS):
            if i % tile.STRIDE + c * tile.STRIDE < tile.TAPS:
                reader = line + i // tile.STRIDE + tile.READERS - 1 - c
                real = both(allowed, (reader >= 0) & (reader < lines))
                weight = tl.exp2(binary * (cells[i] - shifts[i // tile.STRIDE + tile.READERS - 1 - c]))
                sum_of += tl.where(real, weight * shares[i // tile.STRIDE + tile.READERS - 1 - c], 0)
        new = new + (sum_of,)
    return new


@triton.jit
def weigh(gy, pivots, totals, gx, x, depth_readers, numbers, sizes, tile: tl.constexpr):
    """Cotangents of a smooth maximum, with weights from pivots and totals: one column of some
    rows."""
    outer, column, within, inside, program = lane(sizes, sizes.columns, sizes.row_blocks * sizes.depths, tile)
    depth = program // sizes.row_blocks
    padded_row = sizes.row_start + (program - depth * sizes.row_blocks) * tile.CELLS
    padded = column + sizes.columns_before
    newest = padded // tile.COLUMN_STRIDE
    phase = (padded - newest * tile.COLUMN_STRIDE).to(tl.int32)
    line = padded_row // tile.STRIDE - (tile.READERS - 1)
    step = sizes.columns_out * sizes.inner
    sums = filled(0, tile.CELLS, tile.BLOCK, tile.ACC)
    cells = ()
    binary = tl.load(numbers + 1).to(tile.ACC)
    row = padded_row - sizes.rows_before
    if tile.WIDE:
        row = row.to(tl.int64)
    own = (
        outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
        + within * sizes.step_inner
        + column * sizes.step_column
    )
    own += depth * sizes.step_depth
    for i in tl.static_range(tile.CELLS):
        cells = cells + (tl.load(x + own + clamped(row + i, sizes.rows - 1) * sizes.step_row).to(tile.ACC),)
    for t in range(sizes.depth_candidates):
        window_depth = depth
        reached = inside
        if tile.DEEP:
            window_depth = tl.load(depth_readers + (depth * sizes.depth_candidates + t) * 2)
            reached = both(inside, window_depth >= 0)
            window_depth = tl.maximum(window_depth, 0)
        base = ((outer * sizes.depths_out + window_depth) * sizes.rows_out + line) * step + within
        for c in tl.static_range(tile.COLUMN_READERS):
            allowed = (
                reached
                & (newest >= c)
                & (newest - c < sizes.columns_out)
                & (phase + c * tile.COLUMN_STRIDE < tile.COLUMN_TAPS)
            )
            place = base + (newest - c) * sizes.inner
            read = (gy + place, pivots + place, totals + place)
            sums = weigh_column(sums, cells, read, allowed, binary, step, line, sizes.rows_out, tile)
    target = ((outer * sizes.depths + depth) * sizes.rows + padded_row - sizes.rows_before) * sizes.columns + column
    target = target * sizes.inner + within
    for i in tl.static_range(tile.CELLS):
        present = both(
            inside, (padded_row + i >= sizes.rows_before) & (padded_row + i - sizes.rows_before < sizes.rows)
        )
        tl.store(gx + target + i * sizes.columns * sizes.inner, sums[i].to(gx.dtype.element_ty), mask=present)
