"""Pooling: maximum, minimum, sum, average and smooth maximum over sliding, adaptive and whole
windows.

Three reductions (value and row), each written once; an operator is one of them in one kind of
window (window.py). Winners of a maximum are cells, never numbers: padding takes no part, so no
"smallest number" stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .. import arguments
from ..errors import ArgumentError, refusal
from ..operator import Entry, Window, operator, parameter
from ..scalars.base import Cells, Family, Mask
from .pointwise import Mul, Scale, Sub
from .sums import Total
from .window import AdaptiveWindow, Pool, SlidingWindow, WholeWindow

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AdaptiveWindow",
    "Average",
    "AvgPool",
    "Extremum",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "MaxPool",
    "Maximum",
    "MinPool",
    "Pool",
    "SlidingWindow",
    "SmoothMaxPool",
    "SumPool",
    "WholeWindow",
    "argmax_fold",
]

TIES = ("first", "all", "split")


def argmax_fold(S: Family, window: Window, counted: str, lowest: bool = False) -> tuple[Cells, list[Mask]]:
    """Fold a window to its greatest (or lowest) cell; also, tap by tap, whether the tap took the
    lead when it came.

    A later cell takes the lead only if it is strictly greater, or NaN: the last to take it is the
    first maximal cell, or the last NaN. Only taps in the mask named by `counted` ("real" or
    "exists") take part; one that is counted but not real is the value 0. Windows without any such
    tap give 0.
    """
    best, took_lead = S.zeros(window.size), []
    begun = np.zeros(window.size, np.bool_)
    for tap in window:
        takes_part = getattr(tap, counted)
        cells = tap.x
        beats = S.either(S.gt(best, cells) if lowest else S.gt(cells, best), S.is_nan(cells))
        took_lead.append(S.both(takes_part, S.either(~begun, beats)))
        best = S.extreme(took_lead[-1], cells, best, lowest)
        begun = begun | takes_part
    return best, took_lead


@operator
class Extremum(Pool):
    """The maximum, or the minimum, of the window's real cells.

    Padding: ignored. A window without a real cell is 0 and has no slope. Ties: "first" gives slope
    1 to the first extreme cell in row-major order; "all" gives slope 1 to every extreme cell (not
    even a subgradient: [3, 3] with tangent [1, 1] gives 2); "split" gives 1/t to each of t extreme
    cells. The value has the bits of the first extreme cell, for every `ties`. Domain: ordered
    scalars. A window with NaN gives NaN, and its last NaN has the slope; -0.0 and 0.0 tie.
    """

    needs: ClassVar = ("real",)
    curvature: ClassVar = "piecewise_linear"
    lowest: ClassVar = False

    _: KW_ONLY
    ties: str = parameter(arguments.choice, TIES, default="first")

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        best, took_lead = argmax_fold(S, window, "real", self.lowest)
        return best, (best, took_lead)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        best, took_lead = kept
        winners = self._winner_masks(S, took_lead)
        if self.ties == "first":
            for tap, first in zip(window, winners, strict=True):
                yield tap.entry(0, present=first)
            return
        tied = [self._is_tied(S, tap.real, tap.cells(0), best) for tap in window]
        sharers = None
        if self.ties == "split":
            S.require(self.name, "ties", self.ties, ("division",))
            sharers = S.zeros(window.size) + S.constant(1)  # counted from 1, so that no enclosure of t holds 0
            for other, first in zip(tied, winners, strict=True):
                sharers = sharers + S.where(S.both(other, S.negate(first)), S.constant(1), S.constant(0))
        for tap, present in zip(window, tied, strict=True):
            yield tap.entry(0, present, over=sharers)

    def winners(self, window: Window, kept: Any) -> npt.NDArray[np.int64]:
        """Where in the flat input the first winner of each window is; -1 where no cell is real."""
        _, took_lead = kept
        flat = np.full(window.size, -1, np.int64)
        for tap, first in zip(
            window, map(window.scalars.truth, self._winner_masks(window.scalars, took_lead)), strict=True
        ):
            flat[first] = tap.place[0][first]
        return flat

    @staticmethod
    def _winner_masks(S: Family, took_lead: list[Mask]) -> list[Mask]:
        """Tap by tap, whether it took the lead and none took it later."""
        winners, later = [], np.zeros(np.shape(took_lead[-1]) if took_lead else 0, np.bool_)
        for led in reversed(took_lead):
            winners.append(S.both(led, S.negate(later)))
            later = S.either(later, led)
        return winners[::-1]

    @staticmethod
    def _is_tied(S: Family, real: Mask, cells: Cells, best: Cells) -> Mask:
        return S.both(real, S.either(S.eq(cells, best), S.both(S.is_nan(cells), S.is_nan(best))))


@operator
class Maximum(Extremum):
    """max of the window's real cells: see :class:`Extremum`."""


