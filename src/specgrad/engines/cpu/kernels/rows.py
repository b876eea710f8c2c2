"""Rows: what every kernel does with one contiguous run of cells, each in loops that a compiler turns into vector instructions.

Rows are pointers with a length. Half floats travel as uint16 and are computed in float32: `half` is 0 for
cells that are what they are, 1 for float16, 2 for bfloat16. Nothing here knows geometry beyond one row.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array

# division by zero gives what IEEE says, and no branch
inline = register_jitable(error_model="numpy")
compiled = njit(nogil=True, error_model="numpy")


@intrinsic
def at(typingctx, cells, offset):
    """A pointer to a cell of an array, or some cells beyond a pointer: no bounds, no reference counts."""

    def codegen(context, builder, signature, args):
        start = args[0]
        if isinstance(cells, types.Array):
            start = make_array(cells)(context, builder, start).data
        return builder.gep(start, [args[1]])

    return types.CPointer(cells.dtype)(cells, types.intp), codegen


@intrinsic
def bits_of(typingctx, cells):
    """The same cells as signed integers of the same size."""
    integer = types.int32 if cells.dtype.bitwidth == 32 else types.int64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(integer)(cells), codegen


@inline
def bits_to_float(bits):
    return np.uint32(bits).view(np.float32)


@inline
def float_to_bits(number):
    return np.float32(number).view(np.uint32)


@inline
def widen_bfloat16(bits):
    return bits_to_float(np.uint32(bits) << np.uint32(16))


@inline
def narrow_bfloat16(number):
    """The nearest bfloat16, ties to even; a NaN keeps its upper bits and stays a NaN."""
    bits = float_to_bits(number)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = bits >> np.uint32(16)
    quiet = quiet | (np.uint32(0x40) if (quiet & np.uint32(0x7F)) == np.uint32(0) else np.uint32(0))
    return np.uint16(quiet if number != number else rounded)


@inline
def widen_float16(bits):
    """Exact, by integers: a multiplication by 2^112 moves the exponent and makes subnormal numbers normal."""
    magnitude = (np.uint32(bits) & np.uint32(0x7FFF)) << np.uint32(13)
    finite = float_to_bits(bits_to_float(magnitude) * bits_to_float(np.uint32(0x77800000)))
    special = magnitude | np.uint32(0x7F800000)
    sign = (np.uint32(bits) & np.uint32(0x8000)) << np.uint32(16)
    return bits_to_float(sign | (special if magnitude >= np.uint32(0x0F800000) else finite))


@inline
def narrow_float16(number):
    """The nearest float16, ties to even; a NaN keeps its upper bits and stays a NaN."""
    bits = float_to_bits(number)
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    # below 2^-14 the sum with 1/2 leaves the subnormal half in the low bits, rounded by the addition itself
    subnormal = float_to_bits(bits_to_float(magnitude) + np.float32(0.5)) - np.uint32(0x3F000000)
    even = (magnitude >> np.uint32(13)) & np.uint32(1)
    normal = (magnitude - np.uint32(0x38000000) + np.uint32(0xFFF) + even) >> np.uint32(13)
    finite = subnormal if magnitude < np.uint32(0x38800000) else normal
    finite = np.uint32(0x7C00) if magnitude >= np.uint32(0x477FF000) else finite
    payload = (magnitude >> np.uint32(13)) & np.uint32(0x3FF)
    payload = payload if payload != np.uint32(0) else np.uint32(0x200)
    return np.uint16(sign | (np.uint32(0x7C00) | payload if number != number else finite))


def read(source, step, inner, inner_step, half, target, n):
    """target = n cells of `source`: runs of `inner` cells `inner_step` apart, the runs `step` apart; half floats widened."""
    raise NotImplementedError


@overload(read, strict=False, jit_options={"error_model": "numpy"})
def _read(source, step, inner, inner_step, half, target, n):
    if source.dtype == target.dtype:

        def same(source, step, inner, inner_step, half, target, n):
            if inner == 1:
                for i in range(n):
                    target[i] = source[i * step]
            else:
                for run in range(n // inner):
                    cells, part = at(source, run * step), at(target, run * inner)
                    for i in range(inner):
                        part[i] = cells[i * inner_step]

        return same

    def widened(source, step, inner, inner_step, half, target, n):
        if inner == 1:
            inner, inner_step, step = n, step, 0
        for run in range(n // max(inner, 1)):
            cells, part = at(source, run * step), at(target, run * inner)
            if half == 1:
                for i in range(inner):
                    part[i] = widen_float16(cells[i * inner_step])
            else:
                for i in range(inner):
                    part[i] = widen_bfloat16(cells[i * inner_step])

    return widened


def widen(cell, half, sample):
    """A cell as the number of the sample's type that it is computed as."""
    raise NotImplementedError


