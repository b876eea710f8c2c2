"""Sliding windows, streamed: a program moves down the rows of its lanes and carries intermediate
results for the next rows.

Windows of 2, 4, 8 … rows that end at a row are combined from two windows of half the height, the
older of which was carried. One row less than the window has is carried, and the cost per cell is
logarithmic in the window's height. In reverse, the incomplete sums of rows are carried. A step
reads STEP rows before it writes any, so that many reads are in flight.
"""

import triton
import triton.language as tl

from .common import both, clamped, edges, fetch, lane, outer_offset, read_line, stacked, write_line
from .folds import argmax_fold, doubtful, filled, lowest, note_values, unnoted
from .rows import Memory, Place, finish, fold_columns, reach, retrace
from .spread import match_cell


@triton.jit
def advance(carried, carried_codes, new, codes, TAPS: tl.constexpr, STEP: tl.constexpr, KIND: tl.constexpr):
    """STEP more rows: the windows that end there, and the results to carry. Level l starts at index
    2^l - 1 of `carried`."""
    LEVELS: tl.constexpr = (TAPS >= 2) + (TAPS >= 4) + (TAPS >= 8) + (TAPS >= 16) + (TAPS >= 32)
    REST: tl.constexpr = TAPS - (1 << LEVELS)
    next_carried = ()
    next_codes = ()
    ends = ()
    for level in tl.static_range(LEVELS + 1):
        if level < LEVELS or REST > 0:
            line = ()
            line_codes = ()
            for i in tl.static_range((1 << level) if level < LEVELS else REST):
                line = line + (carried[(1 << level) - 1 + i],)
                line_codes = line_codes + (carried_codes[(1 << level) - 1 + i],)
            for u in tl.static_range(STEP):
                line = line + (new[u],)
                line_codes = line_codes + (codes[u],)
            if KIND == "sum" and (TAPS >> level) & 1:
                # windows of 2^level rows that end where the smaller parts of the sum start
                parts = ()
                for u in tl.static_range(STEP):
                    part = line[u + ((1 << level) if level < LEVELS else REST) - (TAPS & ((1 << level) - 1))]
                    if (TAPS & ((1 << level) - 1)) > 0:
                        part = part + ends[u]
                    parts = parts + (part,)
                ends = parts
            if KIND != "sum" or level < LEVELS:
                larger = ()
                larger_codes = ()
                for u in tl.static_range(STEP):
                    if KIND == "sum":
                        larger = larger + (line[u] + new[u],)
                        larger_codes = larger_codes + (codes[u],)
                    else:
                        best, code = argmax_fold(line[u], line_codes[u], new[u], codes[u], KIND)
                        larger = larger + (best,)
                        larger_codes = larger_codes + (code,)
            for i in tl.static_range((1 << level) if level < LEVELS else REST):
                next_carried = next_carried + (line[STEP + i],)
                next_codes = next_codes + (line_codes[STEP + i],)
            if KIND != "sum" or level < LEVELS:
                new = larger
                codes = larger_codes
        elif KIND == "sum":
            ends = new
    if KIND != "sum":
        ends = new
    return ends, codes, next_carried, next_codes


