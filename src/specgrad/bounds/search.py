"""Branch and bound: boxes are split at relus, maxima and inputs until every claim is proved, or an
input breaks one.

A claim is a list of rows with bounds. For every input, at least one row·output is greater than its
bound, or equal to the bound if `equal`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..graph import Graph, transform
from ..ops import Larger, Relu, Smaller
from .affine import Box, Floats
from .alpha import Found, ascend
from .analysis import Analysis, Form, Late, Split
from .exact import STEPS
from .parts import Parts
from .relax import POOLS, open_taps
from .replay import confirmed
from .together import together

ROOM = 2.0**-16  # the share of a box's width that is left for the rounding of a replay
ASCENT, RESUMED = 40, 12  # steps of an ascent, and of one from slopes found before a split
FEW = 16  # with at most so many varying inputs, inputs are split, else relus and maxima
GAIN = 0.1  # the share of the missing amount that joint forms must gain to be tried again
BATCH = 64  # parts
ATTACK, FEW_STEPS = 30, 3  # steps, on the whole box and on parts of it
MAXIMA = (*POOLS, Larger, Smaller)


class Row(NamedTuple):
    """row·output > bound, or ≥ where `equal` is enough."""

    row: Sequence[Fraction]
    bound: Fraction
    equal: bool = False


Claim = Sequence[Row]


class Bound(NamedTuple):
    """One proved row of a claim, and the slopes of its proof; empty: the relaxations' slopes."""

    claim: int
    row: int
    single: dict[int, Any]
    pools: dict[int, tuple[Any, Any]]
    cuts: Any
    joint: dict[int, Any]


class Step:
    """The boxes and bounds shown on one part of the box, and the split into its parts."""

    def __init__(self) -> None:
        self.boxes: dict[int, tuple[Floats, Floats]] = {}
        self.proved: list[Bound] = []
        self.split: tuple[int, int, int, float] | None = None
        self.parts: list[Step] = []


class Answer(NamedTuple):
    """`step`: the proof; `x`: exact inputs that break claim `broken`; neither if the time was
    over."""

    step: Step | None = None
    x: list[Any] | None = None
    broken: int = -1


Progress = Callable[[float, int], None]
"""A callback (share of the box that is done, number of parts so far)."""


