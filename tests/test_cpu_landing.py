"""Cotangents land on the cells that won: where codes say that these lie, in planes of one chunk of windows and of several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specgrad as sg
from specgrad import dispatch
from specgrad.engines.cpu import landing
from specgrad.engines.cpu.reads import offsets


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 5, 7, 9, 32]), st.integers(0, 300)), min_size=1, max_size=4),
    st.sampled_from([np.uint16, np.uint32]),
)
def test_places_are_sums_over_the_digits_of_codes(axes, width):
    """By the kernel's own arithmetic, which is modulo a power of two."""
    lengths, steps = (tuple(column) for column in zip(*axes, strict=True))
    by_code = offsets(lengths, steps)
    found = landing.digits(by_code, lengths, width)
    if found is None:
        assert width is np.uint16
        return
    terms, bits = found
    code = np.arange(by_code.size).astype(width)
    place = code * terms[0]
    for m, b in terms[1:].reshape(-1, 2):
        product = (code * m if bits else code.astype(np.uint64) * m).astype(np.uint64)
        place = place + (product >> np.uint64(bits or 8 * terms.itemsize)).astype(width) * b
    assert np.array_equal(place, by_code.astype(width))


@pytest.mark.parametrize(
    ("op", "shape", "width"),
    [
        (sg.MaxPool((3, 3), stride=1, padding=1), (3, 40, 45), np.uint16),  # several chunks of rows, two planes and one
        (sg.MaxPool((3, 2), stride=(1, 3), dilation=(2, 1)), (2, 9, 7001), np.uint16),  # and of parts of rows
        (sg.MaxPool((3, 3), stride=2, ceil_mode=True), (1, 200, 201), np.uint16),  # cleared by and by
        (sg.MaxPool((2, 5), stride=1), (3, 200, 201), np.uint16),  # planes that are large, two at a time and one
        (sg.MaxPool((2, 7), stride=1), (7, 30, 31), np.uint16),  # small ones, four at a time, two and one
        (sg.MaxPool((2, 3, 3), stride=1, padding=1), (2, 12, 13, 14), np.uint16),
        (sg.MaxPool((3, 18, 5), stride=1), (2, 9, 40, 30), np.uint16),  # too many taps for a byte
        (sg.MaxPool((2, 3), stride=1), (1, 3, 70_000), np.uint32),  # too far for 16 bits
        (sg.AdaptiveMaxPool((23, 31)), (2, 77, 90), np.uint16),  # bases that differ
        (sg.MaxPool((3, 2), stride=2), (150, 9, 9), np.uint16),  # many planes together, and some left over
        (sg.AdaptiveMaxPool((3, 2)), (171, 7, 7), np.uint16),
        (sg.AdaptiveMaxPool((16, 9, 19)), (3, 2, 2, 7), np.uint16),  # a row that begins before the one before it
    ],
)
def test_each_cell_gets_the_sum_of_what_it_won(op, shape, width):
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = rng.integers(-20, 20, shape).astype(np.float32)
    value, kept = engine.keep(op, (x,))
    found = landing.landing(kept.seen.plan)
    assert found is not None
    assert found.terms.dtype == width
    gy = rng.integers(-9, 9, value.shape).astype(np.float32)
    expected, where = np.zeros((shape[0], x[0].size), np.float32), engine.indices(op, (x,))[1]
    for plane, places, sent in zip(expected, where, gy, strict=True):
        np.add.at(plane, places.reshape(-1), sent.reshape(-1))
    for threads in (1, 9):  # one takes several planes at a time, so many do not
        with sg.num_threads(threads):
            assert np.array_equal(engine.pull(op, (x,), kept, gy)[0], expected.reshape(shape))


@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize("op", [sg.MaxPool((3, 3), stride=1, padding=1), sg.AdaptiveMaxPool((9, 7))])
def test_planes_that_lie_side_by_side_get_what_others_do(op, channels):
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = np.moveaxis(rng.integers(-20, 20, (2, 40, 30, channels)).astype(np.float32), -1, 1)
    apart = np.ascontiguousarray(x)
    value, kept = engine.keep(op, (x,))
    assert kept.seen.plan.seen.inner == channels
    assert landing.landing(kept.seen.plan) is not None
    gy = rng.integers(-9, 9, value.shape).astype(np.float32)
    expected = engine.pull(op, (apart,), engine.keep(op, (apart,))[1], gy)[0]
    assert np.array_equal(engine.pull(op, (x,), kept, gy)[0], expected)
