"""The NumPy engine of network operators against the specification."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from codegen_pools import Run, emitted
from hypothesis import given, settings
from kinds import in_turn, share
from rounding import Rounded, Rounded32, allowed, long_numbers

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines import cpu, reference
from specgrad.engines.cpu import limits, network
from specgrad.engines.cpu.codegen.values import CELLS
from specgrad.prove.interpreter.domains import Rationals


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Let all arrays be large, and those of twelve cells be computed in pieces."""
    monkeypatch.setattr(network, "FEW", 1)
    monkeypatch.setattr(limits, "PIECE", 3)
    network.cellwise.cache_clear()
    yield
    network.cellwise.cache_clear()


@pytest.mark.parametrize(
    ("kind", "dtype", "exact"),
    [
        (kind, *number)
        for turn, kind in enumerate(k for k in network.RULES if k in STRATEGIES)
        for number in in_turn([(np.float32, Rounded32), (np.float64, Rounded)], turn)
    ],
    ids=lambda one: one.__name__,
)
def test_value_and_derivatives_are_the_specifications_within_the_derived_bound(kind, dtype, exact):
    """Both engines satisfy the bound from the specification over numbers that carry their error
    bound (`rounding`)."""

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 60))
    def check(case):
        operands, tangents, g = case.over(np.dtype(dtype))
        operands = tuple(np.asarray(x / dtype(3)) if x.dtype == dtype else x for x in operands)
        assert dispatch.choose(case.op, operands) is cpu

        def lifted(x):
            return (
                np.asarray(np.frompyfunc(lambda e: exact(float(e)), 1, 1)(x), object)
                if x is not None and x.dtype == dtype
                else x
            )

        with long_numbers(), np.errstate(all="ignore"):
            bounds = results(reference, case.op, *(tuple(map(lifted, xs)) for xs in (operands, tangents)), lifted(g))
            for engine in (network, reference):
                found = results(engine, case.op, operands, tangents, g)
                out = np.full_like(found[0], np.nan)
                assert engine.forward(case.op, operands, out) is out
                np.testing.assert_array_equal(out, found[0])
                for got, bound in zip(found, bounds, strict=True):
                    assert (got is None) == (bound is None)
                    if bound is not None:
                        assert (got.shape, got.dtype) == (bound.shape, dtype)
                        allowed(bound, got)

    check()


def results(engine, op, operands, tangents, g):
    value, kept = engine.keep(op, operands)
    moved = engine.push(op, operands, kept, tangents)
    return [value, moved, *engine.pull(op, operands, engine.recall(op, operands), g)]


def shares(rows):
    """Values and derivatives of what divides exponentials by their sum."""
    found = [(kind()(rows), *kind().vjp((rows,), np.ones_like(rows))) for kind in (sg.LogSoftmax, sg.Softmax)]
    losses = [(row, np.array(label)) for row in rows for label in (0, 1)]
    found += [(sg.CrossEntropy()(*one), sg.CrossEntropy().vjp(one, np.ones(()))[0]) for one in losses]
    return [one for pair in found for one in pair]


def test_special_values_are_those_of_the_specification():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])
    g = np.array([1.0, 2.0, np.inf, np.inf, np.nan, 3.0, np.nan])
    with sg.engine("reference"):
        expected = sg.relu(x), *sg.Relu().vjp((x,), g)
    with sg.engine("cpu"):
        found = sg.relu(x), *sg.Relu().vjp((x,), g)
    for got, wanted in zip(found, expected, strict=True):
        assert got.tobytes() == wanted.tobytes()
    rows = np.array([[np.inf, 0.0], [np.inf, 1e3], [-np.inf, 0.0], [-np.inf] * 2, [np.nan, 0.0], [1e308, -1e308]])
    with sg.engine("reference"):
        expected = shares(rows)
    with sg.engine("cpu"):
        found = shares(rows)
    for got, wanted in zip(found, expected, strict=True):
        assert np.array_equal(got, wanted, equal_nan=True)


