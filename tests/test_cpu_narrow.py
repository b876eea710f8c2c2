"""Planes narrower than a vector: maxima and winners bit for bit, sums of small integers exactly."""

import numpy as np
import pytest
from engine_comparison import drawn
from kinds import in_turn

import specgrad as sg
from specgrad.dispatch import load

CPU, SPECIFICATION = load("cpu"), load("reference")
WINDOWS = [
    ((5, 5), (2, 2), (1, 1), (13, 14)),
    ((4, 3), (2, 0), (1, 1), (9, 19)),
    ((5, 1), (0, 0), (1, 1), (12, 12)),
    ((1, 6), (0, 3), (1, 1), (12, 15)),
    ((3, 7), (1, 3), (2, 1), (11, 13)),
    ((2, 3), (0, 2), (3, 2), (12, 17)),
    ((9, 9), (4, 4), (1, 1), (11, 12)),
    ((18, 2), (9, 1), (1, 1), (20, 16)),
]


@pytest.mark.parametrize("kind", ["plain", "lowest", "NaN", "-0.0"])
@pytest.mark.parametrize(
    ("kernel", "padding", "dilation", "shape", "dtype"),
    [
        (*window, dtype)
        for turn, window in enumerate(WINDOWS)
        for dtype in ("float32", *in_turn(["float64", "int32"], turn))
    ],
)
def test_maxima_are_those_of_the_specification(kernel, padding, dilation, shape, dtype, kind):
    op = sg.MaxPool(kernel, stride=1, padding=padding, dilation=dilation)
    x = drawn(shape, dtype, kind)
    ours, theirs = CPU.indices(op, (x,)), SPECIFICATION.indices(op, (x,))
    bits = f"u{x.itemsize}"
    assert np.array_equal(ours[0].view(bits), np.asarray(theirs[0], x.dtype).view(bits))
    assert np.array_equal(ours[1], theirs[1])
    assert np.array_equal(CPU.forward(op, (x,)).view(bits), ours[0].view(bits))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kernel", "padding", "dilation", "shape"), WINDOWS)
def test_averages_of_small_integers_are_exact_sums_divided_once(kernel, padding, dilation, shape, dtype):
    op = sg.AvgPool(kernel, stride=1, padding=padding, dilation=dilation)
    x = drawn(shape, dtype, "plain")
    assert np.array_equal(op(x), np.asarray(SPECIFICATION.forward(op, (x,)), dtype))
