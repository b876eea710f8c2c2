"""Comparison of a result with the expected answer: cell by cell, in ulps and as a share of the
bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..drawing.window import number
from .bounds import finfo
from .expected import Answer

Array = np.ndarray[Any, Any]


MOST_SAID = 1e6
"""Distances above this many ulps or bounds are not printed: the number is just wrong."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one comparison: the largest share of its bound that a cell uses, this cell's
    distance in ulps, and the difference in words (None: no difference)."""

    share: float = 0.0
    ulps: float = 0.0
    words: str | None = None
    part: str = ""
    """The result that differs: "value", "JVP", "VJP of x", "second derivative in x", one of these
    after "repeated", or "refused by" or "ended by" a method."""
    cell: tuple[int, ...] = ()
    """The cell of this result with the largest difference."""
    expected: Any = None
    got: Any = None

    @property
    def holds(self) -> bool:
        return self.words is None

    @property
    def refused(self) -> bool:
        """Whether the subject gave no result: it raised an error, or the process ended."""
        return self.part.startswith(("refused by", "ended by"))


def worst(outcomes: list[Outcome]) -> Outcome:
    """The first outcome that differs, else the outcome with the largest share."""
    for outcome in outcomes:
        if not outcome.holds:
            return outcome
    return max(outcomes, key=lambda outcome: outcome.share, default=Outcome())


def measured(share: float, ulps: float) -> list[str]:
    """The distance from the exact result in words, as in every report; empty if the result is just
    wrong.

    Near 0 ulps are no measure: sums that cancel may be 2^50 ulps from 0 within their bound.
    """
    told = [f"{ulps:.3g} ulp"] if 0 < ulps < MOST_SAID else []
    if 1 < share < MOST_SAID:
        told.append(f"{share:.3g} times the bound")
    elif 0 < share <= 1:
        told.append(f"{share:.2f} of the bound")
    return told


def compare(part: str, got: Any, answer: Answer, dtype: np.dtype[Any]) -> Outcome | None:
    """Compare a result with the answer; None if its shape differs, which the claim `shape` reports.

    Equal bits of several subjects are compared once: most correct subjects return the same bits.
    """
    array: Any = np.asarray(got)
    if array.shape != answer.near.shape:
        return None
    if not array.size:
        return Outcome()
    if array.dtype == object:
        return _compared(part, got, array, answer, dtype)
    key = (part, array.dtype, dtype, array.tobytes())
    outcome: Outcome = answer.judged.get(key) or _compared(part, got, array, answer, dtype)
    answer.judged[key] = outcome
    return outcome


def _compared(part: str, got: Any, array: Any, answer: Answer, dtype: np.dtype[Any]) -> Outcome:
    try:
        wide: Any = array.astype(np.float64)
    except (TypeError, ValueError):
        return Outcome(np.inf, np.inf, f"{part} holds {array.dtype}, not numbers", part, (), answer.near, got)
    share, ulps = np.zeros(array.shape), np.zeros(array.shape)
    is_whole = dtype.kind in "iu"
    near: Any = answer.near.astype(dtype) if is_whole else answer.near
    exact: Any = answer.exact
    for place in np.ndindex(array.shape):
        if answer.rough[place]:
            right = _same(wide[place], near[place])
            share[place] = ulps[place] = 0.0 if right else np.inf
        elif not np.isfinite(wide[place]):
            share[place] = ulps[place] = np.inf
        else:
            distance = abs(_fraction(array[place]) - answer.exact[place])
            if answer.signed and array.dtype.kind in "fV" and not distance and _signs_differ(wide[place], near[place]):
                share[place] = np.inf
            elif distance:
                bound = answer.bound[place]
                share[place] = _float(distance / bound) if bound else np.inf
                ulps[place] = 0 if is_whole else _float(distance / ulp(exact[place], dtype))
    flat = int(np.argmax(share))
    cell = tuple(int(i) for i in np.unravel_index(flat, share.shape))
    top, apart = float(share[cell]), float(ulps[cell])
    if top <= 1:
        return Outcome(top, apart)
    where = f" at {list(cell)}" if cell else ""
    by = f" ({', '.join(measured(top, apart))})" if measured(top, apart) else ""
    words = f"{part}{where} is {number(wide[cell])}, not {number(near[cell])}{by}"
    return Outcome(top, apart, words, part, cell, near, array)


def _signs_differ(one: float, other: float) -> bool:
    return bool(np.signbit(one) != np.signbit(other))


def _same(one: float, other: float) -> bool:
    return bool(one == other or (np.isnan(one) and np.isnan(other)))


def _fraction(element: Any) -> Fraction:
    return Fraction(int(element)) if np.asarray(element).dtype.kind in "iub" else Fraction(float(element))


def _float(ratio: Fraction) -> float:
    try:
        return float(ratio)
    except OverflowError:
        return float("inf")


def ulp(exact: Fraction, dtype: np.dtype[Any]) -> Fraction:
    """The distance of neighbouring floats of `dtype` near a number."""
    info = finfo(dtype)
    least = Fraction(float(info.smallest_subnormal))
    if exact == 0:
        return least
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= int(Fraction(2 ** max(exponent, 0), 2 ** max(-exponent, 0)) > size)
    return max(Fraction(2 ** max(exponent - info.nmant, 0), 2 ** max(info.nmant - exponent, 0)), least)


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays have equal shape, dtype and bits."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
