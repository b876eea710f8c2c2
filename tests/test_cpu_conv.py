"""The convolution engine against the specification: derived bounds, all options, infinities,
threads, memory."""

import functools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples

import specgrad as sg
from specgrad.conformance import bounds
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines.cpu import bilinear, convolution, gemm, network, weight_gradient

KINDS = [sg.Conv, sg.ConvTranspose, sg.Linear]
DTYPES = [np.float32, np.float64]


def arrays(case, dtype, scale):
    """Operands, tangents and cotangent of a case as floats that do not sum exactly."""
    random = np.random.default_rng(case.cotangent.size)

    def made(a):
        return (a * scale + random.standard_normal(a.shape)).astype(dtype)

    return tuple(map(made, case.operands)), tuple(map(made, case.tangents)), made(case.cotangent)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
def test_value_and_derivatives_hold_the_derived_bound(kind, dtype):
    @given(STRATEGIES[kind], st.sampled_from([1.0, 1e3]))
    @settings(max_examples=examples(60))
    def check(case, scale):
        operands, tangents, g = arrays(case, dtype, scale)
        assert sg.dispatch.choose(case.op, operands).__name__.endswith("cpu")
        value, pushed = case.op.jvp(operands, tangents)
        for judged, got in (
            (bounds.value(case.op, operands), value),
            (bounds.jvp(case.op, operands, tangents), pushed),
            *zip(bounds.vjp(case.op, operands, g), case.op.vjp(operands, g), strict=True),
        ):
            assert got.dtype == dtype
            assert judged.holds(got)

    check()


def test_a_bias_under_which_no_tap_lies_is_bounded_by_its_outputs():
    op, g = sg.ConvTranspose((3, 2), stride=(1, 2), padding=((0, 0), (1, 3)), dilation=(1, 2)), np.ones((1, 3, 1))
    x, weight, bias, g[0, 0] = np.ones((1, 1, 2)), np.ones((1, 1, 3, 2)), np.ones(1), 2**24
    judged = bounds.vjp(op, tuple(a.astype(np.float32) for a in (x, weight, bias)), g.astype(np.float32))[2]
    assert judged.holds(np.float32([2**24]))  # the ones are lost in rounding
    assert not judged.holds(np.float32([2**24 - 6]))


LARGER = [
    (sg.Conv((3, 3), padding=1), (2, 16, 33, 29), (24, 16, 3, 3)),
    (sg.Conv((3, 3), padding=1, stride=2, dilation=2, groups=2), (3, 8, 31, 30), (12, 4, 3, 3)),
    (sg.Conv((7, 7), padding=3, stride=2), (1, 3, 64, 60), (16, 3, 7, 7)),
    (sg.Conv((1, 1)), (2, 32, 20, 20), (64, 32, 1, 1)),
    (sg.Conv((1, 1), stride=2), (2, 32, 21, 20), (64, 32, 1, 1)),
    (sg.Conv((3, 3), padding=1, groups=16), (2, 16, 40, 41), (16, 1, 3, 3)),
    (sg.Conv((3, 3), padding=((2, 0), (0, 1)), groups=16, stride=2), (2, 16, 40, 41), (32, 1, 3, 3)),
    (sg.Conv((4, 4), stride=4), (2, 8, 32, 32), (16, 8, 4, 4)),
    (sg.Conv((9,), padding="same"), (4, 16, 500), (16, 16, 9)),
    (sg.Conv((3, 3, 3), padding=1), (1, 8, 12, 13, 14), (8, 8, 3, 3, 3)),
    (sg.Conv((2, 2, 2, 2), padding=1), (1, 3, 5, 6, 5, 4), (4, 3, 2, 2, 2, 2)),
    (sg.ConvTranspose((4, 4), stride=2, padding=1), (2, 32, 9, 8), (32, 16, 4, 4)),
    (sg.ConvTranspose((3, 3), stride=2, output_padding=1, padding=1, groups=4), (2, 8, 9, 8), (8, 3, 3, 3)),
    (sg.ConvTranspose((5,), dilation=3, padding=((2, 4),)), (3, 8, 40), (8, 8, 5)),
    (sg.Linear(), (64, 300), (200, 300)),
    (sg.Conv((3, 3), padding=1), (37, 6, 5, 4), (7, 6, 3, 3)),
    (sg.Conv((3, 2), padding=1, stride=2, groups=2), (4, 5, 4, 7, 9), (6, 2, 3, 2)),
    (sg.Conv((3,), padding=2, dilation=2), (300, 1, 11), (5, 1, 3)),
    (sg.Conv((3, 3), padding=1, groups=4), (32, 4, 6, 6), (4, 1, 3, 3)),
    (sg.ConvTranspose((4, 4), stride=2, padding=1), (18, 4, 3, 5), (4, 6, 4, 4)),
    (sg.Conv((3, 3), padding=1), (3, 40, 7, 7), (48, 40, 3, 3)),
    (sg.ConvTranspose((4, 4), stride=2, padding=1), (2, 40, 4, 3), (40, 33, 4, 4)),
    (sg.Conv((1,), stride=5, padding=((3, 0),)), (2, 2, 1), (2, 2, 1)),
    (sg.Conv((4, 5), groups=2), (3, 6, 4, 5), (8, 3, 4, 5)),
    (sg.Conv((2, 2, 1), padding=((0, 2), (0, 2), (0, 0)), dilation=(2, 2, 1)), (2, 2, 3, 2, 4), (1, 2, 2, 2, 1)),
]


