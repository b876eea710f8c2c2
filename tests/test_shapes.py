"""Operators that move cells, products and norms: against NumPy and PyTorch, over every scalar; and
refusals."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import specgrad as sg
from specgrad import ArgumentError, ShapeError
from specgrad.graph import transform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 5, 6))


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(array)


def test_unfold_and_fold_are_torchs_and_each_others_transpose():
    F = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    words = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    columns = sg.unfold(X, (2, 3), **words)
    assert np.array_equal(columns, F.unfold(torch.tensor(X), (2, 3), **words))
    g = RNG.integers(-4, 5, columns.shape).astype(float)
    folded = sg.fold(g, (5, 6), (2, 3), **words)
    assert np.array_equal(folded, F.fold(torch.tensor(g), (5, 6), (2, 3), **words))
    assert np.array_equal(sg.Unfold((2, 3), **words).vjp((X,), g)[0], folded)
    back = transform.vjp(sg.trace(lambda x: sg.unfold(x, (2, 3), **words), X.shape))
    assert "Fold((2, 3), (5, 6)" in str(back)
    assert np.array_equal(back.forward(X, g), folded)
    again = transform.vjp(back)
    assert "Fold" not in str(again).replace("Unfold", "")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_is_torchs(mode):
    F = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    x, g = torch.tensor(X, requires_grad=True), RNG.integers(-4, 5, (4, 3, 8, 9)).astype(float)
    y = F.pad(x, (2, 1, 1, 2), mode=mode)
    y.backward(torch.tensor(g))
    for engine in ("cpu", "reference"):
        with sg.engine(engine):
            assert np.array_equal(sg.pad(X, ((1, 2), (2, 1)), mode), y.detach())
            assert np.array_equal(sg.Pad(((1, 2), (2, 1)), mode=mode).vjp((X,), g)[0], x.grad)


def test_padding_by_a_number_has_the_derivative_of_padding_by_zero():
    assert sg.pad(np.array([1, 2]), ((1, 1),), value=7).tolist() == [7, 1, 2, 7]
    _, moved = sg.jvp(lambda x: sg.pad(x, ((1, 1),), value=7), (np.ones(2),), (np.ones(2),))
    assert moved.tolist() == [0, 1, 1, 0]
    graph = sg.trace(lambda x: sg.sum(sg.pad(x, ((1, 1),), value=7) * 2), (2,))
    assert graph.compile().value_and_grad(np.ones(2))[1][0].tolist() == [2, 2]
    assert graph.jvp((np.ones(2),), (np.ones(2),))[1] == 4


def test_cotangents_of_moves_are_simple_operators():
    def pulled(f, *shapes):
        return str(transform.vjp(sg.trace(f, *shapes)))

    assert "Transpose((0, 2, 1))(g" in pulled(lambda x: sg.transpose(x, (0, 2, 1)), (2, 3, 4))
    assert "Slice(((2, 5, None),))(g" in pulled(lambda x, y: sg.concatenate([x, y]), (2,), (3,))
    assert "Sum((0,))(g" in pulled(lambda x: sg.broadcast_to(x, (4, 3)), (3,))
    assert "Slice((Ellipsis, (1, 4, None)))(g" in pulled(lambda x: sg.pad(x, ((1, 2),)), (2, 3))


def test_a_refusal_needs_no_tables():
    with pytest.raises(sg.ScalarError, match="integers do not divide"):
        sg.softmax(np.zeros(10**6, int))
    with pytest.raises(ShapeError, match="log_softmax: windows=1000000 of 1000000 taps: needs"):
        sg.log_softmax(np.broadcast_to(np.array(Decimal(1)), (10**6,)))


def test_norms_are_torchs():
    F = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    weight, bias, mean, variance = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=3), RNG.random(3)
    t = torch.tensor
    for got, wanted in (
        (sg.batch_norm(X, weight=weight, bias=bias), F.batch_norm(t(X), None, None, t(weight), t(bias), True)),
        (sg.batch_norm(X, mean, variance, weight, bias), F.batch_norm(t(X), t(mean), t(variance), t(weight), t(bias))),
        (sg.batch_norm(np.moveaxis(X, 1, -1), mean, variance, axis=-1),
         F.batch_norm(t(X), t(mean), t(variance)).movedim(1, -1)),
        (sg.layer_norm(X, 2, bias=X[0, 0]), F.layer_norm(t(X), (5, 6), bias=t(X[0, 0]))),
        (sg.softmax(X, 1), F.softmax(t(X), 1)),
        (sg.log_softmax(X, -4), F.log_softmax(t(X), 0)),
    ):  # fmt: skip
        assert got == pytest.approx(wanted.numpy(), rel=1e-12, abs=1e-12)
    x = t(X, requires_grad=True)
    (F.batch_norm(x, None, None, t(weight), t(bias), True) * t(X)).sum().backward()
    found = sg.grad(lambda z: sg.sum(sg.batch_norm(z, weight=weight, bias=bias) * X))(X)
    assert found == pytest.approx(x.grad.numpy(), rel=1e-9, abs=1e-9)


def test_products_over_exact_scalars_and_of_nothing():
    a, b = exact(RNG.integers(-3, 4, (2, 3))), exact(RNG.integers(-3, 4, (4, 3, 2)))
    assert sg.matmul(a, b).tolist() == (a @ b).tolist()
    for engine in ("cpu", "reference"):
        with sg.engine(engine):
            assert sg.matmul(np.ones((2, 0)), np.ones((0, 3))).tolist() == np.zeros((2, 3)).tolist()
    assert sg.stack([a, a], -1).tolist() == np.stack([a, a], -1).tolist()
    assert sg.take(a, [[1, -1]], 1).tolist() == np.take(a, [[1, -1]], 1).tolist()


x2, x3 = np.ones((2, 3)), np.ones((3, 2))
REFUSED = [
    (lambda: sg.transpose(x2, (0, 0)), ArgumentError,
     "transpose: axes=(0, 0): does not name each of 2 axes once; list every axis of x"),
    (lambda: sg.transpose(x2, (0, 2)), ArgumentError,
     "transpose: axes=(0, 2): 2 is not an axis of an array with 2 axes; write an integer from -2 to 1"),
    (lambda: sg.slice(x2, 5), ArgumentError,
     "slice: index=(5,): of x of shape (2, 3), index 5 is out of bounds; write an index that x has"),
    (lambda: sg.slice(x2, (0, 0, 0)), ArgumentError,
     "slice: index=(0, 0, 0): of x of shape (2, 3), too many indices for array: array is 2-dimensional, "
     "but 3 were indexed; write an index that x has"),
    (lambda: sg.slice(x2, [[True, False]]), ArgumentError,
     "slice: index=[[True, False]]: holds more than integers, slices, None and ...; use take for integers, "
     "where for booleans"),
    (lambda: sg.slice(x2, slice(None, None, 0)), ArgumentError, "has a step of 0; write another step"),
    (lambda: sg.slice(x2, 1.0), ArgumentError, "slice: index=1.0: must be an integer, got float; write whole numbers"),
    (lambda: sg.take(x2, [3], 1), ArgumentError,
     "take: indices=(3,) on axis 1: 3 is not the index of one of 3 cells; write indices that the axis has"),
    (lambda: sg.take(x2, [0.5]), ArgumentError, "take: indices=[0.5]: must be integers; write whole numbers"),
    (lambda: sg.concatenate([x2, x3]), ShapeError,
     "concatenate: arrays[1]=array of shape (3, 2): does not fit behind an array of shape (2, 3) along axis 0; "
     "make all other lengths equal"),
    (lambda: sg.concatenate(x2), ArgumentError,
     "concatenate: arrays=float64 array of shape (2, 3): is not a list of arrays; write [x, y]"),
    (lambda: sg.broadcast_to(x2, (3, 3)), ShapeError,
     "broadcast_to: x=array of shape (2, 3): does not broadcast to (3, 3); make each length, "
     "counted from the last axis, equal to the shape's or 1"),
    (lambda: sg.pad(x2, (1, 1)), ArgumentError,
     "pad: padding=(1, 1): is not one (before, after) pair per axis; write e.g. ((1, 1), (2, "
     "0)) for the last two axes"),
    (lambda: sg.pad(x2, ((0, 3),), "reflect"), ArgumentError,
     "pad: padding=((0, 3),) on axis 1: takes 3 cells of an axis of 3 in mode='reflect', which gives 2 at most; "
     "use less padding"),
    (lambda: sg.pad(x2, ((0, -1),)), ArgumentError,
     "pad: padding=((0, -1),) on axis 0: must be at least 0; write a larger integer"),
    (lambda: sg.pad(x2, ((0, 1),), "edge"), ArgumentError,
     "pad: mode='edge': is not one of the choices; choose from 'constant', 'reflect', 'replicate', 'circular'"),
    (lambda: sg.pad(x2, ((0, 1),), "reflect", 3), ArgumentError,
     "pad: value=3: is not used by mode='reflect'; leave it out"),
    (lambda: sg.matmul(x2, x2), ShapeError,
     "matmul: y=array of shape (2, 3): has 2 rows, but x of shape (2, 3) has 3 columns; transpose one of them"),
    (lambda: sg.matmul(x2, 3.0), ShapeError,
     "matmul: y=array of shape (): has no axis to sum over; multiply by a number with *"),
    (lambda: sg.unfold(x2, (2, 2)), ShapeError,
     "unfold: x=array of shape (2, 3): needs a channel axis and 2 spatial axes; add the missing axes, e.g. x[None]"),
    (lambda: sg.fold(x2, (5,), (2,)), ShapeError,
     "fold: columns=array of shape (2, 3): must end in (channels * 2, 4) for output_size (5,) and this kernel; "
     "give the columns that unfold makes of such an array"),
    (lambda: sg.softmax(x2, 2), ArgumentError,
     "softmax: axis=2: 2 is not an axis of an array with 2 axes; write an integer from -2 to 1"),
    (lambda: sg.batch_norm(x2, mean=np.ones(3)), ArgumentError,
     "batch_norm: variance=None: is missing beside the other one; give both, or neither"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[text[:50] for _, _, text in REFUSED])
def test_bad_calls_say_so(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
