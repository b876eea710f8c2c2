"""Cotangents of sliding windows, gathered: each cell reads the windows that read it, and is written
once.

Rows are counted from the padded edge (q = row + before), and a program starts at a multiple of the
stride, so that which window meets which row by which tap is known when the kernel is compiled: row
q is read by the windows q // stride - c by tap q % stride + c * stride. Columns are taken several
at a time, for the same reason and for wide accesses.
"""

import triton
import triton.language as tl

from .common import both, divide, edges, lane, quotient, read_line, scaled, stacked, tap_range, write_line
from .folds import filled, slide_sum


@triton.jit
def match_cell(
    total, known, arriving, codes, v: tl.constexpr, TAP: tl.constexpr, LOW_TAPS: tl.constexpr,
    COLUMN_TAPS: tl.constexpr,
    COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr, COLUMN_BEFORE: tl.constexpr, FIXED: tl.constexpr,
    LOW: tl.constexpr,
):  # fmt: skip
    """Add the cotangents of one row of windows to the v-th cell of a row that they meet by TAP, if
    it won them."""
    NEWEST: tl.constexpr = (v + COLUMN_BEFORE) // COLUMN_STRIDE - COLUMN_BEFORE // COLUMN_STRIDE + COLUMN_READERS - 1
    PHASE: tl.constexpr = (v + COLUMN_BEFORE) % COLUMN_STRIDE
    if LOW:
        high, rest = codes
        won = high[v] == TAP
        known = tl.where(won, rest[v], known)
        total = tl.where(won, total + arriving[v], total)
    else:
        for d in tl.static_range(COLUMN_READERS):
            if not FIXED:
                won = codes[COLUMN_READERS - 1 - d] == TAP * LOW_TAPS + d * COLUMN_STRIDE
                total = tl.where(won, total + arriving[COLUMN_READERS - 1 - d], total)
            elif PHASE + d * COLUMN_STRIDE < COLUMN_TAPS:
                won = codes[NEWEST - d] == TAP * LOW_TAPS + PHASE + d * COLUMN_STRIDE
                total = tl.where(won, total + arriving[NEWEST - d], total)
    return total, known


