"""Lipschitz constants of networks on a box: intervals of slopes, propagated backwards.

Slopes of relus and maxima are from 0 to 1 if the boxes leave them open. Slopes of smooth functions
are between their least and greatest value on the box. The chain rule in intervals encloses every
generalised gradient on the box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..graph import Graph
from ..graph.ir import Node
from ..ops import Abs, Erf, Exp, Larger, Relu, Sigmoid, Smaller, SmoothMaxPool, Softplus, Tanh
from .affine import ROOM, TINY, UNIT, Box, Floats, above, below, gamma
from .analysis import Analysis, split
from .boxes import given_boxes, one_output, rows_of
from .maximum import Taps
from .relax import POOLS, pair_taps, window_taps
from .rewrite import rewritten

Slope = tuple[Floats, Floats]


@np.errstate(all="ignore")  # an overflow gives inf
def constant(graph: Graph, box: Any, of: Any) -> float:
    """An upper bound of |y - y'| / |x - x'| in the maximum norm."""
    place = one_output("lipschitz", graph)
    graph = rewritten(graph)
    boxes = given_boxes("lipschitz", graph, box)
    cells = math.prod(graph.nodes[place].shape)
    rows = np.eye(cells) if of is None else rows_of("lipschitz", of, cells)
    analysis = Analysis(graph, boxes)
    if analysis.is_unbounded:
        return math.inf
    waiting: dict[int, Slope] = {graph.outputs[0]: (rows, rows)}
    total = np.zeros(len(rows))
    for node in reversed(graph.nodes):
        slope = waiting.pop(node.index, None)
        if slope is None or not analysis.varying[node.index]:
            continue
        if node.is_input:
            total = total + np.maximum(*map(np.abs, slope)).sum(axis=1) * ROOM
            continue
        for operand, part in through(analysis, node, slope):
            known = waiting.get(operand)
            both = part if known is None else (below(known[0] + part[0]), above(known[1] + part[1]))
            waiting[operand] = both
    most = float(total.max(initial=0.0) * ROOM)
    return most if math.isfinite(most) else math.inf


def through(analysis: Analysis, node: Node, slope: Slope) -> list[tuple[int, Slope]]:
    """Intervals of slopes in an operator's value as intervals of slopes in its operands."""
    relaxation, boxes = analysis.relaxations[node.index], [analysis.boxes[p] for p in node.operands]
    if node.index in analysis.known:
        if not relaxation.is_linear:
            rule, remedy = "has constants that no float64 is", "write its numbers as floats"
            raise refusal(ArgumentError, "lipschitz", "operator", node.op.name, rule, remedy)
        rows = relaxation.below.rows.items()
        return [(node.operands[slot], product(slope, matrix, relaxation.below.readers)) for slot, matrix in rows]
    kind = type(node.op)
    if kind in CURVES:
        least, most = CURVES[kind](boxes[0])
        return [(node.operands[0], times(slope, least.reshape(-1), most.reshape(-1)))]
    if kind in (*POOLS, SmoothMaxPool):
        return [(node.operands[0], selected(slope, window_taps(node.op, boxes), boxes, kind is SmoothMaxPool)[0])]
    if kind in (Larger, Smaller):
        turned = boxes if kind is Larger else [Box(-box.upper, -box.lower) for box in boxes]
        return list(zip(node.operands, selected(slope, pair_taps(node.op, boxes), turned), strict=True))
    rule, remedy = "has no slopes that are bounded here", "use relu, maxima, and sigmoids"
    raise refusal(ArgumentError, "lipschitz", "operator", node.op.name, rule, remedy)


def product(slope: Slope, matrix: Any, readers: int) -> Slope:
    """Intervals times a matrix, rounded outward."""
    positive, negative = split(matrix)
    low, high = slope
    cost = gamma(readers + 3) * (np.maximum(np.abs(low), np.abs(high)) @ abs(matrix)) * ROOM + TINY
    return below(low @ positive + high @ negative, cost), above(high @ positive + low @ negative, cost)


