"""What a check found, for people in a terminal and for machines as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from .runner import ALL_CLAIMS, Cell, Difference
from .words import CLAIM_WORDS, drawn, likeness, pasteable, sentence

SYMBOLS = {
    "holds": ("✓", "green"),
    "differs": ("✗", "bold red"),
    "refuses": ("!", "red"),
    "convention": ("≈", "yellow"),
    "not offered": ("–", "dim"),
    "": (" ", ""),
}
LEGEND = "✓ holds   ✗ differs   ! refuses a legal case   ≈ another documented convention   – does not offer"
SHORT = {
    "adjoint": "adj",
    "witness": "dual",
    "second": "2nd",
    "padding": "pad",
    "infinity": "inf",
    "unmodified": "keep",
    "deterministic": "det",
    "refuses": "ref",
}


@dataclass
class Report:
    """Everything a check found, and how it was asked."""

    cells: list[Cell]
    judged: list[str]
    versions: dict[str, str]
    command: str
    seed: int
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)
    suites: list[Any] = field(default_factory=list)
    interrupted: bool = False
    broken: list[str] = field(default_factory=list)
    """What of our own was being checked when its process ended."""

    @property
    def holds(self) -> bool:
        """Whether the judged subjects differ nowhere, and were checked to the end."""
        differ = any(c.status in ("differs", "refuses") for c in self.cells if c.subject in self.judged)
        return not (differ or self.broken or any(suite.differences for suite in self.suites))

    def subjects(self) -> list[str]:
        return list(dict.fromkeys(cell.subject for cell in self.cells))


def versions(subjects: Sequence[Any]) -> dict[str, str]:
    """What was running."""
    made = {
        "specgrad": str(sys.modules["specgrad"].__dict__["__version__"]),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    for subject in subjects:
        made[subject.name] = getattr(subject, "version", "")
    for name in ("numba", "hypothesis"):
        try:
            made[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return made


def matrix(report: Report, console: Console) -> None:
    """Subjects × operators × claims, one symbol each; operators that a subject does not offer are gathered in a line."""
    claims = [c for c in ALL_CLAIMS if any(cell.claim == c for cell in report.cells)]
    table = Table(title="specgrad check", caption=LEGEND, padding=(0, 0), pad_edge=False)
    table.add_column("subject", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    for claim in claims:
        head = SHORT.get(claim, claim)
        table.add_column(head, justify="center", min_width=max(4, len(head)))
    gathered = []
    for subject in report.subjects():
        mine = [cell for cell in report.cells if cell.subject == subject]
        absent, label = [], subject
        for operator in dict.fromkeys(cell.operator for cell in mine):
            row = {cell.claim: cell.status for cell in mine if cell.operator == operator}
            if all(status in ("", "not offered") for status in row.values()):
                absent.append(operator)
                continue
            table.add_row(Text(label), operator, *(Text(*SYMBOLS[row.get(claim, "")]) for claim in claims))
            label = ""
        if absent:
            gathered.append(f"{subject} does not offer {', '.join(absent)}")
        table.add_section()
    console.print(table, crop=False)  # a narrow terminal wraps it, a file has it whole
    for line in gathered:
        console.print(Text(line, style="dim"))


def told(report: Report, console: Console, names: dict[str, str]) -> None:
    """Each difference in words, with its counterexample and its window; those of the judged subjects first."""
    seen: set[int] = set()
    cells = sorted(report.cells, key=lambda cell: cell.subject not in report.judged)
    for cell in cells:
        for difference in (*cell.differences, *cell.refusals):
            if id(difference) in seen:
                continue
            seen.add(id(difference))
            console.print(
                Text(sentence(cell, difference), style="bold red" if cell.subject in report.judged else "bold")
            )
            console.print(Text(f"  case: {difference.title}", style="dim"))
            like = likeness(difference)
            if like:
                console.print(Text(f"  {like}", style="yellow"))
            code = pasteable(difference, names.get(cell.subject, cell.subject))
            lines = Syntax("", "python", background_color="default").highlight(code)
            console.print(lines, soft_wrap=True)  # a line that is broken or indented cannot be pasted
            window = drawn(difference)
            if window:
                console.print(Text("  " + window.replace("\n", "\n  "), style="cyan"), soft_wrap=True)
            console.print()
    for cell in cells:
        for difference in cell.conventions:
            words = f"{cell.subject}, {cell.operator}: another convention, “{difference.reading}”: {difference.reading_words}"
            if words not in seen:  # type: ignore[comparison-overlap]
                seen.add(words)  # type: ignore[arg-type]
                console.print(Text(words, style="yellow"))


def closing(report: Report, console: Console) -> None:
    """One line per judged subject, and the sum."""
    for subject in report.judged:
        mine = [cell for cell in report.cells if cell.subject == subject]
        wrong = sum(cell.status in ("differs", "refuses") for cell in mine)
        share = max((c.share for c in mine), default=0.0)
        verdict = "holds" if not wrong else f"{wrong} claims broken"
        tried = sum(cell.cases for cell in mine)
        words = f"{subject}: {verdict} in {tried} trials; at most {share:.2f} of a bound used"
        if tried or wrong:
            console.print(Text(words, style="red" if wrong else "green"))
        else:
            console.print(Text(f"{subject}: nothing was tried", style="yellow"))
    for why in dict.fromkeys(report.missing.values()):
        left_out = (name for name, reason in report.missing.items() if reason == why)
        console.print(Text(f"not checked: {', '.join(left_out)}: {why}", style="dim"))
    for suite in report.suites:
        console.print(Text(str(suite)))
    console.print(
        f"{sum(c.cases for c in report.cells)} trials in {report.seconds:.0f} s, seed {report.seed}"
        + (", interrupted" if report.interrupted else "")
    )


def as_json(report: Report, names: dict[str, str]) -> dict[str, Any]:
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
        "suites": [suite.as_json() for suite in report.suites],
        "cells": [cell_json(cell, names) for cell in report.cells],
    }


def cell_json(cell: Cell, names: dict[str, str]) -> dict[str, Any]:
    return {
        "subject": cell.subject,
        "operator": cell.operator,
        "claim": cell.claim,
        "claim_words": CLAIM_WORDS[cell.claim],
        "status": cell.status,
        "cases": cell.cases,
        "share_of_bound": finite(cell.share),
        "ulps": finite(cell.ulps),
        "not_offered": cell.not_offered,
        "differences": [difference_json(cell, d, names) for d in (*cell.differences, *cell.refusals)],
        "conventions": [difference_json(cell, d, names) for d in cell.conventions],
    }


def difference_json(cell: Cell, difference: Difference, names: dict[str, str]) -> dict[str, Any]:
    return {
        "words": difference.outcome.words,
        "part": difference.outcome.part,
        "case": difference.title,
        "operator": repr(difference.case.op),
        "looks_like": difference.reading,
        "python": pasteable(difference, names.get(cell.subject, cell.subject)),
        "window": drawn(difference),
    }


def finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def write_json(report: Report, path: Path, names: dict[str, str]) -> None:
    path.write_text(json.dumps(as_json(report, names), indent=1, allow_nan=False) + "\n", encoding="utf-8")
