"""Subjects: the results and errors that they may give, how they are found and named, and subjects
in other processes."""

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from specgrad import AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, MaxPool
from specgrad.cli import app
from specgrad.conformance import runner, subjects
from specgrad.conformance.cases import Case
from specgrad.conformance.cells import Cell
from specgrad.conformance.conventions import NAMES, recognise
from specgrad.conformance.curated import curated, directed, row
from specgrad.conformance.messages import picture_of
from specgrad.conformance.subject import BadSubject, load
from specgrad.conformance.trial import Refused, Trial, handle
from specgrad.conformance.workers import Background

PLAIN = directed(MaxPool((2,)), row(1, 2, 3, 4))


class Answering:
    """A subject that answers with a function of the right value."""

    name = "answering"

    def __init__(self, make):
        self.make = make

    def forward(self, op, inputs):
        return self.make(op(*inputs))

    def vjp(self, op, inputs, cotangent):
        return self.make(op.vjp(inputs, cotangent))


def leave(value):
    sys.exit(7)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda value: None, "forward returned NoneType of object, not of real numbers"),
        (lambda value: "words", "forward returned str of <U5, not of real numbers"),
        (lambda value: [[1], [1, 2]], "forward returned list, which is no array"),
        (lambda value: value + 0j, "not of real numbers"),
        (lambda value: value.astype(object), "not of real numbers"),
        (leave, "SystemExit: 7"),
    ],
)
def test_what_is_no_array_of_numbers_is_a_refusal(make, says):
    with pytest.raises(Refused) as caught:
        Trial(Answering(make), PLAIN).forward()
    assert says in str(caught.value)
    (cell,) = runner.Session(runner.QUICK, claims=("value",)).one(Answering(make), MaxPool, 0)
    assert cell.status == "refuses"
    assert len(cell.refusals) == len({d.outcome.words for d in cell.refusals})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda pulled: None, "vjp returned NoneType, not a tuple of 1 arrays"),
        (lambda pulled: pulled[0], "vjp returned ndarray, not a tuple of 1 arrays"),
        (lambda pulled: pulled * 2, "vjp returned 2 arrays, not 1"),
    ],
)
def test_a_vjp_that_is_no_tuple_of_arrays_is_a_refusal(make, says):
    with pytest.raises(Refused, match=says):
        Trial(Answering(make), PLAIN).vjp()


def test_a_result_of_another_shape_is_told_by_the_shape_claim_and_holds_nowhere():
    subject = Answering(lambda value: value[None])
    subject.vjp = None
    cells = runner.Session(runner.QUICK, claims=("shape", "value", "padding", "ties", "nan")).one(subject, MaxPool, 0)
    assert {c.claim: c.status for c in cells} == {
        "shape": "differs",
        "value": "not tried",
        "padding": "not tried",
        "ties": "not tried",
        "nan": "not tried",
    }


def test_a_subject_may_use_its_memory_again():
    class Reusing:
        name, room = "reusing", np.zeros((1, 1, 2), np.float32)

        def forward(self, op, inputs):
            self.room[...] = op(*inputs)
            return self.room

        def jvp(self, op, inputs, tangents):
            self.room[...] = op.jvp(inputs, tangents)[1]
            return self.room

    trial = Trial(Reusing(), PLAIN)
    value, _ = trial.forward(), trial.jvp()
    assert value.tolist() == [[[2, 4]]]


