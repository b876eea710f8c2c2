"""Sliding windows, row by row: columns are folded through the first-level cache, rows in registers.

A program holds one register per lane for each of its rows (tuples, unrolled). Rows are then folded by doubling: windows of 2, 4, 8 … rows,
of which two overlapping ones make a maximum and disjoint ones a sum; so the cost of a cell grows with the logarithm of the
kernel's height. Columns go first, as the order of winners demands: the first maximal cell of the first row that has one.
Where a window reaches over the edge, a maximum reads the cell at the edge again: it is in the window anyway, and a cell does not beat
itself. A sum takes nothing there.
"""

import triton
import triton.language as tl

from .common import both, clamped, divide, joined, lane, leads, outer_offset, pivot, scaled, tap_range


@triton.jit
def filled(value, N: tl.constexpr, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """N rows of one number."""
    made = ()
    for _ in tl.static_range(N):
        made = made + (tl.full((BLOCK,), value, TYPE),)
    return made


@triton.jit
def read_rows(pointer, tap, low, row, rows, step_row, NEED: tl.constexpr, N: tl.constexpr, LOW: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """One column tap of each row, and its number."""
    cells = ()
    codes = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            line = clamped(row + i, rows)
            cells = cells + (tl.load(pointer + line * step_row).to(ACC),)
            codes = codes + (tl.load(low + line * step_row).to(tl.int32) if LOW else tap,)
        else:
            cells = cells + (cells[i - 1],)
            codes = codes + (codes[i - 1],)
    return cells, codes


@triton.jit
def lead_tap(bests, codes, pointer, tap, row, rows, step_row, NEED: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Let one more column tap of each row compete."""
    new_bests = ()
    new_codes = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            cell = tl.load(pointer + clamped(row + i, rows) * step_row).to(ACC)
            better = leads(bests[i], cell)
            new_bests = new_bests + (tl.where(better, cell, bests[i]),)
            new_codes = new_codes + (tl.where(better, tap, codes[i]) if KIND == "winners" else codes[i],)
        else:
            new_bests = new_bests + (bests[i],)
            new_codes = new_codes + (codes[i],)
    return new_bests, new_codes


@triton.jit
def add_tap(sums, pointer, allowed, row, rows, step_row, NEED: tl.constexpr, N: tl.constexpr, ACC: tl.constexpr):
    """Add one column tap of each row."""
    new = ()
    for i in tl.static_range(N):
        if (NEED >> i) & 1:
            new = new + (sums[i] + tl.load(pointer + clamped(row + i, rows) * step_row, mask=allowed, other=0).to(ACC),)
        else:
            new = new + (sums[i],)
    return new


@triton.jit
def down_lead(bests, codes, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, LEVELS: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """Fold rows to windows of TAPS rows; codes know their row already."""
    if STRIDE == 1:
        for level in tl.static_range(LEVELS):
            new_bests = ()
            new_codes = ()
            for i in tl.static_range(N - (2 << level) + 1):
                better = leads(bests[i], bests[i + (1 << level)])
                new_bests = new_bests + (tl.where(better, bests[i + (1 << level)], bests[i]),)
                new_codes = new_codes + (
                    tl.where(better, codes[i + (1 << level)], codes[i]) if KIND == "winners" else codes[i],
                )
            bests = new_bests
            codes = new_codes
    final_bests = ()
    final_codes = ()
    for o in tl.static_range(ROWS):
        best = bests[o * STRIDE]
        code = codes[o * STRIDE]
        if STRIDE == 1:
            if TAPS > (1 << LEVELS):
                better = leads(best, bests[o + TAPS - (1 << LEVELS)])
                best = tl.where(better, bests[o + TAPS - (1 << LEVELS)], best)
                if KIND == "winners":
                    code = tl.where(better, codes[o + TAPS - (1 << LEVELS)], code)
        else:
            for j in tl.static_range(1, TAPS):
                better = leads(best, bests[o * STRIDE + j])
                best = tl.where(better, bests[o * STRIDE + j], best)
                if KIND == "winners":
                    code = tl.where(better, codes[o * STRIDE + j], code)
        final_bests = final_bests + (best,)
        final_codes = final_codes + (code,)
    return final_bests, final_codes


@triton.jit
def down_sum(sums, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, LEVELS: tl.constexpr, N: tl.constexpr):
    """Add rows to windows of TAPS rows; no sum is ever subtracted."""
    final = ()
    if STRIDE == 1:
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
                total = total + sums[o * STRIDE + j]
            final = final + (total,)
    return final


@triton.jit
def fold(
    x, low, y, kept, depths, scale,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_before, columns_after,
    row_blocks, depths_out,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr,
    LEVELS: tl.constexpr, NEED: tl.constexpr, UNROLLED: tl.constexpr, COUNTED: tl.constexpr, WHOLE: tl.constexpr,
    SIZE: tl.constexpr, BEFORE: tl.constexpr,
    DEEP: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Windows of sliding axes (rows and columns; depth by a table): maximum, winners or sum. WHOLE: each has a real cell.

    SIZE: the number of rows, where one program has them all; then each is read once, however often windows reach over the edge.

    LOW: x was folded along other axes before, and `low` holds the codes of its winners; then this call has one column tap.
    """
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    READ: tl.constexpr = SIZE if SIZE else N
    NEEDED: tl.constexpr = -1 if SIZE else NEED
    outer, column, within, inside, program = lane(lanes, columns_out, inner, row_blocks * depths_out, BLOCK, WIDE)
    depth = program // row_blocks
    row_out = (program - depth * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    top = row
    if SIZE:
        top = row + rows_before
    start = column * COLUMN_STRIDE - columns_before
    base = outer_offset(outer, groups, step_outer, step_group) + within * step_inner
    last_row = rows - 1
    if WIDE:
        last_row = last_row + tl.zeros((), tl.int64)
    codes_all = filled(0, ROWS, BLOCK, tl.int32)
    bests_all = filled(0 if KIND == "sum" else float("-inf"), ROWS, BLOCK, ACC)
    for t in range(depth_taps):
        source = x + base
        real = True
        if DEEP:
            offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
            real = offset >= 0
            source += tl.maximum(offset, 0)
        if KIND == "sum":
            sums = filled(0, READ, BLOCK, ACC)
            if UNROLLED:
                for j in tl.static_range(COLUMN_TAPS):
                    allowed = (start + j >= 0) & (start + j < columns)
                    sums = add_tap(sums, source + (start + j) * step_column, allowed, top, last_row, step_row, NEEDED, READ, ACC)  # fmt: skip
            else:
                for j in range(COLUMN_TAPS):
                    allowed = (start + j >= 0) & (start + j < columns)
                    sums = add_tap(sums, source + (start + j) * step_column, allowed, top, last_row, step_row, NEEDED, READ, ACC)  # fmt: skip
            taken = ()
            for i in tl.static_range(N):
                if not SIZE:
                    taken = taken + (tl.where((row + i >= 0) & (row + i < rows) & real, sums[i], 0),)
                elif i >= BEFORE and i < BEFORE + SIZE:
                    taken = taken + (tl.where(real, sums[i - BEFORE], 0),)
                else:
                    taken = taken + (tl.zeros((BLOCK,), ACC),)
            sums = down_sum(taken, ROWS, TAPS, STRIDE, LEVELS, N)
            new_sums = ()
            for o in tl.static_range(ROWS):
                new_sums = new_sums + (bests_all[o] + sums[o] if DEEP else sums[o],)
            bests_all = new_sums
        else:
            edge = clamped(start, columns - 1)
            bests, codes = read_rows(source + edge * step_column, (edge - start).to(tl.int32), low + base + edge * step_column, top, last_row, step_row, NEEDED, READ, LOW, ACC)  # fmt: skip
            if UNROLLED:
                for j in tl.static_range(1, COLUMN_TAPS):
                    edge = clamped(start + j, columns - 1)
                    bests, codes = lead_tap(bests, codes, source + edge * step_column, (edge - start).to(tl.int32), top, last_row, step_row, NEEDED, READ, KIND, ACC)  # fmt: skip
            else:
                for j in range(1, COLUMN_TAPS):
                    edge = clamped(start + j, columns - 1)
                    bests, codes = lead_tap(bests, codes, source + edge * step_column, (edge - start).to(tl.int32), top, last_row, step_row, NEEDED, READ, KIND, ACC)  # fmt: skip
            every = ()
            placed = ()
            for i in tl.static_range(N):
                if SIZE:
                    every = every + (bests[min(max(i - BEFORE, 0), SIZE - 1)],)
                    placed = placed + (
                        codes[min(max(i - BEFORE, 0), SIZE - 1)] + min(max(i, BEFORE), SIZE - 1 + BEFORE) * LOW_TAPS,
                    )
                else:
                    every = every + (bests[i],)
                    placed = placed + (codes[i] + (clamped(row + i, rows - 1) - row) * LOW_TAPS,)
            bests = every
            codes = placed
            bests, codes = down_lead(bests, codes, ROWS, TAPS, STRIDE, LEVELS, N, KIND)
            if DEEP:
                new_bests = ()
                new_codes = ()
                for o in tl.static_range(ROWS):
                    better = both(leads(bests_all[o], bests[o]), real)
                    new_bests = new_bests + (tl.where(better, bests[o], bests_all[o]),)
                    new_codes = new_codes + (
                        tl.where(better, codes[o] + t * (TAPS * LOW_TAPS), codes_all[o])
                        if KIND == "winners"
                        else codes_all[o],
                    )
                bests_all = new_bests
                codes_all = new_codes
            else:
                bests_all = bests
                codes_all = codes
    first, last, existing = tap_range(start, columns, columns_after, COLUMN_TAPS, 1)
    depth_first = 0
    depth_count = 1
    depth_existing = 1
    if DEEP:
        depth_first = tl.load(depths + depth * (depth_taps + 3)).to(tl.int32)
        depth_count = tl.load(depths + depth * (depth_taps + 3) + 1).to(tl.int32)
        depth_existing = tl.load(depths + depth * (depth_taps + 3) + 2).to(tl.int32)
    target = ((outer * depths_out + depth) * rows_out + row_out) * columns_out + column
    target = target * inner + within
    for o in tl.static_range(ROWS):
        present = both(inside, row_out + o < rows_out)
        row_first, row_last, row_existing = tap_range(row + o * STRIDE, rows, rows_after, TAPS, 1)
        value = bests_all[o]
        if KIND == "sum":
            if COUNTED == "exists":
                value = divide(value, tl.maximum(depth_existing * row_existing * existing, 1), ACC)
            elif COUNTED == "real":
                count = tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
                value = divide(value, tl.maximum(depth_count * count, 1), ACC)
            else:
                value = scaled(value, scale, ACC)
        else:
            some = both(last > first, (row_last > row_first) & (depth_count > 0))
            if KIND == "winners":
                # codes count from the program's first row on
                code = codes_all[o] - o * STRIDE * LOW_TAPS
                if DEEP:
                    nothing = (depth_first * TAPS + row_first) * LOW_TAPS + first
                    code = tl.where(value == float("-inf"), nothing, code)
                if not WHOLE:
                    code = tl.where(some, code, (depth_taps * TAPS) * LOW_TAPS)
                tl.store(kept + target + o * columns_out * inner, code.to(kept.dtype.element_ty), mask=present)
            if not WHOLE:
                value = tl.where(some, value, 0)
        tl.store(y + target + o * columns_out * inner, value.to(y.dtype.element_ty), mask=present)


@triton.jit
def smooth(
    x, y, kept, kept_too, depths, numbers,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_before, columns_after,
    row_blocks, depths_out,
    ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr,
    ZERO: tl.constexpr, RAGGED: tl.constexpr, KEEP: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Smooth maxima of small sliding windows: all cells of a program in registers. RAGGED: some taps do not exist."""
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    outer, column, within, inside, program = lane(lanes, columns_out, inner, row_blocks * depths_out, BLOCK, WIDE)
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
