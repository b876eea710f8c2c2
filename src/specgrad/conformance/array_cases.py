"""Cases of the operators without windows: pointwise operators, shapes, matrix products, reductions
and losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ..operator import Operator
from ..ops import (
    Abs,
    Add,
    BroadcastTo,
    Compare,
    Concatenate,
    CrossEntropy,
    Detach,
    Div,
    Erf,
    Exp,
    Gelu,
    Larger,
    Log,
    LogSoftmax,
    Matmul,
    Mean,
    MseLoss,
    Mul,
    Pad,
    Power,
    Relu,
    Reshape,
    Scale,
    Sigmoid,
    Silu,
    Slice,
    Smaller,
    Softmax,
    Softplus,
    Sqrt,
    Sub,
    Sum,
    Take,
    Tanh,
    Transpose,
    Where,
)
from ..ops.order import RELATIONS
from .case import Case, Domain, anything, case_of, nonzero, positive

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
CLASSES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)


@st.composite
def alike(
    draw: st.DrawFn,
    some: st.SearchStrategy[Operator],
    domain: Domain = anything,
    shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES,
) -> Case:
    """Operands of one shape."""
    op, shape = draw(some), draw(shapes)
    return draw(case_of(op, [shape] * len(op.slots), (domain,)))


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
def transposes(draw: st.DrawFn) -> Case:
    shape = draw(SHAPES)
    axes = draw(st.none() | st.permutations(range(-len(shape), 0)))
    return draw(case_of(Transpose(axes), [shape]))


@st.composite
def slices(draw: st.DrawFn) -> Case:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    index = draw(hnp.basic_indices(shape, allow_newaxis=True))
    return draw(case_of(Slice(index), [shape]))


@st.composite
def takes(draw: st.DrawFn) -> Case:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    found = hnp.arrays(
        np.int64,
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
        elements=st.integers(-shape[axis], shape[axis] - 1),
    )
    return draw(case_of(Take(draw(found), axis), [shape]))


@st.composite
def concatenations(draw: st.DrawFn) -> Case:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=2))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    at = axis % len(shape)
    lengths = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    return draw(case_of(Concatenate(len(lengths), axis), [(*shape[:at], n, *shape[at + 1 :]) for n in lengths]))


@st.composite
def repetitions(draw: st.DrawFn) -> Case:
    shape = draw(SHAPES)
    given = tuple(draw(st.sampled_from([n, 1])) for n in shape[draw(st.integers(0, len(shape))) :])
    return draw(case_of(BroadcastTo(shape), [given]))


@st.composite
def paddings(draw: st.DrawFn) -> Case:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3))
    mode = draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
    rank = draw(st.integers(0, len(shape)))
    sizes = shape[len(shape) - rank :]
    most = [{"reflect": n - 1, "circular": n}.get(mode, 2) for n in sizes]
    pairs = tuple((draw(st.integers(0, m)), draw(st.integers(0, m))) for m in most)
    fill: Any = draw(st.sampled_from([0, 0, 3, Fraction(1, 2)])) if mode == "constant" else 0
    return draw(case_of(Pad(pairs, mode=mode, fill=fill), [shape]))


@st.composite
def matrix_products(draw: st.DrawFn) -> Case:
    inner = draw(st.integers(1, 3))
    batch = draw(st.lists(st.integers(0, 2), max_size=2))
    shapes = [
        (*(draw(st.sampled_from([n, 1])) for n in batch[draw(st.integers(0, len(batch))) :]), *matrix)
        for matrix in ((draw(st.integers(1, 2)), inner), (inner, draw(st.integers(1, 2))))
    ]
    vectors = [shape if draw(st.integers(0, 3)) else (inner,) for shape in shapes]
    return draw(case_of(Matmul(), vectors))


@st.composite
def reductions(draw: st.DrawFn, kind: type[Operator], least: int) -> Case:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=least, max_side=3))
    axes = draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda p: p % len(shape))) if shape else []
    axis = draw(st.sampled_from([None, *axes, tuple(axes)]))
    return draw(case_of(kind(axis, keepdims=draw(st.booleans())), [shape]))  # type: ignore[call-arg]


@st.composite
def cross_entropies(draw: st.DrawFn) -> Case:
    *batch, classes = draw(CLASSES)
    labels = draw(hnp.arrays(np.int64, tuple(batch), elements=st.integers(0, classes - 1)))
    case = draw(case_of(CrossEntropy(), [(*batch, classes), tuple(batch)]))
    return Case(case.op, (case.operands[0], labels), case.tangents, case.cotangent)


ARRAYS: dict[type[Operator], st.SearchStrategy[Case]] = {
    **{kind: alike(st.just(kind())) for kind in (Relu, Exp, Tanh, Sigmoid, Softplus, Silu, Erf, Abs)},
    **{kind: alike(st.just(kind()), positive) for kind in (Log, Sqrt)},
    Gelu: alike(st.sampled_from([Gelu(), Gelu(approximate="tanh")])),
    **{kind: broadcast(st.just(kind())) for kind in (Add, Sub, Mul, Where)},
    Div: broadcast(st.just(Div()), (anything, nonzero)),
    **{kind: broadcast(st.sampled_from([kind(ties="split"), kind(ties="first")])) for kind in (Larger, Smaller)},
    Compare: broadcast(st.sampled_from([Compare(relation) for relation in RELATIONS])),
    Power: alike(st.sampled_from([Power(n) for n in (0, 1, 2, 3, -1, -2)]), nonzero),
    Scale: alike(st.sampled_from([Scale(0), Scale(-3), Scale(0.5), Scale(Fraction(1, 3))])),
    Matmul: matrix_products(),
    Reshape: reshapes(),
    Transpose: transposes(),
    Slice: slices(),
    Take: takes(),
    Concatenate: concatenations(),
    BroadcastTo: repetitions(),
    Pad: paddings(),
    Detach: alike(st.just(Detach())),
    Sum: reductions(Sum, 1),
    Mean: reductions(Mean, 1),
    **{kind: alike(st.just(kind()), shapes=CLASSES) for kind in (LogSoftmax, Softmax)},
    CrossEntropy: cross_entropies(),
    MseLoss: alike(st.just(MseLoss()), shapes=hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3)),
}