def test_a_subject_file_displaces_no_module_and_exits_nowhere(tmp_path, monkeypatch):
    body = "class Made:\n    name = 'made'\n    def forward(self, op, inputs):\n        return op(*inputs)\n"
    for name in ("json", "shared_kernel"):
        (tmp_path / f"{name}.py").write_text(body, encoding="utf-8")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n", encoding="utf-8")
    (tmp_path / "nameless.py").write_text(body.replace("'made'", "''"), encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = sys.modules["json"]
    assert load(f"{tmp_path}/json.py:Made").name == "made"
    assert sys.modules["json"] is before
    assert load(f"{tmp_path}/shared_kernel.py:Made").name == load(f"{tmp_path}/shared_kernel.py:Made").name == "made"
    with pytest.raises(BadSubject, match="SystemExit: 3"):
        load(f"{tmp_path}/leaving.py:subject")
    with pytest.raises(BadSubject, match="needs a name"):
        load(f"{tmp_path}/nameless.py:Made")


def test_a_module_in_the_folder_of_the_command_is_found(tmp_path):
    (tmp_path / "kernels_here").mkdir()
    (tmp_path / "kernels_here" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "kernels_here" / "pool.py").write_text(
        "class Made:\n    name = 'made here'\n    def forward(self, op, inputs):\n        return op(*inputs)\n",
        encoding="utf-8",
    )
    code = "import sys; sys.path.remove(''); from specgrad.cli import main; main()"
    words = ["check", "kernels_here.pool:Made", "--quick", "--operator", "Linear", "--claim", "value"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "made here: holds in" in done.stdout) == (0, True), done.stderr


def test_a_convention_that_nobody_knows_is_misuse(tmp_path):
    (tmp_path / "own_rules.py").write_text(
        "class Own:\n    name, conventions = 'own', ('split tie',)\n    def forward(self, op, "
        "inputs):\n        return op(*inputs)\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["check", f"{tmp_path}/own_rules.py:Own", "--in-process"])
    assert result.exit_code == 2
    assert "split tie is no convention; choose from" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("conventions = 'split ties'", "conventions must be a tuple of names, not 'split ties'"),
        ("conventions = None", "conventions must be a tuple of names, not None"),
        ("name = property(lambda self: 1 // 0)", "importing it raised ZeroDivisionError: integer division"),
    ],
)
def test_a_subject_made_wrongly_is_misuse(tmp_path, body, told):
    place = tmp_path / "made_wrongly.py"
    place.write_text(
        f"class Own:\n    name, forward = 'own', lambda self, op, inputs: 0\n    {body}\n", encoding="utf-8"
    )
    with pytest.raises(BadSubject, match=told):
        load(f"{place}:Own")


class Mute(Exception):
    def __str__(self):
        raise ValueError("has no words")


def test_whatever_a_subject_does_to_its_arrays_or_raises_it_is_judged():
    class Rough:
        name = "rough"

        def forward(self, op, inputs):
            y = op(*inputs)
            inputs[0][...] = 7
            inputs[0].flags.writeable = False
            inputs[0].shape = (-1,)
            return y

        def vjp(self, op, inputs, cotangent):
            raise Mute

    case = Case(MaxPool((2,)), (np.array([[1.0, 2.0]]),), (np.ones((1, 2)),), np.ones((1, 1)))
    trial = Trial(Rough(), case)
    assert (trial.forward().tolist(), trial.modified, case.operands[0].tolist()) == (
        [[2]],
        {"forward": "its arguments"},
        [[1, 2]],
    )
    with pytest.raises(Refused, match=r"^Mute: no message \(line \d+ of test_conformance_subjects.py\)$"):
        trial.vjp()


def test_a_subject_that_offers_nothing_is_misuse_and_not_a_pass(tmp_path):
    place = tmp_path / "idle.py"
    place.write_text(
        "class Idle:\n    name = '[/idle] [bold]'\n    def forward(self, op, "
        "inputs):\n        raise NotImplementedError\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["check", f"{place}:Idle", "--quick", "--in-process", "--operator", "Linear"])
    assert result.exit_code == 2
    assert "[/idle] [bold]: nothing was tried" in result.output


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, option):
    result = CliRunner().invoke(app, ["check", "specgrad reference", option, str(tmp_path)])
    assert result.exit_code == 2
    assert "cannot be written" in " ".join(result.output.split())
    assert "trials" not in result.output


