"""`specgrad prove`: statements are decided as stated, and planted faults are refuted."""

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds import examples
from test_planted_faults import (
    clean_geometry,  # noqa: F401
)
from typer.testing import CliRunner

from specgrad.cli import app
from specgrad.geometry import Adaptive, Ranges, Sliding
from specgrad.prove import FAMILIES, geometry, kernels, operators, report, runner, statement
from specgrad.prove.geometry import lengths
from specgrad.prove.geometry.vocabulary import PARAMETERS, AnySliding
from specgrad.prove.integers import assume, decide, lemma
from specgrad.prove.statement import Found, Statement, Verdict
from specgrad.prove.symbolic import Symbol, paths, term

ROOT = Path(__file__).parent.parent
GEOMETRY = {s.claim.__name__: s for s in geometry.STATEMENTS}


# Geometry


@pytest.mark.parametrize("name", GEOMETRY)
def test_statement_about_geometry(name):
    verdict = decide(GEOMETRY[name], PARAMETERS)
    assert verdict.status == ("proved" if GEOMETRY[name].holds else "refuted"), verdict


def test_there_are_enough_statements():
    assert sum(s.holds for s in geometry.STATEMENTS) >= 40
    assert len({s.words for s in geometry.STATEMENTS}) == len(geometry.STATEMENTS)


def counterexample(verdict, capsys):
    """Run a counterexample; it prints that the statement does not hold."""
    assert verdict.status == "refuted", verdict
    exec(verdict.counterexample, {})
    assert capsys.readouterr().out == "False\n"


@pytest.mark.parametrize("name", [n for n, s in GEOMETRY.items() if not s.holds])
def test_folklore_is_refuted_by_a_counterexample_to_paste(name, capsys):
    counterexample(decide(GEOMETRY[name], PARAMETERS), capsys)


def test_published_counterexamples():
    """The counterexamples of docs/prove.md."""
    assert Sliding(16, 3, 9, 3, 11).length == 4
    assert Sliding(16, 3, 9, 3, 11, ceil_mode=True).length == 3
    axis = Sliding(3, 2, 12, 15, 15, ceil_mode=True)
    assert axis.length == 3
    assert axis.start(2) == 9 >= axis.size