@overload(widen, strict=False, jit_options={"error_model": "numpy"})
def _widen(cell, half, sample):
    if cell == sample.dtype:
        return lambda cell, half, sample: cell
    return lambda cell, half, sample: widen_float16(cell) if half == 1 else widen_bfloat16(cell)


def place(flat, offset, spare):
    """Where a row is to be computed: in place if cells are computed as they are stored, else in the spare row."""
    raise NotImplementedError


@overload(place, strict=False, jit_options={"error_model": "numpy"})
def _place(flat, offset, spare):
    if flat.dtype == spare.dtype:
        return lambda flat, offset, spare: at(flat, offset)
    return lambda flat, offset, spare: at(spare, 0)


def settle(row, n, half, flat, offset):
    """Round a row that was computed apart into where it belongs."""
    raise NotImplementedError


@overload(settle, strict=False, jit_options={"error_model": "numpy"})
def _settle(row, n, half, flat, offset):
    if row.dtype == flat.dtype:
        return lambda row, n, half, flat, offset: None

    def narrowed(row, n, half, flat, offset):
        target = at(flat, offset)
        if half == 1:
            for i in range(n):
                target[i] = narrow_float16(row[i])
        else:
            for i in range(n):
                target[i] = narrow_bfloat16(row[i])

    return narrowed


def row_at(flat, offset, ring, slot, staged):
    """A row where it lies, or its staged copy in the ring."""
    raise NotImplementedError


@overload(row_at, strict=False, jit_options={"error_model": "numpy"})
def _row_at(flat, offset, ring, slot, staged):
    if flat.dtype == ring.dtype:
        return lambda flat, offset, ring, slot, staged: at(ring, slot) if staged else at(flat, offset)
    return lambda flat, offset, ring, slot, staged: at(ring, slot)


def is_plain(row, n):
    """Whether a row holds neither a NaN nor a -0.0, so that the order in which a maximum is folded leaves no trace."""
    raise NotImplementedError


@overload(is_plain, strict=False, jit_options={"error_model": "numpy"})
def _is_plain(row, n):
    if not isinstance(row.dtype, types.Float):
        return lambda row, n: True
    integer = np.int32 if row.dtype.bitwidth == 32 else np.int64
    minus_zero = np.iinfo(integer).min
    no_sign = integer(~minus_zero)
    minus_zero, infinity = integer(minus_zero), integer(0x7F800000 if integer is np.int32 else 0x7FF0000000000000)

    def scan(row, n):
        bits = bits_of(row)
        lowest, highest = integer(0), integer(0)
        for i in range(n):
            b = bits[i]
            lowest = b if b < lowest else lowest
            magnitude = integer(b & no_sign)
            highest = magnitude if magnitude > highest else highest
        return lowest != minus_zero and highest <= infinity

    return scan


@intrinsic
def greater(typingctx, a, b):
    """The greater of two numbers; a NaN if either is one, and 0.0 of 0.0 and -0.0."""
    if isinstance(a, types.Float):

        def codegen(context, builder, signature, args):
            double = args[0].type
            name = "llvm.maximum.f32" if a.bitwidth == 32 else "llvm.maximum.f64"
            declared = cgutils.get_or_insert_function(builder.module, ir.FunctionType(double, [double, double]), name)
            return builder.call(declared, args)
    else:

        def codegen(context, builder, signature, args):
            compare = builder.icmp_signed if a.signed else builder.icmp_unsigned
            return builder.select(compare(">", args[1], args[0]), args[1], args[0])

    return a(a, a), codegen


@intrinsic
def beats(typingctx, later, earlier):
    """Whether a later cell takes the lead from an earlier one: if it is strictly greater, or NaN."""

    def codegen(context, builder, signature, args):
        if isinstance(later, types.Float):
            return builder.or_(builder.fcmp_ordered(">", *args), builder.fcmp_unordered("uno", args[0], args[0]))
        return (builder.icmp_signed if later.signed else builder.icmp_unsigned)(">", *args)

    return types.boolean(later, later), codegen


@intrinsic
def plus(typingctx, a, b):
    """a + b in their own type: Numba would widen integers."""

    def codegen(context, builder, signature, args):
        return builder.add(*args)

    return a(a, a), codegen


@intrinsic
def narrow(typingctx, number):
    """A small integer as a byte."""

    def codegen(context, builder, signature, args):
        return builder.trunc(args[0], context.get_value_type(types.uint8))

    return types.uint8(number), codegen


@intrinsic
def either(typingctx, condition, a, b):
    """a if the condition holds, else b: both are computed, so that no branch keeps a loop from being vector instructions."""

    def codegen(context, builder, signature, args):
        return builder.select(*args)

    return a(types.boolean, a, a), codegen


def combine(a, b, maximum):
    """a + b where `maximum` is None, else the greater."""
    raise NotImplementedError


