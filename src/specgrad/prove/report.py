"""The verdicts as a table in the terminal, as JSON, and as one self-contained HTML page."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ..conformance.html import STYLE
from . import FAMILIES
from .statement import Found

STYLES = {  # of each status: in a terminal, and in HTML
    "proved": ("green", "holds"),
    "refuted, as stated": ("yellow", "convention"),
    "REFUTED": ("bold red", "differs"),
    "PROVED, not as stated": ("bold red", "differs"),
    "undecided": ("bold red", "refuses"),
}
MARK = "<!-- written by `specgrad prove --badge` -->"


@dataclass
class Line:
    """A statement about a subject, and its verdicts case by case."""

    family: str
    subject: str
    words: str
    holds: bool
    as_stated: int = 0
    failures: list[Found] = field(default_factory=list)
    counterexample: str = ""
    seconds: float = 0.0

    def enter(self, found: Found) -> None:
        """Count one more case."""
        self.seconds += found.verdict.seconds
        shown = [code for code in (self.counterexample, found.verdict.counterexample) if code]
        self.counterexample = min(shown, key=lambda code: (len(code), code), default="")
        if found.as_stated:
            self.as_stated += 1
        else:
            self.failures.append(found)
            self.failures.sort(key=lambda failure: failure.case)  # independent of timing

    @property
    def cases(self) -> int:
        return self.as_stated + len(self.failures)

    @property
    def status(self) -> str:
        """The worst verdict of all cases, in words."""
        wrong = {found.verdict.status for found in self.failures}
        for status, words in (("refuted", "REFUTED"), ("proved", "PROVED, not as stated"), ("undecided", "undecided")):
            if status in wrong:
                return words
        return "proved" if self.holds else "refuted, as stated"

    def as_json(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "subject": self.subject,
            "statement": self.words,
            "expected": "proved" if self.holds else "refuted",
            "status": self.status,
            "cases": self.cases,
            "as_stated": self.as_stated,
            "seconds": round(self.seconds, 3),
            "counterexample": self.counterexample,
            "failures": [
                {"case": f.case, "status": f.verdict.status, "reason": f.verdict.reason} for f in self.failures
            ],
        }


@dataclass
class Report:
    """The lines of all statements, the command line, and how much of it was done."""

    command: str
    versions: dict[str, str]
    families: list[str] = field(default_factory=list)
    """The families that the command line names."""
    tasks: int = 0
    done: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    lines: dict[tuple[str, str, str], Line] = field(default_factory=dict)

    def enter(self, family: str, found: Found) -> None:
        """Count one more case of a statement."""
        key = family, found.subject, found.words
        self.lines.setdefault(key, Line(*key, found.holds)).enter(found)

    def ordered(self) -> list[Line]:
        """All lines, by family, subject and the order of statements in the family."""
        stated = {
            (family, statement.words): place
            for family in {line.family for line in self.lines.values()}
            for place, statement in enumerate(importlib.import_module(f"{__package__}.{family}").STATEMENTS)
        }
        families = list(FAMILIES)

        def place(line: Line) -> tuple[int, str, int]:
            return families.index(line.family), line.subject, stated.get((line.family, line.words), -1)

        return sorted(self.lines.values(), key=place)

    @property
    def holds(self) -> bool:
        """Whether every verdict is as stated."""
        return all(not line.failures for line in self.lines.values())

    @property
    def unreached(self) -> list[str]:
        """The families without a decided statement when the budget was over."""
        if self.interrupted or self.done == self.tasks:
            return []
        tried = {line.family for line in self.lines.values()}
        return [family for family in self.families if family not in tried]

    def proved(self, family: str) -> int:
        """The number of proved cases of a family's statements."""
        return sum(line.as_stated for line in self.lines.values() if line.family == family and line.holds)

    def summary(self) -> str:
        """The numbers of proved cases, in one line."""
        families = {line.family for line in self.lines.values()}
        return "; ".join(f"{self.proved(f):,} {words}" for f, words in FAMILIES.items() if f in families)

    def as_json(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "versions": self.versions,
            "seconds": round(self.seconds, 1),
            "holds": self.holds,
            "interrupted": self.interrupted,
            "tasks": self.tasks,
            "tasks_done": self.done,
            "proved": {family: self.proved(family) for family in FAMILIES},
            "lines": [line.as_json() for line in self.ordered()],
        }


