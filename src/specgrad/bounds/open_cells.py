"""The network of open cells: cells of relus and maxima that are decided are affine, and forms can
be chosen for all others."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..graph.ir import Node
from ..ops import Relu
from .affine import Box, Floats
from .analysis import Analysis, product, split
from .maximum import Choice, Pool, Taps
from .relax import POOLS

MOST = 2**24  # cells of the matrices of open cells and of the weights of means
CHUNK = 2**23  # cells of dense rows at a time


class Stand(NamedTuple):
    """The rows at some open cells, these cells' operands and values at the bounds' minimiser, and
    the bounds' gradient in the choices."""

    A: Floats
    x: Floats
    value: Floats
    move: Any


class Block:
    """The open cells of one operator, as columns `first` to `last`; their operands are rows·columns
    + constant."""

    def __init__(self, analysis: Analysis, node: Node, cells: Any, first: int) -> None:
        self.node, self.cells, self.first, self.last = node, cells, first, first + len(cells)
        self.rows, self.constant = np.zeros((0, first)), np.zeros(0)
        relaxation = analysis.relaxations[node.index]
        self.over = relaxation.above.rows[0].diagonal()[cells] if type(node.op) is Relu else np.zeros(0)
        self.added = relaxation.above.constant[cells]
        self.pool: Pool | None = None
        self.taps = self.place = cells
        self.reads: dict[int, Any] = {}
        if type(node.op) is Relu:
            self.reads = {node.operands[0]: picked(cells, math.prod(node.shape))}
        elif type(node.op) in POOLS:
            box = analysis.boxes[node.operands[0]].reshaped((-1,))
            self.taps, place, real = _rivals(analysis.taps(node), box, cells)
            used, self.place = np.unique(place[real]), place
            self.reads = {node.operands[0]: picked(used, box.lower.size)}
            at = np.minimum(np.searchsorted(used, place), len(used) - 1)
            self.pool = Pool(Taps(0 * at, at, real), Box(box.lower[used], box.upper[used]))
        else:  # the relaxation's two forms
            self.added = np.concatenate([relaxation.below.constant[cells], self.added])
            for form, other in ((relaxation.below, relaxation.above), (relaxation.above, relaxation.below)):
                for slot, matrix in form.rows.items():
                    parts = [matrix[cells], 0 * (other.rows.get(slot, matrix))[cells]]
                    rows = sparse.vstack(parts if form is relaxation.below else parts[::-1]).tocsr()
                    place = node.operands[slot]
                    self.reads[place] = self.reads[place] + rows if place in self.reads else rows

    def pull(self, A: Floats, choice: Any, known: Any = None) -> tuple[Floats, Floats]:
        """Rows at the open cells as rows at their operands, and the added constant. `known`:
        decided slopes of relus (rows, cells), NaN if open, or taps of maxima that are not the
        greatest."""
        positive, negative = split(A)
        if self.pool is not None:
            return self.pool.through(positive, negative, choice, False if known is None else known)[:2]
        if type(self.node.op) is Relu:
            moved = positive * choice + negative * self.over
            if known is not None:
                moved, negative = np.where(np.isnan(known), moved, A * known), negative * np.isnan(known)
            return moved, negative @ self.added
        both = np.concatenate([positive, negative], axis=1)
        return both, both @ self.added

    def push(self, A: Floats, choice: Any, x: Floats) -> Stand:
        """The `Stand` for operands x of the open cells."""
        if self.pool is not None:
            mean, floor, value = self.pool.gradient(A, choice, x)
            return Stand(A, x, value, Choice(mean, floor))
        if type(self.node.op) is Relu:
            return Stand(A, x, np.where(A > 0, choice * x, self.over * x + self.added), np.maximum(A, 0) * x)
        under, over = np.split(x + self.added, 2, axis=1)
        return Stand(A, x, np.where(A > 0, under, over), None)

    def value(self, stand: Stand) -> Floats:
        """The operator's value of the open cells' operands; of other operators the value in the
        bound's form."""
        if self.pool is not None:
            found: Floats = np.where(self.pool.real, stand.x[:, self.pool.place], -np.inf).max(axis=1)
            return found
        return np.maximum(stand.x, 0) if type(self.node.op) is Relu else stand.value


def _rivals(taps: Taps, box: Box, windows: Any) -> tuple[Any, Any, Any]:
    """For each window, the taps that may be the greatest, before all others: their numbers, their
    cells, and whether they may."""
    place, real = taps.place[:, windows], taps.real[:, windows]
    high, low = (np.where(real, end[place], -np.inf) for end in (box.upper, box.lower))
    real = real & ((high > low.max(axis=0)) | (low == low.max(axis=0)))
    order = np.argsort(~real, axis=0, kind="stable")[: int(real.sum(axis=0).max())]
    return order, np.take_along_axis(place, order, 0), np.take_along_axis(real, order, 0)