@operator
class Average(Pool):
    """Σ cells / divisor, where the divisor is the number of the window's taps.

    Padding: adds 0.
    Domain: real scalars that divide; integers are refused.
    """

    needs: ClassVar = ("reals", "division")
    curvature: ClassVar = "none"
    keeps: ClassVar = False

    def divisor(self, S: Family, window: Window) -> Cells:
        """What the sum is divided by; never 0."""
        return S.constant(np.maximum(window.block.count("exists"), 1))

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        total = S.zeros(window.size)
        for tap in window:
            total = total + tap.x
        return S.divide(total, self.divisor(S, window)), None

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        divisor = self.divisor(S, window)
        for tap in window:
            yield tap.entry(0, present=tap.real, over=divisor)


@operator
class MaxPool(SlidingWindow, Maximum):
    """The maximum of the real cells in each window of a sliding kernel.

    Window: sliding. Padding: ignored; a window without a real cell is 0 and has no slope. Ties:
    "first" (default), "all" or "split", see :class:`Extremum`. Domain: ordered scalars; a window
    with NaN gives NaN, and its last NaN has the slope.

    >>> import numpy as np
    >>> pool = MaxPool((2, 2), stride=1)
    >>> x = np.arange(1.0, 10.0).reshape(3, 3)
    >>> pool(x)
    array([[5., 6.],
           [8., 9.]])
    >>> pool.vjp((x,), np.ones((2, 2)))[0]
    array([[0., 0., 0.],
           [0., 1., 1.],
           [0., 1., 1.]])
    """

    name: ClassVar = "max_pool"


@operator
class MinPool(SlidingWindow, Extremum):
    """The minimum of the real cells in each window of a sliding kernel.

    Window: sliding. Padding: ignored; a window without a real cell is 0 and has no slope. Ties:
    "first" (default), "all" or "split", see :class:`Extremum`. Domain: ordered scalars; a window
    with NaN gives NaN, and its last NaN has the slope.

    >>> import numpy as np
    >>> MinPool((2,), stride=1).vjp((np.array([3.0, 1.0, 2.0]),), np.ones(2))
    (array([0., 2., 0.]),)
    """

    name: ClassVar = "min_pool"
    lowest: ClassVar = True


@operator
class SumPool(SlidingWindow, Total):
    """The sum of the cells in each window of a sliding kernel.

    Window: sliding. Padding: adds 0. Domain: any ring, integers included, whose sums wrap around as
    NumPy's of one dtype do: cast small integers first.

    >>> import numpy as np
    >>> SumPool((2, 2), stride=1)(np.arange(9).reshape(3, 3))
    array([[ 8, 12],
           [20, 24]])
    """

    name: ClassVar = "sum_pool"


@operator
class AvgPool(SlidingWindow, Average):
    """Σ cells / divisor, in each window of a sliding kernel. The divisor is the number of taps that
    exist, the number of real taps, or `divisor_override`.

    Window: sliding. Padding: adds 0, and counts in the divisor if count_include_pad is True. A
    window without a real cell is 0 and, with count_include_pad=False, has no slope. Domain: scalars
    that divide; integers are refused.

    >>> import numpy as np
    >>> AvgPool((2, 2), stride=1)(np.arange(1.0, 10.0).reshape(3, 3))
    array([[3., 4.],
           [6., 7.]])
    """

    name: ClassVar = "avg_pool"

    _: KW_ONLY
    count_include_pad: bool = parameter(arguments.flag, default=True)
    divisor_override: int | None = parameter(arguments.divisor, default=None)

    def divisor(self, S: Family, window: Window) -> Cells:
        if self.divisor_override is not None:
            return S.constant(self.divisor_override)
        return S.constant(np.maximum(window.block.count("exists" if self.count_include_pad else "real"), 1))


