"""Smooth maxima with rows and columns reduced together, in planes of any width and layout; and the
results' memory."""

from __future__ import annotations

import numpy as np
import pytest
from kinds import effort, in_turn

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance import bounds


def any_window(random, rank, pad):
    """A smooth maximum with random options; some windows are only padding."""

    def some(least, most):
        return tuple(int(n) for n in random.integers(least, most, rank))

    options = {
        "stride": some(2, 4),
        "dilation": some(1, 3),
        "ceil_mode": bool(random.integers(2)),
        "padding": some(0, 3),
    }
    return sg.SmoothMaxPool(some(1, 4), beta=float(random.choice([1, -2, 0.3])), pad=pad, **options)


@pytest.mark.parametrize(
    ("seed", "pad"),
    [
        (seed, pad)
        for seed in effort([*range(5), *range(10, 15)], [*range(9), *range(10, 19)])
        for pad in in_turn(["zero", "skip"], seed // 4)
    ],
)
def test_rows_and_columns_that_are_folded_together_keep_the_bounds(seed, pad):
    random = np.random.default_rng(seed)
    rank, dtype = 2 + seed % 2, [np.float32, np.float64][seed // 2 % 2]
    shape = (2, *random.integers(4, 7, rank - 1), int(random.integers(40, 50) if seed < 9 else random.integers(4, 9)))
    op = any_window(random, rank, pad)
    x, dx = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    gy = random.standard_normal(op.output_shape(shape)).astype(dtype)
    (y, dy), (gx,) = op.jvp((x,), (dx,)), op.vjp((x,), gy)
    for found, judge in zip((y, dy, gx), bounds.smooth(op, x, dx, gy), strict=True):
        assert judge.holds(found), (op, judge.worst(found))


@pytest.mark.parametrize("taps", [9, 11, 19, 34])
def test_windows_of_many_taps_keep_the_bounds(taps):
    """Taps are joined in blocks, and remaining taps one by one."""
    random, op = np.random.default_rng(taps), sg.SmoothMaxPool((taps,), stride=1, beta=2.0)
    x, dx = (random.standard_normal((2, 45)).astype(np.float32) for _ in range(2))
    gy = random.standard_normal(op.output_shape(x.shape)).astype(np.float32)
    with sg.engine("cpu"):
        (y, dy), (gx,) = op.jvp((x,), (dx,)), op.vjp((x,), gy)
    for found, judge in zip((y, dy, gx), bounds.smooth(op, x, dx, gy), strict=True):
        assert judge.holds(found), judge.worst(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("channels", ["first", "last"])
def test_results_are_written_where_they_are_wanted_even_over_the_operand(channels, dtype):
    engine, random = dispatch.load("cpu"), np.random.default_rng(0)
    op = sg.SmoothMaxPool((2, 2), beta=1.0)
    x = random.standard_normal((20, 6, 50)).astype(dtype)
    if channels == "last":  # vectors of 16 read some of these twice
        x = np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)
    y, kept = engine.keep(op, (x,))
    gy, dx = (random.standard_normal(shape).astype(dtype) for shape in (y.shape, x.shape))
    dy, (gx,) = engine.push(op, (x,), kept, (dx,)), engine.pull(op, (x,), kept, gy)
    value, tangent, cotangent = (np.full_like(array, 7) for array in (y, dy, gx))
    assert engine.forward(op, (x,), value) is value
    assert engine.push(op, (x,), kept, (dx,), tangent) is tangent
    assert engine.pull(op, (x,), kept, gy, out=(cotangent,))[0] is cotangent
    assert engine.pull(op, (x,), kept, gy, out=(x,))[0] is x
    for found, expected in ((value, y), (tangent, dy), (cotangent, gx), (x, gx)):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("seed", range(effort(6, 12)))
def test_infinite_cells_spoil_what_the_specification_says_and_no_more(seed):
    """In a window with +inf, a finite cell has the weight exp(βx)/∞: 0, or NaN if the exponential
    overflows."""
    random = np.random.default_rng(seed)
    rank = 2 + seed % 2
    kernel = tuple(int(n) for n in random.integers(3, 6, rank))
    op = sg.SmoothMaxPool(kernel, beta=float(random.choice([1, -1, 3])), stride=1 + seed % 3, padding=seed % 2)
    cells = [np.inf, -np.inf, 100, 300, -300, 0, 1]
    shape = (2, *(int(n) + 5 for n in kernel))
    x = random.choice(cells, p=[0.03, 0.03, 0.1, 0.05, 0.09, 0.4, 0.3], size=shape).astype(np.float32)
    gy = random.choice([1, -2, 0, np.nan], p=[0.4, 0.3, 0.25, 0.05], size=op.output_shape(shape)).astype(np.float32)
    (gx,) = op.vjp((x,), gy)
    with sg.engine("reference"):
        (expected,) = op.vjp((x,), gy)
    assert np.array_equal(np.isnan(gx), np.isnan(expected))
