"""Operands that lie otherwise than in rows end to end, or must not be written: the bits of a copy that does, and nothing compiled for them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from beside import bits
from hypothesis import given
from hypothesis import strategies as st

import specgrad as sg
from specgrad.engines.cpu import layouts, maximum, pooling
from specgrad.engines.cpu.compiled import kernel

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
    """All that is computed of an operand, as bits."""
    y, kept = pooling.keep(op, (x,))
    winners = isinstance(kept, maximum.Winners)
    places = [kept.codes.reshape(-1), *pooling.indices(op, (x,))] if winners else []
    found = [y, op(x), *places, pooling.pull(op, (x,), kept, gy)[0], *op.vjp((x,), gy), *op.jvp((x,), (x,))]
    return [bits(np.ascontiguousarray(one)) for one in found]


@pytest.mark.parametrize("some", [1 << 20, 500], ids=["at once", "some planes at a time"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("op", "shape"), POOLS, ids=repr)
def test_a_view_has_the_bits_of_its_copy(op, shape, view, some, monkeypatch):
    monkeypatch.setattr(layouts, "SOME", some)
    monkeypatch.setattr(layouts, "MANY", 0)
    rng = np.random.default_rng(some)
    for dtype in DTYPES:
        x = VIEWS[view](lambda sizes, dtype=dtype: 36 * rng.integers(-8, 9, sizes).astype(dtype), shape)
        gy = 36 * rng.integers(-8, 9, (*op.output_shape(shape), 2)).astype(dtype)[..., 0]  # which divisors divide
        expected = answers(op, np.array(x), np.array(gy))
        found = answers(op, x, gy)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        for in_order in (False, True):  # so that the next ones are planned anew
            pooling.see(op, x, in_order).plan.calls.clear()


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


def test_views_are_brought_together_where_that_helps():
    x = np.zeros((7, 18, 36), np.float32)[..., 1:-2]

    def is_scattered(x, **words):
        return layouts.is_scattered(pooling.see(sg.MaxPool((3, 3), **words), x), maximum.searching)

    assert is_scattered(x, stride=1)
    assert is_scattered(x[..., ::2], stride=2)
    assert not is_scattered(x.copy(), stride=1)
    assert not is_scattered(x, stride=5)  # most cells are not read


@given(st.data())
def test_cells_are_gathered_in_order(data):
    shape = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4).filter(lambda sizes: np.prod(sizes) < 20000))
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    dtype = data.draw(st.sampled_from([np.uint8, np.int16, np.float32, np.float64]))
    sizes = [n * abs(step) + data.draw(st.integers(0, 2)) for n, step in zip(shape, steps, strict=True)]
    whole = (np.arange(np.prod(sizes)) % 251).astype(dtype).reshape(sizes)
    view = whole[tuple(slice(None, None, step) for step in steps)][tuple(slice(0, n) for n in shape)]
    view = view.transpose(data.draw(st.permutations(range(len(shape)))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "MANY", 0)
        np.testing.assert_array_equal(layouts.gathered(view), view.ravel())


GUARDED = """
import ctypes, mmap, numpy as np
from specgrad.engines.cpu import layouts
layouts.MANY = 0
page, system = mmap.PAGESIZE, ctypes.CDLL(None)
memory = mmap.mmap(-1, 3 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for forbidden in (0, 2):
    assert system.mprotect(ctypes.c_void_p(start + forbidden * page), ctypes.c_size_t(page), 0) == 0
cells = np.frombuffer(memory, np.float32, page // 4, page)
cells[:] = np.arange(cells.size)
for pitch, width, step in ((9, 7, 1), (3, 2, 1), (40, 33, 1), (64, 28, 2), (36, 18, 2), (32, 16, 2), (64, 21, 3), (17, 17, -1)):
    rows = cells.size // pitch
    first, last = cells[: rows * pitch].reshape(rows, pitch), cells[cells.size - rows * pitch :].reshape(rows, pitch)
    ahead = first[:, : width * abs(step) : step]
    behind = last[:, ::-1][:, : width * abs(step) : abs(step)][:, ::-1]
    for view in (ahead, behind, ahead[::-1], behind[::-1], ahead.T, behind.T):
        assert np.array_equal(layouts.gathered(view), view.ravel()), (pitch, width, step)
print("read")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system to guard memory")
def test_nothing_is_read_beyond_a_view():
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.stdout == "read\n", done.stderr


@pytest.mark.parametrize("shape", [(2, 8, 8), (40, 30, 31)])
@pytest.mark.parametrize(
    "op", [sg.MaxPool((2, 2)), sg.AvgPool((3, 3), stride=1, padding=1), sg.SmoothMaxPool((2, 2), beta=1.0)]
)
def test_nothing_is_compiled_for_arrays_that_must_not_be_written(op, shape):
    rng = np.random.default_rng(1)
    for dtype in DTYPES:
        x, gy = rng.normal(size=shape).astype(dtype), rng.normal(size=op.output_shape(shape)).astype(dtype)
        expected = answers(op, x, gy)
        before = {name: len(kernel(name).signatures) for name in KERNELS}
        alike = np.dtype(dtype, copy=True)  # as NumPy's own, but not the same
        locked, locked_gy = np.array(x).view(alike), np.array(gy).view(alike)
        locked.flags.writeable = locked_gy.flags.writeable = False
        for one, other in zip(answers(op, locked, locked_gy), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert before == {name: len(kernel(name).signatures) for name in KERNELS}
        np.testing.assert_array_equal(bits(locked), bits(x))
        assert not locked.flags.writeable


@pytest.mark.parametrize("groups", [1, 4])
def test_nor_is_anything_for_convolutions(groups):
    rng = np.random.default_rng(1)
    op = sg.Conv((3, 3), padding=1, groups=groups)
    given = [rng.normal(size=size).astype(np.float32) for size in ((2, 4, 9, 9), (4, 4 // groups, 3, 3))]
    gy = rng.normal(size=op.output_shape(*(operand.shape for operand in given))).astype(np.float32)
    names = [f"columns.{name}" for name in ("pack", "unpack", "correlate", "weigh")]
    names += [f"depthwise.{name}_planes" for name in ("correlate", "spread", "weigh")]
    op.vjp(given, gy)
    before = [len(kernel(name).signatures) for name in names]
    for array in (*given, gy):
        array.flags.writeable = False
    op.vjp(given, gy)
    assert before == [len(kernel(name).signatures) for name in names]


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
