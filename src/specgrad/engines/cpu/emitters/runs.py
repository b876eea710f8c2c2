"""The VJP of bins: cells that the same windows read form a run, and all cells of a run get the same
number.

A row of runs is summed from its rows of windows, expanded along the columns once, and written to
all its rows of cells.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen.builder import Kernel
from ..codegen.combine import working
from ..codegen.values import WORD, Cell, Number, Pointer, Value
from .windows import Divisors


@dataclass(frozen=True)
class Runs:
    """A kernel of the adjoint of sums over bins."""

    cell: Cell
    result: Cell
    windows: int
    """Room for a row of windows, at least."""
    cells: int
    """Room for a row of cells, at least."""
    lanes: int
    window_lanes: int
    """Of vectors along a row of windows, at most its windows."""
    cell_lanes: int
    divides: str = "no"


def emit(how: Runs, vector: int) -> Kernel:
    """args: g, gx, [divisors], tables of runs of rows and of columns (first cell, end, first
    window, windows), sizes; an item is a run of rows of a plane."""
    k = Kernel("runs", vector)
    g, gx = k.array("g", how.cell), k.array("gx", how.result)
    divisors = Divisors(k, how.divides, how.cell)
    down, across = k.array("down", WORD), k.array("across", WORD)
    n = k.sizes("height width height_out width_out runs_down runs_across")
    sums = k.room(how.windows + how.lanes, working(how.cell))
    line = k.room(how.cells + how.lanes, working(how.cell))
    with k.loop(k.begin, k.end) as each:
        plane, run = each.index // n.runs_down, each.index % n.runs_down
        start, stop, first, count = (k.load(down, run * 4 + place) for place in range(4))

        def add_rows(index: Number) -> None:
            with k.loop(first, first + count, carried=[k.number(how.cell, 0, how.window_lanes)]) as rows:
                cells = k.load(g, (plane * n.height_out + rows.index) * n.width_out + index, how.window_lanes)
                cells = divisors.divide(cells, rows.index, index)
                rows.next = [rows.values[0] + cells]
            k.store(rows.result[0], sums, index)

        k.vectors(n.width_out, how.window_lanes, add_rows)
        _spread(k, how, sums, line, across, n.runs_across)
        target = gx + plane * n.height * n.width
        with k.loop(start, stop) as row:
            where = target + row.index * n.width

            def copy(index: Number) -> None:
                k.store(k.load(line, index, how.cell_lanes), where, index)

            k.vectors(n.width, how.cell_lanes, copy)
    return k.finish()


def _spread(k: Kernel, how: Runs, sums: Pointer, line: Pointer, across: Pointer, runs: Value) -> None:
    """Write each run of a row of cells; a vector may go beyond its run, since the next one is
    written later."""
    with k.loop(0, runs) as each:
        start, stop, first, count = (k.load(across, each.index * 4 + place) for place in range(4))
        with k.loop(first, first + count, carried=[k.number(how.cell, 0)]) as windows:
            windows.next = [windows.values[0] + k.load(sums, windows.index)]
        cells = k.splat(windows.result[0], how.lanes)
        with k.loop(start, stop, how.lanes) as along:
            k.store(cells, line, along.index)
