"""How the results of two adjacent parts of a window are combined: sum, maximum, argmax.

A part is a list of vectors: the partial result of some taps, for a vector of windows. `join` takes
an earlier and a later part, in row-major order, and is associative. So a schedule may split a
window into any parts, as long as it joins adjacent ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .builder import Kernel
from .values import CELLS, Cell, Value
from .vector_math import exp, log

Part = list[Value]


def code_cell(taps: int) -> Cell:
    """The cells in which argmax codes of so many taps lie, and one code more."""
    return CELLS["uint8" if taps < 1 << 8 else "uint16" if taps < 1 << 16 else "uint32"]


def no_winner(codes: Cell) -> int:
    """The code of a window without a cell: all ones."""
    return (1 << 8 * codes.size) - 1


def lowest(cell: Cell) -> Any:
    """The number below which there is none."""
    return -np.inf if cell.is_float else np.iinfo(cell.name).min


def greatest(cell: Cell) -> Any:
    """The number above which there is none."""
    return np.inf if cell.is_float else np.iinfo(cell.name).max


class Sum:
    """The sum of all taps; padding adds 0."""

    name = "sum"
    overlaps = False
    """Whether parts that share taps may be joined."""
    guards = False
    """Whether the result is right only where no NaN was met."""
    guards_zero = False
    """And only where no -0.0 was met, or no result is 0."""
    codes: Cell | None = None
    """The cells of what goes beside the value: codes of winners."""
    counts = False
    """Whether these are numbers of taps."""
    multiplies = False
    """Whether lanes without a window should hold ordinary numbers: products with subnormal ones are
    slow."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.identity: Any = 0

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.name, self.cell.name, self.codes and self.codes.name, self.guards

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.key)

    def cells(self) -> list[Cell]:
        """The types of a part, as it is kept in memory: computed with, not rounded."""
        return [working(self.cell)]

    def written(self, result: Cell) -> list[tuple[str, Cell]]:
        """The arrays that a kernel writes, whose values are cells of this type."""
        return [("y", result), *([] if self.codes is None else [("codes", self.codes)])]

    masks = False
    """Whether a part must be told which cells are real."""

    def first(self, k: Kernel, cells: Value, tap: int, real: Value | None = None) -> Part:
        """The part of one tap; `real` says where it is a cell and not padding, if `masks`."""
        return [cells]

    def begin(self, k: Kernel) -> None:
        """Ask for the arguments that it needs."""

    def finish(self, k: Kernel, part: Part) -> Part:
        """What is written of a whole window: a sum that began with 0, so that it is no -0.0."""
        return [part[0] + 0.0] if part[0].is_float else part

    def nothing(self, k: Kernel, lanes: int) -> Part:
        """The part of padding alone."""
        return [k.number(self.cell, self.identity, lanes)]

    def join(self, k: Kernel, one: Part, two: Part, shift: int = 0) -> Part:
        """One part of two neighbours; the later begins `shift` taps behind the earlier."""
        return [one[0] + two[0]]

    def follow(self, k: Kernel, one: Part, two: Part) -> Part:
        """The same where all of the later part lies behind all of the earlier, though others may
        lie between them."""
        return self.join(k, one, two)


class Max(Sum):
    """The greatest cell, or the `least`, of equal ones the first; padding is a number that changes
    no value.

    Where there are NaNs, the last of them wins if it is `exact`, and else it is wrong. Unless parts
    are `ordered`, row-major, it is right only where there is no -0.0, whose bits may not be those
    of the first.
    """

    name, overlaps = "max", True

    def __init__(self, cell: Cell, least: bool = False, exact: bool = False, ordered: bool = True) -> None:
        super().__init__(cell)
        self.least, self.exact, self.ordered = least, exact, ordered
        self.identity = greatest(cell) if least else lowest(cell)
        self.guards = cell.is_float and not exact
        self.guards_zero = not ordered and not self.counts

    @property
    def key(self) -> tuple[Any, ...]:
        return *super().key, self.least, self.exact, self.ordered

    def finish(self, k: Kernel, part: Part) -> Part:
        return part

    def leads(self, one: Part, two: Part) -> Value:
        """Where the cell of the second part is greater, or less."""
        return two[0] < one[0] if self.least else two[0] > one[0]

    def wins(self, k: Kernel, one: Part, two: Part) -> Value:
        """Where the later part takes the lead."""
        leads = self.leads(one, two)
        return leads | two[0].differs(two[0]) if self.exact and self.cell.is_float else leads

    def join(self, k: Kernel, one: Part, two: Part, shift: int = 0) -> Part:
        return [k.select(self.wins(k, one, two), two[0], one[0])]


