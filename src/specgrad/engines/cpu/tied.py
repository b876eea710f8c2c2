"""Maxima with ties "all" and "split": disjoint windows by kernels of sums, other windows by
weights.

For disjoint windows, the adjoint of a sum copies a number of each window to its cells. A cell is
tied if it equals the copied value of its window. Tied tangents are summed, cotangents are copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...memory import Array, room
from . import pools, weighted
from .operands import handed_over


class Kept(NamedTuple):
    """Which cells tie with their window's value, and among how many a cotangent is split, both in
    the order of the pool's layout."""

    pool: pools.Pool
    tied: Array
    sharers: Array | None


def keep(op: Any, x: Array, value: Array) -> Any:
    """What the derivatives keep; None where only the specification knows."""
    if not x.size or not value.size:
        return None
    pool, cells = pools.seen(op, x)
    how = weighted.weighted_of(op, x.shape, pool.dtype)
    if how is not None and (not pool.is_apart or pool.taps <= weighted.AT_ONCE):
        return weighted.keep_ties(how, x, value)
    if not pool.is_apart:
        return None
    greatest = room(pool.layout.shape, pool.dtype)
    pool.fold("adjoint")(pool.laid(value, pool.lengths), greatest)
    tied = cells == greatest
    if (value != value).any():
        tied |= (cells != cells) & (greatest != greatest)
    sharers = _summed(pool, 1, tied) if op.ties == "split" else None
    return Kept(pool, tied, None if sharers is None else np.maximum(sharers, 1, out=sharers))


def _summed(pool: pools.Pool, cells: Any, tied: Array) -> Array:
    """The sum of each window's tied cells, in the type that is computed in."""
    pool = pool.in_single
    terms, sums = room(pool.layout.shape, pool.dtype), np.empty(pool.lengths, pool.dtype)
    terms.fill(0)
    np.copyto(terms, cells, where=tied, casting="unsafe")
    pool.fold("sum")(terms, sums)
    return sums


def push(kept: Kept, dx: Array, out: Array | None = None) -> Array:
    """dy: the tangents of tied cells, or their mean."""
    pool, tied, sharers = kept
    sums = _summed(pool, pool.laid(dx, pool.layout.shape), tied)
    memory, dy = pools.result(pool, out)
    with np.errstate(all="ignore"):
        np.copyto(memory, sums if sharers is None else np.divide(sums, sharers, out=sums), casting="unsafe")
    return handed_over(dy, out)


def pull(kept: Kept, gy: Array, out: Array | None = None) -> Array:
    """gx: the cotangent of its window at each tied cell, or its share."""
    pool, tied, sharers = kept
    share = pool.laid(gy, pool.lengths).reshape(pool.lengths)
    if sharers is not None:
        with np.errstate(all="ignore"):
            share = np.divide(share, sharers, out=room(share.shape, pool.dtype), casting="unsafe")
    memory, gx = pools.cotangent(pool, out)
    pool.fold("adjoint")(share, memory)
    np.copyto(memory, 0, where=np.logical_not(tied))
    return handed_over(gx, out)
