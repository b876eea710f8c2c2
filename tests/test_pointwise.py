"""Pointwise operators beyond the shared cases: special values, masks, users' functions, and
refusals."""

from decimal import Decimal
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
import sympy
import z3

import specgrad as sg
from specgrad import ArgumentError, ScalarError, ShapeError

ONE_THIRD = np.array([Fraction(1, 3), Fraction(-2), Fraction(0)], dtype=object)


def test_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([-inf, -1e4, -0.0, 1e4, inf, nan])
    for engine in ("cpu", "reference"):
        with sg.engine(engine):
            assert np.array_equal(sg.sigmoid(x), [0, 0, 0.5, 1, 1, nan], equal_nan=True)
            assert np.array_equal(sg.Sigmoid().vjp((x,), np.ones(6))[0], [0, 0, 0.25, 0, 0, nan], equal_nan=True)
            assert np.array_equal(sg.softplus(x), [0, 0, np.log(2), 1e4, inf, nan], equal_nan=True)
            assert np.array_equal(sg.tanh(x), [-1, -1, -0.0, 1, 1, nan], equal_nan=True)
            assert np.array_equal(sg.abs(x), [inf, 1e4, 0, 1e4, inf, nan], equal_nan=True)
            assert not np.signbit(sg.abs(x))[2]
            assert np.array_equal(sg.Abs().vjp((x,), np.ones(6))[0], [-1, -1, 0, 1, 1, nan], equal_nan=True)
            assert np.array_equal(sg.maximum(x, -0.0), [-0.0, -0.0, -0.0, 1e4, inf, nan], equal_nan=True)
            gx, gy = sg.Smaller().vjp((x, np.array(nan)), np.ones(6))
            assert gx.tolist() == [0] * 6
            assert gy == 6
            assert sg.greater(x, nan).tolist() == [0] * 6
            assert sg.not_equal(x, x).tolist() == [0, 0, 0, 0, 0, 1]
    with np.errstate(all="raise"):  # relative accuracy in the tail
        assert sg.softplus(np.array([-40.0])) == pytest.approx(np.exp(-40.0), rel=1e-15)


@pytest.mark.parametrize("kind", [Decimal, mpmath.mpf])
def test_small_results_keep_their_digits_in_any_precision(kind):
    x = np.array([kind("-1e-40"), kind("-0.0"), kind(-100)], object)
    assert sg.tanh(x)[0] == x[0]
    assert str(sg.tanh(x)[1]) in ("-0", str(x[1]))
    assert float(sg.softplus(x)[2]) == pytest.approx(np.exp(-100.0), rel=1e-15)
    special = np.array([kind(n) for n in ("inf", "-inf", "nan")], object)
    np.testing.assert_array_equal(sg.softplus(special).astype(float), [np.inf, 0, np.nan])
    assert sg.Power(0.5).vjp((np.array([kind(0)], object),), np.array([kind(1)], object))[0] == [kind("inf")]


def test_the_second_derivative_of_a_saturated_sigmoid_is_zero_not_nan():
    x = np.array([-1000.0, 1000.0])
    for function in (sg.sigmoid, sg.softplus, sg.silu, sg.tanh):
        assert sg.grad(lambda z, f=function: sg.sum(sg.grad(lambda y: sg.sum(f(y)))(z)))(x).tolist() == [0, 0]


def test_what_is_not_chosen_is_never_touched():
    x = np.array([4.0, -1.0])
    with np.errstate(all="raise"):
        gradient = sg.grad(
            lambda z: sg.sum(sg.where(sg.greater(z, 0), sg.sqrt(sg.where(sg.greater(z, 0), z, 1)), 0 * z))
        )(x)
    assert gradient.tolist() == [0.25, 0]


def test_masks_select_over_every_scalar_and_in_graphs():
    mask = np.array([True, False, True])
    tens = sg.where(mask, ONE_THIRD, 10)
    assert tens.tolist() == [Fraction(1, 3), 10, 0]
    assert isinstance(tens[1], Fraction)
    assert sg.where(mask.tolist(), np.ones(3, np.float32), 0).dtype == np.float32
    graph = sg.trace(lambda x: sg.where(mask, x, 10) + sg.greater(x, 0), (3,))
    assert graph.forward(ONE_THIRD).tolist() == [Fraction(4, 3), 10, 0]
    assert graph.compile(np.float32)(np.array([1, 2, 3], np.float32)).tolist() == [2, 11, 4]
    assert graph.compile(object)(ONE_THIRD).tolist() == [Fraction(4, 3), 10, 0]
    assert sg.grad(lambda x: sg.sum(graph.forward(x)))(np.ones(3)).tolist() == [1, 0, 1]
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -2.0])
    assert sg.where(x > 0, x, 0).tolist() == [1, 0]
    assert sg.where(sg.greater(x, 0), x, 0).tolist() == [1, 0]


