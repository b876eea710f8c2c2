"""Large windows given by tables, above all whole planes: many threads reduce one window, and write
its cotangent.

Maxima without winners use the hardware's instruction, which orders -0.0 below 0.0. Only if the
maximum is 0 is the window read again.
"""

import triton
import triton.language as tl

from .common import divide, outer_offset, scaled, tied, took_lead


@triton.jit
def ahead(value, code, other_value, other_code):
    """The winner of two candidates in any order: NaN before numbers, the last of NaNs, the first of
    equals."""
    nan = value != value
    other_nan = other_value != other_value
    greater = (other_value > value) | (other_nan & ~nan)
    same = (other_value == value) | (nan & other_nan)
    later = other_code > code
    better = greater | (same & (later == nan))
    return tl.where(better, other_value, value), tl.where(better, other_code, code)


@triton.jit
def only(value, code, other_value, other_code):
    """`ahead`, with the code -1 for equals."""
    better = took_lead(value, other_value)
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
    x,
    tables,
    base,
    depth,
    present,
    bounds,
    sizes,
    tile: tl.constexpr,
    KIND: tl.constexpr,
    CAREFUL: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """The result of each thread over its taps of large windows: sums, or maxima and winners
    ("alone": -1 if there are several), and a sum that is NaN if a cell is. NaN wins only if
    CAREFUL."""
    row_first, row_last, first, last = bounds
    axis: tl.constexpr = 0 if tile.ACROSS else 1
    plane_taps: tl.constexpr = tile.TAPS * tile.COLUMN_TAPS
    if tile.ACROSS:
        best = tl.full((tile.BLOCK, tile.OUTPUTS), float("-inf") if KIND != "sum" else 0, tile.ACC)
        code = tl.zeros((tile.BLOCK, tile.OUTPUTS), tl.int32)
    else:
        best = tl.full((tile.OUTPUTS, tile.BLOCK), float("-inf") if KIND != "sum" else 0, tile.ACC)
        code = tl.zeros((tile.OUTPUTS, tile.BLOCK), tl.int32)
    mixed = tl.zeros_like(best)
    ONCE: tl.constexpr = "" if tile.ACROSS else "evict_first"
    for begin in tl.range(0, sizes.depth_taps * plane_taps, tile.BLOCK, loop_unroll_factor=UNROLL):
        tap = begin + tl.arange(0, tile.BLOCK)
        if tile.PLANE:
            # one index, so that the compiler knows that accesses are contiguous
            tap = tl.expand_dims(tap, 1 - axis)
            real = tl.expand_dims(present, axis) & (tap < tile.COLUMN_TAPS)
            place = tl.expand_dims(base, axis) + tap * sizes.step_column
        else:
            t = tap // plane_taps
            rest = tap - t * plane_taps
            i = rest // tile.COLUMN_TAPS
            j = rest - i * tile.COLUMN_TAPS
            t, i, j, tap = (
                tl.expand_dims(t, 1 - axis),
                tl.expand_dims(i, 1 - axis),
                tl.expand_dims(j, 1 - axis),
                tl.expand_dims(tap, 1 - axis),
            )
            real = tl.expand_dims(present, axis) & (t < sizes.depth_taps)
            if not tile.EXACT:
                real = real & (i >= tl.expand_dims(row_first, axis)) & (i < tl.expand_dims(row_last, axis))
                real = real & (j >= tl.expand_dims(first, axis)) & (j < tl.expand_dims(last, axis))
            place = (
                tl.expand_dims(base, axis)
                + i * sizes.row_dilation * sizes.step_row
                + j * sizes.column_dilation * sizes.step_column
            )
        if tile.DEEP:
            offset = tl.load(
                tables.depths + tl.expand_dims(depth, axis) * (sizes.depth_taps + 3) + 3 + t, mask=real, other=-1
            )
            real = real & (offset >= 0)
            place = place + tl.maximum(offset, 0)
        if KIND == "sum":
            best += tl.load(x + place, mask=real, other=0, eviction_policy=ONCE).to(tile.ACC)
        else:
            cell = tl.load(x + place, mask=real, other=float("-inf"), eviction_policy=ONCE).to(tile.ACC)
            if KIND == "max":
                best = greatest(best, cell)
            else:
                mixed += cell
                if KIND == "alone":
                    code = tl.where(cell == best, -1, code)
                better = took_lead(best, cell) if CAREFUL else cell > best
                best = tl.where(better, cell, best)
                code = tl.where(better, begin, code)
    within = tl.expand_dims(tl.arange(0, tile.BLOCK), 1 - axis)
    return best, tl.where(code < 0, code, code + within), mixed


