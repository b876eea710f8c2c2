"""The forward pass of windows whose taps have weights: each window sums its cells times their
weights.

All windows are inside the array. A cell's weight is 1 where it equals the window's value (term
"equal"), or exp(β (cell - value)) (term "softmax").
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen.builder import Kernel
from ..codegen.combine import weight, working
from ..codegen.values import Cell, Number
from ..codegen.vector_math import fma
from .windows import Window


@dataclass(frozen=True)
class Weights:
    """A kernel of weighted sums over windows."""

    term: str
    cell: Cell
    rows: Window
    columns: Window
    lanes: int


def emit(how: Weights, vector: int) -> Kernel:
    """args: x, dx, values, dy, [beta], sizes; an item is a row of windows of a plane."""
    k = Kernel("weights", vector)
    x, dx = k.array("x", how.cell), k.array("dx", how.cell)
    values, dy = k.array("values", how.cell), k.array("dy", how.cell)
    if how.term == "softmax":
        k.beta = k.load(k.array("beta", working(how.cell)))
    n = k.sizes("height width height_out width_out")
    with k.loop(k.begin, k.end) as each:
        plane, row = each.index // n.height_out, each.index % n.height_out
        first, target = (plane * n.height + row * how.rows.stride) * n.width, each.index * n.width_out

        def windows(column: Number) -> None:
            value, total = k.load(values, target + column, how.lanes), k.number(how.cell, 0, how.lanes)
            for down in range(how.rows.taps):
                for across in range(how.columns.taps):
                    offset = across * how.columns.dilation
                    at = first + down * how.rows.dilation * n.width + column * how.columns.stride + offset
                    lead = min(offset, how.columns.stride - 1)
                    stride = how.columns.stride if how.lanes > 1 else 1  # one lane reads no cell beside its own
                    cells, moves = (k.strided(a, at, stride, how.lanes, lead) for a in (x, dx))
                    if how.term == "softmax":
                        total = fma(k, moves, weight(k, cells, value), total)
                    else:
                        meets = value.equals(cells) | (value.differs(value) & cells.differs(cells))
                        total = k.select(meets, total + moves, total)
            k.store(total, dy, target + column)

        k.vectors(n.width_out, how.lanes, windows)
    return k.finish()
