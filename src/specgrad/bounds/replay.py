"""Replay of certificates in exact rationals; of the search's code, only the rewriting of operators
(`rewrite`) is used.

Every value of a network has a box, which follows from the boxes of the operator's operands. A
tighter box in the certificate must follow from affine forms propagated backwards, and so must the
final bounds. A split of a cell's box makes two parts, each with its own boxes and bounds. Boxes and
bounds shown before a split hold in both parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import ArgumentError, ScalarError, refusal
from ..graph.ir import Node
from ..ops import AdaptiveMaxPool, GlobalMaxPool, MaxPool, Relu
from .exact import SLOPES, STEPS, Box, Curve, Exact, Linear, Network, curve, failed, objects, planes, scatter, taps

WIDEST = 9  # the most cells of a joint form of relus


class Part:
    """A network on a part of its box: the boxes of all values, after checking the boxes in the
    certificate."""

    def __init__(
        self,
        network: Network,
        inputs: Sequence[Box],
        claims: dict[int, Any],
        splits: Sequence[Any],
        whole: Part | None = None,
    ) -> None:
        self.network, self.graph = network, network.graph
        self.boxes: dict[int, Box] = {}
        self.floats: dict[int, tuple[Any, Any]] = {}
        self.linear: dict[int, Linear] = {}
        self.curves: dict[int, Curve] = {}
        self.is_empty = False
        self.splits = splits
        given = iter(inputs)
        for node in self.graph.nodes:
            self.boxes[node.index] = next(given) if node.is_input else self._forward(node)
            if node.is_input and whole is None:
                ends = [number for end in self.boxes[node.index] for number in end.fractions()]
                self.network.fits(node, max(map(abs, ends), default=0))
            if whole is not None:  # boxes of the whole hold in its parts
                self.boxes[node.index] = self.boxes[node.index].within(whole.boxes[node.index])
            for place, cell, other, at, side in splits:
                if place == node.index and other < 0:
                    self.boxes[place] = self.boxes[place].clipped(cell, at, side)
            if node.index in claims:
                self._claim(node, claims[node.index])
            self.is_empty = self.is_empty or self.boxes[node.index].is_empty
            if self.is_empty:
                return

    def _forward(self, node: Node) -> Box:
        if node.index in self.network.constants:
            return self.network.held(node.index)
        boxes = [self.boxes[p] for p in node.operands]
        if node.index in self.network.linear:
            self.linear[node.index] = made = self.network.with_slack(node, boxes)
            return made.image(boxes)
        shapes = [self.graph.nodes[p].shape for p in node.operands]
        floats = [self.floats.get(p) or self._near(p) for p in node.operands]
        self.curves[node.index] = found = curve(node, boxes, shapes, floats, self._known(node))
        return found.image

    def _known(self, node: Node) -> list[tuple[int, int]]:
        """Pairs of cells that a node reads, with the first at least the second."""
        return [
            (cell, other) if side > 0 else (other, cell)
            for place, cell, other, _, side in self.splits
            if other >= 0 and place in node.operands
        ]

    def _near(self, place: int) -> tuple[Any, Any]:
        """A box in floats. Floats only choose between lines, all of which are sound."""
        low, high = (np.array([float(f) for f in end.fractions()]) for end in self.boxes[place])
        return low, high

    def _claim(self, node: Node, ends: tuple[Any, Any]) -> None:
        """Check that a box of the certificate follows from the known box, or backwards."""
        box = self.boxes[node.index]
        cells = box.lower.numbers.size
        claimed = [[Fraction(f) for f in np.ravel(end).tolist()] for end in ends]
        if any(len(end) != cells for end in claimed):
            raise failed(f"box of {node.name}", f"must have {cells} cells")
        known = [end.fractions() for end in box]
        for sign, here, wanted in ((1, known[0], claimed[0]), (-1, known[1], claimed[1])):
            open_cells = [c for c in range(cells) if sign * wanted[c] > sign * here[c]]
            if not open_cells:
                continue
            rows = np.zeros((len(open_cells), cells), object)
            rows[np.arange(len(open_cells)), open_cells] = sign
            for cell, bound in zip(open_cells, self.lower(node.index, Exact(rows, 1)), strict=True):
                if bound < sign * wanted[cell]:
                    raise failed(f"box of {node.name}", f"does not follow at cell {cell}")
        closer = [
            [pick(a, b) for a, b in zip(*pair, strict=True)]
            for pick, pair in zip((max, min), zip(known, claimed, strict=True), strict=True)
        ]
        self.boxes[node.index] = Box(*(Exact.of(objects(end)) for end in closer))
        self.floats[node.index] = (np.ravel(ends[0]), np.ravel(ends[1]))

    def lower(self, start: int, rows: Exact, chosen: Any = None) -> list[Fraction]:
        """Lower bounds of rows·value for all inputs of this part.

        `chosen`: forms for one row. `single`: for each cell of a relu the slope of the line below,
        in STEPS. `pools`: for each tap and window of a maximum its weight in the mean below, in
        STEPS, and for each window the floor of the plane above. `cuts`: the multiplier of each
        split. `joint`: the slopes of a form below the negative relus of each group that reads the
        same cells.
        """
        total = [Fraction(0)] * len(rows.numbers)
        cuts = [] if chosen is None else chosen.cuts.tolist()
        waiting = {start: rows}
        for node in reversed(self.graph.nodes[: start + 1]):
            A = waiting.pop(node.index, None)
            for (place, cell, other, at, side), cut in zip(self.splits, cuts, strict=False):
                if place == node.index and cut > 0:  # side·(cell - other, or at) ≥ 0
                    off = np.zeros((len(total), self._cells(place)), object)
                    off[:, cell] = -side * Fraction(cut).numerator
                    if other >= 0:
                        off[:, other] = side * Fraction(cut).numerator
                    taken = Exact(off, Fraction(cut).denominator)
                    A = taken if A is None else A + taken
                    total = [t + side * Fraction(cut) * Fraction(at) for t in total]
            if A is None:
                continue
            if node.op is None or node.index in self.network.constants:
                total = [a + b for a, b in zip(total, self._least(node.index, A), strict=True)]
                continue
            if node.index in self.linear:
                found, added = self._through_linear(node, A)
            else:
                found, added = self._through_curve(node, A, chosen)
            total = [a + b for a, b in zip(total, added, strict=True)]
            for place, part in found:
                waiting[place] = waiting[place] + part if place in waiting else part
        return total

    def _least(self, place: int, A: Exact) -> list[Fraction]:
        """The least values of A·x for x in the box of a value."""
        low, high = self.boxes[place]
        return [a + b for a, b in zip(A.part(1).dot(low), A.part(-1).dot(high), strict=True)]

    def _cells(self, place: int) -> int:
        return math.prod(self.graph.nodes[place].shape)

    def _through_linear(self, node: Node, A: Exact) -> tuple[list[tuple[int, Exact]], list[Fraction]]:
        made = self.linear[node.index]
        added = A.dot(made.constant)
        if made.slack.numbers.any():
            lost = Exact(abs(A.numbers), A.over).dot(made.slack)
            added = [a - b for a, b in zip(added, lost, strict=True)]
        places = [(slot, node.operands[slot]) for slot in made.entries]
        return [(p, made.pull(A, slot, self._cells(p))) for slot, p in places], added

    def _through_curve(self, node: Node, A: Exact, chosen: Any) -> tuple[list[tuple[int, Exact]], list[Fraction]]:
        single = None if chosen is None else chosen.single.get(node.index)
        if chosen is not None and node.index in chosen.pools:
            return self._through_pool(node, A, *chosen.pools[node.index])
        found: list[tuple[int, Exact]] = []
        total = [Fraction(0)] * len(A.numbers)
        ways = self.curves[node.index]
        for sign, way in ((1, ways.below), (-1, ways.above)):
            part = A.part(sign)
            if sign < 0 and chosen is not None and node.index in chosen.joint:
                place, rows, added = self._together(node, part, chosen.joint[node.index][None])
                found.append((place, rows))
                total = [a + b for a, b in zip(total, added, strict=True)]
                continue
            slope = way.slope if sign < 0 or single is None else self._chosen(node, single, way.slope)
            added = part.dot(way.intercept)
            for slot in set(way.slot.tolist()):
                place = node.operands[slot]
                here = way.slot == slot
                moved = np.where(here, part.numbers * slope, 0)
                rows = Exact(scatter(moved, np.where(here, way.place, 0), self._cells(place)), part.over * SLOPES)
                if place in self.network.constants:
                    least = self._least(place, rows)
                    added = [a + b for a, b in zip(added, least, strict=True)]
                else:
                    found.append((place, rows))
            total = [a + b for a, b in zip(total, added, strict=True)]
        return found, total

    def _through_pool(self, node: Node, A: Exact, mean: Any, floor: Any) -> tuple[Any, list[Fraction]]:
        """Rows at a maximum as rows at its operand: below any mean of its taps, above a plane for
        every floor."""
        if type(node.op) not in (MaxPool, AdaptiveMaxPool, GlobalMaxPool):
            raise failed(f"means of {node.name}", "are chosen for maxima alone")
        place = node.operands[0]
        _, places, real = taps(node.op, [self.graph.nodes[place].shape], self._known(node))
        weights = np.asarray(mean).astype(object)
        if weights.shape != places.shape or len(floor) != places.shape[1]:
            raise failed(f"means of {node.name}", f"must be of {places.shape[0]} taps and {places.shape[1]} windows")
        if (weights < 0).any() or weights[~real].any() or (weights.sum(axis=0) != STEPS * real.any(axis=0)).any():
            raise failed(f"means of {node.name}", f"must have weights that add up to {STEPS}")
        slope, intercept = planes(places, real, self.boxes[place], floor)
        positive, negative = A.part(1), A.part(-1)
        moved = positive.numbers[:, None] * weights * (SLOPES // STEPS) + negative.numbers[:, None] * slope
        rows = scatter(moved.reshape(len(moved), -1), places.reshape(-1), self._cells(place))
        return [(place, Exact(rows, A.over * SLOPES))], negative.dot(intercept)

    def _chosen(self, node: Node, single: Any, slope: Any) -> Any:
        """The slopes of lines below a relu: the given ones, from 0 to 1, where its sign is open."""
        if type(node.op) is not Relu:
            raise failed(f"slopes of {node.name}", "are chosen for relus alone")
        box = self.boxes[node.operands[0]]
        is_open = (box.lower.numbers < 0) & (box.upper.numbers > 0)
        chosen = np.asarray(single)
        if chosen.shape != slope.shape or not ((chosen >= 0) & (chosen <= STEPS)).all():
            raise failed(f"slopes of {node.name}", f"must be from 0 to {STEPS}, one per cell")
        return np.where(is_open, chosen.astype(object) * (SLOPES // STEPS), slope)

    def _together(self, node: Node, part: Exact, slopes: Any) -> tuple[int, Exact, list[Fraction]]:
        """Joint forms of relus: Σ w relu(z(x)) with w ≤ 0 is concave, so a form a·x + b is below it
        if it is at the corners of the cells that z reads."""
        before = self.graph.nodes[node.operands[0]]
        made = self.linear.get(before.index)
        if type(node.op) is not Relu or made is None or len(made.entries) != 1:
            raise failed(f"forms of {node.name}", "need relus of affine forms of one value")
        ((slot, (out, place, weights)),) = made.entries.items()
        source = before.operands[slot]
        groups: dict[tuple[int, ...], list[int]] = {}
        order = np.argsort(out, kind="stable")
        ends = np.searchsorted(out[order], np.arange(made.constant.numbers.size + 1))
        reads = [order[a:b] for a, b in itertools.pairwise(ends)]
        for output, entries in enumerate(reads):
            groups.setdefault(tuple(sorted(place[entries].tolist())), []).append(output)
        if len(slopes[0]) != len(groups) or max(map(len, groups)) > WIDEST:
            raise failed(f"forms of {node.name}", f"must be one for each of {len(groups)} groups of few cells")
        low, high = (end.fractions() for end in self.boxes[source])
        shift = [
            c + s
            for c, s in zip(
                made.constant.fractions(), made.slack.fractions() * (1 if len(made.slack.numbers) else 0), strict=True
            )
        ]
        a = Exact.of(np.asarray(slopes, np.float64))
        pulled = np.zeros((len(part.numbers), self._cells(source)), object)
        total = [Fraction(0)] * len(part.numbers)
        for group, (cells, members) in enumerate(groups.items()):
            column = {cell: k for k, cell in enumerate(cells)}
            corner = Exact.of(
                objects(
                    [x for c in itertools.product(*((low[k], high[k]) for k in cells)) for x in c], (-1, len(cells))
                )
            )
            W = np.zeros((len(cells), len(members)), object)
            for m, output in enumerate(members):
                for entry in reads[output]:
                    W[column[int(place[entry])], m] = weights[entry]
            z = Exact(corner.numbers.dot(W), corner.over * made.over) + Exact.of(objects([shift[m] for m in members]))
            value = Exact(np.maximum(z.numbers, 0), z.over)
            mine = a.numbers[:, group, : len(cells)]
            heights = Exact(part.numbers[:, members].dot(value.numbers.T), part.over * value.over) + Exact(
                -mine.dot(corner.numbers.T), a.over * corner.over
            )
            least = heights.numbers.min(axis=1)
            total = [t + Fraction(int(b), heights.over) for t, b in zip(total, least, strict=True)]
            pulled[:, list(cells)] = pulled[:, list(cells)] + mine
        return source, Exact(pulled, a.over), total


def replay(network: Network, inputs: Sequence[Box], claims: Sequence[Any], tree: Any) -> None:
    """Raise CertificateError if a claim does not follow.

    A claim is a list of (row, bound, equal). For every input, at least one row·output is greater
    than its bound, or equal to the bound if `equal`. `tree`: see `certificate`.
    """
    (output,) = network.graph.outputs
    cells = math.prod(network.graph.nodes[output].shape)
    if not all(claim and all(len(part.row) == cells for part in claim) for claim in claims):
        raise failed("claims", f"must be rows of {cells} numbers")
    waiting: list[Any] = [(tree, [], list(range(len(claims))), None)]
    while waiting:
        step, splits, wanted, whole = waiting.pop()
        part = Part(network, inputs, step.boxes, splits, whole)
        if part.is_empty:
            continue
        shown = _shown(part, output, claims, step.proved)
        rest = [claim for claim in wanted if claim not in shown]
        if rest and step.split is None:
            raise failed(f"claim {rest[0]}", "is bounded nowhere")
        if rest:
            place, cell, other, at = step.split
            cells = part.boxes[place].lower.numbers.size if place in part.boxes and network.varying[place] else 0
            if not 0 <= cell < cells or not -1 <= other < cells or other == cell or (other >= 0 and at != 0):
                raise failed("split", f"{step.split} is no cell that varies, nor two")
            waiting += [
                (child, [*splits, (place, cell, other, at, side)], rest, part)
                for side, child in zip((-1, 1), step.parts, strict=True)
            ]


def _shown(part: Part, output: int, claims: Sequence[Any], proved: Sequence[Any]) -> set[int]:
    """The claims with a bound in `proved`; raises if a bound does not follow."""
    for bound in proved:
        if not 0 <= bound.claim < len(claims) or not 0 <= bound.row < len(claims[bound.claim]):
            raise failed("bound", f"is of row {bound.row} of claim {bound.claim}, which is not there")
        row, least, equal = claims[bound.claim][bound.row]
        rows = Exact.of(objects([Fraction(c) for c in row], (1, -1)))
        (found,) = part.lower(output, rows, bound)
        if not (found > least or (equal and found == least)):
            rule = f"at least {float(found):.6g} follows, which is not above {float(least):.6g}"
            raise failed(f"claim {bound.claim}", rule)
    return {bound.claim for bound in proved}


def confirmed(network_graph: Any, x: Sequence[Any], claim: Sequence[Any]) -> bool:
    """Whether exact inputs break a claim: no row·output is greater than its bound, or equal to the
    bound if `equal`."""
    try:
        y = np.ravel(network_graph.forward(*x))
    except ScalarError:  # exponentials are not rational
        return False
    if len(y) == 0:
        raise refusal(ArgumentError, "certify", "output", 0, "has no cell", "certify a network with outputs")
    for row, bound, equal in claim:
        value = sum(Fraction(c) * v for c, v in zip(row, y, strict=True))
        if value > bound or (equal and value == bound):
            return False
    return True
