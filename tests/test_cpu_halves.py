"""Half floats keep their bits in kernels that move them, and are rounded to nearest, with
conversion instructions and without (short rows)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch
from specgrad.engines.cpu import pooling, pools

EVERY = np.arange(1 << 16, dtype=np.uint16)

halves = pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=str)
widths = pytest.mark.parametrize("width", [7, 1024, 1030])


@halves
@widths
def test_a_maximum_has_the_bits_of_its_cell(dtype, width):
    rows = np.resize(EVERY, (-(-EVERY.size // width), width))
    x, pairs = rows.repeat(2, axis=1).view(dtype), sg.MaxPool((1, 2))
    assert np.array_equal(pairs(x).view(np.uint16), rows)
    assert np.array_equal(dispatch.load("cpu").keep(pairs, (x,))[0].view(np.uint16), rows)


@halves
def test_a_maximum_of_a_row_has_the_bits_of_its_cell(dtype):
    x = np.repeat(EVERY[:, None], 40, axis=1).view(dtype)
    assert np.array_equal(sg.GlobalMaxPool(1)(x)[:, 0].view(np.uint16), EVERY)


@halves
@widths
def test_a_mean_is_rounded_once(dtype, width):
    with np.errstate(all="ignore"):
        x = np.random.default_rng(0).permutation(EVERY[np.isfinite(EVERY.view(dtype))])
        x = x[: x.size // (2 * width) * 2 * width].reshape(-1, 2 * width).view(dtype)
        means = ((x[:, ::2].astype(np.float32) + x[:, 1::2].astype(np.float32)) / 2).astype(dtype)
    assert np.array_equal(sg.AvgPool((1, 2))(x).view(np.uint16), means.view(np.uint16))


@halves
def test_cotangents_of_ties_are_rounded_once_and_keep_their_missing_numbers(dtype):
    x, g = np.zeros((3, 48), dtype), np.array([[1], [np.nan], [7]], dtype)
    shares = np.repeat(g.astype(np.float32) / 48, 48, axis=1).astype(dtype)
    assert np.array_equal(sg.GlobalMaxPool(1, ties="split").vjp((x,), g)[0], shares, equal_nan=True)


@halves
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (sg.MaxPool((2, 2)), (40, 41, 81)),
        (sg.MaxPool((3, 2), stride=(4, 3), padding=1), (50, 21, 40)),
        (sg.MaxPool((4,)), (9, 5003)),
        (sg.AdaptiveMaxPool((2, 2)), (40, 60, 30)),
        (sg.MaxPool((2, 2), axes=(1, 2)), (4, 42, 20, 33)),
        (sg.MaxPool((2, 2, 3), stride=(2, 3, 3)), (5, 8, 12, 33)),
    ],
)
def test_cotangents_that_nobody_adds_up_come_as_sums_of_one(op, shape, dtype):
    rng, engine = np.random.default_rng(0), dispatch.load("cpu")
    x = rng.standard_normal(shape).astype(dtype)
    odd = np.array([0x8000, 0x7C01, 0xFC01, 0x7F81, 0xFF81, 0xFFFF], np.uint16)  # -0.0, and signalling NaNs
    cells = np.resize(np.append(odd, rng.permutation(EVERY)), math.prod(op.output_shape(shape)))
    gy = rng.permutation(cells).reshape(op.output_shape(shape)).view(dtype)
    out = np.empty((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    with sg.engine("reference"), np.errstate(all="ignore"):
        (wanted,) = op.vjp((x,), gy)
    (found,), kept = op.vjp((x,), gy), engine.recall(op, (x,))
    missing = np.isnan(wanted)
    assert np.array_equal(np.isnan(found), missing)
    assert np.array_equal(found[~missing].view(np.uint16), wanted[~missing].view(np.uint16))
    assert engine.pull(op, (x,), kept, gy, out=(out,))[0] is out
    assert np.array_equal(out.view(np.uint16), found.view(np.uint16))


def beside(x):
    """The same array with its batch axis last in memory."""
    return np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)


def answers(op, x, gy):
    """The bits of the value, of the winners' codes if there are any, and of a cotangent."""
    y, kept = pooling.keep(op, (x,))
    codes = [kept.codes.reshape(-1)] if isinstance(kept, pools.Kept) else []
    found = [y, op(x), *codes, pooling.pull(op, (x,), kept, gy)[0]]
    return [np.ascontiguousarray(one).view(f"u{one.itemsize}") for one in found]


@halves
@pytest.mark.parametrize("layout", [np.copy, beside], ids=["whole", "beside"])
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (sg.AdaptiveMaxPool((3, 5)), (20, 40, 41)),
        (sg.MaxPool((9, 8), stride=6), (12, 61, 33)),
        (sg.MaxPool((3, 3), stride=4, dilation=4, padding=12), (3, 150, 131)),  # some windows have no real cell
        (sg.AdaptiveMaxPool((2, 3, 2)), (4, 11, 16, 13)),
    ],
    ids=repr,
)
def test_cotangents_of_winners_that_are_far_apart_are_added_up_and_rounded_once(op, shape, layout, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(dtype)
    x.reshape(len(x), -1)[:, -1] = 4  # the winner in each window that reads it
    x, gy = layout(x), rng.standard_normal(op.output_shape(shape)).astype(dtype)
    gy.reshape(-1)[rng.integers(0, gy.size, 9)] = np.array([np.inf, -np.inf, np.nan] * 3, dtype)
    kept = pooling.recall(op, (x,))
    found = pooling.pull(op, (x,), kept, gy)[0]
    with np.errstate(all="ignore"):
        expected = op.vjp((x.astype(np.float32),), gy.astype(np.float32))[0].astype(dtype)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(found, pooling.pull(op, (x,), kept, gy)[0], equal_nan=True)
