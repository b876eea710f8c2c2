"""Small planes, several whole ones per program: a thread has a row of cells, then a column of the
rows' windows, or in reverse.

Memory is accessed contiguously for every plane width. Between rows and columns, data move between
threads. The cells of each window are known at compile time, so padding is neither read nor reduced.
"""

import triton
import triton.language as tl

from .arguments import Sizes
from .common import outer_offset, pieces, quotient, scaled, stacked
from .folds import argmax_fold, doubtful, filled, note, unnoted
from .rows import Memory, Place, retrace


@triton.jit
def window(levels, level_codes, o: tl.constexpr, SIZE: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
           KIND: tl.constexpr):  # fmt: skip
    """The o-th window, from reductions of 2^level neighbours: two overlapping ones give a maximum,
    disjoint ones a sum."""
    FIRST: tl.constexpr = max(o - BEFORE, 0)
    COUNT: tl.constexpr = min(o - BEFORE + TAPS, SIZE) - FIRST
    found, code = levels[0][FIRST], level_codes[0][0]
    for level in tl.static_range(5):
        if KIND == "sum":
            if (COUNT >> level) & 1:
                part = levels[level][FIRST + (COUNT & ((1 << level) - 1))]
                found = part + found if (COUNT & ((1 << level) - 1)) > 0 else part
        elif (COUNT >> level) == 1:
            found, code = levels[level][FIRST], level_codes[level][FIRST]
            if (1 << level) < COUNT:
                found, code = argmax_fold(found, code, levels[level][FIRST + COUNT - (1 << level)],
                                   level_codes[level][FIRST + COUNT - (1 << level)], KIND)  # fmt: skip
    return found, code


@triton.jit
def windows(cells, codes, SIZE: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
            KIND: tl.constexpr):  # fmt: skip
    """All LENGTH windows of a line of SIZE cells, with stride 1."""
    levels = (cells,)
    level_codes = (codes,)
    for level in tl.static_range(4):
        larger = ()
        larger_codes = ()
        for i in tl.static_range(max(SIZE - (2 << level) + 1, 0)):
            if KIND == "sum":
                best, code = levels[level][i] + levels[level][i + (1 << level)], codes[0]
            else:
                best, code = argmax_fold(levels[level][i], level_codes[level][i], levels[level][i + (1 << level)],
                                  level_codes[level][i + (1 << level)], KIND)  # fmt: skip
            larger = larger + (best,)
            larger_codes = larger_codes + (code,)
        levels = levels + (larger,)
        level_codes = level_codes + (larger_codes,)
    found = ()
    found_codes = ()
    for o in tl.static_range(LENGTH):
        best, code = window(levels, level_codes, o, SIZE, TAPS, BEFORE, KIND)
        found = found + (best,)
        found_codes = found_codes + (code,)
    return found, found_codes


