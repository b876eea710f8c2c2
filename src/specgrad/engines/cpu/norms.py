"""p-norms of windows of floats: powers by NumPy, their sums by the kernels of `SumPool`.

Powers leave the range of a dtype soon. So those of float32 are summed in float32 where all sums are
near 1, and in float64 otherwise, of cells that are divided by a power of two near the largest of
the array. Where the powers of a window nearly vanish even so, or where a number is not finite, the
specification runs: it divides the cells of each window by the window's own largest.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ...caches import cached
from ...memory import Array
from ...ops import LpPool, SumPool
from .. import reference
from . import pooling
from .fallback import ByStatement
from .network import RULES, Rule, made

SUMS = {"float32": (2.0**-30, 2.0**30), "float64": (2.0**-500, math.inf)}
"""Between which numbers Σ |cell|^p may be: beside them no power that vanishes counts."""


class Norms(NamedTuple):
    """What the derivatives keep: the sizes of cells and the norms of windows, both divided by
    `unit`."""

    sizes: Array
    norms: Array
    unit: float


@cached(256)
def _sum(op: Any) -> Any:
    return SumPool(**{field.name: getattr(op, field.name) for field in dataclasses.fields(SumPool)})


def _power(a: Array, exponent: Any) -> Array:
    """a to a power; a small whole one by products, as `np.power` takes logarithms."""
    if exponent == 1:
        return a
    if exponent not in (2, 3, 4):
        return made(np.power, a, a.dtype.type(exponent))
    found = made(np.multiply, a, a)
    for _ in range(int(exponent) - 2):
        np.multiply(found, a, out=found)
    return found


def _root(total: Array, p: Any) -> Array:
    """total^(1/p), and a step of Newton's method: far from 1 it counts how 1/p is rounded."""
    if p == 2:
        return made(np.sqrt, total)
    found = made(np.power, total, total.dtype.type(1 / p))
    apart = made(np.divide, total, _power(found, p))
    apart -= 1
    found += np.divide(np.multiply(apart, found, out=apart), float(p), out=apart)
    np.copyto(found, 0, where=total == 0)
    return found


def _shared(norms: Array, exponent: Any) -> Array:
    """norm^exponent; 0 for windows of zeros, whose cells have no slope."""
    found = made(np.power, norms, norms.dtype.type(exponent))
    np.copyto(found, 0, where=norms == 0)
    return found


def _norms(op: Any, x: Array, unit: float) -> Norms | None:
    """The norms, computed in the dtype of x; None where sums of powers lie too near the ends of its
    range."""
    sizes = made(np.abs, x)
    if unit != 1:
        sizes /= unit
    total = pooling.forward(_sum(op), (_power(sizes, op.p),))
    least, most = SUMS[x.dtype.name]
    small = total < least
    if not (total < most).all() or (small.any() and pooling.forward(_sum(op), (sizes,))[small].any()):
        return None
    return Norms(sizes, _root(total, op.p), unit)


class _LpPool(Rule):
    """y = u (Σ (|x| / u)^p)^(1/p) with a unit u; slopes sign(x) (|x| / u)^(p-1) (y / u)^(1-p)."""

    def value(self, op: Any, xs: Any, out: Array) -> Any:
        (x,) = xs
        kept = _norms(op, x, 1.0) if x.dtype == np.float32 else None
        if kept is None:
            largest = math.frexp(float(max(x.max(initial=0), -x.min(initial=0))))[1]
            kept = _norms(op, x.astype(np.float64, copy=False), math.ldexp(1, max(largest - 1, -1022)))
        if kept is None:
            y, by_statement = reference.keep(op, xs)
            out[...] = y
            return ByStatement(by_statement)
        np.multiply(kept.norms, kept.unit, out=out, casting="unsafe")
        return kept

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        if not isinstance(kept, ByStatement) and not np.isfinite(dx).all():  # times the slope 0 of an even p
            kept = ByStatement(reference.recall(op, xs))
        if isinstance(kept, ByStatement):
            return reference.push(op, xs, kept.kept, (dx,))
        (x,) = xs
        moved = self._weighted(op, x, kept, dx)
        dy = pooling.forward(_sum(op), (moved,))
        return np.multiply(dy, _shared(kept.norms, 1 - op.p), out=dy)

    def pull(self, op: Any, xs: Any, kept: Any, slot: int, g: Array) -> Any:
        (x,) = xs
        if not isinstance(kept, ByStatement):
            shares = made(np.multiply, g, _shared(kept.norms, 1 - op.p))
            if np.isfinite(shares).all():
                (arriving,) = pooling.pull(_sum(op), (kept.sizes,), pooling.recall(_sum(op), (kept.sizes,)), shares)
                return self._weighted(op, x, kept, arriving)
            kept = ByStatement(reference.recall(op, xs))
        return reference.pull(op, xs, kept.kept, g)[0]

    @staticmethod
    def _weighted(op: Any, x: Array, kept: Norms, moved: Array) -> Array:
        """sign(x) |x / unit|^(p - 1) times what moves; 0 where x is 0 or no window reads it."""
        slopes = made(np.copysign, _power(kept.sizes, op.p - 1), x)
        np.multiply(slopes, moved, out=slopes)
        np.copyto(slopes, 0, where=x == 0)
        is_finite = np.isfinite(kept.sizes, out=np.empty(x.shape, np.bool_))  # no window reads the others
        np.copyto(slopes, 0, where=np.logical_not(is_finite, out=is_finite))
        return slopes


RULES[LpPool] = _LpPool()