@overload(combine, strict=False, jit_options={"error_model": "numpy"})
def _combine(a, b, maximum):
    if isinstance(maximum, types.NoneType):
        return lambda a, b, maximum: a + b
    return lambda a, b, maximum: greater(a, b)


@intrinsic
def nearest_to_zero(typingctx, so_far, number):
    """min(so_far, |number|), or NaN if either is one."""

    def codegen(context, builder, signature, args):
        real = args[1].type
        suffix = "f32" if number.bitwidth == 32 else "f64"
        absolute = cgutils.get_or_insert_function(builder.module, ir.FunctionType(real, [real]), f"llvm.fabs.{suffix}")
        least = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(real, [real, real]), f"llvm.minimum.{suffix}"
        )
        return builder.call(least, [args[0], builder.call(absolute, [args[1]])])

    return number(number, number), codegen


def watch(so_far, number, maximum):
    """Keep an eye on maxima: what this returns is 0 or NaN once one was; then the order of folding may show in it."""
    raise NotImplementedError


@overload(watch, strict=False, jit_options={"error_model": "numpy"})
def _watch(so_far, number, maximum):
    if isinstance(maximum, types.NoneType) or not isinstance(number, types.Float):
        return lambda so_far, number, maximum: so_far
    return lambda so_far, number, maximum: nearest_to_zero(so_far, number)


@intrinsic
def quotient(typingctx, a, b, reciprocal):
    """a / b, rounded once, given 1/b rounded: a product and two corrections are far quicker than a division."""

    def codegen(context, builder, signature, args):
        number = args[0].type
        name = "llvm.fma.f32" if a.bitwidth == 32 else "llvm.fma.f64"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number] * 3), name)
        rough = builder.fmul(args[0], args[2])
        error = builder.call(fma, [builder.fneg(rough), args[1], args[0]])
        finite = builder.fcmp_ordered("ord", error, error)  # an infinite quotient needs no correction
        return builder.select(finite, builder.call(fma, [error, args[2], rough]), rough)

    return a(a, a, a), codegen


@inline
def fill(target, n, number):
    for i in range(n):
        target[i] = number


@inline
def copy(target, n, source):
    for i in range(n):
        target[i] = source[i]


@inline
def fold2(target, n, a, b, maximum):
    for i in range(n):
        target[i] = combine(a[i], b[i], maximum)


@inline
def into2(target, n, a, maximum):
    for i in range(n):
        target[i] = combine(target[i], a[i], maximum)


@inline
def into3(target, n, a, b, maximum):
    for i in range(n):
        target[i] = combine(combine(target[i], a[i], maximum), b[i], maximum)


@inline
def fold3(target, n, a, b, c, maximum):
    for i in range(n):
        target[i] = combine(combine(a[i], b[i], maximum), c[i], maximum)


@inline
def fold5(target, n, a, b, c, d, e, maximum):
    for i in range(n):
        left = combine(combine(a[i], b[i], maximum), c[i], maximum)
        target[i] = combine(left, combine(d[i], e[i], maximum), maximum)


@inline
def slide(source, spare, room, target, n, taps, shift, maximum):
    """target[i] = fold over j < taps of source[i + j*shift], for i < n; `spare` has room for two rows of `room` cells."""
    a, b, c, d = at(source, shift), at(source, 2 * shift), at(source, 3 * shift), at(source, 4 * shift)
    if taps == 1:
        copy(target, n, source)
    elif taps == 2:
        fold2(target, n, source, a, maximum)
    elif taps <= 4:
        fold3(target, n, source, a, b, maximum)
        if taps == 4:
            into2(target, n, c, maximum)
    elif taps <= 7:
        fold5(target, n, source, a, b, c, d, maximum)
        if taps == 6:
            into2(target, n, at(source, 5 * shift), maximum)
        elif taps == 7:
            into3(target, n, at(source, 5 * shift), at(source, 6 * shift), maximum)
    else:
        slide_by_doubling(source, spare, room, target, n, taps, shift, maximum)


@inline
def slide_by_doubling(source, spare, room, target, n, taps, shift, maximum):
    """As `slide`, by runs of 1, 2, 4, … taps: a sum adds the runs that make up `taps`, a maximum lets the last two overlap."""
    done, run, half = 0, 1, 0
    current = source
    while 2 * run < taps or (maximum is None and 2 * run == taps):
        if maximum is None and taps & run:
            if done == 0:
                copy(target, n, current)
            else:
                into2(target, n, at(current, done * shift), maximum)
            done += run
        length = n + (taps - 2 * run) * shift
        doubled = at(spare, half * room)
        fold2(doubled, length, current, at(current, run * shift), maximum)
        current, half, run = doubled, 1 - half, 2 * run
    if maximum is None:
        if done == 0:
            copy(target, n, current)
        else:
            into2(target, n, at(current, done * shift), maximum)
    else:
        fold2(target, n, current, at(current, (taps - run) * shift), maximum)