class Search:
    """The search for one network, one box and some claims."""

    def __init__(
        self, source: Graph, graph: Graph, ends: Sequence[tuple[Any, Any]], claims: Sequence[Claim], unit: float
    ) -> None:
        self.source, self.graph, self.ends, self.claims, self.unit = source, graph, ends, claims, unit
        (self.output,) = graph.outputs
        self.together = True  # until joint forms of relus gain nothing
        pairs = [(c, r) for c, claim in enumerate(claims) for r in range(len(claim))]
        self.owner = np.array([c for c, _ in pairs])
        self.number = np.array([r for _, r in pairs])
        self.rows = np.array([[float(n) for n in claims[c][r].row] for c, r in pairs])
        self.off = np.array([[above_size(n - Fraction(float(n))) for n in claims[c][r].row] for c, r in pairs])
        self.enough = np.array([np.nextafter(float(claims[c][r].bound), np.inf) for c, r in pairs])

    def run(self, boxes: list[Box], deadline: float, progress: Progress | None = None) -> Answer:
        """Branch, depth first, until all claims are proved."""
        root, done, count = Step(), 0.0, 0
        waiting: list[Any] = [(root, (), list(range(len(self.claims))), None, None)]
        while waiting:
            step, splits, wanted, whole, begin = waiting.pop()
            count += 1
            options: Any = {"unit": self.unit, "splits": splits, "room": ROOM, "whole": whole, "deadline": deadline}
            try:
                analysis = Analysis(self.graph, boxes, **options)
                rest, found, reached = self._bound(step, analysis, wanted, begin)
                if found is None and rest and self._is_few(analysis):
                    found = self._cut_inputs(root, analysis, rest, progress)
            except Late:
                return Answer()
            if found is not None:
                return found
            if not rest:
                done += 2.0 ** -len(splits)
            else:
                assert step.split is not None
                step.parts = [Step(), Step()]
                analysis.pools.clear()  # large, and of no use to parts
                analysis.blocks.clear()
                place, cell, other, at = step.split
                waiting += [
                    (part, (*splits, Split(place, cell, other, at, side)), rest, analysis, reached)
                    for side, part in zip((-1, 1), step.parts, strict=True)
                ]
            if progress is not None:
                progress(done, count)
        return Answer(root)

    def _is_few(self, analysis: Analysis) -> bool:
        """Whether inputs are split, for many parts at once."""
        varying = sum(int((box.upper > box.lower).sum()) for box in self._inputs(analysis).values())
        return varying <= FEW and Parts.offered(analysis)

    def _inputs(self, analysis: Analysis) -> dict[int, Box]:
        return {node.index: analysis.boxes[node.index].reshaped((-1,)) for node in self.graph.inputs}

    def _cut_inputs(self, root: Step, whole: Analysis, wanted: list[int], progress: Progress | None) -> Answer:
        """Branch over inputs alone, depth first, BATCH parts at a time."""
        parts, done, count = Parts(whole), 0.0, 0
        known = {p: Box(*(np.ravel(end) for end in ends)) for p, ends in root.boxes.items()}
        waiting: list[Any] = [(root, known | self._inputs(whole), wanted, 0)]
        while waiting:
            whole.in_time()
            batch = waiting[-BATCH:]
            del waiting[-BATCH:]
            held = [boxes for _, boxes, _, _ in batch]
            boxes = parts.refined({p: _stacked([b[p] for b in held]) for p in held[0]})
            places = np.flatnonzero(np.isin(self.owner, [claim for _, _, some, _ in batch for claim in some]))
            lower, A = parts.lower(self.output, self.rows[places], boxes)
            lower = lower - self._lost(whole)[places]
            x, broken = self._hit(parts, places, lower, A, boxes)
            if x is not None:
                return Answer(x=x, broken=broken)
            for k, (step, _, some, depth) in enumerate(batch):
                mine = {p: Box(low[k], high[k]) for p, (low, high) in boxes.items()}
                step.boxes = {p: mine[p] for p in whole.read}
                rest = self._take(step, places, lower[k], some, None)
                done += 0.0 if rest else 2.0**-depth
                if rest:
                    row = self._nearest(places, lower[k], rest)
                    made = _halved(step, {p: a[k, row] for p, a in A.items()}, mine)
                    waiting += [(part, boxes, rest, depth + 1) for part, boxes in made]
            count += len(batch)
            if progress is not None:
                progress(done, count)
        return Answer(root)

    def _nearest(self, places: Any, lower: Floats, rest: list[int]) -> int:
        """The row closest to its bound, of the claim that is furthest from a proof."""
        height = lower - self.enough[places]
        best = {claim: np.where(self.owner[places] == claim, height, -np.inf) for claim in rest}
        return int(min(best.values(), key=np.max).argmax())

    def _hit(self, parts: Parts, places: Any, lower: Floats, A: Any, boxes: Any) -> tuple[list[Any] | None, int]:
        """Inputs that break a claim, among the minimisers of the parts' forms."""
        row = (lower - self.enough[places]).argmin(axis=1)
        pick = np.arange(len(row)), row
        x = {p: np.where(a[pick] > 0, *boxes[p]) for p, a in A.items()}
        heights = parts.values(x) @ self.rows.T - self.enough
        for claim in set(self.owner[places].tolist()):
            k = int(heights[:, self.owner == claim].max(axis=1).argmin())
            if heights[k, self.owner == claim].max() <= 0:
                shapes = [node.shape for node in self.graph.inputs]
                now = [x[n.index][k].reshape(shape) for n, shape in zip(self.graph.inputs, shapes, strict=True)]
                exact = [clipped(x, *ends) for x, ends in zip(now, self.ends, strict=True)]
                if confirmed(self.source, exact, self.claims[claim]):
                    return exact, claim
        return None, -1

    def _bound(
        self, step: Step, analysis: Analysis, wanted: list[int], begin: Any
    ) -> tuple[list[int], Answer | None, Any]:
        """The claims that stay open on a part, after choosing a split; or an answer; and the slopes
        of some rows, from which its parts `begin`."""
        known = [p for p in analysis.read if p < len(analysis.boxes)]
        step.boxes = {p: (analysis.boxes[p].lower, analysis.boxes[p].upper) for p in known}
        if analysis.is_empty:
            return [], None, None
        places = np.flatnonzero(np.isin(self.owner, wanted))
        form = analysis.lower(self.output, self.rows[places])
        lost = self._lost(analysis)
        rest = self._take(step, places, form.lower - lost[places], wanted, None)
        if not rest:
            return rest, None, None
        x, broken = self._attack(analysis, form, places, rest, FEW_STEPS if analysis.splits else ATTACK)
        if x is not None or analysis.is_unbounded:
            return rest, Answer(x=x, broken=broken), None
        left = np.flatnonzero(np.isin(self.owner, rest))
        if begin is not None:
            rows, slopes = begin
            begin = slopes.of(np.searchsorted(rows, left))
        steps = ASCENT if begin is None else RESUMED
        found = ascend(analysis, self.output, self.rows[left], steps, self.enough[left], STEPS, begin)
        rest = self._take(step, left, found.form.lower - lost[left], rest, found)
        if not rest:
            return rest, None, None
        if self.together:
            before = found.form.lower
            joined = together(analysis, self.output, self.rows[left], found, ASCENT, self.enough[left])
            self.together = bool((joined.form.lower - before > GAIN * (self.enough[left] - before)).any())
            rest = self._take(step, left, joined.form.lower - lost[left], rest, joined)
            if not rest:
                return rest, None, None
        x, broken = self._attack(analysis, found.form, left, rest, FEW_STEPS)
        if x is not None:
            return rest, Answer(x=x, broken=broken), None
        worst = int(np.argmin(np.where(np.isin(self.owner[left], rest), found.form.lower - self.enough[left], np.inf)))
        step.split = self._split(analysis, self.rows[left[worst]], found, worst, self.enough[left[worst]])
        return rest, Answer() if step.split is None else None, (left, found.slopes)

    def _lost(self, analysis: Analysis) -> Floats:
        """The error of the rows whose numbers are not floats."""
        reach = analysis.boxes[self.output].magnitude.reshape(-1)
        lost: Floats = 2 * (self.off @ reach) if self.off.any() else np.zeros(len(self.rows))
        return lost

    def _take(self, step: Step, places: Any, lower: Floats, wanted: list[int], found: Found | None) -> list[int]:
        """Record the claims proved with a margin; returns the other claims."""
        rest = list(wanted)
        margin = lower - self.enough[places] - 1e-7 * (np.abs(lower) + np.abs(self.enough[places]))
        for at in np.argsort(-margin):
            claim = int(self.owner[places[at]])
            if margin[at] > 0 and claim in rest:
                rest.remove(claim)
                forms: Any = ({}, {}, np.zeros(0), {})
                if found is not None:
                    forms = _forms(found, at)
                step.proved.append(Bound(claim, int(self.number[places[at]]), *forms))
        return rest

    def _attack(
        self, analysis: Analysis, form: Form, places: Any, rest: Sequence[int], steps: int
    ) -> tuple[list[Any] | None, int]:
        """Inputs that break a claim: gradient descent from the minimiser of its form; confirmed in
        rationals."""
        for claim in rest:
            at = int(np.flatnonzero(self.owner[places] == claim)[0])
            x = []
            for node in self.graph.inputs:
                A = form.rows.get(node.index)
                box = analysis.boxes[node.index]
                row = (
                    np.zeros(box.lower.size)
                    if A is None
                    else np.asarray(A[[at]].toarray() if sparse.issparse(A) else A[at]).reshape(-1)
                )
                x.append(np.where(row.reshape(box.shape) > 0, box.lower, box.upper))
            found = self._descend(analysis, x, claim, steps)
            if found is not None:
                return found, claim
        return None, -1

    def _descend(self, analysis: Analysis, x: list[Floats], claim: int, steps: int) -> list[Any] | None:
        mine = self.owner == claim
        rows, least = self.rows[mine], np.array([float(part.bound) for part in self.claims[claim]])
        boxes = [analysis.boxes[node.index] for node in self.graph.inputs]
        shape = self.graph.nodes[self.output].shape
        value, gradient = programs(self.source)
        best, middle = np.inf, [0.5 * (box.lower + box.upper) for box in boxes]
        for start in (x,) if analysis.splits else (x, middle):
            now = start
            for step in range(steps):
                analysis.in_time()
                heights = rows @ np.ravel(value(*now)) - least
                worst = int(heights.argmax())
                if heights[worst] <= 0:
                    exact = [clipped(x, *ends) for x, ends in zip(now, self.ends, strict=True)]
                    if confirmed(self.source, exact, self.claims[claim]):
                        return exact
                if step == 4 and heights[worst] > 0.5 * best and start is middle:
                    break
                best = min(best, heights[worst])
                slopes = gradient(*now, rows[worst].reshape(shape))
                slopes = slopes if isinstance(slopes, tuple) else (slopes,)
                size = 0.5 * 0.85**step
                now = [
                    np.clip(x - size * (box.upper - box.lower) * np.sign(g), box.lower, box.upper)
                    for x, g, box in zip(now, slopes, boxes, strict=True)
                ]
        return None

    def _split(
        self, analysis: Analysis, row: Floats, found: Found, number: int, enough: float
    ) -> tuple[int, int, int, float] | None:
        """The split of the cell with the largest cost in a bound: of an input if few vary, else of
        an operand of a relu or a maximum; None if nothing varies."""
        width = [analysis.boxes[node.index].upper - analysis.boxes[node.index].lower for node in self.graph.inputs]
        few = sum(int((w > 0).sum()) for w in width) <= FEW
        tried = None if few else found.split(number, enough)
        if tried is not None:
            return tried
        seen: dict[int, Any] = {}
        form = analysis.lower(self.output, row[None], None, seen)
        options = []
        for node, w in zip(self.graph.inputs, width, strict=True):
            A = dense(form.rows.get(node.index), w.size)
            score = np.abs(A) * w.reshape(-1) + 1e-12 * w.reshape(-1)
            cell = int(score.argmax())
            middle = sum(float(end.reshape(-1)[cell]) for end in analysis.boxes[node.index]) / 2
            options.append((float(score[cell]) * (1.0 if few else 1e-9), (node.index, cell, -1, middle)))
        if not few:
            options += [scores(analysis, node, seen) for node in self.graph.nodes if node.index in seen]
        cost, best = max(options)
        return best if cost > 0 else None


