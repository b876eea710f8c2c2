"""Parity with PyTorch: value, VJP by autograd and JVP by forward AD, over generated configurations.

Maxima agree bit for bit, sums within the derived bound. Configurations that PyTorch does not
support (asymmetric or large padding, other ranks) are composed of its other operators if possible,
else left out.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kinds import examples
from torch.autograd import forward_ad

import specgrad
from specgrad import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)
from specgrad.conformance import bounds
from specgrad.geometry import Sliding

pytestmark = pytest.mark.usefixtures("specification")

torch.set_num_threads(1)
RANKS = st.integers(1, 3)
DTYPES = st.sampled_from([np.float32, np.float64])
CELLS = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.1, 1.0, 1 / 3, 7.0, float("-inf")])
NUMBERS = st.floats(-1000, 1000, width=32)


def by_torch(function, operands, tangents, cotangent):
    """Value, forward-mode tangent and reverse-mode cotangents of a function of torch tensors."""
    leaves = [torch.tensor(a, requires_grad=True) for a in operands]
    value = function(*leaves)
    pulled = torch.autograd.grad(value, leaves, torch.tensor(cotangent))
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(torch.tensor(a), torch.tensor(t)) for a, t in zip(operands, tangents, strict=True)
        ]
        tangent = forward_ad.unpack_dual(function(*duals)).tangent
    return value.detach().numpy(), tangent.numpy(), [p.numpy() for p in pulled]


@st.composite
def windows(draw, rank):
    """Sliding parameters supported by PyTorch: symmetric padding of at most half the kernel."""
    axes = []
    ceil = draw(st.booleans())
    for _ in range(rank):
        k, s, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        p = draw(st.integers(0, k // 2))
        n = draw(st.integers(1, 8 if rank < 3 else 5))
        axis = Sliding(n, k, s, p, p, d, ceil)
        assume(axis.length >= 1)
        axes.append(axis)
    return axes


def arrays(shape, dtype, elements=NUMBERS):
    return hnp.arrays(dtype, shape, elements=elements)


def drawn(data, shape, dtype, elements=NUMBERS):
    return data.draw(arrays(tuple(shape), np.float32, elements)).astype(dtype)


def bits(array):
    return array.dtype, array.shape, array.tobytes()


@given(st.data(), RANKS, DTYPES, st.booleans())
@settings(max_examples=examples(300))
def test_max_pool(data, rank, dtype, nans):
    axes = data.draw(windows(rank))
    # PyTorch reads outside of the plane if a dilated window has no real cell
    assume(all(axis.taps().real.any(axis=1).all() for axis in axes))
    x = drawn(data, (2, *(axis.size for axis in axes)), dtype, CELLS | st.just(float("nan")) if nans else CELLS)
    words = {
        "kernel_size": tuple(a.kernel for a in axes),
        "stride": tuple(a.stride for a in axes),
        "padding": tuple(a.before for a in axes),
        "dilation": tuple(a.dilation for a in axes),
        "ceil_mode": axes[0].ceil_mode,
    }
    function = getattr(F, f"max_pool{rank}d")
    op = MaxPool(**words)
    dx, g = drawn(data, x.shape, dtype), drawn(data, op.output_shape(x.shape), dtype)
    value, tangent, (pulled,) = by_torch(lambda t: function(t[None], **words)[0], (x,), (dx,), g)
    ours, at = specgrad.max_pool(x, **words, return_indices=True)
    assert bits(ours) == bits(value)
    assert at.tolist() == function(torch.tensor(x)[None], **words, return_indices=True)[1][0].tolist()
    assert bits(op.jvp((x,), (dx,))[1] + 0) == bits(tangent + 0)
    # an array with the same row: ranks keep the cells' order, the lowest stand for -inf, the
    # highest for NaN
    ranks = np.unique(np.where(np.isnan(x), np.inf, x), return_inverse=True)[1].reshape(x.shape).astype(dtype)
    ranks = np.where(np.isnan(x), 1000 + np.arange(x.size).reshape(x.shape), ranks).astype(dtype)
    (judged,) = bounds.vjp(op, (ranks,), g)
    assert judged.worst(pulled) <= 1
    assert judged.worst(op.vjp((x,), g)[0]) <= 1
    ones = np.ones_like(g)
    assert (
        op.vjp((x,), ones)[0].tolist()
        == by_torch(lambda t: function(t[None], **words)[0], (x,), (dx,), ones)[2][0].tolist()
    )


@given(st.data(), RANKS, DTYPES)
@settings(max_examples=examples(200))
def test_avg_pool(data, rank, dtype):
    axes = [Sliding(a.size, a.kernel, a.stride, a.before, a.after, 1, a.ceil_mode) for a in data.draw(windows(rank))]
    words = {
        "kernel_size": tuple(a.kernel for a in axes),
        "stride": tuple(a.stride for a in axes),
        "padding": tuple(a.before for a in axes),
        "ceil_mode": axes[0].ceil_mode,
        "count_include_pad": data.draw(st.booleans()),
    }
    if rank > 1:
        words["divisor_override"] = data.draw(st.none() | st.sampled_from([1, 5, -3]))
    assume(all(a.length >= 1 and (rank < 3 or a.size >= a.kernel) for a in axes))  # avg_pool3d requires the latter
    function, op = getattr(F, f"avg_pool{rank}d"), AvgPool(**words)
    check_sums(data, op, lambda t: function(t[None], **words)[0], [(2, *(a.size for a in axes))], dtype)


def check_sums(data, op, function, shapes, dtype):
    operands, tangents = (tuple(drawn(data, shape, dtype) for shape in shapes) for _ in range(2))
    g = drawn(data, op.output_shape(*shapes), dtype)
    value, tangent, pulled = by_torch(function, operands, tangents, g)
    ours, our_tangent = op.jvp(operands, tangents)
    assert ours.shape == value.shape
    assert ours.dtype == value.dtype == dtype
    for judged, theirs, mine in (
        (bounds.value(op, operands), value, ours),
        (bounds.jvp(op, operands, tangents), tangent, our_tangent),
        *zip(bounds.vjp(op, operands, g), pulled, op.vjp(operands, g), strict=True),
    ):
        assert judged.worst(mine) <= 1
        assert judged.worst(theirs) <= 1


@given(st.data(), RANKS, DTYPES)
@settings(max_examples=examples(80))
def test_adaptive_and_global_pools(data, rank, dtype):
    sizes = [data.draw(st.integers(1, 6)) for _ in range(rank)]
    lengths = tuple(data.draw(st.integers(1, 7)) for _ in range(rank))
    average, maximum = getattr(F, f"adaptive_avg_pool{rank}d"), getattr(F, f"adaptive_max_pool{rank}d")
    check_sums(data, AdaptiveAvgPool(lengths), lambda t: average(t, lengths), [(2, *sizes)], dtype)
    axes = tuple(range(1, rank + 1))
    check_sums(data, GlobalAvgPool(rank), lambda t: t.mean(axes, keepdim=True), [(2, *sizes)], dtype)
    x, dx = drawn(data, (2, *sizes), dtype, CELLS), drawn(data, (2, *sizes), dtype)
    op = AdaptiveMaxPool(lengths)
    g = np.ones(op.output_shape(x.shape), dtype)
    value, tangent, (pulled,) = by_torch(lambda t: maximum(t, lengths), (x,), (dx,), g)
    assert bits(op(x)) == bits(value)
    assert bits(op.jvp((x,), (dx,))[1] + 0) == bits(tangent + 0)
    assert op.vjp((x,), g)[0].tolist() == pulled.tolist()
    at = maximum(torch.tensor(x), lengths, return_indices=True)[1]
    assert specgrad.adaptive_max_pool(x, lengths, return_indices=True)[1].tolist() == at.tolist()
    # amax divides the slope among tied cells, as ties="split"
    whole, ones = GlobalMaxPool(rank, ties="split"), np.ones((2, *[1] * rank), dtype)
    value, _, (pulled,) = by_torch(lambda t: t.amax(axes, keepdim=True), (x,), (dx,), ones)
    assert whole(x).tolist() == value.tolist()
    assert whole.vjp((x,), ones)[0].tolist() == pulled.tolist()


@given(st.data(), RANKS, DTYPES, st.booleans())
@settings(max_examples=examples(150))
def test_convolutions(data, rank, dtype, transposed):
    groups, read, written = (data.draw(st.integers(1, 2)) for _ in range(3))
    words = {"stride": [], "padding": [], "dilation": []}
    kernel, sizes, extra = [], [], []
    for _ in range(rank):
        k, s, d, p = (data.draw(st.integers(*ends)) for ends in ((1, 3), (1, 3), (1, 2), (0, 2)))
        least = max(1, -(-(2 * p + s) // s) - (d * (k - 1)) // s) if transposed else max(1, d * (k - 1) + 1 - 2 * p)
        sizes.append(data.draw(st.integers(least, least + 2)))
        kernel.append(k)
        extra.append(data.draw(st.integers(0, max(s, d) - 1)))
        for name, v in zip(words, (s, p, d), strict=True):
            words[name].append(v)
    words = {name: tuple(values) for name, values in words.items()}
    batch = data.draw(st.integers(1, 2))
    weight = (groups * read, written, *kernel) if transposed else (groups * written, read, *kernel)
    shapes = [(batch, groups * read, *sizes), weight, (groups * written,)][: data.draw(st.integers(2, 3))]
    if transposed:
        words["output_padding"] = tuple(extra)
        op = ConvTranspose(tuple(kernel), **words, groups=groups)
        lengths = [
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, k, s, p, d, e in zip(sizes, kernel, *words.values(), strict=True)
        ]
        assume(min(lengths) >= 1)
    else:
        op = Conv(tuple(kernel), **words, groups=groups)
    function = getattr(F, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")
    with torch.backends.mkldnn.flags(enabled=False):
        check_sums(data, op, lambda *t: function(*t, **words, groups=groups), shapes, np.dtype(dtype))


@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")
@pytest.mark.parametrize(("n", "k", "d"), [(7, 3, 1), (8, 4, 2), (5, 2, 3)])
def test_same_padding_is_torchs_at_stride_one(n, k, d):
    x, w = np.arange(float(n))[None], np.arange(1.0, k + 1)[None, None]
    theirs = F.conv1d(torch.tensor(x), torch.tensor(w), padding="same", dilation=d)
    assert specgrad.conv(x, w, padding="same", dilation=d).tolist() == theirs.tolist()


@given(st.data(), RANKS, st.sampled_from([0.5, 1.0, 20.0, -1.0, -7.5]))
@settings(max_examples=examples(60))
def test_smooth_max_pool_is_logsumexp_of_unfolded_windows(data, rank, beta):
    """Compared with torch.logsumexp of unfolded windows, in float64."""
    axes = [Sliding(a.size, a.kernel, a.stride) for a in data.draw(windows(rank))]
    assume(all(a.length >= 1 for a in axes))
    kernel, stride = tuple(a.kernel for a in axes), tuple(a.stride for a in axes)

    def composed(t):
        for i, (k, s) in enumerate(zip(kernel, stride, strict=True)):
            t = t.unfold(1 + i, k, s)
        return torch.logsumexp(beta * t.flatten(1 + rank), -1) / beta

    shape = (2, *(a.size for a in axes))
    x, dx = drawn(data, shape, np.float64, st.floats(-30, 30, width=32)), drawn(data, shape, np.float64)
    op = SmoothMaxPool(kernel, stride=stride, beta=beta)
    g = drawn(data, op.output_shape(shape), np.float64)
    value, tangent, (pulled,) = by_torch(composed, (x,), (dx,), g)
    ours, our_tangent = op.jvp((x,), (dx,))
    for judged, mine, theirs in zip(
        bounds.smooth(op, x, dx, g, composed=True),
        (ours, our_tangent, op.vjp((x,), g)[0]),
        (value, tangent, pulled),
        strict=True,
    ):
        assert judged.worst(mine) <= 1
        assert judged.worst(theirs) <= 1
    assert all(
        judged.worst(mine) <= 1
        for judged, mine in zip(bounds.smooth(op, x, dx, g), (ours, our_tangent, op.vjp((x,), g)[0]), strict=True)
    )
