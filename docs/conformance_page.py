"""The published page of what the peers do: `python docs/conformance_page.py report.json
docs/conformance.md`.

Everything after the page's marker is written anew from a report made by `specgrad check … --json`:
versions, the matrix, the outside suites, and every difference with its counterexample, which is run
while the page is made; what it prints is what stands there.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from specgrad.conformance.claims import CLAIMS, head
from specgrad.conformance.report import LEGEND, is_offered, read, symbol, table

MARKER = "<!-- from here on written by python docs/conformance_page.py -->"
COLUMNS = "A column is a [claim](check-your-kernel.md#what-is-claimed), by its first letters; empty: no case asks it."


def page(report: Any) -> str:
    """The generated part of the page."""
    lines = [MARKER, "", "## The matrix", "", LEGEND + ".", "", COLUMNS, ""]
    lines += [
        "| | |",
        "|---|---|",
        *(f"| {name} | {version} |" for name, version in report["versions"].items() if version),
        "",
    ]
    lines += matrix(report["cells"])
    if report["suites"]:
        lines += ["## Tests of other projects, run on specgrad", ""]
        lines += [f"- {suite['words']}." for suite in report["suites"]] + [""]
    lines += [
        "## Every difference, with its counterexample",
        "",
        "Each block was run when this page was written, and printed the text below the block.",
        "",
    ]
    for subject, rows in table(report["cells"]).items():
        lines += [f"### {subject}", "", *differences([cell for row in rows.values() for cell in row.values()])]
    return "\n".join(lines).rstrip() + "\n"


def matrix(cells: list[Any]) -> list[str]:
    """Subjects and operators × claims; operators that are not offered are left out."""
    claims = [claim for claim in CLAIMS if any(cell.claim == claim for cell in cells)]
    lines = [
        "| subject | operator | " + " | ".join(head(c) for c in claims) + " |",
        "|---|---|" + ":-:|" * len(claims),
    ]
    for subject, rows in table(cells).items():
        for operator, row in rows.items():
            if is_offered(row):
                lines.append(f"| {subject} | {operator} | " + " | ".join(symbol(row, c)[0] for c in claims) + " |")
    return [*lines, ""]


def differences(cells: list[Any]) -> list[str]:
    """Each difference once, however many claims it breaks; then the conventions."""
    lines: list[str] = []
    seen: set[str] = set()
    for cell in cells:
        for found in cell.differences:
            if found.python in seen:
                continue
            seen.add(found.python)
            like = f" Looks like “{found.looks_like}”." if found.looks_like else ""
            lines += [f"**{cell.operator}, {cell.claim_words}**: {_line(found.words)}.{like}", ""]
            lines += ["```python", found.python, "```", "", "```text", printed(found.python).rstrip(), "```", ""]
    told = sorted({f"{cell.operator}: “{found.looks_like}”" for cell in cells for found in cell.conventions})
    if told:
        lines += ["Other conventions: " + "; ".join(told) + ".", ""]
    return lines or ["No difference found.", ""]


def _line(words: str) -> str:
    return " ".join(words.split()).rstrip(".").replace("|", "\\|").replace("<", "&lt;")


def printed(code: str) -> str:
    """What a block prints, or the last line of the error that it ends with."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exec(code, {})
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            print(f"{type(error).__name__}: {first[:160]}")
    return out.getvalue()


def main() -> None:
    report, place = Path(sys.argv[1]), Path(sys.argv[2])
    made = page(read(report))
    head = place.read_text(encoding="utf-8").partition(MARKER)[0] if place.exists() else ""
    place.write_text(head + made, encoding="utf-8")


if __name__ == "__main__":
    main()
