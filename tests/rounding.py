"""A scalar that carries its exact value and a bound of the error of any float64 (or float32)
evaluation.

A number is (v, m, e, n): the value v to 200 bits; a magnitude m, the sum of the absolute values of
its monomials, so that |v| ≤ m; a bound e of the error; and the number n of terms of an open sum.
With u = 2^-53 (2^-24):

- a + b stays open: magnitudes, errors and terms add up. A sum is closed when it is used. In any
  order, each of its n terms passes at most n - 1 additions, so the loss is at most γ(n) (m + e),
  γ(n) = n u / (1 - n u).
- a b: m = m_a m_b, and the error is m_a e_b + m_b e_a + e_a e_b plus at most 4 roundings (a mean
  divided once per axis, or multiplied by a rounded reciprocal, and a factor 2 in a square's
  slope). As m ignores cancellation, the bound also holds if one library multiplies a sum and the
  other sums the products.
- a / b: a times 1/b, where b differs from 0 by more than its error.
- exp, log, sqrt, tanh, erf and powers: the argument's error times the slope, plus 8 roundings: 2
  for a library's last bit, the others for a weight computed as exp(x - logsumexp) instead of a
  quotient. The exponent is β(x - shift), with magnitude |β|(m_x + |shift|), which covers a product
  computed first.

A comparison that the errors leave undecided (unless a number is compared with itself) ends the
example, since the slopes of both branches would be right.
"""

import contextlib
import functools
import math
import operator
import sys
from fractions import Fraction

import flint
import numpy as np
from hypothesis import reject

from specgrad.scalars import HOMES
from specgrad.scalars.base import Elements, quotient

PRODUCT, FUNCTION = 4, 8  # roundings


def of_numbers(method):
    """An operation that returns NotImplemented for arrays, so that NumPy handles them."""
    return lambda self, other: NotImplemented if isinstance(other, np.ndarray) else method(self, other)


class Rounded:
    __slots__ = ("e", "m", "n", "v")
    unit = 2.0**-53

    def __init__(self, v, m=None, e=0.0, n=1):
        exact = quotient(v, flint.arb) if isinstance(v, Fraction) else flint.arb(v)
        self.v, self.m, self.e, self.n = exact, abs(float(exact.mid())) if m is None else m, e, n

    def _lifted(self, number):
        return number if isinstance(number, type(self)) else type(self)(number)

    def closed(self):
        if self.n == 1:
            return self
        return type(self)(self.v, self.m, self.e + self.n * self.unit / (1 - self.n * self.unit) * (self.m + self.e))

    @of_numbers
    def __add__(self, other):
        b = self._lifted(other)
        if not self.m or not b.m:  # adding 0 is exact
            return self if self.m else b
        return type(self)(self.v + b.v, self.m + b.m, self.e + b.e, self.n + b.n)

    __radd__ = __add__

    def __neg__(self):
        return type(self)(-self.v, self.m, self.e, self.n)

    @of_numbers
    def __sub__(self, other):
        return self + -self._lifted(other)

    @of_numbers
    def __rsub__(self, other):
        return self._lifted(other) + -self

    @of_numbers
    def __mul__(self, other):
        a, b = self.closed(), self._lifted(other).closed()
        e = a.m * b.e + b.m * a.e + a.e * b.e + PRODUCT * self.unit * (a.m + a.e) * (b.m + b.e)
        return type(self)(a.v * b.v, a.m * b.m, e)

    __rmul__ = __mul__

    @of_numbers
    def __truediv__(self, other):
        a, b = self.closed(), self._lifted(other).closed()
        size = abs(float(b.v.mid()))
        least = size - b.e
        if least <= 0:
            reject()
        e = a.e / least + a.m * b.e / (least * size) + PRODUCT * self.unit * (a.m + a.e) / least
        return type(self)(a.v / b.v, a.m / least, e)

    @of_numbers
    def __rtruediv__(self, other):
        return self._lifted(other) / self

    def exp(self):
        a = self.closed()
        v = a.v.exp()
        size = float(v.mid()) * math.exp(a.e)
        return type(self)(v, size, size * (a.e + FUNCTION * self.unit))

    def log(self):
        a = self.closed()
        least = float(a.v.mid()) - a.e
        if least <= 0:
            reject()
        v = a.v.log()
        size = abs(float(v.mid())) + a.e / least
        return type(self)(v, size, a.e / least + FUNCTION * self.unit * size)

    def sqrt(self):
        return self**0.5

    def __pow__(self, power):
        """An integer power is a product; for any other, the slope is power · value / argument."""
        if isinstance(power, int):
            return functools.reduce(operator.mul, [self] * power)
        a, power = self.closed(), float(self._lifted(power).v.mid())
        least = float(a.v.mid()) - a.e
        if least <= 0:
            reject()
        v = a.v ** flint.arb(power)
        return self._through(v, abs(power) * (float(v.mid()) / least) * (1 + a.e / least) ** abs(power))

    def tanh(self):
        return self._through(self.closed().v.tanh(), 1)

    def erf(self):
        return self._through(self.closed().v.erf(), 2 / math.sqrt(math.pi))

    def _through(self, v, slope):
        """A function's value, with a bound of its slope nearby."""
        size, e = abs(float(v.mid())), slope * self.closed().e
        return type(self)(v, size + e, e + FUNCTION * self.unit * (size + e))

    def _side(self, other):
        """Whether this number is less (-1), equal (0) or greater (1) for all rounding errors."""
        a, b = self.closed(), self._lifted(other).closed()
        apart = float((a.v - b.v).mid())
        if self is other or (apart == 0 and a.e == b.e == 0):
            return 0
        if abs(apart) <= a.e + b.e:
            reject()
        return 1 if apart > 0 else -1

    def __gt__(self, other):
        return self._side(other) > 0

    def __lt__(self, other):
        return self._side(other) < 0

    def __eq__(self, other):
        return self._side(other) == 0

    def __ne__(self, other):
        return self._side(other) != 0

    __hash__ = None

    def allows(self, got):
        """Whether a float64 result lies within the bound, enlarged slightly since the bound is
        computed in floats."""
        a = self.closed()
        return abs(float((flint.arb(got) - a.v).mid())) <= a.e * (1 + 1e-9) + 1e-300

    def __repr__(self):
        return f"{self.v.str(20)} ± {self.closed().e:.3g}"


class Rounded32(Rounded):
    __slots__ = ()
    unit = 2.0**-24


def lifted(number):
    return number if isinstance(number, Rounded) else Rounded(number)


@contextlib.contextmanager
def long_numbers():
    """Compute values to 200 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 200
    try:
        yield
    finally:
        flint.ctx.prec = before


def allowed(bounds, *results):
    """Assert that every cell of every result lies within its bound; None counts as 0."""
    for got in results:
        for bound, g in zip(
            np.ravel(bounds), np.ravel(np.zeros(np.shape(bounds)) if got is None else got), strict=True
        ):
            assert lifted(bound).allows(float(g)), (bound, g)


class Roundings(Elements):
    def pivot_of(self, a):  # a shift changes no log-sum-exp, whatever number it is
        return type(a)(a.v)


def normal(kind):
    return kind


def family(kind):
    return Roundings(kind)


HOMES["rounding"] = "rounding"
sys.modules["specgrad.scalars.rounding"] = sys.modules[__name__]
