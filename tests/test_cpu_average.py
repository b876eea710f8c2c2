"""Averages are sums divided once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specgrad as sg

TYPES = {np.dtype(np.float32): 2**22, np.dtype(np.float64): 2**51}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@given(data=st.data())
def test_quotients_are_rounded_once(dtype, data):
    """Equal to NumPy's division bit for bit."""
    info = np.finfo(dtype)
    by = data.draw(st.integers(1, 99) | st.integers(1, TYPES[dtype] - 1))
    sums = np.frombuffer(data.draw(st.binary(min_size=40 * dtype.itemsize, max_size=40 * dtype.itemsize)), dtype)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, info.max, -info.max], dtype)
    sums = np.concatenate([sums, special, (np.arange(1, 20) * float(by)).astype(dtype)])
    with np.errstate(all="ignore"):
        expected = sums / dtype.type(by)
    ordinary = ~(np.abs(expected) < info.tiny * 2.0 ** (info.nmant + 3)) | (expected == 0)
    found = sg.AvgPool((1,), stride=1, divisor_override=by)(sums[None])[0]
    assert np.array_equal(found[ordinary], expected[ordinary], equal_nan=True)


@pytest.mark.parametrize(("kernel_size", "shape"), [((3, 3, 3), (2, 5, 6, 20)), ((2, 3, 1, 2), (1, 4, 5, 2, 18))])
def test_sums_are_divided_once_whatever_the_number_of_passes(kernel_size, shape):
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel_size, axis=tuple(range(1, x.ndim)))
    sums = windows.sum(axis=tuple(range(x.ndim, windows.ndim)))  # sums of integers are exact
    op = sg.AvgPool(kernel_size, stride=1)
    assert np.array_equal(op(x), sums / np.float32(np.prod(kernel_size)))
