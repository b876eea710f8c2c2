"""Windows of any axes, given by tables: adaptive, dilated and smooth ones, and tied maxima. Kernels
for large windows are in `whole`.

An axis of windows is a table of (start, first real tap, one past the last, existing taps) per
window. An axis of cells is a table of (window, tap) per cell and reader, -1 for missing readers.
Depth, possibly several axes, is a table of offsets.
"""

import triton
import triton.language as tl

from .common import both, divide, joined, lane, outer_offset, pivot, scaled, tied, took_lead
from .folds import filled


@triton.jit
def visit(x, moved, y, kept, kept_too, tables, sizes, tile: tl.constexpr):
    """One row of windows, tap by tap.

    Values: "max", "winners", "sum", "smooth". Tangents: "ties" (of cells equal to the maximum in
    `kept`; ZERO: divided by their number in `kept_too`), "count" (that number), "weights" (by the
    pivot and total of a smooth maximum in `kept` and `kept_too`).
    """
    outer, column, within, inside, program = lane(sizes, sizes.columns_out, sizes.rows_out * sizes.depths_out, tile)
    depth = program // sizes.rows_out
    row = program - depth * sizes.rows_out
    row_start = tl.load(tables.rows + row * 4)
    row_first = tl.load(tables.rows + row * 4 + 1)
    row_last = tl.load(tables.rows + row * 4 + 2)
    row_existing = tl.load(tables.rows + row * 4 + 3)
    start = tl.load(tables.columns + column * 4, mask=inside, other=0)
    first = tl.load(tables.columns + column * 4 + 1, mask=inside, other=0)
    last = tl.load(tables.columns + column * 4 + 2, mask=inside, other=0)
    existing = tl.load(tables.columns + column * 4 + 3, mask=inside, other=0)
    header = tables.depths + depth * (sizes.depth_taps + 3)
    if tile.WIDE:
        row_start = row_start.to(tl.int64)
        start = start.to(tl.int64)
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group) + within * sizes.step_inner
    base += row_start * sizes.step_row + start * sizes.step_column
    target = (
        ((outer * sizes.depths_out + depth) * sizes.rows_out + row) * sizes.columns_out + column
    ) * sizes.inner + within
    real_count = tl.load(header + 1).to(tl.int32) * tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
    exist_count = tl.load(header + 2).to(tl.int32) * row_existing * existing
    if tile.KIND == "smooth" or tile.KIND == "weights":
        beta = tl.load(tables.numbers).to(tile.ACC)
        sign = tl.where(beta < 0, -1, 1).to(tile.ACC)
        beta = beta * sign
    best = tl.full((tile.BLOCK,), float("-inf"), tile.ACC)
    total = tl.zeros((tile.BLOCK,), tile.ACC)
    code = tl.full((tile.BLOCK,), -1, tl.int32)
    if tile.KIND == "ties" or tile.KIND == "count":
        best = tl.load(kept + target, mask=inside, other=0).to(tile.ACC)
    if tile.KIND == "weights":
        best = tl.load(kept + target, mask=inside, other=0).to(tile.ACC) * sign
    for t in range(sizes.depth_taps):
        offset = tl.load(header + 3 + t)
        source = x + base + tl.maximum(offset, 0)
        direction = moved + base + tl.maximum(offset, 0)
        for i in range(sizes.row_taps):
            for j in range(sizes.column_taps):
                real = both(inside & (j >= first) & (j < last), (offset >= 0) & (i >= row_first) & (i < row_last))
                place = i * sizes.row_dilation * sizes.step_row + j * sizes.column_dilation * sizes.step_column
                if tile.KIND == "sum":
                    total += tl.load(source + place, mask=real, other=0).to(tile.ACC)
                elif tile.KIND == "max" or tile.KIND == "winners":
                    cell = tl.load(source + place, mask=real, other=float("-inf")).to(tile.ACC)
                    better = real & (took_lead(best, cell) | (code < 0))
                    best = tl.where(better, cell, best)
                    code = tl.where(better, (t * sizes.row_taps + i) * sizes.column_taps + j, code)
                elif tile.KIND == "smooth":
                    cell = tl.load(source + place, mask=real, other=0).to(tile.ACC) * sign
                    counted = real
                    if tile.ZERO:
                        counted = both(inside & (j < existing), (offset >= -1) & (i < row_existing))
                    one = tl.where(counted & (cell - cell == 0), 1.0, 0.0).to(tile.ACC)
                    # a cell that is not finite has pivot 0, so its total is exp(β cell)
                    one = tl.where(counted & (cell - cell != 0), tl.exp(beta * cell), one)
                    best, total = joined(best, total, tl.where(counted, cell, float("-inf")), one, beta)
                else:
                    cell = tl.load(source + place, mask=real, other=0).to(tile.ACC)
                    if tile.KIND == "count":
                        total += tl.where(real & tied(cell, best), 1, 0).to(tile.ACC)
                    else:
                        push = tl.load(direction + place, mask=real, other=0).to(tile.ACC)
                        if tile.KIND == "ties":
                            total += tl.where(real & tied(cell, best), push, 0)
                        else:
                            total += tl.where(real, push * tl.exp(beta * (cell * sign - best)), 0)
    value = best
    if tile.KIND == "sum":
        if tile.COUNTED == "exists":
            value = divide(total, tl.maximum(exist_count, 1), tile.ACC)
        elif tile.COUNTED == "real":
            value = divide(total, tl.maximum(real_count, 1), tile.ACC)
        else:
            value = scaled(total, tl.load(tables.scale).to(tile.ACC), tl.load(tables.scale + 1).to(tile.ACC))
    elif tile.KIND == "smooth":
        count = exist_count if tile.ZERO else real_count
        total = tl.where(count > 0, total, 1)
        shift = pivot(best)
        value = sign * (shift + divide(tl.log(total), beta, tile.ACC))
        if tile.KEEP:
            tl.store(kept + target, (sign * shift).to(kept.dtype.element_ty), mask=inside)
            tl.store(kept_too + target, total.to(kept_too.dtype.element_ty), mask=inside)
    elif tile.KIND == "ties":
        value = total
        if tile.ZERO:
            sharers = tl.load(kept_too + target, mask=inside, other=1).to(tile.ACC)
            value = divide(total, tl.maximum(sharers, 1), tile.ACC)
    elif tile.KIND == "count":
        value = total
    elif tile.KIND == "weights":
        value = divide(total, tl.load(kept_too + target, mask=inside, other=1).to(tile.ACC), tile.ACC)
    else:
        if tile.KIND == "winners":
            code = tl.where(code < 0, sizes.depth_taps * sizes.row_taps * sizes.column_taps, code)
            tl.store(kept + target, code.to(kept.dtype.element_ty), mask=inside)
        value = tl.where(real_count > 0, value, 0)
    tl.store(y + target, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def bins(gy, kept, gx, tables, sizes, tile: tl.constexpr):
    """Cotangents ("first" or "sum") for windows whose neighbouring rows of cells have the same
    readers: each row of windows is read once for all rows of a program."""
    outer, column, within, inside, program = lane(sizes, sizes.columns, sizes.row_blocks, tile)
    row = program * tile.ROWS
    first_line = tl.load(tables.row_spans + row * 2)
    last_line = tl.load(tables.row_spans + (tl.minimum(row + tile.ROWS, sizes.rows) - 1) * 2 + 1)
    sums = filled(0, tile.ROWS, tile.BLOCK, tile.ACC)
    for c in range(sizes.column_candidates):
        window = tl.load(tables.column_readers + (column * sizes.column_candidates + c) * 2)
        tap = tl.load(tables.column_readers + (column * sizes.column_candidates + c) * 2 + 1)
        reached = window >= 0
        taken = tl.zeros((tile.BLOCK,), tl.int32) + 1
        if tile.COUNTED != "all":
            # adaptive windows have only real taps
            taken = tl.load(tables.columns + window * 4 + 3, mask=reached, other=1)
        for line in range(first_line, last_line + 1):
            start = tl.load(tables.rows + line * 4)
            length = tl.load(tables.rows + line * 4 + 3)
            place = ((outer * sizes.rows_out + line) * sizes.columns_out + window) * sizes.inner + within
            share = tl.load(gy + place, mask=reached, other=0).to(tile.ACC)
            new = ()
            if tile.KIND == "first":
                code = tl.load(kept + place, mask=reached, other=0).to(tl.int32)
                high = code // sizes.column_taps
                won = tl.where(reached & (code - high * sizes.column_taps == tap), start + high - row, -1)
                for i in tl.static_range(tile.ROWS):
                    new = new + (tl.where(won == i, sums[i] + share, sums[i]),)
            else:
                if tile.COUNTED != "all":
                    share = divide(share, taken * length, tile.ACC)
                for i in tl.static_range(tile.ROWS):
                    new = new + (tl.where((row + i >= start) & (row + i < start + length), sums[i] + share, sums[i]),)
            sums = new
    if tile.KIND == "sum" and tile.COUNTED == "all":
        number = tl.load(tables.scale).to(tile.ACC)
        reciprocal = tl.load(tables.scale + 1).to(tile.ACC)
    place = ((outer * sizes.rows + row) * sizes.columns + column) * sizes.inner + within
    for i in tl.static_range(tile.ROWS):
        total = sums[i]
        if tile.KIND == "sum" and tile.COUNTED == "all":
            total = scaled(total, number, reciprocal)
        tl.store(
            gx + place + i * sizes.columns * sizes.inner,
            total.to(gx.dtype.element_ty),
            mask=both(inside, row + i < sizes.rows),
        )


@triton.jit
def collect(gy, x, gx, kept, kept_too, tables, sizes, tile: tl.constexpr):
    """Cotangents, gathered from the windows that read a cell: "first" (codes in `kept`), "sum",
    "tied" (all tied cells, the maximum in `kept`), "shared" (also their number in `kept_too`),
    "weights" (pivot and total of a smooth maximum)."""
    outer, column, within, inside, program = lane(sizes, sizes.columns, sizes.row_blocks * sizes.depths, tile)
    depth = program // sizes.row_blocks
    row = (program - depth * sizes.row_blocks) * tile.ROWS
    if tile.WIDE:
        depth = depth.to(tl.int64)
        row = row.to(tl.int64)
    step = sizes.columns_out * sizes.inner
    if tile.KIND == "weights":
        beta = tl.load(tables.numbers).to(tile.ACC)
    sums = filled(0, tile.ROWS, tile.BLOCK, tile.ACC)
    cells = ()
    if tile.KIND != "first" and tile.KIND != "sum":
        own = (
            outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
            + within * sizes.step_inner
            + column * sizes.step_column
        )
        own += depth * sizes.step_depth + row * sizes.step_row
        for i in tl.static_range(tile.ROWS):
            cells = cells + (
                tl.load(x + own + i * sizes.step_row, mask=both(inside, row + i < sizes.rows), other=0).to(tile.ACC),
            )
    for t in range(sizes.depth_candidates):
        window_depth = tl.load(tables.depth_readers + (depth * sizes.depth_candidates + t) * 2)
        depth_tap = tl.load(tables.depth_readers + (depth * sizes.depth_candidates + t) * 2 + 1)
        for b in range(sizes.column_candidates):
            window = tl.load(tables.column_readers + (column * sizes.column_candidates + b) * 2, mask=inside, other=-1)
            tap = tl.load(tables.column_readers + (column * sizes.column_candidates + b) * 2 + 1, mask=inside, other=0)
            reached = both(inside & (window >= 0), window_depth >= 0)
            base = (outer * sizes.depths_out + window_depth) * sizes.rows_out * step + window * sizes.inner + within
            taken = tl.zeros((tile.BLOCK,), tl.int32)
            if tile.COUNTED == "exists":
                taken = tl.load(tables.columns + window * 4 + 3, mask=reached, other=0)
                taken *= tl.load(tables.depths + tl.maximum(window_depth, 0) * (sizes.depth_taps + 3) + 2).to(tl.int32)
            if tile.COUNTED == "real":
                taken = tl.load(tables.columns + window * 4 + 2, mask=reached, other=0)
                taken -= tl.load(tables.columns + window * 4 + 1, mask=reached, other=0)
                taken *= tl.load(tables.depths + tl.maximum(window_depth, 0) * (sizes.depth_taps + 3) + 1).to(tl.int32)
            for a in range(sizes.row_candidates):
                new = ()
                for i in tl.static_range(tile.ROWS):
                    known = row + i < sizes.rows
                    line = tl.load(
                        tables.row_readers + ((row + i) * sizes.row_candidates + a) * 2, mask=known, other=-1
                    )
                    row_tap = tl.load(
                        tables.row_readers + ((row + i) * sizes.row_candidates + a) * 2 + 1, mask=known, other=0
                    )
                    real = both(reached, line >= 0)
                    place = base + line * step
                    share = tl.load(gy + place, mask=real, other=0).to(tile.ACC)
                    if tile.KIND == "sum":
                        if tile.COUNTED == "exists":
                            by = taken * tl.load(tables.rows + line * 4 + 3, mask=line >= 0, other=1)
                            share = divide(share, tl.maximum(by, 1), tile.ACC)
                        elif tile.COUNTED == "real":
                            by = tl.load(tables.rows + line * 4 + 2, mask=line >= 0, other=1)
                            by -= tl.load(tables.rows + line * 4 + 1, mask=line >= 0, other=0)
                            share = divide(share, tl.maximum(by * taken, 1), tile.ACC)
                        new = new + (sums[i] + share,)
                    elif tile.KIND == "first":
                        code = tl.load(kept + place, mask=real, other=0).to(tl.int32)
                        won = code == (depth_tap * sizes.row_taps + row_tap) * sizes.column_taps + tap
                        new = new + (sums[i] + tl.where(real & won, share, 0),)
                    elif tile.KIND != "weights":
                        best = tl.load(kept + place, mask=real, other=0).to(tile.ACC)
                        if tile.KIND == "shared":
                            sharers = tl.load(kept_too + place, mask=real, other=1).to(tile.ACC)
                            share = divide(share, tl.maximum(sharers, 1), tile.ACC)
                        new = new + (sums[i] + tl.where(real & tied(cells[i], best), share, 0),)
                    else:
                        shift = tl.load(kept + place, mask=real, other=0).to(tile.ACC)
                        total = tl.load(kept_too + place, mask=real, other=1).to(tile.ACC)
                        weight = divide(share * tl.exp(beta * (cells[i] - shift)), total, tile.ACC)
                        new = new + (sums[i] + tl.where(real, weight, 0),)
                sums = new
    for i in tl.static_range(tile.ROWS):
        target = (
            ((outer * sizes.depths + depth) * sizes.rows + row + i) * sizes.columns + column
        ) * sizes.inner + within
        total = sums[i]
        if tile.KIND == "sum" and tile.COUNTED == "all":
            total = scaled(total, tl.load(tables.scale).to(tile.ACC), tl.load(tables.scale + 1).to(tile.ACC))
        tl.store(gx + target, total.to(gx.dtype.element_ty), mask=both(inside, row + i < sizes.rows))


@triton.jit
def select(moved, y, kept, tables, sizes, tile: tl.constexpr):
    """The tangent of each window's winner, or (INDEX) the winner's index in its plane, by the codes
    in `kept`."""
    outer, column, within, inside, program = lane(sizes, sizes.columns_out, sizes.rows_out * sizes.depths_out, tile)
    depth = program // sizes.rows_out
    row = program - depth * sizes.rows_out
    target = (
        ((outer * sizes.depths_out + depth) * sizes.rows_out + row) * sizes.columns_out + column
    ) * sizes.inner + within
    code = tl.load(kept + target, mask=inside, other=0).to(tl.int32)
    won = inside & (code < sizes.depth_taps * sizes.row_taps * sizes.column_taps) & (code >= 0)
    line = code // sizes.column_taps
    t = line // sizes.row_taps
    cell = (
        tl.load(tables.columns + column * 4, mask=inside, other=0)
        + (code - line * sizes.column_taps) * sizes.column_dilation
    )
    cell_row = tl.load(tables.rows + row * 4) + (line - t * sizes.row_taps) * sizes.row_dilation
    offset = tl.load(tables.depths + depth * (sizes.depth_taps + 3) + 3 + t, mask=won, other=0)
    if tile.INDEX:
        place = (offset // sizes.step_depth * sizes.rows + cell_row) * sizes.columns + cell
        tl.store(y + target, tl.where(won, place, -1).to(tl.int64), mask=inside)
    else:
        source = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group) + within * sizes.step_inner
        source = source + offset + cell_row.to(tl.int64) * sizes.step_row + cell.to(tl.int64) * sizes.step_column
        tl.store(y + target, tl.load(moved + source, mask=won, other=0), mask=inside)
