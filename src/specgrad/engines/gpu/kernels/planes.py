"""Small planes, several whole ones per program: a thread has a row of cells, then a column of what
their windows gave, or back.

Memory is read and written in one piece whatever the width of a plane; between rows and columns
numbers change threads. Which cells a window has is known when a kernel is compiled, so padding is
neither read nor folded.
"""

import triton
import triton.language as tl

from .common import outer_offset, pieces, quotient, scaled, stacked
from .folds import doubtful, filled, lead, note, unnoted
from .rows import retrace


@triton.jit
def window(levels, level_codes, o: tl.constexpr, SIZE: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
           KIND: tl.constexpr):  # fmt: skip
    """The o-th window, of folds of 2^level neighbours: two that overlap make a maximum, disjoint
    ones a sum."""
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
                found, code = lead(found, code, levels[level][FIRST + COUNT - (1 << level)],
                                   level_codes[level][FIRST + COUNT - (1 << level)], KIND)  # fmt: skip
    return found, code


@triton.jit
def windows(cells, codes, SIZE: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
            KIND: tl.constexpr):  # fmt: skip
    """All LENGTH windows of a line of SIZE cells, which move by one."""
    levels = (cells,)
    level_codes = (codes,)
    for level in tl.static_range(4):
        larger = ()
        larger_codes = ()
        for i in tl.static_range(max(SIZE - (2 << level) + 1, 0)):
            if KIND == "sum":
                best, code = levels[level][i] + levels[level][i + (1 << level)], codes[0]
            else:
                best, code = lead(levels[level][i], level_codes[level][i], levels[level][i + (1 << level)],
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
    """The first N of W columns of a block, each by itself."""
    parts = pieces(tl.reshape(block, (BLOCK, W)), W, BLOCK)
    found = ()
    for i in tl.static_range(N):
        found = found + (parts[i],)
    return found


@triton.jit
def side_by_side(parts, N: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    """What `lines` undoes; the last again where there are less than W."""
    every = ()
    for i in tl.static_range(W):
        every = every + (parts[min(i, N - 1)],)
    return stacked(every, W, BLOCK)


@triton.jit
def turned(parts, N: tl.constexpr, M: tl.constexpr, PLANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """N columns of planes of ROWS × COLUMNS, as the first M of their rows."""
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
    """(plane, column, whether it exists) of lanes that have a column each."""
    lane = tl.arange(0, PLANES * COLUMNS)
    plane = tl.program_id(0) * PLANES + lane // COLUMNS
    inside = (plane < outer) & (lane % COLUMNS < COUNT)
    plane = tl.minimum(plane, outer - 1)
    if WIDE:
        plane = plane.to(tl.int64)
    return plane, lane % COLUMNS, inside


@triton.jit
def nearest(values, N: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr):
    """The least |value| of N lines, NaN left out."""
    least = tl.full((BLOCK,), 1, ACC)
    for o in tl.static_range(N):
        least = tl.minimum(least, tl.abs(values[o]))
    return tl.min(least, 0)


@triton.jit
def fold(
    x, low, y, kept, depths, scale,
    outer, groups, step_outer, step_group, step_row,
    KIND: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
    COLUMN_SIZE: tl.constexpr, COLUMN_LENGTH: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_BEFORE: tl.constexpr,
    PLANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Maximum, winners or sum of windows that move by one cell; each has a real cell. Planes are
    held as ROWS × COLUMNS."""
    HIGH: tl.constexpr = PLANES * ROWS
    ACROSS: tl.constexpr = PLANES * COLUMNS
    FOLD: tl.constexpr = "rivals" if KIND == "winners" and x.dtype.element_ty == tl.float32 else KIND
    planes, there = planes_of(outer, PLANES, WIDE)
    at, real = grid(outer_offset(planes, groups, step_outer, step_group), step_row, SIZE, COLUMN_SIZE, ROWS,
                    COLUMNS)  # fmt: skip
    cells = lines(tl.load(x + at, mask=there & real, other=0).to(ACC), COLUMN_SIZE, COLUMNS, HIGH)
    trace, smallest = unnoted(x, KIND, 2, ACC, HIGH)
    codes = ()
    for e in tl.static_range(COLUMN_SIZE):
        codes = codes + (tl.full((HIGH,), e, tl.int32),)
    if KIND != "sum":
        trace = note(trace, cells, COLUMN_SIZE)
    bests, codes = windows(cells, codes, COLUMN_SIZE, COLUMN_LENGTH, COLUMN_TAPS, COLUMN_BEFORE, FOLD)
    bests = turned(bests, COLUMN_LENGTH, SIZE, PLANES, ROWS, COLUMNS)
    if KIND == "winners":
        narrow = ()
        for o in tl.static_range(COLUMN_LENGTH):
            narrow = narrow + (codes[o].to(tl.int16),)
        known = turned(narrow, COLUMN_LENGTH, SIZE, PLANES, ROWS, COLUMNS)
        codes = ()
        for i in tl.static_range(SIZE):
            codes = codes + (known[i].to(tl.int32) + i * COLUMN_TAPS,)
    else:
        codes = filled(0, SIZE, ACROSS, tl.int32)
    bests, codes = windows(bests, codes, SIZE, LENGTH, TAPS, BEFORE, FOLD)
    plane, column, inside = columns_of(outer, COLUMN_LENGTH, PLANES, COLUMNS, WIDE)
    target = plane * (LENGTH * COLUMN_LENGTH) + column
    again = False
    if KIND != "sum":
        if KIND == "max":
            smallest = tl.minimum(smallest, nearest(bests, LENGTH, ACROSS, ACC))
        again = doubtful(trace, smallest)
    if again:
        base = outer_offset(plane, groups, step_outer, step_group) + column - COLUMN_BEFORE
        row = tl.program_id(0) * 0 - BEFORE  # a number of the device
        retrace(x, low, y, kept, depths, base, target, COLUMN_LENGTH, column, 1, inside, 0, row, 0, 1, step_row, 1,
                SIZE, LENGTH, COLUMN_SIZE, COLUMN_LENGTH, LENGTH, COLUMN_TAPS, KIND, TAPS, 1, 1, COLUMN_TAPS, 1,
                COLUMN_BEFORE, 0, 1, False, False, False, ACC, ACROSS)  # fmt: skip
    else:
        number = 1.0
        reciprocal = 1.0
        if KIND == "sum":
            number = tl.load(scale).to(ACC)
            reciprocal = tl.load(scale + 1).to(ACC)
        for o in tl.static_range(LENGTH):
            value = scaled(bests[o], number, reciprocal) if KIND == "sum" else bests[o]
            tl.store(y + target + o * COLUMN_LENGTH, value.to(y.dtype.element_ty), mask=inside)
            if KIND == "winners":
                # codes count from the plane's first cell, a window's from its own
                code = codes[o] - (column + ((o - BEFORE) * COLUMN_TAPS - COLUMN_BEFORE))
                tl.store(kept + target + o * COLUMN_LENGTH, code.to(kept.dtype.element_ty), mask=inside)


@triton.jit
def match(arriving, taps, lows, i: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
          LOW: tl.constexpr):  # fmt: skip
    """What the windows of a line give its i-th cell, if it won them; and what is known of the other
    axis."""
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
def spread(
    gy, codes, gx, low, depth_readers, scale,
    outer,
    SIZE: tl.constexpr, LENGTH: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
    COLUMN_SIZE: tl.constexpr, COLUMN_LENGTH: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_BEFORE: tl.constexpr,
    PLANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Cotangents of winners: along columns of windows to the rows that won, then along these to the
    cells.

    All windows of a column that a row won agree on the cell, so one of their codes is enough.
    """
    plane, column, inside = columns_of(outer, COLUMN_LENGTH, PLANES, COLUMNS, WIDE)
    source = plane * (LENGTH * COLUMN_LENGTH) + column
    arriving = ()
    high = ()
    rest = ()
    for o in tl.static_range(LENGTH):
        share = tl.load(gy + source + o * COLUMN_LENGTH, mask=inside, other=0)
        code = tl.load(codes + source + o * COLUMN_LENGTH, mask=inside, other=0).to(tl.int32)
        row = quotient(code, COLUMN_TAPS, codes)
        arriving = arriving + (share.to(ACC),)
        high = high + (row,)
        rest = rest + (code - row * COLUMN_TAPS,)
    sums = ()
    taps = ()
    for i in tl.static_range(SIZE):
        total, known = match(arriving, high, rest, i, LENGTH, TAPS, BEFORE, True)
        sums = sums + (total,)
        taps = taps + (known.to(tl.int16),)
    arriving = turned(sums, SIZE, COLUMN_LENGTH, PLANES, COLUMNS, ROWS)
    taps = turned(taps, SIZE, COLUMN_LENGTH, PLANES, COLUMNS, ROWS)
    sums = ()
    for i in tl.static_range(COLUMN_SIZE):
        total, known = match(arriving, taps, taps, i, COLUMN_LENGTH, COLUMN_TAPS, COLUMN_BEFORE, False)
        sums = sums + (total,)
    value = tl.reshape(side_by_side(sums, COLUMN_SIZE, COLUMNS, PLANES * ROWS), (PLANES, ROWS, COLUMNS))
    planes, there = planes_of(outer, PLANES, WIDE)
    at, real = grid(planes * (SIZE * COLUMN_SIZE), COLUMN_SIZE, SIZE, COLUMN_SIZE, ROWS, COLUMNS)
    tl.store(gx + at, value.to(gx.dtype.element_ty), mask=there & real)
