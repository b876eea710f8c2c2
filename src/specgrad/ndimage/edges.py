"""Beyond the edge of an array: SciPy's boundary modes as maps of indices.

reflect   c b a | a b c d | d c b
mirror    d c b | a b c d | c b a
nearest   a a a | a b c d | d d d
wrap      b c d | a b c d | a b c
constant  k k k | a b c d | k k k
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import Array, Line


def source(mode: str, length: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The index in [0, length) that stands for each of these places."""
    if mode == "nearest":
        return np.clip(places, 0, length - 1)
    if mode == "wrap":
        return places % length
    period = 2 * length if mode == "reflect" else max(2 * length - 2, 1)
    within = places % period
    return np.minimum(within, period - within - (mode == "reflect"))


def needs_no_edge(line: Line) -> bool:
    """Whether each cell beyond the edge stands for a real cell of the same window.

    A maximum is then the maximum of the window's real cells. The window of the first cell reaches
    `before` cells beyond the edge. They stand for cells 0 … before - 1 (reflect) or 1 … before
    (mirror), and the window has the real cells 0 … after. The last cell is the mirror image of the
    first, and every other cell reaches less far beyond.
    """
    further = abs(line.before - line.after)
    return line.mode == "nearest" or further <= {"reflect": 1, "mirror": 0}.get(line.mode, -1)


def saturated(line: Line, length: int) -> Line:
    """A line no longer than it takes to see all that the line sees, of an axis of this length.

    A window that reaches beyond the edge from every cell has all real cells there, or a filling;
    three lengths beyond have a whole period of the cells that any mode makes.
    """
    most = length if line.mode == "constant" or needs_no_edge(line) else 3 * length
    return Line(line.axis, min(line.before, most), min(line.after, most), line.mode)


def extended(x: Array, lines: Sequence[Line], cval: Any) -> Array:
    """The array with the cells that each line's window reaches beyond the edges."""
    if all(line.size == 1 for line in lines):
        return x
    shape, inside = list(x.shape), [slice(None)] * x.ndim
    for line in lines:
        shape[line.axis] += line.size - 1
        inside[line.axis] = slice(line.before, line.before + x.shape[line.axis])
    wide = np.empty(shape, x.dtype)
    wide[tuple(inside)] = x
    done = list(inside)  # axes are filled one after the other, so that corners are filled too
    for line in lines:
        length = x.shape[line.axis]
        for first, last in ((-line.before, 0), (length, length + line.after)):
            strip = [*done]
            strip[line.axis] = slice(first + line.before, last + line.before)
            if line.mode == "constant":
                wide[tuple(strip)] = cval
            elif last > first and length:
                places: list[Any] = [*done]
                places[line.axis] = source(line.mode, length, np.arange(first, last)) + line.before
                wide[tuple(strip)] = wide[tuple(places)]
        done[line.axis] = slice(None)
    return wide


def outside(x: Array, lines: Sequence[Line]) -> list[Array]:
    """The parts of a result, as views, whose windows reach beyond an edge on one of these lines."""
    parts = []
    for line in lines:
        for strip in (slice(0, line.before), slice(max(x.shape[line.axis] - line.after, 0), None)):
            parts.append(x[(slice(None),) * line.axis + (strip,)])
    return parts
