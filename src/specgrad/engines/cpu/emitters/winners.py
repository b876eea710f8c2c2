"""Uses of the codes of winners: scatter-add of cotangents to the winning cells, gather of their
tangents, or output of their indices.

A code is the number of a tap, whose digits are the taps of the axes. So the winner of window o is
at base[o] + Σ digit · step, which is computed by vectors, several windows at a time. Cotangents are
then added one by one, in row-major order of windows, as in the specification. Adjacent windows
often share their winner, and each addition would wait until the one before it reached memory. So
several planes are processed side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codegen.builder import Kernel
from ..codegen.combine import no_winner, working
from ..codegen.values import CELLS, WORD, Cell, Number, Pointer, Value
from .windows import copy_whole

SOME = 1024  # windows that are located together


@dataclass(frozen=True)
class Winners:
    """A kernel over codes: "scatter" cotangents, "gather" tangents, or write an "index"."""

    what: str
    cell: Cell
    codes: Cell
    taps: tuple[int, ...]
    """Of the axes: the digits of a code."""
    lanes: int
    """At most the windows of a plane, or the cells behind each window if there are some."""
    inner: bool
    """Whether cells lie behind each window."""
    empty: bool
    """Whether some windows have no winner: their code is all ones."""
    places: Cell = CELLS["int32"]
    """The type of places in a plane."""
    planes: int = 1
    """How many planes are filled at a time; several only where all windows have a winner and none
    has cells behind it."""

    @property
    def widens(self) -> bool:
        """Whether cotangents are added up in scratch and rounded at the end: those of half
        floats."""
        return self.what == "scatter" and working(self.cell) is not self.cell


def emit(how: Winners, vector: int) -> Kernel:
    """args: source, codes, target, base, sizes (windows and cells of a plane without inner cells,
    inner cells), steps; an item is a plane. `source` are the cotangents or tangents, `target` what
    is written; an index has no source."""
    return _Winners(how, vector).kernel


class _Winners:
    def __init__(self, how: Winners, vector: int) -> None:
        self.how = how
        k = self.kernel = Kernel("winners", vector)
        self.source, self.codes = k.array("source", how.cell), k.array("codes", how.codes)
        self.target = k.array("target", WORD if how.what == "index" else how.cell)
        self.base = k.array("base", how.places)
        self.windows, self.cells = k.parameter("windows"), k.parameter("cells")
        self.inner: Any = k.parameter("inner") if how.inner else 1
        self.steps = [k.cast(k.parameter(f"step_{axis}"), how.places.computed) for axis in range(len(how.taps))]
        self.located = [k.room(SOME + 2 * how.lanes, how.places) + how.lanes for _ in range(how.planes)]
        self.sums = k.room(0, working(how.cell)) if how.widens else None  # a plane, behind all other scratch
        k.together(k.begin, k.end, how.planes, self._planes)
        k.finish()

    def _planes(self, first: Value, count: int, _: Any) -> None:
        k, how = self.kernel, self.how
        planes = [first + i for i in range(count)]
        starts = [plane * self.cells * self.inner for plane in planes]
        windows = [plane * self.windows * self.inner for plane in planes]
        cells = [self.source + start if how.what == "gather" else self.target + start for start in starts]
        if self.sums is not None:
            cells = [self.sums]
        if how.what == "scatter":
            some = len(cells) * self.cells * self.inner  # planes lie end to end
            copy_whole(k, None, cells[0], some, k.vector // cells[0].cell.size)
        if how.inner:
            with k.loop(0, self.windows) as each:
                self._some(each.index, [first + each.index * self.inner for first in windows], cells, self.inner)
        else:
            self._some(None, windows, cells, self.windows)
        if self.sums is not None:
            with k.loop(0, self.cells * self.inner) as along:
                k.store(k.load(self.sums, along.index), self.target, starts[0] + along.index)

    def _some(self, window: Value | None, firsts: list[Value], cells: list[Pointer], count: Value) -> None:
        """All windows of some planes, or the cells behind one window, from `firsts` on: a part of
        them at a time."""
        k = self.kernel
        with k.loop(0, count, SOME) as part:
            here = k.least(count - part.index, SOME)
            starts = [first + part.index for first in firsts]
            for start, located in zip(starts, self.located, strict=False):
                k.vectors(here, self.how.lanes, self._locate(window, part.index, start, located))
            if self.how.what == "index":
                return
            with k.loop(0, here) as each:
                self._move(starts, cells, each.index)

    def _locate(self, window: Value | None, behind: Value, start: Value, located: Pointer) -> Any:
        """Where the winners of a vector of windows lie; the last vector of a part may begin before
        it."""
        k, how, lanes = self.kernel, self.how, self.how.lanes
        kind = how.places.computed

        def locate(index: Number) -> None:
            digits: Any = k.load(self.codes, start + index, lanes)  # divided in their own type: fewer bits
            place = (
                k.load(self.base, behind + index, lanes)
                if window is None
                else k.splat(k.load(self.base, window), lanes)
            )
            for axis in reversed(range(len(how.taps))):
                rest = digits // how.taps[axis] if axis else 0
                digit = k.cast(digits - rest * how.taps[axis], kind, False)
                place = place + digit * k.splat(self.steps[axis], lanes)
                digits = rest
            if how.what == "index":
                missing = k.load(self.codes, start + index, lanes).equals(no_winner(how.codes)) if how.empty else None
                found = k.cast(place, WORD.stored)
                k.store(found if missing is None else k.select(missing, -1, found), self.target, start + index)
                return
            if window is not None:
                offset = k.cast(k.splat(behind + index, lanes) + k.iota(lanes), kind)
                place = place * k.splat(k.cast(self.inner, kind), lanes) + offset
            k.store(place, located, index)

        return locate

    def _move(self, starts: list[Value], cells: list[Pointer], index: Value) -> None:
        """Add the cotangents of a window to the cells that won it in some planes, or take the
        tangents of these. Cells of all planes are read before one is written, which for all that is
        known here could be any."""
        k, how = self.kernel, self.how
        places = [k.cast(k.load(located, index), WORD.stored) for located in self.located[: len(starts)]]
        known = k.load(self.codes, starts[0] + index).differs(no_winner(how.codes)) if how.empty else None
        if how.what == "gather":
            if known is not None:
                places = [k.select(known, places[0], 0)]
            found = k.load(cells[0], places[0])
            found = found if known is None else k.select(known, found, 0)
            k.store(found, self.target, starts[0] + index)
            return
        with k.when(known):
            arriving = [k.load(self.source, start + index) for start in starts]
            sums = [k.load(one, at) + g for one, at, g in zip(cells, places, arriving, strict=True)]
            for one, at, made in zip(cells, places, sums, strict=True):
                k.store(made, one, at)
