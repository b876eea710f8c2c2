"""Narrow planes, with stride 1 and as many windows as cells: a lane has some neighbouring columns
of a few rows.

So a program reads and writes one contiguous block, however short the rows are. It reduces columns
as `rows` does; then lanes exchange results with the lanes above and below. Some lanes at either end
of a program belong to its neighbours, and only provide data.
"""

import triton
import triton.language as tl

from .arguments import Sizes
from .common import edges, lane, outer_offset, pieces, stacked
from .folds import doubtful, note_values, slide_shared, unnoted
from .rows import Memory, Place, finish, fold_columns, reach, retrace


@triton.jit
def told(found, index, N: tl.constexpr, BLOCK: tl.constexpr):
    """The results of N other lanes, as a tuple."""
    return pieces(tl.reshape(tl.gather(found, index, 0), (BLOCK, N)), N, BLOCK)


@triton.jit
def fold(x, low, y, kept, depths, scale, sizes, tile: tl.constexpr):
    """Maximum, winners or sum of planes of SIZE × COLUMN_SIZE cells. A lane has ROWS rows, and gets
    results from LEFT lines of lanes above and RIGHT below; N: a power of two, at least LEFT +
    RIGHT."""
    CELLS: tl.constexpr = tile.V - 1 + tile.COLUMN_TAPS
    GROUPS: tl.constexpr = tile.COLUMN_SIZE // tile.V
    LINES: tl.constexpr = tile.SIZE // tile.ROWS
    FOLD: tl.constexpr = "rivals" if tile.KIND == "winners" and tl.float32 == tile.ACC else tile.KIND
    line, group, _within, inside, _rest = lane(sizes, GROUPS, 1, tile, tile.LEFT * GROUPS, tile.RIGHT * GROUPS)
    outer = line // LINES
    row = (line - outer * LINES) * tile.ROWS
    column = group * tile.V
    real = edges(column - (tile.COLUMN_BEFORE + tile.LEAD), tile.COLUMN_SIZE, tile.LEAD, CELLS, tile.W)
    base = (
        outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
        + group * (tile.V // tile.W)
        - (tile.COLUMN_BEFORE + tile.LEAD) // tile.W
    )
    trace, smallest = unnoted(x, tile.KIND, tile.W, tile.ACC, tile.BLOCK)
    own = ()
    own_codes = ()
    for r in tl.static_range(tile.ROWS):
        found, code, trace = fold_columns(
            x + (base + (row + r) * sizes.step_row) * tile.W,
            low,
            1,
            real,
            True,
            r + tile.BEFORE,
            trace,
            tile,
            FOLD,
            "pairs",
        )
        own = own + (pieces(found, tile.V, tile.BLOCK),)
        own_codes = own_codes + (pieces(code, tile.V, tile.BLOCK),)
    other = tl.arange(0, tile.N) - tile.LEFT
    other = tl.where(other < 0, other, tl.minimum(other + 1, tile.RIGHT))
    index = tl.expand_dims(tl.arange(0, tile.BLOCK), 1) + tl.expand_dims(other, 0) * GROUPS
    index = tl.reshape(index & (tile.BLOCK - 1), (tile.BLOCK * tile.N,))
    words = ()
    if tile.KIND == "winners":
        for r in tl.static_range(tile.ROWS):
            word = own_codes[r][0]
            for v in tl.static_range(1, tile.V):
                word = word | (own_codes[r][v] << (8 * v))
            words = words + (told(word, index, tile.N, tile.BLOCK),)
    values = ()
    winners = ()
    for v in tl.static_range(tile.V):
        others = ()
        for r in tl.static_range(tile.ROWS):
            others = others + (told(own[r][v], index, tile.N, tile.BLOCK),)
        bests = ()
        codes = ()
        for q in tl.static_range(-tile.BEFORE, tile.TAPS + tile.ROWS - 1 - tile.BEFORE):
            # rows counted from the lane's first: row q % ROWS of the lane q // ROWS lines away
            if q >= 0 and q < tile.ROWS:
                best, code = own[q][v], own_codes[q][v]
            else:
                there = (row + q >= 0) & (row + q < tile.SIZE)
                best = tl.where(
                    there,
                    others[q % tile.ROWS][q // tile.ROWS + tile.LEFT - (q >= tile.ROWS)],
                    0 if tile.KIND == "sum" else float("-inf"),
                )
                code = own_codes[0][v]
                if tile.KIND == "winners":
                    # codes grow by the taps of a line's rows per line, in each byte
                    word = words[q % tile.ROWS][q // tile.ROWS + tile.LEFT - (q >= tile.ROWS)] + q // tile.ROWS * (
                        tile.ROWS * tile.COLUMN_TAPS * 0x1010101
                    )
                    code = (word >> (8 * v)) & 255
            bests = bests + (best,)
            codes = codes + (code,)
        best, code = slide_shared(bests, codes, tile.ROWS, tile.TAPS, FOLD)
        values = values + (best,)
        winners = winners + (code,)
    results = ()
    codes = ()
    for r in tl.static_range(tile.ROWS):
        parts = ()
        others = ()
        for v in tl.static_range(tile.V):
            parts = parts + (values[v][r],)
            others = others + (winners[v][r],)
        results = results + (stacked(parts, tile.V, tile.BLOCK),)
        codes = codes + (stacked(others, tile.V, tile.BLOCK),)
        smallest = note_values(smallest, results[r], tile.V, tile.KIND, tile.BLOCK)
    again = False
    if tile.KIND != "sum":
        again = doubtful(trace, smallest)
    place = (outer * tile.SIZE + row) * GROUPS + group
    plane = Sizes(
        inner=1,
        depth_taps=1,
        step_column=1,
        step_row=sizes.step_row,
        rows=tile.SIZE,
        rows_out=tile.SIZE,
        rows_after=sizes.rows_after,
        columns=tile.COLUMN_SIZE,
        columns_out=tile.COLUMN_SIZE,
        columns_after=sizes.columns_after,
    )
    if again:
        at = Place(base, place, GROUPS, column, inside, 0, row - tile.BEFORE, row)
        retrace(Memory(x, low, y, kept, depths), at, plane, tile.ROWS, tile)
    else:
        number = 1.0
        reciprocal = 1.0
        if tile.KIND == "sum" and tile.COUNTED == "all":
            number = tl.load(scale).to(tile.ACC)
            reciprocal = tl.load(scale + 1).to(tile.ACC)
        taps = reach(column, plane, tile)
        for r in tl.static_range(tile.ROWS):
            top = tl.expand_dims(row + (r - tile.BEFORE), 1)
            finish(
                Memory(x, low, y, kept, depths),
                (results[r], codes[r], r * tile.COLUMN_TAPS),
                place + r * GROUPS,
                taps,
                top,
                inside,
                column,
                (0, 1, 1),
                (number, reciprocal),
                plane,
                tile,
            )
