"""The report of a check: text in a terminal, and JSON."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from ..drawing.window import as_text
from .cells import Cell, Difference
from .claims import CLAIMS
from .compare import MOST_SAID, measured
from .subject import printable

SYMBOLS = {
    "holds": ("✓", "green"),
    "differs": ("✗", "bold red"),
    "refuses": ("!", "red"),
    "crashes": ("†", "bold red"),
    "convention": ("≈", "yellow"),
    "not offered": ("–", "dim"),
    "not tried": ("?", "yellow"),
    "": (" ", ""),
}
LEGEND = (
    "✓ holds  ✗ differs  ! refuses a legal case  † crashes or hangs  ≈ other convention  – not offered  ? not tried"
)
AMISS = ("differs", "refuses", "crashes")


@dataclass
class Report:
    """All results of a check, and its command line."""

    cells: list[Cell]
    judged: list[str]
    versions: dict[str, str]
    command: str
    seed: int
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)
    suites: list[Any] = field(default_factory=list)
    interrupted: bool = False
    printed: dict[str, str] = field(default_factory=dict)
    """The text that each subject printed."""
    broken: list[str] = field(default_factory=list)
    """Our own subjects and operators whose process ended during their check."""

    @property
    def holds(self) -> bool:
        """Whether the judged subjects were checked to the end and differ nowhere; a claim that was
        not tried does not hold."""
        amiss = any(c.status in (*AMISS, "not tried") for c in self.cells if c.subject in self.judged)
        return not (amiss or self.broken or any(suite.differences for suite in self.suites))

    def claims(self) -> list[str]:
        """The claims of the report, in the order of CLAIMS."""
        return [claim for claim in CLAIMS if any(cell.claim == claim for cell in self.cells)]

    def subjects(self) -> list[str]:
        return list(dict.fromkeys(cell.subject for cell in self.cells))


Row = dict[str, Any]
"""The cells of an operator, by claim."""


def table(cells: Iterable[Any]) -> dict[str, dict[str, Row]]:
    """The matrix: per subject and operator a row. Cells are `Cell`s, or read from JSON."""
    rows: dict[str, dict[str, Row]] = {}
    for cell in cells:
        rows.setdefault(cell.subject, {}).setdefault(cell.operator, {})[cell.claim] = cell
    return rows


def is_offered(row: Row) -> bool:
    """Whether some claim of an operator's row has a status other than not offered."""
    return any(cell.status not in ("", "not offered") for cell in row.values())


def symbol(row: Row, claim: str) -> tuple[str, str]:
    """The symbol of a claim in the matrix, and its style in a terminal."""
    return SYMBOLS[row[claim].status if claim in row else ""]


