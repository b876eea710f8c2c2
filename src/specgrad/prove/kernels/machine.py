"""Claims about compiled kernels, by enumeration: all arrangements of special values, and all orders
of the cells of a window.

Symbols are real numbers: they have no NaN, infinities, sign of zero or rounding. Here the machine
code runs on every arrangement of a few values in a small input, and is compared with the
specification bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dispatch import engine
from ...errors import SpecgradError
from ...functional import adaptive_max_pool, max_pool
from ...ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, MaxPool
from .cases import Case
from .compare import Differs

SPECIAL = (-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan)
CELLS = 5
"""The cells of an input, with 7^5 arrangements."""


def drawn(random: Any) -> Case:
    """A small geometry, of at most CELLS cells."""
    while True:
        rank = int(random.choice([1, 2, 2]))
        size = tuple(int(n) for n in random.integers(1, CELLS + 1, rank))
        if np.prod(size) > CELLS:
            continue
        kind = random.choice(["max", "average"])
        kinds: Any = (
            (MaxPool, AdaptiveMaxPool, GlobalMaxPool) if kind == "max" else (AvgPool, AdaptiveAvgPool, GlobalAvgPool)
        )
        sliding, bins, whole = kinds
        dtype, how = str(random.choice(["float32", "float64", "float16"])), random.random()
        kernel = tuple(int(random.integers(1, 4)) for _ in size)
        try:
            if how < 0.6:
                numbers: dict[str, Any] = {
                    name: tuple(map(int, random.integers(1, 3, rank))) for name in ("stride", "dilation")
                }
                op: Any = sliding(kernel, padding=tuple(map(int, random.integers(0, 3, rank))), **numbers)
            else:
                op = bins(kernel) if how < 0.85 else whole(rank)
            op.output_shape((1, *size))
        except SpecgradError:
            continue
        return Case("compiled", op, size, dtype, (), ())


def special_values(case: Case) -> None:
    """Value, indices and VJP on every arrangement of -inf, -1, -0, 0, 1, inf and NaN."""
    cells = int(np.prod(case.shape))
    grid = np.indices((len(SPECIAL),) * cells).reshape(cells, -1).T
    x = np.array(SPECIAL, case.dtype)[grid].reshape(-1, *case.shape)
    g = np.ones(case.op.output_shape(x.shape), x.dtype)
    found, expected = (_results(case.op, x, g, name) for name in ("cpu", "reference"))
    for words, one, other in zip(("the value", "the VJP", "the index"), found, expected, strict=False):
        same = one == other if one.dtype.kind == "i" else _bits(one) == _bits(other)
        if not same.all():
            place = np.unravel_index(int(np.argmin(same)), same.shape)
            raise Differs(f"{words} of {x[place[0]].tolist()}: {one[place]}, specified is {other[place]}")


def _results(op: Any, x: Any, g: Any, name: str) -> list[Any]:
    with engine(name), np.errstate(all="ignore"):
        made = [op(x), op.vjp((x,), g)[0]]
        if isinstance(op, MaxPool):
            how = {name: getattr(op, name) for name in ("stride", "padding", "dilation", "ceil_mode")}
            made.append(max_pool(x, op.kernel_size, **how, return_indices=True)[1])
        elif isinstance(op, AdaptiveMaxPool):
            made.append(adaptive_max_pool(x, op.output_size, return_indices=True)[1])
    return made


def _bits(array: Any) -> Any:
    """The bits of floats, with all NaNs equal."""
    return np.where(np.isnan(array), -1, array.view(f"u{array.itemsize}").astype(np.int64))


def every_order(case: Case) -> None:
    """Value, index and VJP of a 3×3 window, for each of the 7,087,261 weak orders of nine cells,
    ties included."""
    seen, op = 0, MaxPool((3, 3))
    for orders in weak_orders(9):
        x, first = orders.reshape(-1, 3, 3).astype(case.dtype), orders.argmax(axis=1)
        with engine("cpu"):
            value, index = max_pool(x, (3, 3), return_indices=True)
            pulled = op.vjp((x,), np.ones_like(value))[0].reshape(-1, 9)
        won = np.zeros_like(pulled)
        won[np.arange(len(won)), first] = 1
        if not (
            np.array_equal(value.ravel(), orders.max(axis=1))
            and np.array_equal(index.ravel(), first)
            and np.array_equal(pulled, won)
        ):
            raise Differs("a 3×3 window")
        seen += len(x)
    if seen != 7_087_261:
        raise Differs(f"{seen} orders")


def weak_orders(count: int) -> Iterator[Any]:
    """All weak orders of `count` cells, as integer levels, in several arrays."""
    if count == 1:
        yield np.zeros((1, 1), np.int8)
        return
    before = np.concatenate(list(weak_orders(count - 1)))
    levels = before.max(axis=1)
    for level in range(count - 1):  # one more cell on an existing level
        own = before[levels >= level]
        yield np.column_stack([own, np.full(len(own), level, np.int8)])
    for gap in range(count):  # or on a new level
        own = before[levels + 1 >= gap]
        yield np.column_stack([own + (own >= gap), np.full(len(own), gap, np.int8)])
