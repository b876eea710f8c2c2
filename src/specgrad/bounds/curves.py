"""Relaxations of pointwise functions, by the shape of their curve: convex, concave, S-shaped, or of
bounded second derivative.

Values and slopes are computed by the operator itself, in float64. NumPy's functions are assumed to
be accurate to `ULPS` ulps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..operator import Operator
from .affine import LEAST, TINY, UNIT, Affine, Box, Floats, Relaxation, above, below, diagonal
from .maximum import chord

ULPS = 16
Curved = Callable[[Operator, Box], "Lines"]


class Line(NamedTuple):
    """slope·x + constant, cell by cell."""

    slope: Floats
    constant: Floats


class Lines(NamedTuple):
    """A line below a function and one above it, cell by cell, on a box."""

    below: Line
    above: Line


def relaxation(lines: Lines) -> Relaxation:
    """The relaxation of a pointwise operator between two lines."""
    low, high = (Affine({0: diagonal(line.slope)}, line.constant.reshape(-1)) for line in lines)
    same = all(np.array_equal(a, b) for a, b in zip(lines.below, lines.above, strict=True))
    return Relaxation(low, low if same else high)


def slack(*parts: Floats) -> Floats:
    """A bound of the rounding error of computing and adding these numbers."""
    total = np.zeros(np.shape(parts[0])) + TINY
    for part in parts:
        total = total + ULPS * UNIT * np.abs(part)
    return total


def relu(box: Box, alpha: Floats | None = None) -> Lines:
    """The lines of max(x, 0): above, the chord; below, the line through 0 of slope `alpha`, or of
    the slope 0 or 1 that leaves the smaller area."""
    low, high = box
    slope, constant = chord(low, high, np.zeros(low.shape))
    off, crosses = high <= 0, (low < 0) & (high > 0)
    steep = np.where(low >= 0, 1.0, 0.0)
    lower = np.where(crosses, (high > -low) * 1.0 if alpha is None else alpha, steep)
    zero = np.zeros(low.shape)
    return Lines(Line(lower, zero), Line(np.where(off, 0.0, slope), np.where(off, 0.0, constant)))


class Curve:
    """A function and its slope, computed by an operator."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def value(self, x: Floats) -> Floats:
        return np.asarray(self.op(x), np.float64)

    def slope(self, x: Floats) -> Floats:
        return np.asarray(self.op.jvp((x,), (np.ones_like(x),))[1], np.float64)

    def through(self, slope: Floats, points: list[Floats], side: Callable[..., Floats]) -> Line:
        """The line of this slope that bounds the function from one side at all points."""
        pick, move = (np.maximum, above) if side is above else (np.minimum, below)
        with np.errstate(all="ignore"):
            constants = [move(self.value(p) - slope * p, slack(self.value(p), slope * p)) for p in points]
        constant = constants[0]
        for other in constants[1:]:
            constant = pick(constant, other)
        return Line(slope, constant)

    def chord(self, box: Box) -> Floats:
        """The slope between the ends of the box; if the ends are equal, the slope there."""
        low, high = box
        with np.errstate(all="ignore"):
            found = np.where(high > low, (self.value(high) - self.value(low)) / (high - low), self.slope(low))
        return np.where(np.isfinite(found), found, 0.0)

    def tangent(self, box: Box, side: Callable[..., Floats]) -> Line:
        """The tangent at the middle, moved by the rounding error of its slope on the box."""
        low, high = box
        middle = 0.5 * (low + high)
        slope = self.slope(middle)
        line = self.through(slope, [middle], side)
        cost = slack(slope * (high - low)) + ULPS * LEAST * (high - low)
        return Line(slope, above(line.constant, cost) if side is above else below(line.constant, cost))


def convex(op: Operator, box: Box) -> Lines:
    """Lines of a convex function: the chord above, a tangent below."""
    curve = Curve(op)
    return Lines(curve.tangent(box, below), curve.through(curve.chord(box), list(box), above))


def concave(op: Operator, box: Box) -> Lines:
    """Lines of a concave function: a tangent above, the chord below."""
    curve = Curve(op)
    return Lines(curve.through(curve.chord(box), list(box), below), curve.tangent(box, above))


