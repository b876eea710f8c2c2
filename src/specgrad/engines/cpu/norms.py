"""p-norms of windows of floats: powers by NumPy in float64, their sums by the kernels of `SumPool`.

If powers could overflow, cells are divided by a power of two near the largest of the array. Where
the powers of a window nearly vanish even so, or where a number is not finite, the specification
runs: it divides the cells of each window by the window's own largest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...caches import cached
from ...memory import Array, room
from ...ops import LpPool, SumPool
from .. import reference
from . import pooling
from .fallback import ByStatement
from .network import RULES, Rule, made

LEAST = 2.0**-500  # Σ |cell|^p, beside which no power that vanishes counts


class Norms(NamedTuple):
    """What the derivatives keep: the sizes of cells, and the norms of windows, both divided by the
    same power of two."""

    sizes: Array
    norms: Array


@cached(256)
def _sum(op: Any) -> Any:
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "axes")
    return SumPool(**{name: getattr(op, name) for name in names})


def _power(a: Array, exponent: Any) -> Array:
    """a to a power; a small whole one by products, as `np.power` takes logarithms."""
    if exponent == 1:
        return a
    if exponent not in (2, 3, 4):
        return made(np.power, a, np.float64(exponent))
    found = made(np.multiply, a, a)
    for _ in range(int(exponent) - 2):
        np.multiply(found, a, out=found)
    return found


def _root(total: Array, p: Any) -> Array:
    """total^(1/p), and a step of Newton's method: far from 1 the rounding of 1/p counts."""
    if p == 2:
        return made(np.sqrt, total)
    found = made(np.power, total, np.float64(1 / p))
    apart = made(np.divide, total, _power(found, p))
    apart -= 1
    found += np.divide(np.multiply(apart, found, out=apart), float(p), out=apart)
    np.copyto(found, 0, where=total == 0)
    return found


def _shared(norms: Array, exponent: Any) -> Array:
    """norm^exponent; 0 for windows of zeros, whose cells have no slope."""
    found = made(np.power, norms, np.float64(exponent))
    np.copyto(found, 0, where=norms == 0)
    return found


class _LpPool(Rule):
    """y = u (Σ (|x| / u)^p)^(1/p) with a unit u; slopes sign(x) (|x| / u)^(p-1) (y / u)^(1-p)."""

    def value(self, op: Any, xs: Any, out: Array) -> Any:
        (x,) = xs
        sizes = room(x.shape, np.dtype(np.float64))
        np.abs(x, out=sizes)
        unit = 1.0
        if x.dtype == np.float64 or op.p > 3:  # the cubes of float32 are far from where float64 ends
            unit = math.ldexp(1, max(math.frexp(float(sizes.max(initial=0)))[1] - 1, -1022))
            sizes /= unit
        total = pooling.forward(_sum(op), (_power(sizes, op.p),))
        if np.isfinite(total).all() and not self._vanishes(op, sizes, total):
            norms = _root(total, op.p)
            np.multiply(norms, unit, out=out, casting="unsafe")
            return Norms(sizes, norms)
        y, kept = reference.keep(op, xs)
        out[...] = y
        return ByStatement(kept)

    @staticmethod
    def _vanishes(op: Any, sizes: Array, total: Array) -> bool:
        """Whether some window has powers, but hardly any sum of them."""
        small = total < LEAST
        return bool(small.any() and pooling.forward(_sum(op), (sizes,))[small].any())

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
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
        """sign(x) |x / unit|^(p - 1) times what moves; 0 where x is 0."""
        slopes = made(np.copysign, _power(kept.sizes, op.p - 1), x)
        np.multiply(slopes, moved, out=slopes)
        np.copyto(slopes, 0, where=x == 0)
        return slopes


RULES[LpPool] = _LpPool()
