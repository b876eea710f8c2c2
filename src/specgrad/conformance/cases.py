"""Cases of every operator: Hypothesis strategies over legal operators and small exact operands.

Operands are arrays of small integers, so that ties are common and any scalar type represents each
cell exactly. `as_scalars` converts them to the scalar type under test. To add an operator, add its
strategy to `STRATEGIES`; a test fails without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ..geometry import Sliding
from ..operator import Operator
from ..ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    Fold,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    LpPool,
    MaxPool,
    MaxUnpool,
    MinPool,
    SmoothMaxPool,
    SumPool,
    Unfold,
)
from .array_cases import ARRAYS
from .case import Case, as_scalars, bfloat16, case_of, cotangents, integers

__all__ = ["LONG", "STRATEGIES", "Case", "as_scalars", "bfloat16", "cotangents", "integers"]


@st.composite
def sliding_axes(draw: st.DrawFn, rank: int, ceil: bool | None = None) -> list[Sliding]:
    """Legal sliding axes that share one ceil_mode; padding may exceed the kernel."""
    ceil_mode = draw(st.booleans()) if ceil is None else ceil
    axes = []
    for _ in range(rank):
        k, s, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        least = max(1, d * (k - 1) + 1 - before - after - (s - 1 if ceil_mode else 0))
        axis = Sliding(draw(st.integers(least, least + 4)), k, s, before, after, d, ceil_mode)
        axes.append(axis if axis.length >= 1 else Sliding(axis.size + s + d * k, k, s, before, after, d, ceil_mode))
    return axes


@st.composite
def long_sliding_axes(draw: st.DrawFn) -> list[Sliding]:
    """One or two sliding axes; the last has at least 16 cells, enough for a kernel's vectors, and
    kernels up to 33."""
    ceil_mode = draw(st.booleans())
    k, s, d = draw(st.sampled_from([2, 3, 9, 20, 33])), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    before, after = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    least = max(16, d * (k - 1) + 1 - before - after)
    size = draw(st.integers(least, least + 12))
    rows = draw(sliding_axes(draw(st.integers(0, 1)), ceil_mode))
    return [*rows, Sliding(size, k, s, before, after, d, ceil_mode)]


def sliding_parameters(axes: list[Sliding]) -> dict[str, Any]:
    """The keyword arguments of a sliding window with these axes."""
    return {
        "kernel_size": tuple(axis.kernel for axis in axes),
        "stride": tuple(axis.stride for axis in axes),
        "padding": tuple((axis.before, axis.after) for axis in axes),
        "dilation": tuple(axis.dilation for axis in axes),
    }


@st.composite
def planes(draw: st.DrawFn, sizes: Sequence[int], batch: int = 2) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape of an array with these spatial sizes and up to `batch` batch axes, and its `axes`
    (None: the last ones)."""
    shape = [*draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 2), max_size=batch)), *sizes]
    if draw(st.booleans()):
        return tuple(shape), None
    order = draw(st.permutations(range(len(shape))))
    placed = [0] * len(shape)
    for p, length in zip(order, shape, strict=True):
        placed[p] = length
    return tuple(placed), tuple(order[len(shape) - len(sizes) :])


Axes = st.SearchStrategy[list[Sliding]]
Sizes = st.SearchStrategy[list[int]]


