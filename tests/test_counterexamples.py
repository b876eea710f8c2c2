"""Every printed counterexample runs as pasted, and shows its difference."""

import re
from pathlib import Path

import numpy as np
import pytest
import sessions
from faulty.amiss import SUBJECTS
from kinds import effort, in_turn
from test_conformance_faults import FAULTS, FOLDER

from specgrad import AvgPool, Conv, MaxPool, SmoothMaxPool
from specgrad.conformance import operator_search, refusals
from specgrad.conformance import report as reports
from specgrad.conformance.cases import STRATEGIES
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.compare import Outcome
from specgrad.conformance.subject import load
from specgrad.conformance.trial import Here

AMISS = [
    (name, kind) for turn, name in enumerate(SUBJECTS) for kind in (MaxPool, *in_turn((SmoothMaxPool, Conv), turn))
]


@pytest.fixture
def session():
    return sessions.session()


def pasted(code):
    """The texts that the code prints, one per call of print."""
    printed = []
    with np.errstate(all="ignore"), np.printoptions():
        exec(code, {"print": lambda value: printed.append(str(value))})
    return printed


def show(cells):
    """Run every counterexample in these cells; returns their number."""
    count = 0
    for cell in cells:
        for found in (*cell.differences, *cell.refusals):
            count += 1
            if found.outcome.part.startswith("refused"):
                said = re.sub(r" \(line \d+ of [^)]*\)$", "", found.outcome.words.partition(": ")[2])
                with pytest.raises(Exception, match=re.escape(said)):
                    pasted(found.python)
                continue
            printed = pasted(found.python)
            if cell.claim == "unmodified":
                assert "False" in printed[0]
            elif cell.claim == "refuses":
                assert len(printed) == 1
            else:
                assert len(printed) == 2
                assert cell.claim == "deterministic" or printed[0] != printed[1], found.python
    return count


@pytest.mark.parametrize(
    ("name", "kind", "claim"), [f[:3] for f in FAULTS], ids=[f"{f[0]}-{f[1].__name__}" for f in FAULTS]
)
def test_counterexamples_of_faulty_subjects(session, name, kind, claim):
    session.claims = effort((claim,), session.claims)
    place = f"{FOLDER / name}.py:subject"
    assert show(session.one(Here(load(place), place), kind, 0))


@pytest.mark.parametrize(("name", "kind"), AMISS, ids=[f"{name}-{kind.__name__}" for name, kind in AMISS])
def test_counterexamples_of_every_part_and_claim(session, name, kind):
    place = f"{FOLDER / 'amiss.py'}:{name}"
    assert show(session.one(Here(load(place), place), kind, 0))


def test_a_subject_without_a_jvp_is_not_asked_for_one(session):
    session.claims = ("witness",)
    (cell,) = session.one(SUBJECTS["vjp_without_jvp"], AvgPool, 0)
    assert cell.status == "differs"
    assert all("subject.jvp" not in found.python and "duals" in found.python for found in cell.differences)


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda k: k.__name__)
def test_counterexamples_about_the_specification_run(kind, monkeypatch):
    """The specification is right, so the two printed results are equal."""
    for name in ("adjoint", "witness"):
        statement = CLAIMS[name].stated._replace(judge=lambda case, scalar: "amiss")
        monkeypatch.setitem(CLAIMS, name, CLAIMS[name]._replace(stated=statement))
    monkeypatch.setattr(refusals, "fixed", lambda subject, answer: Outcome(words="amiss"))
    fixed, *others = operator_search.our_cells(3, 10.0, 0, ("fixed", "adjoint", "witness"), [kind])
    assert all(len(pasted(found.python)) == 2 for found in fixed.differences)
    for cell in others:
        (found,) = cell.differences
        one, two = pasted(found.python)
        if "exp" not in kind.needs:  # Decimals are rounded
            assert one == two, found.python


def test_a_subject_of_a_test_suite_is_imported_from_where_it_stands(session, monkeypatch):
    from faulty import last_winner

    session.claims = ("ties",)
    (cell,) = session.one(last_winner.subject, MaxPool, 0)
    assert all("from faulty.last_winner import subject as subject" in found.python for found in cell.differences)


def test_one_report_tells_one_distance():
    """The line of a subject, its cells and its differences contain the same measures."""
    place = Path(FOLDER / "off_by_a_few_bounds.py")
    cells = sessions.session(claims=("value", "padding")).one(load(f"{place}:subject"), AvgPool, 0)
    worst = max(cell.share for cell in cells)
    told = [float(n) for c in cells for d in c.differences for n in re.findall(r"([\d.e+]+) times", d.outcome.words)]
    assert worst > 1
    assert max(told) <= float(f"{worst:.3g}")
    line = str(reports.verdict(cells, "subject"))
    assert f"at most {worst:.3g} times the bound" in line
    assert "of the bound" not in line