def s_shaped(op: Operator, box: Box) -> Lines:
    """Lines of a function that is convex up to 0 and concave from 0 on. If the box contains 0, the
    smaller slope of both ends bounds the slope everywhere on it."""
    curve, (low, high) = Curve(op), box
    least = np.minimum(curve.slope(low), curve.slope(high)) * (1 - ULPS * UNIT)
    across = Lines(curve.through(least, [low], below), curve.through(least, [high], above))
    return picked(high <= 0, convex(op, box), picked(low >= 0, concave(op, box), across))


def picked(mask: Any, one: Lines, other: Lines) -> Lines:
    """`one` where the mask is true, `other` elsewhere."""
    return Lines(
        *(Line(*(np.where(mask, *pair) for pair in zip(*lines, strict=True))) for lines in zip(one, other, strict=True))
    )


def bent(least: float, most: float, gap: float) -> Callable[[Operator, Box], Lines]:
    """Lines of a function with second derivative from `least` ≤ 0 to `most` ≥ 0, whose difference
    to relu is from -`gap` to 0.

    Then f - chord is from -most·w²/8 to -least·w²/8 on a box of width w. On wide boxes the lines of
    relu are tighter.
    """

    def lines(op: Operator, box: Box) -> Lines:
        curve, (low, high) = Curve(op), box
        slope, square = curve.chord(box), (high - low) ** 2 * (1 + 4 * UNIT) / 8
        under, over = curve.through(slope, list(box), below), curve.through(slope, list(box), above)
        near = Lines(
            Line(slope, below(under.constant, most * square)), Line(slope, above(over.constant, -least * square))
        )
        far = relu(box)
        far = Lines(Line(far.below.slope, below(far.below.constant, gap)), far.above)
        middle = 0.5 * (low + high)
        return Lines(
            picked(_at(near.below, middle) >= _at(far.below, middle), near, far).below,
            picked(_at(near.above, middle) <= _at(far.above, middle), near, far).above,
        )

    return lines


def _at(line: Line, x: Floats) -> Floats:
    return np.asarray(line.slope * x + line.constant)


def monotone(op: Operator, box: Box) -> Box:
    """The image of an increasing function."""
    ends = [Curve(op).value(end) for end in box]
    return Box(below(ends[0], slack(ends[0])), above(ends[1], slack(ends[1])))


def between(lines: Lines, box: Box) -> Box:
    """The image that two lines allow."""
    low = Affine({0: diagonal(lines.below.slope)}, lines.below.constant.reshape(-1)).image([box])
    high = Affine({0: diagonal(lines.above.slope)}, lines.above.constant.reshape(-1)).image([box])
    return Box(low.lower.reshape(box.shape), high.upper.reshape(box.shape))


def even(op: Operator, box: Box) -> Box:
    """The image of a function that decreases up to 0 and increases from 0 on."""
    ends = [Curve(op).value(end) for end in box]
    least = np.where((box.lower <= 0) & (box.upper >= 0), 0.0, np.minimum(*ends))
    most = np.maximum(*ends)
    return Box(np.maximum(below(least, slack(least)), 0.0), above(most, slack(most)))


def ends(op: Operator, box: Box) -> Box:
    """The image of a function that is monotone on each cell's box."""
    at = [Curve(op).value(end) for end in box]
    low, high = np.minimum(*at), np.maximum(*at)
    return Box(below(low, slack(low)), above(high, slack(high)))


def odd_pole(op: Operator, box: Box) -> Lines:
    """x⁻ⁿ for an odd n, on one side of 0: concave for negative x, convex for positive x."""
    return picked(box.upper < 0, concave(op, box), convex(op, box))


def odd_power(op: Any, box: Box) -> Lines:
    """Lines of xⁿ for an odd n: concave up to 0 and convex from 0 on. If the box contains 0, the
    second derivative is largest at the ends."""
    curve, (low, high), n = Curve(op), box, op.exponent
    slope, eighth = curve.chord(box), (high - low) ** 2 * (1 + 4 * UNIT) / 8
    second = [n * (n - 1) * np.abs(end) ** max(n - 2, 0) * (1 + ULPS * UNIT) for end in box]
    under, over = curve.through(slope, list(box), below), curve.through(slope, list(box), above)
    across = Lines(
        Line(slope, below(under.constant, second[1] * eighth)), Line(slope, above(over.constant, second[0] * eighth))
    )
    return picked(high <= 0, concave(op, box), picked(low >= 0, convex(op, box), across))
