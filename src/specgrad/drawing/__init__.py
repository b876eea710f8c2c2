"""Windows drawn from actual numbers: `specgrad.explain`, and the command of the same name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import arguments, dispatch
from ..errors import ArgumentError, ScalarError, ShapeError, refusal
from ..operator import Operator
from ..ops import Linear
from ..ops.conv import Bilinear
from ..ops.pool import Pool
from ..scalars import refuse_masked
from .render import as_svg, save_png
from .window import Array, Picture, Square, as_text, number, picture, readable, widened

__all__ = ["Explanation", "distinct", "explain"]


@dataclass(frozen=True)
class Explanation:
    """One window of an operator: as text when printed, as SVG in notebooks, as a file by `save`."""

    op: Operator
    operands: tuple[Array, ...]
    output: tuple[int, ...]
    picture: Picture | None

    def __str__(self) -> str:
        return as_text(self.picture) if self.picture else f"{self.op!r}: there is no plane to draw"

    def svg(self) -> str:
        """The drawing as SVG."""
        return as_svg(self._drawn())

    def _repr_svg_(self) -> str | None:
        return as_svg(self.picture) if self.picture else None

    def save(self, path: str | Path, suffix: str | None = None) -> None:
        """Write the drawing as .svg or .png (by matplotlib): `suffix`, or the end of the path."""
        place = Path(path)
        kind = place.suffix if suffix is None else suffix
        if kind == ".svg":
            place.write_text(self.svg() + "\n", encoding="utf-8")
        elif kind == ".png":
            save_png(self._drawn(), place)
        else:
            raise refusal(ArgumentError, "explain", "path", str(path), "is no drawing", "end it in .svg or .png")

    def _drawn(self) -> Picture:
        if self.picture is None:
            rule = "has no spatial axis and no channels, so that there is no plane to draw"
            raise refusal(ArgumentError, "explain", "op", self.op, rule, "print the result instead")
        return self.picture


def explain(op: Operator, *operands: Any, output: tuple[int, ...] | None = None) -> Explanation:
    """Draw the cells that one output of `op` reads, its value, and the gradients of these cells.

    `op` is a pooling operator, a convolution, a transposed convolution or `Linear`. `operands` are
    its arrays. A convolution without a weight gets a weight of distinct integers. `output` is the
    index of the output cell; the default is the first one.

    >>> import numpy as np
    >>> from specgrad import MaxPool, explain
    >>> print(explain(MaxPool((2,), stride=1, padding=1), np.array([3.0, 1.0, 2.0]), output=(1,)))
    the window of output [1]:
       ·  [3*]   [1]    2     ·
    2 taps, 2 real cells; the output is 3
    derivatives of the output in the input cells: 1 at 3
    """
    if not isinstance(op, Pool | Bilinear):
        rule = "is no operator with a window"
        raise refusal(ArgumentError, "explain", "op", op, rule, "give a pooling operator, a convolution or Linear")
    arrays = tuple(map(_numbers, operands))
    if isinstance(op, Bilinear) and len(arrays) == 1:
        weight = weight_shape(op, arrays[0].shape)
        readable(op, "the weight has", math.prod(weight))
        arrays = (*arrays, _weight(weight))
    shape = op.output_shape(*(x.shape for x in arrays))
    readable(op, "the output has", math.prod(shape))
    places = (output if arguments.is_sequence(output) else (output,)) if output is not None else (0,) * len(shape)
    cell = tuple(arguments.integer("explain", "output", place, None, None, output) for place in places)
    if len(cell) != len(shape) or any(not 0 <= i < n for i, n in zip(cell, shape, strict=True)):
        rule = f"is no cell of an output of shape {shape}"
        raise refusal(ShapeError, "explain", "output", cell, rule, "give one index per axis")
    with dispatch.engine("reference"):  # compiles nothing
        found = picture(op, arrays, cell)
        if found is not None:
            found.notes += _notes(found.read(), np.asarray(op(*arrays))[cell])
    return Explanation(op, arrays, cell, found)


def _numbers(operand: Any) -> Array:
    """An operand as an array whose cells can be drawn as real numbers."""
    refuse_masked("explain", "operand", operand)
    array = np.asarray(operand)
    try:
        if array.dtype.kind != "c":
            widened(array)
            return array
    except (TypeError, ValueError):
        pass
    raise refusal(ScalarError, "explain", "operand", array, "has no real numbers to draw", "give an array of floats")


def _notes(read: list[Square], value: Any) -> list[str]:
    taps, real = len(read), sum(square.real for square in read)
    counted = f"{taps} tap{'s' * (taps != 1)}, {real} real cell{'s' * (real != 1)}"
    slopes = [f"{number(round(square.slope, 6))} at {square.text}" for square in read if square.real and square.slope]
    return [
        f"{counted}; the output is {number(value)}",
        f"derivatives of the output in the input cells: {', '.join(slopes) or 'none'}",
    ]


def distinct(shape: tuple[int, ...]) -> Array:
    """Distinct small integers in a fixed shuffled order, about half of them negative."""
    size = int(np.prod(shape))
    return (np.random.default_rng(size).permutation(size) - size // 2).reshape(shape).astype(np.float64)


def weight_shape(op: Bilinear, x: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a weight where none is given: two outputs of a linear map, one channel of a
    convolution."""
    return (2, *x[-1:]) if isinstance(op, Linear) else (1, 1, *op.weight_kernel()[0])


def _weight(shape: tuple[int, ...]) -> Array:
    """Distinct integers without 0, so that every cell that is read takes gradient."""
    weight = distinct(shape)
    return np.where(weight >= 0, weight + 1, weight)
