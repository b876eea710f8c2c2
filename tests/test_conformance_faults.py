"""Tests of the checker: every faulty subject is reported under the right claim, with a
counterexample no larger than needed."""

import sys
from pathlib import Path

import numpy as np
import pytest
import sessions
from kinds import in_turn

from specgrad import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, Conv, GlobalMaxPool, MaxPool, MinPool, SumPool
from specgrad.conformance import runner, shrink
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.search import TimeUp
from specgrad.conformance.subject import load
from specgrad.conformance.subjects import enclosures

FOLDER = Path(__file__).parent / "faulty"
EFFORT = runner.Effort(examples=6, peer_examples=0, shrink_seconds=12.0)

FAULTS = [
    # file, operator, claim under which the fault must be reported, largest number of cells of the
    # counterexample, claims that still hold
    ("last_winner", MaxPool, "ties", 2, ("value", "vjp", "padding")),
    ("zero_padding_in_max", MaxPool, "padding", 1, ("value", "vjp")),
    ("last_winner", MinPool, "ties", 2, ("value", "vjp", "padding")),
    ("zero_padding_in_max", MinPool, "padding", 1, ("value", "vjp")),
    ("count_include_pad_flipped", AvgPool, "padding", 1, ("value", "vjp")),
    ("disjoint_adaptive_bins", AdaptiveAvgPool, "value", 3, ("shape", "adjoint")),
    ("disjoint_adaptive_bins", AdaptiveMaxPool, "value", 3, ("shape", "adjoint")),
    ("float_output_sizes", MaxPool, "shape", 1, ("jvp", "vjp")),
    ("flipped_kernel", Conv, "value", 4, ("shape", "adjoint")),
    ("gradient_to_padding", AvgPool, "padding", 1, ("value", "vjp")),
    ("row_start_winner", MaxPool, "value", 4, ("shape", "adjoint")),
    ("wrong_at_seven", MaxPool, "value", 8, ("padding", "shape")),
    ("winner_in_a_byte", MaxPool, "vjp", 272, ("value", "ties", "padding")),
    ("wrong_in_one_channel", AvgPool, "value", 2, ("shape", "vjp", "jvp")),
    ("wrong_at_infinity", MaxPool, "infinity", 1, ("value", "ties", "padding")),
    ("nan_dropped", MaxPool, "nan", 2, ("value", "vjp", "padding")),
    ("vjp_not_the_transpose", GlobalMaxPool, "adjoint", 1, ("value", "jvp", "shape")),
    ("nondeterministic", AvgPool, "deterministic", 1, ("vjp", "jvp", "shape")),
    ("modifies_its_input", Conv, "unmodified", 2, ("value", "vjp", "adjoint")),
    ("unsound_bounds", MaxPool, "encloses", 1, ("value", "padding")),
    ("bounds_count_padding", AvgPool, "encloses", 1, ("value", "padding")),
    ("off_by_a_few_bounds", AvgPool, "value", 1, ("shape", "vjp", "jvp")),
    ("off_by_a_few_bounds", SumPool, "value", 1, ("shape", "vjp", "jvp")),
]

QUICKLY = [
    ("left_over_lanes", AvgPool, "padding"),
    ("winner_in_a_byte", AdaptiveMaxPool, "vjp"),
    ("winner_in_a_byte", GlobalMaxPool, "vjp"),
]
"""Faults tested in a quick run only: their counterexamples have many cells, and shrink slowly."""

READINGS = {
    ("last_winner", MaxPool): "last ties",
    ("zero_padding_in_max", MaxPool): "zero padding",
    ("count_include_pad_flipped", AvgPool): "count_include_pad flipped",
    ("disjoint_adaptive_bins", AdaptiveAvgPool): "disjoint bins",
    ("flipped_kernel", Conv): "flipped kernel",
    ("nan_dropped", MaxPool): "NaN dropped",
}
"""The reading that names a fault, if there is one."""


@pytest.fixture
def session():
    return sessions.session(EFFORT)


def cells_in(case):
    return sum(x.size for x in case.operands)


