"""Small calls: the same bits as the general path, results of their own, and counters that no two
calls share."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from engine_comparison import agree, allowed, bits, compare

import specgrad as sg
from specgrad import dispatch
from specgrad.engines.cpu import prepared

POOLS = [
    sg.MaxPool((2, 2)),
    sg.MaxPool((3, 3), stride=1, padding=1),
    sg.MaxPool((3,), stride=2, padding=1),
    sg.MaxPool((2, 2), axes=(1, 2)),
    sg.MaxPool((2, 3, 2), stride=1, padding=(1, 1, 0)),
    sg.MaxPool((2, 3, 2, 1), stride=2, padding=(1, 1, 1, 0)),
    sg.AvgPool((3, 2, 3), stride=2, padding=1, count_include_pad=False),
    sg.AdaptiveMaxPool((3, 3)),
    sg.GlobalMaxPool(2, ties="first"),
    sg.GlobalMaxPool(2),
    sg.AvgPool((2, 2)),
    sg.AvgPool((3, 3), stride=2, padding=1),
    sg.AvgPool((2,), stride=1),
    sg.AdaptiveAvgPool((3, 3)),
    sg.GlobalAvgPool(2),
    sg.SmoothMaxPool((2, 2), beta=2.0),
    sg.SmoothMaxPool((3, 3), stride=2, padding=1, beta=1.0, pad="zero"),
    sg.SmoothMaxPool((2,), beta=1.0),
]


def answers(op, x, dx, gy):
    return op(x), *op.jvp((x,), (dx,)), *op.vjp((x,), gy)


def same(some, others):
    for one, other in zip(some, others, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(bits(one), bits(other))


def drawn(op, dtype=np.float32, cells=None):
    """An operand, a tangent and a cotangent."""
    random = np.random.default_rng(3)
    x, dx = (random.normal(size=(1, 8, 8, 8)).astype(dtype) for _ in range(2))
    x = x if cells is None else random.choice(np.array(cells, dtype), x.shape)
    return x, dx, random.normal(size=op.output_shape(x.shape)).astype(dtype)


@pytest.mark.parametrize("pool", [sg.MaxPool, sg.AvgPool])
def test_windows_without_a_real_cell_are_what_the_specification_says(pool):
    op = pool((2, 2), stride=1, padding=2)
    compare(op, *drawn(op))


@pytest.mark.parametrize("ties", ["first", "all", "split"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((2, 3, 33), (2,)), ((2, 33, 16), (1,)), ((2, 5, 32), (1, 2)), ((2, 4, 32), (1, 2))]
)
def test_cells_that_no_window_reads_get_nothing(shape, axes, ties, monkeypatch):
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float, **how: np.full(shape, 77, dtype))
    op, x = sg.MaxPool((2,) * len(axes), ties=ties, axes=axes), np.arange(np.prod(shape)).reshape(shape)
    x, gy = x.astype(np.float32), np.ones(op.output_shape(shape), np.float32)
    compare(op, x // 2 % 5, x, gy)


@pytest.mark.parametrize("op", POOLS, ids=repr)
def test_operands_may_lie_anyhow(op):
    given = drawn(op)
    x, dx, gy = given
    expected = answers(op, *given)

    def between(array):
        memory = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        memory[..., ::2] = array
        return memory[..., ::2]

    def fixed(array):
        array = array.copy()
        array.flags.writeable = False
        return array

    def off(array):
        memory = np.zeros(array.nbytes + 1, np.uint8)
        found = memory[1:].view(array.dtype).reshape(array.shape)
        found[...] = array
        return found

    def foreign(array):
        return array.astype(array.dtype.newbyteorder())

    value, moved, pulled = allowed(op, *given)
    for otherwise in (between, fixed, off, foreign, np.asfortranarray):
        for one in ((otherwise(x), dx, gy), (x, otherwise(dx), otherwise(gy))):
            for got, wanted, bound in zip(answers(op, *one), expected, (value, value, moved, pulled), strict=True):
                agree(got.astype(wanted.dtype), wanted, bound)
    halves = [part.astype(np.float16) for part in (dx, gy)]
    same(answers(op, x, *halves), answers(op, x, *(half.astype(np.float32) for half in halves)))
    with pytest.raises(sg.ScalarError, match="cotangent"):
        op.vjp((x,), gy.astype(np.float64))
    with pytest.raises(sg.ScalarError, match="tangent of x"):
        op.jvp((x,), (dx.astype(np.float64),))
    (y, dy) = op.jvp((x,), (None,))
    assert np.array_equal(y, expected[0])
    assert not dy.any()


@pytest.mark.parametrize("op", POOLS, ids=repr)
def test_results_stay_what_they_are_while_others_are_made(op):
    given, other = drawn(op), [-part for part in drawn(op)]
    found = answers(op, *given)
    before, others = [part.copy() for part in found], answers(op, *other)
    same(found, before)
    arrays = [*found, *others, *given, *other]
    for place, one in enumerate(arrays):
        assert not any(np.shares_memory(one, two) for two in arrays[place + 1 :])
    out = np.full_like(found[0], 7)
    assert op(given[0], out=out) is out
    same([out], before[:1])


def test_calls_of_many_threads_through_one_plan_do_not_meet():
    ops = [sg.MaxPool((2, 2)), sg.AvgPool((3, 3), stride=2, padding=1), sg.SmoothMaxPool((2, 2), beta=2.0)]
    cases = [(op, [turn * part for part in drawn(op)]) for op in ops for turn in (1, -2)]
    expected, wrong = [answers(op, *given) for op, given in cases], []

    def call(first):
        for turn in range(200):
            (op, given), wanted = ((cases, expected)[n][(first + turn) % len(cases)] for n in (0, 1))
            if not all(np.array_equal(bits(a), bits(b)) for a, b in zip(answers(op, *given), wanted, strict=True)):
                wrong.append(op)

    callers = [threading.Thread(target=call, args=(first,)) for first in range(6)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert not wrong


@pytest.mark.parametrize("cells", [None, [1.0, np.nan, -0.0, 0.0, -np.inf]])
@pytest.mark.parametrize("op", POOLS, ids=repr)
def test_calls_that_are_prepared_give_the_bits_of_all_others(op, cells, monkeypatch):
    given = drawn(op, cells=cells)
    found = answers(op, *given)
    monkeypatch.setattr(dispatch, "shortcuts", {})
    same(found, answers(op, *given))


def test_small_calls_are_prepared_once():
    op = sg.MaxPool((3, 3), stride=1, padding=1)
    x, dx, gy = drawn(op)
    for rule, given in (("value", ()), ("jvp", (dx,)), ("vjp", (gy,))):
        run = dispatch.shortcuts[rule, np.ndarray]
        assert run(op, x, *given) is not NotImplemented
        with sg.engine("reference"):
            assert run(op, x, *given) is NotImplemented
        assert run(op, x.astype(object), *given) is NotImplemented
    with pytest.raises(sg.ShapeError, match="cotangent"):
        op.vjp((x,), gy[..., 1:])
    with pytest.raises(sg.ShapeError, match="tangent of x"):
        op.jvp((x,), (dx[..., 1:],))


@pytest.mark.parametrize("op", [sg.MaxPool((2, 2), axes=(1, 2)), sg.AvgPool((2, 2), axes=(1, 2))], ids=repr)
def test_only_what_is_called_is_compiled(op):
    x, _, gy = drawn(op, np.float64)
    x, gy = np.ascontiguousarray(x[..., :5]), np.ascontiguousarray(gy[..., :5])
    kernels = vars(prepared.prepared(op, x.shape, x.dtype))
    for _ in range(2):
        op(x)
    assert {"value", "keep", "push", "pull"} & kernels.keys() == {"value"}
    op.vjp((x,), gy)
    assert ("push" in kernels, "pull" in kernels) == (False, True)