def _forms(found: Found, at: int) -> tuple[Any, Any, Any, Any]:
    """The slopes of one row, as a certificate stores them."""
    slopes = found.slopes
    single = {p: np.round(a[at] * STEPS).astype(np.uint16) for p, a in slopes.single.items()}
    pools = {
        p: (np.round(c.mean[at] * STEPS).astype(np.uint16), pool.least + c.floor[at] * pool.reach)
        for p, (pool, c) in slopes.pools.items()
    }
    return single, pools, slopes.cuts[at], {p: a[at] for p, (_, a) in slopes.joint.items()}


def _stacked(boxes: list[Box]) -> Box:
    return Box(*(np.stack(ends) for ends in zip(*boxes, strict=True)))


def _halved(step: Step, A: dict[int, Floats], boxes: dict[int, Box]) -> list[tuple[Step, dict[int, Box]]]:
    """The two halves of a part, cut at the input with the largest effect on a row."""
    moves = {p: (np.abs(a) + 1e-12) * (boxes[p].upper - boxes[p].lower) for p, a in A.items()}
    place = max(moves, key=lambda p: moves[p].max())
    cell = int(moves[place].argmax())
    low, high = boxes[place]
    at = float(low[cell] + high[cell]) / 2
    left, right = high.copy(), low.copy()
    left[cell] = right[cell] = at
    step.split, step.parts = (place, cell, -1, at), [Step(), Step()]
    return [
        (part, boxes | {place: cut}) for part, cut in zip(step.parts, (Box(low, left), Box(right, high)), strict=True)
    ]


