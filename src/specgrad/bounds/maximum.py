"""Relaxations of maxima: a selected cell below, a chord above.

Below: a maximum is at least each of its cells. The cell with the greatest middle gives the tightest
form. Nearly equal middles give the first cell, so that rounding does not choose between cells of a
flat image. Above: let x₁ be the cell with the greatest upper bound u₁, and r the greatest upper
bound of the others. Then max ≤ max(x₁, r), which is convex in x₁ and below its chord between x₁ =
l₁ and x₁ = u₁. Padding does not count; a window without a real cell is 0.

A `Pool` has all such forms to choose from, for each row. Below: any mean of the cells. Above: for
slopes s from 0 to 1, max x - Σ s x is convex, so its maximum is at a corner, with one cell at its
upper end and all others at their lower ends: max x ≤ Σ sᵢ (xᵢ - lᵢ) + maxⱼ (uⱼ - sⱼ (uⱼ - lⱼ)). The
least slopes for which the last term is a number t, the floor, are (uⱼ - t) / (uⱼ - lⱼ). So t, from
the greatest lower bound to r, determines the form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .affine import TINY, UNIT, Affine, Box, Floats, Relaxation, gamma, matrix

NEAR = 1e-5  # relative to the greatest middle


class Taps(NamedTuple):
    """For every tap and output: the operand and cell that it reads, and whether it counts."""

    slot: np.ndarray
    place: np.ndarray
    real: np.ndarray

    def gather(self, cells: list[Floats], fill: float) -> Floats:
        """The operands' cells at the taps; `fill` at taps that do not count."""
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


class Choice(NamedTuple):
    """For every row and window: the weights (rows, taps, windows) of the mean below, and the floor
    (rows, windows) of the form above, where 0 is the greatest lower bound and 1 is r."""

    mean: Floats
    floor: Floats


class Pool:
    """The maxima of one node over taps of one operand, with forms to choose from."""

    def __init__(self, taps: Taps, box: Box) -> None:
        self.real, self.some = taps.real, taps.real.any(axis=0)
        self.low, self.high = (np.where(self.real, taps.gather([end], 0.0), 0.0) for end in box)
        self.width = self.high - self.low
        lower, upper = (np.where(self.real, end, -np.inf) for end in (self.low, self.high))
        self.least = np.where(self.some, lower.max(axis=0), 0.0)
        rest = np.sort(upper, axis=0)[-2] if len(upper) > 1 else self.least
        self.reach = np.maximum(rest, self.least) - self.least
        flat = np.arange(self.real.size)
        entries = self.real.reshape(-1) * 1.0, (flat, taps.place.reshape(-1))
        self.scatter = sparse.csr_array(entries, shape=(flat.size, box.lower.size))
        self.place = taps.place
        self.size = np.maximum(np.abs(self.low), np.abs(self.high)).sum(axis=0)
        self.terms = len(self.real) + int(np.bincount(taps.place[self.real], minlength=1).max()) + 8

    def first(self, below: Any, rows: int) -> Choice:
        """The choice that gives the forms of `relax`."""
        chosen = np.zeros(self.some.size, np.intp) if not below.nnz else np.asarray(below.argmax(axis=1)).reshape(-1)
        mean = ((self.place == chosen) & self.real & self.some).astype(np.float64)
        mean[:] = mean * (mean.cumsum(axis=0) == 1)
        return Choice(np.repeat(mean[None], rows, axis=0), np.ones((rows, self.some.size)))

    def slopes(self, floor: Floats, without: Any = False) -> tuple[Floats, Floats]:
        """The slopes (rows, taps, windows) of the forms above, and their values at the lower ends.
        `without`: taps known not to be the greatest."""
        height, real = (self.least + floor * self.reach)[:, None], self.real & ~np.asarray(without)
        if np.any(without):
            rest = np.sort(np.where(real, self.high, -np.inf), axis=1)[:, [-2]]
            height = np.minimum(height, np.maximum(rest, self.least))
        with np.errstate(all="ignore"):
            slope = np.clip(np.where(self.high > height, (self.high - height) / self.width, 0.0), 0.0, 1.0)
        slope = np.where(real & (self.width > 0), slope, 0.0)
        top = np.where(real, self.high - slope * self.width, -np.inf).max(axis=1)
        return slope, np.where(self.some, top, 0.0)

    def through(
        self, positive: Floats, negative: Floats, choice: Choice, without: Any = False
    ) -> tuple[Floats, Floats, Floats]:
        """Rows at the windows as rows at the cells, a constant, and its error."""
        slope, top = self.slopes(choice.floor, without)
        moved = positive[:, None] * choice.mean + negative[:, None] * slope
        constant = (negative * (top - (slope * self.low).sum(axis=1))).sum(axis=1)
        size = 4 * (positive - negative) @ self.size
        return moved.reshape(len(moved), -1) @ self.scatter, constant, gamma(self.terms + self.some.size) * size

    def gradient(self, A: Floats, choice: Choice, cells: Floats) -> tuple[Floats, Floats, Floats]:
        """The gradient of the bound in the means and the floors, where the form is least at these
        cells; and the values of the windows in the form."""
        slope, top = self.slopes(choice.floor)
        x = np.where(self.real, cells[:, self.place], 0.0)
        below = (choice.mean * x).sum(axis=1)
        over = top + (slope * (x - self.low)).sum(axis=1)
        with np.errstate(all="ignore"):
            share = np.where((slope > 0) & (self.width > 0), (x - self.low) / self.width, 0.0).sum(axis=1)
        mean = np.maximum(A, 0)[:, None] * np.where(self.real, x - below[:, None], 0.0)
        return mean, np.minimum(A, 0) * (1 - share) * self.reach, np.where(A > 0, below, over)

    def projected(self, mean: Floats, grid: int) -> Floats:
        """The nearest means with nonnegative weights of sum 1; with a grid, weights are multiples
        of 1/grid."""
        given = np.where(self.real, mean, -1e9)
        order = -np.sort(-given, axis=1)
        count = np.arange(1, len(self.real) + 1)[:, None]
        over = (order.cumsum(axis=1) - 1) / count
        used = (order > over).sum(axis=1, keepdims=True)
        near: Floats = np.maximum(given - np.take_along_axis(over, np.maximum(used, 1) - 1, 1), 0.0) * self.some
        if not grid:
            return near
        steps = np.floor(near * grid)
        most = np.expand_dims(near.argmax(axis=1), 1)
        rest = np.where(self.some, grid, 0) - steps.sum(axis=1, keepdims=True)
        np.put_along_axis(steps, most, np.take_along_axis(steps, most, 1) + rest, 1)
        return np.asarray(steps / grid)


def chord(l1: Floats, u1: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Slope and constant of the chord of max(x, rest) over [l1, u1]; (1, 0) if x is never less than
    the rest."""
    floor, width = np.maximum(rest, l1), u1 - l1
    with np.errstate(all="ignore"):
        slope = np.clip(np.where(width > 0, (u1 - floor) / width, 0.0), 0.0, 1.0)
        # with the larger constant of both ends any slope is sound
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
