"""Choices of the CPU engine's schedule, where other choices are several times slower."""

from __future__ import annotations

import re

import numpy as np
import pytest
from engine_comparison import compare

import specgrad as sg
from specgrad.engines.cpu import pooling


def walks(op, shape, rule, dtype="float32"):
    return [step.walk for step in pooling.plan(op, shape, np.dtype(dtype))[rule]]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize(("kernel", "size"), [(101, 2048), (51, 512), (51, 200), (201, 1024)])
def test_lines_of_large_windows_are_folded_about_twice_at_most(kernel, size, dtype):
    op = sg.MaxPool((kernel, kernel), stride=1, padding=kernel // 2)
    (step,) = pooling.plan(op, (size, size), np.dtype(dtype))["value"]
    rows = int(re.search(r"tiles of (\d+)×", step.reason)[1])
    assert (rows + kernel) / rows <= 2.2


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("kind", [sg.MaxPool, sg.AvgPool])
def test_few_channels_behind_a_place_lie_side_by_side_in_vectors(kind, channels):
    op = kind((3, 3), stride=1, padding=1, axes=(1, 2))
    assert walks(op, (2, 40, 40, channels), "value") == ["direct"]
    assert walks(op, (2, 40, 40, channels), "VJP") in (["phases"], ["direct"])


@pytest.mark.parametrize("kind", [sg.MaxPool, sg.AvgPool])
def test_windows_that_are_very_far_apart_are_read_cell_by_cell(kind):
    """Vectors that include the cells between them would compile for hours."""
    assert walks(kind((5,), stride=500, padding=((0, 2000),), dilation=2), (3, 2), "value") == ["along"]
    random = np.random.default_rng(0)
    for op, shape in (
        (kind((5,), stride=13105, padding=((0, 65536),), dilation=2), (3, 2)),
        (kind((2, 3), stride=(7, 300), padding=((1, 0), (0, 0)), dilation=2), (2, 20, 1000)),
    ):
        x, dx, gy = (random.integers(-9, 10, s).astype(np.float32) for s in (shape, shape, op.output_shape(shape)))
        compare(op, x, dx, gy)


def test_cells_gather_what_they_won_where_vectors_of_them_are_full():
    op = sg.MaxPool((3, 3), stride=1, padding=1)
    assert walks(op, (8, 56, 56), "VJP") == ["phases"]
    assert walks(op, (8, 9, 9), "VJP") == ["flat"]
    assert walks(sg.MaxPool((3, 3), stride=1, padding=1, dilation=2), (8, 10, 10), "VJP") == ["winners"]
    assert walks(sg.MaxPool((5, 5), stride=1, padding=2), (8, 9, 9), "VJP") == ["winners"]


@pytest.mark.parametrize("padding", [0, ((0, 2), (0, 1))])
@pytest.mark.parametrize("stride", [1, 2, 7, 9])
def test_cotangents_of_one_window_are_written_whatever_its_stride(stride, padding):
    op = sg.AvgPool((7, 7), stride=stride, padding=padding)
    if op.output_shape((188, 7, 7)) == (188, 1, 1):
        assert walks(op, (188, 7, 7), "VJP") == ["runs"]
    random = np.random.default_rng(0)
    across = sg.AvgPool((1, 3), stride=(2, 1), padding=((0, 0), (2, 2)))  # and one cell that is read by all windows
    x, dx, gy = (random.integers(-9, 10, s).astype(np.float32) for s in ((5, 4, 1), (5, 4, 1), (5, 2, 3)))
    compare(across, x, dx, gy)
    for one in (op, sg.MaxPool((7, 7), stride=stride, padding=padding, ceil_mode=True)):
        shape = one.output_shape((5, 7, 7))
        x, dx, gy = (random.integers(-9, 10, s).astype(np.float32) for s in ((5, 7, 7), (5, 7, 7), shape))
        compare(one, x, dx, gy)


@pytest.mark.parametrize(
    ("kernel", "stride"), [((3, 14), (1, 1)), ((14, 3), (1, 1)), ((3, 6), (1, 5)), ((6, 3), (8, 2)), ((9, 3), (1, 8))]
)
def test_cotangents_go_by_runs_of_both_axes_if_those_of_one_have_to(kernel, stride):
    op = sg.AvgPool(kernel, stride=stride)
    assert walks(op, (188, 14, 14), "VJP") == ["runs"]
    random = np.random.default_rng(0)
    x, dx, gy = (
        random.integers(-9, 10, s).astype(np.float32) for s in [(5, 14, 14)] * 2 + [op.output_shape((5, 14, 14))]
    )
    compare(op, x, dx, gy)


@pytest.mark.parametrize("kind", [sg.AdaptiveMaxPool, sg.AdaptiveAvgPool])
def test_bins_before_channels_are_folded_at_once(kind):
    assert walks(kind((3, 10), axes=(1, 2)), (2, 40, 40, 16), "value") == ["bins"]
    op = sg.AvgPool((9, 9), stride=1, padding=4, axes=(1, 2))
    assert walks(op, (2, 40, 40, 16), "value") == ["along", "along"]
