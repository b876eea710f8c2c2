"""Derivatives of Python functions: nested containers, nested transforms, and refusals."""

import itertools
import math
from collections import namedtuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples, share

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError, SpecgradError, derive
from specgrad.conformance.cases import STRATEGIES
from specgrad.conformance.statements import inner
from specgrad.ops import OPERATORS

Pair = namedtuple("Pair", "left right")


def test_nests_of_parameters_come_back_as_they_went_in():
    def loss(parameters, x):
        first, (second, nothing) = parameters["layers"]
        assert nothing is None
        return sg.sum(first * x) + sg.sum(second.left * x * x) * second.right

    x = np.array([1.0, 2.0])
    parameters = {"layers": [np.array([1.0, 1.0]), (Pair(np.array([3.0, 4.0]), 2.0), None)], "unused": np.ones((2, 2))}
    value, gradient = sg.value_and_grad(loss)(parameters, x)
    assert value == 3 + 19 * 2
    first, (second, nothing) = gradient["layers"]
    assert (first.tolist(), second.left.tolist(), second.right, nothing) == ([1, 2], [2, 8], 19, None)
    assert gradient["unused"].tolist() == [[0, 0], [0, 0]]
    assert sg.grad(loss, argnums=(1,))(parameters, x)[0].tolist() == [1 + 2 * 3 * 2, 1 + 2 * 2 * 4 * 2]


def test_several_outputs_and_outputs_that_do_not_depend():
    y, pullback = sg.vjp(lambda x: {"a": x * x, "b": [sg.sum(x), np.array(7.0)]}, np.array([1.0, 2.0]))
    assert y["b"][1] == 7
    (gradient,) = pullback({"a": np.array([1.0, 0.0]), "b": [np.array(10.0), np.array(3.0)]})
    assert gradient.tolist() == [12, 10]
    y, dy = sg.jvp(lambda x: (x, np.array(7.0)), (np.ones(2),), (np.array([3.0, 4.0]),))
    assert (dy[0].tolist(), dy[1]) == ([3, 4], 0)


def test_reverse_mode_nests_to_any_order_over_exact_numbers():
    def cube(x):
        return x * x * x * x

    x = np.array(Fraction(3, 2))
    derivative, expected = cube, [Fraction(27, 2), Fraction(27), Fraction(36), Fraction(24), Fraction(0)]
    for wanted in expected:
        derivative = sg.grad(derivative)
        assert derivative(x) == wanted


@pytest.mark.parametrize("slots", list(itertools.product((0, 1), repeat=4)))
def test_every_derivative_of_a_quotient_is_the_one_by_hand(slots):
    """Each direction moves one operand, in any order; derivatives of x/y exist to every order."""
    x, y = Fraction(3), Fraction(5)
    derivative = sg.div
    for count, slot in enumerate(slots, 1):
        derivative = sg.grad(derivative, slot)
        in_y = sum(slots[:count])
        of_x = (x, 1, *[0] * 3)[count - in_y]
        expected = of_x * (-1) ** in_y * math.factorial(in_y) / y ** (in_y + 1)
        assert derivative(np.array(x), np.array(y)) == expected