def versions(subjects: Sequence[Any]) -> dict[str, str]:
    """The versions of specgrad, the subjects and their libraries."""
    made = {
        "specgrad": str(sys.modules["specgrad"].__dict__["__version__"]),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    for subject in subjects:
        made[subject.name] = getattr(subject, "version", "")
    for name in ("llvmlite", "hypothesis"):
        try:
            made[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return made


WIDE = 80
"""What a terminal shows in a line."""


class Matrix:
    """The matrix subjects × operators × claims, one symbol each, in 80 columns. The rows of a
    subject are printed at `add`; operators that are not offered are listed at the end."""

    def __init__(self, console: Console, claims: Sequence[str], operators: Iterable[str]) -> None:
        self.console, self.claims = console, list(claims)
        self.broad = max([15, *map(len, operators)]) + 1
        names = (self.claims, [claim[:3] for claim in claims], [claim[:2] for claim in claims])
        self.heads = next((n for n in names if self.broad + sum(len(c) + 1 for c in n) <= WIDE + 1), names[-1])
        self.subjects: set[str] = set()
        self._gathered: list[str] = []

    def add(self, subject: str, cells: Sequence[Cell]) -> None:
        """Print the rows of a subject, once."""
        if subject in self.subjects:
            return
        if not self.subjects:
            line(self.console, Text("specgrad check".ljust(self.broad) + " ".join(self.heads), style="bold"))
        self.subjects.add(subject)
        absent, shown = [], False
        for operator, row in table(cells).get(subject, {}).items():
            if not is_offered(row):
                absent.append(operator)
                continue
            if not shown:
                line(self.console, Text(subject, style="bold"))
                shown = True
            marks = [(symbol(row, c), len(words)) for c, words in zip(self.claims, self.heads, strict=True)]
            made = [Text(mark.center(width), style=style) for (mark, style), width in marks]
            line(self.console, Text(operator.ljust(self.broad)) + Text(" ").join(made))
        if absent:
            self._gathered.append(f"{subject} does not offer {', '.join(absent)}")
        untried = [cell for cell in cells if cell.status == "not tried"]
        for why in dict.fromkeys(cell.not_offered or "no result could be compared" for cell in untried):
            told = (f"{c.operator} {c.claim}" for c in untried if why in (c.not_offered, "no result could be compared"))
            self._gathered.append(f"{subject}: not tried: {', '.join(told)}: {why}")

    def show(self, report: Report) -> None:
        """Print the rows of all subjects that were not printed before."""
        for subject in report.subjects():
            self.add(subject, [cell for cell in report.cells if cell.subject == subject])

    def close(self) -> None:
        """Print the legend, and the operators that are not offered or were not tried."""
        self.console.print(Text(LEGEND, style="dim"))
        if self.heads != self.claims:
            words = "columns: " + "  ".join(self.claims) + " (--claim also takes the first letters)"
            self.console.print(Text(words, style="dim"))
        for words in self._gathered:
            self.console.print(Text(words, style="dim"))


def line(console: Console, text: Text) -> None:
    """Print one line without wrapping, however narrow the terminal is."""
    text.rstrip()
    console.print(text, soft_wrap=True)


def once(cells: Iterable[Cell]) -> Iterator[tuple[Cell, Difference]]:
    """All differences, each with the first cell that has it: one refusal breaks many claims."""
    seen: set[int] = set()
    for cell in cells:
        for found in cell.found:
            if id(found) not in seen:
                seen.add(id(found))
                yield cell, found


def told(report: Report, console: Console, verbose: bool = True) -> None:
    """Print the differences, the judged subjects' first, with counterexamples and pictures of
    windows.

    Without `verbose`, differences of other subjects are one line each.
    """
    short = 0
    cells = sorted(report.cells, key=lambda cell: cell.subject not in report.judged)
    for cell, found in once(cells):
        judged = cell.subject in report.judged
        if found in cell.conventions:
            continue
        if judged or verbose:
            _told(found, cell.sentence(found), judged, console)
        else:
            console.print(Text(cell.sentence(found)))
            short += 1
    if short:
        words = "1 counterexample is" if short == 1 else f"{short} counterexamples are"
        console.print(Text(f"{words} left out: --verbose prints them, --html has them all", style="dim"))
    conventions = dict.fromkeys(
        f"{cell.subject}, {cell.operator}: another convention, “{found.reading}”: {found.reading_words}"
        for cell in cells
        for found in cell.conventions
    )
    for words in conventions:
        console.print(Text(words, style="yellow"))


def _told(found: Difference, sentence: str, judged: bool, console: Console) -> None:
    console.print(Text(sentence, style="bold red" if judged else "bold"))
    console.print(Text(f"  case: {found.title}", style="dim"))
    if found.likeness:
        console.print(Text(f"  {found.likeness}", style="yellow"))
    lines = Syntax("", "python", background_color="default").highlight(found.python)
    console.print(lines, soft_wrap=True)  # a line that is broken or indented cannot be pasted
    if found.picture:
        console.print(Text("  " + as_text(found.picture).replace("\n", "\n  "), style="cyan"), soft_wrap=True)
    console.print()


def closing(report: Report, console: Console) -> None:
    """Print the text that subjects printed, one line per judged subject, and totals."""
    for subject, text in report.printed.items():
        console.print(Text(f"printed by {subject}:", style="dim"))
        console.print(Text("".join(f"  │ {printable(line)}\n" for line in text.splitlines()), style="dim"), end="")
    for subject in report.judged:
        console.print(verdict([cell for cell in report.cells if cell.subject == subject], subject))
    for why in dict.fromkeys(report.missing.values()):
        left_out = (name for name, reason in report.missing.items() if reason == why)
        console.print(Text(f"not checked: {', '.join(left_out)}: {why}", style="dim"))
    for suite in report.suites:
        console.print(Text(str(suite)))
    console.print(
        f"{sum(c.cases for c in report.cells)} trials in {report.seconds:.0f} s, seed {report.seed}"
        + (", interrupted" if report.interrupted else "")
    )


def verdict(cells: list[Cell], subject: str) -> Text:
    """The result of a subject in one line; only claims that were tried count as holding."""
    tried = sum(cell.cases for cell in cells)
    status = Counter(cell.status for cell in cells)
    wrong = sum(status[name] for name in AMISS)
    if not tried and not wrong:
        return Text(f"{subject}: nothing was tried", style="yellow")
    words = f"{wrong} claim{'s are' if wrong > 1 else ' is'} broken" if wrong else "holds"
    claims = status["holds"] + status["convention"] + wrong
    words = f"{subject}: {words} in {tried} trial{'s' * (tried != 1)} of {claims} claim{'s' * (claims != 1)}"
    words += "".join(f", {status[name]} {name}" for name in ("not offered", "not tried") if status[name])
    worst = max(cells, key=lambda cell: cell.share)
    used = f"; at most {', '.join(measured(worst.share, 0))}" if measured(worst.share, 0) else ""
    return Text(words + used, style="red" if wrong else "yellow" if status["not tried"] else "green")


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "command": report.command,
        "seed": report.seed,
        "seconds": round(report.seconds, 1),
        "versions": report.versions,
        "judged": report.judged,
        "holds": report.holds,
        "interrupted": report.interrupted,
        "missing": report.missing,
        "printed": report.printed,
        "suites": [suite.as_json() for suite in report.suites],
        "cells": [cell_json(cell) for cell in report.cells],
    }


def cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "subject": cell.subject,
        "operator": cell.operator,
        "claim": cell.claim,
        "claim_words": CLAIMS[cell.claim].words,
        "status": cell.status,
        "cases": cell.cases,
        "share_of_bound": cell.share if np.isfinite(cell.share) else None,
        "ulps": cell.ulps if cell.ulps < MOST_SAID else None,
        "not_offered": cell.not_offered,
        "differences": [difference_json(found) for found in (*cell.differences, *cell.refusals)],
        "conventions": [difference_json(found) for found in cell.conventions],
    }


def difference_json(found: Difference) -> dict[str, Any]:
    return {
        "words": found.outcome.words,
        "part": found.outcome.part,
        "case": found.title,
        "operator": found.case and repr(found.case.op),
        "looks_like": found.reading,
        "python": found.python,
        "window": found.picture and as_text(found.picture),
    }


def write_json(report: Report, path: Path) -> None:
    path.write_text(json.dumps(as_json(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read(path: Path) -> Any:
    """The JSON report as nested objects; cells and differences have attributes, as in `Report`."""

    def entry(found: dict[str, Any]) -> Any:
        return SimpleNamespace(**found) if {"claim_words", "looks_like"} & found.keys() else found

    return json.loads(path.read_text(encoding="utf-8"), object_hook=entry)
