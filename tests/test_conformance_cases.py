"""The choice of cases: a quick run covers every claim and detects the planted faults, and cases
include half floats and more than 2^31 elements."""

import contextlib
import io

import numpy as np
import pytest
import sessions
from kinds import effort
from test_conformance_faults import FAULTS, FOLDER, QUICKLY

from specgrad import AvgPool, GlobalMaxPool, MaxPool, sizes
from specgrad.conformance import NotOffered, huge_case, operator_search, runner, subjects
from specgrad.conformance.cells import difference
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.curated import NUMERIC, WINDOWED, curated
from specgrad.conformance.expected import Answers
from specgrad.conformance.subject import load
from specgrad.conformance.trial import Refused, Trial

ml_dtypes = pytest.importorskip("ml_dtypes")
EVERY = runner.Effort(0, 0, 0.0)


MISTAKES = {
    "ceil_mode with count_include_pad": (
        "ceil_mode in two axes with padding",
        "ceil_mode in two axes with padding, not counted",
        "ceil_mode: a window that would start in the right padding is dropped",
    ),
    "windows wholly in padding": ("a window wholly in padding", "a dilated window without a real cell"),
    "padding taken for a number": (
        "padding is not 0",
        "overlapping windows with padding",
        "overlapping windows with padding, not counted",
        "an infinite weight does not meet padding",
        "padding skipped",
        "padding crops",
    ),
    "averages by prefix sums": ("a running sum must not lose precision", "cancellation of large terms"),
    "JVP and VJP disagreeing on all -inf windows": ("-inf is an ordinary value",),
    "a winner loop that compared with the best of the row's start": ("every order of a 2×2 window",),
    "winners numbered in a byte": ("a winner that a byte cannot number",),
    "what is left over of vectors": ("a line that takes several vectors",),
    "divisor_override ignored": ("divisor_override",),
    "first-winner read from memory order": (
        "the first in index order, not in memory order",
        "an array that is not in row-major memory",
    ),
    "empty batches": ("empty batch",),
    "dilated max pool without VJP": ("dilation",),
    "disjoint or empty bins": (
        "5 cells in 3 bins",
        "2 cells in 3 bins",
        "two axes, bins overlapping in both",
        "no bin at all",
    ),
    "flipped kernels": ("the kernel is not flipped",),
    "exponentials that overflow": ("exponents that overflow unless shifted", "a large negative window beside padding"),
}
"""Bugs that real projects shipped, and the titles of the cases that show them. Nondeterminism shows
in every case, 2^31 elements in `huge_case`."""


def test_the_quick_run_shows_every_mistake_and_asks_of_every_part():
    quick = {case.title for kind in WINDOWED for case in curated(kind) if case.quick}
    assert quick >= {title for titles in MISTAKES.values() for title in titles}
    for kind in WINDOWED:
        every, session = curated(kind), runner.Session(runner.QUICK)
        for slow in (False, True):
            cases = session.cases(kind, 0, slow)
            assert {answers.aspect for *_, answers in cases} == {Answers(c.case).aspect for c in every}
            assert {case.operands[0].dtype for _, case, _ in cases} == {c.case.operands[0].dtype for c in every}
            rules = {getattr(case.op, "ties", "") for _, case, _ in cases}
            assert slow or rules == {getattr(c.case.op, "ties", "") for c in every}


@pytest.mark.parametrize("kind", effort([MaxPool], WINDOWED), ids=lambda k: k.__name__)
def test_the_quick_run_asks_what_the_usual_one_asks(kind):
    """A quick run covers every claim that all curated cases cover."""
    subject = subjects.named("specgrad reference")
    session = sessions.session(EVERY)
    usual = session.one(subject, kind, 0)
    session.effort = runner.QUICK
    quick = session.one(subject, kind, 0)
    assert {c.claim: c.status for c in quick} == {c.claim: c.status for c in usual}
    assert sum(c.cases for c in quick) < sum(c.cases for c in usual)


@pytest.fixture
def quick():
    return sessions.session()


@pytest.mark.parametrize(
    ("name", "kind", "claim"),
    [f[:3] for f in FAULTS + QUICKLY],
    ids=[f"{f[0]}-{f[1].__name__}" for f in FAULTS + QUICKLY],
)
def test_the_quick_run_finds_the_planted_faults(quick, name, kind, claim):
    quick.claims = (claim,)
    (cell,) = quick.one(load(f"{FOLDER / name}.py:subject"), kind, 0)
    assert cell.status == "differs"


