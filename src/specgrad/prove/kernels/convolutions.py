"""Claims about convolution: of one wide channel per group (depthwise layers, filters of single
images), and the columns of all others."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...engines.cpu import bilinear, columns, depthwise
from ...engines.cpu.codegen.builder import CELLS
from .cases import Case
from .compare import DOMAIN, Unplanned, each, pulled, ran, same_form
from .domain import PickMemory, cells, specified
from .plans import Execution


class Planned:
    """A convolution as the engine plans it, and symbols for its operands."""

    def __init__(self, case: Case) -> None:
        x, weight = case.shape
        self.plan, self.cell, self.dtype = bilinear.plan(case.op, x, weight), CELLS[case.dtype], np.dtype(case.dtype)
        if self.plan.single or self.plan.side_by_side is not None:
            raise Unplanned
        self.x, self.weight, self.bias = cells("x", x), cells("w", weight), cells("b", weight[:1])
        self.g = cells("g", case.op.output_shape(x, weight))

    def run(self, step: Any, wanted: str, shape: Any, **arrays: Any) -> Any:
        """What a step leaves in one of the arrays that it takes in this order."""
        given = {name: (self.cell, array) for name, array in arrays.items() if name != wanted}
        return ran(step, given, {wanted: (self.cell, shape)}, *arrays)[0]


def convolution(case: Case) -> None:
    """The sum of a window's real cells times their weights, and the bias."""
    p = Planned(case)
    step = depthwise.over_planes(p.plan, "correlate", p.dtype)
    found = p.run(step, "narrow", p.g.shape, wide=p.x, narrow=None, weight=p.weight, bias=p.bias)
    each(found, specified(case.op, p.x, p.weight, p.bias), same_form, False)


def convolution_weight_vjp(case: Case) -> None:
    """The products of cotangents and the cells that a weight met, added up."""
    p = Planned(case)
    step = depthwise.over_planes(p.plan, "weigh", p.dtype)
    found = p.run(step, "weight", p.weight.shape, wide=p.x, narrow=p.g, weight=None)
    each(found, pulled(case.op, 1, [p.x, p.weight], p.g), same_form, False)


def convolution_vjp(case: Case) -> None:
    """The cotangents of the windows that read a cell times their weights, by the one kernel or the
    other."""
    p = Planned(case)
    expected = pulled(case.op, 0, [p.x, p.weight], p.g)
    zeros = np.zeros(p.plan.groups, object)
    if case.emitter == "columns":
        step = columns.spread(p.plan, p.dtype)
        found = p.run(step, "wide", p.x.shape, wide=None, narrow=p.g, weight=p.weight, bias=zeros)
    else:
        turned = p.plan.turned
        if turned is None or p.plan.narrow_channels > 1:
            raise Unplanned
        taps = p.weight.reshape(p.plan.groups, -1)[:, ::-1]
        step = depthwise.over_planes(turned, "correlate", p.dtype)
        found = p.run(step, "narrow", p.x.shape, wide=p.g, narrow=None, weight=taps, bias=zeros)
    each(found, expected, same_form, False)


# kernels that run where they are called, on columns of any convolution


def called(function: Any, p: Planned, given: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """What a function of the engine, called with arrays by their names, leaves in those that it
    writes. They hold symbols, or are of a shape and hold nothing."""
    run, every = Execution(DOMAIN, PickMemory), {**given, **written}
    shapes = {name: array if isinstance(array, tuple) else array.shape for name, array in every.items()}
    held = {name: np.zeros(shape, p.dtype) for name, shape in shapes.items()}
    for name, array in every.items():
        if isinstance(array, tuple):
            run.take(name, p.cell, math.prod(array))
        else:
            run.give(name, p.cell, list(array.ravel()), name in written)
        run.place(name, held[name])
    for number, table in enumerate(p.plan.table[place] for place in (0, 2, 3)):
        run.place(f"table {number}", table)
    Execution.current = run
    try:
        function(**held)
    finally:
        Execution.current = None
    return {name: run.cells(name).reshape(shapes[name]) for name in written}


def columns_of(case: Case, p: Planned, group: int) -> tuple[Any, Any]:
    """Which wide cell each cell of a group's columns is, and whether it is real: by the
    specification's own taps."""
    geometry, plan = case.op.geometry(*case.shape), p.plan
    outputs = np.arange(geometry.outputs).reshape(plan.images, plan.groups, plan.narrow_channels, plan.narrow_cells)
    own = outputs[:, group, 0].reshape(-1)
    steps = list(geometry.block(0, geometry.outputs).steps())
    return np.stack([step.place[0][own] for step in steps]), np.stack([step.real[own] for step in steps])


def _moved(move: Any, p: Planned, group: int, **arrays: Any) -> None:
    """Pack or unpack all of a group."""
    move(p.plan, *arrays.values(), group, (0, p.plan.images), (0, p.plan.wide_channels), (0, p.plan.narrow_cells))


def packing(case: Case) -> None:
    """The columns of a group: at each tap the wide cell that it reads, and 0 for padding."""
    p = Planned(case)
    for group in range(p.plan.groups):
        place, real = columns_of(case, p, group)
        pack = functools.partial(_moved, columns.pack, p, group)
        made = called(pack, p, {"wide": p.x}, {"made": place.shape})
        expected = np.zeros(place.shape, object)
        expected[real] = p.x.ravel()[place[real]]
        each(made["made"], expected, same_form, False)


def unpacking(case: Case) -> None:
    """Every cell of the columns of a group is added to the wide cell that it is."""
    p = Planned(case)
    for group in range(p.plan.groups):
        place, real = columns_of(case, p, group)
        given = cells("c", place.shape)
        unpack = functools.partial(_moved, columns.unpack, p, group)
        left = called(unpack, p, {}, {"made": given, "wide": p.x})
        expected = p.x.ravel().copy()
        for cell, at in zip(given[real], place[real], strict=True):
            expected[at] = DOMAIN.add(expected[at], cell)
        each(left["wide"].ravel(), expected, same_form, False)


def direct(case: Case) -> None:
    """The value and the weight's cotangent of one image and one group, without columns."""
    p = Planned(case)
    if p.plan.images > 1 or p.plan.groups > 1:
        raise Unplanned
    bias = np.broadcast_to(p.bias.reshape(-1, *[1] * (p.x.ndim - 2)), p.g.shape)
    given = {"wide": p.x, "weight": p.weight}
    left = called(
        lambda wide, weight, narrow: columns.correlate(p.plan, wide, weight, narrow), p, given, {"narrow": bias}
    )
    each(left["narrow"], specified(case.op, p.x, p.weight, p.bias), same_form, False)
    channels, zeros = (0, p.plan.wide_channels), np.zeros(p.weight.shape, object)
    given = {"wide": p.x, "narrow": p.g}
    weigh = functools.partial(columns.weigh, p.plan)
    left = called(lambda wide, narrow, weight: weigh(wide, narrow, weight, channels), p, given, {"weight": zeros})
    each(left["weight"], pulled(case.op, 1, [p.x, p.weight], p.g), same_form, False)
