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
    """The window's planes at the left, its output at the right, and an arrow with its slope to every cell that takes gradient."""
    columns = len(found.planes[0].rows[0])
    below = 24
    tops = []  # of the rows, of all planes one below the other
    labels = ""
    for plane in found.planes:
        if plane.at:
            labels += f'<text class="s" x="0" y="{below + 14}">{escape(plane.title)}</text>'
            below += 20
        tops += [below + SIDE * i for i in range(len(plane.rows))]
        below += SIDE * len(plane.rows)
    width = max(columns * SIDE + 2 * GAP + 2 * SIDE, *(6 * len(text) for text in (found.title, *found.notes[:1])))
    height, middle, output = below + 22, (24 + below) / 2, columns * SIDE + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(found.title)}</title><style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#c0392b"/></marker></defs>',
        f'<text class="s" x="0" y="14">{escape(found.title)}</text>{labels}',
    ]
    rows = list(zip(tops, (row for plane in found.planes for row in plane.rows), strict=True))
    squares = [(j * SIDE, top, square) for top, row in rows for j, square in enumerate(row)]
    parts += [_square(square, x, y) for x, y, square in squares]
    for left, top, square in squares:
        if square.read and square.real and square.slope:
            x, y = left + SIDE / 2, top + SIDE / 2
            parts.append(
                f'<path class="g" d="M{output} {middle}Q{(output + x) / 2} {min(y, middle) - 10} {x + 9} {y - 8}"/>'
            )
    parts.append(f'<rect class="o" x="{output}" y="{middle - SIDE / 2}" width="{SIDE}" height="{SIDE}" rx="4"/>')
    parts.append(f'<text class="t" x="{output + SIDE / 2}" y="{middle + 4}">{escape(arriving)}</text>')
    parts += [f'<text class="s" x="0" y="{height - 6}">{escape(note)}</text>' for note in found.notes[:1]]
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
