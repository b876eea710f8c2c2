"""What is drawn of a window: cells that an output reads, padding, the winner, and the gradient.

A picture is made of planes of cells: the last two spatial axes of one channel, with the padding
around them. Windows with more spatial axes have one plane for each place that they read along the
axes before. A convolution has the planes of its weight too. `render` draws the picture.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import dispatch
from ..errors import ShapeError, refusal
from ..geometry import Sliding, readers
from ..ops import ConvTranspose
from ..ops.conv import Bilinear
from ..ops.pool import Extremum, Pool

Array = np.ndarray[Any, Any]

MOST_CELLS = 1 << 20
"""The largest number of cells, padding included, of which a window is drawn."""


def number(value: Any) -> str:
    """A number as one reads it."""
    read = float(value)
    if np.isfinite(read) and read == int(read) and abs(read) < 1e6:
        return "-0.0" if read == 0 and np.signbit(read) else str(int(read))
    return repr(read)


def widened(array: Array) -> Array:
    """A float, half or integer array as float64, to look at."""
    return np.asarray(array).astype(np.float64)


@dataclass
class Square:
    """A cell with its number, or padding; whether the window reads it, and with what slope."""

    text: str
    real: bool
    read: bool
    slope: float = 0.0
    wins: bool = False


class Plane(NamedTuple):
    """Rows of squares, and the plane's place along the axes before its own, if there are any."""

    rows: list[list[Square]]
    at: tuple[int, ...] = ()
    name: str = "plane"

    @property
    def title(self) -> str:
        """Which plane this is, where there may be several."""
        padding = "" if any(square.real for row in self.rows for square in row) else ", padding"
        return f"{self.name} {list(self.at)}{padding}" if self.at else ""


@dataclass
class Picture:
    """The planes around one output cell, those of the weight, and what is said about them."""

    planes: list[Plane]
    output: tuple[int, ...]
    title: str
    notes: list[str] = field(default_factory=list)
    weights: list[Plane] = field(default_factory=list)

    def all_planes(self) -> list[Plane]:
        """The planes in the order in which they are drawn."""
        return [*self.planes, *self.weights]

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


def readable(op: Any, words: str, cells: int) -> None:
    """Refuse to draw more cells than anybody reads."""
    if cells > MOST_CELLS:
        rule, remedy = f"{words} {cells} cells, and at most {MOST_CELLS} are drawn", "take a smaller example"
        raise refusal(ShapeError, "explain", "op", op, rule, remedy)


def picture(op: Any, operands: tuple[Array, ...], output: tuple[int, ...]) -> Picture | None:
    """The window of one output cell; None where there is no plane to draw."""
    operands = tuple(widened(x) for x in operands)
    x, shapes = operands[0], [a.shape for a in operands]
    found = axes_of(op, shapes)
    if found is None or not found[0] or not x.size:
        return None
    positions, axes = found
    padded = [axis.size + getattr(axis, "before", 0) + getattr(axis, "after", 0) for axis in axes]
    readable(op, "the padded input has", math.prod(padded))
    if not getattr(op, "keepdims", True):
        output = tuple(_with_ones(output, positions, x.ndim))
    places = [_places(axis, output[p]) for p, axis in zip(positions, axes, strict=True)]
    fixed = list(output)
    title = f"the window of output {list(output)}"
    if isinstance(op, Bilinear) and len(shapes[1]) > 2:
        channel = positions[0] - 1
        fixed[channel] = _channels(op, shapes, output[channel])[0]
        title += f", channel {fixed[channel]} of {x.shape[channel]}"
    slopes = _slopes(op, operands, output)
    reached = [{c for c, _, exists in along if exists} for along in places]

    def square(cells: tuple[int, ...]) -> Square:
        """The place that stands at these cells of the spatial axes."""
        at = list(fixed)
        for p, cell in zip(positions, cells, strict=True):
            at[p] = cell
        inside = all(0 <= cell < x.shape[p] for p, cell in zip(positions, cells, strict=True))
        read = all(cell in along for cell, along in zip(cells, reached, strict=True))
        slope = float(slopes[0][tuple(at)]) if inside else 0.0
        text = _short(number(x[tuple(at)])) if inside else "·"
        return Square(text, inside, read, slope, bool(isinstance(op, Extremum) and slope != 0))

    # of the axes before the last two, the places that are read; of the last two, all
    before = itertools.product(*([c for c, _, exists in along if exists] for along in places[:-2]))
    extents = [_extent(axis, along) for axis, along in zip(axes[-2:], places[-2:], strict=True)]
    heights = [(i,) for i in extents[0]] if len(extents) > 1 else [()]
    planes = [Plane([[square((*at, *i, j)) for j in extents[-1]] for i in heights], at) for at in before]
    if not planes:
        return None
    return Picture(planes, output, title, weights=_weights(op, operands, slopes, output) if len(positions) else [])


