"""Winners of windows that are few, large or far apart: the first of equal cells."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
from kinds import in_turn
from naive import pool_windows

import specgrad as sg
from specgrad import dispatch
from specgrad.engines.cpu import pools

WINDOWS = [
    (sg.AdaptiveMaxPool((4, 5)), (64, 81)),  # more columns than a vector
    (sg.AdaptiveMaxPool((9, 27)), (64, 65)),  # few windows, all different
    (sg.MaxPool((4, 4), stride=4, padding=2, ceil_mode=True), (66, 67)),
    (
        sg.MaxPool((13, 70), stride=(4, 5), padding=(6, 0)),
        (64, 90),
    ),  # windows that share rows, some wider than vectors are
    (sg.MaxPool((1, 12), stride=(1, 12)), (3, 64)),  # one row
    (sg.MaxPool((2, 5), stride=(9, 9)), (64, 70)),  # with unread cells between them
    (sg.AdaptiveMaxPool((3, 4, 2)), (7, 9, 65)),
    (sg.MaxPool((3, 2, 4), stride=(2, 3, 4), padding=(1, 1, 2)), (9, 10, 64)),
    (sg.MaxPool((20,), stride=15), (1000,)),
    (sg.MaxPool((24, 70), padding=(2, 3)), (20, 64)),  # a window with the whole plane and its padding
]


@functools.cache
def cells_of_windows(op, shape):
    """For each window, its index and the flat indices of its cells."""
    return [
        (at, [int(np.ravel_multi_index(tap, shape)) for tap in taps if tap is not None])
        for at, taps in pool_windows(op, shape)
    ]


@pytest.mark.parametrize("beside", [False, True], ids=["", "beside"])
@pytest.mark.parametrize(
    ("op", "shape", "dtype"),
    [
        (*window, dtype)
        for turn, window in enumerate(WINDOWS)
        for dtype in (np.float32, *in_turn([np.float64, np.int8, np.uint8, np.int64], turn))
    ],
)
def test_the_earliest_of_the_greatest_wins(op, shape, dtype, beside):
    """Planes one after the other, and channels last."""
    engine, rng = dispatch.load("cpu"), np.random.default_rng(0)
    x = np.moveaxis(np.empty((*shape, 3), dtype), -1, 0) if beside else np.empty((3, *shape), dtype)
    x[...] = rng.integers(1, 5, x.shape)
    x[1] = -np.inf if dtype in (np.float32, np.float64) else np.iinfo(dtype).min
    value, found = engine.indices(op, (x,))
    numbers = x.reshape(-1).tolist()
    for at, cells in cells_of_windows(op, x.shape):
        first = max(cells, key=numbers.__getitem__)  # Python's max returns the first of equals
        assert (value[at], found[at]) == (numbers[first], first % x[0].size), at


@pytest.mark.parametrize("beside", [False, True], ids=["", "beside"])
@pytest.mark.parametrize("number", [np.nan, -0.0])
def test_what_shows_the_order_is_left_to_the_exact_search(number, beside):
    op = sg.MaxPool((5, 5), stride=5)
    x = np.full((40, 40, 2) if beside else (2, 40, 40), -1.0, np.float32)
    x = np.moveaxis(x, -1, 0) if beside else x
    x[1, 7:, 9:], x[1, 8, 11] = 0.0, number
    value, found = dispatch.load("cpu").indices(op, (x,))
    for at, taps in pool_windows(op, x.shape):
        won = taps[0]
        for tap in taps[1:]:
            won = tap if x[tap] > x[won] or x[tap] != x[tap] else won
        assert found[at] == np.ravel_multi_index(won[1:], x.shape[1:])
        assert value[at].tobytes() == x[won].tobytes()


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (sg.AdaptiveMaxPool((3, 4, 2)), (6, 9, 65)),
        (sg.MaxPool((3, 4, 7), stride=(3, 4, 6), padding=1), (9, 10, 64)),
        (sg.MaxPool((5, 5, 5), padding=(2, 2, 0), stride=(5, 5, 8), ceil_mode=True), (3, 11, 64)),
    ],
)
@pytest.mark.parametrize("number", [2.0, np.nan, -0.0])
def test_maxima_of_large_windows_of_volumes_have_the_bits_of_the_specification(op, shape, number):
    rng = np.random.default_rng(2)
    x = rng.integers(-4, 1, (3, *shape)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = number
    found = op(x)
    with sg.engine("reference"):
        assert found.tobytes() == op(x).tobytes()


EACH = [
    (sg.MaxPool, (3, 3, 3), {"stride": 5}, (5, 12, 13, 14), np.float64),
    (sg.MaxPool, (2, 3, 2), {"stride": 4, "padding": 1, "ceil_mode": True}, (5, 9, 10, 11), np.float64),
    (sg.MaxPool, (2, 2, 2), {"stride": 3}, (5, 9, 9, 7), np.int64),
    (sg.AvgPool, (3, 3, 3), {"stride": 5}, (5, 12, 13, 14), np.float32),
    (sg.AvgPool, (4, 2, 2), {"stride": 4, "padding": (2, 1, 1), "ceil_mode": True}, (5, 9, 10, 11), np.float64),
    (
        sg.AvgPool,
        (2, 3, 19),
        {"stride": (5, 4, 20), "count_include_pad": False, "padding": (0, 1, 2)},
        (5, 9, 10, 50),
        np.float32,
    ),
    (sg.AvgPool, (8, 8), {}, (5, 17, 29), np.float64),
    (sg.AvgPool, (3, 11), {"stride": (4, 12), "divisor_override": 7}, (5, 17, 29), np.float64),
    (sg.AvgPool, (4, 5, 4), {}, (5, 9, 10, 12), np.float64),  # without a gap
    (sg.AdaptiveAvgPool, (3,), {}, (5, 4, 50), np.float32),  # lines, in bins that share cells
    (sg.AdaptiveAvgPool, (9,), {}, (5, 4, 100), np.float64),
    (sg.AvgPool, (70,), {"stride": 61, "padding": 9, "count_include_pad": False}, (5, 4, 300), np.float32),
]


@pytest.mark.parametrize("backwards", [False, True], ids=["", "backwards"])
@pytest.mark.parametrize(("kind", "kernel", "options", "shape", "dtype"), EACH)
def test_windows_that_leave_cells_unread_are_folded_one_by_one(kind, kernel, options, shape, dtype, backwards):
    """Sums of integers are exact, so only wrong cells or divisors differ; maxima have the
    specification's bits."""
    op, rng = kind(kernel, **options), np.random.default_rng(1)
    x = rng.integers(-90, 90, shape).astype(dtype)
    x = x[:, ::-1].copy()[:, ::-1] if backwards else x
    if kind is sg.MaxPool and dtype is np.float64:
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.3] = -0.0
    with sg.engine("cpu"):
        found = op(x)
    with sg.engine("reference"):
        wanted = op(x)
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("kernel", "shape", "dtype"), [((3, 3, 3), (5, 12, 13, 14), np.float32), ((8, 8), (5, 17, 29), np.float64)]
)
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_one_number_that_is_not_finite_shows_in_its_window_alone(kernel, shape, dtype, number):
    op, stride = sg.AvgPool(kernel, stride=9), 9
    for place in ((0,) * len(kernel), tuple(k - 1 for k in kernel), (1,) * len(kernel)):
        x = np.ones(shape, dtype)
        x[(2, *place)] = number
        found, wanted = op(x), np.ones(op.output_shape(shape), dtype)
        wanted[(2, *(i // stride for i in place))] = number
        np.testing.assert_array_equal(found, wanted)


def test_a_call_keeps_its_tables_though_its_plan_is_replaced():
    """If threads make the same plan at once, one plan is dropped from the cache while its call
    runs. The call must keep its tables, which would else be freed and overwritten."""
    pool, _ = pools.seen(sg.MaxPool((3, 3), stride=2, padding=1), np.zeros((2, 5, 15), np.float32))
    call = pool.winners("index").call
    tables = [weakref.ref(table) for table in call.tables]
    pool._kernels.clear()
    gc.collect()
    assert tables
    assert all(table() is not None for table in tables)