def operands_of(x, weight, dtype=np.float64, seed=0):
    """Integer operands: sums are exact in any order, so results are compared bit for bit."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(-4, 5, shape).astype(dtype) for shape in (x, weight))


def anew(monkeypatch):
    """Clear cached plans, and let small calls use several threads."""
    monkeypatch.setattr(bilinear, "SMALL", 0)
    monkeypatch.setattr(convolution, "plan", functools.lru_cache(bilinear.plan.__wrapped__))


@pytest.mark.parametrize(("op", "x", "weight"), LARGER, ids=[repr(c[0]) for c in LARGER])
def test_several_tiles_blocks_and_threads_change_nothing(op, x, weight, monkeypatch):
    for module in (gemm, weight_gradient):
        monkeypatch.setattr(module, "LAID", 1 << 14)
    operands = operands_of(x, weight)
    g = operands_of(op.output_shape(x, weight), (1,), seed=1)[0]
    with sg.engine("reference"):
        expected = op(*operands), *op.vjp(operands, g)
    for threads in (1, 2, 5):
        anew(monkeypatch)
        with sg.num_threads(threads):
            results = op(*operands), *op.vjp(operands, g)
        for got, wanted in zip(results, expected, strict=True):
            assert np.array_equal(got, wanted), threads


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_half_floats_are_computed_in_float32_and_rounded_once(kind):
    @given(STRATEGIES[kind])
    @settings(max_examples=examples(20))
    def check(case):
        operands, _, g = arrays(case, np.float16, 1.0)
        wide = tuple(a.astype(np.float32) for a in operands)
        results = case.op(*operands), *case.op.vjp(operands, g)
        expected = case.op(*wide), *case.op.vjp(wide, g.astype(np.float32))
        for got, wanted in zip(results, expected, strict=True):
            assert got.tobytes() == wanted.astype(np.float16).tobytes()

    check()


@pytest.mark.filterwarnings("error")
def test_a_half_float_overflows_to_infinity_without_a_word():
    x, w = np.full((1, 4, 4), 6e4, np.float16), np.full((1, 1, 2, 2), 2, np.float16)
    op = sg.Conv((2, 2))
    assert np.isposinf(op(x, w)).all()
    assert np.isposinf(op.jvp((x, w), (x, None))[1]).all()
    assert np.isposinf(op.vjp((x, w), np.full((1, 3, 3), 6e4, np.float16))[0][0, 1:-1, 1:-1]).all()


@pytest.mark.parametrize(("images", "channels"), [(2, 4), (17, 4), (1, 32)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_padding_is_skipped_also_beside_factors_that_are_not_finite(groups, images, channels):
    """Zeros that stand for padding must not be multiplied by infinities, since 0·inf is NaN; a
    skipped tap adds nothing. There are more cells than weights, or fewer."""
    x, w = operands_of((images, channels, 5, 6), (channels, channels // groups, 3, 3))
    op = sg.Conv((3, 3), padding=1, groups=groups)
    g = np.ones(op.output_shape(x.shape, w.shape))
    for spoiled in ("weight", "cotangent", "x"):
        a, b, c = x.copy(), w.copy(), g.copy()
        {"weight": b, "cotangent": c, "x": a}[spoiled][0, 0, 0, 0] = np.inf
        with sg.engine("reference"):
            expected = op(a, b), *op.vjp((a, b), c)
        for got, wanted in zip((op(a, b), *op.vjp((a, b), c)), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_operands_of_any_layout_and_out():
    x, w = operands_of((2, 6, 7, 8), (5, 6, 3, 3))
    op = sg.Conv((3, 3), padding=1)
    expected = op(x, w)
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert np.array_equal(op(turned, np.asfortranarray(w)), expected)
    out = np.asfortranarray(np.full(expected.shape, np.nan))
    assert op(x, w, out=out) is out
    assert np.array_equal(out, expected)
    square = sg.Conv((1, 1))
    eye = np.eye(6)[::-1].reshape(6, 6, 1, 1)
    wanted = square(x, eye)
    assert np.array_equal(square(x, eye, out=x), wanted)


@given(*[st.integers(1, 3)] * 4, st.lists(st.integers(1, 3), min_size=1, max_size=3), st.booleans(), st.booleans())
@settings(max_examples=examples(60))
def test_one_window_of_a_whole_image_is_exact(images, groups, read, written, kernel, biased, transposed):
    """Both ways: from the image to one cell, and from one cell to the image."""
    op = (sg.ConvTranspose if transposed else sg.Conv)(tuple(kernel), groups=groups)
    weight = (groups * read, written, *kernel) if transposed else (groups * written, read, *kernel)
    shapes = [(images, groups * read, *([1] * len(kernel) if transposed else kernel)), weight, (groups * written,)]
    random = np.random.default_rng(images + 3 * groups)
    whole = [random.integers(-9, 10, shape) for shape in shapes[: 2 + biased]]
    floats, g = [a.astype(np.float32) for a in whole], random.integers(-9, 10, op.output_shape(*shapes[:2]))
    assert bilinear.plan(op, *shapes[:2]).single
    for got, wanted in (
        (op(*floats), op(*whole)),
        (op.jvp(floats, floats)[1], op.jvp(whole, whole)[1]),
        *zip(op.vjp(floats, g.astype(np.float32)), op.vjp(whole, g), strict=True),
    ):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("columns", [16, 20])  # results that fill vectors, or do not
@pytest.mark.parametrize("transposed", [False, True])
def test_groups_have_biases_of_their_own_where_one_window_is_a_whole_image(transposed, columns):
    op = sg.ConvTranspose((2, 2), groups=2) if transposed else sg.Conv((2, 2), groups=2)
    read, weight = ((32, 1, 1), (32, columns // 4, 2, 2)) if transposed else ((16, 2, 2), (2 * columns, 8, 2, 2))
    random, results = np.random.default_rng(0), weight[1] * 2 if transposed else weight[0]
    shapes = (70, *read), weight, (2 * results,)
    x, w, bias = (random.integers(-9, 10, shape).astype(np.float32) for shape in shapes)
    with sg.engine("reference"):
        wanted = op(*(a.astype(np.float64) for a in (x, w, bias[::2])))
    np.testing.assert_array_equal(op(x, w, bias[::2]), wanted)
    np.testing.assert_array_equal(op(x, w, bias[::2].copy()), wanted)


def test_concurrent_callers_get_the_bits_of_one(monkeypatch):
    anew(monkeypatch)
    calls = [(op, operands_of(x, w, np.float32)) for op, x, w in LARGER[:6]]
    alone = [op(*operands) for op, operands in calls]

    def call(shift):
        for n in range(len(calls) * 3):
            (op, operands), expected = calls[(n + shift) % len(calls)], alone[(n + shift) % len(calls)]
            assert np.array_equal(op(*operands), expected), op

    with ThreadPoolExecutor(6) as callers:
        list(callers.map(call, range(6)))


@pytest.mark.parametrize("shape", [(2, 3, 700, 30), (5, 4, 1, 1), (1, 2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_gradients_of_biases_add_up_whole_numbers_exactly(shape, dtype):
    channels = shape[1]
    g = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    operands = np.zeros(shape, dtype), np.zeros((channels, channels, 1, 1), dtype), np.zeros(channels, dtype)
    for cotangent in (g, np.asfortranarray(g)):
        found = network.pull(sg.Conv((1, 1)), operands, None, cotangent, (False, False, True))[2]
        assert found.dtype == dtype
        assert np.array_equal(found, g.astype(int).sum(axis=(0, 2, 3)))


@pytest.mark.parametrize("rule", ["value", "pull", "pull_weight"])
def test_extra_memory_is_a_band_per_thread(rule):
    """No im2col of the whole input, which would have nine times the input's size here."""
    op = sg.Conv((3, 3), padding=1)
    x, w = operands_of((4, 32, 64, 64), (32, 32, 3, 3), np.float32)
    g = np.ones_like(x)
    run = {
        "value": lambda: network.forward(op, (x, w)),
        "pull": lambda: network.pull(op, (x, w), None, g, (True, False)),
        "pull_weight": lambda: network.pull(op, (x, w), None, g, (False, True)),
    }[rule]
    with sg.num_threads(2):
        run()
        tracemalloc.start()
        run()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    result = {"value": x.nbytes, "pull": x.nbytes, "pull_weight": w.nbytes}[rule]
    assert peak <= result + 2 * (gemm.LAID + w.nbytes) + (1 << 20)


