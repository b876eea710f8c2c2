"""A picture as SVG: cells of the window in colour, padding dotted, winners ringed, and the gradient flowing back along arrows."""

from __future__ import annotations

from html import escape

from .drawing import Picture, Square
from .judge import number

SIDE = 46
GAP = 34
STYLE = (
    ".c{fill:#fff;stroke:#555}.p{fill:#f1f1f1;stroke:#aaa;stroke-dasharray:3 2}.w{fill:#cfe3ff}.win{fill:#ffd479}"
    ".t{font:12px ui-monospace,monospace;text-anchor:middle;fill:#111}.s{font:11px system-ui,sans-serif;fill:#333}"
    ".g{stroke:#c0392b;stroke-width:1.5;fill:none;marker-end:url(#head)}.o{fill:#dff3df;stroke:#2e7d32}"
)


def as_svg(found: Picture, arriving: str = "g") -> str:
    """The window at the left, its output at the right, and an arrow with its slope to every cell that takes gradient."""
    columns, lines = len(found.rows[0]), len(found.rows)
    top = 24
    width = max(columns * SIDE + 2 * GAP + 2 * SIDE, *(6 * len(text) for text in (found.title, *found.notes[:1])))
    height = lines * SIDE + top + 22
    middle = top + lines * SIDE / 2
    output = columns * SIDE + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(found.title)}</title><style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#c0392b"/></marker></defs>',
        f'<text class="s" x="0" y="14">{escape(found.title)}</text>',
    ]
    for i, row in enumerate(found.rows):
        for j, square in enumerate(row):
            parts.append(_square(square, j * SIDE, top + i * SIDE))
    for i, row in enumerate(found.rows):
        for j, square in enumerate(row):
            if square.read and square.real and square.slope:
                x, y = j * SIDE + SIDE / 2, top + i * SIDE + SIDE / 2
                parts.append(
                    f'<path class="g" d="M{output} {middle}Q{(output + x) / 2} {min(y, middle) - 10} {x + 9} {y - 8}"/>'
                )
    parts.append(f'<rect class="o" x="{output}" y="{middle - SIDE / 2}" width="{SIDE}" height="{SIDE}" rx="4"/>')
    parts.append(f'<text class="t" x="{output + SIDE / 2}" y="{middle + 4}">{escape(arriving)}</text>')
    for place, note in enumerate(found.notes[:1]):
        parts.append(f'<text class="s" x="0" y="{height - 6 + 14 * place}">{escape(note)}</text>')
    return "".join(parts) + "</svg>"


def _square(square: Square, x: float, y: float) -> str:
    kind = "c" if square.real else "p"
    colour = " win" if square.wins and square.read else " w" if square.read else ""
    text = escape(square.text)
    slope = (
        f'<text class="s" x="{x + 3}" y="{y + SIDE - 4}">{escape(number(round(square.slope, 3)))}</text>'
        if square.read and square.real and square.slope
        else ""
    )
    return f'<rect class="{kind}{colour}" x="{x + 1}" y="{y + 1}" width="{SIDE - 2}" height="{SIDE - 2}" rx="3"/><text class="t" x="{x + SIDE / 2}" y="{y + SIDE / 2 + 2}">{text}</text>{slope}'