def floor_as_ceil(self):
    return -(-(self.size + self.before + self.after - self.extent) // self.stride) + 1


def drops_too_late(self):
    length = floor_as_ceil(self)
    return length - 1 if (length - 1) * self.stride > self.size + self.before else length


def misses_a_tap(self, output):
    start, first, count, existing, step = reads(self, output)
    return Ranges(start, first, np.maximum(count - 1, 0), existing, step)


def counts_padding(self, output):
    start, first, count, _, step = reads(self, output)
    return Ranges(start, first, count, np.clip(-((start - self.size) // self.dilation), 0, self.kernel), step)


def forgets_the_phase(self, cell, outputs=None):
    first, _, count, _, step = find(self, cell, outputs)
    return Ranges(first + 1, first + 1, count, count, step)


def multiplies_first(self, output):
    return output * self.size // max(self.length, 1)


def rounds_down(self, output):
    start = self.start(output)
    count = self.start(output + 1) - start
    return Ranges(start, start, count, count, 1)


def unbalanced(size, kernel, stride, dilation):
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2 + 1, total - total // 2


reads, find = Sliding.reads, Sliding.readers
FAULTS = [
    (Sliding, "length", property(floor_as_ceil), "windows_end_inside"),
    (Sliding, "length", property(drops_too_late), "ceil_windows_start_inside"),
    (Sliding, "reads", misses_a_tap, "runs_are_the_taps"),
    (Sliding, "reads", counts_padding, "existing_taps_are_the_first"),
    (Sliding, "readers", forgets_the_phase, "readers_read"),
    (Sliding, "readers", forgets_the_phase, "readers_are_all"),
    (Adaptive, "start", multiplies_first, "bins_do_not_overflow"),
    (Adaptive, "reads", rounds_down, "bins_are_inside"),
    (Adaptive, "reads", rounds_down, "bins_turn_round"),
    (lengths, "same_padding", unbalanced, "same_divides"),
    (
        lengths,
        "transposed_size",
        lambda n, k, s, pad, d, extra: (n - 1) * s + d * (k - 1) + extra,
        "transposed_inverts",
    ),
]


@pytest.mark.parametrize(("home", "name", "fault", "caught_by"), FAULTS, ids=[f"{f[1]}-{f[3]}" for f in FAULTS])
def test_faulty_formula_is_refuted(home, name, fault, caught_by, monkeypatch, capsys):
    monkeypatch.setattr(home, name, fault)
    counterexample(decide(GEOMETRY[caught_by], PARAMETERS), capsys)


# The prover


def stated(claim):
    return decide(Statement("", claim), PARAMETERS)


def test_what_small_numbers_do_not_refute_z3_does():
    def small(n):
        return n != 12345

    verdict = stated(small)
    assert verdict.status == "refuted"
    assert "n=12345" in verdict.counterexample


def test_a_statement_about_nothing_is_not_proved():
    def vacuous(n, m):
        assume(n < m, m < n)
        return n == m

    assert stated(vacuous).status == "undecided"


def test_assumptions_of_symbols_that_contradict_each_other_prove_nothing():
    def contradictory(n):
        if isinstance(n, Symbol):
            assume(n < 0)
        return n < 0 if isinstance(n, Symbol) else True

    assert stated(contradictory).status == "undecided"


def test_a_wrong_step_proves_nothing():
    def wrong(n):
        lemma(n < 5)
        return n < 6 if isinstance(n, Symbol) else True

    assert stated(wrong).status == "undecided"


def test_divisors_must_be_positive():
    def divides(n, m):
        return (n // (m - 5)) * (m - 5) <= n if isinstance(n, Symbol) else True

    verdict = stated(divides)
    assert (verdict.status, "divisor" in verdict.reason) == ("undecided", True)


def test_what_z3_cannot_decide_is_undecided(monkeypatch):
    def hard(n, m, k):
        return n * n * n + m * m * m != k * k * k

    monkeypatch.setattr(statement, "STEPS", 10_000)
    verdict = stated(hard)
    assert (verdict.status, "z3 says" in verdict.reason) == ("undecided", True)
    assert decide(Statement("", hard), PARAMETERS, time.time()).reason == "the claim: z3 says out of time"


@pytest.mark.parametrize("number", range(-2, 9))
def test_a_path_per_outcome(number):
    """A run forks once per condition, where Python needs a truth value; each number is on one path
    only."""
    runs = []

    def run():
        runs.append(n := Symbol(z3.Int("n")))
        return max(n, 0) + (n if n > 5 else 1) + (n if n > 5 else 1)

    met = []
    for result, path in paths(run):
        solver = z3.Solver()
        solver.add(z3.Int("n") == number, *path.facts)
        if solver.check() == z3.sat:
            met.append(solver.model().eval(z3.IntVal(0) + term(result)).as_long())
    assert len(runs) == 4
    assert met == [max(number, 0) + 2 * (number if number > 5 else 1)]


sizes = st.tuples(*(st.integers(low, 9) for low in (1, 1, 1, 0, 0, 1)), st.booleans())


@given(sizes, st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=examples(30))
def test_symbols_compute_as_integers_do(fields, o, j):
    """Every formula of a sliding axis, on symbols with known values."""

    def results(axis, o, j):
        return (axis.length, axis.extent, *axis.tap(o, j), *axis.reads(o), *axis.readers(j)[1:3])

    names = [z3.Int(f"field{n}") for n in range(8)]
    values = (*fields[:6], o, j)
    exact = results(Sliding(*fields), o, j)
    known = [name == value for name, value in zip(names, values, strict=True)]
    met = 0
    for symbols, path in paths(
        lambda: results(AnySliding(*map(Symbol, names[:6]), fields[6]), *map(Symbol, names[6:]))
    ):
        solver = z3.Solver()
        solver.add(*known, *path.facts)
        if solver.check() == z3.unsat:
            continue
        met += 1
        solver.add(
            z3.Or(
                *(
                    term(s) != term(int(e) if isinstance(s, Symbol) else bool(e))
                    for s, e in zip(symbols, exact, strict=True)
                )
            )
        )
        assert solver.check() == z3.unsat
    assert met == 1


# The command


def invoke(*arguments):
    return CliRunner().invoke(app, ["prove", *map(str, arguments)])


def test_command_proves_and_reports(tmp_path):
    json_path, html_path = tmp_path / "proved.json", tmp_path / "proved.html"
    result = invoke("operators", "--operator", "Linear", "--json", json_path, "--html", html_path)
    assert result.exit_code == 0, result.output
    data = json.loads(json_path.read_text())
    assert data["holds"]
    assert data["proved"]["operators"] == sum(line["cases"] for line in data["lines"]) == 12
    assert "convolution is linear in its weight" in result.output
    assert "convolution is linear in its weight" in html_path.read_text()
    assert "12 operators × statements × geometries for all inputs" in result.output


@pytest.mark.parametrize("status", ["refuted", "undecided", "proved"])
def test_exit_status_says_what_came_of_it(status, monkeypatch, tmp_path):
    """A statement with another verdict than stated fails; HTML is escaped."""
    page = tmp_path / "page.html"
    found = Found(
        "max_pool", "a <statement>", status != "proved", "a case", Verdict(status, 0.0, "print(1 < 2)", "why")
    )
    monkeypatch.setattr(runner, "run", lambda todo, budget, scheduler: iter([("operators", [found])]))
    result = invoke("operators", "--operator", "Linear", "--html", page)
    assert result.exit_code == 1
    assert "print(1 < 2)" in result.output
    assert "a &lt;statement&gt;" in page.read_text()
    assert "<statement>" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--operator", "Pool"), "no such operator"),
        (("geometry", "--operator", "MaxPool"), "--operator chooses among operators only"),
        (("--operator", "SmoothMaxPool"), "nothing is stated about SmoothMaxPool"),
        (("geometry", "--kernel", "tiles"), "--kernel chooses among kernels only"),
        (("--kernel", "tails"), "no such emitter; choose from direct"),
        (("--badge", "README.md", "--budget", "1"), "--badge counts all statements"),
        (("--json", "/no/such/folder/file.json"), "there is no folder"),
        (("geometry", "--budget", "inf"), "Input should be less than or equal to 1000000"),
        (("--badge", "no such file"), "there is no file"),
        (("operators", "--operator", "Linear", "--json", "full.json"), "the report is not written: [Errno 28]"),
    ],
)
def test_misuse(arguments, words, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specgrad.prove.report.write_json", full)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_without_z3_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr("specgrad.prove.command.find_spec", lambda name: None)
    result = invoke("geometry")
    assert result.exit_code == 2
    assert "pip install 'specgrad[prove]'" in result.output


def test_a_budget_takes_a_sample():
    """The first tasks have all kinds of operators, and the budget stops the rest."""
    todo = runner.tasks("operators")
    kinds = {type(task.op) for _, task in todo}
    assert {type(task.op) for _, task in todo[: len(kinds)]} == kinds
    assert len(list(runner.run(todo, 0.0))) < 10


@pytest.mark.parametrize(
    ("arguments", "seconds", "words"),
    [
        (("--budget", "0"), 0.0, "about geometry, operators, kernels was decided in this time"),
        (("geometry", "--budget", "0"), 0.0, "about geometry was decided in this time"),
        (("geometry", "--budget", "0"), 7.0, "--budget 28 decides a sample"),
    ],
)
def test_a_budget_that_reaches_nothing_says_which_does(arguments, seconds, words, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda todo, budget, client: iter(()))
    monkeypatch.setattr("specgrad.prove.command.time", SimpleNamespace(monotonic=iter([0.0, seconds]).__next__))
    result = invoke(*arguments)
    output = result.output
    assert result.exit_code == 2
    assert "proved: nothing" in output
    assert words in output
    assert "decides a sample; without --budget all are decided" in output


# What the documents say


def test_documentation_lists_every_statement():
    text = (ROOT / "docs" / "prove.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- (.*?)( \(\*\*false\*\*\))?$", text.partition("## How")[0], re.MULTILINE)
    assert listed == [
        (s.words, "" if s.holds else " (**false**)")
        for s in (*geometry.STATEMENTS, *operators.STATEMENTS, *kernels.STATEMENTS)
    ]


def test_documentation_prints_what_it_says(capsys):
    text, names = (ROOT / "docs" / "prove.md").read_text(encoding="utf-8"), {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
        promised = re.findall(r"  # ([\d ]+)", block)
        assert capsys.readouterr().out.split("\n")[:-1] == [words.strip() for words in promised]


def test_readme_counts_what_is_stated():
    """The README's numbers are from full runs of families in which everything was proved."""
    cases = sum(s.takes(t) and s.holds for _, t in runner.tasks("operators") for s in operators.STATEMENTS)
    counts = {
        "geometry": sum(s.holds for s in geometry.STATEMENTS),
        "operators": cases,
        "kernels": len(kernels.tasks()),
    }
    (line,) = re.findall(
        rf"^.*{re.escape(report.MARK)}$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    tried = [family for family, words in FAMILIES.items() if words in line]
    said = "; ".join(f"{counts[family]:,} {FAMILIES[family]}" for family in tried)
    assert line == f"Proved by `specgrad prove`: {said}. {report.MARK}", "run `specgrad prove --badge README.md`"
    assert {"geometry", "operators"} <= set(tried)


def test_badge_replaces_the_marked_line(tmp_path):
    """Counts of families that were not tried stay."""
    document = tmp_path / "document.md"
    document.write_text(f"one\nold: 7 kernels × geometries for all inputs. {report.MARK}\ntwo\n")
    made = report.Report("", {})
    made.enter("geometry", Found("", "", True, "", Verdict("proved", 0.0)))
    report.write_badge(made, document)
    counts = "1 statements for all geometries; 7 kernels × geometries for all inputs"
    assert document.read_text() == f"one\nProved by `specgrad prove`: {counts}. {report.MARK}\ntwo\n"