@triton.jit
def slide(x, low, y, kept, depths, scale, sizes, tile: tl.constexpr):
    """Maximum, winners or sum of `per` rows of windows with row stride 1; see `rows.fold`. ALONE:
    these are all rows, and each window has some."""
    CELLS: tl.constexpr = (tile.V - 1) * tile.COLUMN_STRIDE + tile.COLUMN_TAPS
    outer, group, within, inside, program = lane(sizes, sizes.column_groups, sizes.row_blocks, tile)
    row_out = program * sizes.per
    row = row_out - sizes.rows_before
    skipped = 0
    if tile.ALONE and not tile.LOW:
        skipped = sizes.rows_before  # rows of padding, which the initial carry contains
    steps = (sizes.per + tile.TAPS - 1 - skipped + tile.STEP - 1) // tile.STEP
    column = group * tile.V
    begin = column * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE - tile.LEAD
    real_columns = edges(begin, sizes.columns, tile.LEAD, CELLS, tile.W)
    own = (tl.minimum(begin + tile.COLUMN_BEFORE + tile.LEAD, sizes.columns - 1) - begin) * sizes.step_column
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
    place = outer * sizes.rows_out + row_out - (tile.TAPS - 1) + skipped
    if tile.WIDE:
        place = place.to(tl.int64)
    if tile.W > 1:
        base += group * (tile.V * tile.COLUMN_STRIDE // tile.W) - (tile.COLUMN_BEFORE + tile.LEAD) // tile.W
    else:
        base += within * sizes.step_inner + begin * sizes.step_column
    if tile.DENSE:
        step_out = sizes.column_groups
        place = place * step_out + group
    else:
        step_out = sizes.columns_out * sizes.inner
        place = place * step_out + column * sizes.inner + within
    number = 1.0
    reciprocal = 1.0
    if tile.KIND == "sum" and tile.COUNTED == "all":
        number = tl.load(scale).to(tile.ACC)
        reciprocal = tl.load(scale + 1).to(tile.ACC)
    taps = reach(column, sizes, tile)
    trace, smallest = unnoted(x, tile.KIND, tile.W, tile.ACC, tile.BLOCK)
    carried = ()
    carried_codes = ()
    for _ in tl.static_range(tile.TAPS - 1):
        carried = carried + (lowest(tile.KIND, tile.V, tile.BLOCK, tile.ACC),)
        carried_codes = carried_codes + (tl.zeros((tile.BLOCK, tile.V), tl.int32),)
    for s in range(steps):
        if tile.AHEAD:
            for u in tl.static_range(tile.STEP):
                later = clamped(row + skipped + (s + 1) * tile.STEP + u, sizes.rows - 1)
                if tile.WIDE:
                    later = later.to(tl.int64)
                fetch(x + ((base + later * sizes.step_row) * tile.W + own))
        new = ()
        codes = ()
        for u in tl.static_range(tile.STEP):
            line = row + skipped + s * tile.STEP + u
            allowed = (line >= 0) & (line < sizes.rows)
            if tile.LOW:
                # the row at the edge again: the window has this row anyway, and equal cells do not
                # change the winner
                line = clamped(line, sizes.rows - 1)
                allowed = line >= 0
            source = line
            if tile.WIDE:
                source = source.to(tl.int64)
            source = base + source * sizes.step_row
            if tile.W > 1:
                source = source * tile.W
            best, code, trace = fold_columns(
                x + source,
                low + source,
                sizes.step_column,
                real_columns,
                allowed,
                0,
                trace,
                tile,
                tile.KIND,
                "all" if tile.AHEAD and tile.KIND != "packed" else "",
            )
            if tile.KIND == "packed":
                best = best - (line - row) * (tile.LOW_TAPS * 2)
            elif tile.KIND == "winners":
                code = code + (line - row) * tile.LOW_TAPS
            new = new + (best,)
            codes = codes + (code,)
        ends, won, carried, carried_codes = advance(carried, carried_codes, new, codes, tile.TAPS, tile.STEP, tile.KIND)
        for u in tl.static_range(tile.STEP):
            o = skipped + s * tile.STEP + u - (tile.TAPS - 1)
            present = both(inside, (o >= 0) & (o < sizes.per) & (row_out + o < sizes.rows_out))
            target = place + (s * tile.STEP + u) * step_out
            smallest = note_values(smallest, ends[u], tile.V, tile.KIND, tile.BLOCK)
            finish(
                Memory(x, low, y, kept, depths),
                (ends[u], won[u], o * tile.LOW_TAPS),
                target,
                taps,
                row + o,
                present,
                column,
                (0, 1, 1),
                (number, reciprocal),
                sizes,
                tile,
            )
    if tile.KIND != "sum":  # noqa: SIM102 - known when compiled
        if doubtful(trace, smallest):
            at = Place(base, place + (tile.TAPS - 1 - skipped) * step_out, step_out, column, inside, 0, row, row_out)
            retrace(Memory(x, low, y, kept, depths), at, sizes, sizes.per, tile)


@triton.jit
def vjp_stream(gy, codes, gx, low, depth_readers, scale, sizes, tile: tl.constexpr):
    """Cotangents of winners of windows with row stride 1; `per` rows of cells. See
    `spread.spread`."""
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # no tap's code
    FIRST: tl.constexpr = tile.COLUMN_BEFORE // tile.COLUMN_STRIDE - tile.COLUMN_READERS + 1
    WINDOWS: tl.constexpr = (tile.V - 1 + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE - FIRST + 1
    outer, group, within, inside, program = lane(sizes, sizes.column_groups, sizes.row_blocks, tile)
    row = program * sizes.per
    column = group * tile.V
    begin = group * (tile.V // tile.COLUMN_STRIDE) + (FIRST - tile.LEAD)
    real_columns = edges(begin, sizes.columns_out, tile.LEAD, WINDOWS, tile.W)
    first_line = row + sizes.rows_before - (tile.TAPS - 1)
    skipped = tl.maximum(-first_line, 0)  # rows of windows that do not exist
    steps = (sizes.per + tile.TAPS - 1 - skipped + tile.STEP - 1) // tile.STEP
    first_line += skipped
    step = sizes.columns_out * sizes.inner
    base = outer * sizes.rows_out + first_line
    origin = outer * sizes.rows + row - (tile.TAPS - 1) + skipped
    if tile.WIDE:
        base = base.to(tl.int64)
        origin = origin.to(tl.int64)
    if tile.W > 1:
        step = sizes.columns_out // tile.W
        base = base * step + group * (tile.V // tile.COLUMN_STRIDE // tile.W) + (FIRST - tile.LEAD) // tile.W
    else:
        base = base * step + begin * sizes.inner + within
    if tile.DENSE:
        step_out = sizes.column_groups
        origin = origin * step_out + group
    else:
        step_out = sizes.columns * sizes.inner
        origin = origin * step_out + column * sizes.inner + within
    sums = filled(0, tile.TAPS * tile.V, tile.BLOCK, tile.ACC)
    for s in range(steps):
        arriving = ()
        won = ()
        for u in tl.static_range(tile.STEP):
            allowed = first_line + s * tile.STEP + u < sizes.rows_out
            source = base + (s * tile.STEP + u) * step
            if tile.W > 1:
                source = source * tile.W
            arriving = arriving + (
                read_line(gy + source, sizes.inner, real_columns, allowed, 0, WINDOWS, tile.ACC, tile),
            )
            won = won + (
                read_line(codes + source, sizes.inner, real_columns, allowed, NOBODY, WINDOWS, tl.int32, tile),
            )
        done = ()
        for u in tl.static_range(tile.STEP):
            added = ()
            for i in tl.static_range(tile.TAPS):
                for v in tl.static_range(tile.V):
                    total, _ = match_cell(sums[i * tile.V + v], 0, arriving[u], won[u], v, i, tile)
                    if i == 0:
                        done = done + (total,)  # the sum of this row is complete
                    else:
                        added = added + (total,)
            sums = added + filled(0, tile.V, tile.BLOCK, tile.ACC)
        first = skipped + s * tile.STEP - (tile.TAPS - 1)
        begun = origin + s * tile.STEP * step_out
        for u in tl.static_range(tile.STEP):
            present = both(inside, (first + u >= 0) & (first + u < sizes.per) & (row + first + u < sizes.rows))
            target = begun + u * step_out
            if tile.DENSE:
                target = target * tile.V
            parts = ()
            for v in tl.static_range(tile.V):
                parts = parts + (done[u * tile.V + v],)
            write_line(
                gx + target, sizes.inner, stacked(parts, tile.V, tile.BLOCK), present, column, sizes.columns, tile
            )
