"""Minima, sums and norms of windows, and the unpooling of a maximum: every engine against the
specification."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from kinds import examples

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError, dispatch
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines import cpu

torch = pytest.importorskip("torch")


def same(one, other):
    """Equality with NaN equal to NaN of either sign."""
    one, other = np.asarray(one), np.asarray(other)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(
        np.signbit(one) & ~np.isnan(one), np.signbit(other) & ~np.isnan(other)
    )


@pytest.mark.parametrize("p", [2, 3, 1.5, 40, Fraction(9, 4)])  # floats all of them: 1/3 would be rounded
@pytest.mark.parametrize("sizes", [[1.0], [1e-30, 1e30], [1e-200, 1.0], [1e-300, 1e-290], [1e200, 1e-5, 0.0]])
@mpmath.workprec(200)
def test_norms_of_numbers_of_any_size_are_the_exact_ones(sizes, p):
    """Eight roundings for each power and root, and those of sums and products. What is subnormal
    keeps fewer digits."""
    random = np.random.default_rng(1)
    op = sg.LpPool((2, 3), stride=(1, 2), padding=1, p=p)
    x = random.normal(size=(2, 5, 6)) * random.choice(sizes, size=(2, 5, 6))
    dx, gy = random.normal(size=x.shape), random.normal(size=op.output_shape(x.shape))
    exact, moved, arriving = (np.array([mpmath.mpf(n) for n in a.flat]).reshape(a.shape) for a in (x, dx, gy))
    roundings = 8 + (8 + 6) / p
    with sg.engine("cpu"):
        found = op(x), op.jvp((x,), (dx,))[1], op.vjp((x,), gy)[0]
    for got, wanted, most, times in (
        (found[0], op(exact), op(exact), roundings + 2),
        (found[1], op.jvp((exact,), (moved,))[1], op.jvp((abs(exact),), (abs(moved),))[1], 25 + float(p) * roundings),
        (found[2], op.vjp((exact,), arriving)[0], op.vjp((abs(exact),), abs(arriving))[0], 25 + float(p) * roundings),
    ):
        assert (abs(got - wanted) <= times * 2.0**-53 * most + 2.0**-1060).all()


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_norms_of_what_is_not_finite_are_those_of_the_specification(special):
    op, x = sg.LpPool((2,), stride=1, p=3), np.array([1.0, 0.0, special, 0.0, 0.0, 2.0, -1.0])
    given = [(x, np.ones(7), np.ones(6)), (abs(np.nan_to_num(x)), np.full(7, special), np.full(6, special))]
    for cells, dx, gy in given:
        with np.errstate(all="ignore"):
            answers = []
            for engine in ("cpu", "reference"):
                with sg.engine(engine):
                    answers.append((op(cells), op.jvp((cells,), (dx,))[1], op.vjp((cells,), gy)[0]))
        for got, wanted in zip(*answers, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2.0**-45)


@given(STRATEGIES[sg.MinPool])
@settings(max_examples=examples(60))
def test_minima_have_the_bits_of_the_specification_on_every_engine(case):
    x = np.where(case.operands[0] == 3, np.nan, case.operands[0] / np.float32(-2)).astype(np.float32)  # -0.0 too
    g = case.cotangent.astype(np.float32)
    with sg.engine("reference"):
        wanted = case.op(x), case.op.vjp((x,), g)[0], dispatch.with_indices(case.op, (x,))[1]
    assert dispatch.choose(case.op, (x,)) is cpu
    for kind in (np.asarray, torch.tensor):
        a = kind(x)
        found = case.op(a), case.op.vjp((a,), kind(g))[0], dispatch.with_indices(case.op, (a,))[1]
        assert same(found[0], wanted[0])
        exact = case.op.ties != "split"  # shares of thirds are rounded in another order
        assert np.array_equal(found[1], wanted[1]) if exact else np.allclose(found[1], wanted[1], rtol=1e-6)
        assert np.array_equal(found[2], wanted[2])


@given(STRATEGIES[sg.SumPool])
@settings(max_examples=examples(40))
def test_sums_of_small_integers_are_exact_on_every_engine(case):
    operands, _, g = case.over(np.dtype(np.float32))
    exact, _, exact_g = case.over(Fraction)
    assert dispatch.choose(case.op, operands) is cpu
    for kind in (np.asarray, torch.tensor):
        assert case.op(*map(kind, operands)).tolist() == case.op(*exact).tolist()
        pulled = case.op.vjp(tuple(map(kind, operands)), kind(g))[0]
        assert pulled.tolist() == case.op.vjp(exact, exact_g)[0].tolist()
    assert case.op(case.operands[0]).tolist() == case.op(*exact).tolist()  # integers stay integers
    assert case.op(torch.tensor(case.operands[0])).tolist() == case.op(*exact).tolist()


def test_norms_of_one_and_of_infinity_are_exact():
    x = np.array([Fraction(-3), Fraction(1, 2), Fraction(2)])
    assert sg.lp_pool(x, (3,), p=1).tolist() == [Fraction(11, 2)]
    assert sg.lp_pool(x, (3,), p=math.inf).tolist() == [3]
    assert sg.grad(lambda z: sg.sum(sg.lp_pool(z, (3,), p=math.inf)))(x).tolist() == [-1, 0, 0]
    assert sg.lp_pool(np.array([0.0, 0.0]), (2,), p=3).tolist() == [0]
    assert sg.LpPool((2,), p=3).vjp((np.array([0.0, 0.0]),), np.ones(1))[0].tolist() == [0, 0]
    hessian = sg.hessian(lambda z: sg.sum(sg.lp_pool(z, (3,), p=2)))
    assert hessian(np.array([0.0, 3.0, 4.0]))[0].tolist() == [0.2, 0, 0]  # (I - uu') / |x|, u = x / |x|
    assert not hessian(np.zeros(3)).any()
    for engine in ("cpu", "reference"):  # the slope at 0 is a number
        with sg.engine(engine):
            assert np.isnan(sg.LpPool((2,), p=2).jvp((np.array([0.0, 3.0]),), (np.array([np.inf, 1.0]),))[1])
    third = sg.hessian(sg.grad(lambda z: sg.sum(sg.lp_pool(z, (3,), p=1.5, padding=1))))(np.array([2.0]))
    assert third == pytest.approx(0, abs=1e-12)  # |x|: padding has no derivative that could be infinite
    assert sg.lp_pool(np.array([3e200, 4e200]), (2,), p=2) == pytest.approx(5e200, rel=1e-15)
    assert sg.lp_pool(np.array([np.inf, 1.0]), (2,), p=2)[0] == np.inf


def test_what_was_pooled_goes_back_to_its_place():
    x = np.random.default_rng(0).normal(size=(2, 3, 7, 6))
    y, at = sg.max_pool(x, (3, 2), stride=2, return_indices=True)
    back = sg.max_unpool(y, at, (7, 6))
    assert np.array_equal(sg.max_pool(back * (back > 0), (3, 2), stride=2), np.maximum(y, 0))
    found = torch.nn.functional.max_unpool2d(*map(torch.tensor, (y, at)), (3, 2), 2, output_size=(7, 6))
    assert np.array_equal(back, found)
    graph = sg.trace(lambda y, at: sg.sum(sg.max_unpool(y, at, (7, 6)) * 2), y, at)
    assert np.array_equal(graph.compile().value_and_grad(y, at)[1][0].sum(),
                          2 * np.unique(np.stack([np.arange(6).repeat(9), at.ravel()]), axis=1).shape[1])  # fmt: skip
    twice, where = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([1, 1, -1])
    assert sg.max_unpool(twice, where, (2,)).tolist() == [0, 2]
    sg.max_unpool(twice, where, (2,)).sum().backward()
    assert twice.grad.tolist() == sg.MaxUnpool((2,)).vjp((np.ones(3), np.array([1, 1, -1])),
                                                         np.ones(2))[0].tolist() == [0, 1, 0]  # fmt: skip


X = np.ones(3)
REFUSED = [
    (lambda: sg.lp_pool(X, (2,), p=0.5), ArgumentError,
     "lp_pool: p=0.5: must be a finite number greater than 1; the function lp_pool takes 1 and infinity too"),
    (lambda: sg.lp_pool(X, (2,), p=True), ArgumentError, "lp_pool: p=True: must be a finite number greater than 1"),
    (lambda: sg.lp_pool(np.array([Fraction(1)] * 2), (2,), p=2), ScalarError,
     "lp_pool: x=object array of shape (2,): Fraction has no roots"),
    (lambda: sg.max_unpool(X, np.array([0, 1, 4]), (4,)), ArgumentError,
     "max_unpool: indices=4: is not the index of one of 4 cells; write indices from 0 to 3, or -1 for none, "
     "or a larger output_size"),
    (lambda: sg.max_unpool(X, np.array([0, 1]), (4,)), ShapeError,
     "max_unpool: indices=array of shape (2,): must have shape (3,): one index per cell of y; "
     "give the indices of max_pool"),
    (lambda: sg.max_unpool(X, X, (4,)), ScalarError,
     "max_unpool: indices=float64 array of shape (3,): must hold integers; cast first"),
    (lambda: sg.max_unpool(X, np.array([0, 1, 2]), 4), ArgumentError,
     "max_unpool: output_size=4: must be a tuple with one entry per spatial axis"),
    (lambda: sg.min_pool(X, (4,)), ShapeError,
     "min_pool: kernel_size=(4,) on axis 0: the kernel spans 4 cells but the padded input has 3; "
     "use a smaller kernel or dilation, or more padding"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[text[:50] for _, _, text in REFUSED])
def test_bad_calls_say_so(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [sg.MinPool, sg.MaxPool, sg.AvgPool, sg.SumPool])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("padding", [0, 1])
def test_windows_far_apart_have_the_values_of_the_specification(kind, dtype, padding):
    """Kernels are not unrolled over the cells between windows, which once ended the process."""
    op = kind((3,), stride=70_000, padding=padding)
    x = np.random.default_rng(0).integers(-9, 10, (2, 70_005)).astype(dtype)
    if kind is sg.AvgPool:
        x = x.astype(np.float32)
    with sg.engine("reference"):
        expected = op(x)
    assert np.allclose(op(x), expected, rtol=1e-6)


@pytest.mark.parametrize("ones", [np.ones, torch.ones])
def test_windows_that_no_memory_holds_are_refused(ones):
    with pytest.raises(ShapeError, match=r"^min_pool: "):
        sg.MinPool((1, 2), stride=3, padding=2**31 - 1)(ones((4, 2, 3)))


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_cells_that_no_window_reads_spoil_nothing(engine, number):
    x = np.array([1.0, number, 3.0])
    ones = np.ones(2)
    with sg.engine(engine):
        for op in (
            sg.LpPool((1,), stride=2, p=2),
            sg.SmoothMaxPool((1,), stride=2, beta=1),
            sg.MaxPool((1,), stride=2),
        ):
            assert op.vjp((x,), ones)[0].tolist() == [1, 0, 1]
            assert op.jvp((x,), (np.array([1.0, number, 2.0]),))[1].tolist() == [1, 2]
            assert op.jvp((x,), (None,))[1].tolist() == [0, 0]
        assert sg.SmoothMaxPool((2,), beta=1).jvp((x[:2],), (None,))[1].tolist() == [0]