def _weights(op: Any, operands: tuple[Array, ...], slopes: Any, output: tuple[int, ...]) -> list[Plane]:
    """The planes of a convolution's weight that the output cell uses, with their own slopes."""
    if not isinstance(op, Bilinear) or operands[1].ndim < 3:
        return []
    weight, gradient = operands[1], slopes[1]
    used = _slopes(op, (np.ones(operands[0].shape), *operands[1:]), output)[1] != 0
    rank, pairs = weight.ndim - 2, used.reshape(weight.shape[0] * weight.shape[1], -1).any(-1)
    first = divmod(int(np.argmax(pairs)), weight.shape[1])
    before = itertools.product(*(range(n) for n in weight.shape[2 : max(weight.ndim - 2, 2)]))

    def square(at: tuple[int, ...]) -> Square:
        return Square(_short(number(weight[at])), True, bool(used[at]), float(gradient[at]))

    planes = []
    for inner in before:
        at = (*first, *inner)
        shape = weight[at].shape if rank > 1 else (1, weight.shape[-1])
        cells = [at if rank < 2 else (*at, i) for i in range(shape[0])]
        planes.append(Plane([[square((*row, j)) for j in range(shape[1])] for row in cells], at, "weight"))
    return planes


def _with_ones(output: tuple[int, ...], positions: tuple[int, ...], ndim: int) -> list[int]:
    rest = list(output)
    return [0 if p in positions else rest.pop(0) for p in range(ndim)]


def _places(axis: Any, output: int) -> list[tuple[int, bool, bool]]:
    """What an output reads along an axis: places, which of them are real cells, which exist."""
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


def _slopes(op: Any, operands: tuple[Array, ...], output: tuple[int, ...]) -> tuple[Array, ...]:
    """The row of one output: the slopes of the cells of every operand."""
    full = list(output)
    if not getattr(op, "keepdims", True):
        full = [i for p, i in enumerate(output) if p not in op.positions(operands[0].shape)]
    arriving = np.zeros(op.output_shape(*(x.shape for x in operands)))
    arriving[tuple(full)] = 1
    with dispatch.engine("reference"):
        pulled: tuple[Array, ...] = op.vjp(operands, arriving)
    return pulled


def _short(text: str) -> str:
    return text if len(text) <= 9 else f"{float(text):.3g}"


def as_text(found: Picture) -> str:
    """Cells in the window stand in brackets, padding is a dot, winners have a star."""
    lines = [found.title + ":"]
    for planes in (found.planes, found.weights):
        width = max((len(_marked(s)) for plane in planes for row in plane.rows for s in row), default=1)
        for plane in planes:
            lines += [f"{plane.title}:"] if plane.at else []
            lines += ["".join(_marked(s).rjust(width + 1) for s in row) for row in plane.rows]
    return "\n".join([*lines, *found.notes])


def _marked(square: Square) -> str:
    text = f"{square.text}{'*' if square.wins else ''}"
    return f"[{text}]" if square.read else f" {text} "