def test_a_broken_claim_about_the_specification_is_found_in_a_quick_run_and_shrunk(monkeypatch):
    """A negative number breaks the claim; the smallest such case is one cell of -1."""

    def claim(case, scalar):
        if case.operands[0].size and case.operands[0].min() < 0:
            raise ArithmeticError("negative")
        return

    statement = CLAIMS["adjoint"].stated._replace(judge=claim)
    monkeypatch.setitem(CLAIMS, "adjoint", CLAIMS["adjoint"]._replace(stated=statement))
    adjoint, witness = operator_search.our_cells(5, 10.0, 0, ("adjoint", "witness"), [AvgPool])
    assert (adjoint.status, witness.status) == ("differs", "holds")
    (difference,) = adjoint.differences
    assert "ArithmeticError: negative" in difference.outcome.words
    assert difference.case.operands[0].ravel().tolist() == [-1]


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda k: k.__name__)
def test_our_own_subjects_take_bfloat16(kind):
    """Errors about bfloat16 count as not offered, so a test must ensure that our subjects offer
    it."""
    ours, _ = subjects.found(["engines", "layers"])
    (case,) = [case for title, case, _ in curated(kind) if title == "bfloat16"]
    assert case.operands[0].dtype == ml_dtypes.bfloat16
    for subject in ours:
        if subject.name in ("specgrad cpu", "specgrad reference", "specgrad tape", "specgrad graph"):
            trial = Trial(subject, case)
            assert trial.forward().dtype == trial.jvp().dtype == trial.vjp()[0].dtype == ml_dtypes.bfloat16


def test_bfloat16_is_drawn_judged_and_pasted():
    drawn_types = {case.operands[0].dtype.name for case in runner.random_cases(MaxPool, 40, 0)}
    assert drawn_types == {"float32", "float64", "bfloat16"}

    class Wrong:
        name = "wrong in bfloat16"

        def forward(self, op, inputs):
            value = op(*inputs)
            return value + value.dtype.type(1) if value.dtype.name == "bfloat16" else value

    (cell,) = runner.Session(runner.QUICK, claims=("value",)).one(Wrong(), AvgPool, 0)
    (difference,) = cell.differences
    assert difference.title == "bfloat16"
    code = difference.python.replace("# subject: the one that is checked", "subject = Wrong()")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {"Wrong": Wrong})
    assert len(printed.getvalue().splitlines()) == 4


def test_a_subject_that_has_never_heard_of_bfloat16_does_not_offer_it():
    class Plain:
        name = "plain"

        def forward(self, op, inputs):
            if inputs[0].dtype.kind != "f":
                raise TypeError("what is that?")
            return op(*inputs)

    (case,) = [case for title, case, _ in curated(GlobalMaxPool) if title == "bfloat16"]
    with pytest.raises(NotOffered, match="bfloat16"):
        Trial(Plain(), case).forward()


class Far:
    """A subject that answers by the specification, or with indices of few bits, which overflow in a
    smaller case."""

    name = "far"

    def __init__(self, limit=None):
        self.limit = limit

    def forward(self, op, inputs):
        (x,) = inputs
        if self.limit is None:
            return op(x)
        memory = x.base.reshape(-1)
        starts = np.arange(x.shape[2]) * huge_case.ROW
        wrapped = (starts[:, None] + [0, 1] + self.limit) % (2 * self.limit) - self.limit
        return memory[x.base.size - x.size + wrapped].max(1).reshape(1, 1, -1, 1)


def test_indices_that_overflow_are_found_beyond_the_limit_and_only_there():
    assert huge_case.far(Far(), 2**22).holds
    assert huge_case.far(Far(2**23), 2**22).holds
    outcome = huge_case.far(Far(2**22), 2**22)
    assert outcome.words == f"the window at cell {2**22} of {2**22 + huge_case.ROW} is 0, not 7"
    told = difference(huge_case.TITLE, huge_case.placeholder(), "value", outcome, Far())
    assert "subject.forward(op, (x,))" in told.python
    assert told.picture is None


def test_the_far_case_is_left_out_with_a_word_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(sizes, "available", lambda: 2**30)
    session = runner.Session(runner.Effort(0, 0, 0.0, quick=True, far=True), claims=("value",))
    (cell,) = session.one(Far(), MaxPool, 0)
    assert cell.status == "holds"
    assert session.skipped == {huge_case.TITLE: "left out: 8 GiB of free memory are needed"}
    monkeypatch.setattr(sizes, "available", lambda: huge_case.NEEDED)
    monkeypatch.setattr(huge_case.far, "__defaults__", (2**22,))
    session.skipped.clear()
    (again,) = session.one(Far(), MaxPool, 0)
    assert (again.cases, session.skipped) == (cell.cases + 1, {})


def test_what_the_far_case_refuses_is_told():
    class Refusing:
        name = "refusing"

        def forward(self, op, inputs):
            raise OverflowError("too many cells")

    with pytest.raises(Refused, match="OverflowError: too many cells"):
        huge_case.far(Refusing(), 2**21)


def test_a_slow_subject_leaves_out_windows_and_no_numbers():
    session = runner.Session(runner.Effort(0, 0, 0.0, slow_every=8))
    for kind in WINDOWED:
        every, some = ([title for title, *_ in session.cases(kind, 0, slow)] for slow in (False, True))
        left = set(every) - set(some)
        assert left
        assert not left & NUMERIC
    assert {title for kind in WINDOWED for title, *_ in curated(kind)} >= NUMERIC
