"""Bounds of a graph: boxes forwards, affine forms backwards.

Forwards, every value gets a box from the boxes of its operands. Backwards, a row A at a value
becomes rows at its operands: a positive entry of A uses the lower form, a negative entry the upper
form. The result is an affine form of the inputs, below A·value on the whole box. The operands of
nonlinear operators are bounded backwards first (`refine`).
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..arithmetic import is_number
from ..errors import ArgumentError, refusal
from ..graph import Graph
from ..graph.ir import Node
from ..ops import Relu
from . import linear
from .affine import LEAST, ROOM, TINY, UNIT, Affine, Box, Floats, Relaxation, above, below, gamma, unbounded
from .boxes import outward
from .joint import Joint
from .maximum import Choice, Pool, Taps
from .relax import POOLS, open_taps, relax, relax_chosen

DENSE = 0.2  # the share of nonzero cells above which a sparse row costs more than a dense one
CHUNK = 2**23  # cells of a dense matrix at a time
MANY = 64  # rows
SINGLE = 2.0**-24  # the unit of float32
GREATEST = {unit: float(np.finfo(kind).max) for unit, kind in ((0.0, "f8"), (SINGLE, "f4"), (2.0**-53, "f8"))}
UNDERFLOW = {SINGLE: 2.0**-149, 2.0**-53: 2.0**-1074}  # unit of a float type -> its least positive number


class Late(Exception):
    """The deadline has passed."""


class Split(NamedTuple):
    """side·(cell - at) ≥ 0 for a cell of a value, or side·(cell - other) ≥ 0 if other ≥ 0; `side`
    is 1 or -1."""

    place: int
    cell: int
    other: int
    at: float
    side: int


_known: weakref.WeakKeyDictionary[Graph, tuple[dict[int, Affine], dict[int, Box]]] = weakref.WeakKeyDictionary()
"""For each graph, the affine forms of its linear operators and its constants, which do not depend
on the box. Nodes are only added, never changed."""


class Slopes(NamedTuple):
    """Choices for each row: slopes of the lines below relus; forms of maxima; the multipliers β ≥ 0
    of splits, (rows, splits), whose product with a split's left side is subtracted; and joint forms
    above relus.
    """

    single: dict[int, Floats]
    pools: dict[int, tuple[Pool, Choice]]
    cuts: Floats
    joint: Mapping[int, tuple[Joint, Floats]] = MappingProxyType({})

    def of(self, rows: Any) -> Slopes:
        """The slopes of some rows."""
        pools = {p: (pool, Choice(mean[rows], floor[rows])) for p, (pool, (mean, floor)) in self.pools.items()}
        joint = {p: (group, a[rows]) for p, (group, a) in self.joint.items()}
        return Slopes({p: a[rows] for p, a in self.single.items()}, pools, self.cuts[rows], joint)


class Form(NamedTuple):
    """Lower bounds of rows of a value: rows·inputs + constant, with one matrix per input and the
    constant rounded down; and its least value on the box."""

    rows: dict[int, Any]
    constant: Floats
    lower: Floats


class Analysis:
    """One graph on one box: the boxes of all values, and the relaxations of all operators.

    With a `unit`, every value includes the error of its computation in floats of that unit.
    If a number of this computation (without a unit: of the analysis itself) may exceed the greatest
    float, `is_unbounded` is True: that value and all that follow may be anything, an infinity or
    NaN, and nothing is bounded. `splits` restrict cells of values. If no point satisfies them,
    `is_empty` is True, and the rest is not computed. `room` widens every bound found backwards by a
    share of the box's width, for a replay in other arithmetic. `whole` is the analysis without the
    last split, whose results before that split are reused. After the `deadline`, by time.monotonic,
    all methods raise `Late`. `closer` finds tighter forms for relu cells of open sign.
    """

    def __init__(
        self,
        graph: Graph,
        boxes: Sequence[Box],
        *,
        refine: bool = True,
        unit: float = 0.0,
        splits: Sequence[Split] = (),
        room: float = 0.0,
        whole: Analysis | None = None,
        deadline: float = math.inf,
        closer: Callable[[Analysis, int, Any], Form] | None = None,
    ) -> None:
        self.closer = closer
        self.graph, self.unit, self.room, self.splits, self.deadline = graph, unit, room, splits, deadline
        self.boxes: list[Box] = []
        self.relaxations: dict[int, Relaxation] = {}
        self.varying: list[bool] = []
        self.known, self.constants = _known.setdefault(graph, ({}, {}))
        self._sizes: dict[int, tuple[Floats, Floats, int, float]] = {}
        self.pools: dict[int, Pool] = {}
        self.blocks: dict[int, Any] = {}  # used by `alpha`, made once
        self.read = read = self._read_by_curves() if refine else set()
        self.is_empty = self.is_unbounded = False
        given = {node.index: box for node, box in zip(graph.inputs, boxes, strict=True)}
        start = 0 if whole is None else self._take_over(whole, splits[-1].place)
        for node in graph.nodes[start:]:
            if self.is_empty:
                return
            self.in_time()
            self.varying.append(node.is_input or any(self.varying[p] for p in node.operands))
            self.boxes.append(given[node.index] if node.is_input else self._forward(node))
            self.is_unbounded = self.is_unbounded or not self._fits(self.boxes[-1].magnitude)
            if self.is_unbounded:
                self.boxes[-1] = self.boxes[-1] if node.is_input else unbounded(node.shape)
                continue
            if whole is not None:  # bounds of the whole box hold for its parts
                self.boxes[-1] = self.boxes[-1].within(whole.boxes[node.index])
            if node.index in read and node.op is not None:
                self._refine(node)
            if splits:
                self._split(node, splits)

    def in_time(self) -> None:
        """Raise `Late` if the deadline has passed."""
        if time.monotonic() > self.deadline:
            raise Late

    def _take_over(self, whole: Analysis, last: int) -> int:
        """Reuse another analysis up to value `last`, and cut this value's box; returns the number
        of values."""
        self.varying, self.boxes = whole.varying[: last + 1], whole.boxes[: last + 1]
        self.relaxations = {place: found for place, found in whole.relaxations.items() if place <= last}
        self._sizes = {place: found for place, found in whole._sizes.items() if place <= last}
        self._split(self.graph.nodes[last], self.splits)
        return last + 1

    def _split(self, node: Node, splits: Sequence[Split]) -> None:
        """Cut the box of a value by the splits."""
        low, high = (end.copy() for end in self.boxes[node.index])
        for place, cell, other, at, side in splits:
            if place == node.index and other < 0:
                end, pick = (low, np.maximum) if side > 0 else (high, np.minimum)
                end.reshape(-1)[cell] = pick(end.reshape(-1)[cell], at)
        self.boxes[node.index] = Box(low, high)
        self.is_empty = bool((low > high).any())

    def _read_by_curves(self) -> set[int]:
        """The varying values that a nonlinear operator reads."""
        found: set[int] = set()
        varying: list[bool] = []
        for node in self.graph.nodes:
            varying.append(node.is_input or any(varying[p] for p in node.operands))
            if node.op is not None and not linear.is_linear(node.op, [varying[p] for p in node.operands]):
                found.update(p for p in node.operands if varying[p])
        return found

    def _forward(self, node: Node) -> Box:
        if node.op is None:
            if node.index not in self.constants:
                self.constants[node.index] = constant_box(node)
            return self.constants[node.index]
        if self.is_unbounded:
            return unbounded(node.shape)
        varying = [self.varying[p] for p in node.operands]
        is_linear = linear.is_linear(node.op, varying)
        boxes = [self.boxes[p] if is_linear else self.held(p) for p in node.operands]
        if is_linear and node.index not in self.known:
            self.known[node.index] = linear.linear(node.op, boxes, varying)
        chosen = [split for split in self.splits if split.other >= 0 and split.place in node.operands]
        if chosen and type(node.op) in POOLS:
            relaxation, reached, roundings, peak = relax_chosen(node.op, boxes, chosen)
        else:
            known = self.known.get(node.index)
            relaxation, reached, roundings, peak = relax(node.op, boxes, varying, known, bool(self.unit))
        forms = relaxation.below, relaxation.above
        numbers = [form.constant for form in forms]
        if node.index not in self.known:  # the rows of linear operators show in the image
            numbers += [matrix.data for form in forms for matrix in form.rows.values()]
        if not all(np.isfinite(n).all() for n in numbers) or (self.unit and not self._fits(peak)):
            return unbounded(node.shape)
        slack = np.zeros(forms[0].constant.size)
        if self.unit and np.any(roundings):
            reach = 1 + max(box.magnitude.max(initial=0.0) for box in boxes)  # bounds the factors of a lost weight
            lost = UNDERFLOW[self.unit] * (2 + sum(box.lower.size for box in boxes)) * reach
            slack = slack + np.where(np.equal(roundings, 0), 0.0, self.unit * roundings + lost).reshape(-1)
        if self.unit == SINGLE and is_linear:  # cells that are constants, as by concatenation or padding
            alone = (forms[0].roundings == 0) & (forms[0].constant != 0)
            slack = slack + np.where(alone, np.abs(linear.narrowed(forms[0].constant) - forms[0].constant), 0.0)
        if slack.any():
            low, high = relaxation.below, relaxation.above
            relaxation = Relaxation(
                Affine(low.rows, below(low.constant, slack)), Affine(high.rows, above(high.constant, slack))
            )
            reached = reached.reshaped((-1,)).widened(slack)
        self.relaxations[node.index] = relaxation
        return reached.reshaped(node.shape)

    def held(self, place: int) -> Box:
        """The box of a value as nonlinear operators read it: constants as they are written, and
        rounded to float32 if that is covered. Linear operators count this rounding themselves."""
        box = self.boxes[place]
        if self.unit != SINGLE or self.varying[place]:
            return box
        return Box(np.minimum(box.lower, linear.narrowed(box.lower)), np.maximum(box.upper, linear.narrowed(box.upper)))

    def _fits(self, numbers: Any) -> bool:
        """Whether floats reach as far as these numbers, none of which is NaN."""
        return bool((np.abs(numbers) <= GREATEST[self.unit]).all())

    def _refine(self, node: Node) -> None:
        """Bound the undecided cells of a value backwards."""
        box = self.boxes[node.index]
        if self._is_exact(node):
            return
        low, high = box.lower.reshape(-1).copy(), box.upper.reshape(-1).copy()
        places = np.flatnonzero((low < high) & self._matters(node))
        step = max(1, CHUNK // (2 * self._largest(node.index)))
        for start in range(0, places.size, step):
            self._bounded(places[start : start + step], low, high, lambda rows: self.lower(node.index, rows))
        closer = self.closer
        if closer is not None:
            self.boxes[node.index] = Box(low, high).reshaped(node.shape)
            places = np.flatnonzero((low < 0) & (high > 0) & self._matters(node))
            if places.size:
                self._bounded(places, low, high, lambda rows: closer(self, node.index, rows))
        self.boxes[node.index] = Box(low, high).reshaped(node.shape)

    def _bounded(self, part: Any, low: Floats, high: Floats, find: Callable[[Any], Form]) -> None:
        """Bound cells by forms below and above them."""
        signs = np.repeat([1.0, -1.0], part.size)
        rows = sparse.csr_array((signs, np.tile(part, 2), np.arange(signs.size + 1)), shape=(signs.size, low.size))
        both = find(rows).lower
        room = self.room * (high[part] - low[part])
        low[part] = np.maximum(low[part], both[: part.size] - room)
        high[part] = np.minimum(high[part], -both[part.size :] + room)

    def _largest(self, place: int) -> int:
        """The number of cells of the largest varying value up to this one."""
        return max(math.prod(n.shape) for n in self.graph.nodes[: place + 1] if self.varying[n.index])

    def _is_exact(self, node: Node) -> bool:
        """Whether bounding backwards gains nothing: the value is an affine form of the inputs, or a
        relu or maximum, whose operand was refined."""
        if type(node.op) in (Relu, *POOLS):
            return True
        return self.relaxations[node.index].is_linear and all(self.graph.nodes[p].op is None for p in node.operands)

    def _matters(self, node: Node) -> Any:
        """The cells whose bounds could change a relaxation. If only relus read the value, cells
        that are never positive do not matter; cells that are never negative matter only if a
        nonlinear operator reads the relu."""
        readers = [n for n in self.graph.nodes if node.index in n.operands]
        if not all(type(n.op) is Relu for n in readers):
            return True
        box = self.boxes[node.index]
        passed = any(n.index in self.read for n in readers)
        return ((box.upper > 0) & (passed | (box.lower < 0))).reshape(-1)

    def lower(self, start: int, rows: Any, slopes: Slopes | None = None, seen: dict[int, Any] | None = None) -> Form:
        """Affine forms of the inputs below rows·value, for the rows of a matrix (rows, cells of the
        value).

        `slopes`: choices for each row. `seen` collects the rows at every value.
        """
        count = rows.shape[0]
        if self.is_unbounded:
            return Form({}, np.full(count, -np.inf), np.full(count, -np.inf))
        constant, error = np.zeros(count), np.zeros(count)
        waiting: dict[int, Any] = {start: rows}
        reached: dict[int, Any] = {}
        for node in reversed(self.graph.nodes[: start + 1]):
            A = waiting.pop(node.index, None)
            self.in_time()
            if slopes is not None and slopes.cuts.any():
                A, constant, error = self._cut(node, A, constant, error, slopes.cuts)
            if A is None:
                continue
            if seen is not None:
                seen[node.index] = A
            if node.is_input:
                reached[node.index] = A
            elif node.op is None or not self.varying[node.index]:
                constant, error = self._concrete(A, self.held(node.index), constant, error)
            else:
                found, constant, error = self._through(node, A, constant, error, slopes)
                for place, part in found.items():
                    if place in waiting:
                        part = waiting[place] + part
                        error = error + UNIT * ROOM * (abs(part) @ self.boxes[place].magnitude.reshape(-1))
                    waiting[place] = part
        form = below(constant, error * ROOM)
        total, slack = form, np.zeros(count)
        for place, A in reached.items():
            total, slack = self._concrete(A, self.boxes[place], total, slack)
        slack = slack + gamma(len(reached) + 2) * (np.abs(form) + np.abs(total))
        lower = below(total, slack * ROOM)
        if not (kept := np.isfinite(lower)).all():  # an overflow on the way: nothing is known of these rows
            for place, A in reached.items():
                reached[place] = np.where(kept[:, None], A.toarray() if sparse.issparse(A) else A, 0.0)
            form, lower = np.where(kept, form, -np.inf), np.where(kept, lower, -np.inf)
        return Form(reached, form, lower)

    def _concrete(self, A: Any, box: Box, constant: Floats, error: Floats) -> tuple[Floats, Floats]:
        """constant + the least value of A·x on a box, and the accumulated error."""
        positive, negative = split(A)
        added = positive @ box.lower.reshape(-1) + negative @ box.upper.reshape(-1)
        cost = self._summed(box.lower.size) * (abs(A) @ box.magnitude.reshape(-1)) + TINY
        return constant + added, error + cost

    def _summed(self, terms: int) -> Any:
        """The relative error of a sum of `terms` products, and of its addition to the sums of other
        values."""
        return gamma(terms + len(self.graph.nodes) + 4)

    def _through(
        self, node: Node, A: Any, constant: Floats, error: Floats, slopes: Slopes | None
    ) -> tuple[dict[int, Any], Floats, Floats]:
        """Rows at an operator's value as rows at its operands."""
        relaxation = self.relaxations[node.index]
        spread, size, readers, lost = self.size(node)
        if slopes is not None and node.index in slopes.single:
            return self._with_slopes(node, A, constant, error, slopes)
        if slopes is not None and node.index in slopes.pools:
            pool, choice = slopes.pools[node.index]
            rows, added, cost = pool.through(*split(A.toarray() if sparse.issparse(A) else A), choice)
            error = error + cost + gamma(len(self.graph.nodes) + 2) * np.abs(added) + TINY + pool.terms * lost
            return {node.operands[0]: rows}, constant + added, error
        pulled: dict[int, Any] = {}
        if relaxation.is_linear:
            parts = [(A, relaxation.below)]
        elif not sparse.issparse(A) and type(node.op) is Relu:  # a relu reads one cell: one pass over large rows
            lines = relaxation.below.light[0], relaxation.above.light[0]
            pulled, parts = {node.operands[0]: A * np.where(A > 0, *lines)}, []
            constant = constant + np.minimum(A, 0) @ relaxation.above.constant
        else:
            parts = list(zip(split(A), (relaxation.below, relaxation.above), strict=True))
        for rows, form in parts:
            for slot, matrix in (form.rows if sparse.issparse(rows) else form.light).items():
                place, part = node.operands[slot], packed(product(rows, matrix))
                pulled[place] = pulled[place] + part if place in pulled else part
            if form.constant.any():
                constant = constant + rows @ form.constant
        cost = gamma(readers + 2) * spread if readers else np.zeros(size.size)
        if size.any():
            cost = cost + self._summed(A.shape[1]) * size
        if cost.any():
            error = error + (abs(A) @ cost) * ROOM
        return pulled, constant, error + TINY + readers * lost

    def _with_slopes(
        self, node: Node, A: Any, constant: Floats, error: Floats, slopes: Slopes
    ) -> tuple[dict[int, Any], Floats, Floats]:
        """`_through` for a relu whose slopes are given for each row."""
        over, before = self.relaxations[node.index].above, node.operands[0]
        A = A.toarray() if sparse.issparse(A) else A
        positive, negative = split(A)
        pulled = {before: positive * slopes.single[node.index]}
        spread = self.boxes[before].magnitude.reshape(-1)  # slopes are at most 1
        error = error + gamma(3) * (abs(A) @ spread) + TINY + 2 * self.size(node)[3]
        if node.index in slopes.joint:
            joint, a = slopes.joint[node.index]
            pulled[joint.source], added, cost = joint.below(negative, a)
            return pulled, constant + added, error + cost + gamma(len(self.graph.nodes) + 2) * np.abs(added)
        pulled[before] = pulled[before] + negative * over.rows[0].diagonal()
        error = error + self._summed(A.shape[1]) * (abs(A) @ np.abs(over.constant))
        return pulled, constant + negative @ over.constant, error

    def _cut(self, node: Node, A: Any, constant: Floats, error: Floats, cuts: Floats) -> tuple[Any, Floats, Floats]:
        """Rows at a value, minus the multipliers of the splits of its cells."""
        for (place, cell, other, at, side), b in zip(self.splits, cuts.T, strict=True):
            if place == node.index and b.any():
                A = np.zeros((len(b), math.prod(node.shape))) if A is None else A
                A = A.toarray() if sparse.issparse(A) else A.copy()
                magnitude = self.boxes[place].magnitude.reshape(-1)
                for moved, sign in ((cell, -side), (other, side)):
                    if moved >= 0:
                        A[:, moved] += sign * b
                        error = error + gamma(3) * np.abs(A[:, moved]) * magnitude[moved]
                constant = constant + side * at * b
                error = error + gamma(3) * np.abs(at * b) + UNIT * np.abs(constant)
        return A, constant, error

    def pool(self, node: Node) -> Pool:
        """The forms of a maximum to choose from; made once."""
        if node.index not in self.pools:
            self.pools[node.index] = Pool(self.taps(node), self.boxes[node.operands[0]])
        return self.pools[node.index]

    def taps(self, node: Node) -> Taps:
        """The taps of a maximum that splits leave open."""
        known = [split for split in self.splits if split.place == node.operands[0]]
        return open_taps(node.op, [self.boxes[node.operands[0]]], known)

    def size(self, node: Node) -> tuple[Floats, Floats, int, float]:
        """Σ|terms| of an operator's forms, the size of their constants, the roundings of a column's
        sum, and a bound of the effect of one underflow in every column."""
        if node.index not in self._sizes:
            relaxation = self.relaxations[node.index]
            magnitudes = [self.held(p).magnitude for p in node.operands]
            forms = [relaxation.below] if relaxation.is_linear else [relaxation.below, relaxation.above]
            spread = np.maximum.reduce([form.spread(magnitudes) for form in forms])
            size = np.maximum.reduce([np.abs(form.constant) for form in forms])
            readers = sum(form.readers + len(form.rows) for form in forms) if any(form.readers for form in forms) else 0
            readers += len(forms) - 1
            lost = sum(float((LEAST * magnitude).sum()) for magnitude in magnitudes)
            self._sizes[node.index] = spread, size, readers, lost
        return self._sizes[node.index]


