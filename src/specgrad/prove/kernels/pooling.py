"""Claims about maxima, their derivatives by argmax codes, and averages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...caches import cached_property
from ...engines.cpu import pools
from ...engines.cpu.axes import even, nominal
from ...engines.cpu.codegen.values import WORD
from ...geometry import strides
from .cases import Case, dtype_of, laid
from .compare import DOMAIN, Differs, Unplanned, each, expect, pulled, ran, same_form, same_lead
from .domain import cells, specified
from .forms import Form
from .symbols import Lead, Pick, Table


class Planned:
    """A pooling operator with the engine's plan for arrays of one layout."""

    def __init__(self, case: Case, any_order: bool = False) -> None:
        self.case, self.op = case, case.op
        self.pool, _ = pools.seen(case.op, laid(case), any_order=any_order)
        if self.pool.is_empty:
            raise Unplanned
        self.cell, self.layout = self.pool.cell, self.pool.layout

    def operand(self, array: Any) -> Any:
        return array.reshape([self.layout.shape[p] for p in self.layout.back]).transpose(self.layout.order)

    def output(self, array: Any) -> Any:
        return array.reshape([self.pool.lengths[p] for p in self.layout.back]).transpose(self.layout.order)

    def as_result(self, array: Any) -> Any:
        return array.transpose(self.layout.back).reshape(self.pool.shape)

    def as_operand(self, array: Any) -> Any:
        return array.transpose(self.layout.back).reshape(self.case.shape)

    @cached_property
    def places(self) -> tuple[Any, Any]:
        """The winners' indices in a plane: a base per window, and an offset per code, whose digits
        are the taps of the axes."""
        base = offset = np.zeros(1, np.int64)
        for axis, by in zip(self.pool.axes, strides(tuple(axis.size for axis in self.pool.axes)), strict=True):
            ranges, taps = even(axis).ranges(), np.arange(nominal(even(axis)))
            base = np.add.outer(base, ranges.start * by).reshape(-1)
            offset = np.add.outer(offset, taps * (ranges.step * by)).reshape(-1)
        return base, offset

    def cell_of(self, place: tuple[int, ...], code: int) -> tuple[int, ...]:
        """The cell in (planes, cells, inner) to which a code of a window refers."""
        base, offset = self.places
        return place[0], int(base[place[1]] + offset[code]), place[2]

    def codes(self) -> Any:
        """The code of every window, as a pick among its real taps, or the code of no winner."""
        real = self._real_codes()
        made = np.empty((self.layout.planes, len(real), self.layout.inner), object)
        for place in np.ndindex(*made.shape):
            codes = real[place[1]]
            made[place] = pick(f"code{place}", codes) if codes else self.pool.none
        return made.reshape(self.pool.lengths)

    def _real_codes(self) -> list[tuple[int, ...]]:
        """For each window of a plane, the codes of its real taps."""
        taken: list[list[int]] = [[0]]
        for axis in map(even, self.pool.axes):
            ranges, kinds = axis.ranges(), nominal(axis)
            own = [
                [(int(f) - int(s)) // ranges.step + i for i in range(max(int(c), 0))]
                for f, s, c in zip(ranges.first, ranges.start, ranges.count, strict=True)
            ]
            taken = [[code * kinds + tap for code in before for tap in taps] for before in taken for taps in own]
        return [tuple(codes) for codes in taken]


def pick(name: str, codes: tuple[int, ...]) -> Any:
    """A symbol for the code of a window, among these codes."""
    return codes[0] if len(codes) == 1 else Table(Pick(name, codes), codes)


def chosen(code: Any) -> dict[int, tuple[Any, ...]]:
    """For each possible code of a window, the condition that it is the code, as atoms of a
    product."""
    if isinstance(code, Table):
        return {one: ((code.pick, one),) for one in code.values}
    return {code: ()}


def maximum(case: Case, exact: bool = False) -> None:
    """The greatest of the window's real cells."""
    plan = Planned(case)
    x = cells("x", case.shape, dtype_of(case))
    given, wanted = {"x": (plan.cell, plan.operand(x))}, {"y": (plan.cell, plan.pool.lengths)}
    expect(case, plan.pool.fold("max", exact))
    made = None if exact else ran(plan.pool.fold("max"), given, wanted)
    (y,) = made or ran(plan.pool.fold("max", True), given, wanted)
    plan.pool.blank(y, 0)
    each(plan.as_result(y), specified(case.op, x), same_lead, False)


def exact_maximum(case: Case) -> None:
    """`maximum` by the kernels that check for NaN."""
    maximum(case, True)


def argmax(case: Case, exact: bool = False) -> None:
    """The first of the window's greatest real cells, and its code."""
    plan = Planned(case)
    pool, x = plan.pool, cells("x", case.shape, dtype_of(case))
    given = {"x": (plan.cell, plan.operand(x))}
    wanted = {"y": (plan.cell, pool.lengths), "codes": (pool.codes, pool.lengths)}
    expect(case, pool.fold("argmax", exact))
    made = None if exact else ran(pool.fold("argmax"), given, wanted)
    y, codes = made or ran(pool.fold("argmax", True), given, wanted)
    pool.blank(y, 0)
    pool.blank(codes, pool.none)
    expected = specified(case.op, x)
    each(plan.as_result(y), expected, same_lead, True)
    operand = plan.operand(x).reshape(plan.layout.planes, -1, plan.layout.inner)
    leads = plan.output(expected).reshape(plan.layout.planes, -1, plan.layout.inner)
    found = codes.reshape(leads.shape)
    for place in np.ndindex(*leads.shape):
        lead, code = leads[place], found[place]
        if not isinstance(lead, Lead):
            if code != pool.none:
                raise Differs(f"window {place}: code {code!r} of no winner")
            continue
        by_cell = dict(zip(code.pick.cells, code.values, strict=True)) if isinstance(code, Table) else None
        if by_cell is not None and (not isinstance(code.pick, Lead) or code.pick.cells != lead.cells):
            raise Differs(f"window {place}: codes of {code.pick!r}, specified is {lead!r}")
        for name in lead.cells:
            own = code if by_cell is None else by_cell[name]
            cell = operand[plan.cell_of(place, own)]
            if cell.cells[0] != name:
                raise Differs(f"window {place}: code {own} is {cell!r}, specified is {name}")


def exact_argmax(case: Case) -> None:
    """`argmax` by the kernels that check for NaN and for ties with padding."""
    argmax(case, True)


def average(case: Case) -> None:
    """The sum of the window's real cells over its divisor."""
    plan = Planned(case, any_order=True)
    x = cells("x", case.shape)
    given, wanted = {"x": (plan.cell, plan.operand(x))}, {"y": (plan.cell, plan.pool.lengths)}
    expect(case, plan.pool.fold("average"))
    (y,) = ran(plan.pool.fold("average"), given, wanted)
    each(plan.as_result(y), specified(case.op, x), same_form, plan.pool.is_half)


def average_vjp(case: Case) -> None:
    """At each cell, the sum of the shares of the windows that read the cell."""
    plan = Planned(case, any_order=True)
    g, pool = cells("g", plan.pool.shape), plan.pool
    arriving = plan.output(g)
    if pool.divisors.columns is not None:
        pool = pool.in_single
        given, wanted = {"x": (pool.cell, arriving)}, {"y": (pool.cell, pool.lengths)}
        (arriving,) = ran(pool.fold("shares"), given, wanted)
    given, wanted = {"x": (pool.cell, arriving)}, {"y": (pool.cell, plan.layout.shape)}
    expect(case, pool.fold("spread"))
    (gx,) = ran(pool.fold("spread"), given, wanted)
    each(plan.as_operand(gx), pulled(case.op, 0, [cells("x", case.shape)], g), same_form, pool.is_half)


def argmax_vjp(case: Case) -> None:
    """At each cell, the cotangents of the windows whose code refers to the cell, for all codes."""
    plan = Planned(case)
    pool, cell = plan.pool, plan.cell
    g, codes = cells("g", pool.shape), plan.codes()
    arriving = plan.output(g)
    wanted = {"target": (cell, plan.layout.shape)}
    given = {"codes": (pool.codes, codes), "source": (cell, arriving)}
    steps = [pool.winners("scatter"), *([] if pool.gathers is None else [pool.gathers])]
    expect(case, *steps)
    expected = np.zeros((plan.layout.planes, math.prod(a.size for a in pool.axes), plan.layout.inner), object)
    flat = codes.reshape(plan.layout.planes, -1, plan.layout.inner)
    windows = arriving.reshape(flat.shape)
    for place in np.ndindex(*flat.shape):
        for code, atoms in chosen(flat[place]).items() if flat[place] is not pool.none else ():
            where = plan.cell_of(place, code)
            term = Form({tuple(sorted((*windows[place].cells, *atoms), key=str)): (1, 0)})
            expected[where] = DOMAIN.add(expected[where], term)
    for step in steps:
        (gx,) = ran(step, given, wanted, *step.arrays)
        each(gx.reshape(expected.shape), expected, same_form, pool.is_half)


def argmax_jvp(case: Case) -> None:
    """The tangent of the cell to which a window's code refers, and the cell's index in the plane,
    for all codes."""
    plan = Planned(case)
    pool, cell = plan.pool, plan.cell
    dx, codes = cells("d", case.shape), plan.codes()
    source = plan.operand(dx)
    given = {"codes": (pool.codes, codes), "source": (cell, source)}
    (dy,) = ran(pool.winners("gather"), given, {"target": (cell, pool.lengths)}, "source", "codes", "target")
    (index,) = ran(pool.winners("index"), given, {"target": (WORD, pool.lengths)}, "source", "codes", "target")
    planes = source.reshape(plan.layout.planes, -1, plan.layout.inner)
    in_plane = plane_indices(plan).reshape(planes.shape)
    shape = (plan.layout.planes, -1, plan.layout.inner)
    flat, moved, at = (array.reshape(shape) for array in (codes, dy, index))
    for place in np.ndindex(*flat.shape):
        code, tangent, place_in = flat[place], moved[place], at[place]
        if code is pool.none:
            if (tangent, place_in) != (0, 2**64 - 1):
                raise Differs(f"window {place} without a winner: {tangent!r}, index {place_in!r}")
            continue
        for n, one in enumerate(code.values if isinstance(code, Table) else (code,)):
            where = plan.cell_of(place, one)
            own, number = (v.values[n] if isinstance(v, Table) else v for v in (tangent, place_in))
            if not (isinstance(own, Lead) and own.same(planes[where])):
                raise Differs(f"window {place}, code {one}: {own!r}, specified is {planes[where]!r}")
            if number != in_plane[where]:
                raise Differs(f"window {place}, code {one}: index {number}, specified is {in_plane[where]}")


def plane_indices(plan: Planned) -> Any:
    """The flat index of every cell in its plane by the operator's order of axes, in memory
    order."""
    shape = plan.case.shape
    index = np.zeros(shape, np.int64)
    for p in plan.op.positions(shape):
        along = np.arange(shape[p]).reshape([-1 if i == p else 1 for i in range(len(shape))])
        index = index * shape[p] + along
    return plan.operand(index)