@triton.jit
def reduce(x, y, kept, tables, sizes, tile: tl.constexpr):
    """Reduce large windows: BLOCK taps of OUTPUTS windows at once. ACROSS: neighbours in memory are
    neighbouring windows, not taps.

    EXACT: all taps of all windows are real. PLANE: each window is a whole contiguous plane.
    """
    axis: tl.constexpr = 0 if tile.ACROSS else 1
    program = tl.program_id(0)
    if tile.WIDE:
        program = program.to(tl.int64)
    target = program * tile.OUTPUTS + tl.arange(0, tile.OUTPUTS)
    present = target < sizes.outputs
    column = target // sizes.inner
    within = target - column * sizes.inner
    row = column // sizes.columns_out
    column = column - row * sizes.columns_out
    depth = row // sizes.rows_out
    row = row - depth * sizes.rows_out
    outer = depth // sizes.depths_out
    depth = depth - outer * sizes.depths_out
    row_start = tl.load(tables.rows + row * 4, mask=present, other=0)
    row_first = tl.load(tables.rows + row * 4 + 1, mask=present, other=0)
    row_last = tl.load(tables.rows + row * 4 + 2, mask=present, other=0)
    row_existing = tl.load(tables.rows + row * 4 + 3, mask=present, other=0)
    start = tl.load(tables.columns + column * 4, mask=present, other=0)
    first = tl.load(tables.columns + column * 4 + 1, mask=present, other=0)
    last = tl.load(tables.columns + column * 4 + 2, mask=present, other=0)
    existing = tl.load(tables.columns + column * 4 + 3, mask=present, other=0)
    if tile.WIDE:
        row_start = row_start.to(tl.int64)
        start = start.to(tl.int64)
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group) + within * sizes.step_inner
    if not tile.PLANE:
        base += row_start * sizes.step_row + start * sizes.step_column
    plane_taps: tl.constexpr = tile.TAPS * tile.COLUMN_TAPS
    bounds = (row_first, row_last, first, last)
    best, code, mixed = walk(x, tables, base, depth, present, bounds, sizes, tile, tile.KIND, tile.ACROSS, tile.UNROLL)
    if tile.KIND == "max":
        value = tl.reduce(best, axis, greatest)
        won = tl.zeros((tile.OUTPUTS,), tl.int32)
        if tl.max((value == 0).to(tl.int32), 0) > 0:
            best, code, mixed = walk(x, tables, base, depth, present, bounds, sizes, tile, "winners", True, 1)
            value, won = tl.reduce((best, code), axis, ahead)
    elif tile.KIND != "sum":
        if not tile.ACROSS:  # noqa: SIM102 - known when compiled; and ACROSS has too few registers for both
            if tl.max(tl.max((mixed != mixed).to(tl.int32), 1), 0) > 0:
                best, code, mixed = walk(x, tables, base, depth, present, bounds, sizes, tile, tile.KIND, True, 1)
        if tile.KIND == "alone":
            value, won = tl.reduce((best, code), axis, only)
            won = tl.where((won < 0) | (value != value), sizes.depth_taps * plane_taps, won)
        else:
            value, won = tl.reduce((best, code), axis, ahead)
    if tile.KIND == "sum":
        total = tl.reduce(best, axis, add)
        real_count = tl.maximum(row_last - row_first, 0) * tl.maximum(last - first, 0)
        exist_count = row_existing * existing
        if tile.DEEP:
            real_count *= tl.load(tables.depths + depth * (sizes.depth_taps + 3) + 1, mask=present, other=0).to(
                tl.int32
            )
            exist_count *= tl.load(tables.depths + depth * (sizes.depth_taps + 3) + 2, mask=present, other=0).to(
                tl.int32
            )
        if tile.COUNTED == "exists":
            value = divide(total, tl.maximum(exist_count, 1), tile.ACC)
        elif tile.COUNTED == "real":
            value = divide(total, tl.maximum(real_count, 1), tile.ACC)
        else:
            value = scaled(total, tl.load(tables.scale).to(tile.ACC), tl.load(tables.scale + 1).to(tile.ACC))
    else:
        depth_first = 0
        some = (row_last > row_first) & (last > first)
        if tile.DEEP:
            depth_first = tl.load(tables.depths + depth * (sizes.depth_taps + 3), mask=present, other=0).to(tl.int32)
            some = some & (tl.load(tables.depths + depth * (sizes.depth_taps + 3) + 1, mask=present, other=0) > 0)
        if tile.KIND == "winners":
            # if nothing exceeds -inf, the first real tap is the winner
            won = tl.where(
                value == float("-inf"), (depth_first * tile.TAPS + row_first) * tile.COLUMN_TAPS + first, won
            )
            won = tl.where(some, won, sizes.depth_taps * plane_taps)
        value = tl.where(some, value, 0)
        if tile.KIND != "max":
            tl.store(kept + target, won.to(kept.dtype.element_ty), mask=present)
    tl.store(y + target, value.to(y.dtype.element_ty), mask=present)


