"""Small windows, and windows without overlap: the CPU engine against the specification, at the rows
and cells where kernels begin and end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from engine_comparison import bits, compare, on
from kinds import in_turn

import specgrad as sg
from specgrad import dispatch


@pytest.mark.parametrize("place", [(0, 0, 0), (0, 2, 17), (1, 4, 36)])
@pytest.mark.parametrize(("k", "s", "p"), [(2, 2, 0), (3, 2, 1), (3, 2, 0), (3, 1, 1), (5, 1, 2)])
def test_a_nan_is_met_in_rows_that_take_vectors(k, s, p, place):
    x = np.random.default_rng(k).permutation(2 * 5 * 37).reshape(2, 5, 37).astype(np.float32)
    x[place] = np.nan
    op = sg.MaxPool((k, k), stride=s, padding=p)
    compare(
        op,
        x,
        x[::-1, ::-1, ::-1].copy(),
        np.arange(np.prod(op.output_shape(x.shape)), dtype=np.float32).reshape(op.output_shape(x.shape)),
    )


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (shape, dtype)
        for turn, shape in enumerate([(2, 3, 16), (3, 4, 17), (2, 28, 28), (1, 40, 48)])
        for dtype in (np.float32, *in_turn([np.float64, np.int32], turn))
    ],
)
def test_narrow_planes_of_which_rows_are_folded_as_one_are_those_of_the_specification(shape, dtype):
    """Windows of 3×3 cells with padding: windows at the ends of rows do not read the next row;
    signed zeros and NaN at every cell."""
    random, integer = np.random.default_rng(shape[-1]), dtype is np.int32
    around = {"stride": 1, "padding": 1}
    for cells in ([-0.0, 0.0, -1.0, -2.0], [np.nan, -1.0, *[2.0] * 60], [-np.inf, 1.0, 0.0, 5.0]):
        x = random.choice(cells, shape)
        x[:, :, [0, -1]] = np.where(random.random((*shape[:2], 2)) < 0.5, x[:, :, [0, -1]], -0.0)
        x = (np.nan_to_num(x, nan=7, neginf=-(2**31)) if integer else x).astype(dtype)
        dx, gy = (random.integers(-9, 10, shape).astype(dtype) for _ in range(2))
        compare(sg.MaxPool((3, 3), **around), x, dx, gy)
        if not integer:
            for counts in (True, False):
                compare(sg.AvgPool((3, 3), count_include_pad=counts, **around), x, dx, gy)


@pytest.mark.parametrize("column", [0, -2])
def test_a_zero_at_the_end_of_a_narrow_row_has_its_sign(column):
    """All other windows have greater cells, and so does the end of the next row."""
    x = np.full((1, 8, 20), 5, np.float32)
    x[:, 3:6, column : column + 2 or None] = 0
    x[:, 3, column] = -0.0
    op = sg.MaxPool((3, 3), stride=1, padding=1)
    compare(op, x, x, x)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 1, 1), (3, 1, 0), (3, 2, 1), (3, 2, 0), (2, 2, 0), (2, 1, 1), (2, 1, 0)]
)
@pytest.mark.parametrize(("height", "width"), [(9, 40), (8, 29), (68, 500)])
def test_zeros_of_both_signs_and_nan_are_noticed_in_every_row(kernel, stride, padding, height, width):
    """Also planes of several tasks, in the rows at the tasks' borders."""
    op = sg.MaxPool((kernel, kernel), stride=stride, padding=padding)
    plain = np.full((1, 1, height, width), -1, np.float32)
    for row in range(height) if height < 20 else (0, 1, 2, 21, 22, 33, 34, height // 2, height - 2, height - 1):
        for pair in ([-0.0, 0.0], [0.0, -0.0], [np.nan, -np.nan]):
            x = plain.copy()
            x[..., row, 6:8] = pair
            assert (bits(on("cpu", lambda x=x: op(x))) == bits(on("reference", lambda x=x: op(x)))).all(), (row, pair)


@pytest.mark.parametrize("padding", [0, 1, ((2, 3), (1, 0)), ((0, 1), (5, 4))])
@pytest.mark.parametrize(("shape", "dtype"), [
    ((2, 5, 37), np.float32), ((3, 6, 32), np.float32), ((2, 8, 17), np.int32), ((1, 9, 19), np.float64),
    ((1, 70, 501), np.float32),
])  # fmt: skip
def test_3x3_windows_that_move_by_two_are_those_of_the_specification(shape, dtype, padding):
    """Also planes of several tasks, and windows whose cells all equal the number for padding. An
    infinite cotangent only reaches its own cells."""
    random = np.random.default_rng(shape[-1])
    op, average = (kind((3, 3), stride=2, padding=padding) for kind in (sg.MaxPool, sg.AvgPool))
    lengths = op.output_shape(shape)
    for cells in ([-np.inf, -np.inf, -np.inf, 3.0], [-0.0, 0.0, -1.0], [np.nan, *[2.0, 1.0] * 40], [1.0, 2.0, np.inf]):
        x = random.choice(cells, shape)
        if np.dtype(dtype).kind == "i":
            x = np.nan_to_num(x, nan=7, posinf=9, neginf=-(2**31))
        x, dx = x.astype(dtype), random.integers(-9, 10, shape).astype(dtype)
        compare(op, x, dx, random.integers(-9, 10, lengths).astype(dtype))
    if np.dtype(dtype).kind == "f":
        gy = random.normal(size=lengths).astype(dtype)
        compare(average, dx, dx, gy)
        gy[random.random(lengths) < 0.02] = np.inf
        compare(average, dx, dx, gy)


@pytest.mark.parametrize(("height", "width", "stride"), [(8, 20, 2), (2, 18, 2), (7, 16, 1), (1, 20, 2)])
def test_rows_shorter_than_a_vector_write_nothing_beyond_the_last(height, width, stride):
    """Rows before the last are written as whole vectors, whose ends the next rows overwrite."""
    op, x = sg.MaxPool((1, 3), stride=stride), np.arange(3 * height * width, dtype=np.float32).reshape(3, height, width)
    expected = on("reference", lambda: op(x))
    around = np.full(expected.size + 128, 7, np.float32)
    own = around[64:-64].reshape(expected.shape)
    for write in (lambda: op(x, out=own), lambda: dispatch.load("cpu").keep(op, (x,), own)):
        own[...] = 0
        write()
        assert (own == expected).all()
        assert (around[:64] == 7).all()
        assert (around[-64:] == 7).all()


def test_cubes_of_two_cells_are_folded_in_one_pass():
    """Volumes with several cells outside of all windows, and rows that are no multiple of a vector;
    then signed zeros and NaN in each pair of a window's cells."""
    random, shape = np.random.default_rng(0), (2, 3, 5, 7, 75)
    x, dx = (random.integers(-9, 10, shape).astype(np.float32) for _ in range(2))
    gy = random.integers(-9, 10, (2, 3, 2, 3, 37)).astype(np.float32)
    for op in (sg.MaxPool((2, 2, 2)), sg.AvgPool((2, 2, 2))):
        compare(op, x, dx, gy)
    op = sg.MaxPool((2, 2, 2))
    for one, other in itertools.combinations(range(8), 2):
        for pair in ([-0.0, 0.0], [np.nan, -np.nan]):
            x, window = np.full((1, 2, 2, 40), -1, np.float32), np.full(8, -1, np.float32)
            window[[one, other]] = pair
            x[0, ..., 20:22] = window.reshape(2, 2, 2)
            assert bits(on("cpu", lambda x=x: op(x))).item(10) == bits(window).item(one if pair[0] == 0 else other)
            compare(op, x, x, np.arange(20, dtype=np.float32).reshape(1, 1, 1, 20))


@pytest.mark.parametrize("cells", [[-0.0, 0.0, -1.0], [np.nan, -np.nan, *[1.0, -2.0] * 90], [0.0, 3.0, -5.0]])
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [((4,), (3, 67)), ((2,), (3, 41)), ((1, 4), (2, 5, 131)), ((1, 2), (2, 3, 32)), ((4,), (1, 150_001))],
)
def test_winners_of_windows_that_are_runs_of_a_row(kernel, shape, cells):
    """Rows of a vector and some cells, the last outside of all windows; one row so long that
    several tasks share it."""
    random, op = np.random.default_rng(0), sg.MaxPool(kernel)
    x = random.choice(cells, shape).astype(np.float32)
    compare(op, x, x[..., ::-1].copy(), random.integers(-9, 10, op.output_shape(shape)).astype(np.float32))
    for tap in range(kernel[-1]):  # a single NaN
        x = np.ones(shape, np.float32)
        x[..., kernel[-1] + tap] = np.nan
        _, places = on("cpu", lambda x=x: dispatch.with_indices(op, (x,)))
        assert places[..., 1].reshape(-1)[0] == kernel[-1] + tap
