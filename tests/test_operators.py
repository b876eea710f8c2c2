"""Every operator against its definition: loops over cells in exact rationals and, bit for bit, in
float32."""

import copy
import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples, share

import specgrad
from specgrad import AvgPool, Conv, ConvTranspose, Dual, GlobalMaxPool, MaxPool, SmoothMaxPool
from specgrad.conformance import refusals, statements
from specgrad.conformance.cases import STRATEGIES
from specgrad.conformance.golden import FIXED
from specgrad.conformance.subjects.engines import Engine
from specgrad.ops import OPERATORS
from specgrad.ops.conv import Bilinear
from specgrad.ops.pool import Pool

pytestmark = pytest.mark.usefixtures("specification")

WINNERS = [
    ([[1, 2], [2, 0]], 1),
    ([[0, 0], [5, 3]], 2),
    ([[1, 5, 3]], 1),
]
"""Planes, and the flat index of their first winner."""

SUMS = [kind for kind in OPERATORS if "exp" not in kind.needs and kind is not ConvTranspose]


def test_every_operator_has_a_strategy():
    assert set(STRATEGIES) == set(OPERATORS)


@pytest.mark.parametrize("fixed", FIXED, ids=lambda f: repr(f.op))
def test_fixed_answers(fixed):
    assert refusals.fixed(Engine("reference"), fixed).words is None


@pytest.mark.parametrize(("plane", "winner"), WINNERS)
def test_first_winners(plane, winner):
    plane = np.array(plane, float)
    assert specgrad.max_pool(plane, plane.shape, return_indices=True)[1].item() == winner


def naively(case, operands, tangents, cotangent):
    if isinstance(case.op, Bilinear):
        return naive.conv(case.op, operands, tangents, cotangent)
    if not isinstance(case.op, Pool):
        return naive.network(case.op, operands, tangents, cotangent)
    value, pushed, pulled = naive.pool(case.op, operands[0], tangents[0], cotangent)
    return value, pushed, [pulled]


@pytest.mark.parametrize("kind", SUMS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("scalar", [Fraction, np.float32], ids=["exact", "float32 bits"])
def test_value_and_derivatives_are_the_definition(kind, scalar):
    """Float32 sums of these numbers are inexact, so equal bits show that the order of summation is
    kept."""

    def element(n):
        return (
            Fraction(n, 3)
            if scalar is Fraction
            else np.float32(n) * np.float32(1 / 3) + np.float32(n % 3) * np.float32(1e-4)
        )

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 60))
    def check(case):
        operands, tangents, cotangent = case.over(element)
        arrays = [operands, tangents, (cotangent,)]
        if scalar is np.float32:
            arrays = [
                tuple(a if a is None or a.dtype != object else a.astype(np.float32) for a in group) for group in arrays
            ]
        expected = naively(case, operands, tangents, cotangent)
        with specgrad.engine("reference"):  # other engines may sum in another order
            value, pushed = case.op.jvp(*arrays[:2])
            pulled = case.op.vjp(arrays[0], *arrays[2])
        assert value.shape == case.op.output_shape(*(a.shape for a in case.operands))
        assert list(value.flat) == expected[0]
        assert list(pushed.flat) == expected[1]
        for got, wanted in zip(pulled, expected[2], strict=True):
            assert np.array(got).tolist() == np.array(wanted).tolist()

    check()


@given(STRATEGIES[ConvTranspose])
@settings(max_examples=examples(100))
def test_conv_transpose_is_the_adjoint_of_conv(case):
    """⟨conv(y), x⟩ = ⟨y, conv_transpose(x)⟩ for the convolution with swapped weight axes,
    restricted to n outputs."""
    op, (x, weight, *bias) = case.op, case.operands
    adjoint = Conv(op.kernel_size, stride=op.stride, padding=op.padding, dilation=op.dilation, groups=op.groups)
    result = op(x, weight)
    sizes = x.shape[x.ndim - len(op.kernel_size) :]
    y = np.arange(result.size).reshape(result.shape) % 7 - 3
    back = adjoint(y, weight)[(..., *(slice(n) for n in sizes))]
    assert statements.inner(back, x) == statements.inner(y, result)
    if bias:
        across = (slice(None), *[None] * len(op.kernel_size))
        assert op(x, weight, *bias).tolist() == (result + bias[0][across]).tolist()


