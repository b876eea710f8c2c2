"""Curated cases of pooling: every window, and the rules of maxima, averages and smooth maxima."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ...operator import Operator
from ...ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    MinPool,
    SmoothMaxPool,
    SumPool,
)
from .windows import CEILED, FLOATS, INF, NAN, WINDOWS, Array, NamedCase, distinct, everywhere, named, row, thirds

RULES = ("first", "all", "split")


def sliding(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[NamedCase]:
    """Cases of every window, with cells from `fill`."""
    for title, shape, words, quick in WINDOWS:
        yield named(title, kind(**words), fill(shape), quick=quick)
    for title, shape, words, quick in CEILED:
        yield named(title, kind(**words, ceil_mode=True), fill(shape), quick=quick)
    memory = fill((4, 5, 2)).transpose(2, 1, 0)
    yield named("an array that is not in row-major memory", kind((2, 2), stride=1), memory, quick=True)
    yield named("an array with negative strides", kind((2,), stride=1), fill((2, 6))[:, ::-1])
    for title, dtype in FLOATS.items():
        yield named(title, kind((2, 2), stride=1), fill((1, 1, 3, 3), dtype), quick=True)
    yield from placed(lambda rank: kind((2,) * rank))
    yield from among(kind)


def placed(kind: Callable[[int], Operator]) -> Iterator[NamedCase]:
    """NaN and infinities at every cell of a window with two cells per axis, in rank 2 and 3, for
    the operator kind(rank)."""
    for rank in (2, 3):
        for name, special in (("NaN", NAN), ("infinity", INF), ("-inf", -INF)):
            title = f"{name} in every place of a window of rank {rank}"
            yield named(title, kind(rank), everywhere(special, rank), quick=rank == 2 and special != -INF)


def among(kind: Callable[..., Operator]) -> Iterator[NamedCase]:
    """NaN and infinity at the centre of a plane, under the kernels that most networks have."""
    for name, special in (("NaN", NAN), ("infinity", INF)):
        for stride in (1, 2):
            plane = thirds((1, 1, 5, 5))
            plane[..., 2, 2] = special
            title = f"{name} under a padded kernel of 3, stride {stride}"
            yield named(title, kind((3, 3), stride=stride, padding=1), plane, quick=name == "NaN" and stride == 2)


def maxima(kind: Callable[..., Operator], plane: Operator, far: Operator) -> Iterator[NamedCase]:
    """The rules of a maximum, for any kind of window: kind(k, ties) has a window of k cells,
    `plane` a window of 2×2 and `far` a window of 16×17."""
    for ties in RULES:
        yield from _maximum(functools.partial(kind, ties=ties), ties == "first")
    # an argmax loop that compares with the wrong cell fails on some of these orders
    orders = np.array(list(itertools.permutations([1, 2, 3, 4])), np.float32).reshape(24, 1, 2, 2)
    yield named("every order of a 2×2 window", plane, orders, quick=True)
    cells = np.arange(272, dtype=np.float32).reshape(1, 16, 17)
    yield named("a winner that a byte cannot number", far, cells, quick=True)


def _maximum(kind: Callable[[int], Operator], first: bool) -> Iterator[NamedCase]:
    """The rules of a maximum under one `ties`; `first` puts the cases about NaN and infinity into a
    quick run."""
    yield named("all cells tie", kind(3), row(5, 5, 5), quick=True)
    yield named("the first of two maximal cells", kind(4), row(1, 3, 3, 2), quick=True)
    yield named("-0.0 and 0.0 tie, -0.0 first", kind(2), row(-0.0, 0.0), quick=True)
    yield named("-0.0 and 0.0 tie, 0.0 first", kind(2), row(0.0, -0.0))
    yield named("NaN wins", kind(3), row(1, NAN, 0), quick=first)
    yield named("NaN first", kind(3), row(NAN, 1, 2))
    yield named("the last NaN wins", kind(4), row(NAN, 1, NAN, 2), quick=first)
    yield named("NaN beats infinity", kind(3), row(INF, NAN, 1))
    yield named("-inf is an ordinary value", kind(2), row(-INF, -INF), quick=first)
    yield named("-inf and a number", kind(2), row(-INF, -3))
    yield named("infinity", kind(3), row(1, INF, -INF), quick=first)
    yield named("the lowest finite number", kind(1), row(float(np.finfo(np.float32).min)))
    yield named("subnormal numbers", kind(3), row(1e-45, 3e-45, 1e-40))
    yield named("large offsets", kind(3), row(16777216, 16777217, 16777218))
    still = named("an infinite tangent at a loser stays out", kind(3), row(1, 2, 0), quick=first)
    yield still._replace(case=dataclasses.replace(still.case, tangents=(row(INF, 1, 1),)))
    yield named("int32", kind(3), np.array([[[3, -7, 4]]], np.int32), quick=first)


def max_pools() -> Iterator[NamedCase]:
    yield from sliding(MaxPool, distinct)
    yield named(
        "padding is not 0",
        MaxPool((3, 3), stride=2, padding=1),
        -1 - np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3),
        quick=True,
    )
    yield named(
        "padding is not 0, in windows side by side",
        MaxPool((2, 2), padding=1),
        np.array([[-1, -2], [-3, -4]], np.float32)[None, None],
    )
    yield from maxima(lambda k, ties: MaxPool((k,), ties=ties), MaxPool((2, 2)), MaxPool((16, 17)))
    tied = np.array([[1, 2, 2], [2, 1, 2], [0, 2, 2]], np.float32)[None, None]
    for ties in RULES:
        yield named("ties in overlapping windows with padding", MaxPool((2, 2), stride=1, padding=1, ties=ties), tied)
    yield named(
        "the first in index order, not in memory order",
        MaxPool((2, 2)),
        np.array([[2, 1], [2, 2]], np.float32).T,
        quick=True,
    )
    yield named("NaN beside padding", MaxPool((3,), stride=1, padding=1), row(NAN, 1, 2))


def min_pools() -> Iterator[NamedCase]:
    yield from sliding(MinPool, distinct)
    yield from maxima(lambda k, ties: MinPool((k,), ties=ties), MinPool((2, 2)), MinPool((16, 17)))
    padded = MinPool((3, 3), stride=2, padding=1)
    yield named("padding is not 0", padded, 1 + np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3), quick=True)


def sum_pools() -> Iterator[NamedCase]:
    yield from sliding(SumPool, thirds)
    yield named("int32", SumPool((3,), stride=1), np.array([[[3, -7, 4, 9]]], np.int32), quick=True)
    pool = SumPool((2,), stride=1)
    yield named("a running sum must not lose precision", pool, row(1e8, 1, 1e-3, 1e-3, 0, 1e-6), quick=True)
    yield named("NaN stays in the windows that read it", pool, row(NAN, 1, 2, 3), quick=True)
    yield named("infinities of both signs", pool, row(INF, -INF, 1, 2))
    yield named("subnormal numbers", pool, row(1e-40, 3e-40, 1e-45))


def avg_pools() -> Iterator[NamedCase]:
    yield from sliding(AvgPool, thirds)
    for title, shape, words, quick in (*WINDOWS, *CEILED):
        if "padding" in title or "ceil" in title:
            ceil = "ceil" in title
            yield named(
                title + ", not counted",
                AvgPool(**words, ceil_mode=ceil, count_include_pad=False),
                thirds(shape),
                quick=quick,
            )
    yield named(
        "padding in windows side by side, not counted",
        AvgPool((2, 2), padding=1, count_include_pad=False),
        thirds((1, 1, 2, 2)),
    )
    yield named(
        "divisor_override", AvgPool((2, 2), stride=1, padding=1, divisor_override=3), thirds((1, 2, 3, 3)), quick=True
    )
    yield named("negative divisor_override", AvgPool((2, 2), divisor_override=-2), thirds((1, 1, 4, 4)))
    yield named(
        "divisor_override with ceil_mode", AvgPool((2, 2), divisor_override=3, ceil_mode=True), thirds((1, 1, 3, 3))
    )
    yield named(
        "a running sum must not lose precision", AvgPool((2,), stride=1), row(1e8, 1, 1e-3, 1e-3, 0, 1e-6), quick=True
    )
    yield named("NaN stays in the windows that read it", AvgPool((2,), stride=1), row(NAN, 1, 2, 3), quick=True)
    yield named("infinity stays in the windows that read it", AvgPool((2,), stride=1), row(1, INF, 2, 3, 4), quick=True)
    yield named("infinities of both signs", AvgPool((2,), stride=1), row(INF, -INF, 1, 2))
    yield named("subnormal numbers", AvgPool((2,), stride=1), row(1e-40, 3e-40, 1e-45))


def smooth_max_pools() -> Iterator[NamedCase]:
    yield from sliding(functools.partial(SmoothMaxPool, beta=1), thirds)
    for beta in (0.5, -1, 10, -2.5):
        pool = SmoothMaxPool((2, 2), stride=1, padding=1, beta=beta)
        yield named(f"beta={beta}", pool, thirds((1, 1, 3, 3)), quick=beta == -1)
    yield named(
        "padding skipped", SmoothMaxPool((3,), stride=1, padding=1, beta=2, pad="skip"), thirds((1, 2, 5)), quick=True
    )
    yield named(
        "exponents that overflow unless shifted",
        SmoothMaxPool((2,), stride=1, beta=3),
        row(1000, 999, -1000),
        quick=True,
    )
    yield named("numbers whose product with beta overflows", SmoothMaxPool((2,), beta=1e20), row(1e20, -1e20))
    yield named("all cells equal", SmoothMaxPool((4,), beta=1), row(2, 2, 2, 2))
    pool = SmoothMaxPool((2,), stride=1, beta=2)
    yield named("NaN stays in the windows that read it", pool, row(NAN, 1, 2, 3), quick=True)
    yield named("infinity", pool, row(1, INF, 2, 3), quick=True)
    yield named("-inf loses", pool, row(-INF, 1, 2, 3), quick=True)
    yield named("only -inf", pool, row(-INF, -INF, 2, 3))
    yield named(
        "a large negative window beside padding",
        SmoothMaxPool((2,), stride=1, padding=1, beta=1),
        row(-200, -300),
        quick=True,
    )


def adaptive(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[NamedCase]:
    for n, m in ((5, 3), (2, 3), (10, 7), (7, 2), (1, 4), (6, 3), (4, 4), (11, 5)):
        yield named(f"{n} cells in {m} bins", kind((m,)), fill((1, 2, n)), quick=(n, m) in ((5, 3), (2, 3)))
    yield named("two axes, bins overlapping in both", kind((3, 2)), fill((1, 2, 5, 7)), quick=True)
    yield named("None keeps an axis", kind((None, 2)), fill((1, 1, 3, 5)))
    yield named("no bin at all", kind((0, 2)), fill((1, 1, 3, 5)), quick=True)
    yield named("rank 3", kind((2, 2, 3)), fill((1, 1, 3, 4, 5)))
    yield named("empty batch", kind((2,)), fill((0, 1, 5)), quick=True)
    yield named("channels last", kind((2, 3), axes=(1, 2)), fill((1, 4, 5, 2)), quick=True)
    yield named("rank 1 without batch", kind((2,)), fill((5,)))
    for title, dtype in FLOATS.items():
        yield named(title, kind((2,)), fill((1, 1, 5), dtype), quick=True)
    yield from placed(lambda rank: kind((1,) * rank))


def adaptive_max_pools() -> Iterator[NamedCase]:
    yield from adaptive(AdaptiveMaxPool, distinct)
    plane = AdaptiveMaxPool((1, 1))
    yield from maxima(lambda k, ties: AdaptiveMaxPool((1,), ties=ties), plane, plane)


def adaptive_avg_pools() -> Iterator[NamedCase]:
    yield from adaptive(AdaptiveAvgPool, thirds)
    yield named("NaN stays in the bins that read it", AdaptiveAvgPool((3,)), row(NAN, 1, 2, 3, 4), quick=True)
    yield named("infinity", AdaptiveAvgPool((3,)), row(1, 2, 3, 4, INF), quick=True)


def whole(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[NamedCase]:
    for rank, shape in (
        (1, (2, 3, 4)),
        (2, (2, 3, 3, 4)),
        (3, (1, 2, 2, 3, 2)),
        (2, (3, 4)),
        (0, (2, 3)),
        (2, (0, 2, 3, 3)),
    ):
        for keepdims in (True, False):
            quick = shape[0] == 2 and (rank, keepdims) in ((1, False), (2, True))
            yield named(f"rank {rank}, keepdims={keepdims}", kind(rank, keepdims=keepdims), fill(shape), quick=quick)
    yield named("channels last", kind(2, axes=(1, 2)), fill((2, 3, 4, 2)), quick=True)
    for title, dtype in FLOATS.items():
        yield named(title, kind(1), fill((1, 1, 5), dtype), quick=True)
    yield from placed(kind)


def global_max_pools() -> Iterator[NamedCase]:
    yield from whole(GlobalMaxPool, distinct)
    yield from maxima(lambda k, ties: GlobalMaxPool(1, ties=ties), GlobalMaxPool(2), GlobalMaxPool(2))
    for ties in RULES:
        plane = np.array([[[[1, 3], [3, 2]]]], np.float32)
        yield named("a plane with a tie", GlobalMaxPool(2, ties=ties), plane, quick=True)


def global_avg_pools() -> Iterator[NamedCase]:
    yield from whole(GlobalAvgPool, thirds)
    yield named("NaN stays in its plane", GlobalAvgPool(1), np.array([[[1, NAN], [2, 3]]], np.float32), quick=True)
    yield named("infinity", GlobalAvgPool(1), row(1, INF), quick=True)
    yield named("a mean of large offsets", GlobalAvgPool(1), row(1e8, 1e8 + 8, -2e8, 1))


LISTS: dict[type[Operator], Callable[[], Iterator[NamedCase]]] = {
    MaxPool: max_pools,
    MinPool: min_pools,
    SumPool: sum_pools,
    AvgPool: avg_pools,
    SmoothMaxPool: smooth_max_pools,
    AdaptiveMaxPool: adaptive_max_pools,
    AdaptiveAvgPool: adaptive_avg_pools,
    GlobalMaxPool: global_max_pools,
    GlobalAvgPool: global_avg_pools,
}
