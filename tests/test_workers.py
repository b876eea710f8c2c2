"""Subjects in other processes: a crash, an exit, a hang or exhausted memory gives a row, and the
check continues."""

import os
import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specgrad import MaxPool
from specgrad.cli import app
from specgrad.conformance import operator_search, runner
from specgrad.conformance import report as reports
from specgrad.conformance.claims import CLAIMS
from specgrad.conformance.html import as_html
from specgrad.conformance.processes import Lost, Worker
from specgrad.conformance.subject import BadSubject, load, printable
from specgrad.conformance.trial import Crashed, Here
from specgrad.conformance.workers import There
from specgrad.sizes import available

HOSTILE = Path(__file__).parent / "hostile_subjects.py"
OPERATORS = Path(__file__).parent / "own_operators.py"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")


@pytest.fixture(scope="module")
def session():
    return runner.Session(runner.QUICK)


LOSING = {
    "segfaults": "the process was ended by SIGSEGV",
    "leaves": "the process exited with status 3",
    "kills": "the process was ended by SIGKILL (out of memory?)",
    "hangs": "no answer within 1 s",
}


@pytest.mark.parametrize("name", LOSING)
def test_what_loses_the_process_is_told_with_its_smallest_case_and_the_check_goes_on(session, name):
    subject = There(f"{HOSTILE}:{name}", 1.0 if name == "hangs" else 30.0)
    try:
        cells = {cell.claim: cell for cell in session.one(subject, MaxPool, 0)}
    finally:
        subject.stop()
    assert subject.losses == runner.MOST_LOST
    lost = [found for cell in cells.values() for found in cell.refusals]
    assert {found.outcome.words for found in lost} == {LOSING[name]}
    assert min(found.case.operands[0].size for found in lost) == 3
    assert all(found.outcome.part == "ended by forward" for found in lost)
    assert all("subject.forward(op, inputs)" in found.python for found in lost)
    status = {claim: cell.status for claim, cell in cells.items()}
    assert status["infinity"] in ("holds", "crashes")  # cases before the third lost process were tried
    assert status["fixed"] == "not tried"
    assert "" not in status.values()
    assert not {claim for claim, cell in cells.items() if cell.status == "holds" and not cell.cases}


RAISING = {
    "owns": r"Own: \\x1b[31mred\\x1b[0m [bold]bold[/bold] <script>".replace("\\\\", "\\"),
    "generator_exits": "GeneratorExit: no message",
    "interrupts": "KeyboardInterrupt: no message",
}


@pytest.mark.parametrize("name", RAISING)
def test_whatever_is_raised_is_a_refusal(session, name):
    subject = There(f"{HOSTILE}:{name}", 30.0)
    try:
        cells = session.one(subject, MaxPool, 0)
    finally:
        subject.stop()
    words = {re.sub(r" \(line \d+ of .*\)$", "", f.outcome.words) for cell in cells for f in cell.refusals}
    assert words == {RAISING[name]}
    assert subject.losses == 0


def test_too_much_memory_is_a_refusal_and_is_given_back(session):
    subject = There(f"{HOSTILE}:hogs", 60.0, memory=2**30)
    session.claims = ("nan",)
    try:
        (cell,) = session.one(subject, MaxPool, 0)
    finally:
        session.claims = tuple(CLAIMS)
        subject.stop()
    assert cell.status == "refuses"
    assert all(found.outcome.words.startswith("MemoryError: ") for found in cell.refusals)
    assert cell.cases  # new processes answered the others
    assert available() > 2**20


def test_a_subject_may_close_what_it_prints_on_and_alter_the_operator(session):
    session.claims = ("value", "unmodified")
    try:
        for name, broken in (("closes", "refuses"), ("alters", "differs")):
            subject = There(f"{HOSTILE}:{name}", 30.0)
            value, unmodified = session.one(subject, MaxPool, 0)
            subject.stop()
            assert (value if name == "closes" else unmodified).status == broken
            assert value.cases
        (found,) = unmodified.differences
        assert found.outcome.words == "forward writes into the operator"
    finally:
        session.claims = tuple(CLAIMS)


def run(*words):
    return CliRunner().invoke(
        app, ["check", *words, "--quick", "--operator", "MaxPool", "--claim", "ties"], env={"COLUMNS": "200"}
    )


def test_what_subjects_say_is_shown_apart_and_escaped(tmp_path):
    place = tmp_path / "out.html"
    result = run(f"{HOSTILE}:talks", "--html", str(place))
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\x07" not in result.output
    assert r"printed by talk \x1b]0;title\x07:" in result.output
    assert r"  │ said \x1b[2J\x07 [red]this[/red]" in result.output
    page = place.read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert r"said \x1b[2J\x07 [red]this[/red]" in page
    crashed = run(f"{HOSTILE}:leaves")
    assert (crashed.exit_code, "†" in crashed.output) == (1, True)


def test_names_and_messages_are_escaped_everywhere():
    subject = load(f"{HOSTILE}:owns")
    session = runner.Session(runner.QUICK, claims=("value",))
    report = reports.Report(session.one(Here(subject, "x.py:owns"), MaxPool, 0), [], {}, "", 0)
    assert "\x1b" not in as_html(report) + str(reports.as_json(report))
    assert "<script>" not in as_html(report)
    assert printable("a\u202eb\ud800\n") == r"a\u202eb\ud800\n"


def test_an_operator_that_ends_its_process_is_told():
    subject = There(f"{OPERATORS}:Crashing", 30.0)
    try:
        found = {c.claim: c for c in operator_search.cells(subject, 25, 1.0, 0, ("witness", "shape"), lambda: None)}
    finally:
        subject.stop()
    assert {cell.status for cell in found.values()} == {"crashes"}
    for cell in found.values():
        (lost,) = cell.refusals
        assert re.fullmatch(
            r"Crashing\(kernel_size=.*2.*padding=.*\): the process exited with status 7", lost.outcome.words
        )
        assert cell.cases > 1


def test_a_module_that_ends_its_process_is_misuse(tmp_path):
    place = tmp_path / "leaving.py"
    place.write_text("import os\nos._exit(5)\n", encoding="utf-8")
    with pytest.raises(BadSubject, match="importing it: the process exited with status 5"):
        There(f"{place}:subject", 30.0)
    result = run(f"{place}:subject")
    assert (result.exit_code, "status 5" in " ".join(result.output.split())) == (2, True)


def test_a_worker_starts_anew_and_says_what_our_own_functions_raise():
    worker = Worker()
    try:
        first = worker.call(os.getpid)
        assert worker.call(os.getpid) == first != os.getpid()
        with pytest.raises(Lost, match=r"^the process exited with status 9$"):
            worker.call(os._exit, 9)
        assert worker.call(os.getpid) != first
        with pytest.raises(Lost, match=r"^ZeroDivisionError: "):
            worker.call(divmod, 1, 0)
        with pytest.raises(Lost, match=r"^no answer within 0.2 s$"):
            worker.call(time.sleep, 60, seconds=0.2)
        assert worker.fresh
    finally:
        worker.stop()


def test_a_process_that_is_lost_while_another_function_is_run_is_a_crash():
    subject = There(f"{HOSTILE}:talks", 30.0)
    try:
        with pytest.raises(Crashed, match="status 4"):
            subject.run(_leave)
        assert subject.run(_name).startswith("talk")
        assert subject.losses == 1
    finally:
        subject.stop()


def _leave(subject):
    os._exit(4)


def _name(subject):
    return subject.name
