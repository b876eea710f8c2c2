"""Bounds by zonotopes: every value is centre + G e, with symbols e from -1 to 1 shared by all
values.

A linear operator maps centre and generators by its rows. A nonlinear operator keeps the rows of its
upper form, y = rows·x + [c, d], and the remainder gets a new symbol in every cell. Each value also
has an error, a bound of all rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..graph import Graph
from .affine import ROOM, TINY, UNIT, Affine, Box, Floats, above, below, gamma
from .analysis import constant_box
from .relax import relax


class Zonotope(NamedTuple):
    """centre ± error + generators·e, flat."""

    centre: Floats
    generators: Any
    error: Floats

    @property
    def size(self) -> Floats:
        """The sums of the absolute values of the generators."""
        return np.asarray(abs(self.generators).sum(axis=1)).reshape(-1) * ROOM

    def box(self, shape: tuple[int, ...]) -> Box:
        radius = (self.size + self.error) * ROOM
        return Box(self.centre, self.centre).widened(radius + TINY * (radius > 0)).reshaped(shape)


class Zonotopes:
    """The zonotopes and boxes of all values of a graph on a box.

    If floats do not reach as far as a value, `is_unbounded` is True, and nothing is bounded.
    """

    def __init__(self, graph: Graph, boxes: Sequence[Box]) -> None:
        self.symbols, self.is_unbounded = 0, False
        self.values: list[Zonotope] = []
        self.boxes: list[Box] = []
        varying: list[bool] = []
        given = iter(boxes)
        for node in graph.nodes:
            varying.append(node.is_input or any(varying[p] for p in node.operands))
            if node.op is None:
                box = next(given) if node.is_input else constant_box(node)
                value = self.of_ends(box.lower.reshape(-1), box.upper.reshape(-1))
            else:
                operands = [self.boxes[p] for p in node.operands]
                relaxation, image, *_ = relax(node.op, operands, [varying[p] for p in node.operands])
                remainder = self.of_ends(*_remainder(relaxation.below, relaxation.above, operands))
                value = self.mapped(relaxation.above, [self.values[p] for p in node.operands], operands, remainder)
                box = image.reshaped(node.shape).within(value.box(node.shape))
                if not np.isfinite([*value.size, *value.centre, *value.error, *box.magnitude.reshape(-1)]).all():
                    self.is_unbounded = True
                    return
            self.values.append(value)
            self.boxes.append(box)

    def of_ends(self, low: Floats, high: Floats) -> Zonotope:
        """A zonotope of a box, with a new symbol for every cell that is not a point."""
        point = low == high
        centre = np.where(point, low, 0.5 * low + 0.5 * high)
        radius = np.where(point, 0.0, above(np.maximum(high - centre, centre - low), TINY))
        fresh = np.flatnonzero(radius)
        columns = self.symbols + np.arange(fresh.size)
        self.symbols += fresh.size
        return Zonotope(centre, self._matrix(radius[fresh], fresh, columns, low.size), np.zeros(low.size))

    def _matrix(self, data: Floats, rows: Any, columns: Any, n: int) -> Any:
        return sparse.csr_array((data, (rows, columns)), shape=(n, self.symbols))

    def mapped(self, form: Affine, operands: Sequence[Zonotope], boxes: Sequence[Box], remainder: Zonotope) -> Zonotope:
        """rows·x + remainder."""
        centre, error, generators = remainder.centre, np.zeros(remainder.centre.size), remainder.generators
        for slot, matrix in form.rows.items():
            source = operands[slot]
            moved = (matrix @ source.generators).tocoo()
            centre = centre + matrix @ source.centre
            generators = generators + self._matrix(moved.data, moved.coords[0], moved.coords[1], matrix.shape[0])
            most = int(np.diff(matrix.indptr).max(initial=0))
            error = error + (abs(matrix) @ (source.error + gamma(most + 2) * source.size)) * ROOM
        spread = form.spread([box.magnitude for box in boxes]) + np.abs(remainder.centre)
        slack = gamma(form.roundings + len(form.rows) + 2) * spread + TINY
        rounded = (form.roundings > 0) | (remainder.centre != 0)
        return Zonotope(centre, generators, error + np.where(rounded, slack, 0.0))


def _remainder(low: Affine, high: Affine, boxes: Sequence[Box]) -> tuple[Floats, Floats]:
    """The least and greatest value of y - rows(above)·x."""
    if low is high:
        return high.constant, high.constant
    rows = {s: (low.rows[s] - high.rows[s]).tocsr() for s in low.rows}
    size = sum(form.spread([box.magnitude for box in boxes]) for form in (low, high))
    return below(Affine(rows, low.constant).image(boxes).lower, 2 * UNIT * size + TINY), high.constant
