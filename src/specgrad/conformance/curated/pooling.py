"""Curated cases of pooling: every window, and what maxima, averages and smooth maxima must get
right in it."""

from __future__ import annotations

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
    SmoothMaxPool,
)
from ..cases import Case
from .windows import CEILED, FLOATS, INF, NAN, WINDOWS, Array, NamedCase, directed, distinct, everywhere, row, thirds


def sliding(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[NamedCase]:
    """Every window, over distinct numbers."""
    for title, shape, words, quick in WINDOWS:
        yield NamedCase(title, directed(kind(**words), fill(shape)), quick)
    for title, shape, words, quick in CEILED:
        yield NamedCase(title, directed(kind(**words, ceil_mode=True), fill(shape)), quick)
    memory = fill((4, 5, 2)).transpose(2, 1, 0)
    yield NamedCase("an array that is not in row-major memory", directed(kind((2, 2), stride=1), memory), quick=True)
    yield NamedCase("an array with negative strides", directed(kind((2,), stride=1), fill((2, 6))[:, ::-1]))
    for title, dtype in FLOATS.items():
        yield NamedCase(title, directed(kind((2, 2), stride=1), fill((1, 1, 3, 3), dtype)), quick=True)
    yield from placed(lambda rank: kind((2,) * rank))
    yield from among(kind)


def placed(kind: Callable[[int], Operator]) -> Iterator[NamedCase]:
    """NaN and infinities in every place of a plane and of a volume with two cells an axis, which
    kind(rank) reads as one window."""
    for rank in (2, 3):
        for name, special in (("NaN", NAN), ("infinity", INF), ("-inf", -INF)):
            title = f"{name} in every place of a window of rank {rank}"
            yield NamedCase(title, directed(kind(rank), everywhere(special, rank)), rank == 2 and special != -INF)


def among(kind: Callable[..., Operator]) -> Iterator[NamedCase]:
    """NaN and infinity in the midst of a plane, under the kernels that most networks have."""
    for name, special in (("NaN", NAN), ("infinity", INF)):
        for stride in (1, 2):
            plane = thirds((1, 1, 5, 5))
            plane[..., 2, 2] = special
            title = f"{name} under a padded kernel of 3, stride {stride}"
            yield NamedCase(
                title, directed(kind((3, 3), stride=stride, padding=1), plane), name == "NaN" and stride == 2
            )


def maxima(kind: Callable[..., Operator], ties: str) -> Iterator[NamedCase]:
    """What a maximum of a window of given size must get right, whatever makes its windows: kind(k)
    has a window of k cells. Ties are tried under every rule, all else quickly under the first."""
    first = ties == "first"
    yield NamedCase("all cells tie", directed(kind(3), row(5, 5, 5)), quick=True)
    yield NamedCase("the first of two maximal cells", directed(kind(4), row(1, 3, 3, 2)), quick=True)
    yield NamedCase("-0.0 and 0.0 tie, -0.0 first", directed(kind(2), row(-0.0, 0.0)), quick=True)
    yield NamedCase("-0.0 and 0.0 tie, 0.0 first", directed(kind(2), row(0.0, -0.0)))
    yield NamedCase("NaN wins", directed(kind(3), row(1, NAN, 0)), first)
    yield NamedCase("NaN first", directed(kind(3), row(NAN, 1, 2)))
    yield NamedCase("the last NaN wins", directed(kind(4), row(NAN, 1, NAN, 2)), first)
    yield NamedCase("NaN beats infinity", directed(kind(3), row(INF, NAN, 1)))
    yield NamedCase("-inf is an ordinary value", directed(kind(2), row(-INF, -INF)), first)
    yield NamedCase("-inf and a number", directed(kind(2), row(-INF, -3)))
    yield NamedCase("infinity", directed(kind(3), row(1, INF, -INF)), first)
    yield NamedCase("the lowest finite number", directed(kind(1), row(float(np.finfo(np.float32).min))))
    yield NamedCase("subnormal numbers", directed(kind(3), row(1e-45, 3e-45, 1e-40)))
    yield NamedCase("large offsets", directed(kind(3), row(16777216, 16777217, 16777218)))
    case = directed(kind(3), row(1, 2, 0))
    for title, moved in (("an infinite tangent at a loser stays out", [[[INF, 1, 1]]]),):
        yield NamedCase(title, Case(case.op, case.operands, (np.array(moved, np.float32),), case.cotangent), first)
    yield NamedCase("int32", directed(kind(3), np.array([[[3, -7, 4]]], np.int32)), first)


def _tied(kind: Callable[[int, str], Operator], ties: str) -> Callable[[int], Operator]:
    return lambda k: kind(k, ties)


def orders(kind: Callable[[], Operator]) -> Iterator[NamedCase]:
    """Every order of four cells in a 2×2 window: a winner loop that forgets the best so far picks a
    wrong one in some of them."""
    planes = np.array(list(itertools.permutations([1, 2, 3, 4])), np.float32).reshape(24, 1, 2, 2)
    yield NamedCase("every order of a 2×2 window", directed(kind(), planes), quick=True)


def far_winner(kind: Callable[[], Operator]) -> Iterator[NamedCase]:
    """A window of 16×17 cells whose last one wins: its number in the window does not fit in a
    byte."""
    yield NamedCase(
        "a winner that a byte cannot number",
        directed(kind(), np.arange(272, dtype=np.float32).reshape(1, 16, 17)),
        quick=True,
    )


def max_pools() -> Iterator[NamedCase]:
    yield from sliding(MaxPool, distinct)
    yield NamedCase(
        "padding is not 0",
        directed(MaxPool((3, 3), stride=2, padding=1), -1 - np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)),
        quick=True,
    )
    yield NamedCase(
        "padding is not 0, in windows side by side",
        directed(MaxPool((2, 2), padding=1), np.array([[-1, -2], [-3, -4]], np.float32)[None, None]),
    )
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: MaxPool((k,), ties=ties), ties), ties)
    yield from orders(lambda: MaxPool((2, 2)))
    yield from far_winner(lambda: MaxPool((16, 17)))
    tied = np.array([[1, 2, 2], [2, 1, 2], [0, 2, 2]], np.float32)[None, None]
    for ties in ("first", "all", "split"):
        yield NamedCase(
            "ties in overlapping windows with padding", directed(MaxPool((2, 2), stride=1, padding=1, ties=ties), tied)
        )
    yield NamedCase(
        "the first in index order, not in memory order",
        directed(MaxPool((2, 2)), np.array([[2, 1], [2, 2]], np.float32).T),
        quick=True,
    )
    yield NamedCase("NaN beside padding", directed(MaxPool((3,), stride=1, padding=1), row(NAN, 1, 2)))