def test_what_is_installed_is_known_without_an_import():
    code = (
        "import sys; from specgrad.conformance import subjects; subjects.installed(subjects.HOMES)\n"
        "print([m for m in ('torch', 'jax', 'onnx', 'scipy', 'tinygrad', 'llvmlite') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("home", subjects.HOMES)
def test_homes_say_what_their_subjects_are(home):
    told = subjects.HOMES[home]
    if told.missing:
        pytest.skip(f"{told.missing} is not installed")
    found, missing = subjects.found([home])
    if missing:
        pytest.skip(str(missing))
    for subject in found:
        assert subject.name.startswith(told.names)
        assert getattr(subject, "slow", False) == told.slow
        assert set(getattr(subject, "conventions", ())) <= set(NAMES)


def test_an_absent_subject_is_told_with_the_reason(monkeypatch):
    assert "no device here" in subjects.absent("specgrad reference")
    assert "is no subject; write" in subjects.absent("nobody")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert subjects.absent("jax") == "jax is not installed"
    assert subjects.installed({"jax_lax": subjects.PEERS["jax_lax"]}) == ([], {"jax": "jax is not installed"})


PEER = """
import os
from ..subject import NotOffered

class Peer:
    slow, version = False, "peer 1"

    def __init__(self, name):
        self.name = name

    def forward(self, op, inputs):
        if self.name == "crashing" and op.name == "avg_pool":
            os._exit(3)
        return op(*inputs) + (self.name == "wrong")

def subjects():
    return [Peer(NAME)]
"""


@pytest.fixture
def peers(tmp_path, monkeypatch):
    """Three peers in files of their own, which a started process finds next to ours."""
    for name in ("crashing", "wrong", "right"):
        (tmp_path / f"{name}.py").write_text(PEER.replace("NAME", repr(name)), encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(
        "import specgrad.conformance.subjects as s\n"
        f"s.__path__.append({str(tmp_path)!r})\n"
        "s.PEERS.update({n: s.Home((n,)) for n in ('crashing', 'wrong', 'right')})\n"
        "s.HOMES.update(s.PEERS)\n",
        encoding="utf-8",
    )
    made = {name: subjects.Home((name,)) for name in ("crashing", "wrong", "right")}
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(subjects, "PEERS", made)
    monkeypatch.setattr(subjects, "HOMES", {**subjects.HOMES, **made})
    return made


def beside(*operators):
    plan = runner.Plan(operators, ("value", "shape"), runner.QUICK, 0)
    made = Background(plan)
    seen = list(made.wait())
    made.stop()
    return made, seen


def test_a_peer_that_crashes_takes_nobody_with_it(peers, monkeypatch):
    monkeypatch.setattr(subjects, "OURS", {})
    made, seen = beside("MaxPool", "AvgPool")
    assert made.missing == {"crashing: AvgPool": "the process exited with status 3"}
    assert made.broken == []
    assert {(c.subject, c.operator) for c in made.cells} == {
        ("crashing", "MaxPool"),
        *((name, kind) for name in ("wrong", "right") for kind in ("MaxPool", "AvgPool")),
    }
    status = {(c.subject, c.claim): c.status for c in made.cells if c.operator == "MaxPool"}
    assert (status["wrong", "value"], status["right", "value"]) == ("differs", "holds")
    assert made.versions == {"crashing": "peer 1", "wrong": "peer 1", "right": "peer 1"}
    assert seen[-1][1] == 6


def test_what_is_ours_and_crashes_is_not_passed_over(peers, monkeypatch):
    monkeypatch.setattr(subjects, "OURS", {"crashing": subjects.Home(("crashing",), ("sys",))})
    monkeypatch.setattr(subjects, "PEERS", {})
    made, _ = beside("MaxPool", "AvgPool")
    assert made.judged == ["crashing"]
    assert made.broken == ["crashing: AvgPool"]


def test_processes_beside_do_not_wait_to_be_read(peers, monkeypatch, tmp_path):
    """Results are received continuously: a pipe's buffer alone would be too small, and stop the
    sender."""
    wordy = PEER.replace("NAME", "'wrong'").replace('"peer 1"', '"peer 1" * 2**20')
    (tmp_path / "wrong.py").write_text(wordy, encoding="utf-8")
    monkeypatch.setattr(subjects, "OURS", {})
    monkeypatch.setattr(subjects, "PEERS", {"wrong": peers["wrong"]})
    made = Background(runner.Plan(("MaxPool", "AvgPool"), ("value",), runner.QUICK, 0))
    (worker,) = made._threads
    worker.join(120)
    assert not worker.is_alive()
    assert [word for word, _ in made.wait() if word] == ["wrong: MaxPool", "wrong: AvgPool"]
    assert made.versions == {"wrong": "peer 1" * 2**20}
    made.stop()
    assert {c.operator for c in made.cells} == {"MaxPool", "AvgPool"}


def test_a_quick_run_does_not_start_what_is_slow(monkeypatch):
    monkeypatch.setattr(subjects, "OURS", {})
    monkeypatch.setattr(subjects, "PEERS", {"slow_one": subjects.Home(("slow one",), slow=True)})
    made = Background(runner.Plan(("MaxPool",), ("value",), runner.QUICK, 0))
    assert (made.missing, made._workers) == ({"slow one": "is slow, and left out by --quick"}, [])


def told(case, part, got, expected):
    found = recognise(case, part, got, expected)
    return found and found.name


def test_sums_of_half_floats_that_are_rounded_as_they_go_are_named():
    (case,) = [case for title, case, _ in curated(GlobalAvgPool) if title == "float16"]
    x = case.operands[0]
    total = np.float16(0)
    for cell in x.reshape(-1):
        total = np.float16(total + cell)
    got = np.array([[[np.float16(total / np.float16(x.size))]]])
    right = np.array([[[np.mean(x.astype(float))]]])
    assert told(case, "value", got, right) == "rounded at every step"
    assert told(case, "value", got + np.float16(0.1), right) is None
    wide = Case(case.op, (x.astype(np.float32),), case.tangents, case.cotangent)
    assert told(wide, "value", got, right) is None


def test_a_maximum_of_subnormal_cells_may_be_any_of_them_where_they_count_as_zero():
    """XLA on a CPU returns the first: 1e-45, not 3e-45."""
    case = directed(GlobalMaxPool(1), row(1e-45, 3e-45))
    for got in (1e-45, 0):
        assert told(case, "value", np.array([[[got]]], np.float32), np.array([[[3e-45]]])) == "subnormals flushed"
    assert told(case, "value", np.array([[[1e-30]]], np.float32), np.array([[[3e-45]]])) is None


def test_zeros_that_meet_an_infinite_weight_are_named_wherever_they_stand():
    infinite = np.array([[[1, np.inf, 3]]], np.float32)
    case = directed(ConvTranspose((3,), stride=2), row(1, 2), infinite)
    right = np.array([[[1, np.inf, 5, np.inf, 6]]])
    for spoilt in ([0], [2, 4], [0, 2, 4]):
        got = right.copy()
        got[0, 0, spoilt] = np.nan
        assert told(case, "value", got, right) == "padding is multiplied"
    wrong = right.copy()
    wrong[0, 0, 0] = 7
    assert told(case, "value", wrong, right) is None
    padded = directed(Conv((2,), padding=1), row(1), np.array([[[np.inf, 2]]], np.float32))
    assert told(padded, "value", np.array([[[np.nan, np.inf]]]), np.array([[[2, np.inf]]])) == "padding is multiplied"


def test_a_window_of_minus_infinities_without_a_winner_is_named():
    case = directed(MaxPool((2,)), row(-np.inf, -np.inf))
    assert told(case, "VJP of x", np.zeros((1, 1, 2)), np.array([[[1.0, 0.0]]])) == "-inf never wins"


def test_an_average_of_few_half_floats_is_held_to_one_rounding():
    """A reading names a difference, but does not excuse it unless the subject declares it."""
    (cell,) = runner.Session(runner.QUICK, claims=("value",)).one(
        Answering(lambda value: value * np.float16(1.002) if value.dtype == np.float16 else value), AvgPool, 0
    )
    assert [d.title for d in cell.differences] == ["float16"]


class Alternating:
    """Maxima that count padding as -inf in the second of two equal calls."""

    name = "alternating"
    conventions = ("empty window is -inf",)

    def __init__(self):
        self.calls = 0

    def forward(self, op, inputs):
        self.calls += 1
        y = op(*inputs)
        return np.where(y == 0, -np.inf, y).astype(y.dtype) if self.calls % 2 == 0 else y


def test_two_results_of_one_call_are_no_convention():
    case = directed(MaxPool((2,), stride=1, padding=2), row(1, 2))
    subject = handle(Alternating())
    (outcome,) = runner.attempt(Cell("", "", "deterministic"), "deterministic", Trial(subject, case))
    assert recognise(case, "value", outcome.got, outcome.expected).name in Alternating.conventions
    assert runner.look(case, outcome) is None
    assert picture_of(case, outcome) is None
    (cell,) = runner.Session(runner.QUICK, claims=("deterministic",)).one(subject, MaxPool, 0)
    assert cell.status == "differs"


def test_a_difference_that_is_gone_in_a_second_try_is_told_so():
    seen = set()

    def once(op, inputs):
        key = (repr(op), *(x.tobytes() for x in inputs))
        y = op(*inputs)
        wrong = key not in seen
        seen.add(key)
        return y + wrong

    cells = {}
    for name, forward in (("once", once), ("always", lambda op, inputs: op(*inputs) + 1)):
        subject = SimpleNamespace(name=name, forward=forward)
        (cells[name],) = runner.Session(runner.QUICK, claims=("value",)).one(subject, MaxPool, 0)
    again = "; a second try showed no difference"
    assert cells["once"].differences
    assert all(d.outcome.words.endswith(again) for d in cells["once"].differences)
    assert not any(again in d.outcome.words for d in cells["always"].differences)


def test_counterexamples_of_integers_lists_and_words_print_what_they_say():
    made = []
    for make in (lambda y: y + 1 if y.dtype.kind == "i" else y, lambda y: y.tolist(), lambda y: None):
        cells = runner.Session(runner.QUICK, claims=("value", "dtype")).one(Answering(make), MaxPool, 0)
        made.append([found for cell in cells for found in cell.found])
    (whole,), lists, (none,) = made
    assert whole.outcome.words == "value at [0, 0, 0] is 5, not 4"
    assert "# expected: [[[4]]]" in whole.python
    assert any("np.asarray(subject.forward(op, inputs)).dtype" in found.python for found in lists)
    assert "# forward returned NoneType" in none.python
