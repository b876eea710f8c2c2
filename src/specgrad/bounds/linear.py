"""Operators that are linear in what varies: their relaxation is their own row, and nothing is lost.

Which slopes depend on which operands is what an operator `reads`: an average is linear in all its
operands, a convolution in its input where the weight is a constant. Where a constant is only known
within an interval, the interval's share is added as slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..operator import Operator
from ..ops import Div
from .affine import ROOM, TINY, Affine, Box, Floats, Relaxation, above, below, gamma, own_rows

MOST_TERMS = 2**22  # of a sum in float32 whose error is known


def is_linear(op: Operator, varying: Sequence[bool]) -> bool:
    """Whether the output is an affine function of the operands that vary: no slope in one of them
    depends on one of them."""
    slots = [slot for slot, varies in enumerate(varying) if varies] or [0]  # a constant is a box of one point
    return all(op.slots[slot].differentiable and not _reads(op, slot) & set(slots) for slot in slots)


def _reads(op: Operator, slot: int) -> frozenset[int]:
    """The slots that the slopes in `slot` depend on: 1/y, that of a quotient x/y in x, does not
    depend on x."""
    return frozenset((1,)) if type(op) is Div and slot == 0 else op.reads(slot)


def linear(op: Operator, boxes: Sequence[Box], varying: Sequence[bool]) -> Affine:
    """The affine form of a linear operator in the operands that vary; constants are taken at their
    middle."""
    moving = list(varying)
    if not any(moving):
        moving[0] = True  # a constant is a box of one point
    shapes = [box.shape for box in boxes]
    middle = [np.zeros(s) if m else 0.5 * (b.lower + b.upper) for b, m, s in zip(boxes, moving, shapes, strict=True)]
    slots = [slot for slot, moves in enumerate(moving) if moves]
    rows = own_rows(op, middle, slots)
    return Affine(rows, np.asarray(op(*middle), np.float64).reshape(-1))


def constant_slack(op: Operator, boxes: Sequence[Box], varying: Sequence[bool]) -> Any:
    """What constants that are only known within an interval may add or take, per output; 0 where
    all are points."""
    slack: Any = 0.0
    for slot, box in enumerate(boxes):
        if varying[slot] or box.is_point or not op.slots[slot].differentiable:
            continue
        if _reads(op, slot) & {slot}:
            rule, remedy = "is a constant that no float is, in a slope that depends on it", "make the constant a float"
            raise refusal(ArgumentError, "bounds", f"{op.slots[slot].name} of {op.name}", box.lower, rule, remedy)
        middle = 0.5 * (box.lower + box.upper)
        radius = above(np.maximum(box.upper - middle, middle - box.lower), TINY)
        matrix = own_rows(op, [b.magnitude for b in boxes], [slot])[slot]
        slack = slack + abs(matrix) @ radius.reshape(-1) * (1 + gamma(matrix.shape[1] + 2))
    return slack


def with_slack(form: Affine, slack: Any) -> Relaxation:
    """The form, with `slack` on either side, rounded outward."""
    if not np.any(slack):
        return Relaxation(form, form)
    lower: Floats = below(form.constant, slack)
    upper: Floats = above(form.constant, slack)
    return Relaxation(Affine(form.rows, lower), Affine(form.rows, upper))


def roundings(form: Affine, boxes: Sequence[Box]) -> Floats:
    """How many units a float computation of the form may be off, in any order of summation, per
    output; see `Relaxed`.

    Every addition is off by at most a unit of its result, and that is a sum of some of the terms:
    of no greater size than all that are positive, or all that are negative. A product costs a unit
    of its term, and so does a weight or a constant that is rounded to that float first. What
    earlier roundings have added is at most (1 + u)ⁿ ≤ 1 + 2 n u, for n u ≤ 1.
    """
    terms, scaled = form.terms
    positive, negative = np.maximum(form.constant, 0), np.maximum(-form.constant, 0)
    for slot, (more, less) in form.parts.items():
        low, high = np.minimum(boxes[slot].lower, 0).reshape(-1), np.maximum(boxes[slot].upper, 0).reshape(-1)
        positive, negative = positive + more @ high + less @ low, negative - more @ low - less @ high
    products = np.where(scaled, 2 * form.spread([box.magnitude for box in boxes]), 0.0)
    sums = np.maximum(terms - 1, 0) * np.maximum(positive, negative)
    growth = np.where(terms < MOST_TERMS, ROOM * (1 + (terms + 3) * 2.0**-23), np.inf)
    return np.where(form.roundings > 0, growth * (products + sums + np.abs(form.constant)), 0.0)
