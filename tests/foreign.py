"""Operators of a user, which are not in OPERATORS, but each resembles an operator that is."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from specgrad import Conv, MaxPool, Mul
from specgrad.geometry import Geometry, broadcast_geometry
from specgrad.ops.pointwise import Pointwise
from specgrad.ops.pool import Maximum, SlidingWindow, argmax_fold

declared = dataclass(frozen=True, eq=False, repr=False)


@declared
class SumPool(SlidingWindow):
    """Σ cells: an average without a divisor."""

    name: ClassVar = "sum_pool"

    def value(self, S, window):
        total = S.zeros(window.size)
        for tap in window:
            total = total + S.where(tap.real, tap.cells(0), S.constant(0))
        return total, None

    def row(self, S, window, kept):
        for tap in window:
            yield tap.entry(0, tap.real)


@declared
class MinPool(SlidingWindow, Maximum):
    """min of the real cells: a Maximum by its class."""

    name: ClassVar = "min_pool"

    def value(self, S, window):
        best, took_lead = argmax_fold(S, window, "real", lowest=True)
        return best, (best, took_lead)


@declared
class SquaredMax(MaxPool):
    """(max)², whose slopes vary although those of a maximum do not."""

    def value(self, S, window):
        best, kept = super().value(S, window)
        return best * best, kept

    def row(self, S, window, kept):
        for entry in super().row(S, window, kept):
            yield entry._replace(times=kept[0] + kept[0])


@declared
class TwiceConv(Conv):
    """2 (bias + Σ x·w)."""

    def value(self, S, window):
        return S.constant(2) * super().value(S, window)[0], None

    def row(self, S, window, kept):
        for entry in super().row(S, window, kept):
            yield entry._replace(times=S.constant(2) if entry.times is None else S.constant(2) * entry.times)


@declared
class SquaredConv(Conv):
    """(bias + Σ x·w)², which is not linear in either factor."""

    def value(self, S, window):
        total, _ = super().value(S, window)
        return total * total, total

    def row(self, S, window, kept):
        for entry in super().row(S, window, kept):
            yield entry._replace(times=(kept + kept) * (S.constant(1) if entry.times is None else entry.times))


@declared
class Cube(Pointwise):
    """x³, with an unused parameter, which must still distinguish two operators."""

    name: ClassVar = "cube"
    _: KW_ONLY
    note: str = ""

    def function(self, S, x):
        return x * x * x

    def slopes(self, S, x):
        return (S.constant(3) * x * x,)


@declared
class Rolled(Pointwise):
    """x of the cell before, cyclically: pointwise by its class, but not computable in place."""

    name: ClassVar = "rolled"
    curvature: ClassVar = "none"

    def geometry(self, *shapes):
        *others, last = broadcast_geometry(*shapes, shapes).axes
        return Geometry(
            (*others, last._replace(offsets=(np.roll(last.offsets[0], 1, axis=0),))), tuple(range(len(others) + 1))
        )

    def value(self, S, window):
        (tap,) = window
        return tap.cells(0), None

    def row(self, S, window, kept):
        (tap,) = window
        yield tap.entry(0, window.everywhere)


@declared
class CubedProduct(Mul):
    """(x·y)³: not linear in either factor."""

    def value(self, S, window):
        (tap,) = window
        both = tap.cells(0) * tap.cells(1)
        return both * both * both, None

    def row(self, S, window, kept):
        (tap,) = window
        x, y = tap.cells(0), tap.cells(1)
        yield tap.entry(0, window.everywhere, times=S.constant(3) * x * x * y * y * y)
        yield tap.entry(1, window.everywhere, times=S.constant(3) * x * x * x * y * y)
