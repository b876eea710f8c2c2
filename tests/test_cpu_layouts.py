"""Operands in other layouts than C order, or read-only: results have the bits of a C-ordered copy,
and no more kernels are compiled."""

from __future__ import annotations

import numpy as np
import pytest
from engine_comparison import bits
from kinds import in_turn

import specgrad as sg
from specgrad.engines.cpu import pooling, pools

VIEWS = {
    "cropped": lambda drawn, shape: drawn((*shape[:-1], shape[-1] + 3))[..., 1:-2],
    "cropped below": lambda drawn, shape: drawn((*shape[:1], shape[1] + 1, *shape[2:]))[:, :-1],
    "every other": lambda drawn, shape: drawn((*shape[:-1], 2 * shape[-1]))[..., ::2],
    "every third": lambda drawn, shape: drawn((*shape[:-1], 3 * shape[-1]))[..., 1::3],
    "every other plane": lambda drawn, shape: drawn((2 * shape[0], *shape[1:]))[::2],
    "turned": lambda drawn, shape: drawn(shape)[..., ::-1],
    "turned over": lambda drawn, shape: drawn(shape)[:, ::-1],
    "transposed": lambda drawn, shape: drawn((*shape[:-2], shape[-1], shape[-2])).swapaxes(-1, -2),
    "transposed and cropped": lambda drawn, shape: drawn((*shape[:-2], shape[-1], shape[-2] + 1)).swapaxes(-1, -2)[
        ..., 1:, :
    ],
    "repeated": lambda drawn, shape: np.broadcast_to(drawn(shape[1:]), shape),
}
POOLS = [
    (sg.MaxPool((2, 2)), (23, 9, 10)),
    (sg.MaxPool((3, 3), stride=2, padding=1), (5, 20, 37)),
    (sg.MaxPool((3, 3), stride=1, padding=1), (7, 18, 33)),
    (sg.MaxPool((5, 2), stride=1, dilation=(1, 3)), (6, 12, 70)),
    (sg.MaxPool((2, 2), stride=3), (6, 12, 70)),
    (sg.MaxPool((1, 1), stride=2), (6, 12, 70)),
    (sg.AdaptiveMaxPool((3, 4)), (21, 7, 9)),
    (sg.MaxPool((2, 2, 2)), (5, 6, 7, 20)),
    (sg.MaxPool((4,), stride=4), (3, 4, 80)),
    (sg.GlobalMaxPool(2), (9, 6, 11)),
    (sg.AvgPool((2, 2)), (5, 20, 37)),
    (sg.AvgPool((3, 3), stride=1, padding=1, count_include_pad=False), (23, 9, 10)),
    (sg.AvgPool((9, 9), stride=1), (4, 20, 37)),
    (sg.AdaptiveAvgPool((3, 4)), (21, 7, 9)),
    (sg.AvgPool((3, 1, 2), stride=1, padding=(1, 0, 1)), (5, 6, 7, 20)),
    (sg.SmoothMaxPool((2, 2), beta=1.0), (5, 20, 37)),
]
DTYPES = [np.float32, np.float64, np.float16]


def answers(op, x, gy):
    """The bits of all results of an operator."""
    y, kept = pooling.keep(op, (x,))
    winners = isinstance(kept, pools.Kept)
    places = [kept.codes.reshape(-1), *pooling.indices(op, (x,))] if winners else []
    found = [y, op(x), *places, pooling.pull(op, (x,), kept, gy)[0], *op.vjp((x,), gy), *op.jvp((x,), (x,))]
    return [bits(np.ascontiguousarray(one)) for one in found]


@pytest.mark.parametrize(("turn", "view"), [*enumerate(VIEWS)])
@pytest.mark.parametrize(("op", "shape"), POOLS, ids=repr)
def test_a_view_has_the_bits_of_its_copy(op, shape, turn, view):
    rng = np.random.default_rng(0)
    for dtype in in_turn(DTYPES, POOLS.index((op, shape)) + turn):
        x = VIEWS[view](lambda sizes, dtype=dtype: 36 * rng.integers(-8, 9, sizes).astype(dtype), shape)
        gy = 36 * rng.integers(-8, 9, (*op.output_shape(shape), 2)).astype(dtype)[..., 0]  # multiples of the divisors
        expected = answers(op, np.array(x), np.array(gy))
        found = answers(op, x, gy)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("planes", [16, 37])
