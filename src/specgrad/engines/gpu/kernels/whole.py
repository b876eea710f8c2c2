"""Large windows that are given by tables, whole planes first of all: many threads reduce one, and
fill it with its cotangent.

A maximum whose winner nobody asks for is the hardware's, which takes -0.0 for less than 0.0: only
if it is 0 is the window looked at again.
"""

import triton
import triton.language as tl

from .common import divide, leads, outer_offset, scaled, tied


@triton.jit
def ahead(value, code, other_value, other_code):
    """Of two candidates in any order, the first winner: NaN before numbers, the last of NaNs, the
    first of equals."""
    nan = value != value
    other_nan = other_value != other_value
    greater = (other_value > value) | (other_nan & ~nan)
    same = (other_value == value) | (nan & other_nan)
    later = other_code > code
    better = greater | (same & (later == nan))
    return tl.where(better, other_value, value), tl.where(better, other_code, code)


@triton.jit
def only(value, code, other_value, other_code):
    """As `ahead`, but equals have no code: -1."""
    better = leads(value, other_value)
    kept = tl.where(other_value == value, -1, code)
    return tl.where(better, other_value, value), tl.where(better, other_code, kept)


@triton.jit
def greatest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def walk(
    x, depths, base, depth, present, row_first, row_last, first, last,
    depth_taps, row_step, column_step, step_row, step_column,
    KIND: tl.constexpr, CAREFUL: tl.constexpr, ROW_TAPS: tl.constexpr, COLUMN_TAPS: tl.constexpr, EXACT: tl.constexpr,
    DEEP: tl.constexpr, PLANE: tl.constexpr, ACROSS: tl.constexpr, UNROLL: tl.constexpr, ACC: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """What each thread finds in its taps of large windows: sums, or maxima and winners (-1 in
    "alone" if there are several), and a sum that is NaN if a cell is; only if CAREFUL does NaN lead
    winners."""
    axis: tl.constexpr = 0 if ACROSS else 1
    plane_taps: tl.constexpr = ROW_TAPS * COLUMN_TAPS
    if ACROSS:
        best = tl.full((BLOCK, OUTPUTS), float("-inf") if KIND != "sum" else 0, ACC)
        code = tl.zeros((BLOCK, OUTPUTS), tl.int32)
    else:
        best = tl.full((OUTPUTS, BLOCK), float("-inf") if KIND != "sum" else 0, ACC)
        code = tl.zeros((OUTPUTS, BLOCK), tl.int32)
    mixed = tl.zeros_like(best)
    ONCE: tl.constexpr = "" if ACROSS else "evict_first"
    for begin in tl.range(0, depth_taps * plane_taps, BLOCK, loop_unroll_factor=UNROLL):
        tap = begin + tl.arange(0, BLOCK)
        if PLANE:
            # one line, in words that let the compiler see that neighbours are neighbours
            tap = tl.expand_dims(tap, 1 - axis)
            real = tl.expand_dims(present, axis) & (tap < COLUMN_TAPS)
            place = tl.expand_dims(base, axis) + tap * step_column
        else:
            t = tap // plane_taps
            rest = tap - t * plane_taps
            i = rest // COLUMN_TAPS
            j = rest - i * COLUMN_TAPS
            t, i, j, tap = tl.expand_dims(t, 1 - axis), tl.expand_dims(i, 1 - axis), tl.expand_dims(j,
                1 - axis), tl.expand_dims(tap, 1 - axis)  # fmt: skip
            real = tl.expand_dims(present, axis) & (t < depth_taps)
            if not EXACT:
                real = real & (i >= tl.expand_dims(row_first, axis)) & (i < tl.expand_dims(row_last, axis))
                real = real & (j >= tl.expand_dims(first, axis)) & (j < tl.expand_dims(last, axis))
            place = tl.expand_dims(base, axis) + i * row_step * step_row + j * column_step * step_column
        if DEEP:
            offset = tl.load(depths + tl.expand_dims(depth, axis) * (depth_taps + 3) + 3 + t, mask=real, other=-1)
            real = real & (offset >= 0)
            place = place + tl.maximum(offset, 0)
        if KIND == "sum":
            best += tl.load(x + place, mask=real, other=0, eviction_policy=ONCE).to(ACC)
        else:
            cell = tl.load(x + place, mask=real, other=float("-inf"), eviction_policy=ONCE).to(ACC)
            if KIND == "max":
                best = greatest(best, cell)
            else:
                mixed += cell
                if KIND == "alone":
                    code = tl.where(cell == best, -1, code)
                better = leads(best, cell) if CAREFUL else cell > best
                best = tl.where(better, cell, best)
                code = tl.where(better, begin, code)
    within = tl.expand_dims(tl.arange(0, BLOCK), 1 - axis)
    return best, tl.where(code < 0, code, code + within), mixed


@triton.jit
def reduce(
    x, y, kept, depths, row_table, column_table, scale,
    outputs, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows_out, columns_out, row_step, column_step, depths_out,
    KIND: tl.constexpr, COUNTED: tl.constexpr, ROW_TAPS: tl.constexpr, COLUMN_TAPS: tl.constexpr, EXACT: tl.constexpr,
    DEEP: tl.constexpr, PLANE: tl.constexpr, ACROSS: tl.constexpr, UNROLL: tl.constexpr, WIDE: tl.constexpr,
    ACC: tl.constexpr,
    OUTPUTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Large windows: BLOCK taps of OUTPUTS windows at once. ACROSS: neighbouring windows, not taps,
    are neighbours in memory.

    EXACT: all taps of all windows are real. PLANE: each window is a whole plane that lies as one
    line.
    """
    axis: tl.constexpr = 0 if ACROSS else 1
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    target = program * OUTPUTS + tl.arange(0, OUTPUTS)
    present = target < outputs
    column = target // inner
    within = target - column * inner
    row = column // columns_out
    column = column - row * columns_out
    depth = row // rows_out
    row = row - depth * rows_out
    outer = depth // depths_out
    depth = depth - outer * depths_out
    row_start = tl.load(row_table + row * 4, mask=present, other=0)
    row_first = tl.load(row_table + row * 4 + 1, mask=present, other=0)
    row_last = tl.load(row_table + row * 4 + 2, mask=present, other=0)
    row_existing = tl.load(row_table + row * 4 + 3, mask=present, other=0)
    start = tl.load(column_table + column * 4, mask=present, other=0)
    first = tl.load(column_table + column * 4 + 1, mask=present, other=0)
    last = tl.load(column_table + column * 4 + 2, mask=present, other=0)
    existing = tl.load(column_table + column * 4 + 3, mask=present, other=0)
    if WIDE:
        row_start = row_start.to(tl.int64)
        start = start.to(tl.int64)
    base = outer_offset(outer, groups, step_outer, step_group) + within * step_inner
    if not PLANE:
        base += row_start * step_row + start * step_column
    plane_taps: tl.constexpr = ROW_TAPS * COLUMN_TAPS
    best, code, mixed = walk(x, depths, base, depth, present, row_first, row_last, first, last, depth_taps, row_step,
                             column_step, step_row, step_column, KIND, ACROSS, ROW_TAPS, COLUMN_TAPS, EXACT, DEEP,
                             PLANE, ACROSS, UNROLL, ACC, OUTPUTS, BLOCK)  # fmt: skip
    if KIND == "max":
        value = tl.reduce(best, axis, greatest)
        won = tl.zeros((OUTPUTS,), tl.int32)
        if tl.max((value == 0).to(tl.int32), 0) > 0:
            best, code, mixed = walk(x, depths, base, depth, present, row_first, row_last, first, last, depth_taps,
                                     row_step, column_step, step_row, step_column, "winners", True, ROW_TAPS,
                                     COLUMN_TAPS, EXACT, DEEP, PLANE, ACROSS, 1, ACC, OUTPUTS, BLOCK)  # fmt: skip
            value, won = tl.reduce((best, code), axis, ahead)
    elif KIND != "sum":
        if not ACROSS:  # noqa: SIM102 - known when compiled; and ACROSS has too few registers for both
            if tl.max(tl.max((mixed != mixed).to(tl.int32), 1), 0) > 0:
                best, code, mixed = walk(x, depths, base, depth, present, row_first, row_last, first, last, depth_taps,
                                         row_step, column_step, step_row, step_column, KIND, True, ROW_TAPS,
                                         COLUMN_TAPS, EXACT, DEEP, PLANE, ACROSS, 1, ACC, OUTPUTS, BLOCK)  # fmt: skip
        if KIND == "alone":
            value, won = tl.reduce((best, code), axis, only)
            won = tl.where((won < 0) | (value != value), depth_taps * plane_taps, won)
        else:
            value, won = tl.reduce((best, code), axis, ahead)
    if KIND == "sum":
        total = tl.reduce(best, axis, add)
        real_count = tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
        exist_count = row_existing * existing
        if DEEP:
            real_count *= tl.load(depths + depth * (depth_taps + 3) + 1, mask=present, other=0).to(tl.int32)
            exist_count *= tl.load(depths + depth * (depth_taps + 3) + 2, mask=present, other=0).to(tl.int32)
        if COUNTED == "exists":
            value = divide(total, tl.maximum(exist_count, 1), ACC)
        elif COUNTED == "real":
            value = divide(total, tl.maximum(real_count, 1), ACC)
        else:
            value = scaled(total, tl.load(scale).to(ACC), tl.load(scale + 1).to(ACC))
    else:
        depth_first = 0
        some = (row_last > row_first) & (last > first)
        if DEEP:
            depth_first = tl.load(depths + depth * (depth_taps + 3), mask=present, other=0).to(tl.int32)
            some = some & (tl.load(depths + depth * (depth_taps + 3) + 1, mask=present, other=0) > 0)
        if KIND == "winners":
            # where nothing is greater than -inf, the first real tap is the winner
            won = tl.where(value == float("-inf"), (depth_first * ROW_TAPS + row_first) * COLUMN_TAPS + first, won)
            won = tl.where(some, won, depth_taps * plane_taps)
        value = tl.where(some, value, 0)
        if KIND != "max":
            tl.store(kept + target, won.to(kept.dtype.element_ty), mask=present)
    tl.store(y + target, value.to(y.dtype.element_ty), mask=present)


@triton.jit
def fill(
    gy, x, gx, kept, kept_too, cells, blocks, step_outer,
    KIND: tl.constexpr, CHUNKS: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents where every window is one whole plane of neighbouring cells: "first" (codes in
    `kept`), "tied" (the maximum in `kept`), "alone" (and in `kept_too` its place, if there is one
    only), "shared" (the number of tied cells there).

    Only where cells are tied is x read.
    """
    program = tl.program_id(0)
    window = program // blocks
    begin = (program - window * blocks) * (CHUNKS * BLOCK)
    share = tl.load(gy + window).to(ACC)
    if WIDE:
        window = window.to(tl.int64)
    place = cells
    if KIND == "first":
        place = tl.load(kept + window).to(tl.int32)
    elif KIND == "alone":
        place = tl.load(kept_too + window).to(tl.int32)
    elif KIND == "shared":
        share = share / tl.maximum(tl.load(kept_too + window), 1).to(ACC)
    if KIND == "first" or place < cells:
        for n in tl.static_range(CHUNKS):
            at = begin + n * BLOCK + tl.arange(0, BLOCK)
            value = tl.where(at == place, tl.zeros((BLOCK,), ACC) + share, 0)
            tl.store(gx + window * cells + at, value.to(gx.dtype.element_ty), mask=at < cells)
    else:
        best = tl.load(kept + window).to(ACC)
        for n in tl.static_range(CHUNKS):
            at = begin + n * BLOCK + tl.arange(0, BLOCK)
            cell = tl.load(x + window * step_outer + at, mask=at < cells, other=0).to(ACC)
            value = tl.where(tied(cell, tl.broadcast_to(best, cell.shape)), share, 0)
            tl.store(gx + window * cells + at, value.to(gx.dtype.element_ty), mask=at < cells)


@triton.jit
def pour(gy, gx, scale, step_outer, inner, cells, EVEN: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
         BLOCK: tl.constexpr):  # fmt: skip
    """Cotangents of averages of whole planes: BLOCK neighbouring cells of whichever planes. EVEN:
    all of them exist."""
    begin = tl.program_id(0) * BLOCK
    if WIDE:
        begin = begin.to(tl.int64)
    outer = begin // step_outer
    at = begin - outer * step_outer + tl.arange(0, BLOCK)
    later = at // step_outer
    window = (outer + later) * inner + (begin + tl.arange(0, BLOCK)) % inner  # a plane's step is a multiple of it
    inside = tl.full((BLOCK,), True, tl.int1) if EVEN else tl.arange(0, BLOCK) < cells - begin
    share = tl.load(gy + window, mask=inside, other=0).to(ACC)
    value = scaled(share, tl.load(scale).to(ACC), tl.load(scale + 1).to(ACC))
    tl.store(gx + begin + tl.arange(0, BLOCK), value.to(gx.dtype.element_ty), mask=inside)
