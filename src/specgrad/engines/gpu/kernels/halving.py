"""Cotangents of large windows, by halves: a row of windows hands what it has to two rows of windows half as high, and these to cells.

A window of n rows is made of two of ceil(n / 2), the second of which starts n // 2 rows below. A winner that is not in the first is in the
second, and whoever hands something to a smaller window agrees on who won that one. A program walks down the rows of windows; what is
meant for a second half waits for its row: as many rows wait as a window has, less one, and a cell costs the logarithm of the
window's height.

Codes count back from the last cell of a window, so that they stay what they are while they wait for its second half. One that lies
before a window knows nothing of it, and then the cotangent beside it is 0; of two the nearer is right, since those that lie in a window
are equal.
"""

import triton
import triton.language as tl

from .common import both, edges, fetch, lane, read_line, stacked, write_line
from .folds import filled, part


@triton.jit
def descend(shares, codes, waiting, waiting_codes, TAPS: tl.constexpr, LOW_TAPS: tl.constexpr, V: tl.constexpr):
    """What a row of windows leaves to the row of cells that they start with; and all that waits: for the first halving, the oldest
    row first, then for the others. Codes of a second half, and those of nobody, are negative when counted to the end of the first;
    as numbers without a sign they are greater than all others."""
    HALF: tl.constexpr = TAPS // 2
    if TAPS == 1:
        found = (shares, codes, (), ())
    else:
        first = ()
        first_codes = ()
        second = ()
        for v in tl.static_range(V):
            left = (codes[v] - HALF * LOW_TAPS).to(tl.uint32, bitcast=True)
            nearer = tl.minimum(left, waiting_codes[v].to(tl.uint32, bitcast=True))
            first_codes = first_codes + (nearer.to(tl.int32, bitcast=True),)
            late = codes[v] < HALF * LOW_TAPS
            first = first + (tl.where(late, waiting[v], waiting[v] + shares[v]),)
            second = second + (tl.where(late, shares[v], 0),)
        own = part(waiting, V, HALF * V) + second
        own_codes = part(waiting_codes, V, HALF * V) + codes
        rest = part(waiting, HALF * V, (TAPS - 1) * V)
        rest_codes = part(waiting_codes, HALF * V, (TAPS - 1) * V)
        cells, cell_codes, rest, rest_codes = descend(first, first_codes, rest, rest_codes, TAPS - HALF, LOW_TAPS, V)  # fmt: skip
        found = (cells, cell_codes, own + rest, own_codes + rest_codes)
    return found


