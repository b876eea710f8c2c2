"""Few taps along lines: the bits of the specification, whatever is in the cells, and no cell beyond a line's end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import specgrad as sg
from specgrad.engines.cpu.cells import see
from specgrad.engines.cpu.folds import fold_way
from specgrad.engines.cpu.lines import along_lines

WINDOWS = [
    (taps, stride, dilation, padding)
    for taps, stride, dilation, padding in itertools.product((2, 3, 4, 5, 8), (1, 2, 3, 4), (1, 2), (0, 1))
    if dilation == 1 or taps < 5
]


def step_names(op, x):
    seen, is_maximum = see(op, x, any_order=True), isinstance(op, sg.MaxPool) or None
    return [step.call.name for step in fold_way(seen.plan.passes, seen, is_maximum, not is_maximum)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("number", [3, np.nan, -0.0])
def test_maxima_have_the_bits_of_the_specification(dtype, number):
    rng, found = np.random.default_rng(0), 0
    for taps, stride, dilation, padding in WINDOWS:
        op = sg.MaxPool((taps,), stride=stride, dilation=dilation, padding=padding, ceil_mode=True)
        x = rng.integers(-9, 1, (3, int(rng.integers(150, 220)))).astype(dtype)
        if dtype is not np.int16:
            x[rng.random(x.shape) < 0.03] = number
            x[0, [0, -1]] = number  # at the ends, which are folded one by one
        value = op(x)
        found += step_names(op, x) == ["lines.fold_lines"]
        with sg.engine("reference"):
            assert value.tobytes() == op(x).tobytes(), op
    assert found > len(WINDOWS) * 0.9


def test_the_sign_of_a_zero_shows_at_either_end_alone():
    op = sg.MaxPool((3,), stride=3, padding=1)
    for ends in (slice(0, 2), slice(-2, None)):
        x = np.full((2, 200), -1, np.float32)
        x[1, ends] = -0.0, 0.0
        value = op(x)
        assert step_names(op, x) == ["lines.fold_lines"]
        assert np.signbit(value).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_whole_numbers_are_exact(dtype):
    """Of lines, and of the rows of planes, which lie one after the other, too; a window's padding counts."""
    rng, found = np.random.default_rng(1), 0
    for taps, stride, dilation, padding in WINDOWS:
        for leading, ones in (((3,), ()), ((2, 3, 4), (1, 1))):
            op = sg.AvgPool(
                (*ones, taps),
                stride=(*ones, stride),
                dilation=dilation,
                padding=(*(0 for _ in ones), padding),
                divisor_override=8,
            )
            x = rng.integers(-90, 90, (*leading, int(rng.integers(150, 220)))).astype(dtype)
            value = op(x)
            found += step_names(op, x) == ["lines.fold_lines"]
            with sg.engine("reference"):
                assert value.tobytes() == op(x).tobytes(), op
    assert found > len(WINDOWS) * 1.8


def test_vectors_end_in_their_line():
    rng, found = np.random.default_rng(2), 0
    for _ in range(2000):
        taps, stride, dilation = int(rng.integers(2, 9)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        padding = int(rng.integers(0, taps // 2 + 1))
        op = sg.MaxPool((taps,), stride=stride, dilation=dilation, padding=padding)
        x = np.zeros((2, int(rng.integers(30, 150))), np.float32)
        if x.shape[1] + 2 * padding < (taps - 1) * dilation + 1:
            continue
        made = see(op, x).plan
        numbers = along_lines(made)
        if numbers is None:
            continue
        n, outputs, *_, start, stop = numbers[0]
        assert start * stride - padding >= 0
        assert (stop - made.lanes) * stride - padding + (taps - 1) * dilation + stride * made.lanes <= n
        assert start <= stop - made.lanes
        assert stop <= outputs
        found += 1
    assert found > 1000