class ArgMax(Max):
    """The greatest cell and its code, the number of its tap; of equal cells that with the lesser
    code wins, and of NaNs that with the greater one. Right, unless it is `exact`, where there is no
    NaN, and where padding cannot tie with a cell."""

    name, counts = "argmax", True

    def __init__(self, cell: Cell, taps: int, least: bool = False, exact: bool = False, ordered: bool = True) -> None:
        super().__init__(cell, least, exact, ordered)
        self.codes: Cell = code_cell(taps)
        self.masks = exact and ordered
        self.none = no_winner(self.codes)
        """The code of padding where it is told from cells."""

    def cells(self) -> list[Cell]:
        return [working(self.cell), self.codes]

    def first(self, k: Kernel, cells: Value, tap: int, real: Value | None = None) -> Part:
        code = k.number(self.codes, tap, cells.lanes)
        return [cells, code if real is None else k.select(real, code, self.none)]

    def nothing(self, k: Kernel, lanes: int) -> Part:
        return self.first(k, super().nothing(k, lanes)[0], self.none if self.masks else 0)

    def join(self, k: Kernel, one: Part, two: Part, shift: int = 0) -> Part:
        if not self.ordered:  # codes are compared
            two, shift = [two[0], two[1] + shift], 0
        wins = self.wins(k, one, two)
        return [k.select(wins, two[0], one[0]), k.select(wins, self.shifted(k, two[1], shift), one[1])]

    def shifted(self, k: Kernel, code: Value, shift: Any) -> Value:
        """A code, so many taps further on; that of padding stays."""
        moved = code + shift
        return k.select(code.equals(self.none), code, moved) if self.masks and moved is not code else moved

    def follow(self, k: Kernel, one: Part, two: Part) -> Part:
        if self.exact:
            return self.join(k, one, two)
        leads = self.leads(one, two)
        return [k.select(leads, two[0], one[0]), k.select(leads, two[1], one[1])]

    def wins(self, k: Kernel, one: Part, two: Part) -> Value:
        if self.ordered:
            wins = super().wins(k, one, two)
            return (wins | one[1].equals(self.none)) & two[1].differs(self.none) if self.masks else wins
        wins = self.leads(one, two) | (two[0].equals(one[0]) & (two[1] < one[1]))
        if not self.exact or not self.cell.is_float:
            return wins
        is_nan, was_nan = two[0].differs(two[0]), one[0].differs(one[0])
        return wins | (is_nan & (~was_nan | (two[1] > one[1])))


class LogSumExp(Sum):
    """The pair (m, s) with Σ exp(β x) = s·exp(β m), where m is the greatest cell, or the least if β
    is negative.

    Padding is the cell that no other exceeds, whose exponential is 0. It ends in "pairs", in the
    smooth maximum m + log(s)/β "alone", or in both, as derivatives need them ("kept"): these shift
    exponents by m, so 0 stands for an infinite one, and then s is infinite too, or 0.
    """

    name, multiplies = "log_sum_exp", True

    def __init__(self, cell: Cell, negative: bool, ends: str) -> None:
        super().__init__(cell)
        self.negative, self.ends, self.codes = negative, ends, working(cell)
        self.identity = np.inf if negative else -np.inf

    @property
    def key(self) -> tuple[Any, ...]:
        return *super().key, self.negative, self.ends

    def written(self, result: Cell) -> list[tuple[str, Cell]]:
        beside = {"pairs": ("codes",), "alone": (), "kept": ("extreme", "total")}[self.ends]
        return [("y", result), *((name, working(self.cell)) for name in beside)]

    def cells(self) -> list[Cell]:
        return [working(self.cell)] * 2

    def begin(self, k: Kernel) -> None:
        k.beta = k.load(k.array("beta", working(self.cell)))

    def first(self, k: Kernel, cells: Value, tap: int, real: Value | None = None) -> Part:
        return [cells, k.number(self.cell, 1, cells.lanes)]

    def nothing(self, k: Kernel, lanes: int) -> Part:
        return [super().nothing(k, lanes)[0], k.number(self.cell, 0, lanes)]

    def join(self, k: Kernel, one: Part, two: Part, shift: int = 0) -> Part:
        wins = two[0] < one[0] if self.negative else two[0] > one[0]
        m, other = k.select(wins, two[0], one[0]), k.select(wins, one[0], two[0])
        s, less = k.select(wins, two[1], one[1]), k.select(wins, one[1], two[1])
        return [m, s + less * weight(k, other, m)]

    def finish(self, k: Kernel, part: Part) -> Part:
        if self.ends == "pairs":
            return part
        m, s = part
        y = log(k, s) / scalar(k, s) + m
        if self.ends == "alone":
            return [y]
        none, all_of_it = m.equals(self.identity), m.equals(-self.identity)
        total = k.select(none, 0.0, k.select(all_of_it, math.inf, s))
        return [y, k.select(none | all_of_it, 0.0, m), k.select(s.differs(s), s, total)]


def weight(k: Kernel, cells: Value, value: Value) -> Value:
    """exp(β (cells - value)), and 1 where both are the same infinity."""
    apart = k.select(cells.equals(value), 0.0, cells - value)
    return exp(k, apart * scalar(k, apart))


def scalar(k: Kernel, like: Value) -> Value:
    """β in all lanes."""
    return k.splat(k.beta, like.lanes) if like.lanes else k.beta


def working(cell: Cell) -> Cell:
    """The cells in which numbers of these cells are kept between steps: half floats as float32."""
    return CELLS["float32"] if cell.name in ("float16", "bfloat16") else cell
