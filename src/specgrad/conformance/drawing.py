"""A window drawn from actual numbers: which cells an output reads, which are padding, who wins, where the gradient goes.

A picture is made of planes of cells (the last two spatial axes of one channel, padding around it): one, or where there are more spatial
axes every one that the window reads. It is made once, and rendered as text here and as SVG in `svg`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import dispatch
from ..geometry import Sliding, readers
from ..ops import ConvTranspose
from ..ops.conv import Bilinear
from ..ops.pool import Maximum, Pool
from .answers import widened
from .cases import Case
from .judge import number

Array = np.ndarray[Any, Any]


@dataclass
class Square:
    """One place of the plane: a cell with its number, or padding; whether the window reads it, and with what slope."""

    text: str
    real: bool
    read: bool
    slope: float = 0.0
    wins: bool = False


class Plane(NamedTuple):
    """Rows of squares, and where the plane stands along the axes before its own (nothing where there are none)."""

    rows: list[list[Square]]
    at: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """Which plane this is, where there may be several."""
        padding = "" if any(square.real for row in self.rows for square in row) else ", padding"
        return f"plane {list(self.at)}{padding}" if self.at else ""


@dataclass
class Picture:
    """The planes around one output cell, and what is said about it."""

    planes: list[Plane]
    output: tuple[int, ...]
    title: str
    notes: list[str] = field(default_factory=list)

    def read(self) -> list[Square]:
        """The squares of the window, tap by tap."""
        return [square for plane in self.planes for row in plane.rows for square in row if square.read]


class Reads(NamedTuple):
    """An axis without padding: its length, and the cells that each output reads along it."""

    size: int
    cells: list[list[int]]


def axes_of(op: Any, shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[Any]] | None:
    """Which axes of the input are drawn, and what they are; None where there is no plane to draw.

    A convolution of rank 0 and a linear map have no spatial axes: their channels are drawn.
    """
    shape = shapes[0]
    if isinstance(op, Pool):
        positions = op.positions(shape)
        return positions, list(op.spatial(tuple(shape[p] for p in positions)))
    if not isinstance(op, Bilinear):
        return None
    rank = len(shapes[1]) - 2
    if rank == 0:
        written = op.output_shape(*shapes)[-1]
        return (len(shape) - 1,), [Reads(shape[-1], [list(_channels(op, shapes, o)) for o in range(written)])]
    axes: list[Any] = []
    for axis, n in op.sliding(shape[len(shape) - rank :]):
        if isinstance(op, ConvTranspose):
            cell, _, exists = readers(axis, outputs=n)
            axes.append(Reads(n, [[int(c) for c in cell[o][exists[o]]] for o in range(axis.size)]))
        else:
            axes.append(axis)
    return tuple(range(len(shape) - rank, len(shape))), axes


def _channels(op: Bilinear, shapes: list[tuple[int, ...]], written: int) -> range:
    """The input channels that an output channel reads: those of its group."""
    rank, groups = len(shapes[1]) - 2, op.weight_kernel()[1]
    channels, outputs = (shape[len(shape) - rank - 1] for shape in (shapes[0], op.output_shape(*shapes)))
    group, inner = written // (outputs // groups), channels // groups
    return range(group * inner, (group + 1) * inner)


def picture(case: Case, output: tuple[int, ...]) -> Picture | None:
    """The window of one output cell."""
    op: Any = case.op
    x = widened(case.operands[0])
    shapes = [a.shape for a in case.operands]
    found = axes_of(op, shapes)
    if found is None or not found[0] or not x.size:
        return None
    positions, axes = found
    if not getattr(op, "keepdims", True):
        output = tuple(_with_ones(output, positions, x.ndim))
    places = [_places(axis, output[p]) for p, axis in zip(positions, axes, strict=True)]
    fixed = list(output)
    title = f"the window of output {list(output)}"
    if isinstance(op, Bilinear) and len(shapes[1]) > 2:
        channel = positions[0] - 1
        fixed[channel] = _channels(op, shapes, output[channel])[0]
        title += f", channel {fixed[channel]} of {x.shape[channel]}"
    slopes = _slopes(case, output)

    def square(cells: tuple[int, ...]) -> Square:
        """The place that stands at these cells of the spatial axes."""
        at = list(fixed)
        for p, cell in zip(positions, cells, strict=True):
            at[p] = cell
        inside = all(0 <= cell < x.shape[p] for p, cell in zip(positions, cells, strict=True))
        read = all(
            any(c == cell and exists for c, _, exists in along) for cell, along in zip(cells, places, strict=True)
        )
        slope = float(slopes[tuple(at)]) if inside and slopes is not None else 0.0
        text = _short(number(x[tuple(at)])) if inside else "·"
        return Square(text, inside, read, slope, bool(isinstance(op, Maximum) and slope != 0))

    # of the axes before the last two, the places that are read; of the last two, all
    before = itertools.product(*([c for c, _, exists in along if exists] for along in places[:-2]))
    extents = [_extent(axis, along) for axis, along in zip(axes[-2:], places[-2:], strict=True)]
    heights = [(i,) for i in extents[0]] if len(extents) > 1 else [()]
    planes = [Plane([[square((*at, *i, j)) for j in extents[-1]] for i in heights], at) for at in before]
    return Picture(planes, output, title) if planes else None


def _with_ones(output: tuple[int, ...], positions: tuple[int, ...], ndim: int) -> list[int]:
    rest = list(output)
    return [0 if p in positions else rest.pop(0) for p in range(ndim)]


def _places(axis: Any, output: int) -> list[tuple[int, bool, bool]]:
    """The places that an output reads along an axis: where, whether a real cell is there, whether the tap exists."""
    if isinstance(axis, Sliding):
        starts = [output * axis.stride - axis.before + j * axis.dilation for j in range(axis.kernel)]
        return [(c, 0 <= c < axis.size, c < axis.size + axis.after) for c in starts]
    if isinstance(axis, Reads):
        return [(c, True, True) for c in axis.cells[output]]
    cell, real, _ = axis.taps()
    return [(int(c), True, True) for c, r in zip(cell[output], real[output], strict=True) if r]


def _extent(axis: Any, places: list[tuple[int, bool, bool]]) -> range:
    """From the first padded cell to the last, and as far as the window reaches."""
    before, after = (axis.before, axis.after) if isinstance(axis, Sliding) else (0, 0)
    reached = [c for c, _, exists in places if exists]
    return range(min([-before, *reached]), max([axis.size + after - 1, *reached]) + 1)


def _slopes(case: Case, output: tuple[int, ...]) -> Array | None:
    """The row of one output: the slopes of its input cells."""
    op: Any = case.op
    operands = tuple(widened(x) for x in case.operands)
    full = list(output)
    if not getattr(op, "keepdims", True):
        full = [i for p, i in enumerate(output) if p not in op.positions(operands[0].shape)]
    arriving = np.zeros(op.output_shape(*(x.shape for x in operands)))
    arriving[tuple(full)] = 1
    with dispatch.engine("reference"):
        pulled: Array = op.vjp(operands, arriving)[0]
    return pulled


def _short(text: str) -> str:
    return text if len(text) <= 9 else f"{float(text):.3g}"


def as_text(found: Picture) -> str:
    """Cells in the window stand in brackets, padding is a dot, winners have a star."""
    squares = [s for plane in found.planes for row in plane.rows for s in row]
    width = max((len(_marked(s)) for s in squares), default=1)
    lines = [found.title + ":"]
    for plane in found.planes:
        lines += [f"{plane.title}:"] if plane.at else []
        lines += ["".join(_marked(s).rjust(width + 1) for s in row) for row in plane.rows]
    return "\n".join([*lines, *found.notes])


def _marked(square: Square) -> str:
    text = f"{square.text}{'*' if square.wins else ''}"
    return f"[{text}]" if square.read else f" {text} "


def output_of(case: Case, part: str, cell: tuple[int, ...]) -> tuple[int, ...] | None:
    """The output cell to draw for a difference: the cell itself, or for a cotangent an output that reads the cell."""
    if not case.cotangent.size:
        return None
    if part.startswith("VJP of x") and len(cell) == case.operands[0].ndim:
        op: Any = case.op
        moved = [np.zeros(x.shape) for x in case.operands]
        moved[0][cell] = 1
        geometry = op.geometry(*(x.shape for x in case.operands))
        flat = int(np.ravel_multi_index(cell, case.operands[0].shape)) if cell else 0
        reads = np.zeros(geometry.outputs, bool)
        for step in geometry.block(0, geometry.outputs).steps():
            reads |= step.real & (step.place[0] == flat)
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(reads)), case.cotangent.shape))
    if len(cell) == case.cotangent.ndim and all(i < n for i, n in zip(cell, case.cotangent.shape, strict=True)):
        return cell
    return (0,) * case.cotangent.ndim
