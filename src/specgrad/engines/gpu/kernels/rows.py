"""Sliding windows, row by row: columns are folded through the first-level cache, rows in registers.

A program holds one register per lane for each of its rows (tuples, unrolled). Rows are then folded by doubling: windows of 2, 4, 8 … rows,
of which two overlapping ones make a maximum and disjoint ones a sum; so the cost of a cell grows with the logarithm of the
kernel's height. Columns go first, as the order of winners demands: the first maximal cell of the first row that has one.
A window that reaches over the edge reads -inf there; where nothing is greater, the first real tap is the winner.
"""

import triton
import triton.language as tl

from .common import both, divide, joined, lane, leads, outer_offset, pivot, tap_range


@triton.jit
def lead_tap(bests, codes, pointer, allowed, tap, step_row, row, rows, low, NEED: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr, LOW: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Let one tap of each row compete."""
    new_bests = ()
    new_codes = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            real = both(allowed, (row + i >= 0) & (row + i < rows))
            cell = tl.load(pointer + i * step_row, mask=real, other=float("-inf")).to(ACC)
            better = leads(bests[i], cell)
            new_bests = new_bests + (tl.where(better, cell, bests[i]),)
            if KIND == "winners":
                if LOW:
                    known = tl.load(low + i * step_row, mask=real, other=0).to(tl.int32)
                    new_codes = new_codes + (tl.where(better, known, codes[i]),)
                else:
                    new_codes = new_codes + (tl.where(better, tap, codes[i]),)
            else:
                new_codes = new_codes + (codes[i],)
        else:
            new_bests = new_bests + (bests[i],)
            new_codes = new_codes + (codes[i],)
    return new_bests, new_codes


@triton.jit
def add_tap(sums, pointer, allowed, step_row, row, rows, NEED: tl.constexpr, N: tl.constexpr, ACC: tl.constexpr):
    """Add one tap of each row."""
    new = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            real = both(allowed, (row + i >= 0) & (row + i < rows))
            new = new + (sums[i] + tl.load(pointer + i * step_row, mask=real, other=0).to(ACC),)
        else:
            new = new + (sums[i],)
    return new


@triton.jit
def smooth_tap(peaks, totals, pointer, real, counted, depth_real, depth_counted, sign, beta, step_row, row, rows, after, NEED: tl.constexpr, N: tl.constexpr, ADDS: tl.constexpr, ZERO: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Let one tap of each row compete for the peak, or (ADDS) add its share to the total."""
    new = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            inside = both(real & depth_real, (row + i >= 0) & (row + i < rows))
            cell = tl.load(pointer + i * step_row, mask=inside, other=0).to(ACC) * sign
            if ZERO:
                cell = tl.where(both(counted & depth_counted, row + i < rows + after), cell, float("-inf"))
            else:
                cell = tl.where(inside, cell, float("-inf"))
            if ADDS:
                new = new + (totals[i] + tl.exp(beta * (cell - pivot(peaks[i]))),)
            else:
                new = new + (tl.where(leads(peaks[i], cell), cell, peaks[i]),)
        elif ADDS:
            new = new + (totals[i],)
        else:
            new = new + (peaks[i],)
    return new


@triton.jit
def filled(value, N: tl.constexpr, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """N rows of one number."""
    made = ()
    for _ in tl.static_range(N):
        made = made + (tl.full((BLOCK,), value, TYPE),)
    return made


@triton.jit
def down_lead(bests, codes, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr, LEVELS: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """Fold rows to windows of TAPS rows; codes know their row already."""
    if STRIDE == 1 and DILATION == 1:
        for level in tl.static_range(LEVELS):
            new_bests = ()
            new_codes = ()
            for i in tl.static_range(N - (2 << level) + 1):
                better = leads(bests[i], bests[i + (1 << level)])
                new_bests = new_bests + (tl.where(better, bests[i + (1 << level)], bests[i]),)
                if KIND == "winners":
                    new_codes = new_codes + (tl.where(better, codes[i + (1 << level)], codes[i]),)
                else:
                    new_codes = new_codes + (codes[i],)
            bests = new_bests
            codes = new_codes
    final_bests = ()
    final_codes = ()
    for o in tl.static_range(ROWS):
        best = bests[o * STRIDE]
        code = codes[o * STRIDE]
        if STRIDE == 1 and DILATION == 1:
            if TAPS > (1 << LEVELS):
                better = leads(best, bests[o + TAPS - (1 << LEVELS)])
                best = tl.where(better, bests[o + TAPS - (1 << LEVELS)], best)
                if KIND == "winners":
                    code = tl.where(better, codes[o + TAPS - (1 << LEVELS)], code)
        else:
            for j in tl.static_range(1, TAPS):
                better = leads(best, bests[o * STRIDE + j * DILATION])
                best = tl.where(better, bests[o * STRIDE + j * DILATION], best)
                if KIND == "winners":
                    code = tl.where(better, codes[o * STRIDE + j * DILATION], code)
        final_bests = final_bests + (best,)
        final_codes = final_codes + (code,)
    return final_bests, final_codes


@triton.jit
def down_sum(sums, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr, LEVELS: tl.constexpr, N: tl.constexpr):  # fmt: skip
    """Add rows to windows of TAPS rows; no sum is ever subtracted."""
    final = ()
    if STRIDE == 1 and DILATION == 1:
        for level in tl.static_range(LEVELS + 1):
            if (TAPS >> level) & 1:
                added = ()
                for o in tl.static_range(ROWS):
                    part = sums[o + (TAPS & ((1 << level) - 1))]
                    if (TAPS & ((1 << level) - 1)) > 0:
                        part = part + final[o]
                    added = added + (part,)
                final = added
            if level < LEVELS:
                doubled = ()
                for i in tl.static_range(N - (2 << level) + 1):
                    doubled = doubled + (sums[i] + sums[i + (1 << level)],)
                sums = doubled
    else:
        for o in tl.static_range(ROWS):
            total = sums[o * STRIDE]
            for j in tl.static_range(1, TAPS):
                total = total + sums[o * STRIDE + j * DILATION]
            final = final + (total,)
    return final


@triton.jit
def fold(
    x, low, y, kept, kept_too, depths, numbers,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_before, columns_after,
    stride, dilation, taps, row_blocks, depths_out, low_taps, divisor,
    KIND: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr,
    LEVELS: tl.constexpr, NEED: tl.constexpr, UNROLLED: tl.constexpr, COUNTED: tl.constexpr, ZERO: tl.constexpr,
    DEEP: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Windows of sliding axes (rows and columns; depth by a table): maximum, winners, sum or smooth maximum.

    LOW: x was folded along other axes before, and `low` holds the codes of its winners; then this call has one column tap.
    """
    N: tl.constexpr = (ROWS - 1) * STRIDE + (TAPS - 1) * DILATION + 1
    outer, column, within, inside, program = lane(lanes, columns_out, inner, row_blocks * depths_out, BLOCK, WIDE)
    depth = program // row_blocks
    row_out = (program - depth * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    if WIDE:
        row = row.to(tl.int64)
    start = column * stride - columns_before
    base = outer_offset(outer, groups, step_outer, step_group) + within * step_inner + start * step_column
    base += row * step_row
    if KIND == "smooth":
        beta = tl.load(numbers).to(ACC)
        sign = tl.where(beta < 0, -1, 1).to(ACC)
        beta = beta * sign
    codes_all = filled(0, ROWS, BLOCK, tl.int32)
    if KIND == "sum":
        bests_all = filled(0, ROWS, BLOCK, ACC)
    else:
        bests_all = filled(float("-inf"), ROWS, BLOCK, ACC)
    totals_all = filled(0, ROWS, BLOCK, ACC)
    for t in range(depth_taps):
        depth_real = inside
        depth_counted = inside
        source = x + base
        known = low + base
        if DEEP:
            offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
            depth_real = both(inside, offset >= 0)
            depth_counted = both(inside, offset >= -1)
            source += tl.maximum(offset, 0)
        if KIND == "smooth":
            peaks = filled(float("-inf"), N, BLOCK, ACC)
            totals = filled(0, N, BLOCK, ACC)
            for j in range(taps):
                cell = start + j * dilation
                real = (cell >= 0) & (cell < columns)
                peaks = smooth_tap(peaks, totals, source + j * dilation * step_column, real, cell < columns + columns_after, depth_real, depth_counted, sign, beta, step_row, row, rows, rows_after, NEED, N, False, ZERO, ACC)  # fmt: skip
            for j in range(taps):
                cell = start + j * dilation
                real = (cell >= 0) & (cell < columns)
                totals = smooth_tap(peaks, totals, source + j * dilation * step_column, real, cell < columns + columns_after, depth_real, depth_counted, sign, beta, step_row, row, rows, rows_after, NEED, N, True, ZERO, ACC)  # fmt: skip
            new_peaks = ()
            new_totals = ()
            for o in tl.static_range(ROWS):
                peak = bests_all[o]
                total = totals_all[o]
                for j in tl.static_range(TAPS):
                    peak, total = joined(peak, total, peaks[o * STRIDE + j * DILATION], totals[o * STRIDE + j * DILATION], beta)  # fmt: skip
                new_peaks = new_peaks + (peak,)
                new_totals = new_totals + (total,)
            bests_all = new_peaks
            totals_all = new_totals
        elif KIND == "sum":
            sums = filled(0, N, BLOCK, ACC)
            if UNROLLED:
                for j in tl.static_range(UNROLLED):
                    cell = start + j * dilation
                    allowed = depth_real & (cell >= 0) & (cell < columns)
                    sums = add_tap(sums, source + j * dilation * step_column, allowed, step_row, row, rows, NEED, N, ACC)  # fmt: skip
            else:
                for j in range(taps):
                    cell = start + j * dilation
                    allowed = depth_real & (cell >= 0) & (cell < columns)
                    sums = add_tap(sums, source + j * dilation * step_column, allowed, step_row, row, rows, NEED, N, ACC)  # fmt: skip
            sums = down_sum(sums, ROWS, TAPS, STRIDE, DILATION, LEVELS, N)
            new_sums = ()
            for o in tl.static_range(ROWS):
                new_sums = new_sums + (bests_all[o] + sums[o],)
            bests_all = new_sums
        else:
            bests = filled(float("-inf"), N, BLOCK, ACC)
            codes = filled(0, N, BLOCK, tl.int32)
            if UNROLLED:
                for j in tl.static_range(UNROLLED):
                    cell = start + j * dilation
                    allowed = depth_real & (cell >= 0) & (cell < columns)
                    bests, codes = lead_tap(bests, codes, source + j * dilation * step_column, allowed, j, step_row, row, rows, known, NEED, N, KIND, LOW, ACC)  # fmt: skip
            else:
                for j in range(taps):
                    cell = start + j * dilation
                    allowed = depth_real & (cell >= 0) & (cell < columns)
                    bests, codes = lead_tap(bests, codes, source + j * dilation * step_column, allowed, j, step_row, row, rows, known, NEED, N, KIND, LOW, ACC)  # fmt: skip
            if KIND == "winners":
                placed = ()
                for i in tl.static_range(N):
                    placed = placed + (codes[i] + i * low_taps,)
                codes = placed
            bests, codes = down_lead(bests, codes, ROWS, TAPS, STRIDE, DILATION, LEVELS, N, KIND)
            new_bests = ()
            new_codes = ()
            for o in tl.static_range(ROWS):
                better = leads(bests_all[o], bests[o])
                new_bests = new_bests + (tl.where(better, bests[o], bests_all[o]),)
                if KIND == "winners":
                    # a code counts rows one by one; a tap counts every DILATION-th, from the window's own first row on
                    code = codes[o] - o * STRIDE * low_taps
                    if DILATION > 1:
                        line = code // low_taps
                        code = line // DILATION * low_taps + code - line * low_taps
                    new_codes = new_codes + (tl.where(better, code + t * (TAPS * low_taps), codes_all[o]),)
                else:
                    new_codes = new_codes + (codes_all[o],)
            bests_all = new_bests
            codes_all = new_codes
    first, last, existing = tap_range(start, columns, columns_after, taps, dilation)
    depth_first = 0
    depth_count = 1
    depth_existing = 1
    if DEEP:
        depth_first = tl.load(depths + depth * (depth_taps + 3)).to(tl.int32)
        depth_count = tl.load(depths + depth * (depth_taps + 3) + 1).to(tl.int32)
        depth_existing = tl.load(depths + depth * (depth_taps + 3) + 2).to(tl.int32)
    plane = (outer * depths_out + depth) * rows_out
    for o in tl.static_range(ROWS):
        target = ((plane + row_out + o) * columns_out + column) * inner + within
        present = both(inside, row_out + o < rows_out)
        row_first, row_last, row_existing = tap_range(row + o * STRIDE, rows, rows_after, TAPS, DILATION)
        real_count = depth_count * tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
        value = bests_all[o]
        if KIND == "sum":
            if COUNTED == "exists":
                value = divide(value, tl.maximum(depth_existing * row_existing * existing, 1), ACC)
            elif COUNTED == "real":
                value = divide(value, tl.maximum(real_count, 1), ACC)
            else:
                value = divide(value, divisor, ACC)
        elif KIND == "smooth":
            count = real_count
            if ZERO:
                count = depth_existing * row_existing * existing
            total = tl.where(count > 0, totals_all[o], 1)
            shift = pivot(value)
            value = sign * (shift + divide(tl.log(total), beta, ACC))
            tl.store(kept + target, (sign * shift).to(kept.dtype.element_ty), mask=present)
            tl.store(kept_too + target, total.to(kept_too.dtype.element_ty), mask=present)
        else:
            if KIND == "winners":
                nothing = (depth_first * TAPS + row_first) * low_taps
                if LOW:
                    nothing += tl.load(low + base + (o * STRIDE + row_first * DILATION) * step_row, mask=present & (real_count > 0), other=0).to(tl.int32)  # fmt: skip
                else:
                    nothing += first
                code = tl.where(value == float("-inf"), nothing, codes_all[o])
                code = tl.where(real_count > 0, code, (depth_taps * TAPS) * low_taps)
                tl.store(kept + target, code.to(kept.dtype.element_ty), mask=present)
            value = tl.where(real_count > 0, value, 0)
        tl.store(y + target, value.to(y.dtype.element_ty), mask=present)
