"""Boxes and bounds of a relu network for many parts of a box at once, by dense matrices, if few
inputs vary.

Bounds of the whole box hold in its parts. So the forms of linear operators, and all magnitudes in
rounding errors, are taken from the whole box. Each part has its own lines of relus.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy import sparse

from ..graph.ir import Node
from ..ops import Relu
from .affine import ROOM, TINY, UNIT, Box, Floats, below, gamma
from .analysis import Analysis, packed, split
from .curves import relu

Boxes = dict[int, Box]
"""Boxes of inputs and of relus' operands: (parts, cells) arrays."""


class Parts:
    """A network on parts of the box of an analysis."""

    def __init__(self, whole: Analysis) -> None:
        self.whole, self.nodes = whole, whole.graph.nodes
        self.matrices = {
            (node.index, slot): _simplest(matrix)
            for node in self.nodes
            if whole.varying[node.index] and node.op is not None and type(node.op) is not Relu
            for slot, matrix in whole.relaxations[node.index].below.rows.items()
        }
        self.costs: dict[int, Any] = {n.index: self._cost(n) for n in self.nodes if n.index in whole.relaxations}
        readers = Counter(place for node in self.nodes for place in set(node.operands))
        for (place, slot), matrix in reversed(self.matrices.items()):
            before = self.nodes[place].operands[slot]
            alone = len(whole.relaxations[place].below.rows) == 1 and readers[before] == 1
            if matrix is None and alone and before in self.costs:  # equal rows, so the costs can be added there
                self.costs[before] = self.costs[before] + self.costs.pop(place)

    @staticmethod
    def offered(whole: Analysis) -> bool:
        """Whether all varying values are relus and linear operators."""
        return all(
            type(whole.graph.nodes[place].op) is Relu or found.below.rows is found.above.rows
            for place, found in whole.relaxations.items()
            if whole.varying[place]
        )

    def _cost(self, node: Node) -> Floats:
        """A bound of the rounding error, per output and unit of a row: relus of a part have slopes
        up to 1, and constants no greater than the whole's."""
        spread, size, readers, _ = self.whole.size(node)
        if type(node.op) is Relu:
            spread = self.whole.boxes[node.operands[0]].magnitude.reshape(-1)
        return np.asarray(4 * (gamma(readers + 4) * spread + gamma(size.size + len(self.nodes) + 4) * size))

    def refined(self, boxes: Boxes) -> Boxes:
        """The boxes of parts, refined: cells of open sign are bounded backwards."""
        boxes = dict(boxes)
        for place in sorted(self.whole.read):
            low, high = boxes[place]
            cells = np.flatnonzero(((low < 0) & (high > 0)).any(axis=0))
            if self.nodes[place].op is None or not cells.size:
                continue
            ones = np.zeros((cells.size, low.shape[1]))
            ones[np.arange(cells.size), cells] = 1
            found, _ = self.lower(place, np.concatenate([ones, -ones]), boxes)
            room = self.whole.room * (high - low)[:, cells]
            low, high = low.copy(), high.copy()
            low[:, cells] = np.maximum(low[:, cells], found[:, : cells.size] - room)
            high[:, cells] = np.minimum(high[:, cells], room - found[:, cells.size :])
            boxes[place] = Box(low, high)
        return boxes

    def lower(self, start: int, rows: Floats, boxes: Boxes) -> tuple[Floats, dict[int, Floats]]:
        """The lower bounds of rows·value, (parts, rows), and the rows at the inputs."""
        whole, count = self.whole, len(next(iter(boxes.values())).lower)
        waiting: dict[int, Any] = {start: np.repeat(rows[None], count, axis=0)}
        constant, error = np.zeros((2, count, len(rows)))
        inputs = [node.index for node in whole.graph.inputs]
        reached = {place: np.zeros((count, len(rows), boxes[place].shape[1])) for place in inputs}
        for node in reversed(self.nodes[: start + 1]):
            A = waiting.pop(node.index, None)
            if A is None:
                continue
            if node.op is None or not whole.varying[node.index]:
                box = boxes.get(node.index) or Box(*(end.reshape(1, -1) for end in whole.held(node.index)))
                positive, negative = split(A)
                constant = constant + _times(positive, box.lower) + _times(negative, box.upper)
                size = np.abs(A) @ whole.held(node.index).magnitude.reshape(-1)
                error = error + gamma(A.shape[2] + len(self.nodes) + 4) * size + TINY
                if node.is_input:
                    reached[node.index] = A
                continue
            if node.index in self.costs:
                _, _, readers, lost = whole.size(node)
                error = error + np.abs(A) @ self.costs[node.index] + TINY + (readers + 4) * lost
            for place, part, added in self._through(node, A, boxes):
                constant = constant + added
                if place in waiting:
                    part = waiting[place] + part
                    error = error + UNIT * ROOM * (np.abs(part) @ whole.boxes[place].magnitude.reshape(-1))
                waiting[place] = part
        lower = below(constant, error * ROOM)
        return np.where(np.isfinite(lower), lower, -np.inf), reached  # not finite: an overflow on the way

    def _through(self, node: Node, A: Any, boxes: Boxes) -> Any:
        """Rows at an operator's value as rows at its operands, each with the added constant."""
        if type(node.op) is Relu:
            under, over = relu(boxes[node.operands[0]])
            positive = A > 0
            moved = A * np.where(positive, under.slope[:, None], over.slope[:, None])
            return [(node.operands[0], moved, _times(np.where(positive, 0.0, A), over.constant))]
        forms = self.whole.relaxations[node.index]
        added: Any = A @ forms.below.constant
        if forms.above is not forms.below:
            added = added + np.minimum(A, 0) @ (forms.above.constant - forms.below.constant)
        found = []
        for slot in forms.below.rows:
            matrix = self.matrices[node.index, slot]
            found.append((node.operands[slot], A if matrix is None else _product(A, matrix), added))
            added = 0.0
        return found

    def values(self, x: dict[int, Floats]) -> Floats:
        """The output (parts, cells) for inputs (parts, cells), in plain float arithmetic."""
        found = dict(x)
        for node in self.nodes[: self.whole.graph.outputs[0] + 1]:
            if node.index in found:
                continue
            if not self.whole.varying[node.index]:
                found[node.index] = self.whole.boxes[node.index].lower.reshape(1, -1)
            elif type(node.op) is Relu:
                found[node.index] = np.maximum(found[node.operands[0]], 0)
            else:
                form = self.whole.relaxations[node.index].below
                found[node.index] = form.constant + sum(
                    (matrix @ found[node.operands[slot]].T).T for slot, matrix in form.rows.items()
                )
        return found[self.whole.graph.outputs[0]]


def _times(A: Floats, x: Floats) -> Floats:
    """The product of (parts, rows, cells) and (parts, cells), for each part."""
    return np.asarray((A @ x[:, :, None])[:, :, 0])


def _simplest(matrix: Any) -> Any:
    """The cheapest form of a matrix: None for the identity, dense if many cells are nonzero."""
    n = matrix.shape[0]
    ones = sparse.csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
    return None if matrix.shape == (n, n) and not (matrix != ones).nnz else packed(matrix)


def _product(A: Floats, matrix: Any) -> Floats:
    flat = A.reshape(-1, A.shape[2]) @ matrix
    return np.asarray(flat).reshape(*A.shape[:2], -1)
