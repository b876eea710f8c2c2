"""Cotangents are scattered to the winners, in planes with few and with many windows."""

from __future__ import annotations

import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (sg.MaxPool((3, 3), stride=1, padding=1), (3, 40, 45)),  # several chunks of rows; two planes and one
        (sg.MaxPool((3, 2), stride=(1, 3), dilation=(2, 1)), (2, 9, 7001)),  # and chunks of parts of rows
        (sg.MaxPool((3, 3), stride=2, ceil_mode=True), (1, 200, 201)),  # cleared in parts
        (sg.MaxPool((2, 5), stride=1), (3, 200, 201)),  # large planes, two at a time and one
        (sg.MaxPool((2, 7), stride=1), (7, 30, 31)),  # small planes, four at a time, two and one
        (sg.MaxPool((2, 3, 3), stride=1, padding=1), (2, 12, 13, 14)),
        (sg.MaxPool((3, 18, 5), stride=1), (2, 9, 40, 30)),  # too many taps for a byte
        (sg.MaxPool((2, 3), stride=1), (1, 3, 70_000)),  # too far for 16 bits
        (sg.AdaptiveMaxPool((23, 31)), (2, 77, 90)),  # different bases
        (sg.MaxPool((3, 2), stride=2), (150, 9, 9)),  # many planes together, and some left over
        (sg.AdaptiveMaxPool((3, 2)), (171, 7, 7)),
        (sg.AdaptiveMaxPool((16, 9, 19)), (3, 2, 2, 7)),  # a row that begins before the previous one
    ],
)
def test_each_cell_gets_the_sum_of_what_it_won(op, shape):
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = rng.integers(-20, 20, shape).astype(np.float32)
    value, kept = engine.keep(op, (x,))
    gy = rng.integers(-9, 9, value.shape).astype(np.float32)
    expected, where = np.zeros((shape[0], x[0].size), np.float32), engine.indices(op, (x,))[1]
    for plane, places, sent in zip(expected, where, gy, strict=True):
        np.add.at(plane, places.reshape(-1), sent.reshape(-1))
    for threads in (1, 9):  # one thread takes several planes at a time, many threads one each
        with sg.num_threads(threads):
            assert np.array_equal(engine.pull(op, (x,), kept, gy)[0], expected.reshape(shape))


@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize("op", [sg.MaxPool((3, 3), stride=1, padding=1), sg.AdaptiveMaxPool((9, 7))])
def test_planes_that_lie_side_by_side_get_what_others_do(op, channels):
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = np.moveaxis(rng.integers(-20, 20, (2, 40, 30, channels)).astype(np.float32), -1, 1)
    apart = np.ascontiguousarray(x)
    value, kept = engine.keep(op, (x,))
    gy = rng.integers(-9, 9, value.shape).astype(np.float32)
    expected = engine.pull(op, (apart,), engine.keep(op, (apart,))[1], gy)[0]
    assert np.array_equal(engine.pull(op, (x,), kept, gy)[0], expected)
