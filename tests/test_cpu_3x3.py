"""3×3 windows with stride 1: winners and VJPs are the specification's."""

import numpy as np
import pytest
from engine_comparison import drawn

import specgrad as sg
from specgrad.dispatch import load

CPU, SPECIFICATION = load("cpu"), load("reference")
PADDINGS = [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((1, 1), (0, 0)), ((0, 1), (1, 0))]
SHAPES = [(3, 18), (4, 19), (8, 33), (9, 50)]  # one vector of windows and more; rows in pairs and one single row


@pytest.mark.parametrize("kind", ["plain", "lowest", "NaN", "-0.0"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_winners_are_those_of_the_specification(shape, padding, dtype, kind):
    op = sg.MaxPool((3, 3), stride=1, padding=padding)
    x = drawn(shape, dtype, kind)
    ours, theirs = CPU.indices(op, (x,)), SPECIFICATION.indices(op, (x,))
    bits = f"u{x.itemsize}"
    assert np.array_equal(ours[0].view(bits), np.asarray(theirs[0], x.dtype).view(bits))
    assert np.array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_planes_of_few_rows_have_more_padding_than_cells(rows):
    op, x = sg.MaxPool((3, 3), stride=1, padding=1), drawn((rows, 40), "float32", "lowest")
    ours, theirs = CPU.indices(op, (x,)), SPECIFICATION.indices(op, (x,))
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("column", [0, 1, 17, -2, -1])
def test_the_last_nan_of_a_column_wins(column, padding):
    op, x = sg.MaxPool((3, 3), stride=1, padding=padding), np.zeros((1, 9, 40), np.float32)
    x[0, 3:6, column] = np.nan
    assert np.array_equal(CPU.indices(op, (x,))[1], SPECIFICATION.indices(op, (x,))[1])


def test_winners_of_large_planes_do_not_depend_on_how_their_rows_are_shared():
    op, x = sg.MaxPool((3, 3), stride=1, padding=1), drawn((701, 300), "float32", "NaN")
    with sg.num_threads(1):
        whole = CPU.indices(op, (x,))
    with sg.num_threads(5):
        shared = CPU.indices(op, (x,))
    cells = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(cells, (3, 3), (1, 2)).max((-2, -1))
    assert np.array_equal(whole[0], expected, equal_nan=True)
    assert np.array_equal(whole[0], shared[0], equal_nan=True)
    assert np.array_equal(whole[1], shared[1])
    assert np.array_equal(np.take_along_axis(x.reshape(3, -1), whole[1].reshape(3, -1), 1).reshape(expected.shape),
                          expected, equal_nan=True)  # fmt: skip


def pulled(op, x, gy):
    return CPU.pull(op, (x,), CPU.keep(op, (x,))[1], gy)[0]


@pytest.mark.parametrize("kind", ["plain", "lowest", "NaN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(77,), (1, 40), (40, 1), (2, 3), (9, 47), (3, 1, 17), (5, 6, 7), (3, 4, 2, 5), (211, 300)]
)
def test_cells_gather_what_they_won(shape, dtype, kind):
    op, x = sg.MaxPool((3,) * len(shape), stride=1, padding=1), drawn(shape, dtype, kind)
    gy = np.random.default_rng(0).integers(-9, 9, x.shape).astype(dtype)
    expected = np.zeros((3, x[0].size), dtype)
    for plane, places, sent in zip(expected, CPU.indices(op, (x,))[1], gy, strict=True):
        np.add.at(plane, places.reshape(-1), sent.reshape(-1))
    for threads in (1, 5):
        with sg.num_threads(threads):
            assert np.array_equal(pulled(op, x, gy), expected.reshape(x.shape))


def test_cotangents_that_are_not_finite_reach_winners_only():
    op, x = sg.MaxPool((3, 3), stride=1, padding=1), np.arange(3 * 40.0).reshape(1, 3, 40)
    gy, expected = np.zeros_like(x), np.zeros_like(x)
    gy[0, 0, 7], gy[0, 2, 20] = np.inf, np.nan
    expected[0, 1, 8], expected[0, 2, 21] = np.inf, np.nan
    assert np.array_equal(pulled(op, x, gy), expected, equal_nan=True)
