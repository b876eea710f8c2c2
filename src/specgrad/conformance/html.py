"""The report as one self-contained HTML file: no network, no scripts; text from subjects is
escaped."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..drawing.render import as_svg
from .cells import Cell, Difference
from .claims import CLAIMS, head
from .compare import measured
from .report import LEGEND, SYMBOLS, Report, Row, once, table
from .subject import printable

STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem}
th,td{border:1px solid #9996;padding:.15rem .4rem;text-align:center;white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:Canvas}
.holds{color:#2e7d32}.differs{background:#c6282822;color:#c62828;font-weight:bold}.refuses,.crashes{color:#ad1457;font-weight:bold}
.convention{color:#b26a00}.not{color:#888}
details{border:1px solid #9996;border-radius:.4rem;margin:.5rem 0;padding:.3rem .6rem}
summary{cursor:pointer}
pre{background:#8882;padding:.6rem;border-radius:.4rem;overflow-x:auto;font-size:.8rem}
figure{margin:.5rem 0;overflow-x:auto;background:#fff;padding:.4rem;border-radius:.4rem}
svg{max-width:none}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;font-size:.85rem}
dd{margin:0}
"""


def write_html(report: Report, path: Path) -> None:
    path.write_text(as_html(report), encoding="utf-8")


def as_html(report: Report) -> str:
    """The HTML page of a report."""
    claims = report.claims()
    verdict = "hold" if report.holds else "differ"
    body = [
        f"<h1>specgrad check: {escape(', '.join(report.judged))} {verdict}</h1>",
        f"<p>{escape(LEGEND)}. A click on a symbol leads to its "
        f"counterexample.{' Interrupted: not all was checked.' if report.interrupted else ''}</p>",
    ]
    body += [_matrix(name, rows, claims, name in report.judged) for name, rows in table(report.cells).items()]
    body.append("<h2>Differences</h2>")
    told = [_difference(cell, found, found in cell.conventions) for cell, found in once(report.cells)]
    body += told or ["<p>None.</p>"]
    if report.suites:
        body.append(
            "<h2>Outside suites</h2><ul>" + "".join(f"<li>{escape(str(s))}</li>" for s in report.suites) + "</ul>"
        )
    for subject, text in report.printed.items():
        body.append(
            f"<h2>Printed by {escape(subject)}</h2><pre>{escape(chr(10).join(map(printable, text.splitlines())))}</pre>"
        )
    facts = {
        "command": report.command,
        "seed": str(report.seed),
        "seconds": f"{report.seconds:.0f}",
        **report.versions,
        **report.missing,
    }
    body.append(
        "<h2>Versions and command</h2><dl>"
        + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
        + "</dl>"
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>specgrad '
        f"check</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _matrix(subject: str, rows: dict[str, Row], claims: list[str], judged: bool) -> str:
    """The HTML table of one subject: operators × claims."""
    heads = "".join(f'<th title="{escape(CLAIMS[c].words)}">{escape(head(c))}</th>' for c in claims)
    lines = [
        f"<tr><td>{escape(operator)}</td>{''.join(_symbol(row.get(c)) for c in claims)}</tr>"
        for operator, row in rows.items()
    ]
    role = "" if judged else " <small>(peer)</small>"
    return (
        f"<h2>{escape(subject)}{role}</h2><div "
        f'class="wide"><table><tr><th>operator</th>{heads}</tr>{"".join(lines)}</table></div>'
    )


def _symbol(cell: Cell | None) -> str:
    if cell is None or not cell.status:
        return "<td></td>"
    symbol = SYMBOLS[cell.status][0]
    told = f'<a href="#{_anchor(cell.found[0])}">{symbol}</a>' if cell.found else symbol
    hint = cell.not_offered or "nothing could be compared"
    if cell.cases:
        hint = ", ".join([f"{cell.cases} trials", *measured(cell.share, cell.ulps)])
    return f'<td class="{cell.status.split()[0]}" title="{escape(hint)}">{told}</td>'


def _anchor(difference: Difference) -> str:
    return f"d{id(difference)}"


def _difference(cell: Cell, found: Difference, convention: bool) -> str:
    """The section of one difference: words, likeness, counterexample and drawing."""
    kind = "another convention" if convention else CLAIMS[cell.claim].words
    figure = f"<figure>{as_svg(found.picture)}</figure>" if found.picture else ""
    return (
        f'<details id="{_anchor(found)}"{"" if convention else " open"}>'
        f"<summary><b>{escape(cell.subject)}</b>, {escape(cell.operator)}, {escape(kind)}: "
        f"{escape(str(found.outcome.words))}</summary>"
        f"<p>Case: {escape(found.title)}.{' ' + escape(found.likeness) + '.' if found.likeness else ''}</p>"
        f"<pre>{escape(found.python)}</pre>{figure}</details>"
    )
