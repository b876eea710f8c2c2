"""Cotangents of large windows, by runs: the winner never moves back as windows move down, so the
windows won by one cell are consecutive.

A lane sums a run, and after each window stores the sum in the winner's row of a ring, over the
earlier sum. A ring has more rows than a window, in memory private to a lane, so that no lane waits.
After a row of windows, the row of cells at which these windows start is complete. The columns of
winners are stored as bytes, four in a word.
"""

import triton
import triton.language as tl

from .common import NAMED, read_line


@triton.jit
def room(ASKED: tl.constexpr, BLOCK: tl.constexpr):
    """The address of each lane's words, in bytes of shared memory, which the assembly ASKED
    allocates; the interpreter's ring is in other memory."""
    begin = 0
    if NAMED:
        begin = tl.inline_asm_elementwise(ASKED, "=r", [], tl.int32, is_pure=False, pack=1)
    return begin + tl.arange(0, BLOCK) * 4


@triton.jit
def leave(ring, at, value):
    if NAMED:
        tl.inline_asm_elementwise("st.shared.b32 [$1], $2; mov.b32 $0, 0;", "=r,r,r",
                                  [at, value.to(tl.int32, bitcast=True)], tl.int32, is_pure=False, pack=1)  # fmt: skip
    else:
        tl.store(ring.to(tl.pointer_type(tl.int32)) + at // 4, value.to(tl.int32, bitcast=True))


@triton.jit
def leave_byte(ring, at, value):
    if NAMED:
        tl.inline_asm_elementwise("st.shared.b8 [$1], $2; mov.b32 $0, 0;", "=r,r,r", [at, value], tl.int32,
                                  is_pure=False, pack=1)  # fmt: skip
    else:
        tl.store(ring.to(tl.pointer_type(tl.uint8)) + at, value.to(tl.uint8))


@triton.jit
def find(ring, at):
    if NAMED:
        found = tl.inline_asm_elementwise("ld.shared.b32 $0, [$1];", "=r,r", [at], tl.int32, is_pure=False, pack=1)
    else:
        found = tl.load(ring.to(tl.pointer_type(tl.int32)) + at // 4)
    return found


@triton.jit
def cleared(ring, begin, NONE: tl.constexpr, tile: tl.constexpr):
    """Initialise a ring: no cell has won."""
    WORDS: tl.constexpr = (tile.V + 3) // 4
    for slot in tl.static_range(tile.SLOTS):
        for w in tl.static_range(WORDS):
            leave(
                ring,
                begin + (slot * (tile.V + WORDS) + tile.V + w) * (tile.BLOCK * 4),
                tl.full((tile.BLOCK,), NONE, tl.int32),
            )


@triton.jit
def windows(gy, codes, source, real, allowed, tile: tl.constexpr):
    """The shares and codes of a row of windows. Windows that do not exist have share 0 at their
    first tap: Triton's vector reads cannot return a default above 127."""
    shares = read_line(gy + source * tile.W, 1, real, allowed, 0, tile.V, tile.ACC, tile)
    return shares, read_line(codes + source * tile.W, 1, real, allowed, 0, tile.V, tl.int32, tile)


@triton.jit
def advance(ring, begin, shares, won, sums, last, row, tile: tl.constexpr):  # fmt: skip
    """Store the sums of a row of windows, and their codes of columns, in the rows of their
    winners."""
    WORDS: tl.constexpr = (tile.V + 3) // 4
    totals = ()
    winners = ()
    for v in tl.static_range(tile.V):
        tap = tl.umulhi(won[v].to(tl.uint32), (1 << 32) // tile.LOW_TAPS + 1).to(tl.int32)
        winner = row + tap
        total = shares[v] + tl.where(winner == last[v], sums[v], 0)
        at = begin + (winner & (tile.SLOTS - 1)) * ((tile.V + WORDS) * tile.BLOCK * 4)
        leave(ring, at + v * (tile.BLOCK * 4), total)
        leave_byte(ring, at + ((tile.V + v // 4) * (tile.BLOCK * 4) + v % 4), won[v] - tap * tile.LOW_TAPS)
        totals = totals + (total,)
        winners = winners + (winner,)
    return totals, winners


@triton.jit
def complete(ring, begin, row, NONE: tl.constexpr, tile: tl.constexpr):
    """The sums stored for a row of cells (undefined without a winner), and the taps of their
    columns; the row is cleared for reuse."""
    WORDS: tl.constexpr = (tile.V + 3) // 4
    at = begin + (row & (tile.SLOTS - 1)) * ((tile.V + WORDS) * tile.BLOCK * 4)
    shares = ()
    words = ()
    for v in tl.static_range(tile.V):
        shares = shares + (find(ring, at + v * (tile.BLOCK * 4)).to(tl.float32, bitcast=True),)
    for w in tl.static_range(WORDS):
        there = at + (tile.V + w) * (tile.BLOCK * 4)
        words = words + (find(ring, there),)
        leave(ring, there, tl.full((tile.BLOCK,), NONE, tl.int32))
    return shares, words
