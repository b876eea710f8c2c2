"""Relaxations of (1/β) log Σ exp(β x): smooth maxima, and the logarithm of softmax.

The function is convex, so its tangent plane is below it. Above: every exponential is below its
chord c + s x, and the logarithm of the sum t of chords is below a tangent: log t ≤ log t₀ - 1 +
t/t₀ for any t₀ > 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .affine import TINY, UNIT, Box, Floats


class Forms(NamedTuple):
    """Slopes of the forms below and above, per tap and output, and their constants, per output."""

    lower_slopes: Floats
    lower_constant: Floats
    upper_slopes: Floats
    upper_constant: Floats
    image: Box
    roundings: Floats


def forms(lower: Floats, upper: Floats, counted: np.ndarray, beta: float) -> Forms:
    """The forms for cells (taps, outputs) between `lower` and `upper`. Only `counted` taps count,
    at least one per output."""
    if beta < 0:
        turned = forms(-upper, -lower, counted, -beta)
        return Forms(
            turned.upper_slopes,
            -turned.upper_constant,
            turned.lower_slopes,
            -turned.lower_constant,
            Box(-turned.image.upper, -turned.image.lower),
            turned.roundings,
        )
    low, high = np.where(counted, lower, 0.0), np.where(counted, upper, 0.0)
    middle = 0.5 * (low + high)
    taps = counted.sum(axis=0)
    values = [_value(x, counted, beta) for x in (low, middle, high)]
    spread = beta * np.where(counted, np.maximum(np.abs(low), np.abs(high)), 0.0).max(axis=0, initial=0.0)
    relative = 8 * UNIT * (4 * spread + taps + 8)  # of every exponential, sum, quotient and logarithm below
    # below: the tangent plane at the middle
    pivot = np.where(counted, middle, -np.inf).max(axis=0)
    raised = np.where(counted, np.exp(beta * (middle - pivot)), 0.0)
    weights = raised / raised.sum(axis=0)
    size = np.abs(values[1]) + (weights * (np.abs(middle) + (high - low))).sum(axis=0) + 1 / beta
    lower_constant = values[1] - (weights * middle).sum(axis=0) - relative * size - TINY
    # above: chords of the exponentials, shifted by the greatest upper bound
    top = np.where(counted, high, -np.inf).max(axis=0)
    ends = [np.where(counted, np.exp(beta * (x - top)), 0.0) * (1 + relative) for x in (low, high)]
    width = high - low
    with np.errstate(all="ignore"):
        slopes = np.where(width > 0, np.maximum(ends[1] - ends[0], 0.0) / width, 0.0)
    starts = np.maximum(ends[0] - slopes * low, ends[1] - slopes * high)
    starts = starts + 8 * UNIT * (ends[1] + slopes * np.maximum(np.abs(low), np.abs(high)))
    total = np.maximum((starts + slopes * middle).sum(axis=0), TINY)
    upper_slopes = slopes / (beta * total)
    added = starts.sum(axis=0) / total
    mass = (slopes * np.maximum(np.abs(low), np.abs(high))).sum(axis=0) / total + np.abs(starts).sum(axis=0) / total
    upper_constant = top + (np.log(total) - 1 + added) / beta
    upper_constant += relative * (np.abs(top) + (np.abs(np.log(total)) + 2 + mass) / beta) + TINY
    roundings = relative / UNIT * (1 / beta + np.abs(values[0]) + np.abs(values[2]))
    image = Box(values[0], values[2]).widened(UNIT * roundings + TINY)
    return Forms(weights, lower_constant, upper_slopes, upper_constant, image, roundings)


def _value(x: Floats, counted: np.ndarray, beta: float) -> Floats:
    pivot = np.where(counted, x, -np.inf).max(axis=0)
    total = np.where(counted, np.exp(beta * (x - pivot)), 0.0).sum(axis=0)
    value: Floats = pivot + np.log(total) / beta
    return value