def split(A: Any) -> tuple[Any, Any]:
    """The positive and the negative part of a matrix."""
    if sparse.issparse(A):
        return A.maximum(0).tocsr(), A.minimum(0).tocsr()
    return np.maximum(A, 0), np.minimum(A, 0)


def product(rows: Any, matrix: Any) -> Any:
    """rows @ matrix; a vector stands for a diagonal matrix. Columns in which all rows are 0 are
    skipped: decided maxima and inactive relus have many."""
    if matrix.ndim == 1:
        return rows * matrix
    if isinstance(rows, np.ndarray) and len(rows) > MANY:
        used = np.flatnonzero(rows.any(axis=0))
        if 2 * used.size < rows.shape[1]:
            return rows[:, used] @ matrix[used]
    return rows @ matrix


def packed(A: Any) -> Any:
    """A matrix in the cheaper form: dense if many cells are nonzero."""
    if sparse.issparse(A):
        return A.toarray() if A.nnz > DENSE * math.prod(A.shape) else A.tocsr()
    return np.asarray(A)


def constant_box(node: Node) -> Box:
    """The box of a constant, whose numbers may not be float64s."""
    value = np.full(node.shape, node.constant, object) if is_number(node.constant) else node.constant
    box = Box(*(outward("bounds", node.name, value, side) for side in (-math.inf, math.inf)))
    if not np.isfinite(box.magnitude).all():
        rule, remedy = "is not finite everywhere", "bound a graph with finite constants"
        raise refusal(ArgumentError, "bounds", "constant", node.name, rule, remedy)
    return box
