"""Cotangents of large windows, by halves: a row of windows passes its cotangents to two rows of
windows of half the height, and finally to cells.

A window of n rows is the union of two windows of ceil(n / 2) rows, the second n // 2 rows below the
first. A winner outside of the first half is in the second, and all windows with a winner in a
smaller window have the same winner there. A program streams down the rows of windows. A cotangent
for a second half waits for its row: n - 1 rows wait, and the cost per cell is the logarithm of n.

Codes count back from the last cell of a window, so that they do not change while they wait for its
second half. A code that lies before a window does not apply to it, and its cotangent is 0. Of two
codes the nearer one is used, since all codes inside a window are equal.
"""

import triton
import triton.language as tl

from .common import NAMED, both, edges, fetch, lane, read_line, stacked, write_line
from .folds import filled, part
from .runs import advance, cleared, complete, room, windows


@triton.jit
def nearer(codes, others, BY: tl.constexpr, PAIRED: tl.constexpr):
    """min(codes - BY, others), unsigned. PAIRED: a word has two codes of 16 bits."""
    if not PAIRED:
        least = tl.minimum((codes - BY).to(tl.uint32, bitcast=True), others.to(tl.uint32, bitcast=True))
        found = least.to(tl.int32, bitcast=True)
    elif NAMED:
        by = tl.full(codes.shape, (-BY << 16) | (-BY & 0xFFFF), tl.int32)
        found = tl.inline_asm_elementwise("{ .reg .b32 t; add.u16x2 t, $1, $3; min.u16x2 $0, t, $2; }", "=r,r,r,r",
                                          [codes, others, by], tl.int32, is_pure=True, pack=1)  # fmt: skip
    else:
        low = tl.minimum((codes - BY) & 0xFFFF, others & 0xFFFF)
        found = low | (tl.minimum(((codes >> 16) - BY) & 0xFFFF, (others >> 16) & 0xFFFF) << 16)
    return found


