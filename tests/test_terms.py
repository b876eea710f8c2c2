"""Terms and expressions: z3 proves statements for all inputs of a shape, SymPy gives readable
formulas."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
import z3

import specgrad
from specgrad import AvgPool, Conv, Dual, MaxPool, SmoothMaxPool
from specgrad.conformance import statements
from specgrad.conformance.cases import as_scalars
from specgrad.ops import OPERATORS

pytestmark = pytest.mark.usefixtures("specification")


def terms(name, shape):
    made = np.empty(shape, object)
    for place in np.ndindex(*shape):
        made[place] = z3.Real(f"{name}_{'_'.join(map(str, place))}")
    return made


def proved(claim, *assumptions):
    solver = z3.Solver()
    solver.add(*assumptions, z3.Not(claim))
    return solver.check() == z3.unsat


X = terms("x", (3, 3))
DX = terms("dx", (3, 3))
WINDOWS = [X[i : i + 2, j : j + 2].ravel() for i in range(2) for j in range(2)]
DISTINCT = z3.Distinct(*X.ravel())


def test_z3_proves_that_max_is_an_upper_bound_and_attained():
    for value, window in zip(MaxPool((2, 2), stride=1)(X).flat, WINDOWS, strict=True):
        assert proved(z3.And(*(value >= cell for cell in window)))
        assert proved(z3.Or(*(value == cell for cell in window)))
        assert not proved(value > window[0])


@pytest.mark.parametrize("op", [MaxPool((2, 2), stride=1), AvgPool((2, 2), stride=1)], ids=repr)
def test_z3_proves_that_the_row_is_the_derivative_by_dual(op):
    _, pushed = op.jvp((X,), (DX,))
    witness = op(Dual(X, DX)).tangent
    assert proved(z3.And(*(a == b for a, b in zip(pushed.flat, witness.flat, strict=True))), DISTINCT)


def test_z3_proves_the_row_of_conv_and_the_adjointness_of_max():
    w, dw = terms("w", (1, 1, 2, 2)), terms("dw", (1, 1, 2, 2))
    _, pushed = Conv((2, 2)).jvp((X[None], w), (DX[None], dw))
    witness = Conv((2, 2))(Dual(X[None], DX[None]), Dual(w, dw)).tangent
    assert all(proved(a == b) for a, b in zip(pushed.flat, witness.flat, strict=True))
    x, dx, g = terms("x", (3,)), terms("dx", (3,)), as_scalars(np.array([2, -3]), z3.RealVal)
    for ties in ("first", "all"):
        op = MaxPool((2,), stride=1, ties=ties)
        left = statements.inner(op.jvp((x,), (dx,))[1], g)
        assert proved(left == statements.inner(dx, op.vjp((x,), g)[0]))


def test_z3_is_never_asked_for_a_truth_value(monkeypatch):
    def refuse(self):
        raise AssertionError("a term was asked for its truth value")

    monkeypatch.setattr(z3.BoolRef, "__bool__", refuse)
    for ties in ("first", "all", "split"):
        op = MaxPool((2, 2), stride=1, padding=1, ties=ties)
        op.jvp((X,), (DX,))
        op.vjp((X,), terms("g", (4, 4)))


def test_sympy_gives_formulas_to_read():
    a, b, beta = sympy.Symbol("a", real=True), sympy.Symbol("b", real=True), 2
    x = np.array([a, b], dtype=object)
    assert MaxPool((2,))(x)[0] == sympy.Piecewise((b, b > a), (a, True))
    assert (
        sympy.simplify(SmoothMaxPool((2,), beta=beta)(x)[0] - sympy.log(sympy.exp(2 * a) + sympy.exp(2 * b)) / 2) == 0
    )
    slope = SmoothMaxPool((2,), beta=beta).vjp((x,), np.array([1], dtype=object))[0][0]
    assert sympy.simplify(slope - sympy.exp(2 * a) / (sympy.exp(2 * a) + sympy.exp(2 * b))) == 0
    assert AvgPool((2,))(x)[0] == (a + b) / 2
    for ties, tied in (("first", [1, 0]), ("all", [1, 1]), ("split", [sympy.Rational(1, 2)] * 2)):
        row = MaxPool((2,), ties=ties).vjp((x,), np.array([1], dtype=object))[0]
        for numbers, expected in (((1, 2), [0, 1]), ((2, 1), [1, 0]), ((2, 2), tied)):
            assert [sympy.simplify(e.subs(dict(zip((a, b), numbers, strict=True)))) for e in row] == expected


@pytest.mark.parametrize(
    "kind",
    [k for k in OPERATORS if "exp" not in k.needs and not any(slot.integer for slot in k.slots)],
    ids=lambda k: k.__name__,
)
def test_dual_witness_equals_the_row_over_terms_and_expressions(kind):
    """Few cells without ties: z3 proves the equality for all reals, SymPy gives equal formulas at
    distinct numbers."""
    op, shapes = {
        "Conv": (Conv((2,)), [(1, 3), (1, 1, 2), (1,)]),
        "ConvTranspose": (specgrad.ConvTranspose((2,), stride=2), [(1, 2), (1, 1, 2), (1,)]),
        "Linear": (specgrad.Linear(), [(2,), (1, 2), (1,)]),
        "Relu": (specgrad.Relu(), [(3,)]),
        "Add": (specgrad.Add(), [(2, 1), (2,)]),
        "Sub": (specgrad.Sub(), [(2, 1), (2,)]),
        "Mul": (specgrad.Mul(), [(2, 1), (2,)]),
        "Div": (specgrad.Div(), [(2,), (2,)]),
        "Power": (specgrad.Power(3), [(2,)]),
        "Abs": (specgrad.Abs(), [(3,)]),
        "Larger": (specgrad.Larger(), [(2, 1), (2,)]),
        "Smaller": (specgrad.Smaller(), [(2, 1), (2,)]),
        "Compare": (specgrad.Compare(">="), [(2, 1), (2,)]),
        "Where": (specgrad.Where(), [(2,), (2,), (2,)]),
        "Scale": (specgrad.Scale(Fraction(1, 3)), [(3,)]),
        "Reshape": (specgrad.Reshape((2, 2)), [(4,)]),
        "Matmul": (specgrad.Matmul(), [(2, 2), (2,)]),
        "Transpose": (specgrad.Transpose(), [(2, 2)]),
        "Slice": (specgrad.Slice((0, (None, None, -1))), [(2, 2)]),
        "Take": (specgrad.Take((1, 1, 0)), [(2,)]),
        "Concatenate": (specgrad.Concatenate(2), [(2,), (1,)]),
        "BroadcastTo": (specgrad.BroadcastTo((2, 2)), [(2,)]),
        "Pad": (specgrad.Pad(((1, 1),), fill=Fraction(1, 3)), [(2,)]),
        "Unfold": (specgrad.Unfold((2,), padding=1), [(1, 2)]),
        "Fold": (specgrad.Fold((2,), (2,), padding=1), [(2, 3)]),
        "Detach": (specgrad.Detach(), [(3,)]),
        "Sum": (specgrad.Sum(0), [(2, 2)]),
        "Mean": (specgrad.Mean(), [(2, 2)]),
        "MseLoss": (specgrad.MseLoss(), [(2,), (2,)]),
    }.get(kind.__name__) or (kind(1 if "Global" in kind.__name__ else (2,)), [(4,)])
    operands, tangents = ([terms(f"{name}{i}", shape) for i, shape in enumerate(shapes)] for name in "xd")
    _, pushed = op.jvp(operands, tangents)
    witness = op(*map(Dual, operands, tangents)).tangent
    cells = [cell for operand in operands for cell in operand.flat]
    given = z3.Distinct(*cells), *(cell != 0 for cell in operands[-1].flat if kind is specgrad.Div)
    assert proved(z3.And(*(a == b for a, b in zip(pushed.flat, witness.flat, strict=True))), *given)
    symbols = [
        np.array([sympy.Symbol(str(c), real=True) for c in a.flat]).reshape(a.shape) for a in (*operands, *tangents)
    ]
    at = {symbol: (7 * n) % 31 for n, symbol in enumerate(s for a in symbols for s in a.flat)}
    _, pushed = op.jvp(symbols[: len(operands)], symbols[len(operands) :])
    witness = op(*map(Dual, symbols[: len(operands)], symbols[len(operands) :])).tangent
    assert [e.subs(at) for e in pushed.flat] == [e.subs(at) for e in witness.flat]


def test_z3_integers_divide_as_reals():
    n = z3.Int("n")
    average = AvgPool((2,))(np.array([n, n + 1], dtype=object))[0]
    assert proved(average * 2 == 2 * z3.ToReal(n) + 1)
