"""Every operator over every scalar: the Dual witness, enclosures, half floats, numbers of any size,
nested Duals."""

import functools
import itertools
from decimal import Decimal
from fractions import Fraction

import flint
import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples, share

import specgrad
from specgrad import AvgPool, Conv, Dual, MaxPool, SmoothMaxPool, SpecgradError
from specgrad.conformance import bounds, statements
from specgrad.conformance.cases import STRATEGIES, as_scalars
from specgrad.ops import OPERATORS
from specgrad.ops.conv import Bilinear
from specgrad.ops.pool import Pool

pytestmark = pytest.mark.usefixtures("specification")

mpmath.mp.dps = 40

WINDOWED = [kind for kind in OPERATORS if issubclass(kind, Pool | Bilinear) and kind is not specgrad.LpPool]

EXACT = {"Fraction": lambda n: Fraction(n, 3), "fmpq": lambda n: flint.fmpq(n, 3), "int": int, "arb": flint.arb}
ROUNDED = {"Decimal": lambda n: Decimal(n) / 4, "mpf": lambda n: mpmath.mpf(n) / 4, "arb": lambda n: flint.arb(n) / 4}


def lacks(op, scalar):
    """The functions that the operator needs and this exact scalar lacks."""
    missing = {"Fraction": {"exp"}, "fmpq": {"exp"}, "int": {"division", "exp"}, "arb": set()}[scalar]
    return missing & set(op.needs)


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("scalar", EXACT)
def test_dual_witness_equals_the_row_over_exact_scalars(kind, scalar):
    @given(STRATEGIES[kind])
    @settings(
        max_examples=share(kind, 40 if scalar == "Fraction" else 15)
    )  # one row serves all scalars; the others test their own operations
    def check(case):
        if scalar == "int" and getattr(case.op, "ties", None) == "split":
            return
        if lacks(case.op, scalar) and any(a.size for a in case.operands):
            with pytest.raises(SpecgradError, match=r"do not divide|no exp|no roots"):
                case.op(*case.over(EXACT[scalar])[0])
            return
        assert statements.dual_witness(case, EXACT[scalar]) is None
        assert statements.adjoint(case, EXACT[scalar]) is None

    check()


def rational(number):
    """A rounded scalar (an enclosure's midpoint) as an exact Fraction."""
    if isinstance(number, flint.arb):
        return Fraction(str(number.mid().fmpq()))
    if isinstance(number, mpmath.mpf):
        sign, man, exp, _ = number._mpf_
        return (-1) ** sign * Fraction(int(man)) * Fraction(2) ** exp
    return Fraction(number)