_programs: weakref.WeakKeyDictionary[Graph, tuple[Any, Any]] = weakref.WeakKeyDictionary()


def programs(graph: Graph) -> tuple[Any, Any]:
    """The compiled programs of a graph and of its VJP, cached."""
    if graph not in _programs:
        _programs[graph] = graph.compile(), transform.vjp(graph).compile()
    return _programs[graph]


def above_size(number: Fraction) -> float:
    """|number|, rounded up; 0 stays 0."""
    return float(np.nextafter(abs(float(number)), np.inf)) if number else 0.0


def dense(A: Any, cells: int) -> Floats:
    return np.zeros(cells) if A is None else np.asarray(A.toarray() if sparse.issparse(A) else A).reshape(-1)


def scores(analysis: Analysis, node: Any, seen: dict[int, Any]) -> tuple[float, tuple[int, int, int, float]]:
    """The largest cost of the lines of a relu or a maximum, and its split: the sign of a relu's
    operand, or which of two cells is greater."""
    nothing = 0.0, (-1, -1, -1, 0.0)
    if type(node.op) not in (Relu, *MAXIMA):
        return nothing
    A, relaxation = np.abs(dense(seen[node.index], math.prod(node.shape))), analysis.relaxations[node.index]
    gap = A * np.abs(relaxation.above.constant - relaxation.below.constant)
    output = int(gap.argmax())
    boxes = [analysis.boxes[p] for p in node.operands]
    if type(node.op) is Relu:
        return float(gap[output]), (node.operands[0], output, -1, 0.0)
    if type(node.op) in POOLS:
        known = [split for split in analysis.splits if split.place == node.operands[0]]
        taps = open_taps(node.op, boxes, known)
        cells = taps.place[taps.real[:, output], output]
        high = boxes[0].upper.reshape(-1)[cells]
        order = np.argsort(-high)
        if len(cells) < 2:
            return nothing
        return float(gap[output]), (node.operands[0], int(cells[order[0]]), int(cells[order[1]]), 0.0)
    rows = relaxation.above.rows
    for slot, matrix in rows.items():
        for cell in matrix.indices[matrix.indptr[output] : matrix.indptr[output + 1]].tolist():
            low, high = (float(end.reshape(-1)[cell]) for end in boxes[slot])
            if low < high and analysis.varying[node.operands[slot]]:
                return float(gap[output]), (node.operands[slot], cell, -1, (low + high) / 2)
    return nothing


def clipped(x: Floats, lower: Any, upper: Any) -> Any:
    """Floats as Fractions, clipped to exact ends."""
    cells = zip(x.reshape(-1).tolist(), np.ravel(lower).tolist(), np.ravel(upper).tolist(), strict=True)
    made = np.empty(x.size, object)
    made[:] = [min(max(Fraction(a), Fraction(b)), Fraction(c)) for a, b, c in cells]
    return made.reshape(x.shape)
