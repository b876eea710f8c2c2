"""Cases of every operator: Hypothesis strategies over legal operators and small exact operands.

Operands are arrays of small integers, so that ties are common and any scalar can hold them exactly; `as_scalars` turns them into
the scalar under test. To add an operator, add its strategy to `STRATEGIES`; a test fails without it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ..geometry import Sliding
from ..operator import Operator
from ..ops import (
    Abs,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    AvgPool,
    Compare,
    Conv,
    ConvTranspose,
    CrossEntropy,
    Detach,
    Div,
    Erf,
    Exp,
    Gelu,
    GlobalAvgPool,
    GlobalMaxPool,
    Larger,
    Linear,
    Log,
    LogSoftmax,
    MaxPool,
    Mean,
    MseLoss,
    Mul,
    Power,
    Relu,
    Reshape,
    Scale,
    Sigmoid,
    Silu,
    Smaller,
    SmoothMaxPool,
    Softplus,
    Sqrt,
    Sub,
    Sum,
    Tanh,
    Where,
)
from ..ops.pointwise import RELATIONS

Arrays = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True, eq=False)
class Case:
    """An operator, operands that fit it (arrays of small integers), and a direction for each derivative."""

    op: Operator
    operands: Arrays
    tangents: Arrays
    cotangent: np.ndarray[Any, Any]

    def over(self, scalar: Callable[[int], Any] | np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """Operands, tangents and cotangent as scalars; labels stay integers, and have no tangent."""
        whole = [slot.integer for slot in self.op.slots[: len(self.operands)]]
        return (
            tuple(x if w else as_scalars(x, scalar) for x, w in zip(self.operands, whole, strict=True)),
            tuple(None if w else as_scalars(t, scalar) for t, w in zip(self.tangents, whole, strict=True)),
            as_scalars(self.cotangent, scalar),
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"np.array({a.tolist()}).reshape({a.shape})" for a in self.operands)
        return f"{self.op!r} on ({arrays},)"


def cotangents(op: Operator, operands: Arrays) -> np.ndarray[Any, Any]:
    """A cotangent of the output whose cells are positive, and distinct in small ones."""
    shape = op.output_shape(*(x.shape for x in operands))
    return np.asarray(1 + np.arange(math.prod(shape)).reshape(shape) % 13, operands[0].dtype)


def as_scalars(array: np.ndarray[Any, Any], scalar: Callable[[int], Any] | np.dtype[Any]) -> Any:
    """An integer array with every element made a scalar: by a dtype, or by a function of one integer."""
    if isinstance(scalar, np.dtype):
        return array.astype(scalar)
    made = np.empty(array.size, object)
    made[:] = [scalar(element) for element in array.reshape(-1).tolist()]
    return made.reshape(array.shape)


def bfloat16() -> dict[str, Any]:
    """NumPy's name for bfloat16 and its type, where ml_dtypes is there to bring it."""
    try:
        import ml_dtypes
    except ImportError:
        return {}
    return {"bfloat16": ml_dtypes.bfloat16}


WHOLE = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4])
"""The cells of operands: few, so that ties are likely; the simplest first."""


@functools.cache
def some_bytes(count: int) -> st.SearchStrategy[bytes]:
    """So many of them in one choice: a choice for each cell would cost more than most tests do with it."""
    return st.binary(min_size=count, max_size=count)