class Open:
    """A network in which decided cells of relus and maxima are affine: rows of a value, in columns
    of inputs and of open cells."""

    def __init__(self, analysis: Analysis, start: int, rows: Floats) -> None:
        self.analysis, self.blocks = analysis, list[Block]()
        self.columns: dict[int, tuple[Any, int]] = {}
        boxes, count = [], 0
        for node in analysis.graph.inputs:
            box = analysis.boxes[node.index].reshaped((-1,))
            self.columns[node.index] = np.arange(box.lower.size), count
            boxes.append(box)
            count += box.lower.size
        self.low, self.high = (np.concatenate(ends) for ends in zip(*boxes, strict=True))
        self.inputs = count
        for node in analysis.graph.nodes[: start + 1]:
            cells = open_cells(analysis, node)
            if len(cells):
                block = analysis.blocks.get(node.index)
                if block is None:
                    block = analysis.blocks[node.index] = Block(analysis, node, cells, count)
                    block.rows, block.constant = self.expressed(block.reads, count)
                self.blocks.append(block)
                self.columns[node.index] = cells, count
                count = block.last
        self.rows, self.constant = self.expressed({start: rows}, count)
        self.cuts, self.off = np.zeros((len(analysis.splits), count)), np.zeros(len(analysis.splits))
        for k, (place, cell, other, at, side) in enumerate(analysis.splits):
            if place <= start:
                cut = side * (picked([cell], math.prod(analysis.graph.nodes[place].shape)))
                if other >= 0:
                    cut = cut - side * picked([other], cut.shape[1])
                self.cuts[[k]], self.off[[k]] = self.expressed({place: cut}, count)
                self.off[k] -= side * at

    def expressed(self, reads: dict[int, Any], count: int) -> tuple[Floats, Floats]:
        """Rows at values as rows at columns, and a constant."""
        height = next(iter(reads.values())).shape[0]
        made, constant = np.zeros((height, count)), np.zeros(height)
        step = max(1, CHUNK // max(math.prod(node.shape) for node in self.analysis.graph.nodes))
        for start in range(0, height, step):
            part = slice(start, start + step)
            self._express({place: rows[part] for place, rows in reads.items()}, made[part], constant[part])
        return made, constant

    def _express(self, waiting: dict[int, Any], made: Floats, constant: Floats) -> None:
        analysis = self.analysis
        for node in reversed(analysis.graph.nodes[: max(waiting) + 1]):
            A = waiting.pop(node.index, None)
            if A is None:
                continue
            analysis.in_time()
            A = A.toarray() if sparse.issparse(A) else A
            if node.index in self.columns:
                cells, first = self.columns[node.index]
                made[:, first : first + len(cells)] += A[:, cells]
                if len(cells) == A.shape[1]:
                    continue
                A = A.copy()
                A[:, cells] = 0
            if node.op is None or not analysis.varying[node.index]:
                constant += A @ analysis.boxes[node.index].lower.reshape(-1)
                continue
            form = analysis.relaxations[node.index].above
            if form.constant.any():
                constant += A @ form.constant
            for slot, matrix in form.light.items():
                place, part = node.operands[slot], product(A, matrix)
                waiting[place] = waiting[place] + part if place in waiting else part

    def bound(self, choices: list[Any], cuts: Floats, rows: Any = slice(None), known: Any = None) -> Any:
        """The bounds of the rows, and the rows at all columns."""
        b, total = self.rows[rows] - cuts @ self.cuts, self.constant[rows] - cuts @ self.off
        known = [None] * len(choices) if known is None else known
        for block, choice, more in zip(self.blocks[::-1], choices[::-1], known[::-1], strict=True):
            moved, added = block.pull(b[:, block.first : block.last], choice, more)
            b[:, : block.first] += moved @ block.rows
            total = total + added + moved @ block.constant
        x = b[:, : self.inputs]
        total = total + np.maximum(x, 0) @ self.low + np.minimum(x, 0) @ self.high
        return total, b

    def stands(self, choices: list[Any], b: Floats) -> tuple[list[Stand], Floats]:
        """The `Stand` of each operator, and the gradient of the bounds in the cuts."""
        values = np.zeros_like(b)
        values[:, : self.inputs] = np.where(b[:, : self.inputs] > 0, self.low, self.high)
        found = []
        for block, choice in zip(self.blocks, choices, strict=True):
            columns = slice(block.first, block.last)
            found.append(block.push(b[:, columns], choice, values[:, : block.first] @ block.rows.T + block.constant))
            values[:, columns] = found[-1].value
        return found, -(values @ self.cuts.T + self.off)


def open_cells(analysis: Analysis, node: Node) -> Any:
    """The cells of a value that are not affine in the operator's operands."""
    found = analysis.relaxations.get(node.index)
    if found is None or not analysis.varying[node.index] or found.below.rows is found.above.rows:
        return []
    if type(node.op) in (Relu, *POOLS):
        return np.flatnonzero(found.above.constant)
    return np.arange(math.prod(node.shape))


def is_small(analysis: Analysis, start: int, rows: int) -> bool:
    """Whether the matrices of open cells and the means of maxima fit into memory."""
    columns, cells = sum(math.prod(node.shape) for node in analysis.graph.inputs), 0
    for node in analysis.graph.nodes[: start + 1]:
        found = len(open_cells(analysis, node))
        taps = len(analysis.taps(node).real) if type(node.op) in POOLS and found else 1
        cells += taps * (found * columns + rows * math.prod(node.shape))
        columns += found
    return cells <= MOST


def picked(cells: Any, width: int) -> Any:
    """A matrix with a single 1 in each row, at these cells."""
    count = len(cells)
    return sparse.csr_array((np.ones(count), cells, np.arange(count + 1)), shape=(count, width))
