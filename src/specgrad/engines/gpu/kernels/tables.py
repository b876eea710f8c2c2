"""Any window whose axes are given by tables: adaptive, dilated and smooth ones, and tied maxima;
`whole` has large ones.

An axis of windows is a table of (start, first real tap, one past the last, existing taps) per
window; an axis of cells is a table of (window, tap) per cell and reader, -1 where there are fewer.
Depth, which may stand for several axes, is a table of offsets.
"""

import triton
import triton.language as tl

from .common import both, divide, joined, lane, leads, outer_offset, pivot, scaled, tied
from .folds import filled


@triton.jit
def visit(
    x, moved, y, kept, kept_too, depths, row_table, column_table, numbers, scale,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows_out, columns_out, row_step, column_step, row_taps, column_taps, depths_out,
    KIND: tl.constexpr, COUNTED: tl.constexpr, ZERO: tl.constexpr, KEEP: tl.constexpr, WIDE: tl.constexpr,
    ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of windows, tap by tap.

    Values: "max", "winners", "sum", "smooth". Tangents: "ties" (of cells equal to the maximum in
    `kept`, divided by their number in `kept_too` if ZERO), "count" (that number), "weights" (of a
    smooth maximum's pivot and total, in the two).
    """
    outer, column, within, inside, program = lane(lanes, columns_out, inner, rows_out * depths_out, BLOCK, WIDE)
    depth = program // rows_out
    row = program - depth * rows_out
    row_start = tl.load(row_table + row * 4)
    row_first = tl.load(row_table + row * 4 + 1)
    row_last = tl.load(row_table + row * 4 + 2)
    row_existing = tl.load(row_table + row * 4 + 3)
    start = tl.load(column_table + column * 4, mask=inside, other=0)
    first = tl.load(column_table + column * 4 + 1, mask=inside, other=0)
    last = tl.load(column_table + column * 4 + 2, mask=inside, other=0)
    existing = tl.load(column_table + column * 4 + 3, mask=inside, other=0)
    header = depths + depth * (depth_taps + 3)
    if WIDE:
        row_start = row_start.to(tl.int64)
        start = start.to(tl.int64)
    base = outer_offset(outer, groups, step_outer, step_group) + within * step_inner
    base += row_start * step_row + start * step_column
    target = (((outer * depths_out + depth) * rows_out + row) * columns_out + column) * inner + within
    real_count = tl.load(header + 1).to(tl.int32) * tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
    exist_count = tl.load(header + 2).to(tl.int32) * row_existing * existing
    if KIND == "smooth" or KIND == "weights":
        beta = tl.load(numbers).to(ACC)
        sign = tl.where(beta < 0, -1, 1).to(ACC)
        beta = beta * sign
    best = tl.full((BLOCK,), float("-inf"), ACC)
    total = tl.zeros((BLOCK,), ACC)
    code = tl.full((BLOCK,), -1, tl.int32)
    if KIND == "ties" or KIND == "count":
        best = tl.load(kept + target, mask=inside, other=0).to(ACC)
    if KIND == "weights":
        best = tl.load(kept + target, mask=inside, other=0).to(ACC) * sign
    for t in range(depth_taps):
        offset = tl.load(header + 3 + t)
        source = x + base + tl.maximum(offset, 0)
        direction = moved + base + tl.maximum(offset, 0)
        for i in range(row_taps):
            for j in range(column_taps):
                real = both(inside & (j >= first) & (j < last), (offset >= 0) & (i >= row_first) & (i < row_last))
                place = i * row_step * step_row + j * column_step * step_column
                if KIND == "sum":
                    total += tl.load(source + place, mask=real, other=0).to(ACC)
                elif KIND == "max" or KIND == "winners":
                    cell = tl.load(source + place, mask=real, other=float("-inf")).to(ACC)
                    better = real & (leads(best, cell) | (code < 0))
                    best = tl.where(better, cell, best)
                    code = tl.where(better, (t * row_taps + i) * column_taps + j, code)
                elif KIND == "smooth":
                    cell = tl.load(source + place, mask=real, other=0).to(ACC) * sign
                    counted = real
                    if ZERO:
                        counted = both(inside & (j < existing), (offset >= -1) & (i < row_existing))
                    one = tl.where(counted & (cell - cell == 0), 1.0, 0.0).to(ACC)
                    # a cell that is not finite has pivot 0: its total is exp(β cell)
                    one = tl.where(counted & (cell - cell != 0), tl.exp(beta * cell), one)
                    best, total = joined(best, total, tl.where(counted, cell, float("-inf")), one, beta)
                else:
                    cell = tl.load(source + place, mask=real, other=0).to(ACC)
                    if KIND == "count":
                        total += tl.where(real & tied(cell, best), 1, 0).to(ACC)
                    else:
                        push = tl.load(direction + place, mask=real, other=0).to(ACC)
                        if KIND == "ties":
                            total += tl.where(real & tied(cell, best), push, 0)
                        else:
                            total += tl.where(real, push * tl.exp(beta * (cell * sign - best)), 0)
    value = best
    if KIND == "sum":
        if COUNTED == "exists":
            value = divide(total, tl.maximum(exist_count, 1), ACC)
        elif COUNTED == "real":
            value = divide(total, tl.maximum(real_count, 1), ACC)
        else:
            value = scaled(total, tl.load(scale).to(ACC), tl.load(scale + 1).to(ACC))
    elif KIND == "smooth":
        count = exist_count if ZERO else real_count
        total = tl.where(count > 0, total, 1)
        shift = pivot(best)
        value = sign * (shift + divide(tl.log(total), beta, ACC))
        if KEEP:
            tl.store(kept + target, (sign * shift).to(kept.dtype.element_ty), mask=inside)
            tl.store(kept_too + target, total.to(kept_too.dtype.element_ty), mask=inside)
    elif KIND == "ties":
        value = total
        if ZERO:
            sharers = tl.load(kept_too + target, mask=inside, other=1).to(ACC)
            value = divide(total, tl.maximum(sharers, 1), ACC)
    elif KIND == "count":
        value = total
    elif KIND == "weights":
        value = divide(total, tl.load(kept_too + target, mask=inside, other=1).to(ACC), ACC)
    else:
        if KIND == "winners":
            code = tl.where(code < 0, depth_taps * row_taps * column_taps, code)
            tl.store(kept + target, code.to(kept.dtype.element_ty), mask=inside)
        value = tl.where(real_count > 0, value, 0)
    tl.store(y + target, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def bins(
    gy, kept, gx, row_spans, column_readers, row_table, column_table, scale,
    lanes, inner, rows, columns, rows_out, columns_out, column_candidates, column_taps, row_blocks,
    KIND: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents where neighbouring rows of cells meet the same rows of windows, "first" or "sum":
    each of these is read once for all rows of a program, and says which of them it won."""
    outer, column, within, inside, program = lane(lanes, columns, inner, row_blocks, BLOCK, WIDE)
    row = program * ROWS
    first_line = tl.load(row_spans + row * 2)
    last_line = tl.load(row_spans + (tl.minimum(row + ROWS, rows) - 1) * 2 + 1)
    sums = filled(0, ROWS, BLOCK, ACC)
    for c in range(column_candidates):
        window = tl.load(column_readers + (column * column_candidates + c) * 2)
        tap = tl.load(column_readers + (column * column_candidates + c) * 2 + 1)
        reached = window >= 0
        taken = tl.zeros((BLOCK,), tl.int32) + 1
        if COUNTED != "all":
            # adaptive windows have real taps only
            taken = tl.load(column_table + window * 4 + 3, mask=reached, other=1)
        for line in range(first_line, last_line + 1):
            start = tl.load(row_table + line * 4)
            length = tl.load(row_table + line * 4 + 3)
            place = ((outer * rows_out + line) * columns_out + window) * inner + within
            share = tl.load(gy + place, mask=reached, other=0).to(ACC)
            new = ()
            if KIND == "first":
                code = tl.load(kept + place, mask=reached, other=0).to(tl.int32)
                high = code // column_taps
                won = tl.where(reached & (code - high * column_taps == tap), start + high - row, -1)
                for i in tl.static_range(ROWS):
                    new = new + (tl.where(won == i, sums[i] + share, sums[i]),)
            else:
                if COUNTED != "all":
                    share = divide(share, taken * length, ACC)
                for i in tl.static_range(ROWS):
                    new = new + (tl.where((row + i >= start) & (row + i < start + length), sums[i] + share, sums[i]),)
            sums = new
    if KIND == "sum" and COUNTED == "all":
        number = tl.load(scale).to(ACC)
        reciprocal = tl.load(scale + 1).to(ACC)
    place = ((outer * rows + row) * columns + column) * inner + within
    for i in tl.static_range(ROWS):
        total = sums[i]
        if KIND == "sum" and COUNTED == "all":
            total = scaled(total, number, reciprocal)
        tl.store(gx + place + i * columns * inner, total.to(gx.dtype.element_ty), mask=both(inside, row + i < rows))


@triton.jit
def collect(
    gy, x, gx, kept, kept_too, depth_readers, row_readers, column_readers, depths, row_table, column_table, numbers,
    scale,
    lanes, groups, inner, step_outer, step_group, step_depth, step_row, step_column, step_inner,
    depths_in, rows, columns, depths_out, rows_out, columns_out, depth_candidates, row_candidates, column_candidates,
    depth_taps, row_taps, column_taps, row_blocks,
    KIND: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents, gathered from the windows that read a cell: "first" (codes in `kept`), "sum",
    "tied" (all tied cells, the maximum in `kept`), "shared" (the same, their number in `kept_too`),
    "weights" (pivot and total of a smooth maximum)."""
    outer, column, within, inside, program = lane(lanes, columns, inner, row_blocks * depths_in, BLOCK, WIDE)
    depth = program // row_blocks
    row = (program - depth * row_blocks) * ROWS
    if WIDE:
        depth = depth.to(tl.int64)
        row = row.to(tl.int64)
    step = columns_out * inner
    if KIND == "weights":
        beta = tl.load(numbers).to(ACC)
    sums = filled(0, ROWS, BLOCK, ACC)
    cells = ()
    if KIND != "first" and KIND != "sum":
        own = outer_offset(outer, groups, step_outer, step_group) + within * step_inner + column * step_column
        own += depth * step_depth + row * step_row
        for i in tl.static_range(ROWS):
            cells = cells + (tl.load(x + own + i * step_row, mask=both(inside, row + i < rows), other=0).to(ACC),)
    for t in range(depth_candidates):
        window_depth = tl.load(depth_readers + (depth * depth_candidates + t) * 2)
        depth_tap = tl.load(depth_readers + (depth * depth_candidates + t) * 2 + 1)
        for b in range(column_candidates):
            window = tl.load(column_readers + (column * column_candidates + b) * 2, mask=inside, other=-1)
            tap = tl.load(column_readers + (column * column_candidates + b) * 2 + 1, mask=inside, other=0)
            reached = both(inside & (window >= 0), window_depth >= 0)
            base = (outer * depths_out + window_depth) * rows_out * step + window * inner + within
            taken = tl.zeros((BLOCK,), tl.int32)
            if COUNTED == "exists":
                taken = tl.load(column_table + window * 4 + 3, mask=reached, other=0)
                taken *= tl.load(depths + tl.maximum(window_depth, 0) * (depth_taps + 3) + 2).to(tl.int32)
            if COUNTED == "real":
                taken = tl.load(column_table + window * 4 + 2, mask=reached, other=0)
                taken -= tl.load(column_table + window * 4 + 1, mask=reached, other=0)
                taken *= tl.load(depths + tl.maximum(window_depth, 0) * (depth_taps + 3) + 1).to(tl.int32)
            for a in range(row_candidates):
                new = ()
                for i in tl.static_range(ROWS):
                    known = row + i < rows
                    line = tl.load(row_readers + ((row + i) * row_candidates + a) * 2, mask=known, other=-1)
                    row_tap = tl.load(row_readers + ((row + i) * row_candidates + a) * 2 + 1, mask=known, other=0)
                    real = both(reached, line >= 0)
                    place = base + line * step
                    share = tl.load(gy + place, mask=real, other=0).to(ACC)
                    if KIND == "sum":
                        if COUNTED == "exists":
                            by = taken * tl.load(row_table + line * 4 + 3, mask=line >= 0, other=1)
                            share = divide(share, tl.maximum(by, 1), ACC)
                        elif COUNTED == "real":
                            by = tl.load(row_table + line * 4 + 2, mask=line >= 0, other=1)
                            by -= tl.load(row_table + line * 4 + 1, mask=line >= 0, other=0)
                            share = divide(share, tl.maximum(by * taken, 1), ACC)
                        new = new + (sums[i] + share,)
                    elif KIND == "first":
                        code = tl.load(kept + place, mask=real, other=0).to(tl.int32)
                        won = code == (depth_tap * row_taps + row_tap) * column_taps + tap
                        new = new + (sums[i] + tl.where(real & won, share, 0),)
                    elif KIND != "weights":
                        best = tl.load(kept + place, mask=real, other=0).to(ACC)
                        if KIND == "shared":
                            sharers = tl.load(kept_too + place, mask=real, other=1).to(ACC)
                            share = divide(share, tl.maximum(sharers, 1), ACC)
                        new = new + (sums[i] + tl.where(real & tied(cells[i], best), share, 0),)
                    else:
                        shift = tl.load(kept + place, mask=real, other=0).to(ACC)
                        total = tl.load(kept_too + place, mask=real, other=1).to(ACC)
                        weight = divide(share * tl.exp(beta * (cells[i] - shift)), total, ACC)
                        new = new + (sums[i] + tl.where(real, weight, 0),)
                sums = new
    for i in tl.static_range(ROWS):
        target = (((outer * depths_in + depth) * rows + row + i) * columns + column) * inner + within
        total = sums[i]
        if KIND == "sum" and COUNTED == "all":
            total = scaled(total, tl.load(scale).to(ACC), tl.load(scale + 1).to(ACC))
        tl.store(gx + target, total.to(gx.dtype.element_ty), mask=both(inside, row + i < rows))


@triton.jit
def select(
    moved, y, kept, depths, row_table, column_table,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_depth, step_row, step_column, step_inner,
    rows, columns, rows_out, columns_out, row_step, column_step, row_taps, column_taps, depths_out,
    INDEX: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The tangent of each window's winner, or (INDEX) the winner's place in its plane, by the codes
    in `kept`."""
    outer, column, within, inside, program = lane(lanes, columns_out, inner, rows_out * depths_out, BLOCK, WIDE)
    depth = program // rows_out
    row = program - depth * rows_out
    target = (((outer * depths_out + depth) * rows_out + row) * columns_out + column) * inner + within
    code = tl.load(kept + target, mask=inside, other=0).to(tl.int32)
    won = inside & (code < depth_taps * row_taps * column_taps) & (code >= 0)
    line = code // column_taps
    t = line // row_taps
    cell = tl.load(column_table + column * 4, mask=inside, other=0) + (code - line * column_taps) * column_step
    cell_row = tl.load(row_table + row * 4) + (line - t * row_taps) * row_step
    offset = tl.load(depths + depth * (depth_taps + 3) + 3 + t, mask=won, other=0)
    if INDEX:
        place = (offset // step_depth * rows + cell_row) * columns + cell
        tl.store(y + target, tl.where(won, place, -1).to(tl.int64), mask=inside)
    else:
        source = outer_offset(outer, groups, step_outer, step_group) + within * step_inner
        source = source + offset + cell_row.to(tl.int64) * step_row + cell.to(tl.int64) * step_column
        tl.store(y + target, tl.load(moved + source, mask=won, other=0), mask=inside)