@given(STRATEGIES[Conv])
@settings(max_examples=examples(60))
def test_transposed_convolution_has_the_bits_of_convs_input_cotangent(case):
    op, (x, weight, *_) = case.op, case.operands
    g = case.cotangent.astype(np.float32) / np.float32(3)
    weight = weight.astype(np.float32) / np.float32(7)
    pulled = op.vjp((x.astype(np.float32), weight), g)[0]
    extra = [
        n - ((g.shape[g.ndim - len(op.kernel_size) + i] - 1) * s - a - b + d * (k - 1) + 1)
        for i, (n, k, s, (a, b), d) in enumerate(
            zip(
                x.shape[x.ndim - len(op.kernel_size) :], op.kernel_size, op.stride, op.padding, op.dilation, strict=True
            )
        )
    ]
    transposed = ConvTranspose(
        op.kernel_size,
        stride=op.stride,
        padding=op.padding,
        dilation=op.dilation,
        groups=op.groups,
        output_padding=extra,
    )
    assert transposed(g, weight).tolist() == pulled.tolist()


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_repr_can_be_pasted_back_and_equal_operators_hash_alike(kind):
    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 25))
    def check(case):
        again = eval(repr(case.op), {**vars(specgrad), "Fraction": Fraction})
        assert again == case.op
        assert hash(again) == hash(case.op)
        with pytest.raises(AttributeError):
            case.op.name = "another"

    check()


def test_a_hash_stays_in_its_process():
    op = MaxPool((2, 3), ties="split")
    assert {op: 1}[MaxPool((2, 3), ties="split")] == 1
    assert op not in {MaxPool((2, 3)), AvgPool((2, 3)), "MaxPool"}
    for again in (pickle.loads(pickle.dumps(op)), copy.deepcopy(op)):
        assert vars(again).keys() == {field.name for field in dataclasses.fields(op)}
        assert again == op
        assert hash(again) == hash(op)


def test_nan_rules():
    nan = float("nan")
    x = np.array([1.0, nan, 0.0, nan, 2.0])
    pool = MaxPool((5,))
    assert np.isnan(pool(x)).all()
    assert pool.vjp((x,), np.ones(1))[0].tolist() == [0, 0, 0, 1, 0]
    assert specgrad.max_pool(x, (5,), return_indices=True)[1].tolist() == [3]
    assert MaxPool((5,), ties="all").vjp((x,), np.ones(1))[0].tolist() == [0, 1, 0, 1, 0]
    assert MaxPool((5,), ties="split").vjp((x,), np.ones(1))[0].tolist() == [0, 0.5, 0, 0.5, 0]
    assert MaxPool((2,), stride=1)(x)[3:].tolist() == pytest.approx([nan], nan_ok=True)


def test_signed_zeros_tie_and_the_value_has_the_bits_of_the_first():
    for first, second in ((-0.0, 0.0), (0.0, -0.0)):
        for ties in ("first", "all", "split"):
            y = MaxPool((2,), ties=ties)(np.array([first, second]))
            assert np.signbit(y[0]) == np.signbit(first)
    assert MaxPool((2,), ties="split").vjp((np.array([-0.0, 0.0]),), np.ones(1))[0].tolist() == [0.5, 0.5]


def test_losers_are_selected_away_never_multiplied():
    inf = float("inf")
    x = np.array([1.0, 2.0])
    assert MaxPool((2,)).jvp((x,), (np.array([inf, 1.0]),))[1].tolist() == [1.0]
    assert Conv((2,), padding=1)(np.array([[1.0]]), np.array([[[inf, 2.0]]])).tolist() == [[2.0, inf]]
    g = np.array([inf])
    assert MaxPool((2,)).vjp((x,), g)[0].tolist() == [0.0, inf]


