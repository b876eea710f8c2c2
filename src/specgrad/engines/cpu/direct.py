"""Small calls: operands that lie whole, or are copied so, go through kernels that are known to results that lie whole. Half floats are widened before and
rounded after.

What depends on the operator, the shape and the dtype alone is found once. Whatever takes more than that is left to the general way, of which each
function here is a short one: results are the same bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Shape
from ...memory import LARGE
from ...remembering import remembered
from .. import reduction
from . import average, maximum, smooth
from .cells import Array, Seen, are_together, foresee, unlocked
from .folds import Step, fold_way, run
from .halves import FLOATS, conversion, half_of
from .matches import call_of, rows_of
from .picking import picked
from .together import LEAST, Call

Kernel = Callable[..., bool]
"""A kernel, or several one after another, of an operand and its result; whether it says so."""


class Fold(NamedTuple):
    """The kernel of a value, which says whether it must be found in another way, and the value's shape."""

    fold: Kernel
    shape: Shape


class Finding(NamedTuple):
    """The plan of an operand and the kernel that finds its winners, if it is one alone; how many codes there are and of which type."""

    seen: Seen
    find: Kernel | None
    windows: int
    width: np.dtype[Any]


class Moves(NamedTuple):
    """The kernel that moves a tangent or a cotangent, and what it needs before: nothing, winners, the maxima that all tied cells equal, or pairs."""

    winners: Finding | None
    maxima: Kernel | None
    move: Kernel
    shape: Shape
    """Of the value."""
    chain: smooth.Chain | None = None
    """Of a smooth maximum, whose pairs are found before."""


def forward(op: Any, x: Array) -> Array | None:
    """y, or None where the general way is to be taken."""
    how = folding(op, x.shape, FLOATS.dtype if is_half(x) else x.dtype)
    if how is None or (cells := taken(x)) is None:
        return None
    y = np.empty(how[1], cells.dtype)
    if how[0](cells, y.ravel()):
        return None
    return y if y.itemsize == x.itemsize else rounded(y, x.dtype)


def jvp(op: Any, x: Array, dx: Any) -> tuple[Array, Array] | None:
    """(y, dy), or None where the general way is to be taken."""
    if type(dx) is not np.ndarray or dx.dtype is not x.dtype:
        return None
    how = pushing(op, x.shape, FLOATS.dtype if is_half(x) else x.dtype)
    if how is None or (cells := taken(x)) is None or (tangent := taken(dx)) is None:
        return None
    winners, maxima, move, shape, chain = how
    y, dy = np.empty(shape, cells.dtype), np.empty(shape, cells.dtype)
    if winners is not None:
        codes = found(winners, cells, y.ravel())
        if codes is None:
            return None
        move(tangent, codes, dy.ravel())
    elif maxima is not None:
        values = y.ravel()
        if maxima(cells, values):
            return None
        move(cells, values, None, tangent, dy.ravel())
    elif chain is not None:
        lent = lend(chain)
        chain.fold(cells, y.ravel(), lent[1])
        move(cells, tangent, dy.ravel(), lent[1])
        chain.spare.append(lent)
    else:
        move(cells, y.ravel())
        move(tangent, dy.ravel())
    return (y, dy) if y.itemsize == x.itemsize else (rounded(y, x.dtype), rounded(dy, x.dtype))


def vjp(op: Any, x: Array, gy: Any) -> Array | None:
    """gx, or None where the general way is to be taken."""
    if type(gy) is not np.ndarray or gy.dtype is not x.dtype:
        return None
    how = pulling(op, x.shape, FLOATS.dtype if is_half(x) else x.dtype)
    if how is None or (cells := taken(x)) is None or (cotangent := taken(gy)) is None:
        return None
    winners, maxima, move, _, chain = how
    gx = np.empty(x.shape, cells.dtype)
    if winners is not None:
        codes = found(winners, cells, np.empty(winners.windows, cells.dtype))
        if codes is None:
            return None
        move(cotangent, codes, gx.ravel())
    elif maxima is not None:
        values = np.empty(cotangent.size, cells.dtype)
        if maxima(cells, values):
            return None
        move(cells, values, None, cotangent, gx.ravel())
    elif chain is not None:
        lent = lend(chain)
        chain.fold(cells, chain.nothing, lent[1])
        move(cells, cotangent, gx.ravel(), lent[1])
        chain.spare.append(lent)
    else:
        move(cotangent, gx.ravel())
    return gx if gx.itemsize == x.itemsize else rounded(gx, x.dtype)


def is_half(x: Array) -> bool:
    """Whether these are half floats."""
    return x.itemsize == 2 and bool(half_of(x.dtype)) and x.dtype.isnative


def taken(array: Array) -> Array | None:
    """The cells of a small array in row-major order, half floats in float32; None as of `end_to_end`."""
    if array.itemsize != 2 and array.flags.carray:
        return array.ravel()
    cells = end_to_end(array)
    if cells is None or not is_half(array):
        return cells
    wide = np.empty(cells.size, FLOATS.dtype)
    conversion(cells.size, half_of(array.dtype), True)(cells.view(np.uint16), wide)
    return wide


def rounded(result: Array, dtype: np.dtype[Any]) -> Array:
    """A result in float32 as half floats, in memory of its own."""
    own = np.empty(result.shape, dtype)
    conversion(result.size, half_of(dtype), False)(result.ravel(), own.view(np.uint16).ravel())
    return own


def end_to_end(array: Array) -> Array | None:
    """The cells of a small array in row-major order, copied if they lie apart; None if they lie together in another order of axes, as results then do too."""
    if array.flags.c_contiguous and array.flags.aligned:
        return unlocked(array).ravel()
    return None if are_together(array.strides, array.shape, array.itemsize) else np.array(array, order="C").ravel()


