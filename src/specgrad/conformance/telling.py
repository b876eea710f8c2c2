"""The deterministic telling cases of every operator, each with a title; mistakes that real projects shipped are all here.

Numbers are distinct unless a case is about ties, so that no other question is asked by accident. Sums hold thirds, so that every
order of summation rounds differently. What a case is about (padding, ties, NaN, infinity) is read off the case itself.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..operator import Operator
from ..ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    MaxPool,
    SmoothMaxPool,
)
from .cases import Case, bfloat16

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf
FLOATS: dict[str, Any] = {"float64": np.float64, "float16": np.float16, **bfloat16()}
"""The float types beside float32, by the titles of their cases."""


class Telling(NamedTuple):
    """A case and what it is telling of."""

    title: str
    case: Case


def distinct(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Distinct small integers in a fixed shuffled order, about half of them negative."""
    size = math.prod(shape)
    return (np.random.default_rng(size).permutation(size) - size // 2).reshape(shape).astype(dtype)


def thirds(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Distinct numbers that no float holds exactly."""
    return (distinct(shape, np.float64) / 3).astype(dtype)


def directed(op: Operator, *operands: Array) -> Case:
    """A case with fixed directions: tangents of both signs, cotangents that are distinct and positive."""
    dtype = operands[0].dtype
    tangents = tuple(np.asarray(np.arange(x.size).reshape(x.shape) * 5 % 11 - 4, dtype) for x in operands)
    shape = op.output_shape(*(x.shape for x in operands))
    return Case(op, operands, tangents, np.asarray(1 + np.arange(math.prod(shape)).reshape(shape) % 13, dtype))


WINDOWS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("windows side by side", (2, 3, 4, 4), {"kernel_size": (2, 2)}),
    ("overlapping windows with padding", (2, 5, 5), {"kernel_size": (3, 3), "stride": 2, "padding": 1}),
    ("rank 0", (3,), {"kernel_size": ()}),
    ("rank 1 without batch", (7,), {"kernel_size": (3,), "stride": 1}),
    ("rank 3", (1, 2, 3, 4, 3), {"kernel_size": (2, 3, 2), "stride": (1, 2, 1)}),
    ("rank 4", (1, 3, 2, 3, 2), {"kernel_size": (2, 1, 2, 2), "stride": 1}),
    ("three leading axes", (2, 1, 2, 4), {"kernel_size": (2,)}),
    ("a stride larger than the kernel skips cells", (1, 2, 8), {"kernel_size": (2,), "stride": 3}),
    ("odd strides, unequal per axis", (1, 1, 7, 8), {"kernel_size": (2, 3), "stride": (3, 1)}),
    ("kernel as large as the input", (1, 2, 3, 4), {"kernel_size": (3, 4)}),
    ("kernel of 7", (1, 2, 9), {"kernel_size": (7,), "stride": 1}),
    ("kernel of 7 by 7", (1, 1, 8, 7), {"kernel_size": (7, 7), "stride": 1}),
    ("large kernel with padding", (1, 1, 6), {"kernel_size": (11,), "stride": 2, "padding": 5}),
    ("padding on one side only", (1, 2, 5), {"kernel_size": (2,), "stride": 1, "padding": ((0, 1),)}),
    (
        "padding before and after differ",
        (1, 1, 4, 4),
        {"kernel_size": (3, 2), "stride": 2, "padding": ((2, 1), (0, 1))},
    ),
    ("same padding", (1, 1, 5, 6), {"kernel_size": (2, 4), "stride": 1, "padding": "same"}),
    ("same padding with a stride", (1, 1, 6), {"kernel_size": (4,), "stride": 2, "padding": "same"}),
    ("dilation", (1, 2, 7), {"kernel_size": (3,), "stride": 1, "dilation": 2}),
    (
        "dilation, stride and padding",
        (1, 1, 6, 7),
        {"kernel_size": (2, 3), "stride": 2, "padding": 1, "dilation": (3, 2)},
    ),
    ("a window wholly in padding", (1, 2, 1), {"kernel_size": (1,), "stride": 1, "padding": 1}),
    ("padding larger than the kernel", (1, 1, 3), {"kernel_size": (2,), "stride": 2, "padding": 3}),
    (
        "a dilated window without a real cell",
        (1, 2, 1),
        {"kernel_size": (2,), "stride": 1, "padding": 1, "dilation": 2},
    ),
    ("empty batch", (0, 2, 4, 4), {"kernel_size": (2, 2), "stride": 1, "padding": 1}),
    ("channels last", (1, 4, 5, 2), {"kernel_size": (2, 2), "stride": 1, "axes": (1, 2)}),
    ("transposed axes", (3, 4), {"kernel_size": (2, 3), "stride": 1, "axes": (1, 0)}),
]
"""Titles, input shapes and parameters of sliding windows."""

CEILED: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("ceil_mode: a last window that hangs over", (1, 1, 5), {"kernel_size": (2,)}),
    (
        "ceil_mode with padding: a tap beyond the padding is not counted",
        (1, 1, 6),
        {"kernel_size": (3,), "stride": 2, "padding": 1},
    ),
    ("ceil_mode in two axes with padding", (1, 2, 6, 5), {"kernel_size": (3, 2), "stride": (2, 3), "padding": 1}),
    (
        "ceil_mode: a window that would start in the right padding is dropped",
        (1, 1, 3),
        {"kernel_size": (2,), "stride": 4, "padding": 1},
    ),
    ("ceil_mode: a kernel larger than the input", (1, 1, 2), {"kernel_size": (3,), "stride": 2}),
    ("ceil_mode, dilation and padding", (1, 1, 7), {"kernel_size": (3,), "stride": 3, "padding": 1, "dilation": 2}),
]


NUMERIC = frozenset(
    {
        *("subnormal numbers", "large offsets", "the lowest finite number", "a mean of large offsets"),
        *("a running sum must not lose precision", "cancellation of large terms", *FLOATS),
    }
)
"""The titles of plain cases about numbers; of those about windows, a run of a slow subject may leave some out."""


def sliding(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[Telling]:
    """Every window, over distinct numbers."""
    for title, shape, words in WINDOWS:
        yield Telling(title, directed(kind(**words), fill(shape)))
    for title, shape, words in CEILED:
        yield Telling(title, directed(kind(**words, ceil_mode=True), fill(shape)))
    memory = fill((4, 5, 2)).transpose(2, 1, 0)
    yield Telling("an array that is not in row-major memory", directed(kind((2, 2), stride=1), memory))
    yield Telling("an array with negative strides", directed(kind((2,), stride=1), fill((2, 6))[:, ::-1]))
    for title, dtype in FLOATS.items():
        yield Telling(title, directed(kind((2, 2), stride=1), fill((1, 1, 3, 3), dtype)))


def row(*cells: float, dtype: Any = np.float32) -> Array:
    """One channel of one row."""
    return np.array([[cells]], dtype)


def maxima(kind: Callable[..., Operator]) -> Iterator[Telling]:
    """What a maximum of a window of given size must get right, whatever makes its windows: kind(k) has a window of k cells."""
    yield Telling("all cells tie", directed(kind(3), row(5, 5, 5)))
    yield Telling("the first of two maximal cells", directed(kind(4), row(1, 3, 3, 2)))
    yield Telling("-0.0 and 0.0 tie, -0.0 first", directed(kind(2), row(-0.0, 0.0)))
    yield Telling("-0.0 and 0.0 tie, 0.0 first", directed(kind(2), row(0.0, -0.0)))
    yield Telling("NaN wins", directed(kind(3), row(1, NAN, 0)))
    yield Telling("NaN first", directed(kind(3), row(NAN, 1, 2)))
    yield Telling("the last NaN wins", directed(kind(4), row(NAN, 1, NAN, 2)))
    yield Telling("NaN beats infinity", directed(kind(3), row(INF, NAN, 1)))
    yield Telling("-inf is an ordinary value", directed(kind(2), row(-INF, -INF)))
    yield Telling("-inf and a number", directed(kind(2), row(-INF, -3)))
    yield Telling("infinity", directed(kind(3), row(1, INF, -INF)))
    yield Telling("the lowest finite number", directed(kind(1), row(float(np.finfo(np.float32).min))))
    yield Telling("subnormal numbers", directed(kind(3), row(1e-45, 3e-45, 1e-40)))
    yield Telling("large offsets", directed(kind(3), row(16777216, 16777217, 16777218)))
    case = directed(kind(3), row(1, 2, 0))
    for title, moved in (("an infinite tangent at a loser stays out", [[[INF, 1, 1]]]),):
        yield Telling(title, Case(case.op, case.operands, (np.array(moved, np.float32),), case.cotangent))
    yield Telling("int32", directed(kind(3), np.array([[[3, -7, 4]]], np.int32)))


def _tied(kind: Callable[[int, str], Operator], ties: str) -> Callable[[int], Operator]:
    return lambda k: kind(k, ties)


def orders(kind: Callable[[], Operator]) -> Iterator[Telling]:
    """Every order of four cells in a 2×2 window: a winner loop that forgets the best so far picks a wrong one in some of them."""
    planes = np.array(list(itertools.permutations([1, 2, 3, 4])), np.float32).reshape(24, 1, 2, 2)
    yield Telling("every order of a 2×2 window", directed(kind(), planes))


def max_pools() -> Iterator[Telling]:
    yield from sliding(MaxPool, distinct)
    yield Telling(
        "padding is not 0",
        directed(MaxPool((3, 3), stride=2, padding=1), -1 - np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)),
    )
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: MaxPool((k,), ties=ties), ties))
    yield from orders(lambda: MaxPool((2, 2)))
    tied = np.array([[1, 2, 2], [2, 1, 2], [0, 2, 2]], np.float32)[None, None]
    for ties in ("first", "all", "split"):
        yield Telling(
            "ties in overlapping windows with padding", directed(MaxPool((2, 2), stride=1, padding=1, ties=ties), tied)
        )
    yield Telling(
        "the first in index order, not in memory order",
        directed(MaxPool((2, 2)), np.array([[2, 1], [2, 2]], np.float32).T),
    )
    yield Telling("NaN beside padding", directed(MaxPool((3,), stride=1, padding=1), row(NAN, 1, 2)))


def avg_pools() -> Iterator[Telling]:
    yield from sliding(AvgPool, thirds)
    for title, shape, words in (*WINDOWS, *CEILED):
        if "padding" in title or "ceil" in title:
            ceil = "ceil" in title
            yield Telling(
                title + ", not counted",
                directed(AvgPool(**words, ceil_mode=ceil, count_include_pad=False), thirds(shape)),
            )
    yield Telling(
        "divisor_override", directed(AvgPool((2, 2), stride=1, padding=1, divisor_override=3), thirds((1, 2, 3, 3)))
    )
    yield Telling("negative divisor_override", directed(AvgPool((2, 2), divisor_override=-2), thirds((1, 1, 4, 4))))
    yield Telling(
        "divisor_override with ceil_mode",
        directed(AvgPool((2, 2), divisor_override=3, ceil_mode=True), thirds((1, 1, 3, 3))),
    )
    yield Telling(
        "a running sum must not lose precision", directed(AvgPool((2,), stride=1), row(1e8, 1, 1e-3, 1e-3, 0, 1e-6))
    )
    yield Telling("NaN stays in the windows that read it", directed(AvgPool((2,), stride=1), row(NAN, 1, 2, 3)))
    yield Telling("infinity stays in the windows that read it", directed(AvgPool((2,), stride=1), row(1, INF, 2, 3, 4)))
    yield Telling("infinities of both signs", directed(AvgPool((2,), stride=1), row(INF, -INF, 1, 2)))
    yield Telling("subnormal numbers", directed(AvgPool((2,), stride=1), row(1e-40, 3e-40, 1e-45)))


def smooth_max_pools() -> Iterator[Telling]:
    yield from sliding(functools.partial(SmoothMaxPool, beta=1), thirds)
    for beta in (0.5, -1, 10, -2.5):
        pool = SmoothMaxPool((2, 2), stride=1, padding=1, beta=beta)
        yield Telling(f"beta={beta}", directed(pool, thirds((1, 1, 3, 3))))
    yield Telling(
        "padding skipped", directed(SmoothMaxPool((3,), stride=1, padding=1, beta=2, pad="skip"), thirds((1, 2, 5)))
    )
    yield Telling(
        "exponents that overflow unless shifted", directed(SmoothMaxPool((2,), stride=1, beta=3), row(1000, 999, -1000))
    )
    yield Telling(
        "numbers whose product with beta overflows", directed(SmoothMaxPool((2,), beta=1e20), row(1e20, -1e20))
    )
    yield Telling("all cells equal", directed(SmoothMaxPool((4,), beta=1), row(2, 2, 2, 2)))
    pool = SmoothMaxPool((2,), stride=1, beta=2)
    yield Telling("NaN stays in the windows that read it", directed(pool, row(NAN, 1, 2, 3)))
    yield Telling("infinity", directed(pool, row(1, INF, 2, 3)))
    yield Telling("-inf loses", directed(pool, row(-INF, 1, 2, 3)))
    yield Telling("only -inf", directed(pool, row(-INF, -INF, 2, 3)))
    yield Telling(
        "a large negative window beside padding",
        directed(SmoothMaxPool((2,), stride=1, padding=1, beta=1), row(-200, -300)),
    )


def adaptive(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[Telling]:
    for n, m in ((5, 3), (2, 3), (10, 7), (7, 2), (1, 4), (6, 3), (4, 4), (11, 5)):
        yield Telling(f"{n} cells in {m} bins", directed(kind((m,)), fill((1, 2, n))))
    yield Telling("two axes, bins overlapping in both", directed(kind((3, 2)), fill((1, 2, 5, 7))))
    yield Telling("None keeps an axis", directed(kind((None, 2)), fill((1, 1, 3, 5))))
    yield Telling("no bin at all", directed(kind((0, 2)), fill((1, 1, 3, 5))))
    yield Telling("rank 3", directed(kind((2, 2, 3)), fill((1, 1, 3, 4, 5))))
    yield Telling("empty batch", directed(kind((2,)), fill((0, 1, 5))))
    yield Telling("channels last", directed(kind((2, 3), axes=(1, 2)), fill((1, 4, 5, 2))))
    yield Telling("rank 1 without batch", directed(kind((2,)), fill((5,))))
    for title, dtype in FLOATS.items():
        yield Telling(title, directed(kind((2,)), fill((1, 1, 5), dtype)))


def adaptive_max_pools() -> Iterator[Telling]:
    yield from adaptive(AdaptiveMaxPool, distinct)
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: AdaptiveMaxPool((1,), ties=ties), ties))
    yield from orders(lambda: AdaptiveMaxPool((1, 1)))


def adaptive_avg_pools() -> Iterator[Telling]:
    yield from adaptive(AdaptiveAvgPool, thirds)
    yield Telling("NaN stays in the bins that read it", directed(AdaptiveAvgPool((3,)), row(NAN, 1, 2, 3, 4)))
    yield Telling("infinity", directed(AdaptiveAvgPool((3,)), row(1, 2, 3, 4, INF)))


def whole(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[Telling]:
    for rank, shape in (
        (1, (2, 3, 4)),
        (2, (2, 3, 3, 4)),
        (3, (1, 2, 2, 3, 2)),
        (2, (3, 4)),
        (0, (2, 3)),
        (2, (0, 2, 3, 3)),
    ):
        for keepdims in (True, False):
            yield Telling(f"rank {rank}, keepdims={keepdims}", directed(kind(rank, keepdims=keepdims), fill(shape)))
    yield Telling("channels last", directed(kind(2, axes=(1, 2)), fill((2, 3, 4, 2))))
    for title, dtype in FLOATS.items():
        yield Telling(title, directed(kind(1), fill((1, 1, 5), dtype)))


def global_max_pools() -> Iterator[Telling]:
    yield from whole(GlobalMaxPool, distinct)
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: GlobalMaxPool(1, ties=ties), ties))
        plane = np.array([[[[1, 3], [3, 2]]]], np.float32)
        yield Telling("a plane with a tie", directed(GlobalMaxPool(2, ties=ties), plane))
    yield from orders(lambda: GlobalMaxPool(2))


def global_avg_pools() -> Iterator[Telling]:
    yield from whole(GlobalAvgPool, thirds)
    yield Telling("NaN stays in its plane", directed(GlobalAvgPool(1), np.array([[[1, NAN], [2, 3]]], np.float32)))
    yield Telling("infinity", directed(GlobalAvgPool(1), row(1, INF)))
    yield Telling("a mean of large offsets", directed(GlobalAvgPool(1), row(1e8, 1e8 + 8, -2e8, 1)))


def weighted(
    op: Operator, x: tuple[int, ...], weight: tuple[int, ...], bias: bool = True, dtype: Any = np.float32
) -> Case:
    """A convolution of thirds."""
    written = op.output_shape(x, weight)[len(x) - len(weight) + 1]
    operands = [thirds(x, dtype), thirds(weight, dtype) * dtype(0.5), thirds((written,), dtype) + dtype(1)]
    return directed(op, *(a.astype(dtype) for a in operands[: 3 if bias else 2]))


def convolutions() -> Iterator[Telling]:
    for title, shape, words in WINDOWS:
        if "axes" in words or len(words["kernel_size"]) not in (0, 1, 2, 3):
            continue
        rank = len(words["kernel_size"])
        batch, sizes = shape[: len(shape) - rank], shape[len(shape) - rank :]
        x = (*batch[:1], 2, *sizes)
        words = {**words, "stride": words.get("stride", 1)}
        yield Telling(title, weighted(Conv(**words), x, (3, 2, *words["kernel_size"])))
    yield Telling("without bias", weighted(Conv((3, 3), padding=1), (1, 2, 4, 4), (2, 2, 3, 3), bias=False))
    yield Telling("without batch", weighted(Conv((2,)), (2, 5), (3, 2, 2)))
    yield Telling("two leading axes", weighted(Conv((2,)), (2, 1, 2, 5), (3, 2, 2)))
    yield Telling("groups", weighted(Conv((2, 2), groups=2), (1, 4, 3, 3), (6, 2, 2, 2)))
    yield Telling("depthwise", weighted(Conv((3,), groups=3, padding=1), (2, 3, 5), (3, 1, 3)))
    yield Telling("depthwise with a multiplier", weighted(Conv((2,), groups=2), (1, 2, 4), (6, 1, 2)))
    yield Telling("1×1", weighted(Conv((1, 1)), (1, 3, 2, 2), (2, 3, 1, 1)))
    kernel = np.array([[[1, 2, 4]]], np.float32)
    yield Telling("the kernel is not flipped", directed(Conv((3,)), row(1, 10, 100, 1000), kernel))
    yield Telling(
        "an infinite weight does not meet padding",
        directed(Conv((2,), padding=1), row(1), np.array([[[INF, 2]]], np.float32)),
    )
    yield Telling(
        "NaN stays in the windows that read it",
        directed(Conv((2,)), row(NAN, 1, 2, 3), np.array([[[1, -1]]], np.float32)),
    )
    yield Telling(
        "NaN in the weight reaches all windows", directed(Conv((2,)), row(1, 2, 3), np.array([[[1, NAN]]], np.float32))
    )
    yield Telling(
        "infinity stays in the windows that read it",
        directed(Conv((2,)), row(INF, 1, 2, 3), np.array([[[1, -1]]], np.float32)),
    )
    yield Telling(
        "cancellation of large terms", directed(Conv((3,)), row(1e8, 1, -1e8, 3), np.ones((1, 1, 3), np.float32))
    )
    for title, dtype in FLOATS.items():
        yield Telling(title, weighted(Conv((2, 2)), (1, 2, 3, 3), (2, 2, 2, 2), dtype=dtype))
    yield Telling("int32", directed(Conv((2,)), np.array([[[3, -1, 4, 1]]], np.int32), np.array([[[2, -3]]], np.int32)))


def transposed() -> Iterator[Telling]:
    block = np.array([[[[1, 2], [3, 4]]]], np.float32)
    yield Telling(
        "each value a block", directed(ConvTranspose((2, 2), stride=2), block, np.ones((1, 1, 2, 2), np.float32))
    )
    for title, words, x, weight in [
        ("overlapping", {"kernel_size": (3,), "stride": 2}, (1, 2, 4), (2, 3, 3)),
        ("padding crops", {"kernel_size": (3, 3), "stride": 2, "padding": 1}, (1, 2, 3, 3), (2, 2, 3, 3)),
        ("padding crops one side more", {"kernel_size": (3,), "stride": 2, "padding": ((0, 1),)}, (1, 1, 3), (1, 1, 3)),
        ("output_padding", {"kernel_size": (3,), "stride": 2, "padding": 1, "output_padding": 1}, (1, 2, 3), (2, 2, 3)),
        (
            "output_padding beyond the kernel",
            {"kernel_size": (1,), "stride": 3, "output_padding": 2},
            (1, 1, 2),
            (1, 1, 1),
        ),
        ("dilation", {"kernel_size": (2, 2), "stride": 1, "dilation": (2, 3)}, (1, 1, 3, 2), (1, 2, 2, 2)),
        (
            "output_padding below the dilation",
            {"kernel_size": (2,), "dilation": 3, "output_padding": 2},
            (1, 1, 2),
            (1, 1, 2),
        ),
        ("groups", {"kernel_size": (2,), "stride": 2, "groups": 2}, (1, 4, 3), (4, 3, 2)),
        ("rank 3", {"kernel_size": (2, 2, 2), "stride": 2}, (1, 1, 2, 1, 2), (1, 2, 2, 2, 2)),
        ("rank 0", {"kernel_size": ()}, (2, 3), (3, 2)),
        ("kernel of 7", {"kernel_size": (7,), "stride": 3, "padding": 2}, (1, 1, 4), (1, 1, 7)),
        ("empty batch", {"kernel_size": (2,), "stride": 2}, (0, 2, 3), (2, 3, 2)),
        ("without batch", {"kernel_size": (2,), "stride": 2}, (2, 3), (2, 3, 2)),
    ]:
        yield Telling(title, weighted(ConvTranspose(**words), x, weight))  # type: ignore[arg-type]
    op = ConvTranspose((2,), stride=2)
    yield Telling("without bias", weighted(op, (1, 2, 3), (2, 2, 2), bias=False))
    for title, dtype in FLOATS.items():
        yield Telling(title, weighted(op, (1, 2, 3), (2, 2, 2), dtype=dtype))
    yield Telling("NaN stays in what it writes", directed(op, row(NAN, 1), np.array([[[1, 2]]], np.float32)))
    yield Telling("infinity stays in what it writes", directed(op, row(1, INF), np.array([[[1, 2]]], np.float32)))


def linear_maps() -> Iterator[Telling]:
    for title, x, weight in (
        ("a batch", (3, 4), (2, 4)),
        ("no batch", (4,), (2, 4)),
        ("two leading axes", (2, 2, 3), (2, 3)),
        ("empty batch", (0, 3), (2, 3)),
        ("long rows", (1, 40), (2, 40)),
    ):
        yield Telling(title, weighted(Linear(), x, weight))
        yield Telling(title + ", no bias", weighted(Linear(), x, weight, bias=False))
    for title, dtype in FLOATS.items():
        yield Telling(title, weighted(Linear(), (2, 3), (2, 3), dtype=dtype))
    yield Telling(
        "NaN stays in its row",
        directed(Linear(), np.array([[NAN, 1], [2, 3]], np.float32), np.array([[1, -1]], np.float32)),
    )
    yield Telling(
        "infinity stays in its row",
        directed(Linear(), np.array([[INF, 1], [2, 3]], np.float32), np.array([[1, -1]], np.float32)),
    )


_LISTS: dict[type[Operator], Callable[[], Iterator[Telling]]] = {
    MaxPool: max_pools,
    AvgPool: avg_pools,
    SmoothMaxPool: smooth_max_pools,
    AdaptiveMaxPool: adaptive_max_pools,
    AdaptiveAvgPool: adaptive_avg_pools,
    GlobalMaxPool: global_max_pools,
    GlobalAvgPool: global_avg_pools,
    Conv: convolutions,
    ConvTranspose: transposed,
    Linear: linear_maps,
}

WINDOWED = tuple(_LISTS)
"""The operators that have telling cases: those with windows."""


def operator_called(name: Any) -> type[Operator]:
    """The operator with this name, `MaxPool` or `max_pool`, or the class itself; raises ValueError with those there are."""
    for kind in WINDOWED:
        if name in (kind, kind.__name__, kind.name):
            return kind
    raise ValueError(f"{name}: choose from " + ", ".join(kind.__name__ for kind in WINDOWED))


def telling(kind: type[Operator]) -> list[Telling]:
    """The telling cases of an operator."""
    return list(_LISTS[kind]())
