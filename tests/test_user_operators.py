"""`specgrad check file.py:Operator`: users' operators, whose rows are compared with their
values."""

import re
from pathlib import Path

import numpy as np
import own_operators
import pytest
from kinds import effort
from test_counterexamples import pasted
from typer.testing import CliRunner

from specgrad.cli import app
from specgrad.conformance import operator_search
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.subject import BadSubject
from specgrad.conformance.trial import Here
from specgrad.conformance.user_operators import describe
from specgrad.ops import OPERATORS

FILE = Path(__file__).parent / "own_operators.py"
EXAMPLES = effort(12, 25)
STATED = [claim for claim in CLAIMS if CLAIMS[claim].stated]


def cells_of(found, place="", examples=EXAMPLES, claims=tuple(CLAIMS)):
    subject = Here(found, place, describe(found))
    return {cell.claim: cell for cell in operator_search.cells(subject, examples, 4.0, 0, claims, lambda: None)}


@pytest.mark.parametrize(
    "name", ["EnergyPool", "AdaptiveEnergy", "GlobalEnergy", "Product", "Odd", "pool", "cube", "log"]
)
def test_right_operators_hold(name):
    cells = cells_of(getattr(own_operators, name))
    assert {claim: cell.status for claim, cell in cells.items()} == dict.fromkeys([*STATED, "refuses"], "holds")
    assert all(cell.cases >= effort(4, 7) for cell in cells.values())


WRONG = {
    "SlopeInPadding": ({"witness", "second"}, None),
    "HalfTheSlope": ({"witness", "second"}, None),
    "WrongHint": ({"second"}, None),
    "squared": ({"witness", "second"}, None),
    "TakesAnything": ({"refuses"}, None),
    "WrongShape": ({*STATED}, ValueError),
    "Raises": ({*STATED}, KeyError),
}
"""The claims that an operator breaks, and the errors that its counterexamples raise."""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operators_are_found_with_a_small_counterexample_that_runs(name):
    broken, error = WRONG[name]
    cells = cells_of(getattr(own_operators, name), f"{FILE}:{name}")
    assert {claim for claim, cell in cells.items() if cell.status == "differs"} == broken
    for claim in broken:
        for found in cells[claim].differences:
            if error:
                with pytest.raises(error):
                    pasted(found.python)
            else:
                printed = pasted(found.python)
                assert claim == "refuses" or len(set(printed)) > 1
                (line,) = re.findall(r"^inputs = (.*)$", found.python, re.MULTILINE) or ["()"]
                assert sum(x.size for x in eval(line, {"np": np, "number": np.asarray})) <= (
                    40 if claim == "refuses" else 4
                )


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda k: k.__name__)
def test_our_own_operators_hold_by_strategies_from_their_parameters(kind):
    """No operator differs; pooling and pointwise operators, whose parameters can be guessed, are
    tried often."""
    try:
        known = describe(kind)
    except BadSubject:
        pytest.skip("nobody can guess its parameters")
    cells = cells_of(kind, examples=effort(14, 20), claims=("shape", "adjoint", "witness", "second", "refuses"))
    status = {cell.status for cell in cells.values()}
    assert status <= ({"holds", "not tried"} if known.window == "any" else {"holds"})
    assert known.window == "any" or all(
        cell.cases >= effort(6, 10) for claim, cell in cells.items() if claim != "refuses"
    )


def run(*words):
    return CliRunner().invoke(app, ["check", *words, "--quick"], env={"COLUMNS": "200"})


def test_the_command_checks_operators():
    right, wrong = run(f"{FILE}:EnergyPool"), run(f"{FILE}:SlopeInPadding", "--claim", "witness")
    assert (right.exit_code, "energy_pool: holds in" in right.output) == (0, True)
    assert wrong.exit_code == 1
    assert "SlopeInPadding(kernel_size=(1,), padding=((0, 1),)): the JVP is" in wrong.output


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Unknown", "no values are known for its parameter weights (tuple[int, ...]); give an operator instead"),
        ("Nameless", "an operator class must declare it; write `name: ClassVar"),
    ],
)
def test_what_cannot_be_checked_says_why(name, says):
    result = run(f"{FILE}:{name}")
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_an_operator_that_no_case_fits_is_not_tried():
    result = run("specgrad.ops:Linear", "--claim", "witness")
    assert result.exit_code == 1
    assert "linear: not tried: Linear witness: linear: weight" in result.output


def test_parameters_are_tried_by_their_types():
    known = describe(own_operators.EnergyPool)
    assert known.options["factor"] == ("1", "2", "3", "-1", "0")
    assert known.options["doubled"] == ("False", "True")
    assert known.options["sign"] == ("'plus'", "'minus'")
    assert known.options["more"] == ("None", "<Half.WHOLE: 1>", "<Half.DOUBLE: 2>")
