"""Cotangents of sliding windows, gathered: each cell reads the windows that read the cell, and is
written once.

Rows count from the padded edge (q = row + before), and a program starts at a multiple of the
stride. So window and tap for each row are known at compile time: row q is read by the windows q //
stride - c with tap q % stride + c * stride. A lane has several columns, for the same reason and for
wide accesses.
"""

import triton
import triton.language as tl

from .common import both, divide, edges, lane, quotient, read_line, scaled, stacked, tap_range, write_line
from .folds import filled, slide_sum


@triton.jit
def match_cell(total, known, arriving, codes, v: tl.constexpr, TAP: tl.constexpr, tile: tl.constexpr):
    """Add the cotangents of one row of windows to the v-th cell of a row, where the cell won; the
    windows read this row by tap TAP."""
    NEWEST: tl.constexpr = (
        (v + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE
        - tile.COLUMN_BEFORE // tile.COLUMN_STRIDE
        + tile.COLUMN_READERS
        - 1
    )
    PHASE: tl.constexpr = (v + tile.COLUMN_BEFORE) % tile.COLUMN_STRIDE
    if tile.LOW:
        high, rest = codes
        won = high[v] == TAP
        known = tl.where(won, rest[v], known)
        total = tl.where(won, total + arriving[v], total)
    else:
        for d in tl.static_range(tile.COLUMN_READERS):
            if not tile.FIXED:
                won = codes[tile.COLUMN_READERS - 1 - d] == TAP * tile.LOW_TAPS + d * tile.COLUMN_STRIDE
                total = tl.where(won, total + arriving[tile.COLUMN_READERS - 1 - d], total)
            elif PHASE + d * tile.COLUMN_STRIDE < tile.COLUMN_TAPS:
                won = codes[NEWEST - d] == TAP * tile.LOW_TAPS + PHASE + d * tile.COLUMN_STRIDE
                total = tl.where(won, total + arriving[NEWEST - d], total)
    return total, known


@triton.jit
def add_line(arriving, tile: tl.constexpr):
    """The shares of one row of windows, summed over the windows that read each of V columns:
    (BLOCK, V)."""
    FIRST: tl.constexpr = tile.COLUMN_BEFORE // tile.COLUMN_STRIDE - tile.COLUMN_READERS + 1
    if tile.COLUMN_STRIDE == 1:
        gathered = slide_sum(arriving, tile.V, tile.COLUMN_TAPS, 1)
    else:
        gathered = ()
        for v in tl.static_range(tile.V):
            if tile.FIXED:
                total = arriving[(v + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE - FIRST]
                for d in tl.static_range(1, tile.COLUMN_READERS):
                    if (v + tile.COLUMN_BEFORE) % tile.COLUMN_STRIDE + d * tile.COLUMN_STRIDE < tile.COLUMN_TAPS:
                        total = total + arriving[(v + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE - d - FIRST]
                if (v + tile.COLUMN_BEFORE) % tile.COLUMN_STRIDE >= tile.COLUMN_TAPS:
                    total = tl.zeros_like(total)
            else:
                total = arriving[0]
                for d in tl.static_range(1, tile.COLUMN_READERS):
                    total = total + arriving[d]
            gathered = gathered + (total,)
    return stacked(gathered, tile.V, tile.BLOCK)


@triton.jit
def leave(gx, low, parts, others, target, present, column, sizes, tile: tl.constexpr):
    """Write a row of cells."""
    if tile.DENSE:
        target = target * tile.V
    write_line(gx + target, sizes.inner, stacked(parts, tile.V, tile.BLOCK), present, column, sizes.columns, tile)
    if tile.LOW:
        write_line(low + target, sizes.inner, stacked(others, tile.V, tile.BLOCK), present, column, sizes.columns, tile)


@triton.jit
def spread(gy, codes, gx, low, depth_readers, scale, sizes, tile: tl.constexpr):
    """Cotangents of a maximum ("first", by codes) or an average ("sum"): some rows of V
    neighbouring columns.

    FIXED: V is a multiple of the stride, so window and tap for each column are known at compile
    time. LOW: only along rows; `low` receives the codes of the other axes, for another call.
    """
    N: tl.constexpr = tile.CELLS // tile.STRIDE + tile.READERS - 1
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # no tap's code
    FIRST: tl.constexpr = tile.COLUMN_BEFORE // tile.COLUMN_STRIDE - tile.COLUMN_READERS + 1
    WINDOWS: tl.constexpr = (
        (tile.V - 1 + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE - FIRST + 1 if tile.FIXED else tile.COLUMN_READERS
    )
    outer, group, within, inside, program = lane(sizes, sizes.column_groups, sizes.row_blocks * sizes.depths, tile)
    depth = program // sizes.row_blocks
    padded_row = sizes.row_start + (program - depth * sizes.row_blocks) * tile.CELLS
    column = group * tile.V
    phase = tl.zeros((tile.BLOCK,), tl.int32)
    if tile.FIXED:
        begin = group * (tile.V // tile.COLUMN_STRIDE) + (FIRST - tile.LEAD)
    else:
        newest = (column + tile.COLUMN_BEFORE) // tile.COLUMN_STRIDE
        phase = (column + tile.COLUMN_BEFORE - newest * tile.COLUMN_STRIDE).to(tl.int32)
        begin = newest - (tile.COLUMN_READERS - 1)
    real_columns = edges(begin, sizes.columns_out, tile.LEAD, WINDOWS, tile.W)
    if not tile.FIXED:
        limited = ()
        for e in tl.static_range(WINDOWS):
            limited = limited + (
                real_columns[e] & (phase + (tile.COLUMN_READERS - 1 - e) * tile.COLUMN_STRIDE < tile.COLUMN_TAPS),
            )
        real_columns = limited
    taken = ()
    if tile.KIND == "sum" and tile.COUNTED != "all":
        for e in tl.static_range(WINDOWS):
            first, last, existing = tap_range(
                (begin + tile.LEAD + e) * tile.COLUMN_STRIDE - tile.COLUMN_BEFORE,
                sizes.columns,
                sizes.columns_after,
                tile.COLUMN_TAPS,
                1,
            )
            taken = taken + (existing if tile.COUNTED == "exists" else last - first,)
    line = padded_row // tile.STRIDE - (tile.READERS - 1)
    step = sizes.columns_out * sizes.inner
    if tile.W > 1:
        step = sizes.columns_out // tile.W
    sums = ()
    lows = ()
    if tile.KIND == "first":
        sums = filled(0, tile.CELLS * tile.V, tile.BLOCK, tile.ACC)
        lows = filled(tile.LOW_TAPS, tile.CELLS * tile.V, tile.BLOCK, tl.int32)  # no winner: the code after the last
    row = padded_row - sizes.rows_before
    if tile.DENSE:
        step_out = sizes.column_groups  # in vectors, so that the compiler knows the alignment
        origin = ((outer * sizes.depths + depth) * sizes.rows + row) * step_out + group
    else:
        step_out = sizes.columns * sizes.inner
        origin = ((outer * sizes.depths + depth) * sizes.rows + row) * step_out + column * sizes.inner + within
    number = 1.0
    reciprocal = 1.0
    if tile.KIND == "sum" and tile.COUNTED == "all":
        number = tl.load(scale).to(tile.ACC)
        reciprocal = tl.load(scale + 1).to(tile.ACC)
    added = ()
    if tile.KIND == "sum":
        for _ in tl.static_range(N):
            added = added + (tl.zeros((tile.BLOCK, tile.V), tile.ACC),)
    for t in range(sizes.depth_candidates):
        window_depth = depth
        depth_tap = 0
        reached = True
        if tile.DEEP:
            window_depth = tl.load(depth_readers + (depth * sizes.depth_candidates + t) * 2)
            depth_tap = tl.load(depth_readers + (depth * sizes.depth_candidates + t) * 2 + 1)
            reached = window_depth >= 0
            window_depth = tl.maximum(window_depth, 0)
        base = ((outer * sizes.depths_out + window_depth) * sizes.rows_out + line) * step
        if tile.W > 1:
            base += group * (tile.V // tile.COLUMN_STRIDE // tile.W) + (FIRST - tile.LEAD) // tile.W
        else:
            base += begin * sizes.inner + within
        more = ()
        for k in tl.static_range(N):
            allowed = (line + k >= 0) & (line + k < sizes.rows_out) & reached
            place = base + k * step
            if tile.W > 1:
                place = place * tile.W
            arriving = read_line(gy + place, sizes.inner, real_columns, allowed, 0, WINDOWS, tile.ACC, tile)
            if tile.KIND == "first":
                winners = read_line(codes + place, sizes.inner, real_columns, allowed, NOBODY, WINDOWS, tl.int32, tile)
                if tile.LOW:
                    high = ()
                    rest = ()
                    for e in tl.static_range(WINDOWS):
                        high = high + (quotient(winners[e], tile.LOW_TAPS, codes),)
                        rest = rest + (winners[e] - high[e] * tile.LOW_TAPS,)
                    winners = (high, rest)
                elif tile.DEEP or not tile.FIXED:
                    moved = ()
                    for e in tl.static_range(WINDOWS):
                        moved = moved + (winners[e] - (phase + depth_tap * (tile.TAPS * tile.LOW_TAPS)),)
                    winners = moved
                new_sums = ()
                new_lows = ()
                for i in tl.static_range(tile.CELLS):
                    for v in tl.static_range(tile.V):
                        total = sums[i * tile.V + v]
                        known = lows[i * tile.V + v]
                        if (
                            k <= i // tile.STRIDE + tile.READERS - 1
                            and k >= i // tile.STRIDE
                            and i % tile.STRIDE + (i // tile.STRIDE + tile.READERS - 1 - k) * tile.STRIDE < tile.TAPS
                        ):
                            total, known = match_cell(total, known, arriving, winners, v,
                                                      i % tile.STRIDE + (i // tile.STRIDE + tile.READERS - 1 - k)
                                                      * tile.STRIDE, tile)  # fmt: skip
                        new_sums = new_sums + (total,)
                        new_lows = new_lows + (known,)
                sums = new_sums
                lows = new_lows
            else:
                if tile.COUNTED != "all":
                    row_first, row_last, row_existing = tap_range(
                        (line + k) * tile.STRIDE - sizes.rows_before, sizes.rows, sizes.rows_after, tile.TAPS, 1
                    )
                    shares = ()
                    for e in tl.static_range(WINDOWS):
                        by = taken[e] * (row_existing if tile.COUNTED == "exists" else row_last - row_first)
                        shares = shares + (divide(arriving[e], tl.maximum(by, 1), tile.ACC),)
                    arriving = shares
                share = add_line(arriving, tile)
                more = more + (added[k] + share if tile.DEEP else share,)
        if tile.KIND == "sum":
            added = more
    if tile.KIND == "sum":
        if tile.STRIDE == 1:
            sums = slide_sum(added, tile.CELLS, tile.TAPS, 1)
        else:
            gathered = ()
            for i in tl.static_range(tile.CELLS):
                total = tl.zeros((tile.BLOCK, tile.V), tile.ACC)
                for c in tl.static_range(tile.READERS):
                    if i % tile.STRIDE + c * tile.STRIDE < tile.TAPS:
                        total += added[i // tile.STRIDE + tile.READERS - 1 - c]
                gathered = gathered + (total,)
            sums = gathered
    if tile.KIND == "first":
        for i in tl.static_range(tile.CELLS):
            parts = ()
            others = ()
            for v in tl.static_range(tile.V):
                parts = parts + (sums[i * tile.V + v],)
                others = others + (lows[i * tile.V + v],)
            present = both(inside, (row + i >= 0) & (row + i < sizes.rows))
            leave(gx, low, parts, others, origin + i * step_out, present, column, sizes, tile)
    else:
        for i in tl.static_range(tile.CELLS):
            present = both(inside, (row + i >= 0) & (row + i < sizes.rows))
            target = origin + i * step_out
            if tile.DENSE:
                target = target * tile.V
            total = sums[i]
            if tile.COUNTED == "all":
                total = scaled(total, number, reciprocal)
            write_line(gx + target, sizes.inner, total, present, column, sizes.columns, tile)