@pytest.mark.parametrize("cells", [6, 7, 8, 17, 35])
@pytest.mark.parametrize("what", ["gate", "share"])
def test_the_kernel_of_two_arrays_is_exact_and_stays_inside_them(what, cells):
    random = np.random.default_rng(cells)
    a, b = (random.integers(-2, 3, cells) * Fraction(1) for _ in range(2))
    b[b == 0] = Fraction(3)
    with emitted(VECTOR=8):
        step = network.cellwise.__wrapped__(what, cells, np.dtype(np.float32))
    run = Run(Rationals())
    for name, array in (("a", a), ("b", b)):
        run.give(name, CELLS["float32"], array.tolist())
    run.take("y", CELLS["float32"], cells)
    run.step(step)
    assert (run.numbers("y", (cells,)) == (np.where(a > 0, b, 0) if what == "gate" else a / b)).all()


@pytest.mark.parametrize("kind", [sg.Relu, sg.Exp, sg.Add])
def test_results_may_lie_over_what_is_read(kind):
    """In the same cells, or some cells before or behind, where pieces would read what others have
    written."""
    op, line = kind(), np.random.default_rng(0).normal(size=50).astype(np.float32)
    for begin in (0, 3, 5):
        memory = line.copy()
        xs = (memory[3:48],) * (2 if kind is sg.Add else 1)
        expected = op(*(x.copy() for x in xs))
        assert np.array_equal(network.forward(op, xs, memory[begin : begin + 45]), expected)
        assert np.array_equal(memory[begin : begin + 45], expected)


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("kind", [k for k in network.RULES if k in STRATEGIES], ids=lambda k: k.__name__)
def test_half_floats_are_computed_in_float32_and_rounded_once(kind, half):
    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 30))
    def check(case):
        operands, tangents, g = case.over(np.dtype(np.float32))

        def narrowed(x):
            return np.asarray(x / np.float32(3)).astype(half) if x is not None and x.dtype == np.float32 else x

        def wide(x):
            return x.astype(np.float32) if x is not None and x.dtype == half else x

        operands, tangents, g = tuple(map(narrowed, operands)), tuple(map(narrowed, tangents)), narrowed(g)
        assert dispatch.choose(case.op, operands) is cpu
        results = []
        for change in (narrowed, wide):
            given = operands if change is narrowed else tuple(map(wide, operands))
            moved, arriving = (tangents, g) if change is narrowed else (tuple(map(wide, tangents)), wide(g))
            value, kept = network.keep(case.op, given)
            results.append(
                [value, network.push(case.op, given, kept, moved), *network.pull(case.op, given, kept, arriving)]
            )
        for got, wanted in zip(*results, strict=True):
            assert (got is None) == (wanted is None)
            if wanted is not None:
                assert got.dtype == half
                assert got.tobytes() == wanted.astype(half).tobytes()

    check()


def test_what_it_does_not_take_goes_to_the_specification():
    for x in (
        np.ones(2, int),
        np.ones(2, object),
        sg.Dual(np.ones(2), np.ones(2)),
        [1.0, 2.0],
        np.ones(2, ">f8"),
    ):
        assert dispatch.choose(sg.Relu(), (x,)) is reference
    assert dispatch.choose(sg.Add(), (np.ones(2), np.ones(2, np.float32))) is reference
    assert dispatch.choose(sg.MaxPool((2,)), (np.ones(2),)) is cpu


@pytest.mark.parametrize("cotangent", [np.float64(0.3), 0.3, np.array(0.3)], ids=["scalar", "number", "array"])
def test_a_cotangent_of_one_cell_is_taken_as_an_array(cotangent, monkeypatch):
    monkeypatch.setattr(cpu.fallback, "pull", None)
    logits, labels = np.arange(8.0).reshape(2, 4), np.array([3, 0])
    found, _ = sg.CrossEntropy().vjp((logits, labels), cotangent)
    np.testing.assert_array_equal(found, sg.CrossEntropy().vjp((logits, labels), np.full((), 0.3))[0])


@pytest.mark.parametrize("dtype", [np.uint64, np.int8, ">u8"])
def test_labels_are_of_any_integers(dtype):
    logits, labels = np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 3, 1])
    assert sg.cross_entropy(logits, labels.astype(dtype)) == sg.cross_entropy(logits, labels)