@st.composite
def windows(draw: st.DrawFn, form: str, some: Axes | Sizes) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The parameters of a sliding, adaptive or whole window over drawn axes, and its operand's
    shape."""
    axes: Any = draw(some)
    sizes = [axis.size for axis in axes] if form == "sliding" else axes
    shape, at = draw(planes(sizes))
    if form == "sliding":
        own = {**sliding_parameters(axes), "ceil_mode": bool(axes and axes[0].ceil_mode)}
    elif form == "adaptive":
        own = {"output_size": tuple(draw(st.none() | st.integers(0, max(7, n))) for n in sizes)}
    else:
        own = {"rank": len(sizes)}
    return {**own, "axes": at}, shape


@st.composite
def pooling(
    draw: st.DrawFn, /, kind: type[Operator], form: str, some: Axes | Sizes, **options: st.SearchStrategy[Any]
) -> Case:
    words, shape = draw(windows(form, some))
    op = kind(**words, **{name: draw(strategy) for name, strategy in options.items()})
    return draw(case_of(op, [shape]))


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    axes = draw(sliding_axes(draw(st.integers(0, 2)), ceil=False))
    groups, read, written = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    batch = draw(st.lists(st.integers(0, 2), max_size=2))
    op = Conv(**sliding_parameters(axes), groups=groups)
    shapes = [
        (*batch, groups * read, *(axis.size for axis in axes)),
        (groups * written, read, *op.kernel_size),
        (groups * written,),
    ]
    return draw(case_of(op, shapes[: draw(st.integers(2, 3))]))


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(0, 2))
    groups, read, written = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    batch = draw(st.lists(st.integers(0, 2), max_size=2))
    words: dict[str, list[Any]] = {"kernel_size": [], "stride": [], "padding": [], "dilation": [], "output_padding": []}
    sizes = []
    for _ in range(rank):
        k, s, d = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        n, extra = draw(st.integers(1, 4)), draw(st.integers(0, max(s, d) - 1))
        room = (n - 1) * s + d * (k - 1) + extra
        before = draw(st.integers(0, min(room, 3)))
        pair = (before, draw(st.integers(0, min(room - before, 3))))
        for name, value in zip(words, (k, s, pair, d, extra), strict=True):
            words[name].append(value)
        sizes.append(n)
    op = ConvTranspose(**{name: tuple(values) for name, values in words.items()}, groups=groups)
    shapes = [(*batch, groups * read, *sizes), (groups * read, written, *op.kernel_size), (groups * written,)]
    return draw(case_of(op, shapes[: draw(st.integers(2, 3))]))


@st.composite
def linear_maps(draw: st.DrawFn) -> Case:
    batch = draw(st.lists(st.integers(0, 3), max_size=2))
    read, written = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shapes = [(*batch, read), (written, read), (written,)]
    return draw(case_of(Linear(), shapes[: draw(st.integers(2, 3))]))


@st.composite
def patches(draw: st.DrawFn, transposed: bool) -> Case:
    axes = draw(sliding_axes(draw(st.integers(0, 2)), ceil=False))
    batch = draw(st.lists(st.integers(0, 2), max_size=1))
    op = Unfold(**sliding_parameters(axes))
    shape = (*batch, draw(st.integers(1, 2)), *(axis.size for axis in axes))
    if not transposed:
        return draw(case_of(op, [shape]))
    sizes = tuple(axis.size for axis in axes)
    return draw(case_of(Fold(output_size=sizes, **sliding_parameters(axes)), [op.output_shape(shape)]))


@st.composite
def unpools(draw: st.DrawFn) -> Case:
    sizes = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    shape = (*draw(st.lists(st.integers(1, 2), max_size=1)), *draw(st.tuples(*(st.integers(1, 3) for _ in sizes))))
    case = draw(case_of(MaxUnpool(sizes), [shape, shape]))
    places = draw(hnp.arrays(np.int64, shape, elements=st.integers(-1, math.prod(sizes) - 1)))
    return Case(case.op, (case.operands[0], places), case.tangents, case.cotangent)


TIES = st.sampled_from(["first", "all", "split"])
BETAS = st.sampled_from([1, -1, 0.5, -2.5, Fraction(1, 3), 10])


def pools(axes: Axes, bins: Sizes, whole: Sizes) -> dict[type[Operator], st.SearchStrategy[Case]]:
    """Cases of every pooling: sliding over `axes`, adaptive over sizes `bins`, global over sizes
    `whole`."""
    divisors = st.none() | st.sampled_from([1, 3, -2])
    return {
        MaxPool: pooling(MaxPool, "sliding", axes, ties=TIES),
        MinPool: pooling(MinPool, "sliding", axes, ties=TIES),
        SumPool: pooling(SumPool, "sliding", axes),
        LpPool: pooling(LpPool, "sliding", axes, p=st.sampled_from([2, 3, 1.5, Fraction(5, 2)])),
        AvgPool: pooling(AvgPool, "sliding", axes, count_include_pad=st.booleans(), divisor_override=divisors),
        SmoothMaxPool: pooling(SmoothMaxPool, "sliding", axes, beta=BETAS, pad=st.sampled_from(["zero", "skip"])),
        AdaptiveMaxPool: pooling(AdaptiveMaxPool, "adaptive", bins, ties=TIES),
        AdaptiveAvgPool: pooling(AdaptiveAvgPool, "adaptive", bins),
        GlobalMaxPool: pooling(GlobalMaxPool, "whole", whole, ties=TIES, keepdims=st.booleans()),
        GlobalAvgPool: pooling(GlobalAvgPool, "whole", whole, keepdims=st.booleans()),
    }


def up_to(longest: int) -> Sizes:
    return st.lists(st.integers(1, longest), max_size=3)


LONG = pools(long_sliding_axes(), *[st.tuples(st.integers(1, 3), st.integers(16, 40)).map(list)] * 2)
"""Pooling of rows long enough for the vectors of kernels. The cases of STRATEGIES have shorter
rows."""

STRATEGIES: dict[type[Operator], st.SearchStrategy[Case]] = {
    **pools(st.integers(0, 3).flatmap(sliding_axes), up_to(6), up_to(4)),
    Conv: convolutions(),
    ConvTranspose: transposed_convolutions(),
    Linear: linear_maps(),
    MaxUnpool: unpools(),
    Unfold: patches(transposed=False),
    Fold: patches(transposed=True),
    **ARRAYS,
}
