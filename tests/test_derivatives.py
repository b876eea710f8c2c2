"""jacobian, hessian, hvp, vmap and check_grad: over exact rationals, compared with each other and
with polynomials by hand."""

import dataclasses
from fractions import Fraction

import numpy as np
import own_operators
import pytest

import specgrad as sg
from specgrad.engines import reference
from specgrad.errors import ArgumentError, ScalarError, ShapeError


def rationals(*shape, start=1):
    return (np.arange(start, start + int(np.prod(shape))) * np.array(Fraction(1, 3))).reshape(shape)


X = rationals(2, 3)


def pooled(x):
    return sg.avg_pool(x * x * x, (2,), stride=1)


def test_a_jacobian_has_the_shape_of_output_and_input_and_its_columns_are_jvps():
    found = sg.jacobian(pooled)(X)
    assert found.shape == (2, 2, 2, 3)
    for place in np.ndindex(X.shape):
        along = X * 0
        along[place] += 1
        assert np.array_equal(found[(..., *place)], sg.jvp(pooled, (X,), (along,))[1])


def cubic(x, y):
    return (x[0] ** 2 * x[1] * y).sum()


def test_a_hessian_of_a_polynomial_is_the_one_by_hand():
    x, y = rationals(2), np.array(Fraction(5))
    a, b = x
    by_hand = [[2 * b * 5, 2 * a * 5], [2 * a * 5, 0]]
    assert sg.hessian(cubic)(x, y).tolist() == by_hand
    (xx, xy), (yx, yy) = sg.hessian(cubic, argnums=(0, 1))(x, y)
    assert (xx.tolist(), xy.tolist(), yx.tolist(), yy.tolist()) == (by_hand, [2 * a * b, a**2], [2 * a * b, a**2], 0)
    v = rationals(2, start=7)
    assert sg.hvp(lambda x: cubic(x, y), (x,), (v,))[0].tolist() == (np.array(by_hand) @ v).tolist()
    assert [part.shape for part in sg.hvp(cubic, (x, y), (v, y))] == [(2,), ()]
    hess = sg.hessian(lambda x: sg.sum(pooled(x)))
    moved = sg.jvp(hess, (X,), (X,))[1]  # for a cubic, the third derivative along x is the second derivative itself
    assert np.array_equal(moved, hess(X))


@sg.register_tree
@dataclasses.dataclass
class Layer:
    weight: object
    rest: object = None


class Pair:
    def __init__(self, one, two):
        self.one, self.two = one, two


sg.register_tree(Pair, lambda p: [p.one, p.two], lambda parts: Pair(*parts))


def test_nests_of_every_kind_are_arguments_and_results():
    def f(p):
        return {"a": (p["l"][0].weight * p["l"][1].two).sum(), "b": p["l"][1].one * 2}

    nest = {"l": [Layer(X), Pair(rationals(2), np.array(Fraction(3)))]}
    y, pullback = sg.vjp(f, nest)
    (g,) = pullback({"b": rationals(2), "a": np.array(Fraction(1))})
    assert np.array_equal(g["l"][0].weight, X * 0 + 3)
    assert g["l"][0].rest is None
    assert np.array_equal(g["l"][1].one, 2 * rationals(2))
    assert g["l"][1].two == X.sum()
    found = sg.jacobian(f)(nest)
    assert found["b"]["l"][1].one.tolist() == [[2, 0], [0, 2]]
    assert np.array_equal(found["a"]["l"][0].weight, X * 0 + 3)
    assert np.array_equal(sg.jvp(f, (nest,), (nest,))[1]["a"], 6 * X.sum())
    graph = sg.trace(f, nest)
    assert graph.forward(nest)[0] == y["a"]
    assert sg.vmap(lambda layer: layer.weight.sum())(Layer(X)).tolist() == X.sum(1).tolist()


def test_auxiliary_results_are_returned_beside_derivatives_as_values():
    def f(x):
        y = x * x
        return y.sum(), {"squares": y, "name": "f", "none": None}

    squares = (X * X).tolist()
    (value, aux), g = sg.value_and_grad(f, has_aux=True)(X)
    assert (value, g.tolist(), aux["squares"].tolist(), aux["name"]) == ((X * X).sum(), (2 * X).tolist(), squares, "f")
    g, aux = sg.grad(f, has_aux=True)(X)
    assert (g.tolist(), aux["squares"].tolist(), aux["none"]) == ((2 * X).tolist(), squares, None)
    _, pullback, aux = sg.vjp(f, X, has_aux=True)
    assert (pullback(np.array(Fraction(1)))[0].tolist(), aux["squares"].tolist()) == ((2 * X).tolist(), squares)
    _, dy, aux = sg.jvp(f, (X,), (X,), has_aux=True)
    assert (dy, aux["squares"].tolist()) == (2 * (X * X).sum(), squares)
    rows, aux = sg.jacobian(f, has_aux=True)(X)
    assert (rows.tolist(), aux["squares"].tolist()) == ((2 * X).tolist(), squares)
    found, aux = sg.hessian(f, has_aux=True)(X)
    assert (found.shape, aux["squares"].tolist()) == ((2, 3, 2, 3), squares)
    inner = sg.grad(lambda x: sg.grad(f, has_aux=True)(x)[1]["squares"].sum())(
        X
    )  # aux has derivatives in outer transforms
    assert inner.tolist() == (2 * X).tolist()