@pytest.mark.parametrize("modes", list(itertools.product("fr", repeat=3)), ids="".join)
def test_modes_nest_in_any_order(modes):
    """The third derivative of Σ smooth_max(x)·x² in fixed directions, with each derivative in
    either mode."""
    directions = [np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 1.0]), np.array([-1.0, 0.25, 2.0])]

    def function(x):
        return sg.sum(sg.smooth_max_pool(x, (2,), stride=1, beta=1.5) * sg.avg_pool(x * x, (2,), stride=1))

    for mode, v in zip(modes, directions, strict=True):

        def along(x, function=function, mode=mode, v=v):
            return sg.jvp(function, (x,), (v,))[1] if mode == "f" else sg.sum(sg.grad(function)(x) * v)

        function = along
    x = np.array([0.3, -0.2, 0.7])
    dual = sg.Dual(
        sg.Dual(sg.Dual(x, directions[0]), sg.Dual(directions[1], 0 * x)),
        sg.Dual(sg.Dual(directions[2], 0 * x), sg.Dual(0 * x, 0 * x)),
    )
    pooled = sg.smooth_max_pool(dual, (2,), stride=1, beta=1.5)
    witness = sg.sum(sg.mul(pooled, sg.avg_pool(sg.mul(dual, dual), (2,), stride=1))).tangent.tangent.tangent
    assert function(x) == pytest.approx(witness, rel=1e-12)


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_every_operator_is_differentiated_twice_like_its_dual_witness(kind):
    """F₂ and G₁ of every operator, recorded, compared with its row over Dual numbers; and ⟨u, G₁v⟩
    = ⟨g, F₂uv⟩."""
    exact = "exp" not in kind.needs
    scalar = (lambda n: Fraction(n, 3)) if exact else np.dtype(float)

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 30))
    def check(case):
        operands, v, g = case.over(scalar)
        u = tuple(None if t is None else t[::-1] if t.ndim else t for t in v)
        slots = [s for s, slot in enumerate(case.op.slots[: len(operands)]) if slot.differentiable]
        moving = tuple(x if t is None else sg.Dual(x, t) for x, t in zip(operands, v, strict=True))
        witness = case.op.vjp(moving, g)
        pulled = {s: derive.vjp_of(case.op, s, operands, g, (v,)) for s in slots}
        bent = derive.jvp_of(case.op, operands, (u, v))
        for s, got in pulled.items():
            assert close(np.zeros(operands[s].shape, int) if got is None else got, witness[s].tangent, exact)
        left = sum(inner(u[s], got) for s, got in pulled.items() if got is not None)
        right = 0 if bent is None else inner(bent, g)
        assert left == right if exact else left == pytest.approx(right, rel=1e-9, abs=1e-9)

    check()


def close(got, wanted, exact):
    return np.array_equal(got, wanted) if exact else np.allclose(got, wanted, rtol=1e-10, atol=1e-12)


@given(st.sampled_from(OPERATORS).flatmap(lambda kind: STRATEGIES[kind]))
@settings(max_examples=examples(60))
def test_an_operators_own_derivatives_are_those_of_the_transforms(case):
    operands, tangents, g = case.over(np.dtype(float))
    chosen = [s for s, slot in enumerate(case.op.slots[: len(operands)]) if slot.differentiable]

    def function(*given):
        filled = list(operands)
        for s, x in zip(chosen, given, strict=True):
            filled[s] = x
        return case.op(*filled)

    xs, dxs = [operands[s] for s in chosen], [tangents[s] for s in chosen]
    y, dy = case.op.jvp(operands, tangents)
    for got, wanted in zip(sg.jvp(function, xs, dxs), (y, dy), strict=True):
        assert np.array_equal(got, wanted)
    pulled = case.op.vjp(operands, g)
    if chosen:
        for got, s in zip(sg.vjp(function, *xs)[1](g), chosen, strict=True):
            assert np.array_equal(got, pulled[s])


def test_detach_stops_every_derivative():
    x = np.array([2.0, 3.0])

    def function(z):
        return sg.sum(z * sg.detach(z))

    assert sg.grad(function)(x).tolist() == [2, 3]
    assert sg.jvp(function, (x,), (x,))[1] == 13
    assert sg.grad(lambda z: sg.sum(sg.grad(function)(z)))(x).tolist() == [0, 0]
    assert function(sg.Dual(x, x)).tangent == 13


def test_infinite_values_are_not_multiplied_by_zeros_that_were_never_made():
    inf = np.array([np.inf, 1.0])
    assert sg.jvp(lambda w: sg.sum(sg.add(inf, w)), (np.ones(2),), (np.ones(2),))[1] == 2
    _, dy = sg.jvp(lambda x: sg.add(x, sg.mul(inf, np.ones(2))), (np.ones(2),), (np.array([3.0, 4.0]),))
    assert dy.tolist() == [3, 4]
    gradient = sg.grad(lambda x: sg.sum(sg.grad(lambda y: sg.mse_loss(y, sg.detach(inf)))(x)))(np.ones(2))
    assert gradient.tolist() == [1, 1]