@triton.jit
def add_line(
    arriving, V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    COLUMN_BEFORE: tl.constexpr, FIXED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The shares of one row of windows, added over those that read each of V columns: (BLOCK,
    V)."""
    FIRST: tl.constexpr = COLUMN_BEFORE // COLUMN_STRIDE - COLUMN_READERS + 1
    if COLUMN_STRIDE == 1:
        gathered = slide_sum(arriving, V, COLUMN_TAPS, 1)
    else:
        gathered = ()
        for v in tl.static_range(V):
            if FIXED:
                total = arriving[(v + COLUMN_BEFORE) // COLUMN_STRIDE - FIRST]
                for d in tl.static_range(1, COLUMN_READERS):
                    if (v + COLUMN_BEFORE) % COLUMN_STRIDE + d * COLUMN_STRIDE < COLUMN_TAPS:
                        total = total + arriving[(v + COLUMN_BEFORE) // COLUMN_STRIDE - d - FIRST]
                if (v + COLUMN_BEFORE) % COLUMN_STRIDE >= COLUMN_TAPS:
                    total = tl.zeros_like(total)
            else:
                total = arriving[0]
                for d in tl.static_range(1, COLUMN_READERS):
                    total = total + arriving[d]
            gathered = gathered + (total,)
    return stacked(gathered, V, BLOCK)


@triton.jit
def leave(gx, low, parts, others, i, origin, step, inner, inside, row, rows, column, columns, V: tl.constexpr,
          DENSE: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Write the i-th row of cells."""
    present = both(inside, (row + i >= 0) & (row + i < rows))
    target = origin + i * step
    if DENSE:
        target = target * V
    write_line(gx + target, inner, stacked(parts, V, BLOCK), present, column, columns, V, DENSE, BLOCK)
    if LOW:
        write_line(low + target, inner, stacked(others, V, BLOCK), present, column, columns, V, DENSE, BLOCK)


@triton.jit
def spread(
    gy, codes, gx, low, depth_readers, scale,
    lanes, inner, depths, depths_out, depth_candidates,
    rows, rows_out, rows_before, rows_after, columns, columns_out, columns_after, column_groups,
    row_start, row_blocks,
    LOW_TAPS: tl.constexpr, KIND: tl.constexpr, CELLS: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr,
    READERS: tl.constexpr,
    V: tl.constexpr, COLUMN_TAPS: tl.constexpr, COLUMN_STRIDE: tl.constexpr, COLUMN_READERS: tl.constexpr,
    COLUMN_BEFORE: tl.constexpr, FIXED: tl.constexpr, LEAD: tl.constexpr, W: tl.constexpr, DENSE: tl.constexpr,
    COUNTED: tl.constexpr, DEEP: tl.constexpr, LOW: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr,
    ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of a maximum ("first", by codes) or an average ("sum"): some rows of V
    neighbouring columns.

    FIXED: V is a multiple of the stride, so which window meets which column by which tap is known
    too.

    LOW: windows along the rows axis only; `low` is what the codes say about the other axes, to be
    spread in a next call.
    """
    N: tl.constexpr = CELLS // STRIDE + READERS - 1
    NOBODY: tl.constexpr = 255 if codes.dtype.element_ty == tl.uint8 else 1 << 30  # a code that no tap has
    FIRST: tl.constexpr = COLUMN_BEFORE // COLUMN_STRIDE - COLUMN_READERS + 1
    WINDOWS: tl.constexpr = (V - 1 + COLUMN_BEFORE) // COLUMN_STRIDE - FIRST + 1 if FIXED else COLUMN_READERS
    outer, group, within, inside, program = lane(lanes, column_groups, inner, row_blocks * depths, BLOCK, WIDE, EVEN)
    depth = program // row_blocks
    padded_row = row_start + (program - depth * row_blocks) * CELLS
    column = group * V
    phase = tl.zeros((BLOCK,), tl.int32)
    if FIXED:
        begin = group * (V // COLUMN_STRIDE) + (FIRST - LEAD)
    else:
        newest = (column + COLUMN_BEFORE) // COLUMN_STRIDE
        phase = (column + COLUMN_BEFORE - newest * COLUMN_STRIDE).to(tl.int32)
        begin = newest - (COLUMN_READERS - 1)
    real_columns = edges(begin, columns_out, LEAD, WINDOWS, W)
    if not FIXED:
        limited = ()
        for e in tl.static_range(WINDOWS):
            limited = limited + (real_columns[e] & (phase + (COLUMN_READERS - 1 - e) * COLUMN_STRIDE < COLUMN_TAPS),)
        real_columns = limited
    taken = ()
    if KIND == "sum" and COUNTED != "all":
        for e in tl.static_range(WINDOWS):
            first, last, existing = tap_range((begin + LEAD + e) * COLUMN_STRIDE - COLUMN_BEFORE, columns,
                                              columns_after, COLUMN_TAPS, 1)  # fmt: skip
            taken = taken + (existing if COUNTED == "exists" else last - first,)
    line = padded_row // STRIDE - (READERS - 1)
    step = columns_out * inner
    if W > 1:
        step = columns_out // W
    sums = ()
    lows = ()
    if KIND == "first":
        sums = filled(0, CELLS * V, BLOCK, ACC)
        lows = filled(LOW_TAPS, CELLS * V, BLOCK, tl.int32)  # no winner: the code after the last
    row = padded_row - rows_before
    if DENSE:
        step_out = column_groups  # counted in vectors, so that the compiler sees that they are aligned
        origin = ((outer * depths + depth) * rows + row) * step_out + group
    else:
        step_out = columns * inner
        origin = ((outer * depths + depth) * rows + row) * step_out + column * inner + within
    number = 1.0
    reciprocal = 1.0
    if KIND == "sum" and COUNTED == "all":
        number = tl.load(scale).to(ACC)
        reciprocal = tl.load(scale + 1).to(ACC)
    added = ()
    if KIND == "sum":
        for _ in tl.static_range(N):
            added = added + (tl.zeros((BLOCK, V), ACC),)
    for t in range(depth_candidates):
        window_depth = depth
        depth_tap = 0
        reached = True
        if DEEP:
            window_depth = tl.load(depth_readers + (depth * depth_candidates + t) * 2)
            depth_tap = tl.load(depth_readers + (depth * depth_candidates + t) * 2 + 1)
            reached = window_depth >= 0
            window_depth = tl.maximum(window_depth, 0)
        base = ((outer * depths_out + window_depth) * rows_out + line) * step
        if W > 1:
            base += group * (V // COLUMN_STRIDE // W) + (FIRST - LEAD) // W
        else:
            base += begin * inner + within
        more = ()
        for k in tl.static_range(N):
            allowed = (line + k >= 0) & (line + k < rows_out) & reached
            place = base + k * step
            if W > 1:
                place = place * W
            arriving = read_line(gy + place, inner, real_columns, allowed, 0, LEAD, WINDOWS, W, BLOCK, ACC)
            if KIND == "first":
                winners = read_line(
                    codes + place, inner, real_columns, allowed, NOBODY, LEAD, WINDOWS, W, BLOCK, tl.int32
                )
                if LOW:
                    high = ()
                    rest = ()
                    for e in tl.static_range(WINDOWS):
                        high = high + (quotient(winners[e], LOW_TAPS, codes),)
                        rest = rest + (winners[e] - high[e] * LOW_TAPS,)
                    winners = (high, rest)
                elif DEEP or not FIXED:
                    moved = ()
                    for e in tl.static_range(WINDOWS):
                        moved = moved + (winners[e] - (phase + depth_tap * (TAPS * LOW_TAPS)),)
                    winners = moved
                new_sums = ()
                new_lows = ()
                for i in tl.static_range(CELLS):
                    for v in tl.static_range(V):
                        total = sums[i * V + v]
                        known = lows[i * V + v]
                        if (k <= i // STRIDE + READERS - 1 and k >= i // STRIDE
                                and i % STRIDE + (i // STRIDE + READERS - 1 - k) * STRIDE < TAPS):  # fmt: skip
                            total, known = match_cell(total, known, arriving, winners, v,
                                                      i % STRIDE + (i // STRIDE + READERS - 1 - k) * STRIDE, LOW_TAPS,
                                                      COLUMN_TAPS, COLUMN_STRIDE, COLUMN_READERS, COLUMN_BEFORE, FIXED,
                                                      LOW)  # fmt: skip
                        new_sums = new_sums + (total,)
                        new_lows = new_lows + (known,)
                sums = new_sums
                lows = new_lows
            else:
                if COUNTED != "all":
                    row_first, row_last, row_existing = tap_range(
                        (line + k) * STRIDE - rows_before, rows, rows_after, TAPS, 1
                    )
                    shares = ()
                    for e in tl.static_range(WINDOWS):
                        by = taken[e] * (row_existing if COUNTED == "exists" else row_last - row_first)
                        shares = shares + (divide(arriving[e], tl.maximum(by, 1), ACC),)
                    arriving = shares
                share = add_line(arriving, V, COLUMN_TAPS, COLUMN_STRIDE, COLUMN_READERS, COLUMN_BEFORE, FIXED, BLOCK)
                more = more + (added[k] + share if DEEP else share,)
        if KIND == "sum":
            added = more
    if KIND == "sum":
        if STRIDE == 1:
            sums = slide_sum(added, CELLS, TAPS, 1)
        else:
            gathered = ()
            for i in tl.static_range(CELLS):
                total = tl.zeros((BLOCK, V), ACC)
                for c in tl.static_range(READERS):
                    if i % STRIDE + c * STRIDE < TAPS:
                        total += added[i // STRIDE + READERS - 1 - c]
                gathered = gathered + (total,)
            sums = gathered
    if KIND == "first":
        for i in tl.static_range(CELLS):
            parts = ()
            others = ()
            for v in tl.static_range(V):
                parts = parts + (sums[i * V + v],)
                others = others + (lows[i * V + v],)
            leave(
                gx,
                low,
                parts,
                others,
                i,
                origin,
                step_out,
                inner,
                inside,
                row,
                rows,
                column,
                columns,
                V,
                DENSE,
                LOW,
                BLOCK,
            )
    else:
        for i in tl.static_range(CELLS):
            present = both(inside, (row + i >= 0) & (row + i < rows))
            target = origin + i * step_out
            if DENSE:
                target = target * V
            total = sums[i]
            if COUNTED == "all":
                total = scaled(total, number, reciprocal)
            write_line(gx + target, inner, total, present, column, columns, V, DENSE, BLOCK)
