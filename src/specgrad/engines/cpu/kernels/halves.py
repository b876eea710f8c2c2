"""Cells as they are stored and as they are computed: half floats travel as uint16 and are computed in float32.

`half` is 0 for cells that are what they are, 1 for float16, 2 for bfloat16.
"""

from __future__ import annotations

import platform

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, overload

from .access import at, get, get_with, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, take
from .vectors import Vector, folded, greater, like
from .watching import is_spotted, spot


def converts_halves() -> bool:
    """Whether the processor that kernels are compiled for has instructions for float16."""
    told = numba.config.CPU_FEATURES
    features = get_host_cpu_features() if told is None else told
    return platform.machine().lower() in ("aarch64", "arm64") or "+f16c" in features


INFINITE = np.uint16(0x7C00)
IN_HARDWARE = True if converts_halves() else None  # None is compiled without


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


@intrinsic
def float16(typingctx, halves):
    """Halves, or one, as float32, by instructions that make every NaN a quiet one."""
    wide = like(halves, types.float32)

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(ir.HalfType(), halves.lanes) if isinstance(halves, Vector) else ir.HalfType()
        return builder.fpext(builder.bitcast(args[0], kind), context.get_value_type(wide))

    return wide(halves), codegen


@intrinsic
def bfloat16(typingctx, halves):
    """A vector of halves as float32."""
    wide = like(halves, types.float32)

    def codegen(context, builder, signature, args):
        integers = ir.VectorType(ir.IntType(32), halves.lanes)
        bits = builder.shl(builder.zext(args[0], integers), integers([16] * halves.lanes))
        return builder.bitcast(bits, context.get_value_type(wide))

    return wide(halves), codegen


@intrinsic
def magnitudes(typingctx, halves):
    """A vector of halves without their signs."""

    def codegen(context, builder, signature, args):
        return builder.and_(args[0], args[0].type([0x7FFF] * halves.lanes))

    return halves(halves), codegen


@intrinsic
def put_float16(typingctx, cells, i, vector):
    """Round a vector of float32 into the cells from i on, by instructions that make every NaN a quiet one."""

    def codegen(context, builder, signature, args):
        halves = ir.VectorType(ir.HalfType(), 16)
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), halves.as_pointer())
        builder.store(builder.fptrunc(args[2], halves), pointer).align = 2
        return context.get_dummy_value()

    return types.void(cells, types.intp, vector), codegen


@intrinsic
def put_bfloat16(typingctx, cells, i, vector):
    """Round a vector of float32 into the cells from i on, ties to even; a NaN may become infinite."""

    def codegen(context, builder, signature, args):
        wide, halves = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(16), 16)

        def every(number):
            return wide([number] * 16)

        bits = builder.bitcast(args[2], wide)
        odd = builder.and_(builder.lshr(bits, every(16)), every(1))
        nearest = builder.lshr(builder.add(builder.add(bits, every(0x7FFF)), odd), every(16))
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), halves.as_pointer())
        builder.store(builder.trunc(nearest, halves), pointer).align = 2
        return context.get_dummy_value()

    return types.void(cells, types.intp, vector), codegen


@inline
def widen_row(source, half, target, n):
    """target = n neighbouring halves."""
    step = lanes(target)
    if n >= step and (half == 2 or IN_HARDWARE is not None):
        like_these = get(target, 0)
        greatest = magnitudes(get_with(source, 0, like_these))
        for start in range(0, n, step):
            i = min(start, n - step)
            cells = get_with(source, i, like_these)
            if half == 2:
                put(target, i, bfloat16(cells))
            else:
                put(target, i, float16(cells))
                greatest = greater(greatest, magnitudes(cells))
        if half == 2 or folded(greatest, True) <= INFINITE:
            return
    for i in range(n):  # a NaN keeps its bits
        target[i] = widen_bfloat16(source[i]) if half == 2 else widen_float16(source[i])


@inline
def narrow_row(row, half, target, n):
    """target = a row, rounded to halves."""
    step = lanes(row)
    if n >= step and (half == 2 or IN_HARDWARE is not None):
        seen = get(row, 0)
        for start in range(0, n, step):
            i = min(start, n - step)
            wide = get(row, i)
            seen = spot(seen, wide)
            if half == 2:
                put_bfloat16(target, i, wide)
            else:
                put_float16(target, i, wide)
        if not is_spotted(seen):
            return
    for i in range(n):  # a NaN keeps its bits
        target[i] = rounded(row[i], half)


def widen(cell, half):
    """A half as float32; a NaN may become a quiet one."""
    raise NotImplementedError


@overload(widen, strict=False, jit_options=PART)
def _widen(cell, half):
    if IN_HARDWARE:
        return lambda cell, half: float16(cell) if half == 1 else widen_bfloat16(cell)
    return lambda cell, half: widen_float16(cell) if half == 1 else widen_bfloat16(cell)


@inline
def rounded(number, half):
    """The nearest half; a NaN keeps its bits."""
    return narrow_bfloat16(number) if half == 2 else narrow_float16(number)


def convert_row(source, half, target, n):
    """target = halves in float32, or float32 rounded to halves, by their types."""
    raise NotImplementedError


@overload(convert_row, strict=False, jit_options=PART)
def _convert_row(source, half, target, n):
    if isinstance(source.dtype, types.Integer):
        return lambda source, half, target, n: widen_row(source, half, target, n)
    return lambda source, half, target, n: narrow_row(source, half, target, n)


@compiled
def convert_cells(source, target, half, tasks, counter, crew, turn):
    """target = halves in float32, or float32 rounded to halves, in ranges of cells."""
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 0], tasks[t, 1]
        convert_row(at(source, start), half, at(target, start), stop - start)
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def send_cells(source, target, half, tasks, counter, crew, turn):
    """target = the bits of 0 + each half, in ranges of cells."""
    infinite, quiet = (INFINITE, np.uint16(0x200)) if half == 1 else (np.uint16(0x7F80), np.uint16(0x40))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        cells, to = at(source, tasks[t, 0]), at(target, tasks[t, 0])
        for i in range(tasks[t, 1] - tasks[t, 0]):
            magnitude = np.uint16(cells[i] & np.uint16(0x7FFF))
            number = cells[i] if magnitude > np.uint16(0) else np.uint16(0)
            to[i] = np.uint16(number | quiet) if magnitude > infinite else number
        t = take(counter)
    disband(counter, crew, turn, False)
