"""Pointwise operators of scalars that have an order: maximum and minimum, comparison and
selection."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

from .. import arguments
from ..arithmetic import SYMBOLS
from ..operator import Slot, operator, parameter
from ..scalars.base import Cells, Family, Mask
from .pointwise import PAIR, Pointwise, Slope


@operator
class Abs(Pointwise):
    """|x|, with slope -1, 0 or 1, the sign of x.

    Domain: ordered scalars.

    >>> import numpy as np
    >>> Abs().vjp((np.array([-3.0, 0.0, 2.0]),), np.ones(3))
    (array([-1.,  0.,  1.]),)
    """

    name: ClassVar = "abs"
    needs: ClassVar = ("real",)
    curvature: ClassVar = "piecewise_linear"

    def function(self, S: Family, x: Cells) -> Cells:
        zero = S.constant(0)
        return S.where(S.gt(x, zero), x, S.where(S.eq(x, zero), zero, -x))

    def slopes(self, S: Family, x: Cells) -> Any:
        zero, one = S.constant(0), S.constant(1)
        sign = S.where(S.gt(x, zero), one, zero) - S.where(S.gt(zero, x), one, zero)  # unsigned numbers have no -1
        sign = S.where(S.is_nan(x), x, sign)
        return (Slope(sign, present=S.negate(S.eq(x, zero))),)


@operator
class Larger(Pointwise):
    """The elementwise maximum of x and y, broadcast as NumPy does.

    Ties: "split" (default, as in PyTorch and JAX) gives each of two equal cells slope 1/2; "first"
    gives x slope 1. At a tie the value has the bits of x. Domain: ordered scalars. A NaN is the
    result, the last one of two; -0.0 and 0.0 tie.

    >>> import numpy as np
    >>> Larger().vjp((np.array([1.0, 5.0, 3.0]), np.array(3.0)), np.ones(3))
    (array([0. , 1. , 0.5]), array(1.5))
    """

    name: ClassVar = "maximum"
    slots: ClassVar = PAIR
    needs: ClassVar = ("real",)
    curvature: ClassVar = "piecewise_linear"
    lowest: ClassVar = False

    _: KW_ONLY
    ties: str = parameter(arguments.choice, ("split", "first"), default="split")

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        return S.extreme(self._second(S, x, y), y, x, self.lowest)

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        second = self._second(S, x, y)
        first = S.negate(second)
        if self.ties == "first":
            return Slope(present=first), Slope(present=second)
        S.require(self.name, "ties", self.ties, ("division",))
        tied = S.eq(x, y)
        sharers = S.where(tied, S.constant(2), S.constant(1))
        return Slope(over=sharers, present=first), Slope(over=sharers, present=S.either(second, tied))

    def _second(self, S: Family, x: Cells, y: Cells) -> Mask:
        """Whether y is chosen."""
        return S.either(S.gt(y, x), S.is_nan(y))


@operator
class Smaller(Larger):
    """The elementwise minimum of x and y, broadcast as NumPy does.

    Ties: "split" (default) or "first", see :class:`Larger`. Domain: ordered scalars; a NaN is the
    result.

    >>> import numpy as np
    >>> Smaller()(np.array([1.0, 5.0, np.nan]), np.array(3.0))
    array([ 1.,  3., nan])
    """

    name: ClassVar = "minimum"
    lowest: ClassVar = True

    def _second(self, S: Family, x: Cells, y: Cells) -> Mask:
        return S.either(S.gt(x, y), S.is_nan(y))


RELATIONS = (">", ">=", "<", "<=", "==", "!=")


@operator
class Compare(Pointwise):
    """1 where x and y satisfy the relation, else 0, in the scalar type of the operands. The
    derivative is 0.

    Domain: ordered scalars. If an enclosure leaves the relation undecided, the result is the hull
    of 0 and 1. For NaN only != is true.

    >>> import numpy as np
    >>> Compare(">")(np.array([1.0, 2.0, 3.0]), np.array(2.0))
    array([0., 0., 1.])
    """

    name: ClassVar = "compare"
    slots: ClassVar = tuple(slot._replace(differentiable=False) for slot in PAIR)
    needs: ClassVar = ("real",)
    curvature: ClassVar = "none"

    relation: str = parameter(arguments.choice, RELATIONS)

    def function(self, S: Family, x: Cells, y: Cells) -> Cells:
        if self.relation in ("==", "!="):
            holds = S.eq(x, y)
        else:
            holds = S.gt(x, y) if ">" in self.relation else S.gt(y, x)
            holds = S.either(holds, S.eq(x, y)) if "=" in self.relation else holds
        holds = S.negate(holds) if self.relation == "!=" else holds
        return S.where(holds, S.constant(1), S.constant(0))

    def slopes(self, S: Family, x: Cells, y: Cells) -> Any:
        return None, None


@operator
class Where(Pointwise):
    """x where the condition is not 0, else y, broadcast as NumPy does. The cell that is not
    selected has no influence, even if it is NaN.

    Domain: scalars that can be compared. If an enclosure leaves the condition undecided, the result
    is the hull of both cells.

    >>> import numpy as np
    >>> Where().vjp((np.array([1.0, 0.0]), np.array(5.0), np.array(7.0)), np.array([10.0, 20.0]))
    (None, array(10.), array(20.))
    """

    name: ClassVar = "where"
    slots: ClassVar = (Slot("condition", differentiable=False), *PAIR)
    curvature: ClassVar = "piecewise_linear"

    def function(self, S: Family, condition: Cells, x: Cells, y: Cells) -> Cells:
        return S.where(S.eq(condition, S.constant(0)), y, x)

    def slopes(self, S: Family, condition: Cells, x: Cells, y: Cells) -> Any:
        unmet = S.eq(condition, S.constant(0))
        return None, Slope(present=S.negate(unmet)), Slope(present=unmet)

    def reads(self, slot: int) -> frozenset[int]:
        return frozenset((0,))


SYMBOLS.update({relation: Compare(relation) for relation in RELATIONS})
