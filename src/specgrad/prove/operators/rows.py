"""Statements about derivatives, for all inputs of a case: the Jacobian row, in both modes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...operator import Operator
from ...scalars.dual import Dual
from ..reals import Sequent, at_most, choose, differ, equal, every, inner
from .values import AVERAGES, BILINEAR, MAXIMA, has_cells, is_first, windows
from .vocabulary import believed, holds


@holds("JVP and VJP are adjoint, ties included", kinds=(*MAXIMA, *AVERAGES, *BILINEAR))
def adjoint(op: Operator, operands: Any, tangents: Any, g: Any) -> Sequent:
    _, pushed = op.jvp(operands, tangents)
    pulled = op.vjp(operands, g)
    both = inner(np.concatenate([d.ravel() for d in tangents]), np.concatenate([c.ravel() for c in pulled]))
    return Sequent(equal([inner(pushed, g)], [both]))


def _differentiates(op: Any, shapes: Any) -> bool:
    """Whether the row is the derivative at every input, ties included."""
    return getattr(op, "ties", "first") == "first"


@holds(
    "the row is the derivative of the value, by Duals, ties included",
    kinds=(*MAXIMA, *AVERAGES, *BILINEAR),
    where=_differentiates,
)
def dual(op: Operator, operands: Any, tangents: Any) -> Sequent:
    return Sequent(equal(op(*map(Dual, operands, tangents)).tangent, op.jvp(operands, tangents)[1]))


@holds(
    "the row is the derivative of the value, by Duals, where no two cells tie",
    kinds=MAXIMA,
    where=lambda op, s: not is_first(op, s),
)
def dual_without_ties(op: Operator, operands: Any, tangents: Any) -> Sequent:
    return Sequent(dual(op, operands, tangents).claims, [differ(operands[0])])


@holds("the row is a subgradient: max(z) >= max(x) + row · (z - x)", kinds=MAXIMA, where=lambda op, s: op.ties != "all")
def subgradient(op: Operator, x: Any, z: Any) -> Sequent:
    y, pushed = op.jvp((x,), (z - x,))
    return Sequent(at_most(y + pushed, op(z)))


@holds("the slopes are what the tie rule says: 1 at the first maximal cell, 1 at each, or equal shares", kinds=MAXIMA)
def tie_rule(op: Any, x: Any, d: Any) -> Sequent:
    claims = []
    for total, cells, moves in zip(op.jvp((x,), (d,))[1].flat, windows(op, x), windows(op, d), strict=True):
        greatest = [every([cell >= other for other in cells]) for cell in cells]
        if op.ties == "first":
            earlier = ([cell > other for other in cells[:n]] for n, cell in enumerate(cells))
            greatest = [every([best, *first]) for best, first in zip(greatest, earlier, strict=True)]
        shares = sum(choose(best, Fraction(1), Fraction(0)) for best in greatest) if op.ties == "split" else Fraction(1)
        chosen = [choose(best, move, Fraction(0)) for best, move in zip(greatest, moves, strict=True)]
        claims += equal([total * shares], [sum(chosen)])
    return Sequent(claims)


@holds(
    "the slopes of a window with a real cell add up to 1",
    kinds=MAXIMA,
    where=lambda op, shapes: op.ties != "all" and has_cells(op, shapes),
)
def slopes_add_up(op: Operator, x: Any) -> Sequent:
    _, pushed = op.jvp((x,), (x - x + 1,))
    return Sequent([total == 1 for total, cells in zip(pushed.flat, windows(op, x), strict=True) if cells])


def _can_tie(op: Any, shapes: Any) -> bool:
    """Whether some window has two cells."""
    return op.ties == "all" and max(map(len, windows(op, np.zeros(shapes[0])))) >= 2


@believed('the row of ties="all" is a subgradient, where a window has two cells', kinds=MAXIMA, where=_can_tie)
def all_is_a_subgradient(op: Operator, x: Any, z: Any) -> Sequent:
    return subgradient(op, x, z)