def test_windows_without_a_real_cell():
    x = np.array([5.0])
    pool = {"stride": 1, "padding": 1, "dilation": 2}
    y, at = specgrad.max_pool(x, (2,), **pool, return_indices=True)
    assert (y.tolist(), at.tolist()) == ([0.0], [-1])
    assert MaxPool((2,), **pool).vjp((x,), np.ones(1))[0].tolist() == [0.0]
    assert specgrad.avg_pool(x, (2,), **pool, count_include_pad=False).tolist() == [0.0]
    assert AvgPool((2,), **pool, count_include_pad=False).vjp((x,), np.ones(1))[0].tolist() == [0.0]
    assert specgrad.smooth_max_pool(x, (2,), **pool, beta=2.0).tolist() == [np.log(2) / 2]
    assert specgrad.smooth_max_pool(x, (2,), **pool, beta=2.0, pad="skip").tolist() == [0.0]


def test_smooth_maximum_of_infinite_cells_is_log_sum_exp():
    inf = float("inf")
    pool = SmoothMaxPool((2,), beta=2.0)
    for window, expected in (([inf, 1.0], inf), ([-inf, 1.0], 1.0), ([-inf, -inf], -inf), ([inf, -inf], inf)):
        assert pool(np.array(window)).tolist() == [expected]
    assert SmoothMaxPool((2,), beta=-2.0)(np.array([-inf, 1.0])).tolist() == [-inf]
    assert np.isnan(pool(np.array([np.nan, inf]))).all()


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9), st.sampled_from([1e-3, 1.0, 700.0, -1.0, -1e4]))
def test_smooth_maximum_never_overflows_and_bounds_the_maximum(window, beta):
    x = np.array(window)
    y = SmoothMaxPool((len(window),), beta=beta)(x)[0]
    assert np.isfinite(y)
    assert y >= x.max() if beta > 0 else y <= x.min()


def test_cotangents_are_one_per_operand_given():
    x, w = np.ones((1, 3)), np.ones((1, 1, 2))
    pulled = Conv((2,)).vjp((x, w, None), np.ones((1, 2)))
    assert len(pulled) == 3
    assert pulled[2] is None


def test_any_spatial_rank_and_any_batch():
    x = np.arange(2.0**7).reshape((2,) * 7)
    assert MaxPool((2,) * 5)(x).shape == (2, 2, 1, 1, 1, 1, 1)
    for kind in (MaxPool, AvgPool):
        assert kind(())(x).tolist() == x.tolist()
    assert SmoothMaxPool((), beta=3)(x).tolist() == x.tolist()
    assert specgrad.max_pool(x, (), return_indices=True)[1].sum() == 0
    assert specgrad.max_pool(np.zeros((0, 3, 4, 4)), (2, 2)).shape == (0, 3, 2, 2)
    assert specgrad.conv(np.zeros((0, 3, 4, 4)), np.zeros((5, 3, 2, 2))).shape == (0, 5, 3, 3)


def test_axes_put_windows_anywhere():
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 3))
    last = np.moveaxis(x, 3, 1)
    y, at = specgrad.max_pool(x, (2, 3), axes=(1, 2), return_indices=True)
    expected, expected_at = specgrad.max_pool(last, (2, 3), return_indices=True)
    assert np.moveaxis(y, 3, 1).tolist() == expected.tolist()
    assert np.moveaxis(at, 3, 1).tolist() == expected_at.tolist()
    turned, turned_at = specgrad.max_pool(x, (3, 2), axes=(2, 1), return_indices=True)
    assert turned.tolist() == y.tolist()
    assert (turned_at == at % 6 * 5 + at // 6).all()


def test_indices_of_many_short_windows():
    x = np.tile([[[1.0], [2.0]], [[4.0], [3.0]]], (5000, 1, 1))
    with specgrad.engine("reference"):
        at = specgrad.max_pool(x, (2, 1), return_indices=True)[1]
    assert np.array_equal(at.ravel(), np.arange(10_000) % 2 ^ 1)


def test_out_is_written_and_returned():
    x = np.arange(16.0).reshape(4, 4)
    out = np.full((2, 2), np.nan)
    assert specgrad.max_pool(x, (2, 2), out=out) is out
    assert out.tolist() == [[5, 7], [13, 15]]
    assert specgrad.avg_pool(x, (1, 1), out=x) is x


@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (1, 2, 5, 6, 7)], ids=["planes", "volumes"])
def test_out_may_lie_over_the_operand(shape):
    x = np.random.default_rng(0).normal(size=shape)
    window = {"kernel_size": (3,) * (len(shape) - 2), "stride": 1, "padding": 1}
    shifted = np.zeros(x.size + 1)
    for op in (MaxPool(**window), AvgPool(**window), SmoothMaxPool(**window, beta=1.0)):
        for name in ("cpu", "reference"):
            with specgrad.engine(name):
                y, over = op(x), shifted[1:].reshape(shape)
                over[...] = x
                assert op(over, out=over) is over
                assert np.array_equal(over, y)
                over[...] = x
                beside = op(over, out=shifted[:-1].reshape(shape))
                assert np.array_equal(beside, y)