@pytest.mark.parametrize("kind", [k for k in OPERATORS if k not in WINDOWED], ids=lambda k: k.__name__)
@pytest.mark.parametrize("scalar", ROUNDED)
def test_rounded_scalars_agree_with_the_float64_result(kind, scalar):
    """Operators with few operations per cell: with more digits, results agree up to the last bits
    of float64."""

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 20))
    def check(case):
        operands, _, g = case.over(ROUNDED[scalar])
        floats = tuple(a if a.dtype != object else np.vectorize(float, otypes=[float])(a) for a in operands)
        results = case.op(*operands), *case.op.vjp(operands, g)
        expected = case.op(*floats), *case.op.vjp(floats, np.vectorize(float, otypes=[float])(g))
        for got, wanted in zip(results, expected, strict=True):
            if wanted is None:
                assert got is None
                continue
            assert np.vectorize(float, otypes=[float])(got) == pytest.approx(wanted, rel=1e-12, abs=1e-12)

    check()


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda k: k.__name__)
@pytest.mark.parametrize("scalar", ROUNDED)
def test_rounded_scalars_lie_within_the_bound_of_float64(kind, scalar):
    """Scalars with at least 53 bits: value, JVP, Dual witness and VJP are within float64's
    bound."""

    @given(STRATEGIES[kind])
    @settings(max_examples=examples(20))
    def check(case):
        floats = [tuple((a / 4) for a in group) for group in (case.operands, case.tangents, (case.cotangent,))]
        operands, tangents, (g,) = (
            tuple(as_scalars(a, ROUNDED[scalar]) for a in group)
            for group in (case.operands, case.tangents, (case.cotangent,))
        )
        value, pushed = case.op.jvp(operands, tangents)
        witness = case.op(*(Dual(x, t) for x, t in zip(operands, tangents, strict=True)))
        pulled = case.op.vjp(operands, g)
        if kind is SmoothMaxPool:
            judged_value, judged_push, *judged_pull = bounds.smooth(case.op, floats[0][0], floats[1][0], floats[2][0])
        elif "Max" in kind.__name__ or kind is specgrad.MinPool:
            exact = case.op(*map(bounds.fractions, floats[0]))
            judged_value = bounds.Judged(exact, 0 * exact)
            judged_push, judged_pull = bounds.jvp(case.op, *floats[:2]), bounds.vjp(case.op, floats[0], floats[2][0])
        else:
            judged_value = bounds.value(case.op, floats[0])
            judged_push, judged_pull = bounds.jvp(case.op, *floats[:2]), bounds.vjp(case.op, floats[0], floats[2][0])
        claims_of = [
            (judged_value, value),
            (judged_value, witness.primal),
            (judged_push, pushed),
            *zip(judged_pull, pulled, strict=True),
        ]
        if getattr(case.op, "ties", "first") == "first":
            claims_of.append((judged_push, witness.tangent))
        for judged, got in claims_of:
            exact = np.array([*map(rational, got.flat), None], dtype=object)[:-1].reshape(got.shape)
            assert np.all(np.abs(exact - judged.exact) <= judged.bound)

    check()


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_dual_witness_and_row_share_the_bound_over_floats(kind, dtype):
    @given(STRATEGIES[kind])
    @settings(max_examples=examples(20))
    def check(case):
        operands, tangents = (
            tuple((a / 3).astype(dtype) for a in group)
            for group in (statements.without_ties(case.op, case.operands), case.tangents)
        )
        _, pushed = case.op.jvp(operands, tangents)
        witness = case.op(*(Dual(x, t) for x, t in zip(operands, tangents, strict=True))).tangent
        if kind is SmoothMaxPool:
            judged = bounds.smooth(case.op, *operands, *tangents, case.cotangent.astype(dtype))[1]
        else:
            judged = bounds.jvp(case.op, operands, tangents)
        assert judged.holds(pushed)
        assert judged.worst(witness) <= 1

    check()


@pytest.mark.parametrize("kind", [k for k in OPERATORS if "exp" not in k.needs], ids=lambda k: k.__name__)
def test_balls_enclose_the_exact_result(kind):
    """Operands with a radius: for all real numbers in the operands' balls, value and VJP are in the
    resulting balls."""

    @given(STRATEGIES[kind], st.integers(0, 2**32 - 1))
    @settings(max_examples=share(kind, 25))
    def check(case, seed):
        random = np.random.default_rng(seed)
        radius = Fraction(1, 2)

        def within(array):
            return as_scalars(array, lambda n: n + radius * Fraction(int(random.integers(-8, 9)), 8))

        balls = case.over(lambda n: flint.arb(n, 0.5))[0]
        whole = [slot.integer for slot in case.op.slots]
        inside = tuple(a if w else within(a) for a, w in zip(case.operands, whole, strict=False))
        g = case.cotangent
        results = case.op(*balls), *case.op.vjp(balls, as_scalars(g, flint.arb))
        truths = case.op(*inside), *case.op.vjp(inside, as_scalars(g, Fraction))
        for ball, truth in zip(results, truths, strict=True):
            if truth is None:
                assert ball is None
                continue
            for b, t in zip(ball.flat, truth.flat, strict=True):
                assert (b * t.denominator).contains(flint.fmpz(t.numerator))  # t itself would be rounded to a ball

    check()


@given(STRATEGIES[SmoothMaxPool])
@settings(max_examples=examples(40))
def test_balls_enclose_the_smooth_maximum(case):
    """Enclosures at 30 bits contain those of the same numbers at 200 bits, which are a million
    times narrower."""
    balls, g = as_scalars(case.operands[0], flint.arb), as_scalars(case.cotangent, flint.arb)
    results = []
    for bits in (30, 200):
        with flint.ctx.workprec(bits):
            results.append((case.op(balls), case.op.vjp((balls,), g)[0]))
    for wide, narrow in zip(*results, strict=True):
        for w, n in zip(wide.flat, narrow.flat, strict=True):
            assert w.contains(n)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=str)