@triton.jit
def arrivals(gy, codes, source, real, allowed, WHOLE: tl.constexpr, NOBODY: tl.constexpr, V: tl.constexpr, W: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """A row of windows. WHOLE: each has a winner; NOBODY is the code of one that has none."""
    if W > 1:
        source = source * W
    shares = read_line(gy + source, 1, real, allowed, 0, 0, V, W, BLOCK, ACC)
    won = read_line(codes + source, 1, real, allowed, NOBODY, 0, V, W, BLOCK, tl.int32)
    given = ()
    placed = ()
    for v in tl.static_range(V):
        given = given + (shares[v] if WHOLE else tl.where(won[v] == NOBODY, 0, shares[v]),)
        placed = placed + ((NOBODY - 1) - won[v],)
    return given, placed


@triton.jit
def cross(shares, taps, group, groups, V: tl.constexpr, TAPS: tl.constexpr, BEFORE: tl.constexpr, BLOCK: tl.constexpr):
    """V cells of a row: what its windows' sums give those that won them along the columns, neighbouring lanes' windows included.

    A window's winner is a byte, of which up to four of a lane's are sent together.
    """
    PER: tl.constexpr = min(V, 4)
    words = ()
    for w in tl.static_range(V // PER):
        word = taps[w * PER] & 255
        for i in tl.static_range(1, PER):
            word = word | ((taps[w * PER + i] & 255) << (8 * i))
        words = words + (word,)
    NONE: tl.constexpr = TAPS * (1 + (PER > 1) * 256 + (PER > 2) * 0x1010000)
    totals = filled(0, V, BLOCK, shares[0].dtype)
    for d in tl.static_range(-((TAPS - 1 - BEFORE + V - 1) // V), (BEFORE + V - 1) // V + 1):
        there = (tl.arange(0, BLOCK) + d) & (BLOCK - 1)
        known = words
        if d != 0:
            known = ()
            for w in tl.static_range(V // PER):
                known = known + (tl.where((group + d >= 0) & (group + d < groups), tl.gather(words[w], there, 0), NONE),)  # fmt: skip
        for u in tl.static_range(V):
            if d * V + u <= V - 1 + BEFORE and d * V + u > BEFORE - TAPS:
                share = shares[u]
                if d != 0:
                    share = tl.gather(share, there, 0)
                tap = (known[u // PER] >> (8 * (u % PER))) & 255
                added = ()
                for v in tl.static_range(V):
                    total = totals[v]
                    if v - d * V - u + BEFORE >= 0 and v - d * V - u + BEFORE < TAPS:
                        total = tl.where(tap == v - d * V - u + BEFORE, total + share, total)
                    added = added + (total,)
                totals = added
    return totals


@triton.jit
def won_by_some(taps, TAPS: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr):
    """Whether a lane or the one beside it, which write to the same 32 bytes, has a tap that exists: memory is written in such pieces."""
    least = taps[0].to(tl.uint32, bitcast=True)
    for v in tl.static_range(1, V):
        least = tl.minimum(least, taps[v].to(tl.uint32, bitcast=True))
    pairs = tl.min(tl.reshape(least, (BLOCK // 2, 2)), 1, keep_dims=True)
    return tl.reshape(tl.broadcast_to(pairs, (BLOCK // 2, 2)), (BLOCK,)) < TAPS


@triton.jit
def trail(
    gy, codes, gx, low, depth_readers, scale,
    lanes, rows, rows_out, rows_before, columns, columns_out, column_groups, row_blocks, per,
    LOW_TAPS: tl.constexpr, STEP: tl.constexpr, TAPS: tl.constexpr, V: tl.constexpr, W: tl.constexpr, DENSE: tl.constexpr,
    CROSS_TAPS: tl.constexpr, CROSS_BEFORE: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, WHOLE: tl.constexpr,
    SPARSE: tl.constexpr, AHEAD: tl.constexpr,
    WIDE: tl.constexpr, EVEN: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cotangents of the winners of windows that move down one row at a time, along rows; `per` rows of cells.

    What the codes say about the other axes goes to `low`, if they have taps; or, if there are CROSS_TAPS, cotangents go on along these
    columns at once: then a program has one warp, whose lanes tell each other.

    SPARSE: whoever reads `gx` looks at `low` first, so that what nobody won need not be written: of large windows, most of it.
    AHEAD: the rows of the next step are fetched while this one's are handed down.
    """
    outer, group, _within, inside, program = lane(lanes, column_groups, 1, row_blocks, BLOCK, WIDE, EVEN, LEFT, RIGHT)
    row = program * per
    real = edges(group * V, columns_out, 0, V, W)
    first_line = row + rows_before - (TAPS - 1)
    skipped = tl.maximum(-first_line, 0)  # rows of windows that do not exist
    steps = (per + TAPS - 1 - skipped + STEP - 1) // STEP
    first_line += skipped
    base = outer * rows_out + first_line
    origin = outer * rows + row - (TAPS - 1) + skipped
    if WIDE:
        base = base.to(tl.int64)
        origin = origin.to(tl.int64)
    step = columns_out // W
    base = base * step + group * (V // W)
    if DENSE:
        step_out = column_groups
        origin = origin * step_out + group
    else:
        step_out = columns
        origin = origin * step_out + group * V
    waiting = filled(0, (TAPS - 1) * V, BLOCK, ACC)
    waiting_codes = filled(-1, (TAPS - 1) * V, BLOCK, tl.int32)
    for s in range(steps):
        if AHEAD:
            for u in tl.static_range(STEP):
                later = (base + tl.minimum((s + 1) * STEP + u, rows_out - 1 - first_line) * step) * W
                fetch(codes + later)
                fetch(gy + later)
        arriving = ()
        won = ()
        for u in tl.static_range(STEP):
            allowed = first_line + s * STEP + u < rows_out
            shares, own = arrivals(gy, codes, base + (s * STEP + u) * step, real, allowed, WHOLE, TAPS * LOW_TAPS, V, W, ACC, BLOCK)  # fmt: skip
            arriving = arriving + (shares,)
            won = won + (own,)
        for u in tl.static_range(STEP):
            shares, own, waiting, waiting_codes = descend(arriving[u], won[u], waiting, waiting_codes, TAPS, LOW_TAPS, V)  # fmt: skip
            o = skipped + s * STEP + u - (TAPS - 1)
            present = both(inside, (o >= 0) & (o < per) & (row + o < rows))
            target = origin + (s * STEP + u) * step_out
            if DENSE:
                target = target * V
            taps = ()
            for v in tl.static_range(V):
                taps = taps + ((LOW_TAPS - 1) - own[v],)
            if CROSS_TAPS:
                shares = cross(shares, taps, group, column_groups, V, CROSS_TAPS, CROSS_BEFORE, BLOCK)
            elif LOW_TAPS > 1:
                rest = tl.minimum(stacked(taps, V, BLOCK).to(tl.uint32, bitcast=True), LOW_TAPS)
                write_line(low + target, 1, rest, present, group * V, columns, V, DENSE, BLOCK)
                if SPARSE:
                    present = present & won_by_some(taps, LOW_TAPS, V, BLOCK)
            write_line(gx + target, 1, stacked(shares, V, BLOCK), present, group * V, columns, V, DENSE, BLOCK)