def table(report: Report) -> Table:
    """A table with one line per statement, subject by subject."""
    made = Table(title="specgrad prove", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("statement")
    made.add_column("verdict", no_wrap=True)
    for head in ("cases", "seconds"):
        made.add_column(head, justify="right")
    subject = ""
    for line in report.ordered():
        if line.subject != subject:
            made.add_section()
            made.add_row(Text(line.subject, style="bold"))
        subject = line.subject
        verdict = Text(line.status, style=STYLES[line.status][0])
        made.add_row(Text(line.words), verdict, str(line.cases), f"{line.seconds:.1f}")
    return made


def told(report: Report, console: Console) -> None:
    """Print failures with their reasons, counterexamples, the numbers of proved statements, and a
    remedy where the budget was too small."""
    for line in sorted(report.ordered(), key=lambda line: bool(line.failures)):
        if line.counterexample or line.failures:
            console.print(Text(f"{line.subject}: {line.words}: {line.status}", style=STYLES[line.status][0]))
            for found in line.failures[:3]:
                console.print(Text(f"  {found.verdict.status} in {found.case or found.subject} {found.verdict.reason}"))
            code = Syntax("", "python", background_color="default").highlight(line.counterexample)
            console.print(code, soft_wrap=True)  # a wrapped line cannot be pasted
    words = f"proved: {report.summary() or 'nothing'}"
    console.print(Text(words, style="green" if report.holds else "red"))
    share = "" if report.done == report.tasks else f", {report.done} of {report.tasks} tasks: a sample"
    console.print(f"{report.seconds:.0f} s{share}{', interrupted' if report.interrupted else ''}")
    if report.unreached:
        console.print(
            f"No statement about {', '.join(report.unreached)} was decided in this time: "
            f"the processes alone take some seconds to start. "
            f"--budget {max(20, 4 * round(report.seconds))} decides a sample; without --budget all are decided.",
            soft_wrap=True,
        )


def write_json(report: Report, path: Path) -> None:
    path.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")


def write_html(report: Report, path: Path) -> None:
    rows = "".join(
        f'<tr><td>{escape(line.subject)}</td><td class="words">{escape(line.words)}{_details(line)}</td>'
        f'<td class="{STYLES[line.status][1]}">{escape(line.status)}</td><td>{line.cases}</td>'
        f"<td>{line.seconds:.1f}</td></tr>"
        for line in report.ordered()
    )
    heads = "".join(f"<th>{head}</th>" for head in ("subject", "statement", "verdict", "cases", "seconds"))
    facts = {"command": report.command, "seconds": f"{report.seconds:.0f}", **report.versions}
    facts["tasks"] = f"{report.done} of {report.tasks}"
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    verdict = "everything is as stated" if report.holds else "not everything is as stated"
    body = (
        f"<h1>specgrad prove: {verdict}</h1><p>Proved: {escape(report.summary() or 'nothing')}.</p>"
        f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div><h2>Versions and command</h2><dl>{listed}</dl>'
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    style = f"{STYLE}.words{{text-align:left;white-space:normal}}"
    page = f'<!doctype html><html lang="en"><head>{head}<title>specgrad prove</title><style>{style}</style></head>'
    path.write_text(f"{page}<body>{body}</body></html>\n", encoding="utf-8")


def _details(line: Line) -> str:
    """The counterexample and the failures of a line, as an HTML element to be opened."""
    shown = f"<pre>{escape(line.counterexample)}</pre>" if line.counterexample else ""
    for found in line.failures:
        shown += f"<p>{escape(found.case)}: {escape(found.verdict.status)} {escape(found.verdict.reason)}</p>"
    return shown and f"<details><summary>counterexample</summary>{shown}</details>"


def write_badge(report: Report, path: Path) -> None:
    """Write the counts into the line of a document that ends with the mark; counts of families that
    were not tried stay."""
    lines = path.read_text(encoding="utf-8").split("\n")
    tried = {line.family for line in report.lines.values()}

    def badge(line: str) -> str:
        counts = {}
        for family, words in FAMILIES.items():
            before = re.search(rf"([\d,]+) {re.escape(words)}", line)
            if family in tried:
                counts[family] = f"{report.proved(family):,} {words}"
            elif before:
                counts[family] = before[0]
        return f"Proved by `specgrad prove`: {'; '.join(counts.values())}. {MARK}"

    path.write_text("\n".join(badge(line) if line.endswith(MARK) else line for line in lines), encoding="utf-8")
