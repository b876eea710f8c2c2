"""The command `specgrad explain`: a window, its value and its gradient, drawn from numbers."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from .. import dispatch
from ..arguments import suggestion
from ..errors import SpecgradError
from ..operator import Operator
from ..ops import OPERATORS
from ..ops.conv import Bilinear
from ..ops.pool import Pool
from . import Explanation, distinct, weight_shape
from . import explain as explained
from .window import Array

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
    input: Annotated[str, typer.Option(help="Spatial lengths of the input, e.g. 5,5; for Linear its shape.")] = "5,5",
    kernel: Annotated[str | None, typer.Option(help="kernel_size, a number per window axis, e.g. 3,3.")] = None,
    stride: Annotated[str | None, typer.Option(help="stride, one number or one per axis.")] = None,
    padding: Annotated[str | None, typer.Option(help="padding: one number, one per axis, same or valid.")] = None,
    dilation: Annotated[str | None, typer.Option(help="dilation.")] = None,
    output_padding: Annotated[str | None, typer.Option(help="output_padding of ConvTranspose.")] = None,
    output_size: Annotated[
        str | None, typer.Option(help="output_size of adaptive pooling, likewise, e.g. 3,3.")
    ] = None,
    ceil_mode: Annotated[bool, typer.Option("--ceil-mode", help="Round the number of windows up.")] = False,
    count_include_pad: Annotated[bool, typer.Option(help="Count padding in the divisor of an average.")] = True,
    ties: Annotated[str | None, typer.Option(help="Tie rule of a maximum: first, all or split.")] = None,
    beta: Annotated[float | None, typer.Option(help="beta of a smooth maximum.")] = None,
    p: Annotated[float | None, typer.Option(help="p of LpPool, greater than 1.")] = None,
    values: Annotated[
        str | None, typer.Option(help="Numbers of the input, separated by commas; none: distinct integers.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The output cell to draw, e.g. 0,1; none: the first.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the drawing as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the drawing as PNG (needs matplotlib).")] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Print the kernels that the CPU engine chooses, with reasons.")
    ] = False,
    weight: Annotated[
        str | None, typer.Option(help="With --engine: shape of the weight; --input is then the input's whole shape.")
    ] = None,
    groups: Annotated[int | None, typer.Option(help="groups of a convolution.")] = None,
) -> None:
    """Draw the cells that an output reads, its value, and the gradients of these cells."""
    console = Console()
    try:
        lengths, weights = numbers(input, "--input") or (), numbers(weight, "--weight")
        if weights is not None:
            if not engine:
                raise typer.BadParameter("--weight: only with --engine; drawings have one channel")
            kernel = kernel or ",".join(map(str, weights[2:])) or None
        op = _operator(operator, len(lengths), locals())
        has_channel = isinstance(op, Bilinear) and op.name != "linear" and weights is None  # which is not given
        if engine:
            text = _schedule(op, (1, *lengths) if has_channel else lengths, weights)
            console.print(text, markup=False, highlight=False, soft_wrap=True)
            return
        x = _input(lengths, values)
        found = explained(op, x[None] if has_channel else x, output=numbers(at, "--at"))
        _show(found, console)
        for path, suffix in ((svg, ".svg"), (png, ".png")):
            if path is not None:
                _save(found, path, suffix)
    except SpecgradError as error:
        raise typer.BadParameter(str(error)) from None


def _save(found: Explanation, path: Path, suffix: str) -> None:
    try:
        found.save(path, suffix)
    except OSError as error:
        raise typer.BadParameter(f"the drawing is not written: {error}") from None


def _schedule(op: Any, shape: tuple[int, ...], weight: tuple[int, ...] | None) -> str:
    """The kernels that the CPU engine has chosen for float32 arrays of these shapes, and why."""
    shapes = [shape]
    if isinstance(op, Bilinear):
        shapes.append(weight_shape(op, shape) if weight is None else weight)
    elif weight is not None:
        raise typer.BadParameter(f"--weight: {op.name} has none")
    op.output_shape(*shapes)  # refuses what does not fit
    of = " and ".join(map(str, shapes))
    title = f"{op!r}\nkernels of the CPU engine for contiguous float32 arrays of shape {of}:"
    plan = dispatch.load("cpu").plan(op, tuple(shapes), np.dtype(np.float32))
    if isinstance(plan, str):
        return f"{title}\n{plan}"
    lines = [
        (rule if not turn else "", *words)
        for rule, steps in plan.items()
        for turn, words in enumerate(
            [(step.walk, step.reason) for step in steps] or [("NumPy", "few multiplications, or none")]
        )
    ]
    widths = [max(len(line[i]) for line in lines) for i in (0, 1)]
    return "\n".join([title, *(f"{rule:{widths[0]}}  {walk:{widths[1]}}  {why}" for rule, walk, why in lines)])


def _show(found: Explanation, console: Console) -> None:
    """The operands, the output, the window, and the gradient of the input."""
    op, operands = found.op, found.operands
    with dispatch.engine("reference"):  # the specification speaks for itself, and compiles nothing
        value = op(*operands)
        gradient = op.vjp(operands, np.ones(value.shape))[0]
    console.print(f"{op!r} on an input of shape {operands[0].shape} gives {value.shape}", markup=False, soft_wrap=True)
    tables = [_plane("input", operands[0]), *(_plane("weight", weight) for weight in operands[1:])]
    tables += [_plane("output", value), *([str(found)] if found.picture else [])]
    for text in (*tables, _plane("gradient of the input, for a cotangent of ones", gradient)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _operator(name: str, rank: int, given: dict[str, Any]) -> Any:
    kinds: dict[str, type[Operator]] = {word: kind for kind in OPERATORS for word in (kind.__name__, kind.name)}
    kind: Any = kinds.get(name)
    if kind is None or not issubclass(kind, Pool | Bilinear):
        drawn = [k.__name__ for k in OPERATORS if issubclass(k, Pool | Bilinear)]
        raise typer.BadParameter(suggestion(name, drawn))
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
    wanted = {"rank": rank, "output_size": (1,) * rank, "kernel_size": (2,) * rank, "beta": 1.0, "p": 2.0}
    for field in wanted.keys() & declared:
        words.setdefault(field, wanted[field])
    if given["ceil_mode"]:
        words["ceil_mode"] = True
    if not given["count_include_pad"]:
        words["count_include_pad"] = False
    words.update({name: given[name] for name in ("ties", "beta", "p", "groups") if given[name] is not None})
    try:
        return kind(**words)
    except TypeError:
        extra = ", ".join(sorted(words.keys() - declared))
        raise typer.BadParameter(f"{kind.__name__} takes no {extra}") from None


def _input(sizes: tuple[int, ...], values: str | None) -> Array:
    if any(n < 0 for n in sizes):
        raise typer.BadParameter("--input: a length is at least 0")
    if math.prod(sizes) > MOST_CELLS:
        raise typer.BadParameter(
            f"--input: {math.prod(sizes)} cells are too many to read; at most {MOST_CELLS} are drawn"
        )
    x = distinct(sizes)
    if values is None:
        return x
    try:
        listed = [float(word) for word in values.split(",")]
    except ValueError:
        raise typer.BadParameter("--values: write numbers with commas, e.g. 1,2.5,-inf") from None
    if len(listed) != x.size:
        raise typer.BadParameter(f"--values: {x.size} numbers are needed, {len(listed)} were given")
    return np.array(listed).reshape(sizes)


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
