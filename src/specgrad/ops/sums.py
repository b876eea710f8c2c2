"""Sums over windows, whatever the window is: of cells, and of products of cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ..operator import Entry, Operator, Slot, Window, operator
from ..scalars.base import Cells, Family


@operator
class Total(Operator):
    """Σ of a window's real cells, each with slope 1.

    Padding: adds 0. Domain: any ring.
    """

    slots: ClassVar = (Slot("x"),)
    curvature: ClassVar = "none"
    keeps: ClassVar = False

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        total = S.zeros(window.size)
        for tap in window:
            total = total + tap.x
        return total, None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        for tap in window:
            yield tap.entry(0, tap.real)


@operator
class Products(Operator):
    """Σ x·y over a window's real taps, plus the third operand where there is one.

    Padding: skipped: it adds 0, also under an infinite factor. Domain: any ring, integers and
    complex numbers included; the VJP is the plain transpose, without conjugation.
    """

    curvature: ClassVar = "multilinear"
    factors: ClassVar = (0, 1)
    keeps: ClassVar = False

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        total = S.zeros(window.size)
        for tap in window:
            total = total + S.where(tap.real, tap.cells(0) * tap.cells(1), S.constant(0))
        if len(window.operands) == 3:
            total = total + tap.cells(2)
        return total, None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        for tap in window:
            yield tap.entry(0, tap.real, times=tap.cells(1))
            yield tap.entry(1, tap.real, times=tap.cells(0))
        if len(window.operands) == 3:  # every tap of a window meets the same bias
            yield tap.entry(2, window.everywhere)
