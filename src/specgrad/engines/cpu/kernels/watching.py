"""NaN and -0.0: where a maximum has them among its cells, the order in which it is folded shows. Two ways to find out whether it has.

`watch` looks at the maxima: if one is NaN or 0, the cells are searched for -0.0. An eye looks at the cells: if one is -0.0, the maxima are searched for 0.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from .access import get, lanes
from .compiling import PART, inline
from .vectors import (
    DROPS_NAN,
    call,
    cell_of,
    differs,
    either,
    half_sums,
    least,
    least_of,
    lesser,
    lesser_half,
    like,
    splat,
)


@intrinsic
def watch(typingctx, so_far, number, maximum):
    """Keep an eye on maxima: min(so_far, |number|), which is 0 or NaN once one was; then the order of folding may show in it."""
    blind = isinstance(maximum, types.NoneType) or not isinstance(cell_of(number), types.Float)

    def codegen(context, builder, signature, args):
        return args[0] if blind else least(builder, number, args[0], call(builder, "fabs", number, args[1:2]))

    return so_far(so_far, number, maximum), codegen


def is_watched(so_far, maximum):
    """Whether a watched maximum was 0 or NaN."""
    raise NotImplementedError


@overload(is_watched, strict=False, jit_options=PART)
def _is_watched(so_far, maximum):
    if isinstance(maximum, types.NoneType) or not isinstance(cell_of(so_far), types.Float):
        return lambda so_far, maximum: False
    return lambda so_far, maximum: not least_of(so_far) > 0


@intrinsic
def bits_in(typingctx, cells):
    """Floats as the signed integers of the same bits."""
    kind = like(cells, types.int32 if cell_of(cells).bitwidth == 32 else types.int64)

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(kind))

    return kind(cells), codegen


def opened(cells, maximum):
    """An eye that has seen nothing yet: a sum, which is NaN once a cell was (and where infinities of both signs meet), and the least of the cells' bits."""
    raise NotImplementedError


@overload(opened, strict=False, jit_options=PART)
def _opened(cells, maximum):
    if isinstance(maximum, types.NoneType) or not isinstance(cell_of(cells), types.Float):
        return lambda cells, maximum: None
    integer = np.int32 if cell_of(cells).bitwidth == 32 else np.int64
    return lambda cells, maximum: (half_sums(cells), splat(integer(0), half_sums(cells)))


def look(eye, one, other):
    """What an eye has seen that looks at the signs of zeros among two vectors of cells."""
    raise NotImplementedError


@overload(look, strict=False, jit_options=PART)
def _look(eye, one, other):
    if isinstance(eye, types.NoneType):
        return lambda eye, one, other: eye

    def seen(eye, one, other):
        sums, bits = eye
        return sums, lesser(bits, lesser_half(lesser(bits_in(one), bits_in(other))))

    return seen


def look_for_nan(eye, maxima, sums):
    """What an eye has seen that looks for NaN among cells, of which it is given maxima and sums: it needs the sums if a maximum drops NaN."""
    raise NotImplementedError


@overload(look_for_nan, strict=False, jit_options=PART)
def _look_for_nan(eye, maxima, sums):
    if isinstance(eye, types.NoneType):
        return lambda eye, maxima, sums: eye

    def seen(eye, maxima, sums):
        total, bits = eye
        return total + half_sums(sums if DROPS_NAN else maxima), bits

    return seen


def saw_nan(eye):
    """Whether a cell was NaN."""
    raise NotImplementedError


@overload(saw_nan, strict=False, jit_options=PART)
def _saw_nan(eye):
    if isinstance(eye, types.NoneType):
        return lambda eye: False

    def was_nan(eye):
        total, _ = eye
        return is_spotted(total)

    return was_nan


def saw_minus_zero(eye):
    """Whether a cell was -0.0, the least of all as an integer."""
    raise NotImplementedError


@overload(saw_minus_zero, strict=False, jit_options=PART)
def _saw_minus_zero(eye):
    if isinstance(eye, types.NoneType):
        return lambda eye: False
    least = np.iinfo(np.int32 if eye[1].dtype.bitwidth == 32 else np.int64).min

    def was_least(eye):
        _, bits = eye
        return least_of(bits) == least

    return was_least


def spot(so_far, number):
    """Keep an eye on cells: what this returns is NaN once one was."""
    raise NotImplementedError


@overload(spot, strict=False, jit_options=PART)
def _spot(so_far, number):
    if not isinstance(cell_of(number), types.Float):
        return lambda so_far, number: so_far
    return lambda so_far, number: either(differs(number, number), number, so_far)


def is_spotted(so_far):
    """Whether a cell was NaN."""
    raise NotImplementedError


@overload(is_spotted, strict=False, jit_options=PART)
def _is_spotted(so_far):
    if not isinstance(cell_of(so_far), types.Float):
        return lambda so_far: False
    return lambda so_far: not least_of(so_far) == least_of(so_far)  # noqa: SIM201 - of NaN


def holds_minus_zero(row, n):
    """Whether a cell of a row is -0.0: as an integer, the least of all."""
    raise NotImplementedError


@overload(holds_minus_zero, strict=False, jit_options=PART)
def _holds_minus_zero(row, n):
    if not isinstance(row.dtype, types.Float):
        return lambda row, n: False
    integer = np.int32 if row.dtype.bitwidth == 32 else np.int64
    least, none = integer(np.iinfo(integer).min), integer(0)

    def scan(row, n):
        step, lowest, done = lanes(row), none, 0
        if n >= step:
            so_far = bits_in(get(row, n - step))
            for i in range(0, n - step, step):
                so_far = lesser(so_far, bits_in(get(row, i)))
            lowest, done = least_of(so_far), n
        for i in range(done, n):
            lowest = lesser(lowest, bits_in(row[i]))
        return lowest == least

    return scan


@inline
def holds_zero(row, n):
    """Whether a cell of a row is 0.0 or -0.0."""
    met = False
    for i in range(n):
        met |= row[i] == 0
    return met


@inline
def holds_nan(row, n):
    """Whether a cell of a row is NaN."""
    met = False
    for i in range(n):
        met |= row[i] != row[i]
    return met
