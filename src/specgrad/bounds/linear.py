"""Relaxations of operators that are linear in their varying operands: the operator's own row, which
is exact.

`Operator.reads` says which slopes depend on which operands: an average is linear in all operands, a
convolution in its input if the weight is constant. If a constant is only known within an interval,
the interval's effect is added as slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import ArgumentError, refusal
from ..operator import Operator
from ..ops import Div, Pad, Scale
from .affine import LEAST, ROOM, TINY, UNIT, Affine, Box, Floats, Relaxation, above, below, gamma, own_rows

NORMAL = float(np.finfo(np.float64).tiny)
MOST_TERMS = 2**22  # the longest float32 sum with a known error bound


def is_linear(op: Operator, varying: Sequence[bool]) -> bool:
    """Whether the output is an affine function of the varying operands: no slope in a varying
    operand depends on one."""
    slots = [slot for slot, varies in enumerate(varying) if varies] or [0]  # a constant is a box of one point
    return all(op.slots[slot].differentiable and not _reads(op, slot) & set(slots) for slot in slots)


def _reads(op: Operator, slot: int) -> frozenset[int]:
    """The slots on which the slopes in `slot` depend. The slope of a quotient x/y in x is 1/y,
    which does not depend on x."""
    return frozenset((1,)) if type(op) is Div and slot == 0 else op.reads(slot)


def linear(op: Operator, boxes: Sequence[Box], varying: Sequence[bool]) -> Affine:
    """The affine form of a linear operator in its varying operands; constants are at the middle of
    their boxes."""
    moving = list(varying)
    if not any(moving):
        moving[0] = True  # a constant is a box of one point
    shapes = [box.shape for box in boxes]
    middle = [np.zeros(s) if m else _middle(b) for b, m, s in zip(boxes, moving, shapes, strict=True)]
    slots = [slot for slot, moves in enumerate(moving) if moves]
    rows = own_rows(op, middle, slots)
    return Affine(rows, np.asarray(op(*middle), np.float64).reshape(-1))


def constant_slack(op: Operator, boxes: Sequence[Box], varying: Sequence[bool]) -> Any:
    """A bound, per output, of the effect of constants known only within an interval; 0 if all are
    points."""
    slack: Any = 0.0
    for slot, box in enumerate(boxes):
        if varying[slot] or box.is_point or not op.slots[slot].differentiable:
            continue
        if _reads(op, slot) & {slot}:
            rule, remedy = "is a constant that no float is, in a slope that depends on it", "make the constant a float"
            raise refusal(ArgumentError, "bounds", f"{op.slots[slot].name} of {op.name}", box.lower, rule, remedy)
        middle = _middle(box)
        radius = above(np.maximum(box.upper - middle, middle - box.lower), TINY)
        matrix = own_rows(op, [b.magnitude for b in boxes], [slot])[slot]
        slack = slack + abs(matrix) @ radius.reshape(-1) * (1 + gamma(matrix.shape[1] + 2))
    return slack


def _middle(box: Box) -> Floats:
    """Cells near the middle of a box; those of a point exactly. The sum of both ends could
    overflow."""
    return np.asarray(box.lower + 0.5 * (box.upper - box.lower))


def lost(op: Operator, form: Affine, boxes: Sequence[Box]) -> Any:
    """A bound, per output, of the effect of weights that underflow, and of a padding that no
    float64 is; 0 if there are none.

    The weights of multilinear operators are cells of constants, which are exact.
    """
    if op.curvature == "multilinear":
        return 0.0
    if type(op) is Pad:
        exact = Fraction(float(op.fill)) == op.fill
        return 0.0 if exact else np.where(form.roundings > 0, 0.0, UNIT * np.abs(form.constant) + LEAST)
    weights = np.abs(np.concatenate([matrix.data for matrix in form.rows.values()]))
    if type(op) is Scale:
        factor = Fraction(op.factor)
        rounded = abs(factor) < NORMAL and Fraction(float(factor)) != factor
    else:
        rounded = bool((weights < NORMAL).any())
    return sum(float((LEAST * boxes[slot].magnitude).sum()) for slot in form.rows) if rounded else 0.0


def with_slack(form: Affine, slack: Any) -> Relaxation:
    """The form, with `slack` on either side, rounded outward."""
    if not np.any(slack):
        return Relaxation(form, form)
    lower: Floats = below(form.constant, slack)
    upper: Floats = above(form.constant, slack)
    return Relaxation(Affine(form.rows, lower), Affine(form.rows, upper))


def peak(form: Affine, boxes: Sequence[Box]) -> float:
    """A bound of all numbers in a float computation of the form, in any order of summation.

    They are sums of terms; of cells, before an average is divided; weights; and constants. The
    factor 4 covers the rounding of up to MOST_TERMS terms. It also refuses weights from 1/4 of the
    greatest float on: they are quotients by numbers that are not normal floats, or by 0.
    """
    constant = float(np.abs(form.constant).max(initial=0.0))
    if not form.roundings.any():
        return constant
    reach = {slot: max(float(boxes[slot].magnitude.max(initial=0.0)), 1.0) for slot in form.rows}
    return 4 * (sum(form.widest[slot] * most for slot, most in reach.items()) + constant)


def narrowed(cells: Floats) -> Floats:
    """Numbers rounded to float32."""
    with np.errstate(all="ignore"):
        return cells.astype(np.float32).astype(np.float64)


def roundings(form: Affine, boxes: Sequence[Box]) -> Floats:
    """A bound of the error of a float computation of the form in units, per output, in any order of
    summation; see `Relaxed`.

    An addition has an error of at most one unit of its result. The result is a sum of some terms,
    at most the sum of all positive or of all negative terms. A product costs one unit of its term,
    and so does rounding a weight or a constant to that float. Earlier errors grow by at most (1 +
    u)ⁿ ≤ 1 + 2 n u, for n u ≤ 1.
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