def test_undecided_comparisons_give_the_hull():
    x = np.array([flint.arb(0, 1), flint.arb(3, 1)])
    assert sg.greater(x, 0)[0].contains(0)
    assert sg.greater(x, 0)[0].contains(1)
    assert sg.greater(x, 0)[1] == 1
    chosen = sg.where(sg.greater(x, 0), x, 5)[0]
    assert chosen.contains(5)
    assert chosen.contains(flint.arb(1) / 2)
    a, b = z3.Reals("a b")
    larger = sg.maximum(np.array([a], object), np.array([b], object))[0]
    solver = z3.Solver()
    solver.add(z3.Not(z3.And(larger >= a, larger >= b, z3.Or(larger == a, larger == b))))
    assert solver.check() == z3.unsat
    s = sympy.Symbol("s", real=True)
    assert sg.softplus(np.array([s]))[0] == sympy.log(sympy.exp(s) + 1)


def test_roots_and_powers():
    x = np.array([0.0, 4.0, -4.0])
    assert np.array_equal(sg.power(x, 0.5), [0, 2, np.nan], equal_nan=True)
    assert np.array_equal(sg.power(x, -1), [np.inf, 0.25, -0.25])
    assert sg.power(x, 2.0).tolist() == sg.power(x, np.int64(2)).tolist() == [0, 16, 16]
    assert sg.power(ONE_THIRD, 3).tolist() == [Fraction(1, 27), -8, 0]
    assert sg.power(np.arange(3), 2).tolist() == [0, 1, 4]
    assert sg.power(np.array([flint.arb(2)]), Fraction(1, 2))[0].overlaps(flint.arb(2).sqrt())
    assert mpmath.isnan(sg.sqrt(np.array([mpmath.mpf(-1)]))[0])
    assert mpmath.isnan(sg.log(np.array([mpmath.mpf(-1)]))[0])
    assert sg.log(np.array([mpmath.mpf(0)]))[0] == -mpmath.inf
    assert sg.grad(sg.grad(lambda z: sg.power(z, 4)))(np.array(Fraction(1, 2))) == 3


def test_an_operator_of_ones_own():
    cube = sg.pointwise("cube", lambda S, x: x * x * x, lambda S, x: 3 * x * x)
    assert cube(ONE_THIRD).tolist() == [Fraction(1, 27), -8, 0]
    assert sg.grad(sg.grad(cube))(np.array(Fraction(1, 2))) == 3
    assert cube.vjp((np.array([2.0], np.float16),), np.array([1.0], np.float16))[0].tolist() == [12]
    program = sg.trace(lambda x: sg.sum(cube(x)), (2,)).compile()
    assert program.value_and_grad(np.array([1.0, 2.0]))[1][0].tolist() == [3, 12]
    through = sg.pointwise(  # a step function with slope 1, a straight-through estimator
        "sign", lambda S, x: S.where(S.gt(x, S.constant(0)), S.constant(1), S.constant(-1)), lambda S, x: 0 * x + 1,
        ("real",)
    )  # fmt: skip
    assert through.vjp((np.array([-2.0, 3.0]),), np.array([5.0, 7.0]))[0].tolist() == [5, 7]
    product = sg.pointwise("product", lambda S, a, b: a * b, lambda S, a, b: (b, a))
    assert [g.tolist() for g in product.vjp((np.ones(2), np.array(3.0)), np.ones(2))] == [[3, 3], 2]
    with pytest.raises(ScalarError, match=r"sign: x=.*complex numbers have no order"):
        through(np.array([1j]))


