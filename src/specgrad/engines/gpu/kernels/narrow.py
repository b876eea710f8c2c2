"""Narrow planes, whose windows move by one cell and are as many as the cells: a lane has some
neighbouring columns of a few rows.

So a program reads and writes one piece of memory, however short the rows are. It folds columns as
`rows` does; then lanes tell those above and below what they found. Some lanes at either end of a
program are its neighbours', here for what they know.
"""

import triton
import triton.language as tl

from .common import edges, lane, outer_offset, pieces, stacked
from .folds import doubtful, note_values, slide_shared, unnoted
from .rows import finish, fold_columns, reach, retrace


@triton.jit
def told(found, index, N: tl.constexpr, BLOCK: tl.constexpr):
    """What N other lanes found, each by itself."""
    return pieces(tl.reshape(tl.gather(found, index, 0), (BLOCK, N)), N, BLOCK)


@triton.jit
def fold(
    x, low, y, kept, depths, scale,
    lanes, groups, step_outer, step_group, step_row, rows_after, columns_after,
    KIND: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr,
    COLUMN_SIZE: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_BEFORE: tl.constexpr, V: tl.constexpr, W: tl.constexpr,
    LEAD: tl.constexpr, COUNTED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, N: tl.constexpr,
    WIDE: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maximum, winners or sum of planes of SIZE × COLUMN_SIZE cells; a lane has ROWS rows, and
    hears from LEFT lines of lanes above and RIGHT below; N: a power of two that is not less than
    these together."""
    CELLS: tl.constexpr = V - 1 + COLUMN_TAPS
    GROUPS: tl.constexpr = COLUMN_SIZE // V
    LINES: tl.constexpr = SIZE // ROWS
    FOLD: tl.constexpr = "rivals" if KIND == "winners" and tl.float32 == ACC else KIND
    line, group, _within, inside, _rest = lane(lanes, GROUPS, 1, 1, BLOCK, WIDE, False, LEFT * GROUPS, RIGHT * GROUPS)
    outer = line // LINES
    row = (line - outer * LINES) * ROWS
    column = group * V
    real = edges(column - (COLUMN_BEFORE + LEAD), COLUMN_SIZE, LEAD, CELLS, W)
    base = outer_offset(outer, groups, step_outer, step_group) + group * (V // W) - (COLUMN_BEFORE + LEAD) // W
    trace, smallest = unnoted(x, KIND, W, ACC, BLOCK)
    own = ()
    own_codes = ()
    for r in tl.static_range(ROWS):
        found, code, trace = fold_columns(x + (base + (row + r) * step_row) * W, low, 1, real, True, r + BEFORE, trace,
                                          COLUMN_TAPS, FOLD, V, COLUMN_TAPS, 1, LEAD, W, False, BLOCK, ACC,
                                          "pairs")  # fmt: skip
        own = own + (pieces(found, V, BLOCK),)
        own_codes = own_codes + (pieces(code, V, BLOCK),)
    other = tl.arange(0, N) - LEFT
    other = tl.where(other < 0, other, tl.minimum(other + 1, RIGHT))
    index = tl.expand_dims(tl.arange(0, BLOCK), 1) + tl.expand_dims(other, 0) * GROUPS
    index = tl.reshape(index & (BLOCK - 1), (BLOCK * N,))
    words = ()
    if KIND == "winners":
        for r in tl.static_range(ROWS):
            word = own_codes[r][0]
            for v in tl.static_range(1, V):
                word = word | (own_codes[r][v] << (8 * v))
            words = words + (told(word, index, N, BLOCK),)
    values = ()
    winners = ()
    for v in tl.static_range(V):
        others = ()
        for r in tl.static_range(ROWS):
            others = others + (told(own[r][v], index, N, BLOCK),)
        bests = ()
        codes = ()
        for q in tl.static_range(-BEFORE, TAPS + ROWS - 1 - BEFORE):
            # rows from the lane's first on: row q % ROWS of the lane q // ROWS lines away
            if q >= 0 and q < ROWS:
                best, code = own[q][v], own_codes[q][v]
            else:
                there = (row + q >= 0) & (row + q < SIZE)
                best = tl.where(there, others[q % ROWS][q // ROWS + LEFT - (q >= ROWS)],
                                0 if KIND == "sum" else float("-inf"))  # fmt: skip
                code = own_codes[0][v]
                if KIND == "winners":
                    # a line further, codes are greater by the taps of its rows, in each byte
                    word = words[q % ROWS][q // ROWS + LEFT - (q >= ROWS)] + q // ROWS * (
                        ROWS * COLUMN_TAPS * 0x1010101
                    )
                    code = (word >> (8 * v)) & 255
            bests = bests + (best,)
            codes = codes + (code,)
        best, code = slide_shared(bests, codes, ROWS, TAPS, FOLD)
        values = values + (best,)
        winners = winners + (code,)
    results = ()
    codes = ()
    for r in tl.static_range(ROWS):
        parts = ()
        others = ()
        for v in tl.static_range(V):
            parts = parts + (values[v][r],)
            others = others + (winners[v][r],)
        results = results + (stacked(parts, V, BLOCK),)
        codes = codes + (stacked(others, V, BLOCK),)
        smallest = note_values(smallest, results[r], V, KIND, BLOCK)
    again = False
    if KIND != "sum":
        again = doubtful(trace, smallest)
    place = (outer * SIZE + row) * GROUPS + group
    if again:
        retrace(x, low, y, kept, depths, base, place, GROUPS, column, 1, inside, 0, row - BEFORE, row, 1, step_row, 1,
                SIZE, SIZE, COLUMN_SIZE, COLUMN_SIZE, ROWS, COLUMN_TAPS, KIND, TAPS, 1, V, COLUMN_TAPS, 1,
                COLUMN_BEFORE, LEAD, W, True, False, False, ACC, BLOCK)  # fmt: skip
    else:
        number = 1.0
        reciprocal = 1.0
        if KIND == "sum" and COUNTED == "all":
            number = tl.load(scale).to(ACC)
            reciprocal = tl.load(scale + 1).to(ACC)
        taps = reach(column, COLUMN_SIZE, columns_after, COLUMN_TAPS, 1, COLUMN_BEFORE, V, BLOCK)
        for r in tl.static_range(ROWS):
            top = tl.expand_dims(row + (r - BEFORE), 1)
            finish(y, kept, results[r], codes[r], r * COLUMN_TAPS, place + r * GROUPS, taps, top, inside, column, 1,
                   SIZE, rows_after, COLUMN_SIZE, 1, 0, 1, 1, number, reciprocal, COLUMN_TAPS, KIND, TAPS, V, True,
                   COUNTED, True, True, False, ACC, BLOCK)  # fmt: skip
