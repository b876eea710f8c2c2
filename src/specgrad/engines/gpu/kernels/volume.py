"""Windows of three axes that move one cell at a time along depth, in one call: a program walks down
the depth of some rows of its lanes.

It folds the rows and columns of each plane as `rows` does, and carries what the next planes need as
`stream` does with rows. Rows that windows share are read by every program that has some of them:
this is for kernels of few rows. Going back, the sums of the planes that have not met all their
windows are carried.
"""

import triton
import triton.language as tl

from .common import both, clamped, edges, lane, outer_offset, read_line, stacked, tap_range, write_line
from .folds import doubtful, filled, lowest, note_values, part, slide_lead, slide_sum, unnoted
from .halving import added
from .rows import finish, fold_columns, reach, retrace
from .stream import advance


@triton.jit
def volume_forward(
    x, low, y, kept, depths_table, scale,
    lanes, groups, inner, depth_taps, step_outer, step_group, step_row, step_column, step_inner,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, column_groups,
    row_blocks, depths_out, step_depth, depths, depths_before, depths_after, depth_blocks, per,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr, DEPTH_TAPS: tl.constexpr, TAPS: tl.constexpr,
    STRIDE: tl.constexpr, V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr,
    COLUMN_BEFORE: tl.constexpr, LEAD: tl.constexpr, W: tl.constexpr, DENSE: tl.constexpr, COUNTED: tl.constexpr,
    WHOLE: tl.constexpr, PADDED: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maximum, winners or sum of ROWS rows of `per` planes of windows. Words as in `rows.fold`."""
    N: tl.constexpr = (ROWS - 1) * STRIDE + TAPS
    CELLS: tl.constexpr = (V - 1) * COLUMN_STRIDE + COLUMN_TAPS
    PLANE: tl.constexpr = TAPS * LOW_TAPS
    FOLD: tl.constexpr = "rivals" if KIND == "winners" and tl.float32 == ACC else KIND
    SHARE: tl.constexpr = "pairs" if FOLD == "rivals" else "all" if KIND == "max" else ""
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks * depth_blocks, BLOCK, WIDE,
                                                 EVEN)  # fmt: skip
    segment = program // row_blocks
    row_out = (program - segment * row_blocks) * ROWS
    row = row_out * STRIDE - rows_before
    depth_out = segment * per
    depth = depth_out - depths_before
    if WIDE:
        row = row.to(tl.int64)
        depth = depth.to(tl.int64)
    column = group * V
    begin = column * COLUMN_STRIDE - COLUMN_BEFORE - LEAD
    real_columns = edges(begin, columns, LEAD, CELLS, W)
    base = outer_offset(outer, groups, step_outer, step_group)
    if W > 1:
        base += group * (V * COLUMN_STRIDE // W) - (COLUMN_BEFORE + LEAD) // W
    else:
        base += within * step_inner + begin * step_column
    place = (outer * depths_out + depth_out) * rows_out + row_out
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
    for _ in tl.static_range(ROWS * (DEPTH_TAPS - 1)):
        carried = carried + (lowest(KIND, V, BLOCK, ACC),)
        carried_codes = carried_codes + (tl.zeros((BLOCK, V), tl.int32),)
    for d in range(per + DEPTH_TAPS - 1):
        real = (depth + d >= 0) & (depth + d < depths)
        source = base + clamped(depth + d, depths - 1) * step_depth
        bests = ()
        codes = ()
        for i in tl.static_range(N):
            line = source + (row + i) * step_row
            if W > 1:
                line = line * W
            allowed = (row + i >= 0) & (row + i < rows) & real
            best, code, trace = fold_columns(x + line, low, step_column, real_columns, allowed, i, trace, LOW_TAPS,
                                             FOLD, V, COLUMN_TAPS, COLUMN_STRIDE, LEAD, W, LOW, BLOCK, ACC,
                                             SHARE)  # fmt: skip
            bests = bests + (best,)
            codes = codes + (code,)
        if KIND == "sum":
            bests = slide_sum(bests, ROWS, TAPS, STRIDE)
        else:
            bests, codes = slide_lead(bests, codes, ROWS, TAPS, STRIDE, FOLD, SHARE)
        o = d - (DEPTH_TAPS - 1)
        depth_first, depth_last, depth_existing = tap_range(depth + o, depths, depths_after, DEPTH_TAPS, 1)
        there = (o >= 0) & (depth_out + o < depths_out)
        next_carried = ()
        next_codes = ()
        for r in tl.static_range(ROWS):
            own = ()
            own_codes = ()
            for i in tl.static_range(DEPTH_TAPS - 1):
                own = own + (carried[r * (DEPTH_TAPS - 1) + i],)
                own_codes = own_codes + (carried_codes[r * (DEPTH_TAPS - 1) + i],)
            code = codes[r]
            if KIND == "winners":
                code = code + d * PLANE
            ends, won, own, own_codes = advance(own, own_codes, (bests[r],), (code,), DEPTH_TAPS, 1, FOLD)
            for i in tl.static_range(DEPTH_TAPS - 1):
                next_carried = next_carried + (own[i],)
                next_codes = next_codes + (own_codes[i],)
            smallest = note_values(smallest, ends[0], V, KIND, BLOCK)
            present = both(inside, there & (row_out + r < rows_out))
            target = place + (o * rows_out + r) * step_out
            finish(y, kept, ends[0], won[0], o * PLANE + r * STRIDE * LOW_TAPS, target, taps, row + r * STRIDE, present,
                   column, inner, rows, rows_after, columns_out, depth_taps, depth_first.to(tl.int32),
                   (depth_last - depth_first).to(tl.int32), depth_existing.to(tl.int32), number, reciprocal, LOW_TAPS,
                   KIND, TAPS, V, DENSE, COUNTED, WHOLE, PADDED, LOW, ACC, BLOCK)  # fmt: skip
        carried = next_carried
        carried_codes = next_codes
    if KIND != "sum":  # noqa: SIM102 - known when compiled
        if doubtful(trace, smallest):
            for o in range(per):
                exists = inside & (depth_out + o < depths_out)
                retrace(x, low, y, kept, depths_table, base, place + o * rows_out * step_out, step_out, column, inner,
                        exists, tl.minimum(depth_out + o, depths_out - 1), row, row_out, depth_taps, step_row,
                        step_column, rows, rows_out, columns, columns_out, ROWS, LOW_TAPS, KIND, TAPS, STRIDE, V,
                        COLUMN_TAPS, COLUMN_STRIDE, COLUMN_BEFORE, LEAD, W, DENSE, True, LOW, ACC, BLOCK)  # fmt: skip


@triton.jit
def volume_backward(
    gy, codes, gx, low, depth_readers, scale,
    lanes, inner, depths, depths_out, depths_before, depth_blocks, per, rows, rows_out, rows_before, row_blocks,
    columns, columns_out, column_groups,
    LOW_TAPS: tl.constexpr, ROWS: tl.constexpr, DEPTH_TAPS: tl.constexpr, TAPS: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    COLUMN_BEFORE: tl.constexpr, LEAD: tl.constexpr, W: tl.constexpr, DENSE: tl.constexpr,
    LOW: tl.constexpr, PAIRED: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of winners: ROWS rows of `per` planes of cells, whose sums are carried from one
    plane of windows to the next.

    PAIRED: a code is compared with the taps of two cells at once."""
    N: tl.constexpr = ROWS + TAPS - 1
    PLANE: tl.constexpr = ROWS * V
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # a code that no tap has
    FIRST: tl.constexpr = COLUMN_BEFORE - COLUMN_TAPS + 1
    WINDOWS: tl.constexpr = V + COLUMN_TAPS - 1
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks * depth_blocks, BLOCK, WIDE,
                                                 EVEN)  # fmt: skip
    segment = program // row_blocks
    row = (program - segment * row_blocks) * ROWS
    depth = segment * per
    column = group * V
    begin = column + (FIRST - LEAD)
    real_columns = edges(begin, columns_out, LEAD, WINDOWS, W)
    first_line = row + rows_before - (TAPS - 1)
    first_plane = depth + depths_before - (DEPTH_TAPS - 1)
    base = (outer * depths_out + first_plane) * rows_out + first_line
    origin = (outer * depths + depth - (DEPTH_TAPS - 1)) * rows + row
    step = columns_out * inner
    if W > 1:
        step = columns_out // W
        base = base * step + group * (V // W) + (FIRST - LEAD) // W
    else:
        base = base * step + begin * inner + within
    if DENSE:
        step_out = column_groups
        origin = origin * step_out + group
    else:
        step_out = columns * inner
        origin = origin * step_out + column * inner + within
    sums = filled(0, DEPTH_TAPS * PLANE, BLOCK, ACC)
    for d in range(per + DEPTH_TAPS - 1):
        real = (first_plane + d >= 0) & (first_plane + d < depths_out)
        for n in tl.static_range(N):
            allowed = (first_line + n >= 0) & (first_line + n < rows_out) & real
            source = base + (d * rows_out + n) * step
            if W > 1:
                source = source * W
            arriving = read_line(gy + source, inner, real_columns, allowed, 0, LEAD, WINDOWS, W, BLOCK, ACC)
            won = read_line(codes + source, inner, real_columns, allowed, NOBODY, LEAD, WINDOWS, W, BLOCK, tl.int32)
            next_sums = ()
            for i in tl.static_range(DEPTH_TAPS):
                for r in tl.static_range(ROWS):
                    line = part(sums, i * PLANE + r * V, i * PLANE + r * V + V)
                    if n >= r and n < r + TAPS:
                        for e in tl.static_range(WINDOWS):
                            line = added(line, arriving[e], won[e] * (0x10001 if PAIRED else 1), COLUMN_TAPS - 1 - e,
                                         COLUMN_TAPS, (i * TAPS + r - n + TAPS - 1) * LOW_TAPS, V, PAIRED,
                                         True)  # fmt: skip
                    next_sums = next_sums + line
            sums = next_sums
        o = d - (DEPTH_TAPS - 1)
        for r in tl.static_range(ROWS):
            parts = ()
            for v in tl.static_range(V):
                parts = parts + (sums[r * V + v],)
            present = both(inside, (o >= 0) & (depth + o < depths) & (row + r < rows))
            target = origin + (d * rows + r) * step_out
            if DENSE:
                target = target * V
            write_line(gx + target, inner, stacked(parts, V, BLOCK), present, column, columns, V, DENSE, BLOCK)
        rest = ()
        for i in tl.static_range(PLANE, DEPTH_TAPS * PLANE):
            rest = rest + (sums[i],)
        sums = rest + filled(0, PLANE, BLOCK, ACC)