REFUSED = [
    (lambda: sg.div(ONE_THIRD, ONE_THIRD), ScalarError,
     "div: y=array of shape (3,): divides by 0, which such scalars do not have; keep 0 out, or use floats"),
    (lambda: sg.Power(-1).vjp((ONE_THIRD,), ONE_THIRD), ScalarError,
     "power: x=array of shape (3,): divides by 0, which such scalars do not have; keep 0 out, or use floats"),
    (lambda: sg.div(np.array([1]), np.array([2])), ScalarError,
     "div: x=int64 array of shape (1,): integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.sqrt(ONE_THIRD), ScalarError,
     "sqrt: x=object array of shape (3,): Fraction has no roots; use float, Decimal, mpmath.mpf or flint.arb elements "
     "instead"),
    (lambda: sg.exp(np.array([z3.Real("a")])), ScalarError,
     "exp: x=object array of shape (1,): over the reals z3 has no exp and no log; "
     "use flint.arb elements for enclosures instead"),
    (lambda: sg.gelu(np.ones(1, np.longdouble)), ScalarError,
     "gelu: x=float128 array of shape (1,): long doubles have no erf; cast first, e.g. x.astype(np.float64), "
     "or use mpmath.mpf elements"),
    (lambda: sg.power(np.ones(2), np.ones(2)), ArgumentError,
     "power: exponent=float64 array of shape (2,): must be a finite real number, got ndarray; write a number; "
     "of arrays, exp(y * log(x))"),
    (lambda: sg.maximum(np.ones(2), np.ones(2), ties="last"), ArgumentError,
     "maximum: ties='last': is not one of the choices; choose from 'split', 'first'"),
    (lambda: sg.Larger().vjp((np.array([1]), np.array([1])), np.array([1])), ScalarError,
     "maximum: ties='split': integers do not divide; cast first, e.g. x.astype(np.float64)"),
    (lambda: sg.where(True, np.ones(2), 0), ArgumentError,
     "where: condition=True: is a single truth value, as == of recorded values gives; compare with greater, equal, …"),
    (lambda: sg.where(np.array([True] * 3), np.ones(2), 0), ShapeError,
     "where: x=array of shape (2,): does not broadcast with condition of shape (3,); make each pair of lengths, "
     "counted from the last axis, equal or 1"),
    (lambda: sg.gelu(np.ones(2), approximate="erf"), ArgumentError,
     "gelu: approximate='erf': is not one of the choices; choose from 'none', 'tanh'"),
    (lambda: sg.pointwise(3, abs, abs), ArgumentError, "pointwise: name=3: is not a word; write a string"),
    (lambda: sg.pointwise("f", 3, abs), ArgumentError,
     "pointwise: value=3: must be a function; give the function itself, not its result"),
    (lambda: sg.pointwise("f", lambda S: S, abs), ArgumentError,
     "must take the family of scalars and an operand at least; write lambda S, x: …"),
    (lambda: sg.pointwise("f", lambda S, x: x, abs, needs="order"), ArgumentError,
     "pointwise: needs='order': is not one of the choices; choose from 'real', 'division', 'exp', 'root', 'erf'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[text[:50] for _, _, text in REFUSED])
def test_bad_calls_say_so(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


ZERO = np.array(-0.0, np.float32)
SIGNED = {  # with a number of Python, and what NumPy gives with an array of one cell
    "add": (lambda x: sg.add(x, -0.0), lambda x: x + ZERO),
    "sub": (lambda x: sg.sub(-0.0, x), lambda x: ZERO - x),
    "mul": (lambda x: sg.mul(x, -0.0), lambda x: x * ZERO),
    "div": (lambda x: sg.div(-0.0, x + 2), lambda x: ZERO / (x + 2)),
    "maximum": (lambda x: sg.maximum(-0.0, x), lambda x: np.where(x > 0, x, ZERO)),
    "where": (lambda x: sg.where(x > 0, x, -0.0), lambda x: np.where(x > 0, x, ZERO)),
    "pad": (lambda x: sg.pad(x, ((1, 1),), value=-0.0), lambda x: np.pad(x, 1, constant_values=ZERO)),
    "both pads": (lambda x: sg.pad(sg.pad(x, ((1, 1),)), ((1, 1),), value=-0.0), lambda x: [ZERO, 0, *x, 0, ZERO]),
    "scale": (lambda x: sg.scale(x, -0.0), lambda x: x * ZERO),
}


@pytest.mark.parametrize("called", SIGNED)
def test_numbers_of_python_keep_the_sign_of_zero(called):
    f, by_numpy = SIGNED[called]
    x = np.array([-0.0, 0.0, 1.0], np.float32)
    signs = np.signbit(by_numpy(x)).tolist()
    graph = sg.trace(f, x)
    ways = {
        "call": f(x),
        "objects": f(x.astype(float).astype(object)).astype(float),
        "tape": f(sg.Tape().leaf(x)).value,
        "jvp": sg.jvp(f, (x,), (x,))[0],
        "Dual": f(sg.Dual(x, x)).primal,
        "graph": graph.forward(x),
        "JSON": sg.Graph.from_json(graph.to_json()).forward(x),
        **{engine: graph.compile(np.float32, engine=engine)(x) for engine in ("cpu", "reference")},
    }
    assert {way: np.signbit(y).tolist() for way, y in ways.items()} == dict.fromkeys(ways, signs)


def test_functions_of_ones_own_that_give_too_little_are_refused():
    once = sg.pointwise("once", lambda S, x, y: x * y, lambda S, x, y: y)
    nothing = sg.pointwise("nothing", lambda S, x: None, lambda S, x: x)
    for dtype in (float, int, object):
        q = np.array([2, 3]).astype(dtype)
        with pytest.raises(ArgumentError, match=r"once: slope=.*gives 1 slopes for 2 operands; return one for each"):
            sg.grad(lambda a, b: sg.sum(once(a, b)), (0, 1))(q, q)
        with pytest.raises(ArgumentError, match=r"nothing: value=.*gives nothing; return the cells"):
            nothing(q)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8])
def test_differences_of_integers_wrap_around_as_their_derivatives_do(dtype):
    a, b = np.array([1, 2], dtype), np.array([2, 1], dtype)
    assert sg.grad(lambda a, b: sg.sum(a - b), 1)(a, b).tolist() == (np.zeros(2, dtype) - np.ones(2, dtype)).tolist()
    assert sg.jvp(sg.sub, (a, b), (a, b))[1].tolist() == (a - b).tolist()
