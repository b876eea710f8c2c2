"""Error bounds instead of tolerances: the largest distance of a correct float result from the exact
result, cell by cell.

A sum of n products in precision u, in any order, satisfies |ŷ - y| ≤ γ(n+1) Σ|terms| with γ(m) = m
u / (1 - m u), plus the loss by underflow. The exact y and Σ|terms| come from the specification over
Fractions of the same inputs. Convolutions by transforms (Winograd, FFT, TF32) do not satisfy this
bound. Smooth maxima are bounded in the same way, from exact values in Decimals of 50 digits.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..operator import Operator
from ..ops import SmoothMaxPool
from ..ops.conv import Bilinear
from ..scalars.dual import Dual

Array = np.ndarray[Any, Any]


class Judged(NamedTuple):
    """An exact result and the distance within which a float result must lie from it, both as arrays
    of Fractions."""

    exact: Array
    bound: Array

    def holds(self, got: Array) -> bool:
        """Whether every cell of a finite float result lies within its bound."""
        return all(distance <= bound for distance, bound in self._distances(got))

    def worst(self, got: Array) -> float:
        """The largest share of its bound that a cell uses; above 1 the bound is broken."""
        shares = (0.0 if d == 0 else float("inf") if b == 0 else float(d / b) for d, b in self._distances(got))
        return max(shares, default=0.0)

    def _distances(self, got: Array) -> Iterator[tuple[Any, Any]]:
        """For each cell, the distance from the exact result, and the bound of this distance."""
        return zip(np.abs(fractions(got).reshape(-1) - np.ravel(self.exact)), np.ravel(self.bound), strict=True)


def finfo(dtype: np.dtype[Any]) -> Any:
    """Precision and range of a float type, bfloat16 included."""
    if dtype.name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)


def fractions(array: Array) -> Array:
    """A float or integer array as exact rationals."""
    array = np.asarray(array)
    made = np.empty(array.size, object)
    made[:] = [Fraction(element) for element in array.reshape(-1).tolist()]
    return made.reshape(array.shape)


def terms(op: Operator, shapes: list[tuple[int, ...]]) -> tuple[Array, list[Array]]:
    """For each output cell, the number of terms of its sum; for each operand cell, the number of
    terms of its cotangent. Both follow from the geometry.

    A bias is one more term of each output. Its own cotangent sums one term per output of its
    channel, including outputs without real taps.
    """
    geometry = op.geometry(*shapes)
    block = geometry.block(0, geometry.outputs)
    summed = np.zeros(geometry.outputs, np.int64)
    pulled = [np.zeros(int(np.prod(shape)), np.int64) for shape in shapes]
    for step in block.steps():
        summed += step.exists
        for count, place in zip(pulled, step.place, strict=False):
            np.add.at(count, place, step.exists)
    if len(pulled) == 3:
        pulled[2][:] = geometry.outputs // max(pulled[2].size, 1)
    return summed + (len(shapes) == 3), [count.reshape(shape) for count, shape in zip(pulled, shapes, strict=True)]


def gamma(count: Array, dtype: np.dtype[Any]) -> Array:
    """γ(count + 1) for every cell, as Fractions."""
    unit = Fraction(2) ** -(finfo(dtype).nmant + 1)
    if count.size and (int(count.max()) + 1) * unit >= 1:
        raise ArithmeticError(f"a sum of {count.max()} terms in {dtype} has no bound")
    return _of_counts(lambda n: (n + 1) * unit / (1 - (n + 1) * unit), count)


def _of_counts(function: Callable[[int], Fraction], count: Array) -> Array:
    """A function of every cell's count, evaluated once per distinct count."""
    known, where = np.unique(count, return_inverse=True)
    made = np.empty(known.shape, object)
    made[:] = [function(int(n)) for n in known]
    return np.asarray(made[where.reshape(np.shape(count))], dtype=object)


