"""Few taps along rows: the specification's bits for all cells, and no access beyond the end of a
row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kinds import effort, in_turn

import specgrad as sg

WINDOWS = [
    (taps, stride, dilation, padding)
    for taps, stride, dilation, padding in itertools.product((2, 3, 4, 5, 8), (1, 2, 3, 4), (1, 2), (0, 1))
    if dilation == 1 or taps < 5
]
FLOATS = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int16])
@pytest.mark.parametrize("number", [3, np.nan, -0.0])
def test_maxima_have_the_bits_of_the_specification(dtype, number):
    rng = np.random.default_rng(0)
    part = effort({np.float64: slice(0, None, 3), np.int16: slice(1, None, 3)}, {}).get(dtype, slice(None))
    for taps, stride, dilation, padding in WINDOWS[part]:
        op = sg.MaxPool((taps,), stride=stride, dilation=dilation, padding=padding, ceil_mode=True)
        x = rng.integers(-9, 1, (3, int(rng.integers(150, 220)))).astype(dtype)
        if dtype is not np.int16:
            x[rng.random(x.shape) < 0.03] = number
            x[0, [0, -1]] = number  # at the ends, which are reduced one by one
        value = op(x)
        with sg.engine("reference"):
            assert value.tobytes() == op(x).tobytes(), op


def test_the_sign_of_a_zero_shows_at_either_end_alone():
    op = sg.MaxPool((3,), stride=3, padding=1)
    for ends in (slice(0, 2), slice(-2, None)):
        x = np.full((2, 200), -1, np.float32)
        x[1, ends] = -0.0, 0.0
        value = op(x)
        assert np.signbit(value).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_whole_numbers_are_exact(dtype):
    """Also sums of lines and of rows of planes, which are contiguous; a window's padding counts."""
    rng = np.random.default_rng(1)
    for turn, (taps, stride, dilation, padding) in enumerate(WINDOWS, FLOATS.index(dtype)):
        for leading, ones in in_turn([((3,), ()), ((2, 3, 4), (1, 1))], turn + turn // 2 + turn // 4):
            op = sg.AvgPool(
                (*ones, taps),
                stride=(*ones, stride),
                dilation=dilation,
                padding=(*(0 for _ in ones), padding),
                divisor_override=8,
            )
            x = rng.integers(-90, 90, (*leading, int(rng.integers(150, 220)))).astype(dtype)
            value = op(x)
            with sg.engine("reference"):
                assert value.tobytes() == op(x).tobytes(), op
