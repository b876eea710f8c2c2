"""Functions of the cells at the same place of two arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.values import Cell, Value


@dataclass(frozen=True)
class Cellwise:
    """A kernel over arrays of any shape."""

    what: str
    """"gate": b where a is above 0 or NaN, else 0 (relu and its cotangent). "share": a / b, and 0.0
    for -0.0."""
    cell: Cell
    lanes: int


def emit(how: Cellwise, vector: int) -> Kernel:
    """args: a, b, y, sizes; an item is a piece of all cells. y may be a or b, since each cell is
    read before it is written."""
    k = Kernel("cellwise", vector)
    a, b, y = k.array("a", how.cell), k.array("b", how.cell), k.array("y", how.cell)
    n = k.sizes("cells piece")
    with k.loop(k.begin, k.end) as each:

        def some(index: Value, count: int, _: Any) -> None:
            lanes = count if count > 1 else 0
            one, other, zero = k.load(a, index, lanes), k.load(b, index, lanes), k.number(how.cell, 0, lanes)
            made = k.select(one <= zero, zero, other) if how.what == "gate" else one / other + zero
            k.store(made, y, index)

        first = each.index * n.piece
        k.together(first, k.least(first + n.piece, n.cells), how.lanes, some)
    return k.finish()