def test_vmap_is_the_function_of_every_row_with_derivatives_in_every_layer():
    def f(x, w):
        return {"y": sg.max_pool(x * w, (2,), stride=1), "s": x.sum()}

    w = rationals(3, start=4)
    found = sg.vmap(f, in_axes=(0, None))(X, w)
    assert np.array_equal(found["y"], np.stack([f(x, w)["y"] for x in X]))
    assert found["s"].tolist() == X.sum(1).tolist()
    assert np.array_equal(sg.vmap(f, in_axes=(1, None))(X.T, w)["y"], found["y"])
    assert np.array_equal(sg.vmap(f, in_axes=(-1, None))(X.T, w)["y"], found["y"])
    assert np.array_equal(sg.vmap(sg.vmap(lambda a, b: a * b))(X, X), X * X)
    total = sg.grad(lambda w: sg.vmap(f, in_axes=(0, None))(X, w)["y"].sum())(w)
    assert np.array_equal(total, sum(sg.grad(lambda w, x=x: f(x, w)["y"].sum())(w) for x in X))
    rows = sg.vmap(sg.grad(lambda x: (x * x * x).sum()))(X)  # gradients of each example
    assert np.array_equal(rows, 3 * X * X)
    graph = sg.trace(lambda x: sg.vmap(sg.sum)(x), (2, 3))
    assert graph.forward(X).tolist() == X.sum(1).tolist()


def test_empty_outputs_and_half_floats():
    assert sg.jacobian(lambda x: x[:0])(X).shape == (0, 3, 2, 3)
    x = np.array([1, 2], np.float16)
    found = sg.hessian(lambda x: (x**3).sum())(x)
    assert (found.dtype, found.tolist()) == (np.float16, [[6, 0], [0, 12]])


@dataclasses.dataclass
class Unregistered:
    weight: object


REFUSED = [
    (lambda: sg.grad(lambda p: p.weight)(Unregistered(X)), ScalarError, "register it: register_tree(kind)"),
    (lambda: sg.register_tree(int), ArgumentError,
     "register_tree: kind='int': is not a dataclass; give both flatten and unflatten"),
    (lambda: sg.register_tree(3), ArgumentError, "register_tree: kind=3: is not a class; give the class of the nests"),
    (lambda: sg.grad(lambda x: x.sum(), has_aux=True)(X), ShapeError,
     "must be a pair with has_aux=True; return (y, aux), or leave has_aux out"),
    (lambda: sg.grad(lambda x: (x.sum(), x))(X), ShapeError,
     "must be one array; return the loss alone, or use vjp, or has_aux=True for more"),
    (lambda: sg.jacobian(lambda x: x, argnums=1)(X), ArgumentError,
     "jacobian: argnums=1: is not one of 1 arguments given by position"),
    (lambda: sg.hessian(pooled)(X), ShapeError, "is not one cell"),
    (lambda: sg.vmap(sg.add)(X, X.T), ShapeError,
     "vmap: lengths=[2, 3]: is not one length of at least 1 for all arguments"),
    (lambda: sg.vmap(sg.add, in_axes=(0,))(X, X), ArgumentError, "vmap: in_axes=(0,): has 1 entries for 2 arguments"),
    (lambda: sg.vmap(sg.relu, in_axes=2)(X), ShapeError, "has no axis 2 to map over; name an axis of it, or None"),
    (lambda: sg.vmap(3), ArgumentError, "vmap: f=3: must be a function"),
    (lambda: sg.check_grad(sg.sum, np.arange(3)), ScalarError, "holds no array with a derivative"),
    (lambda: sg.check_grad(sg.sum, np.array([np.inf])), ScalarError, "holds more than finite real numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_differentiated_says_why(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


W = np.array([[0.1, -0.7, 0.3], [0.2, 0.5, -0.9]])
RIGHT = {
    "pool": lambda x: sg.max_pool(x * x, (2,)) + sg.avg_pool(x, (2,)),
    "linear": lambda x: sg.linear(x, W) ** 2,
    "loss": lambda x: sg.cross_entropy(sg.linear(x, W), np.array([1, 0])),
    "smooth": lambda x: sg.smooth_max_pool(x, (3,), beta=2) / 3,
    "layers": lambda x: sg.layer_norm(sg.gelu(x)),
    "two outputs": lambda x: (x.sum(), sg.tanh(x[0])),
    "lp": lambda x: sg.lp_pool(x, (3,), p=3),
}


@pytest.mark.parametrize("name", RIGHT)
def test_check_grad_holds_of_right_functions(name):
    assert sg.check_grad(RIGHT[name], np.array([[0.1, -0.25, 2.0], [1.5, 0.3, -0.7]]))


def test_check_grad_takes_labels_nests_and_fractions():
    labels = np.array([1, 0])
    assert sg.check_grad(lambda p, t: sg.cross_entropy(p["x"], t), {"x": np.eye(2)}, labels)
    assert sg.check_grad(pooled, X)
    assert sg.check_grad(lambda p, q: sg.sum(sg.add(p[0][0], q)), [[1], [1, 2]], np.array([0.5]))  # numbers


WRONG = {
    "half the slope": (lambda x: own_operators.HalfTheSlope((2,))(x), "Dual numbers give"),
    "detached": (lambda x: x * sg.detach(x), "difference quotients to both sides approach"),
    "kink": (lambda x: sg.relu(x - 1), "has a kink at these inputs"),
    "tie": (lambda x: sg.max_pool(x, (2,)), "has a kink"),
}


@pytest.mark.parametrize("name", WRONG)
def test_check_grad_finds_wrong_derivatives(name):
    f, words = WRONG[name]
    with pytest.raises(sg.GradientError, match=words):
        sg.check_grad(f, np.array([1.0, 1.0]))


def test_check_grad_finds_a_vjp_that_is_not_the_adjoint(monkeypatch):
    pull = reference.pull
    monkeypatch.setattr(reference, "pull", lambda *given, **options: tuple(2 * p for p in pull(*given, **options)))
    with pytest.raises(sg.GradientError, match=r"⟨VJP of g, dx⟩ is"):
        sg.check_grad(sg.transpose, np.eye(2))
