"""The command `specgrad explain`: an operator's geometry, values and gradient flow, drawn from actual numbers."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import dispatch
from ..errors import SpecgradError
from ..operator import Operator
from ..ops import OPERATORS, Linear
from ..ops.conv import Bilinear
from ..ops.pool import Pool
from .cases import Case
from .drawing import Picture, Square, as_text, picture
from .judge import number
from .svg import as_svg
from .telling import distinct

Array = np.ndarray[Any, Any]

MOST_CELLS = 10_000


def numbers(words: str | None, argument: str) -> tuple[int, ...] | None:
    """`3,3` as a tuple of integers."""
    if words is None:
        return None
    try:
        return tuple(int(word) for word in words.split(",") if word.strip())
    except ValueError:
        raise typer.BadParameter(f"{argument}: write integers with commas, e.g. 3,3") from None


def explain(
    operator: Annotated[str, typer.Argument(help="MaxPool, AvgPool, AdaptiveMaxPool, Conv, Linear, … or max_pool, …")],
    input: Annotated[str, typer.Option(help="The input's spatial lengths, e.g. 5,5; of Linear: its shape.")] = "5,5",
    kernel: Annotated[str | None, typer.Option(help="kernel_size, e.g. 3,3.")] = None,
    stride: Annotated[str | None, typer.Option(help="stride, one number or one per axis.")] = None,
    padding: Annotated[str | None, typer.Option(help="padding: one number, one per axis, same or valid.")] = None,
    dilation: Annotated[str | None, typer.Option(help="dilation.")] = None,
    output_padding: Annotated[str | None, typer.Option(help="output_padding of ConvTranspose.")] = None,
    output_size: Annotated[str | None, typer.Option(help="output_size of adaptive pooling, e.g. 3,3.")] = None,
    ceil_mode: Annotated[bool, typer.Option("--ceil-mode")] = False,
    count_include_pad: Annotated[bool, typer.Option(help="Of an average: count padding.")] = True,
    ties: Annotated[str | None, typer.Option(help="first, all or split.")] = None,
    beta: Annotated[float | None, typer.Option(help="Of a smooth maximum.")] = None,
    values: Annotated[
        str | None, typer.Option(help="The input's numbers, with commas; none: distinct integers.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The output cell to draw, e.g. 0,1; none: the first.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the drawing as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the drawing as PNG (needs matplotlib).")] = None,
) -> None:
    """Draw which cells an output reads, what it computes from them, and where its gradient goes."""
    console = Console()
    try:
        op = _operator(operator, len(numbers(input, "--input") or ()), locals())
        case = _case(op, numbers(input, "--input") or (), values)
        output = numbers(at, "--at") or (0,) * case.cotangent.ndim
        if len(output) != case.cotangent.ndim or any(
            not 0 <= i < n for i, n in zip(output, case.cotangent.shape, strict=True)
        ):
            raise typer.BadParameter(f"--at: the output has shape {case.cotangent.shape}")
    except SpecgradError as error:
        raise typer.BadParameter(str(error)) from None
    with dispatch.engine("reference"):  # the specification speaks for itself, and compiles nothing
        found = described(case, output)
        value, gradient = op(*case.operands), op.vjp(case.operands, case.cotangent)[0]
    console.print(f"{op!r} on an input of shape {case.operands[0].shape} gives {case.cotangent.shape}", markup=False)
    console.print(_plane("input", case.operands[0]), markup=False, highlight=False)
    if len(case.operands) > 1:
        console.print(_plane("weight", case.operands[1]), markup=False, highlight=False)
    console.print(_plane("output", value), markup=False, highlight=False)
    if found is not None:
        console.print(as_text(found), markup=False, highlight=False)
    console.print(_plane("gradient of the input, for a cotangent of ones", gradient), markup=False, highlight=False)
    if found is None and (svg or png):
        raise typer.BadParameter("there is no plane to draw")
    try:
        if svg is not None and found is not None:
            svg.write_text(as_svg(found) + "\n", encoding="utf-8")
        if png is not None and found is not None:
            draw_png(found, png)
    except OSError as error:
        raise typer.BadParameter(f"the drawing is not written: {error}") from None


def _operator(name: str, rank: int, given: dict[str, Any]) -> Any:
    kinds: dict[str, type[Operator]] = {word: kind for kind in OPERATORS for word in (kind.__name__, kind.name)}
    kind: Any = kinds.get(name)
    if kind is None or not issubclass(kind, Pool | Bilinear):
        raise typer.BadParameter(
            "choose from " + ", ".join(k.__name__ for k in OPERATORS if issubclass(k, Pool | Bilinear))
        )
    declared = {field.name for field in dataclasses.fields(kind)}
    words: dict[str, Any] = {}
    for field, option in (
        ("stride", "stride"),
        ("dilation", "dilation"),
        ("padding", "padding"),
        ("output_padding", "output_padding"),
        ("kernel_size", "kernel"),
        ("output_size", "output_size"),
    ):
        text = given[option]
        if text is not None:
            parts = text if text in ("same", "valid") else numbers(text, f"--{option}")
            words[field] = (
                parts
                if isinstance(parts, str) or parts is None or len(parts) != 1 or field.endswith("_size")
                else parts[0]
            )
    for field, default in (("rank", rank), ("output_size", (1,) * rank), ("kernel_size", (2,) * rank), ("beta", 1.0)):
        if field in declared:
            words.setdefault(field, default)
    if given["ceil_mode"]:
        words["ceil_mode"] = True
    if not given["count_include_pad"]:
        words["count_include_pad"] = False
    words.update({name: given[name] for name in ("ties", "beta") if given[name] is not None})
    try:
        return kind(**words)
    except TypeError:
        extra = ", ".join(sorted(words.keys() - declared))
        raise typer.BadParameter(f"{kind.__name__} takes no {extra}") from None


def _case(op: Any, sizes: tuple[int, ...], values: str | None) -> Case:
    if any(n < 0 for n in sizes):
        raise typer.BadParameter("--input: a length is at least 0")
    if math.prod(sizes) > MOST_CELLS:
        raise typer.BadParameter(
            f"--input: {math.prod(sizes)} cells are too many to read; at most {MOST_CELLS} are drawn"
        )
    x = distinct(sizes, np.float64)
    if values is not None:
        try:
            listed = [float(word) for word in values.split(",")]
        except ValueError:
            raise typer.BadParameter("--values: write numbers with commas, e.g. 1,2.5,-inf") from None
        if len(listed) != x.size:
            raise typer.BadParameter(f"--values: {x.size} numbers are needed, {len(listed)} were given")
        x = np.array(listed).reshape(sizes)
    operands: tuple[Array, ...] = (x,)
    if isinstance(op, Linear):
        operands = (x, _weight((2, *sizes[-1:])))
    elif isinstance(op, Bilinear):
        operands = (x[None], _weight((1, 1, *op.weight_kernel()[0])))
    shape = op.output_shape(*(a.shape for a in operands))
    return Case(op, operands, tuple(np.ones(a.shape) for a in operands), np.ones(shape))


def _weight(shape: tuple[int, ...]) -> Array:
    """Distinct integers without 0, so that every cell that is read takes gradient."""
    weight = distinct(shape, np.float64)
    return np.where(weight >= 0, weight + 1, weight)


def described(case: Case, output: tuple[int, ...]) -> Picture | None:
    """The window of one output with what is said about it."""
    found = picture(case, output)
    if found is None:
        return None
    read = found.read()
    taps, real = len(read), sum(square.real for square in read)
    value = np.asarray(case.op(*case.operands))[output]
    counted = f"{taps} tap{'s' * (taps != 1)}, {real} real cell{'s' * (real != 1)}"
    found.notes.append(f"{counted}; the output is {number(value)}")
    found.notes.append(f"gradient of the output goes to the input by these slopes: {_slopes(read)}")
    return found


def _slopes(read: list[Square]) -> str:
    told = [f"{number(round(square.slope, 6))} at {square.text}" for square in read if square.real and square.slope]
    return ", ".join(told) if told else "none"


def _plane(title: str, array: Array) -> str:
    """An array of up to two axes as a table of numbers (more axes: as NumPy prints them)."""
    wide = np.asarray(array)
    while wide.ndim > 2 and wide.shape[0] == 1:
        wide = wide[0]
    if wide.ndim > 2 or not wide.size:
        return f"{title}:\n{wide}"
    rows = wide.reshape(-1, wide.shape[-1] if wide.ndim else 1)
    texts = [[f"{float(cell):.6g}" for cell in row] for row in rows]
    width = max(len(text) for row in texts for text in row)
    return "\n".join([f"{title}:", *("  " + "  ".join(text.rjust(width) for text in row) for row in texts)])


COLOURS = {"wins": "#ffd479", "read": "#cfe3ff", "real": "#ffffff", "padding": "#f1f1f1"}


def draw_png(found: Picture, path: Path) -> None:
    """The same picture by matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError:
        raise typer.BadParameter("--png needs matplotlib: pip install 'specgrad[plot]'") from None
    columns = len(found.planes[0].rows[0])
    lines = sum(len(plane.rows) + bool(plane.at) for plane in found.planes)
    figure = Figure(figsize=(max(columns * 0.7, len(found.title) * 0.09) + 0.4, lines * 0.7 + 1), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.84))
    top = lines
    for plane in found.planes:
        if plane.at:
            top -= 1
            axes.text(0.05, top + 0.1, plane.title, fontsize=9)
        for row in plane.rows:
            top -= 1
            for j, square in enumerate(row):
                colour = COLOURS[
                    "wins"
                    if square.wins and square.read
                    else "read"
                    if square.read
                    else "real"
                    if square.real
                    else "padding"
                ]
                edge, dotted = ("#555", "-") if square.real else ("#aaa", ":")
                axes.add_patch(Rectangle((j, top), 1, 1, facecolor=colour, edgecolor=edge, linestyle=dotted))
                axes.text(j + 0.5, top + 0.5, square.text, ha="center", va="center", fontsize=9)
                if square.read and square.real and square.slope:
                    axes.text(j + 0.06, top + 0.06, number(round(square.slope, 3)), fontsize=6)
    axes.set_xlim(-0.05, columns + 0.05)
    axes.set_ylim(-0.05, lines + 0.05)
    axes.set_axis_off()
    axes.set_aspect("equal")
    figure.suptitle(found.title, fontsize=9)
    figure.savefig(str(path), format="png")
