"""Parts of curated cases: windows that other libraries computed wrongly, and numbers for their
cells."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...drawing import distinct as shuffled
from ...operator import Operator
from ..cases import Case, bfloat16, cotangents

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf
FLOATS: dict[str, Any] = {"float64": np.float64, "float16": np.float16, **bfloat16()}
"""The float types other than float32, by the titles of their cases."""


class NamedCase(NamedTuple):
    """A case and its title."""

    title: str
    case: Case
    quick: bool = False
    """Whether a quick run includes the case: a bug that real projects shipped, or the only case of
    a part or dtype for a claim."""


class Window(NamedTuple):
    """A title, an input's shape, a sliding window's parameters, and whether a quick run includes
    it."""

    title: str
    shape: tuple[int, ...]
    words: dict[str, Any]
    quick: bool = False


def distinct(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Distinct small integers in a fixed shuffled order, about half of them negative."""
    return shuffled(shape).astype(dtype)


def thirds(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Distinct thirds, which no float represents exactly (but for whole numbers)."""
    return (distinct(shape, np.float64) / 3).astype(dtype)


def directed(op: Operator, *operands: Array) -> Case:
    """A case with fixed directions: tangents of both signs, and a positive cotangent."""
    dtype = operands[0].dtype
    tangents = tuple(np.asarray(np.arange(x.size).reshape(x.shape) * 5 % 11 - 4, dtype) for x in operands)
    return Case(op, operands, tangents, cotangents(op, operands))


def named(title: str, op: Operator, *operands: Array, quick: bool = False) -> NamedCase:
    """A NamedCase with fixed directions."""
    return NamedCase(title, directed(op, *operands), quick)


def everywhere(special: float, rank: int, side: int = 2) -> Array:
    """side**rank planes of thirds; the special number is at another cell in each plane."""
    count = side**rank
    planes = thirds((count, count))
    np.fill_diagonal(planes, special)
    return planes.reshape(count, 1, *[side] * rank)


def row(*cells: float, dtype: Any = np.float32) -> Array:
    """An array of one channel with one row."""
    return np.array([[cells]], dtype)


_WINDOWS: list[tuple[Any, ...]] = [
    ("windows side by side", (2, 3, 4, 4), {"kernel_size": (2, 2)}),
    ("overlapping windows with padding", (2, 5, 5), {"kernel_size": (3, 3), "stride": 2, "padding": 1}, True),
    ("rank 0", (3,), {"kernel_size": ()}),
    ("rank 1 without batch", (7,), {"kernel_size": (3,), "stride": 1}),
    ("rank 3", (1, 2, 3, 4, 3), {"kernel_size": (2, 3, 2), "stride": (1, 2, 1)}),
    ("rank 4", (1, 3, 2, 3, 2), {"kernel_size": (2, 1, 2, 2), "stride": 1}),
    ("three leading axes", (2, 1, 2, 4), {"kernel_size": (2,)}),
    ("a stride larger than the kernel skips cells", (1, 2, 8), {"kernel_size": (2,), "stride": 3}),
    ("odd strides, unequal per axis", (1, 1, 7, 8), {"kernel_size": (2, 3), "stride": (3, 1)}),
    ("kernel as large as the input", (1, 2, 3, 4), {"kernel_size": (3, 4)}),
    ("kernel of 7", (1, 2, 9), {"kernel_size": (7,), "stride": 1}, True),
    ("kernel of 7 by 7", (1, 1, 8, 7), {"kernel_size": (7, 7), "stride": 1}),
    ("large kernel with padding", (1, 1, 6), {"kernel_size": (11,), "stride": 2, "padding": 5}),
    ("a line that takes several vectors", (2, 37), {"kernel_size": (9,), "stride": 1, "padding": 4}, True),
    ("a window over a long line and its padding", (2, 20), {"kernel_size": (22,), "padding": 1}),
    ("padding on one side only", (1, 2, 5), {"kernel_size": (2,), "stride": 1, "padding": ((0, 1),)}),
    (
        "padding before and after differ",
        (1, 1, 4, 4),
        {"kernel_size": (3, 2), "stride": 2, "padding": ((2, 1), (0, 1))},
    ),
    ("same padding", (1, 1, 5, 6), {"kernel_size": (2, 4), "stride": 1, "padding": "same"}),
    ("same padding with a stride", (1, 1, 6), {"kernel_size": (4,), "stride": 2, "padding": "same"}),
    ("dilation", (1, 2, 7), {"kernel_size": (3,), "stride": 1, "dilation": 2}, True),
    (
        "dilation, stride and padding",
        (1, 1, 6, 7),
        {"kernel_size": (2, 3), "stride": 2, "padding": 1, "dilation": (3, 2)},
    ),
    ("a window wholly in padding", (1, 2, 1), {"kernel_size": (1,), "stride": 1, "padding": 1}, True),
    ("padding larger than the kernel", (1, 1, 3), {"kernel_size": (2,), "stride": 2, "padding": 3}),
    (
        "a dilated window without a real cell",
        (1, 2, 1),
        {"kernel_size": (2,), "stride": 1, "padding": 1, "dilation": 2},
        True,
    ),
    ("empty batch", (0, 2, 4, 4), {"kernel_size": (2, 2), "stride": 1, "padding": 1}, True),
    ("channels last", (1, 4, 5, 2), {"kernel_size": (2, 2), "stride": 1, "axes": (1, 2)}, True),
    ("transposed axes", (3, 4), {"kernel_size": (2, 3), "stride": 1, "axes": (1, 0)}),
]

_CEILED: list[tuple[Any, ...]] = [
    ("ceil_mode: a last window that hangs over", (1, 1, 5), {"kernel_size": (2,)}),
    (
        "ceil_mode with padding: a tap beyond the padding is not counted",
        (1, 1, 6),
        {"kernel_size": (3,), "stride": 2, "padding": 1},
    ),
    (
        "ceil_mode in two axes with padding",
        (1, 2, 6, 5),
        {"kernel_size": (3, 2), "stride": (2, 3), "padding": 1},
        True,
    ),
    (
        "ceil_mode: a window that would start in the right padding is dropped",
        (1, 1, 3),
        {"kernel_size": (2,), "stride": 4, "padding": 1},
        True,
    ),
    ("ceil_mode: a kernel larger than the input", (1, 1, 2), {"kernel_size": (3,), "stride": 2}),
    ("ceil_mode, dilation and padding", (1, 1, 7), {"kernel_size": (3,), "stride": 3, "padding": 1, "dilation": 2}),
]

WINDOWS, CEILED = ([Window(*one) for one in table] for table in (_WINDOWS, _CEILED))
"""Sliding windows; the windows of CEILED have ceil_mode=True."""
