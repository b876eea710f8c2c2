"""Tied maxima: tangents and cotangents of all cells equal to their window's maximum, over lines
processed as vectors, in pieces, or alone."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kinds import in_turn

import specgrad as sg
from specgrad import dispatch

LINES = [
    (sg.MaxPool((5,), stride=2, ties="all"), (3, 1000)),  # fewer lines than a vector
    (sg.MaxPool((5,), stride=2, padding=2, ties="all"), (37, 1000)),  # several pieces, and some lines left over
    (sg.MaxPool((3,), stride=3, dilation=4, ceil_mode=True, ties="all"), (18, 701)),
    (sg.AdaptiveMaxPool((300,), ties="all"), (20, 777)),
    (sg.MaxPool((5000,), stride=4000, ties="all"), (17, 11_000)),  # too far apart for vectors of lines
    (sg.MaxPool((2,), stride=4, ties="all"), (0, 9)),
    (sg.MaxPool((2,), stride=3, ties="all"), (2, 70_000)),  # rows too long for a copy
]
PLANES = [  # windows without overlap
    (sg.GlobalMaxPool, (2,), {}, (3, 5, 7)),
    (sg.GlobalMaxPool, (2,), {}, (2, 3, 97, 131)),
    (sg.GlobalMaxPool, (1,), {}, (3, 16)),
    (sg.GlobalMaxPool, (1,), {"axes": (3,), "keepdims": False}, (2, 1, 2, 25)),
    (sg.GlobalMaxPool, (2,), {"keepdims": False}, (2, 3, 9, 40)),
    (sg.MaxPool, ((2, 2),), {}, (2, 3, 12, 75)),  # pairs in whole vectors
    (sg.MaxPool, ((2, 2),), {}, (5, 9, 21)),  # and not in whole vectors
    (sg.MaxPool, ((3, 2),), {"stride": (4, 3), "padding": ((2, 1), (1, 0)), "ceil_mode": True}, (5, 23, 50)),
    (sg.MaxPool, ((1, 1),), {"stride": 2, "padding": 2, "dilation": 3}, (3, 6, 40)),  # some windows are only padding
    (sg.AdaptiveMaxPool, ((3, 5),), {}, (4, 12, 40)),
    (sg.MaxPool, ((2, 3, 4),), {"stride": (3, 3, 4)}, (2, 8, 10, 33)),
    (sg.MaxPool, ((2, 2),), {"axes": (1, 2)}, (3, 7, 8, 19)),  # channels last
    (sg.MaxPool, ((2, 2),), {"stride": 3, "axes": (1, 2)}, (3, 8, 8, 3)),
]


def ties_of(op, x):
    """Pairs of a cell and a window in which the cell ties, by the geometry's tables: the line, the
    cell and the window."""
    (axis,) = op.spatial(x.shape[1:])
    taps = axis.taps()
    cells = np.where(taps.real, x[:, taps.cell], -np.inf)
    tied = taps.real & ((cells == cells.max(axis=2, keepdims=True)) | np.isnan(cells))
    line, window, tap = np.nonzero(tied)
    return line, taps.cell[window, tap], window


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize(("op", "shape"), LINES)
def test_each_tied_cell_sends_and_is_sent(op, shape, dtype):
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(dtype)
    if dtype is np.float32:
        x[rng.random(shape) < 0.01] = np.nan
    line, cell, window = ties_of(op, x)
    kept = engine.recall(op, (x,))
    dx, gy = (rng.integers(-9, 9, s).astype(dtype) for s in (shape, op.output_shape(shape)))
    dy, gx = np.zeros_like(gy), np.zeros_like(dx)
    np.add.at(dy, (line, window), dx[line, cell])
    np.add.at(gx, (line, cell), gy[line, window])
    assert np.array_equal(engine.push(op, (x,), kept, (dx,)), dy)
    assert np.array_equal(engine.pull(op, (x,), kept, gy)[0], gx)


@pytest.mark.parametrize(
    ("kind", "given", "words", "shape", "dtype"),
    [
        (*plane, dtype)
        for turn, plane in enumerate(PLANES)
        for dtype in (np.float32, *in_turn([np.float16, ml_dtypes.bfloat16, np.int16], turn))
    ],
)
def test_cells_that_equal_their_maximum_send_and_are_sent_what_the_specification_says(kind, given, words, shape, dtype):
    engine, exact, rng = dispatch.load("cpu"), dispatch.load("reference"), np.random.default_rng(0)
    op = kind(*given, **words, ties="all")
    x = rng.integers(-2, 3, shape).astype(dtype)
    if dtype is not np.int16:
        x[rng.random(shape) < 0.003] = np.nan
    dx, gy = (rng.integers(-9, 9, s).astype(x.dtype) * x.dtype.type(-1) for s in (shape, op.output_shape(shape)))
    y, kept = engine.keep(op, (x,))
    y[...] = 0  # the kept tensors are a copy
    told = exact.recall(op, (x,))
    dy, (gx,) = engine.push(op, (x,), kept, (dx,)), engine.pull(op, (x,), kept, gy)
    assert np.array_equal(dy, exact.push(op, (x,), told, (dx,)))
    assert gx.tobytes() == exact.pull(op, (x,), told, gy)[0].tobytes()  # no -0.0
    if dtype is np.float32:  # "split" divides by the number of tied cells
        sharers = np.maximum(engine.push(op, (x,), kept, (np.ones_like(x),)), 1)
        split = engine.recall(op := kind(*given, **words, ties="split"), (x,))
        assert np.array_equal(engine.push(op, (x,), split, (dx,)), dy / sharers)
        assert np.array_equal(engine.pull(op, (x,), split, gy)[0], engine.pull(op, (x,), kept, gy / sharers)[0])