def test_inputs_are_not_modified_and_strides_do_not_matter():
    base = np.random.default_rng(1).normal(size=(6, 8, 10))
    view = base[::2, ::-1, 1::3].transpose(2, 0, 1)
    before = base.copy()
    for op in (MaxPool((2, 3), stride=1), AvgPool((2, 3), stride=1), GlobalMaxPool(2), SmoothMaxPool((2, 2), beta=1)):
        dense = np.ascontiguousarray(view)
        assert op(view).tolist() == op(dense).tolist()
        g = np.ones(op.output_shape(view.shape))
        assert op.vjp((view,), g)[0].tolist() == op.vjp((dense,), g)[0].tolist()
    assert (base == before).all()


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_blocks_of_output_cells_change_nothing(kind, monkeypatch):
    """A kernel of any size is computed in blocks of bounded memory; the division into blocks
    changes no bit."""

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 15))
    def check(case):
        operands, _, g = case.over(np.dtype(np.float32))
        operands = tuple(a / np.float32(3) if a.dtype == np.float32 else a for a in operands)
        g = g / np.float32(3)
        results = []
        for cells in (1 << 20, 7):
            monkeypatch.setattr("specgrad.engines.reference.BLOCK", cells)
            results.append([case.op(*operands).tolist(), *(np.array(p).tolist() for p in case.op.vjp(operands, g))])
        assert results[0] == results[1]

    check()


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_second_order_by_nested_duals_is_symmetric(kind):
    """u·H·v = v·H·u, where H·v is the Dual tangent of the VJP; exactly, or up to the last digits of
    Decimals."""
    scalar = Decimal if "exp" in kind.needs else Fraction

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 15))
    def check(case):
        operands, along, g = case.over(scalar)
        other = tuple(v if v is None else v[..., ::-1] if v.ndim else v for v in along)

        def hessian(direction):
            moving = (x if v is None else Dual(x, v) for x, v in zip(operands, direction, strict=True))
            return [None if p is None else p.tangent for p in case.op.vjp(tuple(moving), g)]

        def paired(direction, curved):
            return sum(statements.inner(v, h) for v, h in zip(direction, hessian(curved), strict=True) if h is not None)

        left, right = paired(other, along), paired(along, other)
        assert statements.same(np.array(scalar(left)), np.array(scalar(right)))

    check()


def test_second_derivative_of_smooth_max_is_the_published_formula():
    """d(g w_i) = dg·w_i + g·β·w_i·(dx_i - Σ_j w_j dx_j)."""
    x, dx, beta = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0]), 1.7
    pool = SmoothMaxPool((3,), beta=beta)
    pulled = pool.vjp((Dual(x, dx),), Dual(np.array([2.0]), np.array([0.25])))[0]
    w = np.exp(beta * x) / np.exp(beta * x).sum()
    assert pulled.primal == pytest.approx(2 * w)
    assert pulled.tangent == pytest.approx(0.25 * w + 2 * beta * w * (dx - (w * dx).sum()))