def avg_pools() -> Iterator[NamedCase]:
    yield from sliding(AvgPool, thirds)
    for title, shape, words, quick in (*WINDOWS, *CEILED):
        if "padding" in title or "ceil" in title:
            ceil = "ceil" in title
            yield NamedCase(
                title + ", not counted",
                directed(AvgPool(**words, ceil_mode=ceil, count_include_pad=False), thirds(shape)),
                quick,
            )
    yield NamedCase(
        "padding in windows side by side, not counted",
        directed(AvgPool((2, 2), padding=1, count_include_pad=False), thirds((1, 1, 2, 2))),
    )
    yield NamedCase(
        "divisor_override",
        directed(AvgPool((2, 2), stride=1, padding=1, divisor_override=3), thirds((1, 2, 3, 3))),
        quick=True,
    )
    yield NamedCase("negative divisor_override", directed(AvgPool((2, 2), divisor_override=-2), thirds((1, 1, 4, 4))))
    yield NamedCase(
        "divisor_override with ceil_mode",
        directed(AvgPool((2, 2), divisor_override=3, ceil_mode=True), thirds((1, 1, 3, 3))),
    )
    yield NamedCase(
        "a running sum must not lose precision",
        directed(AvgPool((2,), stride=1), row(1e8, 1, 1e-3, 1e-3, 0, 1e-6)),
        quick=True,
    )
    yield NamedCase(
        "NaN stays in the windows that read it", directed(AvgPool((2,), stride=1), row(NAN, 1, 2, 3)), quick=True
    )
    yield NamedCase(
        "infinity stays in the windows that read it",
        directed(AvgPool((2,), stride=1), row(1, INF, 2, 3, 4)),
        quick=True,
    )
    yield NamedCase("infinities of both signs", directed(AvgPool((2,), stride=1), row(INF, -INF, 1, 2)))
    yield NamedCase("subnormal numbers", directed(AvgPool((2,), stride=1), row(1e-40, 3e-40, 1e-45)))


def smooth_max_pools() -> Iterator[NamedCase]:
    yield from sliding(functools.partial(SmoothMaxPool, beta=1), thirds)
    for beta in (0.5, -1, 10, -2.5):
        pool = SmoothMaxPool((2, 2), stride=1, padding=1, beta=beta)
        yield NamedCase(f"beta={beta}", directed(pool, thirds((1, 1, 3, 3))), beta == -1)
    yield NamedCase(
        "padding skipped",
        directed(SmoothMaxPool((3,), stride=1, padding=1, beta=2, pad="skip"), thirds((1, 2, 5))),
        quick=True,
    )
    yield NamedCase(
        "exponents that overflow unless shifted",
        directed(SmoothMaxPool((2,), stride=1, beta=3), row(1000, 999, -1000)),
        quick=True,
    )
    yield NamedCase(
        "numbers whose product with beta overflows", directed(SmoothMaxPool((2,), beta=1e20), row(1e20, -1e20))
    )
    yield NamedCase("all cells equal", directed(SmoothMaxPool((4,), beta=1), row(2, 2, 2, 2)))
    pool = SmoothMaxPool((2,), stride=1, beta=2)
    yield NamedCase("NaN stays in the windows that read it", directed(pool, row(NAN, 1, 2, 3)), quick=True)
    yield NamedCase("infinity", directed(pool, row(1, INF, 2, 3)), quick=True)
    yield NamedCase("-inf loses", directed(pool, row(-INF, 1, 2, 3)), quick=True)
    yield NamedCase("only -inf", directed(pool, row(-INF, -INF, 2, 3)))
    yield NamedCase(
        "a large negative window beside padding",
        directed(SmoothMaxPool((2,), stride=1, padding=1, beta=1), row(-200, -300)),
        quick=True,
    )


