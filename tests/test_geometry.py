"""Geometry: lengths and taps by brute force, readers as the taps' transpose, and equalities between
window kinds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples
from naive import adaptive_axis, sliding_axis

from specgrad import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, MaxPool, Reshape
from specgrad.conformance.cases import sliding_axes
from specgrad.geometry import Adaptive, Sliding, readers, same_padding

pytestmark = pytest.mark.usefixtures("specification")


def listed(axis):
    """An axis's tables as lists of cells, None for padding, without the taps that do not exist."""
    cell, real, exists = axis.taps()
    return [
        [int(c) if r else None for c, r, e in zip(*row, strict=True) if e]
        for row in zip(cell, real, exists, strict=True)
    ]


@given(sliding_axes(1))
@settings(max_examples=examples(400))
def test_sliding_taps_are_the_definition(axes):
    (axis,) = axes
    pad = (axis.before, axis.after)
    assert listed(axis) == sliding_axis(axis.size, axis.kernel, axis.stride, pad, axis.dilation, axis.ceil_mode)


@given(sliding_axes(1))
@settings(max_examples=examples(400))
def test_windows_may_miss_all_cells_where_one_does(axes):
    (axis,) = axes
    if (axis.ranges().count <= 0).any():
        assert axis.may_miss
    if max(axis.before, axis.after) < axis.extent and axis.dilation <= axis.size:
        assert not axis.may_miss


@given(st.integers(1, 60), st.integers(0, 70))
def test_adaptive_taps_are_the_definition(n, m):
    assert listed(Adaptive(n, m)) == adaptive_axis(n, m)


@pytest.mark.parametrize(
    ("n", "m", "bins"),
    [
        (5, 3, [(0, 2), (1, 4), (3, 5)]),
        (2, 3, [(0, 1), (0, 2), (1, 2)]),
        (10, 7, [(0, 2), (1, 3), (2, 5), (4, 6), (5, 8), (7, 9), (8, 10)]),
    ],
)
def test_published_adaptive_bins(n, m, bins):
    assert listed(Adaptive(n, m)) == [list(range(*edges)) for edges in bins]


def test_sizes_beyond_floats_are_exact():
    """Quotients with more than the 53 bits of a float: float division gives each of these wrong by
    one."""
    assert Sliding(2**54 + 4, 2, 2).length == 2**53 + 2
    assert Sliding(2**54 + 3, 2, 2, ceil_mode=True).length == 2**53 + 2


@given(
    st.one_of(sliding_axes(1).map(lambda axes: axes[0]), st.builds(Adaptive, st.integers(1, 12), st.integers(0, 15)))
)
@settings(max_examples=examples(400))
def test_readers_are_the_transpose_of_the_taps(axis):
    taps = axis.taps()
    table = readers(axis)
    forward = {(o, j, int(taps.cell[o, j])) for o, j in zip(*np.nonzero(taps.real), strict=True)}
    backward = {
        (int(table.output[c, r]), int(table.tap[c, r]), c) for c, r in zip(*np.nonzero(table.exists), strict=True)
    }
    assert forward == {(int(o), int(j), int(c)) for o, j, c in backward}
    assert len(backward) == int(table.exists.sum()) == int(taps.real.sum())
    for cell in range(axis.size):
        outputs = table.output[cell][table.exists[cell]].tolist()
        assert outputs == sorted(outputs)


@given(st.integers(1, 2**61), st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 2))
def test_bins_of_long_axes_do_not_overflow(n, m, o):
    """The formulas of 64-bit arrays agree with exact integers; o*n alone would need up to 92
    bits."""
    o %= m
    start, first, count, _, _ = Adaptive(n, m).reads(np.array([o]))
    assert start[0] == first[0] == o * n // m
    assert count[0] == -(-(o + 1) * n // m) - o * n // m


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_same_padding_gives_ceil_of_size_over_stride(n, k, s, d):
    before, after = same_padding(n, k, s, d)
    assert Sliding(n, k, s, before, after, d).length == math.ceil(n / s)
    assert 0 <= after - before <= 1


def test_ceil_mode_may_use_a_window_larger_than_the_input():
    assert MaxPool((3,), stride=2, ceil_mode=True)(np.array([1.0, 2.0])).tolist() == [2.0]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_global_is_adaptive_to_one_and_a_full_kernel(sizes, random):
    x = np.array([random.randint(-3, 3) for _ in range(math.prod(sizes))], float).reshape(sizes)
    rank, ones = len(sizes), (1,) * len(sizes)
    g = np.full(ones, 6.0)
    for whole, adaptive, full in (
        (GlobalMaxPool(rank, ties="split"), AdaptiveMaxPool(ones, ties="split"), MaxPool(tuple(sizes), ties="split")),
        (GlobalAvgPool(rank), AdaptiveAvgPool(ones), AvgPool(tuple(sizes))),
    ):
        assert whole(x).tolist() == adaptive(x).tolist() == full(x).tolist()
        assert whole.vjp((x,), g)[0].tolist() == adaptive.vjp((x,), g)[0].tolist() == full.vjp((x,), g)[0].tolist()


@given(st.integers(1, 6), st.integers(1, 6))
def test_adaptive_to_a_divisor_is_sliding(m, k):
    adaptive, sliding = Adaptive(m * k, m).taps(), Sliding(m * k, k, k).taps()
    assert all(np.array_equal(a, b) for a, b in zip(adaptive, sliding, strict=True))


def test_an_axis_may_be_longer_than_32_bits_count():
    """The geometry of a long axis is exact, and takes memory for the outputs only."""
    n = 2**31 + 2
    pool = MaxPool((2,), stride=2**20, padding=((0, 1),))
    assert pool.output_shape((n,)) == (2**11 + 1,)
    steps = list(pool.geometry((n,)).block(2**11, 2**11 + 1).steps())
    assert [int(step.place[0][0]) for step in steps] == [2**31, 2**31 + 1]
    assert AdaptiveAvgPool((3,)).output_shape((3 * n,)) == (3,)
    assert Reshape((-1, n)).output_shape((2, n)) == (2, n)