def integers(draw: st.DrawFn, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """An array of this shape, each cell one of `WHOLE`."""
    chosen = np.frombuffer(draw(some_bytes(math.prod(shape))), np.uint8)
    return WHOLE[chosen % len(WHOLE)].reshape(shape)


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
    """Up to two of them, the last long enough for a kernel's vectors, under a window that may be as long."""
    ceil_mode = draw(st.booleans())
    k, s, d = draw(st.sampled_from([2, 3, 9, 20, 33])), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    before, after = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    least = max(16, d * (k - 1) + 1 - before - after)
    size = draw(st.integers(least, least + 12))
    rows = draw(sliding_axes(draw(st.integers(0, 1)), ceil_mode))
    return [*rows, Sliding(size, k, s, before, after, d, ceil_mode)]


def sliding_parameters(axes: list[Sliding]) -> dict[str, Any]:
    """The keyword arguments that make these axes."""
    return {
        "kernel_size": tuple(axis.kernel for axis in axes),
        "stride": tuple(axis.stride for axis in axes),
        "padding": tuple((axis.before, axis.after) for axis in axes),
        "dilation": tuple(axis.dilation for axis in axes),
    }


@st.composite
def planes(draw: st.DrawFn, sizes: Sequence[int], batch: int = 2) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape of an array with these spatial sizes among batch axes, and the `axes` that name them (None: the last)."""
    shape = [*draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 2), max_size=batch)), *sizes]
    if draw(st.booleans()):
        return tuple(shape), None
    order = draw(st.permutations(range(len(shape))))
    placed = [0] * len(shape)
    for p, length in zip(order, shape, strict=True):
        placed[p] = length
    return tuple(placed), tuple(order[len(shape) - len(sizes) :])


Domain = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def anything(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x


def nonzero(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.where(x == 0, 5, x))


def positive(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.abs(x) + 1)


@st.composite
def case_of(
    draw: st.DrawFn, op: Operator, shapes: Sequence[tuple[int, ...]], domains: Sequence[Domain] = (anything,)
) -> Case:
    """Operands, tangents and a cotangent for an operator; the last domain is that of all further operands too."""
    known = (*domains, *[domains[-1]] * len(shapes))
    operands = tuple(domain(integers(draw, shape)) for shape, domain in zip(shapes, known, strict=False))
    tangents = tuple(integers(draw, shape) for shape in shapes)
    return Case(op, operands, tangents, integers(draw, op.output_shape(*shapes)))


Options = st.SearchStrategy[Any]
Sizes = st.SearchStrategy[list[int]]


@st.composite
def sliding_pools(
    draw: st.DrawFn, /, kind: type[Operator], some: st.SearchStrategy[list[Sliding]], **options: Options
) -> Case:
    axes = draw(some)
    shape, at = draw(planes([axis.size for axis in axes]))
    words: dict[str, Any] = {**sliding_parameters(axes), "ceil_mode": bool(axes and axes[0].ceil_mode), "axes": at}
    op = kind(**words, **{name: draw(strategy) for name, strategy in options.items()})
    return draw(case_of(op, [shape]))


@st.composite
def adaptive_pools(draw: st.DrawFn, /, kind: type[Operator], some: Sizes, **options: Options) -> Case:
    sizes = draw(some)
    shape, at = draw(planes(sizes))
    lengths = tuple(draw(st.none() | st.integers(0, max(7, n))) for n in sizes)
    op = kind(lengths, axes=at, **{name: draw(strategy) for name, strategy in options.items()})  # type: ignore[call-arg]
    return draw(case_of(op, [shape]))


@st.composite
def global_pools(draw: st.DrawFn, /, kind: type[Operator], some: Sizes, **options: Options) -> Case:
    sizes = draw(some)
    shape, at = draw(planes(sizes))
    chosen = {name: draw(strategy) for name, strategy in options.items()}
    op = kind(len(sizes), axes=at, keepdims=draw(st.booleans()), **chosen)  # type: ignore[call-arg]
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


SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


@st.composite
def pointwise(draw: st.DrawFn, op: st.SearchStrategy[Operator], domain: Domain = anything) -> Case:
    """One operand of any shape."""
    return draw(case_of(draw(op), [draw(SHAPES)], (domain,)))


@st.composite
def broadcast(draw: st.DrawFn, some: st.SearchStrategy[Operator], domains: Sequence[Domain] = (anything,)) -> Case:
    """Operands that broadcast together."""
    op, shape = draw(some), draw(SHAPES)
    shapes = [tuple(draw(st.sampled_from([n, 1])) for n in shape[draw(st.integers(0, len(shape))) :]) for _ in op.slots]
    return draw(case_of(op, shapes, domains))


@st.composite
def reshapes(draw: st.DrawFn) -> Case:
    shape = draw(SHAPES)
    other = list(draw(st.permutations([*shape, 1])))
    if math.prod(shape) and draw(st.booleans()):
        other[draw(st.integers(0, len(other) - 1))] = -1
    return draw(case_of(Reshape(tuple(other)), [shape]))


@st.composite
def reductions(draw: st.DrawFn, kind: type[Operator], least: int) -> Case:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=least, max_side=3))
    axes = draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda p: p % len(shape))) if shape else []
    axis = draw(st.sampled_from([None, *axes, tuple(axes)]))
    return draw(case_of(kind(axis, keepdims=draw(st.booleans())), [shape]))  # type: ignore[call-arg]


@st.composite
def softmaxes(draw: st.DrawFn) -> Case:
    return draw(case_of(LogSoftmax(), [draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))]))


@st.composite
def cross_entropies(draw: st.DrawFn) -> Case:
    *batch, classes = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    labels = draw(hnp.arrays(np.int64, tuple(batch), elements=st.integers(0, classes - 1)))
    case = draw(case_of(CrossEntropy(), [(*batch, classes), tuple(batch)]))
    return Case(case.op, (case.operands[0], labels), case.tangents, case.cotangent)


@st.composite
def squares(draw: st.DrawFn) -> Case:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    return draw(case_of(MseLoss(), [shape, shape]))


TIES = st.sampled_from(["first", "all", "split"])
BETAS = st.sampled_from([1, -1, 0.5, -2.5, Fraction(1, 3), 10])


def pools(
    axes: st.SearchStrategy[list[Sliding]], bins: Sizes, whole: Sizes
) -> dict[type[Operator], st.SearchStrategy[Case]]:
    """Cases of every pooling over such axes, over so long ones in bins, and as a whole."""
    divisors = st.none() | st.sampled_from([1, 3, -2])
    return {
        MaxPool: sliding_pools(MaxPool, axes, ties=TIES),
        AvgPool: sliding_pools(AvgPool, axes, count_include_pad=st.booleans(), divisor_override=divisors),
        SmoothMaxPool: sliding_pools(SmoothMaxPool, axes, beta=BETAS, pad=st.sampled_from(["zero", "skip"])),
        AdaptiveMaxPool: adaptive_pools(AdaptiveMaxPool, bins, ties=TIES),
        AdaptiveAvgPool: adaptive_pools(AdaptiveAvgPool, bins),
        GlobalMaxPool: global_pools(GlobalMaxPool, whole, ties=TIES),
        GlobalAvgPool: global_pools(GlobalAvgPool, whole),
    }


def up_to(longest: int) -> Sizes:
    return st.lists(st.integers(1, longest), max_size=3)


LONG = pools(long_sliding_axes(), *[st.tuples(st.integers(1, 3), st.integers(16, 40)).map(list)] * 2)
"""Pooling of lines that kernels walk by vectors, which the small cases below do not reach."""

STRATEGIES: dict[type[Operator], st.SearchStrategy[Case]] = {
    **pools(st.integers(0, 3).flatmap(sliding_axes), up_to(6), up_to(4)),
    Conv: convolutions(),
    ConvTranspose: transposed_convolutions(),
    Linear: linear_maps(),
    **{kind: pointwise(st.just(kind())) for kind in (Relu, Exp, Tanh, Sigmoid, Softplus, Silu, Erf, Abs)},
    **{kind: pointwise(st.just(kind()), positive) for kind in (Log, Sqrt)},
    Gelu: pointwise(st.sampled_from([Gelu(), Gelu(approximate="tanh")])),
    **{kind: broadcast(st.just(kind())) for kind in (Add, Sub, Mul, Where)},
    Div: broadcast(st.just(Div()), (anything, nonzero)),
    **{kind: broadcast(st.sampled_from([kind(ties="split"), kind(ties="first")])) for kind in (Larger, Smaller)},
    Compare: broadcast(st.sampled_from([Compare(relation) for relation in RELATIONS])),
    Power: pointwise(st.sampled_from([Power(n) for n in (0, 1, 2, 3, -1, -2)]), nonzero),
    Scale: pointwise(st.sampled_from([Scale(0), Scale(-3), Scale(0.5), Scale(Fraction(1, 3))])),
    Reshape: reshapes(),
    Detach: pointwise(st.just(Detach())),
    Sum: reductions(Sum, 1),
    Mean: reductions(Mean, 1),
    LogSoftmax: softmaxes(),
    CrossEntropy: cross_entropies(),
    MseLoss: squares(),
}
