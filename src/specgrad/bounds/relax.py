"""Which relaxation an operator has: its own row where it is linear, else the rule that the table has for its class.

A class is looked up as it is, never by its bases: an operator that overrides a value has no rule before somebody states one, by a
method `relax(boxes) -> Relaxed` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..operator import Operator
from ..ops import (
    AdaptiveMaxPool,
    GlobalMaxPool,
    LogSoftmax,
    MaxPool,
    Mul,
    Relu,
    SmoothMaxPool,
)
from . import curves, linear, logsumexp, maximum
from .affine import TINY, UNIT, Affine, Box, Floats, Relaxation, Relaxed, above, below, matrix

Rule = Callable[[Operator, Sequence[Box]], Relaxed]


def relax(op: Operator, boxes: Sequence[Box], varying: Sequence[bool], form: Affine | None = None) -> Relaxed:
    """Two affine forms between which the operator lies on these boxes, and its image there; operands that do not vary are constants.

    `form`: of a linear operator, if it is known from another box.
    """
    if linear.is_linear(op, varying):
        form = linear.linear(op, boxes, varying) if form is None else form
        found = linear.with_slack(form, linear.constant_slack(op, boxes, varying))
        return Relaxed(found, image(found, boxes), linear.roundings(form, [box.magnitude for box in boxes]))
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
    """The taps of a pool's windows, with those in a mask taking part."""
    geometry = op.geometry(*(box.shape for box in boxes))
    steps = list(geometry.block(0, geometry.outputs).steps())
    place = np.stack([step.place[0] for step in steps])
    return maximum.Taps(np.zeros(place.shape, np.intp), place, np.stack([getattr(step, mask) for step in steps]))


def _maximum(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    return Relaxed(*maximum.relax(window_taps(op, boxes), list(boxes)))


def _curve(lines: curves.Curved, image: Callable[..., Box] | None = curves.monotone) -> Rule:
    def rule(op: Operator, boxes: Sequence[Box]) -> Relaxed:
        (box,) = boxes
        found = lines(op, box)
        reached = image(op, box) if image else curves.between(found, box)
        return Relaxed(curves.relaxation(found), reached, curves.ULPS * reached.magnitude)

    return rule


def _relu(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    (box,) = boxes
    return Relaxed(curves.relaxation(curves.relu(box)), Box(np.maximum(box.lower, 0), np.maximum(box.upper, 0)))


def _smooth_maximum(op: Any, boxes: Sequence[Box]) -> Relaxed:
    (box,) = boxes
    real = window_taps(op, boxes)
    counted = window_taps(op, boxes, "exists").real if op.pad == "zero" else real.real
    some = counted.any(axis=0)
    counted = counted | ~some  # a window without a tap is 0, whatever is computed for it here
    cells = [np.where(real.real, end.reshape(-1)[real.place], 0.0) for end in box]
    found = logsumexp.forms(cells[0], cells[1], counted, float(op.beta))
    outputs = np.arange(some.size)

    def form(slopes: Floats, constant: Floats) -> Affine:
        held = np.where(real.real & some, slopes, 0.0)
        entries = [(outputs, place, slope) for place, slope in zip(real.place, held, strict=True)]
        return Affine({0: matrix(entries, outputs.size, box.lower.size)}, np.where(some, constant, 0.0))

    both = Relaxation(form(found.lower_slopes, found.lower_constant), form(found.upper_slopes, found.upper_constant))
    return Relaxed(both, Box(*(np.where(some, end, 0.0) for end in found.image)), found.roundings * some)


def _log_softmax(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    """x_c - log Σ exp(x): concave, so the tangent plane lies above."""
    (box,) = boxes
    classes, size = box.shape[-1], box.lower.size
    outputs = np.arange(size)
    place = outputs // classes * classes + np.arange(classes)[:, None]
    cells = [end.reshape(-1)[place] for end in box]
    found = logsumexp.forms(cells[0], cells[1], np.ones(place.shape, np.bool_), 1.0)

    def form(slopes: Floats, constant: Floats) -> Affine:
        entries = [(outputs, at, -slope) for at, slope in zip(place, slopes, strict=True)]
        return Affine({0: matrix([*entries, (outputs, outputs, np.ones(size))], size, size)}, -constant)

    # an entry 1 - w is rounded: what that may cost is at most this
    cost = 2 * UNIT * box.magnitude.reshape(-1) + TINY
    both = Relaxation(
        form(found.upper_slopes, above(found.upper_constant, cost)),
        form(found.lower_slopes, below(found.lower_constant, cost)),
    )
    reached = image(both, boxes)
    roundings = found.roundings + 2 * box.magnitude.reshape(-1)
    return Relaxed(both, Box(reached.lower, np.minimum(reached.upper, TINY)), roundings)


def _product(op: Operator, boxes: Sequence[Box]) -> Relaxed:
    """McCormick's planes through the corners (l, l) and (u, u) below, and (l, u) and (u, l) above, whichever is closer in the middle."""
    shape = op.output_shape(*(box.shape for box in boxes))
    geometry = op.geometry(*(box.shape for box in boxes))
    (step,) = geometry.block(0, geometry.outputs).steps()
    (lx, ux), (ly, uy) = ((end.reshape(-1)[place] for end in box) for box, place in zip(boxes, step.place, strict=True))
    outputs = np.arange(lx.size)
    size = np.maximum(np.abs(lx), np.abs(ux)) * np.maximum(np.abs(ly), np.abs(uy))
    slack = 8 * UNIT * size + TINY

    def plane(corners: list[tuple[Floats, Floats]], upward: bool) -> Affine:
        """The plane b x + a y - a b through one of two corners (a, b)."""
        middle = [b * (lx + ux) / 2 + a * (ly + uy) / 2 - a * b for a, b in corners]
        first = middle[0] <= middle[1] if upward else middle[0] >= middle[1]
        a, b = (np.where(first, corners[0][i], corners[1][i]) for i in (0, 1))
        rows = {
            0: matrix([(outputs, step.place[0], b)], outputs.size, boxes[0].lower.size),
            1: matrix([(outputs, step.place[1], a)], outputs.size, boxes[1].lower.size),
        }
        return Affine(rows, above(-a * b, slack) if upward else below(-a * b, slack))

    corners = [x * y for x in (lx, ux) for y in (ly, uy)]
    reached = Box(np.minimum.reduce(corners), np.maximum.reduce(corners)).widened(slack)
    both = Relaxation(plane([(lx, ly), (ux, uy)], False), plane([(lx, uy), (ux, ly)], True))
    return Relaxed(both, reached.reshaped(shape), 2 * size)


RULES: dict[type[Operator], Rule] = {
    Relu: _relu,
    MaxPool: _maximum,
    AdaptiveMaxPool: _maximum,
    GlobalMaxPool: _maximum,
    SmoothMaxPool: _smooth_maximum,
    LogSoftmax: _log_softmax,
    Mul: _product,
}
