"""Sliding windows, row by row: a lane holds some neighbouring columns of some rows, and folds both
in registers.

A program reads V windows' worth of neighbouring columns of each row, several at once where they lie
aligned, and folds them to V values; then it folds its rows. Either fold doubles: windows of 2, 4, 8
…, of which two overlapping ones make a maximum and disjoint ones a sum; so the cost of a cell grows
with the logarithm of the kernel's sides. Columns go first, as the order of winners demands: the
first maximal cell of the first row that has one. What lies over the edge is -inf to a maximum,
which never beats a cell, and 0 to a sum.
"""

import triton
import triton.language as tl

from .common import (
    both,
    clamped,
    divide,
    edges,
    lane,
    leads,
    outer_offset,
    read_line,
    scaled,
    stacked,
    tap_range,
    write_line,
)
from .folds import (
    doubtful,
    lead,
    lowest,
    note,
    note_values,
    packed,
    slide_lead,
    slide_shared,
    slide_sum,
    unnoted,
    unpacked,
)


@triton.jit
def fold_columns(
    x, low, step, real, allowed, row, trace, LOW_TAPS: tl.constexpr, KIND: tl.constexpr, V: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, LEAD: tl.constexpr, W: tl.constexpr, LOW: tl.constexpr,
    BLOCK: tl.constexpr, ACC: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    """V windows of one row: (BLOCK, V) of values, and of codes that count from the lane's and the
    program's first cell on; and the trace of the cells. SHARE: "all" if folds may wait for each
    other, as cells do that come one by one; "pairs" if two may."""
    CELLS: tl.constexpr = (V - 1) * COLUMN_STRIDE + COLUMN_TAPS
    SHARED: tl.constexpr = (SHARE == "all" or W == 1) and COLUMN_STRIDE == 1 and COLUMN_TAPS > 3 and V <= COLUMN_TAPS
    codes = ()
    if KIND == "sum":
        cells = read_line(x, step, real, allowed, 0, LEAD, CELLS, W, BLOCK, ACC)
        if SHARED:
            sums, _ = slide_shared(cells, cells, V, COLUMN_TAPS, KIND)
        else:
            sums = slide_sum(cells, V, COLUMN_TAPS, COLUMN_STRIDE)
        found = stacked(sums, V, BLOCK)
    else:
        cells = read_line(x, step, real, allowed, float("-inf"), LEAD, CELLS, W, BLOCK, ACC)
        trace = note(trace, cells, CELLS)
        if LOW:
            known = read_line(low, step, real, allowed, 0, LEAD, CELLS, W, BLOCK, tl.int32)
            for e in tl.static_range(CELLS):
                codes = codes + (known[e] + row * LOW_TAPS,)
        else:
            for e in tl.static_range(CELLS):
                codes = codes + (tl.full((BLOCK,), row * LOW_TAPS + e, tl.int32),)
        if KIND == "packed":
            keys = ()
            for e in tl.static_range(CELLS):
                keys = keys + (packed(cells[e], codes[e]),)
            cells = keys
        if SHARED:
            bests, codes = slide_shared(cells, codes, V, COLUMN_TAPS, KIND)
        else:
            bests, codes = slide_lead(cells, codes, V, COLUMN_TAPS, COLUMN_STRIDE, KIND, SHARE)
        found = stacked(bests, V, BLOCK)
    code = tl.zeros((BLOCK, V), tl.int32)
    if KIND == "winners" or KIND == "rivals":
        code = stacked(codes, V, BLOCK)
    return found, code, trace


@triton.jit
def retrace(
    x, low, y, kept, depths, unit, place, step_out, column, inner, inside, depth, row, row_out,
    depth_taps, step_row, step_column, rows, rows_out, columns, columns_out,
    per, LOW_TAPS: tl.constexpr, KIND: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_BEFORE: tl.constexpr,
    LEAD: tl.constexpr,
    W: tl.constexpr, DENSE: tl.constexpr, DEEP: tl.constexpr, LOW: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maxima and winners of a program that has met a NaN, tap by tap: NaN leads, and the last of
    them."""
    tl.debug_barrier()  # what was written before is written again
    for o in range(per):
        for v in range(V):
            best = tl.full((BLOCK,), float("-inf"), ACC)
            code = tl.full((BLOCK,), -1, tl.int32)
            start = (column + v) * COLUMN_STRIDE - COLUMN_BEFORE
            for t in range(depth_taps):
                offset = 0
                if DEEP:
                    offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
                for i in range(TAPS):
                    line = row + o * STRIDE + i
                    source = (
                        (unit + line * step_row) * W + tl.maximum(offset, 0) + (v * COLUMN_STRIDE + LEAD) * step_column
                    )
                    for j in range(COLUMN_TAPS):
                        real = both(
                            (start + j >= 0) & (start + j < columns), (line >= 0) & (line < rows) & (offset >= 0)
                        )
                        cell = tl.load(x + source + j * step_column, mask=real, other=0).to(ACC)
                        better = real & (leads(best, cell) | (code < 0))
                        best = tl.where(better, cell, best)
                        own = tl.zeros((BLOCK,), tl.int32) + ((t * TAPS + i) * LOW_TAPS + j)
                        if LOW:
                            own += tl.load(low + source, mask=real, other=0).to(tl.int32)
                        code = tl.where(better, own, code)
            present = both(inside & (column + v < columns_out), row_out + o < rows_out)
            target = place + o * step_out
            target = target * V + v if DENSE else target + v * inner
            tl.store(y + target, tl.where(code < 0, 0, best).to(y.dtype.element_ty), mask=present)
            if KIND != "max":
                code = tl.where(code < 0, depth_taps * TAPS * LOW_TAPS, code)
                tl.store(kept + target, code.to(kept.dtype.element_ty), mask=present)


@triton.jit
def reach(column, columns, columns_after, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr,
          COLUMN_BEFORE: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Of V windows: the first real tap, how many are real, how many exist, and where the window
    starts in the lane."""
    firsts = ()
    counts = ()
    existings = ()
    shifts = ()
    for v in tl.static_range(V):
        first, last, existing = tap_range((column + v) * COLUMN_STRIDE - COLUMN_BEFORE, columns, columns_after,
                                          COLUMN_TAPS, 1)  # fmt: skip
        firsts = firsts + (first.to(tl.int32),)
        counts = counts + (tl.maximum(last - first, 0).to(tl.int32),)
        existings = existings + (existing.to(tl.int32),)
        shifts = shifts + (tl.full((BLOCK,), v * COLUMN_STRIDE, tl.int32),)
    return stacked(firsts, V, BLOCK), stacked(counts, V, BLOCK), stacked(existings, V, BLOCK), stacked(shifts, V, BLOCK)


@triton.jit
def finish(
    y, kept, value, code, passed, target, taps, row, present, column, inner, rows, rows_after, columns_out, depth_taps,
    depth_first, depth_count, depth_existing, number, reciprocal,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, TAPS: tl.constexpr, V: tl.constexpr,
    DENSE: tl.constexpr, COUNTED: tl.constexpr, WHOLE: tl.constexpr, PADDED: tl.constexpr, LOW: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write one row of windows, which starts at `row`; `taps` is what `reach` says of the columns;
    codes count from `passed` on."""
    first, count, existing, shift = taps
    if KIND == "packed":
        value, code = unpacked(value)
    row_first, row_last, row_existing = tap_range(row, rows, rows_after, TAPS, 1)
    if DENSE:
        target = target * V
    if KIND == "sum":
        if COUNTED == "exists":
            value = divide(value, tl.maximum(depth_existing * row_existing * existing, 1), ACC)
        elif COUNTED == "real":
            value = divide(value, tl.maximum(depth_count * tl.maximum(row_last - row_first, 0) * count, 1), ACC)
        else:
            value = scaled(value, number, reciprocal)
    else:
        some = both(count > 0, (row_last > row_first) & (depth_count > 0))
        if KIND != "max":
            code = code - passed
            if not LOW:
                code = code - shift
                if PADDED:
                    # where nothing is greater than -inf, the first real tap is the winner
                    nothing = (depth_first * TAPS + row_first) * LOW_TAPS + first
                    code = tl.where(value == float("-inf"), nothing.to(tl.int32), code)
            if not WHOLE:
                code = tl.where(some, code, (depth_taps * TAPS) * LOW_TAPS)
            write_line(kept + target, inner, code, present, column, columns_out, V, DENSE, BLOCK)
        if not WHOLE:
            value = tl.where(some, value, 0)
    write_line(y + target, inner, value, present, column, columns_out, V, DENSE, BLOCK)


@triton.jit
def fold(
    x, low, y, kept, depths, scale,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, column_groups,
    row_blocks, depths_out,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_BEFORE: tl.constexpr,
    LEAD: tl.constexpr,
    W: tl.constexpr, DENSE: tl.constexpr,
    SHARE: tl.constexpr, NEED: tl.constexpr, COUNTED: tl.constexpr, WHOLE: tl.constexpr, PADDED: tl.constexpr,
    SIZE: tl.constexpr, BEFORE: tl.constexpr,
    DEEP: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Windows of sliding axes (rows and columns; depth by a table): maximum, winners or sum. WHOLE:
    each has a real cell; PADDED: some have others.

    SIZE: the number of rows, where one program has them all; then each is read once, however often
    windows reach over the edge.

    LOW: x was folded along other axes before, and `low` holds the codes of its winners; then this
    call has one column tap.
    """
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    READ: tl.constexpr = SIZE if SIZE else N
    CELLS: tl.constexpr = (V - 1) * COLUMN_STRIDE + COLUMN_TAPS
    outer, group, within, inside, program = lane(
        lanes, column_groups, inner, row_blocks * depths_out, BLOCK, WIDE, EVEN
    )
    depth = program // row_blocks
    row_out = (program - depth * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    top = row
    if SIZE:
        top = row + rows_before
    if WIDE:
        top = top.to(tl.int64)
    column = group * V
    begin = column * COLUMN_STRIDE - COLUMN_BEFORE - LEAD
    real_columns = edges(begin, columns, LEAD, CELLS, W)
    base = outer_offset(outer, groups, step_outer, step_group)
    if W > 1:
        # counted in vectors, so that the compiler sees that they are aligned
        base += group * (V * COLUMN_STRIDE // W) - (COLUMN_BEFORE + LEAD) // W
    else:
        base += within * step_inner + begin * step_column
    bests_all = ()
    codes_all = ()
    for _ in tl.static_range(ROWS):
        bests_all = bests_all + (lowest(KIND, V, BLOCK, ACC),)
        codes_all = codes_all + (tl.zeros((BLOCK, V), tl.int32),)
    number = 1.0
    reciprocal = 1.0
    if KIND == "sum" and COUNTED == "all":
        number = tl.load(scale).to(ACC)
        reciprocal = tl.load(scale + 1).to(ACC)
    trace, smallest = unnoted(x, KIND, W, ACC, BLOCK)
    for t in range(depth_taps):
        source = base
        real = True
        if DEEP:
            offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t)
            real = offset >= 0
            source += tl.maximum(offset, 0) // W
        bests = ()
        codes = ()
        for i in tl.static_range(READ):
            if SIZE or (NEED >> i) & 1:
                line = top + i
                allowed = real
                if LOW and not SIZE:
                    # the row at the edge again: it is in the window anyway, and a cell does not
                    # beat itself
                    line = clamped(line, rows - 1)
                elif not SIZE:
                    allowed = (line >= 0) & (line < rows) & real
                place = source + line * step_row
                if W > 1:
                    place = place * W
                if LOW:
                    best, code, trace = fold_columns(x + place, low + place, step_column, real_columns, allowed,
                                                     (line - row).to(tl.int32), trace, LOW_TAPS, KIND, V, COLUMN_TAPS,
                                                     COLUMN_STRIDE, LEAD, W, LOW, BLOCK, ACC, SHARE)  # fmt: skip
                else:
                    best, code, trace = fold_columns(x + place, low, step_column, real_columns, allowed,
                                                     i + (BEFORE if SIZE else 0), trace, LOW_TAPS, KIND, V, COLUMN_TAPS,
                                                     COLUMN_STRIDE, LEAD, W, LOW, BLOCK, ACC, SHARE)  # fmt: skip
                bests = bests + (best,)
                codes = codes + (code,)
            else:
                bests = bests + (bests[i - 1],)
                codes = codes + (codes[i - 1],)
        if SIZE:
            every = ()
            placed = ()
            for i in tl.static_range(N):
                if KIND == "sum" and (i < BEFORE or i >= BEFORE + SIZE):
                    every = every + (tl.zeros((BLOCK, V), ACC),)
                else:
                    every = every + (bests[min(max(i - BEFORE, 0), SIZE - 1)],)
                placed = placed + (codes[min(max(i - BEFORE, 0), SIZE - 1)],)
            bests = every
            codes = placed
        if KIND == "sum":
            sums = slide_sum(bests, ROWS, TAPS, STRIDE)
            new_sums = ()
            for o in tl.static_range(ROWS):
                new_sums = new_sums + (bests_all[o] + sums[o] if DEEP else sums[o],)
            bests_all = new_sums
        else:
            bests, codes = slide_lead(bests, codes, ROWS, TAPS, STRIDE, KIND, SHARE)
            if DEEP:
                new_bests = ()
                new_codes = ()
                for o in tl.static_range(ROWS):
                    other = bests[o]
                    if KIND == "packed":
                        other = other - t * (TAPS * LOW_TAPS * 2)
                    best, code = lead(bests_all[o], codes_all[o], tl.where(real, other, bests_all[o]),
                                      codes[o] + t * (TAPS * LOW_TAPS), KIND)  # fmt: skip
                    new_bests = new_bests + (best,)
                    new_codes = new_codes + (code,)
                bests_all = new_bests
                codes_all = new_codes
            else:
                bests_all = bests
                codes_all = codes
    place = (outer * depths_out + depth) * rows_out + row_out
    if DENSE:
        step_out = column_groups
        place = place * step_out + group
    else:
        step_out = columns_out * inner
        place = place * step_out + column * inner + within
    again = False
    if KIND != "sum":
        for o in tl.static_range(ROWS):
            smallest = note_values(smallest, bests_all[o], V, KIND, BLOCK)
        again = doubtful(trace, smallest)
    if again:
        retrace(x, low, y, kept, depths, base, place, step_out, column, inner, inside, depth, row, row_out, depth_taps,
                step_row, step_column, rows, rows_out, columns, columns_out, ROWS, LOW_TAPS, KIND, TAPS, STRIDE, V,
                COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE, LEAD, W, DENSE, DEEP, LOW, ACC, BLOCK)  # fmt: skip
    else:
        depth_first = 0
        depth_count = 1
        depth_existing = 1
        if DEEP:
            depth_first = tl.load(depths + depth * (depth_taps + 3)).to(tl.int32)
            depth_count = tl.load(depths + depth * (depth_taps + 3) + 1).to(tl.int32)
            depth_existing = tl.load(depths + depth * (depth_taps + 3) + 2).to(tl.int32)
        taps = reach(column, columns, columns_after, COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE, V, BLOCK)
        for o in tl.static_range(ROWS):
            present = both(inside, row_out + o < rows_out)
            finish(y, kept, bests_all[o], codes_all[o], o * STRIDE * LOW_TAPS, place + o * step_out, taps,
                   row + o * STRIDE, present, column, inner, rows, rows_after, columns_out, depth_taps, depth_first,
                   depth_count, depth_existing, number, reciprocal, LOW_TAPS, KIND, TAPS, V, DENSE, COUNTED, WHOLE,
                   PADDED or DEEP, LOW, ACC, BLOCK)  # fmt: skip