@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_half_floats_are_computed_in_float32_and_rounded_once(kind, dtype):
    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 15))
    def check(case):
        labels = [slot.integer for slot in case.op.slots]
        operands = tuple(a if w else (a / 3).astype(dtype) for a, w in zip(case.operands, labels, strict=False))
        wide = tuple(a if w else a.astype(np.float32) for a, w in zip(operands, labels, strict=False))
        g = (case.cotangent / 3).astype(dtype)
        results = case.op(*operands), *case.op.vjp(operands, g)
        expected = case.op(*wide), *case.op.vjp(wide, g.astype(np.float32))
        for got, wanted in zip(results, expected, strict=True):
            if wanted is None:
                continue
            assert got.dtype == dtype
            assert got.tobytes() == wanted.astype(dtype).tobytes()

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "longdouble", "int8", "uint16", "int64", ">f8", ">i4"])
def test_results_keep_the_dtype(dtype):
    x = np.arange(9).reshape(1, 3, 3).astype(dtype)
    for y in (
        specgrad.max_pool(x, (2, 2)),
        specgrad.conv(x, x[None, :, :2, :2]),
        MaxPool((3, 3)).vjp((x,), x[:, :1, :1])[0],
    ):
        assert y.dtype == np.dtype(dtype).newbyteorder("=")


def test_complex_numbers_convolve():
    x, w = np.array([[1 + 2j, 3j]]), np.array([[[2 - 1j]]])
    assert specgrad.conv(x, w).tolist() == [[4 + 3j, 3 + 6j]]
    assert Conv((1,)).vjp((x, w), np.array([[1j, 0]]))[0].tolist() == [[1 + 2j, 0]]
    with pytest.raises(SpecgradError, match="no order"):
        specgrad.max_pool(x, (1,))
    for average in (specgrad.AvgPool((1,)), specgrad.GlobalAvgPool(1), specgrad.AdaptiveAvgPool((1,))):
        with pytest.raises(SpecgradError, match="only convolution is defined; average the real and imaginary parts"):
            average(x)
    assert specgrad.conv(x, np.full((1, 1, 2), 0.5 + 0j)).tolist() == [[0.5 + 2.5j]]  # the message's advice


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 20)), min_size=1, max_size=6))
def test_the_maximum_of_balls_is_no_wider_than_flints_own(parts):
    balls = np.array([flint.arb(mid / 2, radius / 4) for mid, radius in parts], object)
    wide = functools.reduce(flint.arb.max, balls)
    assert wide.contains(specgrad.global_max_pool(balls, 1).item())
    for mids in itertools.product(*([b.lower(), b.upper()] for b in balls)):  # contains every maximum
        assert specgrad.global_max_pool(balls, 1).item().contains(max(mids))
    least = functools.reduce(flint.arb.min, balls)
    pair = balls[:1], balls[-1:]
    for got, own in (
        (-specgrad.global_max_pool(-balls, 1).item(), least),
        (specgrad.maximum(*pair).item(), pair[0].item().max(pair[1].item())),
        (specgrad.minimum(*pair).item(), pair[0].item().min(pair[1].item())),
        (specgrad.relu(balls[:1]).item(), balls[0].max(flint.arb(0))),
        (specgrad.max_pool(Dual(balls, balls), balls.shape).primal.item(), wide),
    ):
        assert own.contains(got)


def test_decimal_nan_and_infinity_follow_the_rules():
    x = as_scalars(np.array([1, 0, 3]), Decimal)
    x[1] = Decimal("NaN")
    assert MaxPool((3,))(x)[0].is_nan()
    assert MaxPool((3,)).vjp((x,), np.array([1], dtype=object))[0].tolist() == [0, 1, 0]
    x[1] = Decimal("Infinity")
    assert SmoothMaxPool((3,), beta=1)(x)[0] == Decimal("Infinity")
    x[2] = -x[1]
    assert AvgPool((3,))(x)[0].is_nan()
    weight = as_scalars(np.array([[[0, 1]]]), Decimal)
    assert Conv((2,), padding=((1, 0),))(x[None, 1:2], weight)[0, 0] == Decimal("Infinity")