@triton.jit
def handed(share, other, waiting, other_waiting, codes, BELOW: tl.constexpr):
    """For two shares with codes in one word: the parts for the first halves, and the parts that
    wait for the second halves, with codes below BELOW.

    Small integers are compared as half floats with the same bits, two at once. Negative ones are
    NaN, and their shares are 0.
    """
    if NAMED:
        below = tl.full(codes.shape, BELOW * 0x10001, tl.int32)
        first, other_first = tl.inline_asm_elementwise(
            "{ .reg .pred p, q; setp.geu.f16x2 p|q, $6, $7; mov.b32 $0, $4; mov.b32 $1, $5; @p add.f32 $0, $4, $2; "
            "@q add.f32 $1, $5, $3; }",
            "=&f,=&f,f,f,f,f,r,r",
            [share, other, waiting, other_waiting, codes, below],
            (tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
        # compared again, since no register is free to keep the result
        second, other_second = tl.inline_asm_elementwise(
            "{ .reg .pred p, q; setp.lt.f16x2 p|q, $4, $5; selp.f32 $0, $2, 0f00000000, p; selp.f32 $1, $3, "
            "0f00000000, q; }",
            "=f,=f,f,f,r,r",
            [share, other, codes, below],
            (tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
        return first, other_first, second, other_second
    late, other_late = ((codes << 16) >> 16) < BELOW, (codes >> 16) < BELOW
    first, second = tl.where(late, waiting, waiting + share), tl.where(late, share, 0)
    return first, tl.where(other_late, other_waiting, other_waiting + other), second, tl.where(other_late, other, 0)


@triton.jit
def descend(shares, codes, waiting, waiting_codes, TAPS: tl.constexpr, LOW_TAPS: tl.constexpr, V: tl.constexpr,
            PAIRED: tl.constexpr):  # fmt: skip
    """The cotangents of a row of cells from the row of windows that starts there; and all waiting
    rows: for the first halving, oldest first, then for the others.

    Codes of a second half, and of no winner, are negative when counted to the end of the first
    half. As unsigned numbers they exceed all others.
    """
    HALF: tl.constexpr = TAPS // 2
    WORDS: tl.constexpr = V // 2 if PAIRED else V
    if TAPS == 1:
        found = (shares, codes, (), ())
    else:
        first = ()
        first_codes = ()
        second = ()
        for w in tl.static_range(WORDS):
            first_codes = first_codes + (nearer(codes[w], waiting_codes[w], HALF * LOW_TAPS, PAIRED),)
            if PAIRED:
                a, b, c, d = handed(shares[2 * w], shares[2 * w + 1], waiting[2 * w], waiting[2 * w + 1], codes[w],
                                    HALF * LOW_TAPS)  # fmt: skip
                first = first + (a, b)
                second = second + (c, d)
            else:
                late = codes[w] < HALF * LOW_TAPS
                first = first + (tl.where(late, waiting[w], waiting[w] + shares[w]),)
                second = second + (tl.where(late, shares[w], 0),)
        own = part(waiting, V, HALF * V) + second
        own_codes = part(waiting_codes, WORDS, HALF * WORDS) + codes
        rest = part(waiting, HALF * V, (TAPS - 1) * V)
        rest_codes = part(waiting_codes, HALF * WORDS, (TAPS - 1) * WORDS)
        cells, cell_codes, rest, rest_codes = descend(first, first_codes, rest, rest_codes, TAPS - HALF, LOW_TAPS, V,
                                                      PAIRED)  # fmt: skip
        found = (cells, cell_codes, own + rest, own_codes + rest_codes)
    return found


@triton.jit
def arrivals(gy, codes, source, real, allowed, NOBODY: tl.constexpr, tile: tl.constexpr):
    """The shares and codes of a row of windows. WHOLE: each has a winner, as PAIRED requires.
    NOBODY is the code of no winner."""
    if tile.W > 1:
        source = source * tile.W
    shares = read_line(gy + source, 1, real, allowed, 0, tile.V, tile.ACC, tile)
    won = read_line(codes + source, 1, real, allowed, NOBODY, tile.V, tl.int32, tile)
    given = ()
    placed = ()
    for v in tl.static_range(tile.V):
        given = given + (shares[v] if tile.WHOLE else tl.where(won[v] == NOBODY, 0, shares[v]),)
        if not tile.PAIRED:
            placed = placed + ((NOBODY - 1) - won[v],)
        elif v % 2 == 1:
            # beyond the edge, in the second half or both, a borrow does not matter
            placed = placed + (((NOBODY - 1) * 0x10001 - won[v - 1]) - (won[v] << 16),)
    return given, placed


@triton.jit
def taps_of(codes, LOW_TAPS: tl.constexpr, V: tl.constexpr, PAIRED: tl.constexpr):
    """The taps of V codes along the other axes; a tap that does not exist stays invalid without its
    sign and as a byte."""
    taps = ()
    for w in tl.static_range(V // 2 if PAIRED else V):
        if PAIRED:
            last = tl.full(codes[w].shape, LOW_TAPS * 0x10001, tl.int32)
            two = nearer(~codes[w], last, -LOW_TAPS, True)
            taps = taps + (two & 0xFFFF, two >> 16)
        else:
            taps = taps + ((LOW_TAPS - 1) - codes[w],)
    return taps


@triton.jit
def given(share, total, other, taps, TAP: tl.constexpr, OTHER: tl.constexpr):
    """Two cells' totals plus the share of a window if they are at its tap, which is in both halves
    of a word."""
    if NAMED:
        known = tl.full(taps.shape, TAP + OTHER * 0x10000, tl.int32)
        return tl.inline_asm_elementwise(
            "{ .reg .pred p, q; setp.eq.f16x2 p|q, $5, $6; mov.b32 $0, $3; mov.b32 $1, $4; @p add.f32 $0, $3, $2; "
            "@q add.f32 $1, $4, $2; }",
            "=&f,=&f,f,f,f,r,r",
            [share, total, other, taps, known],
            (tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
    return tl.where((taps & 0xFFFF) == TAP, total + share, total), tl.where((taps >> 16) == OTHER, other + share, other)


@triton.jit
def given_one(share, total, taps, TAP: tl.constexpr):
    """`given` for one cell's total."""
    known = tl.full(taps.shape, TAP * 0x10001, tl.int32)
    if NAMED:
        return tl.inline_asm_elementwise("{ .reg .pred p, q; setp.eq.f16x2 p|q, $3, $4; mov.b32 $0, $2; "
                                         "@p add.f32 $0, $2, $1; }", "=&f,f,f,r,r", [share, total, taps, known],
                                         tl.float32, is_pure=True, pack=1)  # fmt: skip
    return tl.where(taps == known, total + share, total)


@triton.jit
def added(totals, share, tap, FIRST: tl.constexpr, TAPS: tl.constexpr, BASE: tl.constexpr, V: tl.constexpr,
          PAIRED: tl.constexpr, MIXED: tl.constexpr = False):  # fmt: skip
    """V cells' totals, plus the share of a window at its winner's tap. The first cell is the
    window's tap FIRST, and taps count from BASE. PAIRED: the tap is in both halves of a word.
    MIXED: single cells are compared as integers, which other units execute than half floats."""
    found = ()
    for v in tl.static_range(V):
        if PAIRED and v % 2 == 0 and FIRST + v >= 0 and FIRST + v + 1 < TAPS:
            found = found + given(share, totals[v], totals[v + 1], tap, BASE + FIRST + v, BASE + FIRST + v + 1)
        elif len(found) == v:
            total = totals[v]
            if FIRST + v >= 0 and FIRST + v < TAPS:
                if PAIRED and not MIXED:
                    total = given_one(share, total, tap, BASE + FIRST + v)
                else:
                    total = tl.where(tap == (BASE + FIRST + v) * (0x10001 if PAIRED else 1), total + share, total)
            found = found + (total,)
    return found


@triton.jit
def bytes_of(taps, V: tl.constexpr):
    """V taps as bytes, up to four in a word."""
    PER: tl.constexpr = min(V, 4)
    words = ()
    for w in tl.static_range(V // PER):
        word = taps[w * PER] & 255
        for i in tl.static_range(1, PER):
            word = word | ((taps[w * PER + i] & 255) << (8 * i))
        words = words + (word,)
    return words


@triton.jit
def cross(shares, words, group, groups, BEFORE: tl.constexpr, tile: tl.constexpr):  # fmt: skip
    """V cells of a row: sums over the windows in which they won along the columns, including
    windows of neighbouring lanes.

    A window's winner is a byte, up to four of which are in a word.
    """
    PER: tl.constexpr = min(tile.V, 4)
    NONE: tl.constexpr = tile.CROSS_TAPS * (1 + (PER > 1) * 256 + (PER > 2) * 0x1010000)
    totals = filled(0, tile.V, tile.BLOCK, shares[0].dtype)
    for d in tl.static_range(
        -((tile.CROSS_TAPS - 1 - BEFORE + tile.V - 1) // tile.V), (BEFORE + tile.V - 1) // tile.V + 1
    ):
        there = (tl.arange(0, tile.BLOCK) + d) & (tile.BLOCK - 1)
        known = words
        if d != 0:
            known = ()
            for w in tl.static_range(tile.V // PER):
                known = known + (tl.where((group + d >= 0) & (group + d < groups), tl.gather(words[w], there, 0), NONE),
                                 )  # fmt: skip
        for u in tl.static_range(tile.V):
            if d * tile.V + u <= tile.V - 1 + BEFORE and d * tile.V + u > BEFORE - tile.CROSS_TAPS:
                share = shares[u]
                if d != 0:
                    share = tl.gather(share, there, 0)
                tap = ((known[u // PER] >> (8 * (u % PER))) & 255) * (0x10001 if tile.PAIRED else 1)
                totals = added(totals, share, tap, BEFORE - d * tile.V - u, tile.CROSS_TAPS, 0, tile.V, tile.PAIRED)
    return totals


@triton.jit
def won_by_some(taps, TAPS: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr):
    """Whether a lane, or the other lane of its pair, has a winner. Both lanes write to the same 32
    bytes, the unit of memory writes."""
    least = taps[0].to(tl.uint32, bitcast=True)
    for v in tl.static_range(1, V):
        least = tl.minimum(least, taps[v].to(tl.uint32, bitcast=True))
    pairs = tl.min(tl.reshape(least, (BLOCK // 2, 2)), 1, keep_dims=True)
    return tl.reshape(tl.broadcast_to(pairs, (BLOCK // 2, 2)), (BLOCK,)) < TAPS


@triton.jit
def vjp_halving(gy, codes, gx, low, ring, scale, sizes, tile: tl.constexpr):
    """Cotangents of winners of windows with row stride 1, spread along rows; `per` rows of cells.

    The codes of the other axes are written to `low`, if these have taps. With CROSS_TAPS,
    cotangents are also spread along these columns; then a program has one warp, whose lanes
    exchange data.

    SPARSE: readers of `gx` check `low` first, so cells without a winner need not be written; for
    large windows these are most. SLOTS: by runs instead of halves.
    """
    outer, group, _within, inside, program = lane(
        sizes, sizes.column_groups, sizes.row_blocks, tile, tile.LEFT, tile.RIGHT
    )
    row = program * sizes.per
    real = edges(group * tile.V, sizes.columns_out, 0, tile.V, tile.W)
    count = tl.minimum(sizes.per, sizes.rows - row)
    first_line = row + sizes.rows_before - (tile.TAPS - 1)
    skipped = tl.maximum(-first_line, 0)  # rows of windows that do not exist
    steps = (sizes.per + tile.TAPS - 1 - skipped + tile.STEP - 1) // tile.STEP
    first_line += skipped
    base = outer * sizes.rows_out + first_line
    origin = outer * sizes.rows + row - (tile.TAPS - 1) + skipped
    if tile.WIDE:
        base = base.to(tl.int64)
        origin = origin.to(tl.int64)
    step = sizes.columns_out // tile.W
    base = base * step + group * (tile.V // tile.W)
    if tile.DENSE:
        step_out = sizes.column_groups
        origin = origin * step_out + group
    else:
        step_out = sizes.columns
        origin = origin * step_out + group * tile.V
    NONE: tl.constexpr = tile.LOW_TAPS * 0x1010101 if tile.SLOTS else 0
    waiting = filled(0, tile.V if tile.SLOTS else (tile.TAPS - 1) * tile.V, tile.BLOCK, tile.ACC)
    waiting_codes = filled(
        -1, tile.V if tile.SLOTS else (tile.TAPS - 1) * (tile.V // 2 if tile.PAIRED else tile.V), tile.BLOCK, tl.int32
    )
    begin = room(tile.ASKED, tile.BLOCK) if tile.SLOTS else 0
    if tile.SLOTS:
        cleared(ring, begin, NONE, tile)
    for s in range(steps):
        if tile.AHEAD:
            for u in tl.static_range(tile.STEP):
                later = (base + tl.minimum((s + 1) * tile.STEP + u, sizes.rows_out - 1 - first_line) * step) * tile.W
                fetch(codes + later)
                fetch(gy + later)
        arriving = ()
        won = ()
        for u in tl.static_range(tile.STEP):
            line = first_line + s * tile.STEP + u
            source = base + (s * tile.STEP + u) * step
            if tile.SLOTS:
                shares, own = windows(gy, codes, source, real, line < sizes.rows_out, tile)
            else:
                shares, own = arrivals(gy, codes, source, real, line < sizes.rows_out, tile.TAPS * tile.LOW_TAPS, tile)
            arriving = arriving + (shares,)
            won = won + (own,)
        for u in tl.static_range(tile.STEP):
            taps = ()
            if tile.SLOTS:
                line = first_line + s * tile.STEP + u
                # a winner below the last row belongs to no cell
                winner = tl.where(line < sizes.rows_out, line, line + tile.TAPS)
                waiting, waiting_codes = advance(ring, begin, arriving[u], won[u], waiting, waiting_codes, winner, tile)
                shares, words = complete(ring, begin, line, NONE, tile)
            else:
                shares, own, waiting, waiting_codes = descend(
                    arriving[u], won[u], waiting, waiting_codes, tile.TAPS, tile.LOW_TAPS, tile.V, tile.PAIRED
                )
                taps = taps_of(own, tile.LOW_TAPS, tile.V, tile.PAIRED)
                words = bytes_of(taps, tile.V)
            o = skipped + s * tile.STEP + u - (tile.TAPS - 1)
            present = both(inside, (o >= 0) & (o < count))
            target = origin + (s * tile.STEP + u) * step_out
            if tile.DENSE:
                target = target * tile.V
            if tile.CROSS_TAPS:
                shares = cross(shares, words, group, sizes.column_groups, tile.CROSS_BEFORE, tile)
            elif tile.LOW_TAPS > 1:
                rest = stacked(taps, tile.V, tile.BLOCK).to(tl.uint32, bitcast=True)
                if not tile.PAIRED:
                    rest = tl.minimum(rest, tile.LOW_TAPS)
                write_line(low + target, 1, rest, present, group * tile.V, sizes.columns, tile)
                if tile.SPARSE:
                    present = present & won_by_some(taps, tile.LOW_TAPS, tile.V, tile.BLOCK)
            write_line(
                gx + target, 1, stacked(shares, tile.V, tile.BLOCK), present, group * tile.V, sizes.columns, tile
            )
