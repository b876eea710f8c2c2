"""Reductions of numbers in registers: sums, maxima, and maxima with the codes of winners; and the
check for special values.

Reductions of overlapping windows double: windows of 2, 4, 8 …, of which two overlapping ones give a
maximum, disjoint ones a sum. Or the windows' common part is reduced once. Maxima without codes use
the hardware's instruction if there is one (not for doubles). Winners of half floats are packed with
their codes in one integer.
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
"""The largest code that can be packed."""


@triton.jit
def packed(cell, code):
    """A half float (as a float32) and a code in one integer, which orders by number, then by lower
    code.

    A half float leaves at least 13 bits of a float32: twelve for the code and one for the sign,
    since -0.0 equals 0.0.
    """
    bits = cell.to(tl.int32, bitcast=True)
    sign = bits >> 31
    return (bits ^ (sign & 0x7FFFFFFF)) - sign * 2 + (LAST - code) * 2


@triton.jit
def unpacked(key):
    """The number and the code of a packed integer."""
    low = key & 0x1FFF
    return (tl.abs(key - low) | (low << 31)).to(tl.float32, bitcast=True), LAST - (low >> 1)


@triton.jit
def overtaken(best, code, other, other_code):
    """The greater of two numbers and its code, the first of equals: one comparison and two
    conditional additions of -0.0. Adding -0.0 copies the bits, also of a code as a float. Hardware
    has twice as many units for additions as for comparisons or selections."""
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
    """The sum or the greater of two, the first of equals; NaN wins only in hardware maxima. For
    zeros see `note`.

    "rivals" are winners in kernels bound by comparisons rather than by reads.
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
    """Reduce numbers to COUNT windows of TAPS numbers; codes already include the offsets. SHARE
    "pairs": for 3 or 5 taps, two windows share their common part, which takes fewer steps than
    doubling."""
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
    """Sums of COUNT windows of TAPS terms, without subtraction."""
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
    """The elements BEGIN … END of a tuple."""
    found = ()
    for i in tl.static_range(BEGIN, END):
        found = found + (rows[i],)
    return found


@triton.jit
def run(bests, codes, BEGIN: tl.constexpr, END: tl.constexpr, KIND: tl.constexpr):
    """The reduction of neighbours BEGIN … END."""
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
    """`slide_argmax` and `slide_sum` for up to TAPS windows with stride 1: the common part is
    reduced once, and the parts before and after it outwards. This takes fewer steps, but with
    longer dependencies."""
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
    """The neutral element of a reduction, for V windows."""
    if KIND == "sum":
        begin = tl.zeros((BLOCK, V), ACC)
    else:
        begin = tl.full((BLOCK, V), float("-inf"), ACC)
        if KIND == "packed":
            begin = packed(begin, LAST)
    return begin


@triton.jit
def unnoted(x, KIND: tl.constexpr, W: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr):
    """The initial traces of `note`: of the cells, and of the values."""
    COMPARED: tl.constexpr = x.dtype.element_ty.primitive_bitwidth == 16 or W == 1
    TRACE: tl.constexpr = tl.int32 if KIND == "max" and tl.float32 == ACC else tl.int1 if COMPARED else ACC
    return tl.zeros((BLOCK,), TRACE), tl.full((BLOCK,), 1, ACC)


@triton.jit
def note(trace, cells, N: tl.constexpr):
    """Update the trace, which tells whether the windows must be recomputed cell by cell.

    For hardware maxima the trace finds -0.0, whose bits are the lowest integer, since the hardware
    orders -0.0 below 0.0. For comparisons the trace finds NaN by a sum, which costs less than a
    comparison. Two half floats are compared at once, though, and for single cells the sum would
    have to wait for each.
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
    """Update the least |value|: a -0.0 among the cells only matters if a maximum is 0."""
    if KIND == "max" and smallest.dtype == tl.float32:
        parts = pieces(value, V, BLOCK)
        for v in tl.static_range(V):
            smallest = tl.minimum(smallest, tl.abs(parts[v]))
    return smallest


@triton.jit
def doubtful(trace, smallest):
    """Whether the traces require recomputing a program's windows."""
    if trace.dtype == tl.int32:
        doubt = (trace == -1 << 31) & (smallest == 0)
    else:
        doubt = trace if trace.dtype == tl.int1 else trace != trace
    return tl.max(doubt.to(tl.int32), 0) > 0
