"""Relaxations of maxima: a selected cell below, a chord above.

Below: a maximum is at least each of its cells; the one with the greatest middle leaves least, the
first of those that are as good as equal: rounding does not choose between cells of a flat image.
Above: with x₁ the cell of the greatest upper bound u₁ and r the greatest upper bound of the others,
max ≤ max(x₁, r), which is convex in x₁: it lies below its chord between x₁ = l₁ and x₁ = u₁.
Padding takes no part; a window without a real cell is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .affine import TINY, UNIT, Affine, Box, Floats, Relaxation, matrix

NEAR = 1e-5  # of the greatest middle


class Taps(NamedTuple):
    """For every tap and output: the operand and cell that it reads, and whether it takes part."""

    slot: np.ndarray
    place: np.ndarray
    real: np.ndarray

    def gather(self, cells: list[Floats], fill: float) -> Floats:
        """The operands' cells under the taps, `fill` where a tap takes no part."""
        found = np.full(self.place.shape, fill)
        for slot, values in enumerate(cells):
            here = self.real & (self.slot == slot)
            found[here] = values.reshape(-1)[self.place[here]]
        return found


def relax(taps: Taps, boxes: list[Box]) -> tuple[Relaxation, Box]:
    """The relaxation of the maximum over taps, and its image."""
    lower = taps.gather([box.lower for box in boxes], -np.inf)
    upper = taps.gather([box.upper for box in boxes], np.inf)
    upper = np.where(taps.real, upper, -np.inf)
    outputs, some = np.arange(taps.place.shape[1]), taps.real.any(axis=0)
    middle = lower + upper
    best = middle.max(axis=0)
    at_least, at_most = (middle >= best - NEAR * np.abs(best)).argmax(axis=0), upper.argmax(axis=0)
    l1, u1 = lower[at_most, outputs], upper[at_most, outputs]
    others = upper.copy()
    others[at_most, outputs] = -np.inf
    slope, constant = chord(np.where(some, l1, 0), np.where(some, u1, 0), np.where(some, others.max(axis=0), -np.inf))
    zeros = np.zeros(outputs.size)
    below = Affine(_rows(taps, boxes, at_least, np.where(some, 1.0, 0.0)), zeros)
    above = Affine(_rows(taps, boxes, at_most, np.where(some, slope, 0.0)), np.where(some, constant, 0.0))
    image = Box(np.where(some, lower.max(axis=0), 0), np.where(some, u1, 0))
    same = np.array_equal(at_least, at_most) and bool(np.all((slope == 1) | ~some) and not constant.any())
    return Relaxation(below, below if same else above), image


def chord(l1: Floats, u1: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Slope and constant of the chord of max(x, rest) over [l1, u1]: (1, 0) where x is never less
    than the rest."""
    floor, width = np.maximum(rest, l1), u1 - l1
    with np.errstate(all="ignore"):
        slope = np.clip(np.where(width > 0, (u1 - floor) / width, 0.0), 0.0, 1.0)
        # any slope is sound with the larger constant of both ends
        constant = np.maximum((1 - slope) * u1, floor - slope * l1)
        constant = constant + 4 * UNIT * (np.abs(u1) + np.abs(floor) + np.abs(l1)) + TINY
    dominates = l1 >= rest
    return np.where(dominates, 1.0, slope), np.where(dominates, 0.0, constant)


def _rows(taps: Taps, boxes: list[Box], chosen: np.ndarray, slope: Floats) -> dict[int, object]:
    """One entry per output, at its chosen tap."""
    outputs = np.arange(chosen.size)
    slot, place = taps.slot[chosen, outputs], taps.place[chosen, outputs]
    return {
        s: matrix([(outputs, place, np.where(slot == s, slope, 0.0))], outputs.size, box.lower.size)
        for s, box in enumerate(boxes)
    }


def turned(taps: Taps, boxes: list[Box]) -> tuple[Relaxation, Box]:
    """The relaxation of the minimum over taps: min x = -max(-x)."""
    found, image = relax(taps, [Box(-box.upper, -box.lower) for box in boxes])
    below, above = (Affine(form.rows, -form.constant) for form in (found.above, found.below))
    return Relaxation(below, below if found.is_linear else above), Box(-image.upper, -image.lower)