def sums(count: Array, magnitude: Array, dtype: np.dtype[Any]) -> Array:
    """The error bound of sums of `count` terms whose absolute values add up to `magnitude`."""
    underflow = Fraction(float(finfo(dtype).smallest_subnormal))
    lost = _of_counts(lambda n: (n + 1) * underflow, count)
    return np.asarray(gamma(count, dtype) * magnitude + lost, dtype=object)


def magnitudes(op: Operator, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    """Operands whose row has the absolute values of the row's terms at `operands`."""
    return tuple(np.abs(x) for x in operands) if isinstance(op, Bilinear) else operands


def value(op: Operator, operands: tuple[Array, ...], precision: np.dtype[Any] | None = None) -> Judged:
    """The bound of a sum of products (average, convolution), in the operands' dtype or in
    `precision`."""
    exact = tuple(map(fractions, operands))
    count, _ = terms(op, [x.shape for x in operands])
    total = np.asarray(op(*exact), dtype=object)
    magnitude = np.abs(np.asarray(op(*(np.abs(x) for x in exact)), dtype=object))
    return Judged(total, sums(count.reshape(total.shape), magnitude, precision or operands[0].dtype))


def jvp(
    op: Operator, operands: tuple[Array, ...], tangents: tuple[Array, ...], precision: np.dtype[Any] | None = None
) -> Judged:
    """The bound of a JVP whose slopes are exact or products (all operators but smooth max)."""
    exact, moved = tuple(map(fractions, operands)), tuple(map(fractions, tangents))
    count, _ = terms(op, [x.shape for x in operands])
    _, total = op.jvp(exact, moved)
    _, magnitude = op.jvp(magnitudes(op, exact), tuple(np.abs(t) for t in moved))
    counted = len(operands) * count.reshape(total.shape)
    return Judged(total, sums(counted, np.abs(magnitude), precision or operands[0].dtype))


def vjp(
    op: Operator, operands: tuple[Array, ...], cotangent: Array, precision: np.dtype[Any] | None = None
) -> list[Judged]:
    """The bounds of the cotangents of all operands (all operators but smooth max)."""
    exact, arriving = tuple(map(fractions, operands)), fractions(cotangent)
    _, counts = terms(op, [x.shape for x in operands])
    totals = op.vjp(exact, arriving)
    sizes = op.vjp(magnitudes(op, exact), np.abs(arriving))
    dtype = precision or operands[0].dtype
    return [Judged(t, sums(c, np.abs(m), dtype)) for t, c, m in zip(totals, counts, sizes, strict=True)]


def smooth(op: SmoothMaxPool, x: Array, dx: Array, gy: Array, composed: bool = False) -> tuple[Judged, Judged, Judged]:
    """The bounds of a smooth maximum's value, JVP and VJP, for shifted exponents t = β(x - m) and
    windows of n taps.

    Subtraction and product leave a relative error of 2u in t, so 2u|t| + 2u in exp(t). The sum of n
    exponentials and the logarithm follow. With T the largest |t|, E = u(2T + n + 8) bounds the
    relative error of the sum. The value has the bound (E + 2u log n)/|β| + 2u(|m| + |y|). A weight
    is a quotient of two such sums; its bound is 2E times the weight, plus the least normal number,
    below which exponentials may be flushed to 0. An implementation that multiplies before it
    subtracts (`composed`) loses another u|βx| per exponent.
    """
    unit = Fraction(2) ** -(np.finfo(x.dtype).nmant + 1)
    beta, cells = Fraction(op.beta), [Fraction(0), *map(Fraction, x.reshape(-1).tolist())]
    n, error = _exponentials(op, x, composed)
    with decimal.localcontext() as context:
        context.prec = 50
        exact, moved, arriving = (decimals(a) for a in (x, dx, gy))
        value, tangent = op.jvp((exact,), (moved,))
        (pulled,) = op.vjp((exact,), arriving)
        _, tangent_size = op.jvp((exact,), (np.abs(moved),))
        (pulled_size,) = op.vjp((exact,), np.abs(arriving))
    least = Fraction(float(np.finfo(x.dtype).tiny)) * (n + 1)
    slack = (error + 2 * unit * n.bit_length()) / abs(beta) + 4 * unit * max(map(abs, cells)) + least
    # an exponential below the least normal number may be flushed to 0, whatever its factor
    least_moved, least_pulled = (least * (1 + _largest(a)) * (1 + abs(beta)) for a in (dx, gy))
    sized = [
        fractions(tangent_size) * (2 * error + unit * (n + 2)) + least_moved,
        fractions(pulled_size) * (2 * error + unit * (n + 2)) + least_pulled,
    ]
    return (
        Judged(fractions(value), np.full(np.shape(value), slack, object)),
        Judged(fractions(tangent), sized[0]),
        Judged(fractions(pulled), sized[1]),
    )


def _exponentials(op: SmoothMaxPool, x: Array, composed: bool = False) -> tuple[int, Fraction]:
    """The number n of taps of a window, and E = u(2T + n + 8)."""
    count, _ = terms(op, [x.shape])
    unit = Fraction(2) ** -(np.finfo(x.dtype).nmant + 1)
    beta, cells = abs(Fraction(op.beta)), [Fraction(0), *map(Fraction, x.reshape(-1).tolist())]
    spread = beta * (max(cells) - min(cells)) + (beta * max(map(abs, cells)) if composed else 0)
    n = int(count.max(initial=1))
    return n, unit * (2 * spread + n + 8)


def second(op: Operator, operands: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array) -> list[Judged]:
    """The bounds of the derivatives of the operands' cotangents along the tangents.

    For maxima and averages these derivatives are exactly 0. For a bilinear operator, each is the
    VJP at the tangents, and 0 for the bias. For a smooth maximum d(g w_i) = g β w_i (dx_i - Σ w_j
    dx_j): a product with two weights, each with the bound 2E.
    """
    if isinstance(op, Bilinear):
        moved = vjp(op, tangents, cotangent)[:2]
        still = [_nothing(x) for x in operands[2:]]
        return [*moved, *still]
    if not isinstance(op, SmoothMaxPool):
        return [_nothing(x) for x in operands]
    (x,), (dx,) = operands, tangents
    n, error = _exponentials(op, x)
    with decimal.localcontext() as context:
        context.prec = 50
        exact, moved_by, arriving = (decimals(a) for a in (x, dx, cotangent))
        (pulled,) = op.vjp((Dual(exact, moved_by),), arriving)
        (own,) = op.vjp((exact,), np.abs(arriving))
        _, spread = op.jvp((exact,), (np.abs(moved_by),))
        (others,) = op.vjp((exact,), np.abs(arriving) * spread)
        size = fractions(np.asarray(own * np.abs(moved_by) + others, dtype=object)) * abs(Fraction(op.beta))
        total = fractions(pulled.tangent)
    unit, least = Fraction(2) ** -(np.finfo(x.dtype).nmant + 1), Fraction(float(np.finfo(x.dtype).tiny))
    lost = least * (n + 1) * (1 + 2 * _largest(dx)) * (1 + _largest(cotangent)) * (1 + abs(Fraction(op.beta)))
    return [Judged(total, np.asarray(size * (6 * error + unit * (3 * n + 10)) + lost, dtype=object))]


def _largest(array: Array) -> Fraction:
    return max((abs(Fraction(e)) for e in array.reshape(-1).tolist()), default=Fraction(0))


def _nothing(x: Array) -> Judged:
    zeros = np.full(np.shape(x), Fraction(0), object)
    return Judged(zeros, zeros)


def decimals(array: Array) -> Array:
    made = np.empty(array.size, object)
    made[:] = [Decimal(element) for element in array.reshape(-1).tolist()]
    return made.reshape(array.shape)