def times(slope: Slope, least: Any, most: Any) -> Slope:
    """The product of two intervals, cell by cell, rounded outward."""
    corners = [end * factor for end in slope for factor in (least, most)]
    cost = 2 * UNIT * np.maximum.reduce([np.abs(c) for c in corners]) + TINY
    decided = (least == most) & np.isin(least, (-1.0, 0.0, 1.0))
    cost = np.where(decided, 0.0, cost)
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return np.where(decided, low, below(low, cost)), np.where(decided, high, above(high, cost))


def selected(slope: Slope, taps: Taps, boxes: Sequence[Box], smooth: bool = False) -> list[Slope]:
    """The slopes through a maximum: 1 for a cell that is always the greatest, from 0 to 1 for one
    that may be, else 0."""
    lower = taps.gather([box.lower for box in boxes], -np.inf)
    upper = np.where(taps.real, taps.gather([box.upper for box in boxes], np.inf), -np.inf)
    possible = taps.real & (upper >= lower.max(axis=0))
    alone = (possible.sum(axis=0) == 1) & possible & (not smooth)
    possible = taps.real if smooth else possible
    found = []
    for slot, box in enumerate(boxes):
        low, high = (np.zeros((len(slope[0]), box.lower.size)) for _ in "ab")
        readers = 2
        for tap in range(len(taps.place)):
            mine = possible[tap] & (taps.slot[tap] == slot)
            outputs, cells = np.flatnonzero(mine), taps.place[tap][mine]
            sure = alone[tap][mine]
            at: Any = (slice(None), cells)
            np.add.at(low, at, np.where(sure, slope[0][:, outputs], np.minimum(slope[0][:, outputs], 0)))
            np.add.at(high, at, np.where(sure, slope[1][:, outputs], np.maximum(slope[1][:, outputs], 0)))
            readers += 1
        cost = gamma(readers * len(taps.place) + 2)
        found.append((below(low, cost * np.abs(low)), above(high, cost * np.abs(high))))
    return found


def steps(low_side: float, box: Box) -> Slope:
    """The slopes of a function with slope 1 right of 0 and another slope left of 0; their hull if
    the box contains 0."""
    return np.where(box.lower > 0, 1.0, low_side), np.where(box.upper < 0, low_side, 1.0)


def peaked(top: float, slope: Callable[[Floats], Floats]) -> Callable[[Box], Slope]:
    """The range of a slope that is greatest at 0 and decreases to both sides."""

    def ends(box: Box) -> Slope:
        values = [slope(end) for end in box]
        most = np.where((box.lower <= 0) & (box.upper >= 0), top, np.maximum(*values))
        return np.minimum(*values) * (1 - 2.0**-45), np.minimum(most * (1 + 2.0**-45), top)

    return ends


def logistic(x: Floats) -> Floats:
    made: Floats = 0.5 * (1 + np.tanh(0.5 * x))
    return made


def rising(slope: Callable[[Floats], Floats]) -> Callable[[Box], Slope]:
    """The range of an increasing slope."""
    return lambda box: (slope(box.lower) * (1 - 2.0**-45) - 2.0**-50, slope(box.upper) * (1 + 2.0**-45) + 2.0**-50)


CURVES: dict[type, Callable[[Box], Slope]] = {
    Relu: lambda box: steps(0.0, box),
    Abs: lambda box: steps(-1.0, box),
    Sigmoid: peaked(0.25, lambda x: logistic(x) * logistic(-x)),
    Tanh: peaked(1.0, lambda x: 1 / np.cosh(np.clip(x, -300, 300)) ** 2),
    Erf: peaked(2 / math.sqrt(math.pi) * (1 + 2.0**-50), lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
    Softplus: rising(logistic),
    Exp: rising(np.exp),
}
