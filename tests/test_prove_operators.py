"""`specgrad prove`: statements about operators, and the real terms that decide them; faulty
operators are refuted."""

import math
import random

import numpy as np
import pytest
import z3
from test_planted_faults import (
    clean_geometry,  # noqa: F401
    flipped_kernels,
    gradient_to_padding,
    zero_padding_in_max,
)
from test_prove import counterexample

from specgrad import AdaptiveMaxPool, AvgPool, Conv, ConvTranspose, GlobalMaxPool, Linear, MaxPool
from specgrad.engines import reference
from specgrad.ops import pool
from specgrad.prove import operators, reals, runner
from specgrad.prove.operators.vocabulary import Case

# Operators


CASES = [
    Case(MaxPool((2,), stride=1, padding=1), ((3,),)),
    Case(MaxPool((2,), stride=1, ties="all"), ((3,),)),
    Case(MaxPool((3,), stride=1, padding=((0, 1),), ties="split"), ((3,),)),
    Case(MaxPool((2, 2), stride=1), ((2, 3),)),
    Case(MaxPool((2,), padding=1, dilation=2), ((1,),)),
    Case(AdaptiveMaxPool((2, 2)), ((2, 3),)),
    Case(GlobalMaxPool(2), ((2, 2),)),
    Case(AvgPool((2, 2), padding=1, count_include_pad=False), ((2, 2),)),
    Case(AvgPool((2,), divisor_override=3, ceil_mode=True), ((3,),)),
    Case(Conv((2,), stride=2, padding=1, groups=2), ((2, 4), (2, 1, 2))),
    Case(ConvTranspose((2,), stride=2, output_padding=1), ((1, 2), (1, 1, 2))),
    Case(Linear(), ((2,), (3, 2))),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_statements_about_an_operator(case):
    found = list(operators.run(case, math.inf))
    assert found
    assert [one for one in found if not one.as_stated] == []


def test_every_statement_about_operators_is_sampled():
    assert {s.words for s in operators.STATEMENTS if any(map(s.takes, CASES))} == {
        s.words for s in operators.STATEMENTS
    }


def test_believed_statements_are_refuted_by_counterexamples_to_paste(capsys):
    found = {one.words: one.verdict for case in CASES[1:4:2] for one in operators.run(case, math.inf) if not one.holds}
    assert len(found) == 2
    for verdict in found.values():
        counterexample(verdict, capsys)


def last_winner(patch):
    patch.setattr("specgrad.scalars.z3.Terms.gt_of", lambda self, a, b: a >= b)
    patch.setattr("specgrad.scalars.base.Elements.gt", lambda self, a, b: np.greater_equal(a, b))


def shared_by_all_taps(patch):
    """Each tied cell gets 1 / taps."""

    def row(self, S, window, kept):
        best, _ = kept
        tied = [self._is_tied(S, tap.real, tap.cells(0), best) for tap in window]
        for tap, present in zip(window, tied, strict=True):
            yield tap.entry(0, present, over=S.constant(len(tied)))

    patch.setattr(pool.Maximum, "row", row)


def one_sided(patch):
    """A VJP that scatters to the neighbouring cell."""
    right = reference.pull
    patch.setattr(reference, "pull", lambda *arguments, **more: tuple(np.roll(c, 1) for c in right(*arguments, **more)))


OPERATOR_FAULTS = [
    (last_winner, CASES[0], "the slopes are what"),
    (zero_padding_in_max, CASES[0], "max is the least upper bound"),
    (shared_by_all_taps, CASES[2], "the slopes of a window with a real cell add up to 1"),
    (one_sided, CASES[0], "JVP and VJP are adjoint"),
    (gradient_to_padding, CASES[7], "the row is the derivative"),
    (flipped_kernels, CASES[9], "transposed convolution is the adjoint"),
]


@pytest.mark.usefixtures("clean_geometry")
@pytest.mark.parametrize(("fault", "case", "caught_by"), OPERATOR_FAULTS, ids=[f[0].__name__ for f in OPERATOR_FAULTS])
def test_faulty_operator_is_refuted(fault, case, caught_by, monkeypatch, capsys):
    fault(monkeypatch)
    (found,) = [one for one in operators.run(case, math.inf) if one.words.startswith(caught_by)]
    counterexample(found.verdict, capsys)


def test_a_fault_of_ours_is_undecided(monkeypatch):
    monkeypatch.setattr(operators, "run", lambda task, deadline: 1 / 0)
    (found,) = runner.decide(("operators", CASES[0]))
    assert (found.as_stated, found.verdict.status) == (False, "undecided")
    assert "ZeroDivisionError" in found.verdict.reason


# Real terms


def random_term(draw, depth, cells, weights):
    """A term of the kinds in specifications, and its value as a function of numbers."""
    kind = draw.choice(("cell", "weight", "number") if depth == 0 else ("add", "sub", "mul", "where", "over", "neg"))
    if kind in ("cell", "weight"):
        return draw.choice(cells if kind == "cell" else weights)
    if kind == "number":
        return z3.RealVal(draw.randint(-2, 2))
    a, b = (random_term(draw, depth - 1, cells, weights) for _ in range(2))
    x, y = draw.choice(cells), draw.choice(cells)
    return {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "neg": -a,
        "where": z3.If(x > y, a, b),
        "over": a / (z3.If(x == y, z3.RealVal(2), z3.RealVal(1))),
    }[kind]


@pytest.mark.parametrize("seed", range(30))
def test_a_term_is_its_polynomial(seed):
    draw = random.Random(seed)
    cells, weights = list(reals.variables("x", (3,))), list(reals.variables("w", (3,)))
    made = random_term(draw, 4, cells, weights)
    read = reals.Reading(made)
    polynomial = read.polynomial(made)
    assert all(
        name in {str(v) for v in (*cells, *weights)} - read.fixed for monomial in polynomial for name in monomial
    )
    for _ in range(5):
        numbers = [(v, z3.RealVal(draw.randint(-1, 1))) for v in (*cells, *weights)]
        total = sum(
            (
                reals._term(value) * math.prod((z3.Real(name) for name in monomial), start=z3.RealVal(1))
                for monomial, value in polynomial.items()
            ),
            start=z3.RealVal(0),
        )
        assert z3.simplify(z3.substitute(made - total, *numbers)).as_fraction() == 0


def test_equations_that_hold_for_some_numbers_only_are_not_proved():
    x, y, w = z3.Reals("x y w")
    for left, right in ((x * w, y * w), (z3.If(x > y, w, 0), w), (x * x, x), (w / z3.If(x == y, z3.RealVal(2), 1), w)):
        assert reals.counterexample(reals.Sequent(reals.equal([left], [right])), 3, math.inf) is not None
    for left, right in ((x * (y + w), x * w + y * x), (z3.If(x > y, w, 0) + z3.If(x <= y, w, 0), w)):
        assert reals.counterexample(reals.Sequent(reals.equal([left], [right])), 3, math.inf) is None


def test_divisors_beyond_the_count_are_not_left_out():
    """A divisor with the possible value 3 is not assumed to be 1 or 2."""
    x = z3.Real("x")
    varying = z3.If(x > 0, z3.RealVal(1), z3.RealVal(3))
    claim = reals.Sequent([1 / varying >= z3.RealVal("1/2")])
    assert reals.counterexample(claim, 2, math.inf) is not None
    assert reals.counterexample(claim, 3, math.inf) is not None
    assert reals.counterexample(reals.Sequent([1 / varying >= z3.RealVal("1/3")]), 3, math.inf) is None