INFINITE = {  # a function of x, its slope, and where its derivatives are infinite or NaN
    "sqrt": (lambda S, x: S.sqrt(x), lambda S, x: S.divide(S.constant(1), 2 * S.sqrt(x)), 0.0),
    "log": (lambda S, x: S.log(x), lambda S, x: S.divide(S.constant(1), x), -1.0),
    "divide": (lambda S, x: S.divide(S.constant(1), x), lambda S, x: -S.divide(S.constant(1), x * x), 0.0),
    "power": (lambda S, x: S.power(x, 1.5), lambda S, x: S.constant(1.5) * S.power(x, 0.5), 0.0),
    "exp": (lambda S, x: S.exp(x), lambda S, x: S.exp(x), 1e3),
}


@pytest.mark.parametrize("mode", "fr")
@pytest.mark.parametrize("order", ["xyy", "yxy", "xyxy"])
@pytest.mark.parametrize("called", INFINITE)
def test_what_a_direction_does_not_move_is_not_multiplied_by_zero(called, order, mode):
    """Derivatives of f(x) y that take y twice are 0, however infinite those of f are."""
    f, slope, at = INFINITE[called]
    needs = ("real", "division", "exp", "root")
    op = sg.pointwise(called, lambda S, x, y: f(S, x) * y, lambda S, x, y: (slope(S, x) * y, f(S, x)), needs)
    derivative = op
    for slot in map("xy".index, order):

        def along(x, y, before=derivative, slot=slot):
            if mode == "r":
                return sg.grad(before, slot)(x, y)
            of_one, at = (lambda z: before(x, z), y) if slot else (lambda z: before(z, y), x)
            return sg.jvp(of_one, (at,), (np.ones(()),))[1]

        derivative = along
    assert derivative(np.array(at), np.array(3.0)) == 0


def test_a_derivative_that_nobody_wrote_is_refused_never_zero():
    class Lost(sg.Relu):
        name = "lost"
        curvature = "any"

        def row(self, S, window, kept):
            raise NotImplementedError("no row")

    with pytest.raises(NotImplementedError):
        sg.grad(lambda x: sg.sum(Lost()(x)))(np.ones(2))
    with pytest.raises(NotImplementedError):
        sg.grad(lambda x: sg.sum(sg.grad(lambda z: sg.sum(Lost()(z)))(x)))(np.ones(2))


