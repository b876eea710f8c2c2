"""Random pooling operators with operands: every operator, option, layout and awkward number that the CPU engine may meet."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np

import specgrad as sg
from specgrad.errors import SpecgradError

AWKWARD = [0.0, -0.0, 1.0, 2.0, -1.0, np.inf, -np.inf, np.nan, 3.0]


@st.composite
def windows(draw, rank):
    """Parameters of a sliding kernel."""
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    most = draw(st.sampled_from([3, 3, 9]))
    return {
        "kernel_size": each(1, most),
        "stride": each(1, 3),
        "padding": tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank)),
        "dilation": each(1, 2) if draw(st.booleans()) else 1,
        "ceil_mode": draw(st.booleans()),
    }


@st.composite
def operators(
    draw, rank, axes, kinds=("max", "avg", "smooth", "adaptive_max", "adaptive_avg", "global_max", "global_avg")
):
    """An operator of this rank over these axes; may turn out not to fit the operand."""
    kind = draw(st.sampled_from(kinds))
    ties = draw(st.sampled_from(["first", "all", "split"]))
    sizes = tuple(draw(st.one_of(st.none(), st.integers(1, 6))) for _ in range(rank))
    if kind == "max":
        return sg.MaxPool(**draw(windows(rank)), ties=ties, axes=axes)
    if kind == "avg":
        counted, divisor = draw(st.booleans()), draw(st.sampled_from([None, None, -5, 7]))
        return sg.AvgPool(**draw(windows(rank)), count_include_pad=counted, divisor_override=divisor, axes=axes)
    if kind == "smooth":
        beta, pad = draw(st.sampled_from([0.5, 1.0, -1.0, 10.0])), draw(st.sampled_from(["zero", "skip"]))
        return sg.SmoothMaxPool(**draw(windows(rank)), beta=beta, pad=pad, axes=axes)
    if kind == "adaptive_max":
        return sg.AdaptiveMaxPool(sizes, ties=ties, axes=axes)
    if kind == "adaptive_avg":
        return sg.AdaptiveAvgPool(sizes, axes=axes)
    if kind == "global_max":
        return sg.GlobalMaxPool(rank, ties=ties, keepdims=draw(st.booleans()), axes=axes)
    return sg.GlobalAvgPool(rank, keepdims=draw(st.booleans()), axes=axes)


@st.composite
def cases(draw, dtype, **kinds):
    """An operator and an operand that fits it: any rank, layout and numbers."""
    rank = draw(st.integers(0, 3))
    sizes = tuple(draw(st.integers(1, 8 if rank > 1 else 30)) for _ in range(rank))
    shape = (
        tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3)) for _ in range(draw(st.integers(0, 2))))
        + sizes
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    numbers = draw(st.sampled_from(["normal", "few", "awkward"]))
    if np.dtype(dtype).kind in "iu":
        x = rng.integers(0, 5, shape).astype(dtype)
    elif numbers == "normal":
        x = rng.normal(size=shape).astype(dtype)
    else:
        x = rng.choice(AWKWARD if numbers == "awkward" else [-1.0, 0.0, 1.0, 2.0], size=shape).astype(dtype)
    order = draw(st.permutations(range(x.ndim)))
    x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if draw(st.booleans()):
        x = x[tuple(slice(None, None, draw(st.sampled_from([1, 1, -1, 2]))) for _ in shape)]
    axes = tuple(draw(st.permutations(range(x.ndim)))[:rank]) if draw(st.booleans()) else None
    op = draw(operators(rank, axes, **kinds))
    try:
        op.output_shape(x.shape)
    except SpecgradError:
        op = sg.GlobalMaxPool(rank, ties="first", axes=axes)
    return op, x