def test_mpf_infinities_give_nan_slopes_as_floats_do():
    x = np.array([mpmath.mpf("-inf")] * 2, dtype=object)
    pool = SmoothMaxPool((2,), beta=1)
    assert pool(x)[0] == mpmath.mpf("-inf")
    assert all(mpmath.isnan(w) for w in pool.vjp((x,), np.array([mpmath.mpf(1)]))[0])
    assert np.isnan(pool.vjp((np.array([-np.inf, -np.inf]),), np.ones(1))[0]).all()


@pytest.mark.parametrize("scalar", [Fraction, Decimal, mpmath.mpf, flint.fmpq, flint.arb, z3.RealVal, sympy.Integer])
def test_integers_among_scalars_are_constants_of_any_size(scalar):
    """Also NumPy's integers, whose own arithmetic would overflow."""
    for big in (2**62, np.int64(2**62)):
        x = np.array([scalar(1), big, big], dtype=object)
        total = Conv((3,))(x[None], np.array([[[1, 2, 2]]]))[0, 0]
        if scalar is flint.arb:
            assert total.contains(2**64 + 1)
        else:
            assert str(z3.simplify(total) if scalar is z3.RealVal else total * 1) in (str(2**64 + 1), f"{2**64 + 1}.0")


def test_fractions_of_numpy_integers_do_not_wrap_round():
    x = np.array([Fraction(np.int64(2**62), np.int64(1)), Fraction(1, 2)], dtype=object)
    assert AvgPool((2,))(x).tolist() == [Fraction(2**63 + 1, 4)]
    assert AvgPool((3,))(np.array([Fraction(1, 2), 1, np.int64(2)], dtype=object)).tolist() == [Fraction(7, 6)]
    assert Conv((2,))(np.array([[Fraction(1, 2), 1]], dtype=object), np.array([[[1, 2]]])).tolist() == [
        [Fraction(5, 2)]
    ]


def test_an_object_array_of_duals_is_the_dual_of_two_arrays():
    x = np.array([Dual(Fraction(1), Fraction(5)), Dual(Fraction(3), Fraction(7)), 2], dtype=object)
    y = MaxPool((3,))(x)
    assert (y.primal.tolist(), y.tangent.tolist()) == ([3], [7])
    assert AvgPool((3,))(x).tangent.tolist() == [4]


def test_dual_arithmetic():
    z = Dual(2.0, 1.0)
    for result, primal, tangent in (
        (z + 1, 3, 1),
        (1 + z, 3, 1),
        (z - 1, 1, 1),
        (1 - z, -1, -1),
        (z * 3, 6, 3),
        (z * z, 4, 4),
        (z / 4, 0.5, 0.25),
        (1 / z, 0.5, -0.25),
        (z / z, 1, 0),
        (-z, -2, -1),
        (z - np.array([1], np.uint8), [1], [1]),
        (z - z, 0, 0),
        (np.array([5.0]) - z, [3], [-1]),
        (np.ones(2) + z, [3, 3], [1, 1]),
    ):
        assert np.all(result.primal == np.array(primal))
        assert np.all(result.tangent == np.array(tangent))


def test_nested_duals_give_the_second_derivative():
    """(x²)'' = 2 through a convolution of x with itself."""
    x = Dual(Dual(np.array([[3.0]]), np.array([[1.0]])), Dual(np.array([[1.0]]), np.array([[0.0]])))
    y = Conv((1,))(
        x, Dual(Dual(x.primal.primal[None], x.primal.tangent[None]), Dual(np.ones((1, 1, 1)), np.zeros((1, 1, 1))))
    )
    assert y.tangent.tangent.item() == 2


def test_derivatives_of_plain_operands_along_duals():
    """A cotangent may have more levels than the operands: the VJP is linear in the cotangent."""
    x = np.array([1.0, 4.0, 2.0])
    deep = MaxPool((3,))(Dual(x, Dual(x, 2 * x)))
    assert (deep.primal.primal.tolist(), deep.tangent.tangent.tolist()) == ([4], [8])
    pulled = MaxPool((3,)).vjp((x,), Dual(np.array([2.0]), np.array([5.0])))[0]
    assert (pulled.primal.tolist(), pulled.tangent.tolist()) == ([0, 2, 0], [0, 5, 0])
