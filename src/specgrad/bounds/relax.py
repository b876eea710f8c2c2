"""The relaxation of each operator: its own row if linear, else the rule in the table for its class.

Rules are not inherited, since a subclass may override the value. An operator without a rule can
have a method `relax(boxes) -> Relaxed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..operator import Operator
from ..ops import (
    Abs,
    AdaptiveMaxPool,
    Compare,
    Conv,
    ConvTranspose,
    Erf,
    Exp,
    Gelu,
    GlobalMaxPool,
    Larger,
    Linear,
    Log,
    LogSoftmax,
    LpPool,
    Matmul,
    MaxPool,
    Mul,
    Power,
    Relu,
    Sigmoid,
    Silu,
    Smaller,
    SmoothMaxPool,
    Softplus,
    Sqrt,
    Tanh,
    Where,
)
from . import curves, linear, logsumexp, maximum
from .affine import TINY, UNIT, Affine, Box, Floats, Relaxation, Relaxed, above, below, matrix

Rule = Callable[[Operator, Sequence[Box]], Relaxed]


def relax(
    op: Operator, boxes: Sequence[Box], varying: Sequence[bool], form: Affine | None = None, floats: bool = True
) -> Relaxed:
    """Two affine forms that enclose the operator on these boxes, and its image; operands that do
    not vary are constants.

    `form`: the affine form of a linear operator, if known. `floats`: whether to compute roundings
    and peaks.
    """
    if linear.is_linear(op, varying):
        form = linear.linear(op, boxes, varying) if form is None else form
        found = linear.with_slack(form, linear.constant_slack(op, boxes, varying) + linear.lost(op, form, boxes))
        cost = (linear.roundings(form, boxes), linear.peak(form, boxes)) if floats else (0.0, 0.0)
        return Relaxed(found, image(found, boxes), *cost)
    own = getattr(op, "relax", None)
    if own is not None:
        return own(boxes)  # type: ignore[no-any-return]
    rule = RULES.get(type(op))
    if rule is None:
        words = "has no relaxation where these operands vary"
        remedy = "bound a graph without it, or give the operator a method relax(boxes)"
        raise refusal(ArgumentError, "bounds", "operator", op.name, words, remedy)
    return rule(op, boxes)


def image(relaxation: Relaxation, boxes: Sequence[Box]) -> Box:
    """The image that two forms allow."""
    low = relaxation.below.image(boxes)
    return low if relaxation.is_linear else Box(low.lower, relaxation.above.image(boxes).upper)


def window_taps(op: Operator, boxes: Sequence[Box], mask: str = "real") -> maximum.Taps:
    """The taps of a pool's windows; taps in the mask count."""
    geometry = op.geometry(*(box.shape for box in boxes))
    steps = list(geometry.block(0, geometry.outputs).steps())
    place = np.stack([step.place[0] for step in steps])
    return maximum.Taps(np.zeros(place.shape, np.intp), place, np.stack([getattr(step, mask) for step in steps]))


