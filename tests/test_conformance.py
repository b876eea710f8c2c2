"""`specgrad check` for a user: exit statuses, reports, counterexamples that run, and the page about
them."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import conformance_page
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import specgrad
from specgrad import AvgPool, Conv, MaxPool
from specgrad.cli import app
from specgrad.conformance import NotOffered, function_subject, pytest_cases, runner
from specgrad.conformance import report as reports
from specgrad.conformance.cells import Cell
from specgrad.conformance.claims import CLAIMS, claim_called, head
from specgrad.conformance.curated import WINDOWED, curated, directed, row
from specgrad.conformance.expected import Answers
from specgrad.conformance.html import as_html
from specgrad.conformance.interrupts import Interrupts, held
from specgrad.conformance.subject import BadSubject, load
from specgrad.conformance.trial import Here, Trial, answer
from specgrad.ops import OPERATORS

FAULTY = Path(__file__).parent / "faulty"
EXAMPLES = Path(__file__).parent.parent / "examples"
QUICK = ["--quick", "--operator", "MaxPool", "--in-process"]


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def test_a_right_subject_exits_0_and_a_wrong_one_1():
    right = run("check", f"{FAULTY}/right.py:subject", *QUICK[:-1])  # in another process
    assert (right.exit_code, "right: holds in" in right.output) == (0, True)
    wrong = run("check", f"{FAULTY}/last_winner.py:subject", *QUICK, "--claim", "ties")
    assert wrong.exit_code == 1
    assert "last winner, MaxPool, tied maxima" in wrong.output
    assert "looks like “last ties”" in wrong.output
    assert "the window of output" in wrong.output


def test_a_narrow_terminal_shows_all_claims_and_who_was_not_checked():
    cells = [Cell("specgrad reference", "AdaptiveMaxPool", claim, asked=1, cases=1) for claim in CLAIMS]
    missing = {"one, two": "x is not installed", "three": "x is not installed", "four": "is slow"}
    report = reports.Report(cells, [], {}, "specgrad check", 0, missing=missing)
    console = Console(file=io.StringIO(), width=80)
    matrix = reports.Matrix(console, report.claims(), (cell.operator for cell in cells))
    matrix.show(report)
    matrix.close()
    reports.closing(report, console)
    printed = console.file.getvalue()
    heads = printed.splitlines()[0].split()[2:]
    assert [claim_called(word) for word in heads] == list(CLAIMS)
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.count("✓") == len(cells) + 1
    assert " ".join(reports.LEGEND.split()) in " ".join(printed.split())
    assert "not checked: one, two, three: x is not installed\nnot checked: four: is slow\n" in printed


def test_the_rows_of_a_subject_are_printed_before_the_next_one_is_checked(monkeypatch):
    events = []

    def one(self, subject, kind, examples):
        events.append(subject.name)
        return [Cell(subject.name, kind.__name__, claim, asked=1, cases=1) for claim in self.claims]

    def add(self, subject, cells, right=reports.Matrix.add):
        events.extend([f"rows of {subject}"] if subject not in self.subjects else [])
        right(self, subject, cells)

    monkeypatch.setattr(runner.Session, "one", one)
    monkeypatch.setattr(reports.Matrix, "add", add)
    names = ["specgrad reference", "specgrad cpu"]
    result = run("check", *names, "--in-process", "--operator", "MaxPool", "--operator", "Conv", "--claim", "value")
    assert events == [event for name in names for event in (name, name, f"rows of {name}")]
    assert all(f"\n{name}\nMaxPool " in result.output for name in names)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.py:subject", "--in-process"], "there is no file nowhere.py"),
        (["specgrad.no_such_module:subject"], "ModuleNotFoundError"),
        (["no such subject", "--in-process"], "is no subject"),
        ([f"{FAULTY}/right.py:nothing", "--in-process"], "defines no 'nothing'; write a subject's name"),
        ([f"{FAULTY}/right.py:NotOffered", "--in-process"], "forward"),
        (["--operator", "Nothing"], "choose from MaxPool"),
        (["--operator", "MaxPol"], "did you mean MaxPool?"),
        (["--operator", "LpPool"], "LpPool: other libraries are not checked for this operator; choose from MaxPool"),
        (["--claim", "vaule"], "did you mean value?"),
        (["--claim", "nothing"], "choose from shape"),
        (["--quick", "--thorough"], "exclude each other"),
        (["--json", "/no/such/folder/out.json"], "there is no folder"),
        (["specgrad reference", "--time-limit", "inf"], "less than or equal to 1000000"),
    ],
)
def test_misuse_exits_2_and_says_what_to_write(words, says):
    result = run("check", *words)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--json", "/no/such/folder/out.json"], "there is no folder"),
        (["conv", "--markdown", "/"], "cannot be written"),
        (["conv", "--plot", "out.svg"], "--plot draws pooling alone"),
        (["--only", "3×3"], "--only chooses convolution layers: specgrad bench conv --only"),
        (["conv", "--only", "9×9"], "--only 9×9: no layer of --shapes common has this in its name"),
    ],
)
def test_a_benchmark_that_could_not_be_written_is_not_begun(words, says):
    result = run("bench", *words)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_a_file_alone_means_its_subject_and_claims_have_short_names():
    assert run("check", f"{FAULTY}/right.py", *QUICK, "--claim", "tie").exit_code == 0
    assert f"load('{EXAMPLES}/check_wrong.py:subject')" in run("check", f"{EXAMPLES}/check_wrong.py", *QUICK).output
    assert len({head(claim) for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim_called(head(claim)) == claim for claim in CLAIMS)
    assert run("--version").output == f"specgrad {specgrad.__version__}\n"


def test_differences_of_peers_are_a_line_each():
    console = Console(file=io.StringIO(), width=80)
    session = runner.Session(runner.Effort(5, 0, 0.0), claims=("padding",))
    cells = session.one(load(f"{EXAMPLES}/check_wrong.py"), MaxPool, 5)
    report = reports.Report(cells, [], {}, "specgrad check", 0)
    reports.told(report, console, verbose=False)
    short = console.file.getvalue()
    assert "zero padded, MaxPool, padding" in short
    assert "import numpy" not in short
    assert "left out: --verbose prints them" in short
    reports.told(report, console)
    assert "import numpy" in console.file.getvalue()


def test_an_exception_is_shown_with_the_line_of_the_subjects_file(tmp_path):
    place = tmp_path / "raises.py"
    place.write_text(
        "class Raises:\n    name = 'raises'\n\n    def forward(self, op, inputs):\n        return 1 / 0\n\nsubject = "
        "Raises()\n"
    )
    found = run("check", str(place), *QUICK, "--claim", "value")
    assert "ZeroDivisionError: division by zero (line 5 of raises.py)" in found.output


@pytest.mark.parametrize("wrong", [False, True])
def test_a_plain_function_is_a_subject(wrong):
    def pool(x, kernel_size, stride, padding):
        if x.dtype.kind != "f":
            raise NotOffered("integers")
        value = 0.0 if wrong else -np.inf
        padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding], constant_values=value)
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel_size, (-2, -1))
        return windows[..., :: stride[0], :: stride[1], :, :].max((-2, -1))

    subject = function_subject(pool, "max_pool", rank=2, conventions=["empty window is -inf"])
    session = runner.Session(runner.Effort(20, 0, 0.0), claims=("value", "padding"))
    cells = {cell.claim: cell.status for cell in session.one(subject, MaxPool, 20)}
    assert cells == {"value": "holds", "padding": "differs" if wrong else "convention"}
    for op in (MaxPool((2,)), MaxPool((2, 2), dilation=2), MaxPool((2, 2), ceil_mode=True), AvgPool((2, 2))):
        with pytest.raises(NotOffered):
            subject.forward(op, (np.ones((4, 4)),))
    with pytest.raises(NotOffered, match="before than after"):
        subject.forward(MaxPool((2, 2), padding=((1, 0), (0, 0))), (np.ones((4, 4)),))


def test_a_function_of_one_rank_is_not_asked_for_convolutions_of_others():
    def conv(x, weight, bias=0, stride=(1, 1)):
        if x.ndim != 4:
            raise ValueError("images only")
        windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
        windows = windows[:, :, :: stride[0], :: stride[1]]
        return np.einsum("ncyxhw,ochw->noyx", windows, weight) + np.reshape(bias, (-1, 1, 1))

    subject = function_subject(conv, "Conv", rank=2)
    (cell,) = runner.Session(runner.QUICK, claims=("value",)).one(subject, Conv, 0)
    assert [found.outcome.words for found in cell.refusals] == []
    reply = answer(subject, "forward", Conv((1, 1)), ((np.ones((1, 2, 2)), np.ones((1, 1, 1, 1))),))
    assert re.fullmatch(r"ValueError: images only \(line \d+ of test_conformance.py\)", reply.refused)


def test_our_own_subjects_hold():
    claims = [word for claim in ("value", "adjoint", "fixed") for word in ("--claim", claim)]
    result = run("check", "--no-peers", "--quick", "--in-process", "--operator", "linear", *claims)
    assert result.exit_code == 0
    assert "specgrad reference: holds" in result.output
    assert "specgrad exact: holds" in result.output


def test_every_windowed_operator_has_curated_cases_of_ranks_and_all_aspects():
    for kind in WINDOWED:
        assert kind in OPERATORS
        cases = [case for _, case, _ in curated(kind)]
        assert len(cases) >= 13
        assert all(np.isfinite(case.cotangent).all() for case in cases)
    aspects = {Answers(case).aspect for _, case, _ in curated(MaxPool)}
    assert aspects == {"", "padding", "ties", "NaN", "infinity"}
    ranks = {len(case.op.kernel_size) for _, case, _ in curated(AvgPool)}
    assert ranks == {0, 1, 2, 3, 4}


def test_what_a_report_shows_can_be_pasted_whatever_the_width():
    subject = Here(load(f"{FAULTY}/last_winner.py:subject"), f"{FAULTY}/last_winner.py:subject")
    cells = runner.Session(runner.QUICK, claims=("ties",)).one(subject, MaxPool, 0)
    narrow = Console(file=io.StringIO(), width=40)
    reports.told(reports.Report(cells, [], {}, "", 0), narrow)
    assert all(f"\n{found.python}\n" in narrow.file.getvalue() for found in cells[0].differences)


def test_json_holds_everything_and_is_valid(tmp_path):
    place = tmp_path / "out.json"
    result = run("check", f"{FAULTY}/wrong_at_infinity.py:subject", *QUICK, "--json", str(place))
    assert result.exit_code == 1
    data = json.loads(place.read_text(encoding="utf-8"))
    assert data["holds"] is False
    assert data["seed"] == 0
    assert data["versions"]["specgrad"] == specgrad.__version__
    status = {cell["claim"]: cell["status"] for cell in data["cells"]}
    assert status["infinity"] == "differs"
    assert status["value"] == "holds"
    (found,) = [c for c in data["cells"] if c["claim"] == "infinity"]
    assert "np.inf" in found["differences"][0]["python"]


class Hostile:
    """A subject whose name, errors and results contain HTML markup."""

    name = "<script>alert(1)</script>"
    version = '"><img src=x>'

    def forward(self, op, inputs):
        if op.ties == "all":
            raise ValueError("<b>raised</b> & more")
        return op(*inputs) + 1


def hostile_report():
    session = runner.Session(runner.Effort(0, 0, 0.0, every=6), claims=("value", "ties", "shape"))
    session.cells = session.one(Hostile(), MaxPool, 0)
    return reports.Report(session.cells, [Hostile.name], {Hostile.name: Hostile.version}, "specgrad check <x>", 0, 1.0)


def test_html_is_one_escaped_file_without_network(tmp_path):
    page = as_html(hostile_report())
    for raw in ("<script", "<img", "<b>raised", "http:", "https:"):
        assert raw not in page.replace("http://www.w3.org/2000/svg", "")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<svg" in page
    assert page.count("<details") >= 2
    place = tmp_path / "out.html"
    assert (
        run("check", f"{FAULTY}/last_winner.py:subject", *QUICK, "--claim", "ties", "--html", str(place)).exit_code == 1
    )
    assert place.read_text(encoding="utf-8").startswith("<!doctype html>")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_html_fits_desktop_and_phone(tmp_path, width):
    """In a real browser the page fits the window, and its SVGs are drawn."""
    page = as_html(hostile_report())
    measure = (
        "<script>onload=()=>{const d=document.documentElement;document.title=[d.scrollWidth,innerWidth,"
        "[...document.querySelectorAll('svg')].filter(s=>s.getBoundingClientRect().width>40).length,"
        "document.querySelectorAll('details[open]').length].join(' ')}</script>"
    )
    place = tmp_path / "page.html"
    place.write_text(page.replace("</body>", measure + "</body>"), encoding="utf-8")
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    words += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom", f"file://{place}"]
    dom = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    scroll, inner, drawings, opened = map(int, re.search(r"<title>([\d ]+)</title>", dom).group(1).split())
    assert scroll <= inner
    assert drawings >= 1
    assert opened >= 2


@pytest.mark.parametrize(
    "check",
    pytest_cases(
        load(f"{FAULTY}/right.py:subject"), operators=["MaxPool"], claims=["ties", "shape", "second"], examples=2
    ),
)
def test_pytest_cases_of_a_right_subject(check):
    check()


def test_pytest_cases_fail_with_the_counterexample():
    (case,) = pytest_cases(
        load(f"{FAULTY}/last_winner.py:subject"), operators=["max_pool"], claims=["ties"], examples=0
    )
    assert case.id == "MaxPool-ties"
    case.values[0].session.effort = runner.Effort(0, 0, 0.0)  # without shrinking
    with pytest.raises(AssertionError, match="op = MaxPool"):
        case.values[0]()


@pytest.mark.parametrize(
    "words",
    [{"operators": ["Relu"]}, {"operators": "MaxPool"}, {"claims": ["values"]}, {"operators": []}, {"claims": ()}],
)
def test_pytest_cases_refuse_names_that_would_select_nothing(words):
    with pytest.raises(ValueError, match="choose from"):
        pytest_cases(load(f"{FAULTY}/right.py:subject"), **words)


def test_a_refusal_is_told_apart_from_not_offering():
    class Partial:
        name = "partial"

        def forward(self, op, inputs):
            if op.dilation != (1,):
                raise NotOffered("dilation")
            raise IndexError("too far")

    session = runner.Session(runner.Effort(0, 0, 0.0), claims=("value", "jvp"))
    value, jvp = session.one(Partial(), MaxPool, 0)
    assert value.status == "refuses"
    assert "IndexError: too far" in value.refusals[0].outcome.words
    assert (jvp.status, jvp.not_offered) == ("not offered", "no jvp")


def test_a_subject_that_modifies_its_input_does_not_spoil_the_case():
    case = directed(MaxPool((2,)), row(1, 2, 3, 4))
    before = case.operands[0].copy()
    trial = Trial(load(f"{FAULTY}/modifies_its_input.py:subject"), case)
    trial.forward()
    assert trial.modified == {"forward": "its arguments"}
    assert np.array_equal(case.operands[0], before)


def test_load_says_what_is_wrong(tmp_path):
    (tmp_path / "broken.py").write_text("1/0\n", encoding="utf-8")
    with pytest.raises(BadSubject, match="ZeroDivisionError"):
        load(f"{tmp_path}/broken.py:subject")
    (tmp_path / "made.py").write_text(
        "class Made:\n    name = 'made'\n    def forward(self, op, inputs):\n        return op(*inputs)\n",
        encoding="utf-8",
    )
    assert load(f"{tmp_path}/made.py:Made").name == "made"


def test_importing_conformance_is_light():
    code = (
        "import sys, specgrad.conformance; print([m for m in ('hypothesis','rich','typer','torch','jax') if m in "
        "sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_an_interrupt_that_is_swallowed_ends_the_check_at_the_next_case():
    class Swallowing:
        name, calls = "swallowing", 0

        def forward(self, op, inputs):
            self.calls += 1
            with contextlib.suppress(BaseException):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
            return op(*inputs)

    subject = Swallowing()
    with Interrupts() as interrupts:
        session = runner.Session(runner.QUICK, claims=("value",), pulse=interrupts.pulse)
        with interrupts.raised():
            session.run([subject], [MaxPool])
        assert (subject.calls, interrupts.noted, session.cells) == (1, True, [])
        os.kill(os.getpid(), signal.SIGINT)  # while the report is printed: recorded, but not raised


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_an_interrupt_while_a_process_is_started_arrives_afterwards():
    with Interrupts() as interrupts:
        with interrupts.raised():
            with held():
                signal.raise_signal(signal.SIGINT)  # in this thread, at once
                assert not interrupts.noted
            raise AssertionError("not interrupted")
        assert interrupts.noted


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("target", "option"), [("getppid", []), ("getpid", ["--in-process"])])
def test_interrupting_prints_what_was_found(tmp_path, target, option):
    """The subject sends the signal itself, during the cases of a second operator."""
    stopping = tmp_path / "stopping.py"
    stopping.write_text(
        "import os, signal\n"
        "class Stopping:\n"
        "    name, seen = 'stopping', set()\n"
        "    def forward(self, op, inputs):\n"
        "        self.seen.add(op.name)\n"
        "        if len(self.seen) > 1:\n"
        f"            os.kill(os.{target}(), signal.SIGINT)\n"
        "        return op(*inputs)\n"
        "subject = Stopping()\n",
        encoding="utf-8",
    )
    words = ["-m", "specgrad", "check", f"{stopping}:subject", "--claim", "value", "--operator", "MaxPool", *option]
    environment = {**os.environ, "COLUMNS": "150"}
    words += ["--operator", "Linear", "--quick"]
    process = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=120)
    assert process.returncode == 130
    assert "interrupted" in process.stdout + process.stderr
    assert re.search(r"^stopping\nMaxPool.*✓", process.stdout, re.MULTILINE)


def test_cases_hold_arrays_whatever_their_rank():
    for kind in WINDOWED:
        for _, case, _ in curated(kind):
            assert all(isinstance(a, np.ndarray) for a in (*case.operands, *case.tangents, case.cotangent))
        for case in runner.random_cases(kind, 20, 1):
            assert all(isinstance(a, np.ndarray) for a in (*case.operands, *case.tangents, case.cotangent))


ROOT = Path(__file__).parent.parent


def page_blocks():
    """The code blocks of docs/conformance.md: their subject, the code, and its output."""
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    head, _, generated = text.partition("<!-- from here on")
    for block in re.findall(r"^  ```python\n(.*?)^  ```", head, re.DOTALL | re.MULTILINE):
        code = "\n".join(line[2:] for line in block.splitlines())
        yield code.split()[1].strip(","), code, "\n".join(re.findall(r"# (\[.*)$", code, re.MULTILINE))
    for code, printed in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)\n```", generated, re.DOTALL):
        yield re.search(r"""named\(['"](.*?)['"]\)""", code).group(1), code, printed


NEEDS = {
    "torch cpu": "torch",
    "torch mkldnn": "torch",
    "onnx.reference": "onnx",
    "scipy.ndimage": "scipy",
    "tinygrad python": "tinygrad",
}


@pytest.mark.parametrize("needed", sorted({subject for subject, _, _ in page_blocks()}))
def test_the_published_counterexamples_print_what_they_say(needed):
    """Every code block of the page runs again, if its peer is installed in the version on the
    page."""
    library = NEEDS.get(needed, needed).partition(".")[0]
    module = pytest.importorskip(library, reason=f"{needed} is not installed")
    stated = re.search(
        rf"\| {re.escape(library)} ([\d.]+)", (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    )
    version = getattr(module, "__version__", None)
    if stated and version and not version.startswith(stated.group(1).rstrip(".")):
        pytest.skip(f"the page is about {library} {stated.group(1)}, here is {version}")
    if needed in ("numpy", "onnxruntime"):
        pytest.importorskip("onnxruntime")
    for subject, code, printed in page_blocks():
        if subject == needed:
            assert conformance_page.printed(code).split() == printed.split(), code
