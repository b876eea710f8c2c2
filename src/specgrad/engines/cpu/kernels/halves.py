"""Cells as they are stored and as they are computed: half floats travel as uint16 and are computed in float32.

`half` is 0 for cells that are what they are, 1 for float16, 2 for bfloat16.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from .access import at
from .compiling import PART, inline
from .rows import copy


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


@overload(read, strict=False, jit_options=PART)
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


@overload(widen, strict=False, jit_options=PART)
def _widen(cell, half, sample):
    if cell == sample.dtype:
        return lambda cell, half, sample: cell
    return lambda cell, half, sample: widen_float16(cell) if half == 1 else widen_bfloat16(cell)


def place(flat, offset, spare):
    """Where a row is to be computed: in place if cells are computed as they are stored, else in the spare row."""
    raise NotImplementedError


@overload(place, strict=False, jit_options=PART)
def _place(flat, offset, spare):
    if flat.dtype == spare.dtype:
        return lambda flat, offset, spare: at(flat, offset)
    return lambda flat, offset, spare: at(spare, 0)


def settle(row, n, half, flat, offset):
    """Round a row that was computed apart into where it belongs."""
    raise NotImplementedError


@overload(settle, strict=False, jit_options=PART)
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


def write_out(row, n, half, flat, offset):
    """Write a row that was computed apart to where it belongs."""
    raise NotImplementedError


@overload(write_out, strict=False, jit_options=PART)
def _write_out(row, n, half, flat, offset):
    if row.dtype == flat.dtype:
        return lambda row, n, half, flat, offset: copy(at(flat, offset), n, row)
    return lambda row, n, half, flat, offset: settle(row, n, half, flat, offset)