@operator
class SmoothMaxPool(SlidingWindow):
    """(1/β) log Σ exp(β cells): a smooth maximum for β > 0 (an upper bound that approaches the
    maximum as β grows), a smooth minimum for β < 0.

    Not divided by the number of cells: n equal values c give c + log(n)/β. The slope in a cell is
    its softmax weight. Padding: with pad="zero" a padded tap counts as the value 0;
    with pad="skip" it is ignored. A window of padding alone is log(n)/β with "zero", and 0 with
    "skip". Domain: scalars with exp and log. The computation does not overflow: the window's
    maximum (minimum for β < 0) is subtracted before the multiplication by β. Infinite cells give
    the same result as log-sum-exp.

    >>> import numpy as np
    >>> SmoothMaxPool((4,), beta=10)(np.array([1.0, 2.0, 3.0, 4.0])).round(12)
    array([4.00000454])
    """

    name: ClassVar = "smooth_max_pool"
    needs: ClassVar = ("real", "division", "exp")

    _: KW_ONLY
    beta: int | float | Fraction = parameter(arguments.temperature)
    pad: str = parameter(arguments.choice, ("zero", "skip"), default="zero")

    def value(self, S: Family, window: Window) -> tuple[Cells, Any]:
        if not S.holds(self.beta):
            rule, remedy = "is 0 or infinite in the input's precision", "use a wider float type, or another beta"
            raise refusal(ArgumentError, self.name, "beta", self.beta, rule, remedy)
        extreme, _ = argmax_fold(S, window, self._counted_mask, lowest=self.beta < 0)
        pivot = S.pivot(extreme)
        total = S.zeros(window.size)
        for tap in window:
            total = total + S.where(getattr(tap, self._counted_mask), self._exponential(S, tap, pivot), S.constant(0))
        # an empty window is log(1)/β = 0
        total = S.where(window.block.count(self._counted_mask) > 0, total, S.constant(1))
        return pivot + S.divide(S.log(total), S.constant(self.beta)), (pivot, total)

    def row(self, S: Family, window: Window, kept: Any) -> Iterator[Entry]:
        pivot, total = kept
        for tap in window:
            yield tap.entry(0, present=tap.real, times=self._exponential(S, tap, pivot), over=total)

    def second_jvp(self, operands: Sequence[Any], one: Sequence[Any], other: Sequence[Any]) -> Any:
        """β (W(u⊙v) - Wu⊙Wv), where W are the softmax weights."""
        mul, (u,), (v,) = Mul(), one, other
        moved = Sub()(
            self.tangent(operands, (mul(u, v),)), mul(self.tangent(operands, one), self.tangent(operands, other))
        )
        return Scale(self.beta)(moved)

    def second_vjp(self, slot: int, operands: Sequence[Any], cotangent: Any, along: Sequence[Any]) -> Any:
        """β (v⊙Wᵀg - Wᵀ(g⊙Wv)), where W are the softmax weights."""
        mul = Mul()
        there = self.cotangent(slot, operands, mul(cotangent, self.tangent(operands, along)))
        return Scale(self.beta)(Sub()(mul(along[0], self.cotangent(slot, operands, cotangent)), there))

    @property
    def _counted_mask(self) -> str:
        return "exists" if self.pad == "zero" else "real"

    def _exponential(self, S: Family, tap: Any, pivot: Cells) -> Cells:
        cells = tap.x
        return S.exp(S.constant(self.beta) * (cells - pivot))


@operator
class AdaptiveMaxPool(AdaptiveWindow, Maximum):
    """The maximum of each of output_size evenly spread bins, which may overlap.

    Window: adaptive. Padding: none exists. Ties: "first" (default), "all" or "split". Domain:
    ordered scalars.

    >>> import numpy as np
    >>> AdaptiveMaxPool((3,))(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    array([2., 4., 5.])
    """

    name: ClassVar = "adaptive_max_pool"


@operator
class AdaptiveAvgPool(AdaptiveWindow, Average):
    """The mean of each of output_size evenly spread bins, which may overlap.

    Window: adaptive. Padding: none exists. Domain: scalars that divide.

    >>> import numpy as np
    >>> AdaptiveAvgPool((3,))(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    array([1.5, 3. , 4.5])
    """

    name: ClassVar = "adaptive_avg_pool"


@operator
class GlobalMaxPool(WholeWindow, Maximum):
    """The maximum of the whole plane. By default every maximal cell has slope 1.

    Window: the last `rank` axes, or `axes`. Padding: none exists. Ties: "all" (default), "first" or
    "split". Domain: ordered scalars.

    >>> import numpy as np
    >>> x = np.array([[1.0, 3.0], [3.0, 2.0]])
    >>> GlobalMaxPool(2, ties="split").vjp((x,), np.array([[6.0]]))[0]
    array([[0., 3.],
           [3., 0.]])
    """

    name: ClassVar = "global_max_pool"

    _: KW_ONLY
    ties: str = "all"


@operator
class GlobalAvgPool(WholeWindow, Average):
    """Mean of the whole plane.

    Window: the last `rank` axes, or `axes`. Padding: none exists. Domain: scalars that divide.

    >>> import numpy as np
    >>> GlobalAvgPool(2, keepdims=False)(np.array([[1.0, 3.0], [3.0, 2.0]]))
    array(2.25)
    """

    name: ClassVar = "global_avg_pool"
