"""The value of relu and its cotangent: cells of one array where those of another are above 0 or
NaN, else 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Cell, Kernel, Value


@dataclass(frozen=True)
class Relu:
    """A kernel over arrays of any shape."""

    cell: Cell
    lanes: int


def emit(how: Relu, vector: int) -> Kernel:
    """args: x, g, y, sizes; an item is a piece of all cells. y may be x or g, since each cell is
    read before it is written."""
    k = Kernel("relu", vector)
    x, g, y = k.array("x", how.cell), k.array("g", how.cell), k.array("y", how.cell)
    n = k.sizes("cells piece")
    with k.loop(k.begin, k.end) as each:

        def some(index: Value, count: int, _: Any) -> None:
            lanes = count if count > 1 else 0
            is_off = k.load(x, index, lanes) <= k.number(how.cell, 0, lanes)
            k.store(k.select(is_off, k.number(how.cell, 0, lanes), k.load(g, index, lanes)), y, index)

        first = each.index * n.piece
        k.together(first, k.least(first + n.piece, n.cells), how.lanes, some)
    return k.finish()