@pytest.mark.parametrize(
    ("op", "x", "weight"),
    [
        (sg.Conv((3, 3, 3), padding=1), (1, 64, 16, 16, 16), (64, 64, 3, 3, 3)),  # an image that fits a cache
        (sg.Conv((3, 3), padding=1), (1, 512, 7, 7), (512, 512, 3, 3)),
        (sg.Conv((3, 3), padding=1), (2, 128, 28, 28), (128, 128, 3, 3)),
        (sg.Conv((3, 3), padding=1, groups=512), (2, 512, 14, 14), (512, 1, 3, 3)),
        (sg.ConvTranspose((4, 4), stride=2, padding=1), (4, 256, 8, 8), (256, 128, 4, 4)),
    ],
)
def test_sixteen_threads_all_have_work(op, x, weight):
    p, dtype = bilinear.plan(op, x, weight), np.dtype(np.float32)
    plans = [convolution.shared_out(gemm.product, 16, p, forward, dtype, False) for forward in (True, False)]
    plans.append(convolution.shared_out(weight_gradient.gradient, 16, p, dtype, False))
    for found in plans:
        chunks = found.step.call.chunks
        assert chunks / -(-chunks // 16) >= 14


@pytest.mark.parametrize("padding", [0, 1])
def test_an_infinite_cell_reaches_the_depthwise_weights_that_meet_it_alone(padding):
    x, weight = np.ones((2, 3, 5, 7), np.float32), np.ones((3, 1, 3, 3), np.float32)
    x[0, 1, -1, -1] = np.inf
    op = sg.Conv((3, 3), groups=3, padding=padding)
    gy = np.ones(op.output_shape(x.shape, weight.shape), np.float32)
    with sg.engine("reference"):
        expected = op.vjp((x, weight), gy)[1]
    assert np.array_equal(op.vjp((x, weight), gy)[1], expected)