def found(winners: Finding, cells: Array, y: Array) -> Array | None:
    """The codes of winners, the maxima being written into y; None if there are NaNs."""
    seen, find, windows, width = winners
    if find is None:
        return maximum.search(seen._replace(flat=cells), y, width, None)
    codes = np.empty(windows, width)
    return None if find(cells, y, codes) else codes


def lend(chain: smooth.Chain) -> tuple[Array, Array]:
    """Memory for the pairs of a smooth maximum, to be given back as spare, and where they begin in it."""
    try:
        return chain.spare.pop()
    except IndexError:
        memory = np.empty(chain.begins[-1], chain.nothing.dtype)
        return memory, chain.offsets + smooth.address(memory)


@remembered(256)
def folding(op: Any, shape: Shape, dtype: np.dtype[Any]) -> Fold | None:
    """How the value is found; None where that takes more than a kernel."""
    if reduction(op) == "logsumexp":
        seen, how = chained(op, shape, dtype)
        if seen is None or how is None:
            return None
        fold = how.fold
        return Fold(Call(fold.name, (smooth.NOWHERE, *fold.told), fold.tasks, *fold.rooms), seen.plan.shape)
    seen = small(op, shape, dtype, any_order=True)
    if seen is None:
        return None
    is_maximum = reduction(op) == "max" or None
    return Fold(straight(fold_way(seen.plan.passes, seen, is_maximum, not is_maximum), seen), seen.plan.shape)


@remembered(256)
def pushing(op: Any, shape: Shape, dtype: np.dtype[Any]) -> Moves | None:
    """How tangents are moved; None where that takes more."""
    if reduction(op) == "logsumexp":
        seen, how = chained(op, shape, dtype)
        return None if seen is None or how is None else Moves(None, None, how.push, seen.plan.shape, how)
    if reduction(op) == "mean":
        value = folding(op, shape, dtype)
        return None if value is None else Moves(None, None, value.fold, value.shape)
    if op.ties == "all":
        return matching("push_matches", op, shape, dtype)
    seen, winners = searching(op, shape, dtype)
    if seen is None or winners is None:
        return None
    return Moves(winners, None, maximum.push_call(seen.plan), seen.plan.shape)


@remembered(256)
def pulling(op: Any, shape: Shape, dtype: np.dtype[Any]) -> Moves | None:
    """How cotangents are moved; None where that takes more."""
    if reduction(op) == "logsumexp":
        seen, how = chained(op, shape, dtype)
        return None if seen is None or how is None else Moves(None, None, how.pull, seen.plan.shape, how)
    if reduction(op) == "mean":
        seen = small(op, shape, dtype, any_order=True)
        call = (
            None
            if seen is None or (seen.plan.is_undivided and picked(seen.plan))
            else straight(average.pull_way(seen), seen)
        )
        return None if seen is None or call is None else Moves(None, None, call, seen.plan.shape)
    if op.ties == "all":
        return matching("pull_matches", op, shape, dtype)
    seen, winners = searching(op, shape, dtype)
    if seen is None or winners is None:
        return None
    _, cleared, calls = maximum.pull_way(seen.plan, seen.kind, 1)  # how many threads there are changes the tasks alone
    return None if cleared or len(calls) != 1 else Moves(winners, None, calls[0], seen.plan.shape)


def matching(name: str, op: Any, shape: Shape, dtype: np.dtype[Any]) -> Moves | None:
    """How tangents or cotangents go to all cells that tie, where windows share none and leave none out."""
    value, seen = folding(op, shape, dtype), small(op, shape, dtype, any_order=False)
    if value is None or seen is None or rows_of(seen.plan) is None or seen.plan.unread:
        return None
    return Moves(None, value.fold, call_of(name, seen.plan, seen.kind, shares=False, counts=False), value.shape)


def chained(op: Any, shape: Shape, dtype: np.dtype[Any]) -> tuple[Seen | None, smooth.Chain | None]:
    """The plan of an operand, and the passes of its smooth maximum; None where that takes more than kernels."""
    seen = small(op, shape, dtype, any_order=False)
    how = None if seen is None else smooth.chain(seen.plan)
    straight = how is not None and not (how.is_negated or how.is_narrow) and how.begins[-1] <= LEAST
    return (seen, how) if straight else (None, None)


def searching(op: Any, shape: Shape, dtype: np.dtype[Any]) -> tuple[Seen | None, Finding | None]:
    """The plan of an operand, and how its winners are found; None where windows are cells, or more is large."""
    seen = small(op, shape, dtype, any_order=False) if op.ties == "first" else None
    if seen is None:
        return None, None
    picks, at_once, width = maximum.search_way(seen)
    if picks is not None:
        return None, None
    find, *more = [at_once] if at_once else maximum.find_passes(seen, width, None)
    return seen, Finding(seen, None if more else find, seen.plan.outputs, width)


def small(op: Any, shape: Shape, dtype: np.dtype[Any], any_order: bool) -> Seen | None:
    """The plan of an operand that lies whole, where all that a call takes is small, and lies in the order seen."""
    if not dtype.isnative:
        return None
    seen = foresee(op, shape, None, dtype, any_order)
    made = seen.plan
    lies = made.is_as_given and made.given == shape and not made.empty and not seen.kind.half
    least, most = sorted((math.prod(shape), made.outputs))
    return seen if lies and least and most * max(dtype.itemsize, 4) < LARGE else None


def straight(steps: list[Step], seen: Seen) -> Kernel:
    """All steps as one."""
    call, cells, bits, codes = steps[0]
    alone = len(steps) == 1 and cells is None and not bits and codes is None
    return call if alone else functools.partial(run, steps, seen)
