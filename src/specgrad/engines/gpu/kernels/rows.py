"""Sliding windows, row by row: a lane holds some neighbouring columns of some rows, and reduces
both in registers.

A lane reads the columns of V windows of each row, several at once if aligned, and reduces them to V
values; then it reduces its rows. Both reductions double: windows of 2, 4, 8 …, of which two
overlapping ones give a maximum, disjoint ones a sum. So the cost per cell is logarithmic in the
kernel size. Columns come first, since the winner is the first maximal cell of the first row that
has one. Padding is -inf in a maximum, which never exceeds a cell, and 0 in a sum.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .common import (
    both,
    clamped,
    divide,
    edges,
    lane,
    outer_offset,
    read_line,
    scaled,
    stacked,
    tap_range,
    took_lead,
    write_line,
)
from .folds import (
    argmax_fold,
    doubtful,
    lowest,
    note,
    note_values,
    packed,
    slide_argmax,
    slide_shared,
    slide_sum,
    unnoted,
    unpacked,
)


class Memory(NamedTuple):
    """The tensors that a kernel reads and writes."""

    x: Any
    low: Any
    y: Any
    kept: Any
    depths: Any


class Place(NamedTuple):
    """The windows of a program: `unit` is the offset of a lane's first cell, in vectors, `place` of
    its first window."""

    unit: Any
    place: Any
    step_out: Any
    column: Any
    inside: Any
    depth: Any
    row: Any
    row_out: Any


@triton.jit
def fold_columns(x, low, step, real, allowed, row, trace, tile: tl.constexpr, KIND: tl.constexpr, SHARE: tl.constexpr):
    """V windows of one row: values (BLOCK, V), codes counted from the first cell of the lane and of
    the program, and the trace of the cells. SHARE: "all" if reductions may wait for each other, as
    single reads do; "pairs" if two may."""
    CELLS: tl.constexpr = (tile.V - 1) * tile.COLUMN_STRIDE + tile.COLUMN_TAPS
    SHARED: tl.constexpr = (
        (SHARE == "all" or tile.W == 1)
        and tile.COLUMN_STRIDE == 1
        and tile.COLUMN_TAPS > 3
        and tile.V <= tile.COLUMN_TAPS
    )
    codes = ()
    if KIND == "sum":
        cells = read_line(x, step, real, allowed, 0, CELLS, tile.ACC, tile)
        if SHARED:
            sums, _ = slide_shared(cells, cells, tile.V, tile.COLUMN_TAPS, KIND)
        else:
            sums = slide_sum(cells, tile.V, tile.COLUMN_TAPS, tile.COLUMN_STRIDE)
        found = stacked(sums, tile.V, tile.BLOCK)
    else:
        cells = read_line(x, step, real, allowed, float("-inf"), CELLS, tile.ACC, tile)
        trace = note(trace, cells, CELLS)
        if tile.LOW:
            known = read_line(low, step, real, allowed, 0, CELLS, tl.int32, tile)
            for e in tl.static_range(CELLS):
                codes = codes + (known[e] + row * tile.LOW_TAPS,)
        else:
            for e in tl.static_range(CELLS):
                codes = codes + (tl.full((tile.BLOCK,), row * tile.LOW_TAPS + e, tl.int32),)
        if KIND == "packed":
            keys = ()
            for e in tl.static_range(CELLS):
                keys = keys + (packed(cells[e], codes[e]),)
            cells = keys
        if SHARED:
            bests, codes = slide_shared(cells, codes, tile.V, tile.COLUMN_TAPS, KIND)
        else:
            bests, codes = slide_argmax(cells, codes, tile.V, tile.COLUMN_TAPS, tile.COLUMN_STRIDE, KIND, SHARE)
        found = stacked(bests, tile.V, tile.BLOCK)
    code = tl.zeros((tile.BLOCK, tile.V), tl.int32)
    if KIND == "winners" or KIND == "rivals":
        code = stacked(codes, tile.V, tile.BLOCK)
    return found, code, trace


@triton.jit
def retrace(memory, at, sizes, per, tile: tl.constexpr):
    """Maxima and winners of a program that met a NaN, tap by tap: the last NaN wins."""
    tl.debug_barrier()  # earlier results are overwritten
    for o in range(per):
        for v in range(tile.V):
            best = tl.full((tile.BLOCK,), float("-inf"), tile.ACC)
            code = tl.full((tile.BLOCK,), -1, tl.int32)
            start = (at.column + v) * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE
            for t in range(sizes.depth_taps):
                offset = 0
                if tile.DEEP:
                    offset = tl.load(memory.depths + at.depth * (sizes.depth_taps + 3) + 3 + t)
                for i in range(tile.TAPS):
                    line = at.row + o * tile.STRIDE + i
                    source = (
                        (at.unit + line * sizes.step_row) * tile.W
                        + tl.maximum(offset, 0)
                        + (v * tile.COLUMN_STRIDE + tile.LEAD) * sizes.step_column
                    )
                    for j in range(tile.COLUMN_TAPS):
                        real = both(
                            (start + j >= 0) & (start + j < sizes.columns),
                            (line >= 0) & (line < sizes.rows) & (offset >= 0),
                        )
                        cell = tl.load(memory.x + source + j * sizes.step_column, mask=real, other=0).to(tile.ACC)
                        better = real & (took_lead(best, cell) | (code < 0))
                        best = tl.where(better, cell, best)
                        own = tl.zeros((tile.BLOCK,), tl.int32) + ((t * tile.TAPS + i) * tile.LOW_TAPS + j)
                        if tile.LOW:
                            own += tl.load(memory.low + source, mask=real, other=0).to(tl.int32)
                        code = tl.where(better, own, code)
            present = both(at.inside & (at.column + v < sizes.columns_out), at.row_out + o < sizes.rows_out)
            target = at.place + o * at.step_out
            target = target * tile.V + v if tile.DENSE else target + v * sizes.inner
            tl.store(memory.y + target, tl.where(code < 0, 0, best).to(memory.y.dtype.element_ty), mask=present)
            if tile.KIND != "max":
                code = tl.where(code < 0, sizes.depth_taps * tile.TAPS * tile.LOW_TAPS, code)
                tl.store(memory.kept + target, code.to(memory.kept.dtype.element_ty), mask=present)


@triton.jit
def reach(column, sizes, tile: tl.constexpr):
    """For V windows: the first real tap, the numbers of real and existing taps, and the window's
    start in the lane."""
    firsts = ()
    counts = ()
    existings = ()
    shifts = ()
    for v in tl.static_range(tile.V):
        first, last, existing = tap_range(
            (column + v) * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE,
            sizes.columns,
            sizes.columns_after,
            tile.COLUMN_TAPS,
            1,
        )
        firsts = firsts + (first.to(tl.int32),)
        counts = counts + (tl.maximum(last - first, 0).to(tl.int32),)
        existings = existings + (existing.to(tl.int32),)
        shifts = shifts + (tl.full((tile.BLOCK,), v * tile.COLUMN_STRIDE, tl.int32),)
    return (
        stacked(firsts, tile.V, tile.BLOCK),
        stacked(counts, tile.V, tile.BLOCK),
        stacked(existings, tile.V, tile.BLOCK),
        stacked(shifts, tile.V, tile.BLOCK),
    )


@triton.jit
def finish(memory, found, target, taps, row, present, column, depth, divisor, sizes, tile: tl.constexpr):
    """Write one row of windows, which starts at row `row`. `found`: values, codes, and the origin
    of the codes. `taps`: the result of `reach`. `depth`: the first real tap, and the numbers of
    real and existing taps. `divisor`: a number and its reciprocal."""
    value, code, passed = found
    first, count, existing, shift = taps
    depth_first, depth_count, depth_existing = depth
    number, reciprocal = divisor
    if tile.KIND == "packed":
        value, code = unpacked(value)
    row_first, row_last, row_existing = tap_range(row, sizes.rows, sizes.rows_after, tile.TAPS, 1)
    if tile.DENSE:
        target = target * tile.V
    if tile.KIND == "sum":
        if tile.COUNTED == "exists":
            value = divide(value, tl.maximum(depth_existing * row_existing * existing, 1), tile.ACC)
        elif tile.COUNTED == "real":
            value = divide(value, tl.maximum(depth_count * tl.maximum(row_last - row_first, 0) * count, 1), tile.ACC)
        else:
            value = scaled(value, number, reciprocal)
    else:
        some = both(count > 0, (row_last > row_first) & (depth_count > 0))
        if tile.KIND != "max":
            code = code - passed
            if not tile.LOW:
                code = code - shift
                if tile.PADDED:
                    # if nothing exceeds -inf, the first real tap is the winner
                    nothing = (depth_first * tile.TAPS + row_first) * tile.LOW_TAPS + first
                    code = tl.where(value == float("-inf"), nothing.to(tl.int32), code)
            if not tile.WHOLE:
                code = tl.where(some, code, (sizes.depth_taps * tile.TAPS) * tile.LOW_TAPS)
            write_line(memory.kept + target, sizes.inner, code, present, column, sizes.columns_out, tile)
        if not tile.WHOLE:
            value = tl.where(some, value, 0)
    write_line(memory.y + target, sizes.inner, value, present, column, sizes.columns_out, tile)


@triton.jit
def fold(x, low, y, kept, depths, scale, sizes, tile: tl.constexpr):
    """Maximum, winners or sum of sliding windows (rows and columns; depth by a table).

    SIZE: given if one program has all rows; then each row is read once. LOW: x was reduced along
    other axes before, and this call has one column tap.
    """
    N: tl.constexpr = (tile.ROWS - 1) * tile.STRIDE + tile.TAPS
    READ: tl.constexpr = tile.SIZE if tile.SIZE else N
    CELLS: tl.constexpr = (tile.V - 1) * tile.COLUMN_STRIDE + tile.COLUMN_TAPS
    outer, group, within, inside, program = lane(sizes, sizes.column_groups, sizes.row_blocks * sizes.depths_out, tile)
    depth = program // sizes.row_blocks
    row_out = (program - depth * sizes.row_blocks) * tile.ROWS
    row = row_out * tile.STRIDE - sizes.rows_before
    top = row
    if tile.SIZE:
        top = row + sizes.rows_before
    if tile.WIDE:
        top = top.to(tl.int64)
    column = group * tile.V
    begin = column * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE - tile.LEAD
    real_columns = edges(begin, sizes.columns, tile.LEAD, CELLS, tile.W)
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
    if tile.W > 1:
        # in vectors, so that the compiler knows the alignment
        base += group * (tile.V * tile.COLUMN_STRIDE // tile.W) - (tile.COLUMN_BEFORE + tile.LEAD) // tile.W
    else:
        base += within * sizes.step_inner + begin * sizes.step_column
    bests_all = ()
    codes_all = ()
    for _ in tl.static_range(tile.ROWS):
        bests_all = bests_all + (lowest(tile.KIND, tile.V, tile.BLOCK, tile.ACC),)
        codes_all = codes_all + (tl.zeros((tile.BLOCK, tile.V), tl.int32),)
    number = 1.0
    reciprocal = 1.0
    if tile.KIND == "sum" and tile.COUNTED == "all":
        number = tl.load(scale).to(tile.ACC)
        reciprocal = tl.load(scale + 1).to(tile.ACC)
    trace, smallest = unnoted(x, tile.KIND, tile.W, tile.ACC, tile.BLOCK)
    for t in range(sizes.depth_taps):
        source = base
        real = True
        if tile.DEEP:
            offset = tl.load(depths + depth * (sizes.depth_taps + 3) + 3 + t)
            real = offset >= 0
            source += tl.maximum(offset, 0) // tile.W
        bests = ()
        codes = ()
        for i in tl.static_range(READ):
            if tile.SIZE or (tile.NEED >> i) & 1:
                line = top + i
                allowed = real
                if tile.LOW and not tile.SIZE:
                    # the row at the edge again: the window has this row anyway, and equal cells do
                    # not change the winner
                    line = clamped(line, sizes.rows - 1)
                elif not tile.SIZE:
                    allowed = (line >= 0) & (line < sizes.rows) & real
                place = source + line * sizes.step_row
                if tile.W > 1:
                    place = place * tile.W
                if tile.LOW:
                    best, code, trace = fold_columns(
                        x + place,
                        low + place,
                        sizes.step_column,
                        real_columns,
                        allowed,
                        (line - row).to(tl.int32),
                        trace,
                        tile,
                        tile.KIND,
                        tile.SHARE,
                    )
                else:
                    best, code, trace = fold_columns(
                        x + place,
                        low,
                        sizes.step_column,
                        real_columns,
                        allowed,
                        i + (tile.BEFORE if tile.SIZE else 0),
                        trace,
                        tile,
                        tile.KIND,
                        tile.SHARE,
                    )
                bests = bests + (best,)
                codes = codes + (code,)
            else:
                bests = bests + (bests[i - 1],)
                codes = codes + (codes[i - 1],)
        if tile.SIZE:
            every = ()
            placed = ()
            for i in tl.static_range(N):
                if tile.KIND == "sum" and (i < tile.BEFORE or i >= tile.BEFORE + tile.SIZE):
                    every = every + (tl.zeros((tile.BLOCK, tile.V), tile.ACC),)
                else:
                    every = every + (bests[min(max(i - tile.BEFORE, 0), tile.SIZE - 1)],)
                placed = placed + (codes[min(max(i - tile.BEFORE, 0), tile.SIZE - 1)],)
            bests = every
            codes = placed
        if tile.KIND == "sum":
            sums = slide_sum(bests, tile.ROWS, tile.TAPS, tile.STRIDE)
            new_sums = ()
            for o in tl.static_range(tile.ROWS):
                new_sums = new_sums + (bests_all[o] + sums[o] if tile.DEEP else sums[o],)
            bests_all = new_sums
        else:
            bests, codes = slide_argmax(bests, codes, tile.ROWS, tile.TAPS, tile.STRIDE, tile.KIND, tile.SHARE)
            if tile.DEEP:
                new_bests = ()
                new_codes = ()
                for o in tl.static_range(tile.ROWS):
                    other = bests[o]
                    if tile.KIND == "packed":
                        other = other - t * (tile.TAPS * tile.LOW_TAPS * 2)
                    best, code = argmax_fold(
                        bests_all[o],
                        codes_all[o],
                        tl.where(real, other, bests_all[o]),
                        codes[o] + t * (tile.TAPS * tile.LOW_TAPS),
                        tile.KIND,
                    )
                    new_bests = new_bests + (best,)
                    new_codes = new_codes + (code,)
                bests_all = new_bests
                codes_all = new_codes
            else:
                bests_all = bests
                codes_all = codes
    place = (outer * sizes.depths_out + depth) * sizes.rows_out + row_out
    if tile.DENSE:
        step_out = sizes.column_groups
        place = place * step_out + group
    else:
        step_out = sizes.columns_out * sizes.inner
        place = place * step_out + column * sizes.inner + within
    again = False
    if tile.KIND != "sum":
        for o in tl.static_range(tile.ROWS):
            smallest = note_values(smallest, bests_all[o], tile.V, tile.KIND, tile.BLOCK)
        again = doubtful(trace, smallest)
    if again:
        at = Place(base, place, step_out, column, inside, depth, row, row_out)
        retrace(Memory(x, low, y, kept, depths), at, sizes, tile.ROWS, tile)
    else:
        depth_first = 0
        depth_count = 1
        depth_existing = 1
        if tile.DEEP:
            depth_first = tl.load(depths + depth * (sizes.depth_taps + 3)).to(tl.int32)
            depth_count = tl.load(depths + depth * (sizes.depth_taps + 3) + 1).to(tl.int32)
            depth_existing = tl.load(depths + depth * (sizes.depth_taps + 3) + 2).to(tl.int32)
        taps = reach(column, sizes, tile)
        for o in tl.static_range(tile.ROWS):
            present = both(inside, row_out + o < sizes.rows_out)
            finish(
                Memory(x, low, y, kept, depths),
                (bests_all[o], codes_all[o], o * tile.STRIDE * tile.LOW_TAPS),
                place + o * step_out,
                taps,
                row + o * tile.STRIDE,
                present,
                column,
                (depth_first, depth_count, depth_existing),
                (number, reciprocal),
                sizes,
                tile,
            )