def _maximum(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    return Relaxed(*maximum.relax(window_taps(op, boxes), list(boxes)))


POOLS = (MaxPool, AdaptiveMaxPool, GlobalMaxPool)


def open_taps(op: Operator, boxes: Sequence[Box], splits: Sequence[Any]) -> maximum.Taps:
    """The taps of a maximum, without cells that splits show to be at most another cell of the
    window."""
    taps = window_taps(op, boxes)
    real = taps.real.copy()
    for split in splits:
        if split.other >= 0:
            more, less = (split.cell, split.other) if split.side > 0 else (split.other, split.cell)
            real &= ~((taps.place == less) & (real & (taps.place == more)).any(axis=0))
    return taps._replace(real=real)


def relax_chosen(op: Operator, boxes: Sequence[Box], splits: Sequence[Any]) -> Relaxed:
    """The relaxation of a maximum with some taps excluded by splits."""
    return Relaxed(*maximum.relax(open_taps(op, boxes, splits), list(boxes)))


def pair_taps(op: Operator, boxes: Sequence[Box]) -> maximum.Taps:
    """Two operands, broadcast together, as the two taps of every output."""
    geometry = op.geometry(*(box.shape for box in boxes))
    (step,) = geometry.block(0, geometry.outputs).steps()
    place = np.stack(step.place)
    return maximum.Taps(np.arange(2)[:, None] + 0 * place, place, np.ones(place.shape, np.bool_))


def _larger(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    return Relaxed(*maximum.relax(pair_taps(op, boxes), list(boxes)))


def _smaller(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    return Relaxed(*maximum.turned(pair_taps(op, boxes), list(boxes)))


def _curve(
    lines: curves.Curved, image: Callable[..., Box] | None = curves.monotone, degree: int = 0, lost: float = 0.0
) -> Rule:
    """The rule of a pointwise function, which computes powers of its operand x up to a degree, and
    has a further error of `lost` (1 + |x|) units."""

    def rule(op: Operator, boxes: Sequence[Box]) -> Relaxed:
        (box,) = boxes
        found = lines(op, box)
        reached = image(op, box) if image else curves.between(found, box)
        peak = 4 * (1 + box.magnitude.max(initial=0.0)) ** degree
        roundings = curves.ULPS * reached.magnitude + lost * (1 + box.magnitude)
        return Relaxed(curves.relaxation(found), reached, roundings, peak)

    return rule


def _relu(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    (box,) = boxes
    return Relaxed(curves.relaxation(curves.relu(box)), Box(np.maximum(box.lower, 0), np.maximum(box.upper, 0)))


def _smooth_maximum(op: Any, boxes: Sequence[Box]) -> Relaxed:
    (box,) = boxes
    real = window_taps(op, boxes)
    counted = window_taps(op, boxes, "exists").real if op.pad == "zero" else real.real
    some = counted.any(axis=0)
    counted = counted | ~some  # a window without taps is 0, whatever is computed here
    cells = [np.where(real.real, end.reshape(-1)[real.place], 0.0) for end in box]
    found = logsumexp.forms(cells[0], cells[1], counted, float(op.beta))
    outputs = np.arange(some.size)

    def form(slopes: Floats, constant: Floats) -> Affine:
        held = np.where(real.real & some, slopes, 0.0)
        entries = [(outputs, place, slope) for place, slope in zip(real.place, held, strict=True)]
        return Affine({0: matrix(entries, outputs.size, box.lower.size)}, np.where(some, constant, 0.0))

    both = Relaxation(form(found.lower_slopes, found.lower_constant), form(found.upper_slopes, found.upper_constant))
    beta, reach = abs(float(op.beta)), box.magnitude.max(initial=0.0)
    peak = 4 * ((1 + beta) * (1 + reach) + (1 + len(real.real)) * (1 + 1 / beta))  # β (x - y); log(taps) / β
    reached = Box(*(np.where(some, end, 0.0) for end in found.image))
    return Relaxed(both, reached, found.roundings * some, peak)


def _log_softmax(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of x_c - log Σ exp(x): concave, so the tangent plane is above."""
    (box,) = boxes
    classes, size = box.shape[-1], box.lower.size
    outputs = np.arange(size)
    place = outputs // classes * classes + np.arange(classes)[:, None]
    cells = [end.reshape(-1)[place] for end in box]
    found = logsumexp.forms(cells[0], cells[1], np.ones(place.shape, np.bool_), 1.0)

    def form(slopes: Floats, constant: Floats) -> Affine:
        entries = [(outputs, at, -slope) for at, slope in zip(place, slopes, strict=True)]
        return Affine({0: matrix([*entries, (outputs, outputs, np.ones(size))], size, size)}, -constant)

    # an entry 1 - w is rounded: a bound of this error
    cost = 2 * UNIT * box.magnitude.reshape(-1) + TINY
    both = Relaxation(
        form(found.upper_slopes, above(found.upper_constant, cost)),
        form(found.lower_slopes, below(found.lower_constant, cost)),
    )
    reached = image(both, boxes)
    roundings = found.roundings + 2 * box.magnitude.reshape(-1)
    return Relaxed(both, Box(reached.lower, np.minimum(reached.upper, TINY)), roundings)


def _products(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of sums of products of two varying operands: McCormick's planes.

    x·y is above the planes b x + a y - a b through the corners (a, b) of the least and of the
    greatest cells, and below the planes through the other two corners. Of each pair, the plane that
    is tighter at the middle is used.
    """
    shapes = [box.shape for box in boxes]
    geometry = op.geometry(*shapes)
    outputs = np.arange(geometry.outputs)
    planes: list[tuple[dict[int, list[Any]], Floats]] = [({0: [], 1: [], 2: []}, np.zeros(outputs.size)) for _ in "<>"]
    low, high, size, taps = (np.zeros(outputs.size) for _ in range(4))
    for step in geometry.block(0, geometry.outputs).steps():
        (lx, ux), (ly, uy) = (
            [np.where(step.real, end.reshape(-1)[place], 0.0) for end in box]
            for box, place in zip(boxes[:2], step.place[:2], strict=True)
        )
        corners = [x * y for x in (lx, ux) for y in (ly, uy)]
        low, high = low + np.minimum.reduce(corners), high + np.maximum.reduce(corners)
        size, taps = size + np.maximum.reduce(np.abs(corners)), taps + step.real
        for (entries, constant), pair, closer in zip(
            planes, ([(lx, ly), (ux, uy)], [(lx, uy), (ux, ly)]), (np.greater_equal, np.less_equal), strict=True
        ):
            middle = [b * (lx + ux) / 2 + a * (ly + uy) / 2 - a * b for a, b in pair]
            a, b = (np.where(closer(*middle), one, other) for one, other in zip(*pair, strict=True))
            entries[0].append((outputs, step.place[0], b))
            entries[1].append((outputs, step.place[1], a))
            constant -= a * b
    if len(boxes) == 3:  # all taps of a window have the same bias
        bias = [end.reshape(-1)[step.place[2]] for end in boxes[2]]
        low, high, size = low + bias[0], high + bias[1], size + np.maximum(*np.abs(bias))
        for entries, _ in planes:
            entries[2].append((outputs, step.place[2], np.ones(outputs.size)))
    slack = UNIT * (taps + 8) * 2 * size + TINY
    forms = [
        Affine(
            {slot: matrix(entries[slot], outputs.size, box.lower.size) for slot, box in enumerate(boxes)},
            move(constant, slack),
        )
        for (entries, constant), move in zip(planes, (below, above), strict=True)
    ]
    reached = Box(low, high).widened(slack).reshaped(op.output_shape(*shapes))
    return Relaxed(Relaxation(*forms), reached, (taps + 2) * 1.07 * size, 4 * size.max(initial=0.0))


def _flat(op: Operator, boxes: Sequence[Box], low: Floats, high: Floats) -> Relaxed:
    """The relaxation of an operator by an interval alone."""
    forms = [
        Affine({s: matrix([], low.size, box.lower.size) for s, box in enumerate(boxes)}, end.reshape(-1))
        for end in (low, high)
    ]
    return Relaxed(Relaxation(*forms), Box(low, high))


def _norm(op: Any, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of a p-norm, which increases with every |cell|: the norm of the least |cells|
    to the norm of the greatest."""
    (box,) = boxes
    least = np.where((box.lower <= 0) & (box.upper >= 0), 0.0, np.minimum(np.abs(box.lower), np.abs(box.upper)))
    low, high = op(least), op(box.magnitude)
    roundings = 8 * (op.geometry(box.shape).taps + 2 * float(op.p) + 8) * high
    reached = Box(low, high).widened(UNIT * roundings + TINY)
    return _flat(op, boxes, np.maximum(reached.lower, 0), reached.upper)._replace(roundings=roundings)


def _compare(op: Any, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of a comparison: 0 or 1 if the boxes decide, else [0, 1]."""
    (lx, ux), (ly, uy) = boxes
    point = (lx == ux) & (ly == uy)
    surely = {">": lx > uy, ">=": lx >= uy, "<": ux < ly, "<=": ux <= ly, "==": point & (lx == ly)}
    never = {">": ux <= ly, ">=": ux < ly, "<": lx >= uy, "<=": lx > uy, "==": (ux < ly) | (lx > uy)}
    surely["!="], never["!="] = never["=="], surely["=="]
    return _flat(op, boxes, np.where(surely[op.relation], 1.0, 0.0), np.where(never[op.relation], 0.0, 1.0))


def _where(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of a selection: the chosen operand if the condition is decided, else the hull
    of both."""
    condition, one, other = (Box(*np.broadcast_arrays(*box, *(b.lower for b in boxes))[:2]) for box in boxes)
    met = (condition.lower > 0) | (condition.upper < 0)
    unmet = (condition.lower == 0) & (condition.upper == 0)
    low, high = (
        np.where(met, a, np.where(unmet, b, pick(a, b)))
        for a, b, pick in zip(one, other, (np.minimum, np.maximum), strict=True)
    )
    return _flat(op, boxes, low, high)


def _on(inside: Callable[[Box], Any], lines: curves.Curved, image: Callable[..., Box] = curves.monotone) -> Rule:
    """A curve whose operand's box must be inside of its domain."""
    rule = _curve(lines, image)

    def checked(op: Operator, boxes: Sequence[Box]) -> Relaxed:
        (box,) = boxes
        if not np.all(inside(box)):
            words = f"the box of its operand, from {box.lower.min()} to {box.upper.max()}, is not inside of its domain"
            raise refusal(ArgumentError, "bounds", "operator", repr(op), words, "bound a smaller box")
        return rule(op, boxes)

    return checked


def _positive(box: Box) -> Any:
    return box.lower > 0


def _at_least_0(box: Box) -> Any:
    return box.lower >= 0


def _not_0(box: Box) -> Any:
    return (box.lower > 0) | (box.upper < 0)


def _power(op: Any, boxes: Sequence[Box]) -> Relaxed:
    """The relaxation of xⁿ: integer powers on both sides of 0, other powers for x ≥ 0."""
    n = op.exponent
    if n == int(n):
        odd = n % 2 == 1
        if n < 0:
            return _on(_not_0, curves.odd_pole if odd else curves.convex, curves.ends)(op, boxes)
        return _curve(curves.odd_power if odd else curves.convex, curves.monotone if odd else curves.even)(op, boxes)
    if n < 0:
        return _on(_positive, curves.convex, curves.ends)(op, boxes)
    return _on(_at_least_0, curves.concave if n < 1 else curves.convex)(op, boxes)


LOST = 2.0**-100  # units: in floats 1 / (1 + exp(-x)) is 0 from where the exponential is infinite
RULES: dict[type[Operator], Rule] = {
    Relu: _relu,
    MaxPool: _maximum,
    AdaptiveMaxPool: _maximum,
    GlobalMaxPool: _maximum,
    SmoothMaxPool: _smooth_maximum,
    LpPool: _norm,
    LogSoftmax: _log_softmax,
    **dict.fromkeys((Mul, Linear, Conv, ConvTranspose, Matmul), _products),
    Larger: _larger,
    Smaller: _smaller,
    Compare: _compare,
    Where: _where,
    Abs: _curve(curves.convex, curves.even),
    Power: _power,
    Exp: _curve(curves.convex),
    Softplus: _curve(curves.convex),
    Log: _on(_positive, curves.concave),
    Sqrt: _on(_at_least_0, curves.concave),
    Sigmoid: _curve(curves.s_shaped, lost=LOST),
    Tanh: _curve(curves.s_shaped),
    Erf: _curve(curves.s_shaped),
    Silu: _curve(curves.bent(-0.11, 0.51, 0.2785), None, lost=LOST),
    Gelu: _curve(curves.bent(-0.13, 0.81, 0.1705), None, degree=3),
}