@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        (sg.AvgPool((2, 2), padding=1, count_include_pad=False), (9, 10)),
        (sg.AvgPool((3, 2), stride=2, padding=1, count_include_pad=False), (9, 10)),
        (sg.AvgPool((2, 1, 2), padding=(1, 0, 1), count_include_pad=False), (5, 3, 4)),
        (sg.AvgPool((2, 2, 2), stride=3), (5, 9, 7)),
        (sg.AvgPool((3,), stride=1, padding=1, count_include_pad=False), (9,)),
        (sg.AdaptiveAvgPool((4, 1)), (9, 6)),
        (sg.AdaptiveAvgPool((3, 4)), (7, 6)),
        (sg.MaxPool((2, 2), stride=3, padding=1), (9, 10)),
        (sg.MaxPool((2, 2), stride=(1, 2), dilation=(2, 3)), (9, 10)),
        (sg.MaxPool((2, 1, 2), stride=3, padding=(1, 0, 1)), (8, 9, 7)),
        (sg.MaxPool((2,), stride=5), (14,)),
    ],
    ids=repr,
)
def test_planes_side_by_side_have_the_bits_of_planes_end_to_end(op, sizes, planes):
    rng = np.random.default_rng(planes)
    for dtype in DTYPES[:2]:
        x = 216 * rng.integers(-8, 9, (3, planes, *sizes)).astype(dtype)
        gy = 216 * rng.integers(-8, 9, op.output_shape(x.shape)).astype(dtype)
        beside = [np.moveaxis(np.moveaxis(array, 1, -1).copy(), -1, 1) for array in (x, gy)]
        y, kept = pooling.keep(op, (x,))
        own, own_kept = pooling.keep(op, (beside[0],))
        np.testing.assert_array_equal(bits(own), bits(y))
        np.testing.assert_array_equal(bits(op(beside[0])), bits(y))
        pulled = pooling.pull(op, (x,), kept, gy)[0]
        np.testing.assert_array_equal(bits(pooling.pull(op, (beside[0],), own_kept, beside[1])[0]), bits(pulled))
        np.testing.assert_array_equal(bits(op.vjp((beside[0],), beside[1])[0]), bits(pulled))


@pytest.mark.parametrize("pool", [sg.AdaptiveMaxPool, sg.AdaptiveAvgPool])
def test_cells_get_nothing_where_there_is_no_window(pool, monkeypatch):
    x = np.moveaxis(np.ones((2, 4, 5, 32), np.float32), -1, 1)
    gy = np.zeros((2, 32, 0, 5), np.float32)
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float, **_: np.full(shape, 77, dtype))
    assert not pool((0, 5)).vjp((x,), gy)[0].any()


GUARDED = """
import ctypes, mmap, numpy as np
layouts.MANY = 0
page, system = mmap.PAGESIZE, ctypes.CDLL(None)
memory = mmap.mmap(-1, 3 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for forbidden in (0, 2):
    assert system.mprotect(ctypes.c_void_p(start + forbidden * page), ctypes.c_size_t(page), 0) == 0
cells = np.frombuffer(memory, np.float32, page // 4, page)
cells[:] = np.arange(cells.size)
views = (9, 7, 1), (3, 2, 1), (40, 33, 1), (64, 28, 2), (36, 18, 2), (32, 16, 2), (64, 21, 3), (17, 17, -1)
for pitch, width, step in views:
    rows = cells.size // pitch
    first, last = cells[: rows * pitch].reshape(rows, pitch), cells[cells.size - rows * pitch :].reshape(rows, pitch)
    ahead = first[:, : width * abs(step) : step]
    behind = last[:, ::-1][:, : width * abs(step) : abs(step)][:, ::-1]
    for view in (ahead, behind, ahead[::-1], behind[::-1], ahead.T, behind.T):
print("read")
"""


KERNELS = [
    "fold.fold_windows",
    "small.fold_small",
    "small_winners.find_small_winners",
    "apart.pull_pairs",
    "landing.land",
    "scatter.gather_winners",
    "spread.spread_small",
    "chains.fold_chain",
    "chains.move_chain",
    "halves.convert_cells",
]
