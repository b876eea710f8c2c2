"""Exponentials and logarithms to about one unit in the last place, of numbers and of vectors: arithmetic alone, no branch.

An exponential below the least normal number is 0; a logarithm is of 0, a normal number or infinity.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .compiling import PART
from .vectors import cell_of, either, equals, exceeds, greater, lesser, multiply_add, splat


def _real(x):
    return np.float32 if cell_of(x) == types.float32 else np.float64


def exponential(x):
    """exp(x): x = whole·log 2 + r, and e^r by a polynomial.

    The sum with a number of the form 1.5·2^k leaves the nearest whole in its lowest bits, which then are the power's exponent. Bounds are
    such that the power of what lies beyond is 0 or infinite; a NaN goes through all of it.
    """
    raise NotImplementedError


@overload(exponential, strict=False, jit_options=PART)
def _exponential(x):
    real = _real(x)
    log2e = real(1.4426950408889634)
    if real is np.float32:
        magic, least, most, high, low = (
            real(1.5 * 2**23),
            real(-88.0),
            real(88.8),
            real(-0.693359375),
            real(2.12194440e-4),
        )
    else:
        magic, least, most = real(1.5 * 2**52), real(-709.0), real(710.0)
        high, low = real(-0.693145751953125), real(-1.42860682030941723212e-6)

    def exponent(x):
        near, shift = greater(lesser(x, splat(most, x)), splat(least, x)), splat(magic, x)
        shifted = multiply_add(near, splat(log2e, x), shift)
        whole = shifted - shift
        r = multiply_add(whole, splat(low, x), multiply_add(whole, splat(high, x), near))
        return e_to(r) * power_of_two(shifted)

    return exponent


def e_to(r):
    """e^r for |r| ≤ log(2)/2: Cephes' polynomial for float32, Taylor's for float64, in parts that need not wait for one another."""
    raise NotImplementedError


@overload(e_to, strict=False, jit_options=PART)
def _e_to(r):
    real = _real(r)
    one = real(1)
    if real is np.float32:
        a2, a3, a4 = real(5.0000001201e-1), real(1.6666665459e-1), real(4.1665795894e-2)
        a5, a6, a7 = real(8.3334519073e-3), real(1.3981999507e-3), real(1.9875691500e-4)

        def single(r):
            square = r * r
            near = multiply_add(splat(a3, r), r, splat(a2, r))
            far = multiply_add(splat(a5, r), r, splat(a4, r))
            far = multiply_add(multiply_add(splat(a7, r), r, splat(a6, r)), square, far)
            return multiply_add(multiply_add(far, square, near), square, r) + splat(one, r)

        return single
    a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13 = (real(1 / math.factorial(k)) for k in range(2, 14))

    def double(r):
        square = r * r
        fourth = square * square
        a = multiply_add(
            multiply_add(splat(a5, r), r, splat(a4, r)), square, multiply_add(splat(a3, r), r, splat(a2, r))
        )
        b = multiply_add(
            multiply_add(splat(a9, r), r, splat(a8, r)), square, multiply_add(splat(a7, r), r, splat(a6, r))
        )
        c = multiply_add(
            multiply_add(splat(a13, r), r, splat(a12, r)), square, multiply_add(splat(a11, r), r, splat(a10, r))
        )
        p = multiply_add(multiply_add(c, fourth, b), fourth, a)
        return multiply_add(p, square, r) + splat(one, r)

    return double


def logarithm(x):
    """log(x): x = m·2^e with m from √½ to √2, and log m by Cephes' polynomials of f = m - 1."""
    raise NotImplementedError


@overload(logarithm, strict=False, jit_options=PART)
def _logarithm(x):
    real = _real(x)
    one, half, zero, infinity, root = real(1), real(0.5), real(0), real(np.inf), real(math.sqrt(0.5))
    high, low = real(0.693359375), real(-2.121944400546905827679e-4)

    def natural(x):
        m, e, ones = mantissa_of(x), exponent_of(x), splat(one, x)
        small = exceeds(splat(root, x), m)
        e = either(small, e - ones, e)
        f = either(small, m + m, m) - ones
        square = f * f
        y = log_rest(f, square) + e * splat(low, x) - splat(half, x) * square
        y = f + y + e * splat(high, x)
        y = either(exceeds(splat(infinity, x), x), y, x)  # infinity and NaN are their own
        return either(equals(x, splat(zero, x)), splat(-infinity, x), y)

    return natural


