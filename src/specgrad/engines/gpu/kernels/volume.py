"""Windows of three axes with depth stride 1, in one call: a program moves down the depth of some
rows of its lanes.

A program reduces rows and columns of each plane as `rows` does, and carries results for the next
planes as `stream` does for rows. Rows shared by windows of several programs are read by each
program, so this is for kernels of few rows. In reverse, the incomplete sums of planes are carried.
"""

import triton
import triton.language as tl

from .common import both, clamped, edges, lane, outer_offset, read_line, stacked, tap_range, write_line
from .folds import doubtful, filled, lowest, note_values, part, slide_argmax, slide_sum, unnoted
from .halving import added
from .rows import Memory, Place, finish, fold_columns, reach, retrace
from .stream import advance


@triton.jit
def volume_forward(x, low, y, kept, depths_table, scale, sizes, tile: tl.constexpr):
    """Maximum, winners or sum of ROWS rows of `per` planes of windows. Constants as in
    `rows.fold`."""
    N: tl.constexpr = (tile.ROWS - 1) * tile.STRIDE + tile.TAPS
    CELLS: tl.constexpr = (tile.V - 1) * tile.COLUMN_STRIDE + tile.COLUMN_TAPS
    PLANE: tl.constexpr = tile.TAPS * tile.LOW_TAPS
    FOLD: tl.constexpr = "rivals" if tile.KIND == "winners" and tl.float32 == tile.ACC else tile.KIND
    SHARE: tl.constexpr = "pairs" if FOLD == "rivals" else "all" if tile.KIND == "max" else ""
    outer, group, within, inside, program = lane(
        sizes, sizes.column_groups, sizes.row_blocks * sizes.depth_blocks, tile
    )
    segment = program // sizes.row_blocks
    row_out = (program - segment * sizes.row_blocks) * tile.ROWS
    row = row_out * tile.STRIDE - sizes.rows_before
    depth_out = segment * sizes.per
    depth = depth_out - sizes.depths_before
    if tile.WIDE:
        row = row.to(tl.int64)
        depth = depth.to(tl.int64)
    column = group * tile.V
    begin = column * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE - tile.LEAD
    real_columns = edges(begin, sizes.columns, tile.LEAD, CELLS, tile.W)
    base = outer_offset(outer, sizes.groups, sizes.step_outer, sizes.step_group)
    if tile.W > 1:
        base += group * (tile.V * tile.COLUMN_STRIDE // tile.W) - (tile.COLUMN_BEFORE + tile.LEAD) // tile.W
    else:
        base += within * sizes.step_inner + begin * sizes.step_column
    place = (outer * sizes.depths_out + depth_out) * sizes.rows_out + row_out
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
    for _ in tl.static_range(tile.ROWS * (tile.DEPTH_TAPS - 1)):
        carried = carried + (lowest(tile.KIND, tile.V, tile.BLOCK, tile.ACC),)
        carried_codes = carried_codes + (tl.zeros((tile.BLOCK, tile.V), tl.int32),)
    for d in range(sizes.per + tile.DEPTH_TAPS - 1):
        real = (depth + d >= 0) & (depth + d < sizes.depths)
        source = base + clamped(depth + d, sizes.depths - 1) * sizes.step_depth
        bests = ()
        codes = ()
        for i in tl.static_range(N):
            line = source + (row + i) * sizes.step_row
            if tile.W > 1:
                line = line * tile.W
            allowed = (row + i >= 0) & (row + i < sizes.rows) & real
            best, code, trace = fold_columns(
                x + line, low, sizes.step_column, real_columns, allowed, i, trace, tile, FOLD, SHARE
            )
            bests = bests + (best,)
            codes = codes + (code,)
        if tile.KIND == "sum":
            bests = slide_sum(bests, tile.ROWS, tile.TAPS, tile.STRIDE)
        else:
            bests, codes = slide_argmax(bests, codes, tile.ROWS, tile.TAPS, tile.STRIDE, FOLD, SHARE)
        o = d - (tile.DEPTH_TAPS - 1)
        depth_first, depth_last, depth_existing = tap_range(
            depth + o, sizes.depths, sizes.depths_after, tile.DEPTH_TAPS, 1
        )
        there = (o >= 0) & (depth_out + o < sizes.depths_out)
        next_carried = ()
        next_codes = ()
        for r in tl.static_range(tile.ROWS):
            own = ()
            own_codes = ()
            for i in tl.static_range(tile.DEPTH_TAPS - 1):
                own = own + (carried[r * (tile.DEPTH_TAPS - 1) + i],)
                own_codes = own_codes + (carried_codes[r * (tile.DEPTH_TAPS - 1) + i],)
            code = codes[r]
            if tile.KIND == "winners":
                code = code + d * PLANE
            ends, won, own, own_codes = advance(own, own_codes, (bests[r],), (code,), tile.DEPTH_TAPS, 1, FOLD)
            for i in tl.static_range(tile.DEPTH_TAPS - 1):
                next_carried = next_carried + (own[i],)
                next_codes = next_codes + (own_codes[i],)
            smallest = note_values(smallest, ends[0], tile.V, tile.KIND, tile.BLOCK)
            present = both(inside, there & (row_out + r < sizes.rows_out))
            target = place + (o * sizes.rows_out + r) * step_out
            finish(
                Memory(x, low, y, kept, depths_table),
                (ends[0], won[0], o * PLANE + r * tile.STRIDE * tile.LOW_TAPS),
                target,
                taps,
                row + r * tile.STRIDE,
                present,
                column,
                (depth_first.to(tl.int32), (depth_last - depth_first).to(tl.int32), depth_existing.to(tl.int32)),
                (number, reciprocal),
                sizes,
                tile,
            )
        carried = next_carried
        carried_codes = next_codes
    if tile.KIND != "sum":  # noqa: SIM102 - known when compiled
        if doubtful(trace, smallest):
            for o in range(sizes.per):
                exists = inside & (depth_out + o < sizes.depths_out)
                at = Place(
                    base,
                    place + o * sizes.rows_out * step_out,
                    step_out,
                    column,
                    exists,
                    tl.minimum(depth_out + o, sizes.depths_out - 1),
                    row,
                    row_out,
                )
                retrace(Memory(x, low, y, kept, depths_table), at, sizes, tile.ROWS, tile)


@triton.jit
def volume_backward(gy, codes, gx, low, depth_readers, scale, sizes, tile: tl.constexpr):
    """Cotangents of winners: ROWS rows of `per` planes of cells, whose sums are carried from one
    plane of windows to the next.

    PAIRED: a code is compared with the taps of two cells at once.
    """
    N: tl.constexpr = tile.ROWS + tile.TAPS - 1
    PLANE: tl.constexpr = tile.ROWS * tile.V
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # no tap's code
    FIRST: tl.constexpr = tile.COLUMN_BEFORE - tile.COLUMN_TAPS + 1
    WINDOWS: tl.constexpr = tile.V + tile.COLUMN_TAPS - 1
    outer, group, within, inside, program = lane(
        sizes, sizes.column_groups, sizes.row_blocks * sizes.depth_blocks, tile
    )
    segment = program // sizes.row_blocks
    row = (program - segment * sizes.row_blocks) * tile.ROWS
    depth = segment * sizes.per
    column = group * tile.V
    begin = column + (FIRST - tile.LEAD)
    real_columns = edges(begin, sizes.columns_out, tile.LEAD, WINDOWS, tile.W)
    first_line = row + sizes.rows_before - (tile.TAPS - 1)
    first_plane = depth + sizes.depths_before - (tile.DEPTH_TAPS - 1)
    base = (outer * sizes.depths_out + first_plane) * sizes.rows_out + first_line
    origin = (outer * sizes.depths + depth - (tile.DEPTH_TAPS - 1)) * sizes.rows + row
    step = sizes.columns_out * sizes.inner
    if tile.W > 1:
        step = sizes.columns_out // tile.W
        base = base * step + group * (tile.V // tile.W) + (FIRST - tile.LEAD) // tile.W
    else:
        base = base * step + begin * sizes.inner + within
    if tile.DENSE:
        step_out = sizes.column_groups
        origin = origin * step_out + group
    else:
        step_out = sizes.columns * sizes.inner
        origin = origin * step_out + column * sizes.inner + within
    sums = filled(0, tile.DEPTH_TAPS * PLANE, tile.BLOCK, tile.ACC)
    for d in range(sizes.per + tile.DEPTH_TAPS - 1):
        real = (first_plane + d >= 0) & (first_plane + d < sizes.depths_out)
        for n in tl.static_range(N):
            allowed = (first_line + n >= 0) & (first_line + n < sizes.rows_out) & real
            source = base + (d * sizes.rows_out + n) * step
            if tile.W > 1:
                source = source * tile.W
            arriving = read_line(gy + source, sizes.inner, real_columns, allowed, 0, WINDOWS, tile.ACC, tile)
            won = read_line(codes + source, sizes.inner, real_columns, allowed, NOBODY, WINDOWS, tl.int32, tile)
            next_sums = ()
            for i in tl.static_range(tile.DEPTH_TAPS):
                for r in tl.static_range(tile.ROWS):
                    line = part(sums, i * PLANE + r * tile.V, i * PLANE + r * tile.V + tile.V)
                    if n >= r and n < r + tile.TAPS:
                        for e in tl.static_range(WINDOWS):
                            line = added(
                                line,
                                arriving[e],
                                won[e] * (0x10001 if tile.PAIRED else 1),
                                tile.COLUMN_TAPS - 1 - e,
                                tile.COLUMN_TAPS,
                                (i * tile.TAPS + r - n + tile.TAPS - 1) * tile.LOW_TAPS,
                                tile.V,
                                tile.PAIRED,
                                True,
                            )
                    next_sums = next_sums + line
            sums = next_sums
        o = d - (tile.DEPTH_TAPS - 1)
        for r in tl.static_range(tile.ROWS):
            parts = ()
            for v in tl.static_range(tile.V):
                parts = parts + (sums[r * tile.V + v],)
            present = both(inside, (o >= 0) & (depth + o < sizes.depths) & (row + r < sizes.rows))
            target = origin + (d * sizes.rows + r) * step_out
            if tile.DENSE:
                target = target * tile.V
            write_line(
                gx + target, sizes.inner, stacked(parts, tile.V, tile.BLOCK), present, column, sizes.columns, tile
            )
        rest = ()
        for i in tl.static_range(PLANE, tile.DEPTH_TAPS * PLANE):
            rest = rest + (sums[i],)
        sums = rest + filled(0, PLANE, tile.BLOCK, tile.ACC)