@triton.jit
def fill(gy, x, gx, kept, kept_too, sizes, tile: tl.constexpr):
    """Cotangents of windows that are one whole contiguous plane: "first" (codes in `kept`), "tied"
    (the maximum in `kept`), "alone" (the maximum, and in `kept_too` the index of a single winner),
    "shared" (the maximum and the number of tied cells).

    x is read only if cells are tied.
    """
    program = tl.program_id(0)
    window = program // sizes.blocks
    begin = (program - window * sizes.blocks) * (tile.CHUNKS * tile.BLOCK)
    share = tl.load(gy + window).to(tile.ACC)
    if tile.WIDE:
        window = window.to(tl.int64)
    place = sizes.cells
    if tile.KIND == "first":
        place = tl.load(kept + window).to(tl.int32)
    elif tile.KIND == "alone":
        place = tl.load(kept_too + window).to(tl.int32)
    elif tile.KIND == "shared":
        share = share / tl.maximum(tl.load(kept_too + window), 1).to(tile.ACC)
    if tile.KIND == "first" or place < sizes.cells:
        for n in tl.static_range(tile.CHUNKS):
            at = begin + n * tile.BLOCK + tl.arange(0, tile.BLOCK)
            value = tl.where(at == place, tl.zeros((tile.BLOCK,), tile.ACC) + share, 0)
            tl.store(gx + window * sizes.cells + at, value.to(gx.dtype.element_ty), mask=at < sizes.cells)
    else:
        best = tl.load(kept + window).to(tile.ACC)
        for n in tl.static_range(tile.CHUNKS):
            at = begin + n * tile.BLOCK + tl.arange(0, tile.BLOCK)
            cell = tl.load(x + window * sizes.step_outer + at, mask=at < sizes.cells, other=0).to(tile.ACC)
            value = tl.where(tied(cell, tl.broadcast_to(best, cell.shape)), share, 0)
            tl.store(gx + window * sizes.cells + at, value.to(gx.dtype.element_ty), mask=at < sizes.cells)


@triton.jit
def pour(gy, gx, scale, sizes, tile: tl.constexpr):
    """Cotangents of averages of whole planes: BLOCK contiguous cells of any planes. EVEN: all
    exist."""
    begin = tl.program_id(0) * tile.BLOCK
    if tile.WIDE:
        begin = begin.to(tl.int64)
    outer = begin // sizes.step_outer
    at = begin - outer * sizes.step_outer + tl.arange(0, tile.BLOCK)
    later = at // sizes.step_outer
    window = (outer + later) * sizes.inner + (
        begin + tl.arange(0, tile.BLOCK)
    ) % sizes.inner  # a plane's step is a multiple of `inner`
    inside = tl.full((tile.BLOCK,), True, tl.int1) if tile.EVEN else tl.arange(0, tile.BLOCK) < sizes.cells - begin
    share = tl.load(gy + window, mask=inside, other=0).to(tile.ACC)
    value = scaled(share, tl.load(scale).to(tile.ACC), tl.load(scale + 1).to(tile.ACC))
    tl.store(gx + begin + tl.arange(0, tile.BLOCK), value.to(gx.dtype.element_ty), mask=inside)
