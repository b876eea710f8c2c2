"""Exponentials and logarithms of numbers and vectors, to about one unit in the last place, by
arithmetic without branches.

An exponential below the smallest normal number is 0. The argument of a logarithm is 0, a normal
number or infinity.
Polynomials are Cephes' (float32, and all logarithms) and Taylor's (the float64 exponential).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .builder import Kernel
from .values import F32, I32, I64, Value, constant

SINGLE_EXP = (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
DOUBLE_EXP = tuple(1 / math.factorial(n) for n in range(2, 14))
SINGLE_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
DOUBLE_LOG = (
    *(1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854),
    *(1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666),
)
DOUBLE_LOG_UNDER = (
    *(1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1),
    *(7.11544750618563894466e1, 2.31251620126765340583e1),
)


def fma(k: Kernel, a: Value, b: Value, c: Value) -> Value:
    """a*b + c, rounded once."""
    return k.call("llvm.fma.{}", a.type, a, b, c)


def exp(k: Kernel, x: Value) -> Value:
    """e^x: x = whole·log 2 + r, and e^r by a polynomial.

    The sum with a number of the form 1.5·2^n leaves the nearest whole in its lowest bits, which
    then are the power's exponent. Bounds are such that the power of what lies beyond is 0 or
    infinite; a NaN goes through all of it.
    """
    single = x.element == F32
    magic, least, most = (1.5 * 2**23, -88.0, 88.8) if single else (1.5 * 2**52, -709.0, 710.0)
    high, low = (-0.693359375, 2.12194440e-4) if single else (-0.693145751953125, -1.42860682030941723212e-6)
    near = k.select(x > most, most, x)
    near = k.select(near < least, least, near)
    shifted = fma(k, near, like(x, math.log2(math.e)), like(x, magic))
    whole = shifted - magic
    r = fma(k, whole, like(x, low), fma(k, whole, like(x, high), near))
    return _e_to(k, r, SINGLE_EXP if single else DOUBLE_EXP) * _power_of_two(k, shifted)


def _e_to(k: Kernel, r: Value, terms: Sequence[float]) -> Value:
    """e^r for |r| ≤ log(2)/2: 1 + r + r²·p(r), where p is evaluated in parts that need not wait for
    one another."""
    square = r * r
    parts = [fma(k, like(r, terms[i + 1]), r, like(r, terms[i])) for i in range(0, len(terms), 2)]
    power = square
    while len(parts) > 1:
        joined = [fma(k, parts[i + 1], power, parts[i]) for i in range(0, len(parts) - 1, 2)]
        parts = joined + parts[len(joined) * 2 :]
        power = power * power
    return fma(k, parts[0], square, r) + 1


def log(k: Kernel, x: Value) -> Value:
    """log x: x = m·2^e with m from √½ to √2, and log m by a polynomial of f = m - 1."""
    m, e = _parts(k, x)
    small = m < math.sqrt(0.5)
    e = k.select(small, e - 1.0, e)
    f = k.select(small, m + m, m) - 1.0
    square = f * f
    if x.element == F32:
        rest = _polynomial(k, f, SINGLE_LOG) * f * square
    else:
        rest = f * (square * _polynomial(k, f, DOUBLE_LOG) / _polynomial(k, f, DOUBLE_LOG_UNDER))
    y = rest + e * -2.121944400546905827679e-4 - square * 0.5
    y = f + y + e * 0.693359375
    y = k.select(x < math.inf, y, x)  # infinity and NaN are their own
    return k.select(x.equals(0.0), -math.inf, y)


def like(x: Value, number: float) -> Value:
    """A constant of the type of x."""
    return Value(x.kernel, constant(x.type, number))


def _polynomial(k: Kernel, f: Value, terms: Sequence[float]) -> Value:
    total = like(f, terms[0])
    for term in terms[1:]:
        total = fma(k, total, f, like(f, term))
    return total


def _format(x: Value) -> tuple[object, int, int]:
    """The integers that hold the bits of floats, how many of them are a mantissa, and the bias of
    the exponent."""
    return (I32, 23, 127) if x.element == F32 else (I64, 52, 1023)


def _power_of_two(k: Kernel, shifted: Value) -> Value:
    """2^whole, of a number that has `whole` in its lowest bits."""
    word, mantissa, bias = _format(shifted)
    bits = k.bits(shifted, word) + bias
    return k.bits(bits << mantissa, shifted.element)


def _parts(k: Kernel, x: Value) -> tuple[Value, Value]:
    """m and e of x = m·2^e with m from ½ to 1."""
    word, mantissa, bias = _format(x)
    bits = k.bits(x, word)
    e = (bits >> mantissa) - (bias - 1)
    m = (bits & ((1 << mantissa) - 1)) | ((bias - 1) << mantissa)
    return k.bits(m, x.element), k.cast(e, x.element)
