"""How numbers in registers are folded: to sums, to maxima, or to maxima and the codes of their
winners; and what may have gone wrong.

Folds of windows that overlap double: windows of 2, 4, 8 …, of which two overlapping ones make a
maximum and disjoint ones a sum; or they share what they have in common. Maxima are the hardware's
where nobody asks for winners and it has some (it has none of doubles); winners of half floats go
with their numbers in one integer.
"""

import triton
import triton.language as tl

from .common import NAMED, pieces


@triton.jit
def filled(value, N: tl.constexpr, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """N rows of one number."""
    made = ()
    for _ in tl.static_range(N):
        made = made + (tl.full((BLOCK,), value, TYPE),)
    return made


LAST = tl.constexpr(4095)
"""The last code that can be packed."""


@triton.jit
def packed(cell, code):
    """A half float, as a float32, and a code in one integer: the greater number is greater, and of
    equals that of the lower code.

    A half float leaves at least 13 bits of a float32: twelve for the code and one for the sign, as
    -0.0 and 0.0 are equal.
    """
    bits = cell.to(tl.int32, bitcast=True)
    sign = bits >> 31
    return (bits ^ (sign & 0x7FFFFFFF)) - sign * 2 + (LAST - code) * 2


@triton.jit
def unpacked(key):
    """The number and the code in an integer."""
    low = key & 0x1FFF
    return (tl.abs(key - low) | (low << 31)).to(tl.float32, bitcast=True), LAST - (low >> 1)


@triton.jit
def overtaken(best, code, other, other_code):
    """The greater of two and its code, the first of equals: a comparison and, if it holds, two sums
    with -0.0. Such a sum has the bits of its number, also of a code taken for one; and there are
    twice as many units that add as there are that compare or select."""
    return tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.gt.f32 p, $4, $2; mov.b32 $0, $2; mov.b32 $1, $3;"
        "  @p add.f32 $0, $4, 0f80000000; @p add.f32 $1, $5, 0f80000000; }",
        "=&f,=&f,f,f,f,f",
        [best, code.to(tl.float32, bitcast=True), other, other_code.to(tl.float32, bitcast=True)],
        (tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def argmax_fold(best, code, other, other_code, KIND: tl.constexpr):
    """The sum or the greater of two, the first of equals; NaN only leads where maxima are the
    hardware's. See `note` about zeros.

    "rivals" are winners in kernels that compare more than they read.
    """
    if KIND == "sum":
        found = best + other
    elif KIND == "rivals" and NAMED:
        found, number = overtaken(best, code, other, other_code)
        code = number.to(tl.int32, bitcast=True)
    elif KIND == "winners" or KIND == "rivals" or best.dtype == tl.float64:
        better = other > best
        found = tl.where(better, other, best)
        code = tl.where(better, other_code, code)
    else:
        found = tl.maximum(best, other, propagate_nan=tl.PropagateNan.ALL)
    return found, code


@triton.jit
def slide_argmax(bests, codes, COUNT: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr, KIND: tl.constexpr,
               SHARE: tl.constexpr = ""):  # fmt: skip
    """Fold numbers to COUNT windows of TAPS of them; codes know their place already. SHARE "pairs":
    of 3 or 5, two windows and what they have in common, which are fewer steps than doubling
    takes."""
    LEVELS: tl.constexpr = (TAPS >= 2) + (TAPS >= 4) + (TAPS >= 8) + (TAPS >= 16) + (TAPS >= 32)
    N: tl.constexpr = (COUNT - 1) * STRIDE + TAPS
    PAIRS: tl.constexpr = SHARE == "pairs" and STRIDE == 1 and (TAPS == 3 or TAPS == 5)
    DOUBLE: tl.constexpr = STRIDE == 1 and COUNT > 1 and not PAIRS
    final_bests = ()
    final_codes = ()
    if PAIRS:
        for o in tl.static_range(0, COUNT - 1, 2):
            two, two_codes = slide_shared(part(bests, o, o + TAPS + 1), part(codes, o, o + TAPS + 1), 2, TAPS, KIND)
            final_bests = final_bests + two
            final_codes = final_codes + two_codes
        if COUNT % 2:
            best, code = run(bests, codes, COUNT - 1, COUNT - 1 + TAPS, KIND)
            final_bests = final_bests + (best,)
            final_codes = final_codes + (code,)
    if DOUBLE:
        for level in tl.static_range(LEVELS):
            new_bests = ()
            new_codes = ()
            for i in tl.static_range(N - (2 << level) + 1):
                best, code = argmax_fold(bests[i], codes[i], bests[i + (1 << level)], codes[i + (1 << level)], KIND)
                new_bests = new_bests + (best,)
                new_codes = new_codes + (code,)
            bests = new_bests
            codes = new_codes
    if not PAIRS:
        for o in tl.static_range(COUNT):
            best = bests[o * STRIDE]
            code = codes[o * STRIDE]
            if DOUBLE:
                if TAPS > (1 << LEVELS):
                    best, code = argmax_fold(best, code, bests[o + TAPS - (1 << LEVELS)],
                                             codes[o + TAPS - (1 << LEVELS)], KIND)  # fmt: skip
            else:
                for j in tl.static_range(1, TAPS):
                    best, code = argmax_fold(best, code, bests[o * STRIDE + j], codes[o * STRIDE + j], KIND)
            final_bests = final_bests + (best,)
            final_codes = final_codes + (code,)
    return final_bests, final_codes


@triton.jit
def slide_sum(sums, COUNT: tl.constexpr, TAPS: tl.constexpr, STRIDE: tl.constexpr):
    """Add terms to COUNT windows of TAPS of them; no sum is ever subtracted."""
    LEVELS: tl.constexpr = (TAPS >= 2) + (TAPS >= 4) + (TAPS >= 8) + (TAPS >= 16) + (TAPS >= 32)
    N: tl.constexpr = (COUNT - 1) * STRIDE + TAPS
    final = ()
    if STRIDE == 1 and COUNT > 1:
        for level in tl.static_range(LEVELS + 1):
            if (TAPS >> level) & 1:
                added = ()
                for o in tl.static_range(COUNT):
                    part = sums[o + (TAPS & ((1 << level) - 1))]
                    if (TAPS & ((1 << level) - 1)) > 0:
                        part = part + final[o]
                    added = added + (part,)
                final = added
            if level < LEVELS:
                doubled = ()
                for i in tl.static_range(N - (2 << level) + 1):
                    doubled = doubled + (sums[i] + sums[i + (1 << level)],)
                sums = doubled
    else:
        for o in tl.static_range(COUNT):
            total = sums[o * STRIDE]
            for j in tl.static_range(1, TAPS):
                total = total + sums[o * STRIDE + j]
            final = final + (total,)
    return final


@triton.jit
def part(rows, BEGIN: tl.constexpr, END: tl.constexpr):
    """Some of a tuple."""
    found = ()
    for i in tl.static_range(BEGIN, END):
        found = found + (rows[i],)
    return found


@triton.jit
def run(bests, codes, BEGIN: tl.constexpr, END: tl.constexpr, KIND: tl.constexpr):
    """Some neighbours, folded."""
    MIDDLE: tl.constexpr = (BEGIN + END) // 2
    if END - BEGIN == 1:
        found = (bests[BEGIN], codes[BEGIN])
    else:
        best, code = run(bests, codes, BEGIN, MIDDLE, KIND)
        other, other_code = run(bests, codes, MIDDLE, END, KIND)
        found = argmax_fold(best, code, other, other_code, KIND)
    return found


@triton.jit
def slide_shared(bests, codes, COUNT: tl.constexpr, TAPS: tl.constexpr, KIND: tl.constexpr):
    """As `slide_argmax` and `slide_sum`, of up to TAPS windows that move by one: what they all have
    is folded once, and so is what lies before and after it, from there outwards. These are fewer
    steps, but more of them wait for each other."""
    core, core_code = run(bests, codes, COUNT - 1, TAPS, KIND)
    lefts = ()
    rights = ()
    for i in tl.static_range(COUNT - 1):
        left = (bests[COUNT - 2 - i], codes[COUNT - 2 - i])
        right = (bests[TAPS + i], codes[TAPS + i])
        if i > 0:
            left = argmax_fold(left[0], left[1], lefts[i - 1][0], lefts[i - 1][1], KIND)
            right = argmax_fold(rights[i - 1][0], rights[i - 1][1], right[0], right[1], KIND)
        lefts = lefts + (left,)
        rights = rights + (right,)
    final_bests = ()
    final_codes = ()
    for o in tl.static_range(COUNT):
        best, code = core, core_code
        if o < COUNT - 1:
            best, code = argmax_fold(lefts[COUNT - 2 - o][0], lefts[COUNT - 2 - o][1], best, code, KIND)
        if o > 0:
            best, code = argmax_fold(best, code, rights[o - 1][0], rights[o - 1][1], KIND)
        final_bests = final_bests + (best,)
        final_codes = final_codes + (code,)
    return final_bests, final_codes


@triton.jit
def lowest(KIND: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr):
    """What a fold of V windows begins with, which changes nothing."""
    if KIND == "sum":
        begin = tl.zeros((BLOCK, V), ACC)
    else:
        begin = tl.full((BLOCK, V), float("-inf"), ACC)
        if KIND == "packed":
            begin = packed(begin, LAST)
    return begin


@triton.jit
def unnoted(x, KIND: tl.constexpr, W: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr):
    """What `note` begins with: a trace of the cells, and of the values."""
    COMPARED: tl.constexpr = x.dtype.element_ty.primitive_bitwidth == 16 or W == 1
    TRACE: tl.constexpr = tl.int32 if KIND == "max" and tl.float32 == ACC else tl.int1 if COMPARED else ACC
    return tl.zeros((BLOCK,), TRACE), tl.full((BLOCK,), 1, ACC)


@triton.jit
def note(trace, cells, N: tl.constexpr):
    """What tells that cells are to be visited again, one by one.

    Where maxima are the hardware's, a -0.0, the lowest of all bits, since it takes that for less
    than 0.0. Where cells are compared, a NaN: it makes a sum NaN, which costs less than to compare;
    but of half floats two are compared at once, and of cells that are read one by one the sum waits
    for each.
    """
    for e in tl.static_range(N):
        if trace.dtype == tl.int32:
            trace = tl.minimum(trace, cells[e].to(tl.int32, bitcast=True))
        elif trace.dtype == tl.int1:
            trace = trace | (cells[e] != cells[e])
        else:
            trace = trace + cells[e]
    return trace


@triton.jit
def note_values(smallest, value, V: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """A -0.0 among the cells only matters where a maximum is 0."""
    if KIND == "max" and smallest.dtype == tl.float32:
        parts = pieces(value, V, BLOCK)
        for v in tl.static_range(V):
            smallest = tl.minimum(smallest, tl.abs(parts[v]))
    return smallest


@triton.jit
def doubtful(trace, smallest):
    """Whether what was noted makes it necessary to go over a program's windows again."""
    if trace.dtype == tl.int32:
        doubt = (trace == -1 << 31) & (smallest == 0)
    else:
        doubt = trace if trace.dtype == tl.int1 else trace != trace
    return tl.max(doubt.to(tl.int32), 0) > 0