def log_rest(f, square):
    """log(1 + f) - f + f²/2."""
    raise NotImplementedError


@overload(log_rest, strict=False, jit_options=PART)
def _log_rest(f, square):
    real = _real(f)
    if real is np.float32:
        b0, b1, b2 = real(7.0376836292e-2), real(-1.1514610310e-1), real(1.1676998740e-1)
        b3, b4, b5 = real(-1.2420140846e-1), real(1.4249322787e-1), real(-1.6668057665e-1)
        b6, b7, b8 = real(2.0000714765e-1), real(-2.4999993993e-1), real(3.3333331174e-1)

        def single(f, square):
            p = multiply_add(multiply_add(splat(b0, f), f, splat(b1, f)), f, splat(b2, f))
            p = multiply_add(multiply_add(p, f, splat(b3, f)), f, splat(b4, f))
            p = multiply_add(multiply_add(p, f, splat(b5, f)), f, splat(b6, f))
            return multiply_add(multiply_add(p, f, splat(b7, f)), f, splat(b8, f)) * f * square

        return single
    p0, p1, p2 = real(1.01875663804580931796e-4), real(4.97494994976747001425e-1), real(4.70579119878881725854)
    p3, p4, p5 = real(1.44989225341610930846e1), real(1.79368678507819816313e1), real(7.70838733755885391666)
    q0, q1, q2 = real(1.12873587189167450590e1), real(4.52279145837532221105e1), real(8.29875266912776603211e1)
    q3, q4 = real(7.11544750618563894466e1), real(2.31251620126765340583e1)

    def double(f, square):
        p = multiply_add(multiply_add(splat(p0, f), f, splat(p1, f)), f, splat(p2, f))
        p = multiply_add(multiply_add(multiply_add(p, f, splat(p3, f)), f, splat(p4, f)), f, splat(p5, f))
        q = multiply_add(multiply_add(f + splat(q0, f), f, splat(q1, f)), f, splat(q2, f))
        q = multiply_add(multiply_add(q, f, splat(q3, f)), f, splat(q4, f))
        return f * (square * p / q)

    return double


def _bits(context, x, builder, value):
    """The bits of floats as integers of the same size, how many of them are a mantissa, and how to write an integer for all cells."""
    size = cell_of(x).bitwidth
    integer = ir.IntType(size)
    kind = ir.VectorType(integer, x.lanes) if hasattr(x, "lanes") else integer

    def constant(number):
        return ir.Constant(kind, [number] * x.lanes if hasattr(x, "lanes") else number)

    return builder.bitcast(value, kind), kind, (23, 127) if size == 32 else (52, 1023), constant


@intrinsic
def power_of_two(typingctx, shifted):
    """2^whole, of a number that has `whole` in its lowest bits."""

    def codegen(context, builder, signature, args):
        bits, _, (mantissa, bias), constant = _bits(context, shifted, builder, args[0])
        return builder.bitcast(builder.shl(builder.add(bits, constant(bias)), constant(mantissa)), args[0].type)

    return shifted(shifted), codegen


@intrinsic
def exponent_of(typingctx, x):
    """e of x = m·2^e with m from ½ to 1."""

    def codegen(context, builder, signature, args):
        bits, _, (mantissa, bias), constant = _bits(context, x, builder, args[0])
        exponent = builder.sub(builder.lshr(bits, constant(mantissa)), constant(bias - 1))
        return builder.sitofp(exponent, args[0].type)

    return x(x), codegen


@intrinsic
def mantissa_of(typingctx, x):
    """m of x = m·2^e with m from ½ to 1."""

    def codegen(context, builder, signature, args):
        bits, _, (mantissa, bias), constant = _bits(context, x, builder, args[0])
        kept = builder.and_(bits, constant((1 << mantissa) - 1))
        return builder.bitcast(builder.or_(kept, constant((bias - 1) << mantissa)), args[0].type)

    return x(x), codegen


def pivot(extreme):
    """The extreme if it is finite, else 0."""
    raise NotImplementedError


@overload(pivot, strict=False, jit_options=PART)
def _pivot(extreme):
    zero = _real(extreme)(0)
    return lambda extreme: either(equals(extreme - extreme, splat(zero, extreme)), extreme, splat(zero, extreme))
