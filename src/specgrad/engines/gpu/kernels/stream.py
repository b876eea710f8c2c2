"""Windows that slide row by row, streamed: a program walks down the rows of its lanes and carries
what the next rows need.

Windows of 2, 4, 8 … rows that end at a row are made of two windows half as high, the older of which
was carried: as many rows are carried as a window has, less one, and a cell costs the logarithm of
the window's height. Going back, the sums of the rows that have not met all their windows are
carried. A step reads STEP rows before it writes any, so that many reads are under way.
"""

import triton
import triton.language as tl

from .common import both, clamped, edges, fetch, lane, outer_offset, read_line, stacked, write_line
from .folds import doubtful, filled, lead, lowest, note_values, unnoted
from .rows import finish, fold_columns, reach, retrace
from .spread import match_cell


@triton.jit
def advance(carried, carried_codes, new, codes, TAPS: tl.constexpr, STEP: tl.constexpr, KIND: tl.constexpr):
    """STEP more rows: the windows that end there, and what is carried on. Level l of what is
    carried starts at 2^l - 1."""
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
                # windows of 2^level rows that end where the smaller parts of the sum begin
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
                        best, code = lead(line[u], line_codes[u], new[u], codes[u], KIND)
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
def slide(
    x, low, y, kept, depths, scale,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, column_groups,
    row_blocks, depths_out, per,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, STEP: tl.constexpr, TAPS: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_BEFORE: tl.constexpr,
    LEAD: tl.constexpr,
    W: tl.constexpr, DENSE: tl.constexpr, COUNTED: tl.constexpr, WHOLE: tl.constexpr, PADDED: tl.constexpr,
    ALONE: tl.constexpr, AHEAD: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr,
    ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Maximum, winners or sum of `per` rows of windows that move down one row at a time. As `fold`.
    ALONE: these are all rows, and each window has some. AHEAD: the rows of the next step are
    fetched while this one's are folded."""
    CELLS: tl.constexpr = (V - 1) * COLUMN_STRIDE + COLUMN_TAPS
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks, BLOCK, WIDE, EVEN)
    row_out = program * per
    row = row_out - rows_before
    skipped = 0
    if ALONE and not LOW:
        skipped = rows_before  # rows of padding, which is what is carried at first
    steps = (per + TAPS - 1 - skipped + STEP - 1) // STEP
    column = group * V
    begin = column * COLUMN_STRIDE - COLUMN_BEFORE - LEAD
    real_columns = edges(begin, columns, LEAD, CELLS, W)
    own = (tl.minimum(begin + COLUMN_BEFORE + LEAD, columns - 1) - begin) * step_column
    base = outer_offset(outer, groups, step_outer, step_group)
    place = outer * rows_out + row_out - (TAPS - 1) + skipped
    if WIDE:
        place = place.to(tl.int64)
    if W > 1:
        base += group * (V * COLUMN_STRIDE // W) - (COLUMN_BEFORE + LEAD) // W
    else:
        base += within * step_inner + begin * step_column
    if DENSE:
        step_out = column_groups
        place = place * step_out + group
    else:
        step_out = columns_out * inner
        place = place * step_out + column * inner + within
    number = 1.0
    reciprocal = 1.0
    if KIND == "sum" and COUNTED == "all":
        number = tl.load(scale).to(ACC)
        reciprocal = tl.load(scale + 1).to(ACC)
    taps = reach(column, columns, columns_after, COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE, V, BLOCK)
    trace, smallest = unnoted(x, KIND, W, ACC, BLOCK)
    carried = ()
    carried_codes = ()
    for _ in tl.static_range(TAPS - 1):
        carried = carried + (lowest(KIND, V, BLOCK, ACC),)
        carried_codes = carried_codes + (tl.zeros((BLOCK, V), tl.int32),)
    for s in range(steps):
        if AHEAD:
            for u in tl.static_range(STEP):
                later = clamped(row + skipped + (s + 1) * STEP + u, rows - 1)
                if WIDE:
                    later = later.to(tl.int64)
                fetch(x + ((base + later * step_row) * W + own))
        new = ()
        codes = ()
        for u in tl.static_range(STEP):
            line = row + skipped + s * STEP + u
            allowed = (line >= 0) & (line < rows)
            if LOW:
                # the row at the edge again: it is in the window anyway, and a cell does not beat
                # itself
                line = clamped(line, rows - 1)
                allowed = line >= 0
            source = line
            if WIDE:
                source = source.to(tl.int64)
            source = base + source * step_row
            if W > 1:
                source = source * W
            best, code, trace = fold_columns(x + source, low + source, step_column, real_columns, allowed, 0, trace,
                                             LOW_TAPS, KIND, V, COLUMN_TAPS, COLUMN_STRIDE, LEAD, W, LOW, BLOCK, ACC,
                                             "all" if AHEAD and KIND != "packed" else "")  # fmt: skip
            if KIND == "packed":
                best = best - (line - row) * (LOW_TAPS * 2)
            elif KIND == "winners":
                code = code + (line - row) * LOW_TAPS
            new = new + (best,)
            codes = codes + (code,)
        ends, won, carried, carried_codes = advance(carried, carried_codes, new, codes, TAPS, STEP, KIND)
        for u in tl.static_range(STEP):
            o = skipped + s * STEP + u - (TAPS - 1)
            present = both(inside, (o >= 0) & (o < per) & (row_out + o < rows_out))
            target = place + (s * STEP + u) * step_out
            smallest = note_values(smallest, ends[u], V, KIND, BLOCK)
            finish(y, kept, ends[u], won[u], o * LOW_TAPS, target, taps, row + o, present, column, inner, rows,
                   rows_after, columns_out, 1, 0, 1, 1, number, reciprocal, LOW_TAPS, KIND, TAPS, V, DENSE, COUNTED,
                   WHOLE, PADDED, LOW, ACC, BLOCK)  # fmt: skip
    if KIND != "sum":  # noqa: SIM102 - known when compiled
        if doubtful(trace, smallest):
            retrace(x, low, y, kept, depths, base, place + (TAPS - 1 - skipped) * step_out, step_out, column, inner,
                    inside, 0, row, row_out, depth_taps, step_row, step_column, rows, rows_out, columns, columns_out,
                    per, LOW_TAPS, KIND, TAPS, 1, V, COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE, LEAD, W, DENSE, False,
                    LOW, ACC, BLOCK)  # fmt: skip


@triton.jit
def vjp_stream(
    gy, codes, gx, low, depth_readers, scale,
    lanes, inner, rows, rows_out, rows_before, columns, columns_out, column_groups, row_blocks, per,
    LOW_TAPS: tl.constexpr, STEP: tl.constexpr, TAPS: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    COLUMN_BEFORE: tl.constexpr, LEAD: tl.constexpr, W: tl.constexpr, DENSE: tl.constexpr, LOW: tl.constexpr,
    WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of the winners of windows that move down one row at a time; `per` rows of cells.
    As `spread`."""
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # a code that no tap has
    FIRST: tl.constexpr = COLUMN_BEFORE // COLUMN_STRIDE - COLUMN_READERS + 1
    WINDOWS: tl.constexpr = (V - 1 + COLUMN_BEFORE) // COLUMN_STRIDE - FIRST + 1
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks, BLOCK, WIDE, EVEN)
    row = program * per
    column = group * V
    begin = group * (V // COLUMN_STRIDE) + (FIRST - LEAD)
    real_columns = edges(begin, columns_out, LEAD, WINDOWS, W)
    first_line = row + rows_before - (TAPS - 1)
    skipped = tl.maximum(-first_line, 0)  # rows of windows that do not exist
    steps = (per + TAPS - 1 - skipped + STEP - 1) // STEP
    first_line += skipped
    step = columns_out * inner
    base = outer * rows_out + first_line
    origin = outer * rows + row - (TAPS - 1) + skipped
    if WIDE:
        base = base.to(tl.int64)
        origin = origin.to(tl.int64)
    if W > 1:
        step = columns_out // W
        base = base * step + group * (V // COLUMN_STRIDE // W) + (FIRST - LEAD) // W
    else:
        base = base * step + begin * inner + within
    if DENSE:
        step_out = column_groups
        origin = origin * step_out + group
    else:
        step_out = columns * inner
        origin = origin * step_out + column * inner + within
    sums = filled(0, TAPS * V, BLOCK, ACC)
    for s in range(steps):
        arriving = ()
        won = ()
        for u in tl.static_range(STEP):
            allowed = first_line + s * STEP + u < rows_out
            source = base + (s * STEP + u) * step
            if W > 1:
                source = source * W
            arriving = arriving + (read_line(gy + source, inner, real_columns, allowed, 0, LEAD, WINDOWS, W, BLOCK,
                                             ACC),)  # fmt: skip
            won = won + (read_line(codes + source, inner, real_columns, allowed, NOBODY, LEAD, WINDOWS, W, BLOCK,
                                   tl.int32),)  # fmt: skip
        done = ()
        for u in tl.static_range(STEP):
            added = ()
            for i in tl.static_range(TAPS):
                for v in tl.static_range(V):
                    total, _ = match_cell(sums[i * V + v], 0, arriving[u], won[u], v, i, LOW_TAPS, COLUMN_TAPS,
                                          COLUMN_STRIDE, COLUMN_READERS, COLUMN_BEFORE, True, LOW)  # fmt: skip
                    if i == 0:
                        done = done + (total,)  # this row has met all its windows
                    else:
                        added = added + (total,)
            sums = added + filled(0, V, BLOCK, ACC)
        first = skipped + s * STEP - (TAPS - 1)
        begun = origin + s * STEP * step_out
        for u in tl.static_range(STEP):
            present = both(inside, (first + u >= 0) & (first + u < per) & (row + first + u < rows))
            target = begun + u * step_out
            if DENSE:
                target = target * V
            parts = ()
            for v in tl.static_range(V):
                parts = parts + (done[u * V + v],)
            write_line(gx + target, inner, stacked(parts, V, BLOCK), present, column, columns, V, DENSE, BLOCK)