@triton.jit
def lines(block, N: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    """The first N of W columns of a block, as a tuple."""
    parts = pieces(tl.reshape(block, (BLOCK, W)), W, BLOCK)
    found = ()
    for i in tl.static_range(N):
        found = found + (parts[i],)
    return found


@triton.jit
def side_by_side(parts, N: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    """The inverse of `lines`; missing columns repeat the last one."""
    every = ()
    for i in tl.static_range(W):
        every = every + (parts[min(i, N - 1)],)
    return stacked(every, W, BLOCK)


@triton.jit
def turned(parts, N: tl.constexpr, M: tl.constexpr, PLANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """N columns of planes of ROWS × COLUMNS, transposed to the first M of their rows."""
    block = tl.reshape(side_by_side(parts, N, COLUMNS, PLANES * ROWS), (PLANES, ROWS, COLUMNS))
    return lines(tl.permute(block, (0, 2, 1)), M, ROWS, PLANES * COLUMNS)


@triton.jit
def planes_of(outer, PLANES: tl.constexpr, WIDE: tl.constexpr):
    """(the program's planes, whether they exist)."""
    planes = tl.program_id(0) * PLANES + tl.arange(0, PLANES)
    there = tl.expand_dims(tl.expand_dims(planes < outer, 1), 2)
    if WIDE:
        planes = planes.to(tl.int64)
    return planes, there


@triton.jit
def grid(first, step_row, HIGH: tl.constexpr, ACROSS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Offsets of the cells of planes, and which exist of ROWS × COLUMNS."""
    row = tl.expand_dims(tl.expand_dims(tl.arange(0, ROWS), 0), 2)
    column = tl.expand_dims(tl.expand_dims(tl.arange(0, COLUMNS), 0), 0)
    at = tl.expand_dims(tl.expand_dims(first, 1), 2) + row * step_row + column
    return at, (row < HIGH) & (column < ACROSS)


@triton.jit
def columns_of(outer, COUNT: tl.constexpr, PLANES: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):
    """(plane, column, whether it exists) for lanes with one column each."""
    lane = tl.arange(0, PLANES * COLUMNS)
    plane = tl.program_id(0) * PLANES + lane // COLUMNS
    inside = (plane < outer) & (lane % COLUMNS < COUNT)
    plane = tl.minimum(plane, outer - 1)
    if WIDE:
        plane = plane.to(tl.int64)
    return plane, lane % COLUMNS, inside


@triton.jit
def nearest(values, N: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr):
    """The least |value| of N lines, without NaN."""
    least = tl.full((BLOCK,), 1, ACC)
    for o in tl.static_range(N):
        least = tl.minimum(least, tl.abs(values[o]))
    return tl.min(least, 0)


@triton.jit
def fold(x, low, y, kept, depths, scale, sizes, tile: tl.constexpr):
    """Maximum, winners or sum of windows with stride 1, each with a real cell. Planes are held as
    ROWS × COLUMNS."""
    HIGH: tl.constexpr = tile.PLANES * tile.ROWS
    ACROSS: tl.constexpr = tile.PLANES * tile.COLUMNS
    FOLD: tl.constexpr = "rivals" if tile.KIND == "winners" and x.dtype.element_ty == tl.float32 else tile.KIND
    planes, there = planes_of(sizes.outer, tile.PLANES, tile.WIDE)
    at, real = grid(
        outer_offset(planes, sizes.groups, sizes.step_outer, sizes.step_group),
        sizes.step_row,
        tile.SIZE,
        tile.COLUMN_SIZE,
        tile.ROWS,
        tile.COLUMNS,
    )
    cells = lines(tl.load(x + at, mask=there & real, other=0).to(tile.ACC), tile.COLUMN_SIZE, tile.COLUMNS, HIGH)
    trace, smallest = unnoted(x, tile.KIND, 2, tile.ACC, HIGH)
    codes = ()
    for e in tl.static_range(tile.COLUMN_SIZE):
        codes = codes + (tl.full((HIGH,), e, tl.int32),)
    if tile.KIND != "sum":
        trace = note(trace, cells, tile.COLUMN_SIZE)
    bests, codes = windows(
        cells, codes, tile.COLUMN_SIZE, tile.COLUMN_LENGTH, tile.COLUMN_TAPS, tile.COLUMN_BEFORE, FOLD
    )
    bests = turned(bests, tile.COLUMN_LENGTH, tile.SIZE, tile.PLANES, tile.ROWS, tile.COLUMNS)
    if tile.KIND == "winners":
        narrow = ()
        for o in tl.static_range(tile.COLUMN_LENGTH):
            narrow = narrow + (codes[o].to(tl.int16),)
        known = turned(narrow, tile.COLUMN_LENGTH, tile.SIZE, tile.PLANES, tile.ROWS, tile.COLUMNS)
        codes = ()
        for i in tl.static_range(tile.SIZE):
            codes = codes + (known[i].to(tl.int32) + i * tile.COLUMN_TAPS,)
    else:
        codes = filled(0, tile.SIZE, ACROSS, tl.int32)
    bests, codes = windows(bests, codes, tile.SIZE, tile.LENGTH, tile.TAPS, tile.BEFORE, FOLD)
    plane, column, inside = columns_of(sizes.outer, tile.COLUMN_LENGTH, tile.PLANES, tile.COLUMNS, tile.WIDE)
    target = plane * (tile.LENGTH * tile.COLUMN_LENGTH) + column
    again = False
    if tile.KIND != "sum":
        if tile.KIND == "max":
            smallest = tl.minimum(smallest, nearest(bests, tile.LENGTH, ACROSS, tile.ACC))
        again = doubtful(trace, smallest)
    if again:
        base = outer_offset(plane, sizes.groups, sizes.step_outer, sizes.step_group) + column - tile.COLUMN_BEFORE
        row = tl.program_id(0) * 0 - tile.BEFORE  # as a tensor, not a constant
        here = Place(base, target, tile.COLUMN_LENGTH, column, inside, 0, row, 0)
        own = Sizes(
            inner=1,
            depth_taps=1,
            step_column=1,
            step_row=sizes.step_row,
            rows=tile.SIZE,
            rows_out=tile.LENGTH,
            columns=tile.COLUMN_SIZE,
            columns_out=tile.COLUMN_LENGTH,
        )
        retrace(Memory(x, low, y, kept, depths), here, own, tile.LENGTH, tile)
    else:
        number = 1.0
        reciprocal = 1.0
        if tile.KIND == "sum":
            number = tl.load(scale).to(tile.ACC)
            reciprocal = tl.load(scale + 1).to(tile.ACC)
        for o in tl.static_range(tile.LENGTH):
            value = scaled(bests[o], number, reciprocal) if tile.KIND == "sum" else bests[o]
            tl.store(y + target + o * tile.COLUMN_LENGTH, value.to(y.dtype.element_ty), mask=inside)
            if tile.KIND == "winners":
                # codes here count from the plane's first cell, results from a window's
                code = codes[o] - (column + ((o - tile.BEFORE) * tile.COLUMN_TAPS - tile.COLUMN_BEFORE))
                tl.store(kept + target + o * tile.COLUMN_LENGTH, code.to(kept.dtype.element_ty), mask=inside)


@triton.jit
def match(arriving, taps, lows, i: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
          LOW: tl.constexpr):  # fmt: skip
    """The cotangent of a line's i-th cell from the windows that it won, and their codes of the
    other axis."""
    total = tl.zeros_like(arriving[0])
    known = lows[0]
    for o in tl.static_range(LENGTH):
        if o - BEFORE <= i and i < o - BEFORE + TAPS:
            won = taps[o] == i - o + BEFORE
            total = tl.where(won, total + arriving[o], total)
            if LOW:
                known = tl.where(won, lows[o], known)
    return total, known


@triton.jit
def spread(gy, codes, gx, low, depth_readers, scale, sizes, tile: tl.constexpr):
    """Cotangents of winners: along columns of windows to the rows that won, then along these rows
    to the cells.

    All windows of a column won by one row have the same winner, so one of their codes is enough.
    """
    plane, column, inside = columns_of(sizes.outer, tile.COLUMN_LENGTH, tile.PLANES, tile.COLUMNS, tile.WIDE)
    source = plane * (tile.LENGTH * tile.COLUMN_LENGTH) + column
    arriving = ()
    high = ()
    rest = ()
    for o in tl.static_range(tile.LENGTH):
        share = tl.load(gy + source + o * tile.COLUMN_LENGTH, mask=inside, other=0)
        code = tl.load(codes + source + o * tile.COLUMN_LENGTH, mask=inside, other=0).to(tl.int32)
        row = quotient(code, tile.COLUMN_TAPS, codes)
        arriving = arriving + (share.to(tile.ACC),)
        high = high + (row,)
        rest = rest + (code - row * tile.COLUMN_TAPS,)
    sums = ()
    taps = ()
    for i in tl.static_range(tile.SIZE):
        total, known = match(arriving, high, rest, i, tile.LENGTH, tile.TAPS, tile.BEFORE, True)
        sums = sums + (total,)
        taps = taps + (known.to(tl.int16),)
    arriving = turned(sums, tile.SIZE, tile.COLUMN_LENGTH, tile.PLANES, tile.COLUMNS, tile.ROWS)
    taps = turned(taps, tile.SIZE, tile.COLUMN_LENGTH, tile.PLANES, tile.COLUMNS, tile.ROWS)
    sums = ()
    for i in tl.static_range(tile.COLUMN_SIZE):
        total, known = match(arriving, taps, taps, i, tile.COLUMN_LENGTH, tile.COLUMN_TAPS, tile.COLUMN_BEFORE, False)
        sums = sums + (total,)
    value = tl.reshape(
        side_by_side(sums, tile.COLUMN_SIZE, tile.COLUMNS, tile.PLANES * tile.ROWS),
        (tile.PLANES, tile.ROWS, tile.COLUMNS),
    )
    planes, there = planes_of(sizes.outer, tile.PLANES, tile.WIDE)
    at, real = grid(
        planes * (tile.SIZE * tile.COLUMN_SIZE), tile.COLUMN_SIZE, tile.SIZE, tile.COLUMN_SIZE, tile.ROWS, tile.COLUMNS
    )
    tl.store(gx + at, value.to(gx.dtype.element_ty), mask=there & real)
