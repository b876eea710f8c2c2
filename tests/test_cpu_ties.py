"""Tied maxima: tangents and cotangents of all cells that equal their window's maximum, over lines that are walked side by side, in pieces, or alone."""

from __future__ import annotations

import numpy as np
import pytest

import specgrad as sg
from specgrad import dispatch
from specgrad.engines.cpu import ties

LINES = [
    (sg.MaxPool((5,), stride=2, ties="all"), (3, 1000)),  # fewer lines than a vector has
    (sg.MaxPool((5,), stride=2, padding=2, ties="all"), (37, 1000)),  # several pieces, and some lines left over
    (sg.MaxPool((3,), stride=3, dilation=4, ceil_mode=True, ties="all"), (18, 701)),
    (sg.AdaptiveMaxPool((300,), ties="all"), (20, 777)),
    (sg.MaxPool((5000,), stride=5000, ties="all"), (17, 11_000)),  # too far for lines side by side
    (sg.GlobalMaxPool(1, ties="all"), (5, 97 * 131)),  # a row, and then a cell
    (sg.MaxPool((2,), stride=4, ties="all"), (0, 9)),
]


def ties_of(op, x):
    """Of each pair of a cell and a window that read it and tie: the line, the cell and the window; by the tables of the geometry."""
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


def test_lines_are_walked_as_this_file_says():
    def pieces(op, shape):
        return [len(there.tables[3]) for there, _ in ties.walks(ties.see(op, np.zeros(shape, np.float32)).plan)]

    assert [pieces(*case) for case in LINES[1:6]] == [[2], [1], [2], [0], [0, 1]]
