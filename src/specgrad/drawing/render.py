"""A picture as shapes, written once, and these shapes as SVG or PNG.

Cells that are read are blue, the winner of a maximum is yellow, padding is dotted. The gradient
flows along arrows from the output to every cell that takes a share; the small number is the slope.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

from ..errors import ArgumentError, refusal
from .window import Picture, Plane, Square, number

SIDE, GAP, LINE = 46, 34, 20
CELL, PADDING, READ, WINS, OUTPUT = "c", "p", "c w", "c win", "o"
FILL = {CELL: "#ffffff", PADDING: "#f1f1f1", "p w": "#cfe3ff", READ: "#cfe3ff", WINS: "#ffd479", OUTPUT: "#dff3df"}
EDGE = {CELL: "#555555", PADDING: "#aaaaaa", OUTPUT: "#2e7d32"}
ARROW = "#c0392b"
RULES = {
    ".c": "fill:#fff;stroke:#555",
    ".p": "fill:#f1f1f1;stroke:#aaa;stroke-dasharray:3 2",
    ".w": "fill:#cfe3ff",
    ".win": "fill:#ffd479",
    ".o": "fill:#dff3df;stroke:#2e7d32",
    ".t": "font:12px ui-monospace,monospace;text-anchor:middle;fill:#111",
    ".s": "font:11px system-ui,sans-serif;fill:#333",
    ".g": f"stroke:{ARROW};stroke-width:1.5;fill:none;marker-end:url(#head)",
}
STYLE = "".join(f"svg.specgrad {name}{{{rule}}}" for name, rule in RULES.items())
"""A page that holds a drawing keeps its own styles: each rule counts inside the drawing alone."""


class Box(NamedTuple):
    """A square of a kind that has its colours, from its upper left corner."""

    x: float
    y: float
    side: float
    kind: str
    legend: bool = False


class Text(NamedTuple):
    """A text from its left end, or about its middle; y is its baseline."""

    x: float
    y: float
    text: str
    centred: bool = False


class Arrow(NamedTuple):
    """A curve from the output, bent about its second point, to a cell."""

    points: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    kind: str


@dataclass
class Drawing:
    """The shapes of a picture, and the size that they need."""

    title: str
    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def write(self, x: float, y: float, text: str, centred: bool = False) -> None:
        """Add a text, and room for it: no letter of these sizes is wider than 6.6."""
        self.texts.append(Text(x, y, text, centred))
        self.width = max(self.width, x + (0 if centred else 6.6 * len(text)))


def kind(square: Square) -> str:
    """The colour of a square."""
    if not square.real:
        return "p w" if square.read else PADDING
    return WINS if square.wins and square.read else READ if square.read else CELL


def takes_gradient(square: Square) -> bool:
    """Whether an arrow leads to the square."""
    return bool(square.read and square.real and square.slope)


def drawing(found: Picture, arriving: str = "g") -> Drawing:
    """Planes one below the other, the output at their right, arrows to cells, the legend."""
    made = Drawing(found.title)
    made.write(0, 14, found.title)
    below = 24.0
    cells: list[tuple[float, float, Square, str]] = []
    for plane in found.all_planes():
        arrow = "g weight" if plane in found.weights else "g"
        if plane.at:
            made.write(0, below + 14, plane.title)
            below += LINE
        for i, row in enumerate(plane.rows):
            cells += [(SIDE * j, below + SIDE * i, square, arrow) for j, square in enumerate(row)]
        below += SIDE * len(plane.rows)
    right, middle = max(_columns(plane) for plane in found.all_planes()) * SIDE + 2 * GAP, (24 + below) / 2
    made.width = max(made.width, right + SIDE + 4)
    for x, y, square, arrow in cells:
        made.boxes.append(Box(x + 1, y + 1, SIDE - 2, kind(square)))
        made.write(x + SIDE / 2, y + SIDE / 2 + 2, square.text, centred=True)
        if takes_gradient(square):
            made.write(x + 3, y + SIDE - 4, number(round(square.slope, 3)))
            end = x + SIDE / 2 + 9, y + SIDE / 2 - 8
            bend = (right + end[0]) / 2, min(end[1], middle) - 10
            made.arrows.append(Arrow(((right, middle), bend, end), arrow))
    made.boxes.append(Box(right, middle - SIDE / 2, SIDE, OUTPUT))
    made.write(right + SIDE / 2, middle + 4, arriving, centred=True)
    for note in found.notes[:1]:
        below += LINE
        made.write(0, below, note)
    made.height = _legend(made, below + 10, [square for _, _, square, _ in cells])
    return made


def _columns(plane: Plane) -> int:
    return max(len(row) for row in plane.rows)


def _legend(made: Drawing, top: float, squares: list[Square]) -> float:
    """A line for each colour in the picture, and for the arrows; returns where the next line is."""
    entries = {
        READ: "read by the window",
        WINS: "the winner",
        CELL: "not read",
        PADDING: "padding",
        "p w": "padding that the window reads",
    }
    kinds = {kind(square) for square in squares}
    for each, words in entries.items():
        if each in kinds:
            made.boxes.append(Box(2, top + 2, 11, each, legend=True))
            made.write(20, top + 12, words)
            top += 17
    if made.arrows:
        made.arrows.append(Arrow(((16, top + 8), (9, top + 4), (2, top + 8)), "l g"))
        made.write(20, top + 12, "the gradient g of the output times the slope, the small number")
        top += 17
    return top + 4


def as_svg(found: Picture, arriving: str = "g") -> str:
    """The picture as a document of its own, which pages can hold too."""
    made = drawing(found, arriving)
    size = f'viewBox="0 0 {made.width:g} {made.height:g}" width="{made.width:g}" height="{made.height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="specgrad" {size} role="img">',
        f"<title>{escape(made.title)}</title><style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{ARROW}"/></marker></defs>',
    ]
    for box in made.boxes:
        place = f'x="{box.x:g}" y="{box.y:g}" width="{box.side:g}" height="{box.side:g}" rx="3"'
        parts.append(f'<rect class="{"l " * box.legend}{box.kind}" {place}/>')
    for arrow in made.arrows:
        (a, b), (c, d), (e, f) = arrow.points
        parts.append(f'<path class="{arrow.kind}" d="M{a:g} {b:g}Q{c:g} {d:g} {e:g} {f:g}"/>')
    for text in made.texts:
        style = "t" if text.centred else "s"
        parts.append(f'<text class="{style}" x="{text.x:g}" y="{text.y:g}">{escape(text.text)}</text>')
    return "".join(parts) + "</svg>"


def save_png(found: Picture, path: Path) -> None:
    """The same shapes by matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
        from matplotlib.path import Path as Curve
    except ImportError:
        remedy = "pip install 'specgrad[plot]', or save as .svg"
        raise refusal(ArgumentError, "explain", "path", str(path), "needs matplotlib", remedy) from None
    made = drawing(found)
    figure = Figure(figsize=(made.width / 72, made.height / 72), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    for box in made.boxes:
        dotted = box.kind.startswith(PADDING)
        edge = EDGE.get(box.kind, EDGE[PADDING if dotted else CELL])
        patch = FancyBboxPatch((box.x, box.y), box.side, box.side, boxstyle="round,pad=0,rounding_size=3")
        patch.set(facecolor=FILL[box.kind], edgecolor=edge, linestyle=":" if dotted else "-", linewidth=0.8)
        axes.add_patch(patch)
    for arrow in made.arrows:
        curve = Curve(list(arrow.points), [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])
        axes.add_patch(FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=7, color=ARROW, linewidth=1))
    for text in made.texts:
        family, size, align = ("monospace", 9, "center") if text.centred else ("sans-serif", 8, "left")
        axes.text(text.x, text.y, text.text, family=family, fontsize=size, ha=align, va="baseline", color="#222222")
    axes.set_xlim(0, made.width)
    axes.set_ylim(made.height, 0)
    axes.set_axis_off()
    figure.savefig(str(path), format="png", facecolor="white")