def adaptive(kind: Callable[..., Operator], fill: Callable[..., Array]) -> Iterator[NamedCase]:
    for n, m in ((5, 3), (2, 3), (10, 7), (7, 2), (1, 4), (6, 3), (4, 4), (11, 5)):
        yield NamedCase(f"{n} cells in {m} bins", directed(kind((m,)), fill((1, 2, n))), (n, m) in ((5, 3), (2, 3)))
    yield NamedCase("two axes, bins overlapping in both", directed(kind((3, 2)), fill((1, 2, 5, 7))), quick=True)
    yield NamedCase("None keeps an axis", directed(kind((None, 2)), fill((1, 1, 3, 5))))
    yield NamedCase("no bin at all", directed(kind((0, 2)), fill((1, 1, 3, 5))), quick=True)
    yield NamedCase("rank 3", directed(kind((2, 2, 3)), fill((1, 1, 3, 4, 5))))
    yield NamedCase("empty batch", directed(kind((2,)), fill((0, 1, 5))), quick=True)
    yield NamedCase("channels last", directed(kind((2, 3), axes=(1, 2)), fill((1, 4, 5, 2))), quick=True)
    yield NamedCase("rank 1 without batch", directed(kind((2,)), fill((5,))))
    for title, dtype in FLOATS.items():
        yield NamedCase(title, directed(kind((2,)), fill((1, 1, 5), dtype)), quick=True)
    yield from placed(lambda rank: kind((1,) * rank))


def adaptive_max_pools() -> Iterator[NamedCase]:
    yield from adaptive(AdaptiveMaxPool, distinct)
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: AdaptiveMaxPool((1,), ties=ties), ties), ties)
    yield from orders(lambda: AdaptiveMaxPool((1, 1)))
    yield from far_winner(lambda: AdaptiveMaxPool((1, 1)))


def adaptive_avg_pools() -> Iterator[NamedCase]:
    yield from adaptive(AdaptiveAvgPool, thirds)
    yield NamedCase(
        "NaN stays in the bins that read it", directed(AdaptiveAvgPool((3,)), row(NAN, 1, 2, 3, 4)), quick=True
    )
    yield NamedCase("infinity", directed(AdaptiveAvgPool((3,)), row(1, 2, 3, 4, INF)), quick=True)


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
            yield NamedCase(
                f"rank {rank}, keepdims={keepdims}", directed(kind(rank, keepdims=keepdims), fill(shape)), quick
            )
    yield NamedCase("channels last", directed(kind(2, axes=(1, 2)), fill((2, 3, 4, 2))), quick=True)
    for title, dtype in FLOATS.items():
        yield NamedCase(title, directed(kind(1), fill((1, 1, 5), dtype)), quick=True)
    yield from placed(kind)


def global_max_pools() -> Iterator[NamedCase]:
    yield from whole(GlobalMaxPool, distinct)
    for ties in ("first", "all", "split"):
        yield from maxima(_tied(lambda k, ties: GlobalMaxPool(1, ties=ties), ties), ties)
        plane = np.array([[[[1, 3], [3, 2]]]], np.float32)
        yield NamedCase("a plane with a tie", directed(GlobalMaxPool(2, ties=ties), plane), quick=True)
    yield from orders(lambda: GlobalMaxPool(2))
    yield from far_winner(lambda: GlobalMaxPool(2))


def global_avg_pools() -> Iterator[NamedCase]:
    yield from whole(GlobalAvgPool, thirds)
    yield NamedCase(
        "NaN stays in its plane", directed(GlobalAvgPool(1), np.array([[[1, NAN], [2, 3]]], np.float32)), quick=True
    )
    yield NamedCase("infinity", directed(GlobalAvgPool(1), row(1, INF)), quick=True)
    yield NamedCase("a mean of large offsets", directed(GlobalAvgPool(1), row(1e8, 1e8 + 8, -2e8, 1)))


LISTS: dict[type[Operator], Callable[[], Iterator[NamedCase]]] = {
    MaxPool: max_pools,
    AvgPool: avg_pools,
    SmoothMaxPool: smooth_max_pools,
    AdaptiveMaxPool: adaptive_max_pools,
    AdaptiveAvgPool: adaptive_avg_pools,
    GlobalMaxPool: global_max_pools,
    GlobalAvgPool: global_avg_pools,
}