@pytest.fixture
def until(monkeypatch):
    """Stop shrinking at a smaller case of `most` cells, and shrink at most two differences."""

    def set_goal(most):
        def ends(case, fails, *rest):
            smallest = [case]

            def fails_still(other):
                if smallest[-1] is not case and cells_in(smallest[-1]) <= most:
                    raise TimeUp
                failed = fails(other)
                if failed and shrink.size(other) < shrink.size(smallest[-1]):
                    smallest.append(other)
                return failed

            return shrink.smaller(case, fails_still, *rest)

        monkeypatch.setattr(runner, "smaller", ends)
        monkeypatch.setattr(runner, "MOST_GROUPS", 2)

    return set_goal


def cells_of(session, name, kind, claims):
    session.claims = claims
    subject = load(f"{FOLDER / name}.py:subject")
    return {cell.claim: cell for cell in session.one(subject, kind, EFFORT.examples)}


@pytest.mark.parametrize(
    ("name", "kind", "claim", "most", "held"),
    [(*fault[:4], in_turn(fault[4], turn)) for turn, fault in enumerate(FAULTS)],
    ids=[f"{f[0]}-{f[1].__name__}" for f in FAULTS],
)
def test_fault_is_reported_under_the_right_claim(session, until, name, kind, claim, most, held):
    until(most)
    cells = cells_of(session, name, kind, (claim, *held))
    assert cells[claim].status == "differs"
    assert {c: cells[c].status for c in held} == dict.fromkeys(held, "holds")
    assert min(cells_in(d.case) for d in cells[claim].differences) <= most
    assert READINGS.get((name, kind)) in {None, *(d.reading for d in cells[claim].differences)}


def test_every_faulty_subject_is_in_the_table():
    assert {f[0] for f in FAULTS + QUICKLY} | {"right", "amiss"} == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize(
    "kind", [MaxPool, AvgPool, AdaptiveMaxPool, AdaptiveAvgPool, GlobalMaxPool, Conv], ids=lambda k: k.__name__
)
def test_a_right_subject_passes(session, kind):
    cells = cells_of(session, "right", kind, tuple(CLAIMS))
    assert {c.status for c in cells.values()} <= {"holds", "not offered", ""}
    assert cells["second"].status == "not offered"
    assert cells["value"].cases >= 5


def test_a_documented_convention_is_shown_as_such_and_not_as_wrong(session):
    subject = load(f"{FOLDER / 'last_winner.py'}:subject")
    session.claims = ("ties",)
    try:
        subject.conventions = ("last ties",)
        (cell,) = session.one(subject, MaxPool, 0)
    finally:
        del subject.conventions
    parts = {(d.outcome.part, d.reading) for d in cell.differences}
    assert cell.conventions
    assert all(reading != "last ties" for _, reading in parts)


def test_equal_seeds_try_equal_cases():
    one, two = (runner.random_cases(MaxPool, 5, 7) for _ in range(2))
    assert [repr(c.op) for c in one] == [repr(c.op) for c in two]
    assert all(np.array_equal(a.operands[0], b.operands[0], equal_nan=True) for a, b in zip(one, two, strict=True))


def test_files_beside_a_subject_can_be_imported():
    assert load(f"{FOLDER / 'right.py'}:subject").name == "right"
    assert str(FOLDER) in sys.path


@pytest.mark.parametrize("kind", [MaxPool, AvgPool, Conv], ids=lambda k: k.__name__)
def test_our_own_bounds_hold(session, kind):
    session.claims = ("encloses",)
    (cell,) = session.one(enclosures.Crown(), kind, EFFORT.examples)
    assert cell.status == "holds"
    assert cell.cases > 30


@pytest.mark.parametrize(("kind", "reading"), [(MaxPool, "padding"), (AvgPool, "count_include_pad=False")])
def test_faults_of_another_librarys_bounds_are_found_and_shrunk(session, kind, reading):
    """Padded maxima, and averages that do not count padding."""
    pytest.importorskip("auto_LiRPA")
    from specgrad.conformance.subjects.lirpa import AutoLirpa

    session.claims = ("encloses",)
    (cell,) = session.one(AutoLirpa(), kind, 0)
    assert cell.status == "differs"
    sizes = [d.case.operands[0].size for d in cell.differences if reading in repr(d.case.op)]
    assert min(sizes) <= 4  # cells that the pasteable case has
