"""Recorded values and Duals as arrays, compared with NumPy (values) and with Duals
(derivatives)."""

from decimal import Decimal
from fractions import Fraction

import flint
import numpy as np
import pytest
import sympy
import z3

import specgrad as sg
from specgrad.errors import ArgumentError, ScalarError, ShapeError, SpecgradError

W = np.arange(1, 7).reshape(3, 2)
ALIKE = {  # expressions that NumPy computes too
    "div": lambda x: x.sum() / 2,
    "reflected": lambda x: 3 - x + 1 / (x * x + 1) - 2 * x,
    "power": lambda x: x**2 + x**-1 + x**0,
    "index": lambda x: x[0] + x[-1, 1:2] * x[..., None, 0],
    "steps": lambda x: x[::-1, ::2],
    "take": lambda x: x[[1, 0, 1]],
    "matmul": lambda x: x @ x.T @ x,
    "shapes": lambda x: x.reshape(3, 2) * x.reshape((3, -1)) + x.T * x.transpose(1, 0) + x.transpose(),
    "reductions": lambda x: x.sum(axis=0) * x.mean(axis=1, keepdims=True) + x.sum(),
    "mean": lambda x: x.mean() * x.mean(0),
    "broadcast": lambda x: x * x[0] + x[:, :1],
    "negative": lambda x: -x + +x * x,
    "functions": lambda x: np.sum(x) + np.mean(x, axis=0) + np.reshape(x, (3, 2)).T + np.transpose(x).T,
    "joined": lambda x: np.concatenate([x, x * x], axis=1) + np.stack([x, x], axis=1).reshape(2, 6),
    "size": lambda x: x * (x.size + x.ndim + x.shape[0] + len(x)),
    "square": lambda x: np.multiply(x, x) + np.subtract(1, x) + np.power(x, 2),
}
LEFT = {  # with a NumPy array on the left
    "products": lambda x, w: w @ x,
    "sums": lambda x, w: (w.T + x) * (w.T - x) + w.T * x,
    "quotients": lambda x, w: w.T / (x * x + w.T),
    "out of order": lambda x, w: np.add(w.T, x) - np.matmul(x, w) @ w.T,
}
SELECTING = {  # comparisons give 1 and 0 here, and booleans in NumPy
    "where": lambda x: sg.where(x > 1, x * x, x - 1),
    "all four": lambda x: sg.where(x >= 2, x, 0) + sg.where(x < 0, x * 3, x) + sg.where(x <= x[0], x, -x),
    "left": lambda x: (
        sg.where(np.asarray(x).item(0) * 0 + 1 < x, x, 0) if isinstance(x, np.ndarray) else sg.where(x > 1, x, 0)
    ),
    "numpy": lambda x: np.maximum(x, x * 0 + 3) + np.minimum(x, x[::-1]) + abs(x),
}


def cells(scalar, shift=0):
    values = [-3, 2, 5, 1, 4, -1]
    made = np.empty(6, object)
    made[:] = [scalar(v + shift) for v in values]
    return made.reshape(2, 3) if scalar is not float else made.reshape(2, 3).astype(float)


def layers(f, x, dx):
    """The value and tangent of f in every layer that computes both."""
    tape = sg.Tape()
    y = f(tape.leaf(x))
    graph = sg.trace(f, x.shape)
    yield "tape", y.value, None
    yield "jvp", *sg.jvp(f, (x,), (dx,))
    yield "graph", *graph.jvp((x,), (dx,))
    dual = f(sg.Dual(x, dx))
    yield "Dual", dual.primal, dual.tangent


def check(f, x, dx, wanted):
    found = {name: (value, tangent) for name, value, tangent in layers(f, x, dx)}
    for name, (value, tangent) in found.items():
        assert np.shape(value) == np.shape(wanted), name
        assert np.array_equal(value, wanted), name
        assert tangent is None or np.array_equal(tangent, found["Dual"][1]), name
    y, pullback = sg.vjp(f, x)
    g = np.asarray(y * 0 + 1)
    (pulled,) = pullback(g)
    assert np.sum(pulled * dx) == np.sum(g * np.asarray(found["Dual"][1]))  # adjointness, exactly


@pytest.mark.parametrize("scalar", [Fraction, flint.fmpq], ids=lambda s: s.__name__)
@pytest.mark.parametrize("name", [*ALIKE, *LEFT, *SELECTING])
def test_every_layer_computes_what_numpy_does_and_the_derivative_of_dual_numbers(name, scalar):
    x, dx, w = cells(scalar), cells(scalar, shift=2), np.vectorize(scalar, otypes=[object])(W)
    f = ALIKE.get(name) or SELECTING.get(name) or (lambda x: LEFT[name](x, w))
    check(f, x, dx, f(x))


