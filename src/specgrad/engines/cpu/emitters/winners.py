"""What is done with the codes of winners: cotangents are added to the cells that won, tangents of these are taken, or their indices are written.

The winner of window o of a plane lies at base[o] + offset[code]. Cotangents are added in row-major order of windows, as the specification adds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..codegen.builder import CELLS, WORD, Cell, Kernel, Value
from ..codegen.combine import working


@dataclass(frozen=True)
class Winners:
    """A kernel over codes: "scatter" cotangents, "gather" tangents, or write an "index"."""

    what: str
    cell: Cell
    codes: Cell
    lanes: int
    empty: bool
    """Whether some windows have no winner: their code is all ones."""
    places: Cell = CELLS["int32"]
    """The type of the tables of places."""

    @property
    def widens(self) -> bool:
        """Whether cotangents are added up in scratch and rounded at the end: those of half floats."""
        return self.what == "scatter" and working(self.cell) is not self.cell


def emit(how: Winners, vector: int) -> Kernel:
    """args: codes, source, target, base, offset, sizes (windows and cells of a plane without inner cells, inner cells); an item is a
    plane. `source` are the cotangents or tangents, `target` what is written; an index has no source."""
    k = Kernel("winners", vector)
    codes = k.array("codes", how.codes)
    source = k.array("source", how.cell)
    target = k.array("target", WORD if how.what == "index" else how.cell)
    base, offset = k.array("base", how.places), k.array("offset", how.places)
    windows, cells, inner = (k.parameter(name) for name in ("windows", "cells", "inner"))
    sums = k.room(0, working(how.cell)) if how.widens else None  # a plane, behind all other scratch
    with k.loop(k.begin, k.end) as plane:
        first, start = plane.index * windows * inner, plane.index * cells * inner
        here = sums if sums is not None else target + start
        if how.what == "scatter":
            clear(k, here, cells * inner, how)
        with k.loop(0, windows) as each, k.loop(0, inner) as along:
            at = each.index * inner + along.index
            code = k.load(codes, first + at)
            known = (
                k.select(code.differs(none(how)), code, 0) if how.empty else code
            )  # the table has no place for no winner
            place = k.load(base, each.index) + k.load(offset, k.cast(known, WORD.stored, False))
            index = k.cast(place, WORD.stored)
            flat = index * inner + along.index
            if how.what == "scatter":
                with k.when(code.differs(none(how))) if how.empty else k.always():
                    k.store(k.load(here, flat) + k.load(source, first + at), here, flat)
            elif how.what == "gather":
                k.store(_or(k, how, code, lambda f=flat, s=start: k.load(source, s + f), 0), target, first + at)
            else:
                k.store(_or(k, how, code, lambda i=index: i, -1), target, first + at)
        if sums is not None:
            with k.loop(0, cells * inner) as one:
                k.store(k.load(sums, one.index), target, start + one.index)
    return k.finish()


def none(how: Winners) -> int:
    """The code of a window without a winner."""
    return (1 << 8 * how.codes.size) - 1


def _or(k: Kernel, how: Winners, code: Value, found: object, other: int) -> Value:
    """What is found for a code, or a number where there is no winner."""
    if not how.empty:
        result: Value = found()  # type: ignore[operator]
        return result
    kind = how.cell if how.what == "gather" else WORD
    with k.loop(0, k.cast(code.differs(none(how)), WORD.stored), carried=[k.number(kind, other)]) as once:
        once.next = [found()]  # type: ignore[operator]
    return once.result[0]


def clear(k: Kernel, cells: object, count: Value, how: Winners) -> None:
    """Write zeros."""
    lanes = how.lanes
    whole = count - count % lanes
    with k.loop(0, whole, lanes) as along:
        k.store(k.number(how.cell, 0, lanes), cells, along.index)  # type: ignore[arg-type]
    with k.loop(whole, count) as rest:
        k.store(k.number(how.cell, 0), cells, rest.index)  # type: ignore[arg-type]