LEAKED = []
sg.grad(lambda z: LEAKED.append(z) or sg.sum(z))(np.ones(2))
X = np.ones(2)
REFUSED = [
    (lambda: LEAKED[0] * 2, ArgumentError,
     "mul: x=Var 'input_0' of shape (2,): was made inside a transform that has returned; "
     "return the value from the function instead"),
    (lambda: sg.grad(lambda z: sg.sum(z * LEAKED[0]))(X), ArgumentError,
     "mul: y=Var 'input_0' of shape (2,): was made inside a transform that has returned; "
     "return the value from the function instead"),
    (lambda: sg.grad(sg.sum(X)), ArgumentError,
     "grad: f=2.0: must be a function, got ndarray; give the function itself, not its result"),
    (lambda: sg.jvp(None, (X,), (X,)), ArgumentError,
     "jvp: f=None: must be a function, got NoneType; give the function itself, not its result"),
    (lambda: sg.vjp("f", X), ArgumentError,
     "vjp: f='f': must be a function, got str; give the function itself, not its result"),
    (lambda: sg.trace(2, X), ArgumentError, "trace: f=2: must be a function; give the function itself, not its result"),
    (lambda: sg.grad(sg.relu)(X), ShapeError,
     "grad: output=float64 array of shape (2,): is not one cell; sum the cells, or use vjp, "
     "whose pullback takes a cotangent"),
    (lambda: sg.grad(lambda z: (z, z))(X), ShapeError,
     "grad: output=(float64 array of shape (2,), float64 array of shape (2,)): must be one array; "
     "return the loss alone, or use vjp, or has_aux=True for more"),
    (lambda: sg.grad(sg.sum, argnums=3)(X), ArgumentError,
     "grad: argnums=3: is not one of 1 arguments given by position; name arguments that are given"),
    (lambda: sg.grad(lambda a, b: sg.sum(a * b), (0, -2))(X, X), ArgumentError,
     "grad: argnums=(0, -2): names an argument twice; name each argument once"),
    (lambda: sg.grad(sg.sum, True)(X), ArgumentError,
     "grad: argnums=True: must be an integer, got bool; write whole numbers"),
    (lambda: sg.grad(sg.sum, "a")(X), ArgumentError,
     "grad: argnums='a': must be an integer, got str; write whole numbers"),
    (lambda: sg.grad(sg.sum)([X, X]), ScalarError,
     "sum: x='list': is a list of recorded values, not one; make one of them: stack(x), "
     "or give an array where the list was"),
    (lambda: sg.jvp(sg.relu, X[None], X[None]), ShapeError,
     "jvp: primals=float64 array of shape (1, 2): must be a tuple with one entry per operand, got ndarray; "
     "write (x,) for a single one"),
    (lambda: sg.jvp(sg.relu, (X,), (np.ones(3),)), ShapeError,
     "jvp: tangents=float64 array of shape (3,): must have shape (2,); reshape or broadcast it first"),
    (lambda: sg.jvp(sg.relu, (X,), (X, X)), ShapeError,
     "jvp: tangents=(float64 array of shape (2,), float64 array of shape (2,)): is not the same nest: "
     "1 leaves are needed, 2 given, and they differ at [1]; give one leaf for each"),
    (lambda: sg.jvp(lambda p: p["a"], ({"a": X},), ({"b": X},)), ShapeError,
     "jvp: tangents=({'b': float64 array of shape (2,)},): is not the same nest: 1 leaves are needed, 1 given, "
     "and they differ at [0]['a']; give one leaf for each"),
    (lambda: sg.jvp(sg.relu, (X,), (np.array([Fraction(1)] * 2),)), ScalarError,
     "jvp: tangents=object array of shape (2,): Fraction does not mix with float64; "
     "convert all operands to one scalar type first"),
    (lambda: sg.vjp(sg.relu, X)[1](np.ones(3)), ShapeError,
     "pullback: cotangent=float64 array of shape (3,): must have shape (2,); reshape or broadcast it first"),
    (lambda: sg.vjp(sg.relu, X)[1]((X, X)), ShapeError,
     "pullback: cotangent=(float64 array of shape (2,), float64 array of shape (2,)): is not the same nest: "
     "1 leaves are needed, 2 given, and they differ at the top; give one leaf for each"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[text[:50] for _, _, text in REFUSED])
def test_bad_calls_say_so(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


def test_arguments_are_chosen_by_integers_of_any_kind_and_keywords_go_to_the_function():
    def loss(a, b, factor=1):
        return sg.sum(sg.scale(a * b, factor))

    assert sg.grad(loss, np.int64(1))(2 * X, X, factor=3).tolist() == [6, 6]
    assert [g.tolist() for g in sg.grad(loss, np.array([-1, 0]))(2 * X, X)] == [[2, 2], [1, 1]]


def test_a_function_that_raises_closes_its_level():
    def broken(x):
        sg.relu(x)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        sg.grad(broken)(X)
    assert sg.grad(lambda x: sg.sum(x * x))(X).tolist() == [2, 2]
    with pytest.raises(SpecgradError):
        sg.grad(lambda x: sg.sum(sg.max_pool(x, (5,))))(X)
    assert sg.grad(lambda x: sg.sum(x))(X).tolist() == [1, 1]