@pytest.mark.parametrize("name", [*ALIKE, *LEFT])
def test_floats_and_integers_are_numpys(name):
    x = np.array([[2.0, 4.0, -8.0], [1.0, 0.5, -0.25]])  # all quotients and products are exact
    f = ALIKE.get(name) or (lambda x: LEFT[name](x, W.astype(x.dtype)))
    tape = sg.Tape()
    value = f(tape.leaf(x)).value
    np.testing.assert_allclose(value, f(x), rtol=16 * 2.0**-53)  # sums of at most six terms, in another order
    assert value.dtype == x.dtype
    assert tape.leaf(x.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("make", [Decimal, flint.arb, lambda v: z3.RealVal(v), lambda v: sympy.Integer(v), sg.Dual])
def test_methods_work_over_every_scalar(make):
    def f(x):
        return ((x[0] @ x.T) ** 2 / 4 + x.mean() - (2 - x[:, 0]) * 3).sum()

    exact = f(cells(Fraction))
    if make is sg.Dual:
        assert f(sg.Dual(cells(Fraction), cells(Fraction))).primal == exact
        return
    value = sg.trace(f, (2, 3)).forward(cells(make))[()]
    found = sg.grad(f)(cells(make))
    assert found.shape == (2, 3)
    if isinstance(value, flint.arb):
        assert flint.fmpq(exact.numerator, exact.denominator) in value
    else:
        value = z3.simplify(value).as_fraction() if isinstance(value, z3.ExprRef) else Fraction(str(value))
        assert abs(value - exact) <= (Fraction(1, 10**20) if make is Decimal else 0)  # of 28 digits


A = np.arange(6.0).reshape(2, 3)


def var(x=A):
    return sg.Tape().leaf(x, name="x")


REFUSED = [
    (lambda: 2 ** var(), ArgumentError, "power: x=2: the exponent of a power is a number; write exp(x * log(base))"),
    (lambda: var() ** var(), ArgumentError,
     "power: exponent=Var 'x' of shape (2, 3): must be a finite real number, got TapeVar; write a number; of arrays, "
     "exp(y * log(x))"),
    (lambda: A ** var(), ArgumentError,
     "power: x=float64 array of shape (2, 3): the exponent of a power is a number; write exp(x * log(base))"),
    (lambda: var()[var() > 1], ArgumentError,
     "slice: index=Var 'compare_1' of shape (2, 3): is not an index; select with where(mask, x, y), "
     "or index by integers"),
    (lambda: var()[A > 1], ArgumentError,
     "slice: index=bool array of shape (2, 3): is not an index; select with where(mask, x, y), or index by integers"),
    (lambda: var().__setitem__(0, 1), ArgumentError,
     "Var: index=0: a recorded value never changes; make another one: where(mask, x, y), or concatenate"),
    (lambda: var().max(), AttributeError, "Var: attribute='max': is not offered; write global_max_pool(x, rank)"),
    (lambda: var().astype(int), AttributeError,
     "Var: attribute='astype': is not offered; cast the arrays before they are recorded"),
    (lambda: var().cumsum(), AttributeError,
     "Var: attribute='cumsum': is not offered; write it with functions of specgrad"),
    (lambda: sg.Graph().input("x", (2,)).dtype, AttributeError,
     "Var: attribute='dtype': is not offered; a graph has shapes and no scalar: ask the arrays that it runs on"),
    (lambda: float(var()), ArgumentError,
     "Var: name='x': a recorded value is not a number of Python; use functions of specgrad on it, or ask its value"),
    (lambda: list(var()), ArgumentError,
     "Var: name='x': a recorded value is not taken apart; index it: [x[i] for i in range(len(x))]"),
    (lambda: np.asarray(var()), ArgumentError,
     "Var: x=Var 'x' of shape (2, 3): is not an array of NumPy; use functions of specgrad on it, or ask its value"),
    (lambda: np.sin(var()), ArgumentError,
     "Var: function='sin': is NumPy's, and not one of specgrad's; write it with functions of specgrad"),
    (lambda: np.take(var(), [0]), ArgumentError,
     "Var: function='take': is NumPy's, and not one of specgrad's; write specgrad.take(…)"),
    (lambda: np.add.reduce(var()), ArgumentError,
     "Var: function='add.reduce': is NumPy's, and not one of specgrad's; write it with functions of specgrad"),
    (lambda: np.add(var(), A, out=A), ArgumentError,
     "Var: function='add': a recorded value is not written into an array; leave out= and += away"),
    (lambda: np.sum(var(), dtype=float), ArgumentError,
     "Var: function='sum': is given arguments that specgrad does not take; it takes (x: 'Array', axis: "
     "'Ints | None' = None, *, keepdims: 'bool' = False) -> 'Any'"),
    (lambda: np.concatenate([var()], axis=None), ArgumentError,
     "concatenate: axis=None: must be an integer, got NoneType; write whole numbers"),
    (lambda: var() == A, ArgumentError,
     "Var: function='equal': is NumPy's, and not one of specgrad's; write specgrad.equal(…)"),
    (lambda: var().sum(dtype=float), ArgumentError, "sum: dtype=<class 'float'>: is not offered; leave it out"),
    (lambda: var().reshape(3, 2, order="F"), ArgumentError,
     "reshape: order='F': cells are read in row-major order; transpose first"),
    (lambda: var(A.astype(int)) / 2, ScalarError, "div: x=int64 array of shape (2, 3): "),
    (lambda: var() @ A, ShapeError, "matmul: y=array of shape (2, 3): "),
    (lambda: var()[5], SpecgradError, "slice: index=(5,): "),
    (lambda: sg.conv([var(), var()], A), ScalarError,
     "conv: x='list': is a list of recorded values, not one; make one of them: stack(x), "
     "or give an array where the list was"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_offered_says_so_with_the_remedy(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, SpecgradError)
    assert str(caught.value).startswith(words)


def test_equality_is_identity_and_unknown_names_are_unknown():
    x = var()
    assert x == x
    assert x != A.tolist()
    assert {x: 1}[x] == 1
    with pytest.raises(AttributeError, match="no attribute 'valeu'"):
        _ = x.valeu
    assert not hasattr(sg.Graph().input("x", ()), "value")
