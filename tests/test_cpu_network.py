"""The NumPy engine of network operators against the specification."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from kinds import share

import specgrad as sg
from specgrad import dispatch
from specgrad.conformance.cases import STRATEGIES
from specgrad.engines import cpu, reference
from specgrad.engines.cpu import network


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", [k for k in network.RULES if k in STRATEGIES], ids=lambda k: k.__name__)
def test_value_and_derivatives_are_the_specifications(kind, dtype):
    """Sums have at most 27 terms here, of like size: a few units in the last place."""
    close = 64 * float(np.finfo(dtype).eps)

    @given(STRATEGIES[kind])
    @settings(max_examples=share(kind, 60))
    def check(case):
        operands, tangents, g = case.over(np.dtype(dtype))
        operands = tuple(np.asarray(x / dtype(3)) if x.dtype == dtype else x for x in operands)
        assert dispatch.choose(case.op, operands) is cpu
        results = []
        for engine in (network, reference):
            value, kept = engine.keep(case.op, operands)
            again = engine.recall(case.op, operands)
            out = np.full_like(value, np.nan)
            assert engine.forward(case.op, operands, out) is out
            moved = engine.push(case.op, operands, kept, tangents)
            pulled = engine.pull(case.op, operands, again, g)
            results.append([value, out, moved, *pulled])
        for got, wanted in zip(*results, strict=True):
            assert (got is None) == (wanted is None)
            if wanted is not None:
                assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
                size = max(1.0, float(np.abs(wanted).max(initial=0)))
                assert got == pytest.approx(wanted, rel=close, abs=close * size)

    check()


def test_special_values_are_those_of_the_specification():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])
    g = np.array([1.0, 2.0, np.inf, np.inf, np.nan, 3.0, np.nan])
    with sg.engine("reference"):
        expected = sg.relu(x), *sg.Relu().vjp((x,), g)
    with sg.engine("cpu"):
        found = sg.relu(x), *sg.Relu().vjp((x,), g)
    for got, wanted in zip(found, expected, strict=True):
        assert got.tobytes() == wanted.tobytes()
    rows = np.array([[np.inf, 0.0], [-np.inf, 0.0], [-np.inf, -np.inf], [np.nan, 0.0], [1e308, -1e308]])
    with sg.engine("reference"):
        expected = sg.log_softmax(rows), sg.LogSoftmax().vjp((rows,), np.ones_like(rows))[0]
    with sg.engine("cpu"):
        found = sg.log_softmax(rows), sg.LogSoftmax().vjp((rows,), np.ones_like(rows))[0]
    for got, wanted in zip(found, expected, strict=True):
        assert np.array_equal(got, wanted, equal_nan=True)


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
