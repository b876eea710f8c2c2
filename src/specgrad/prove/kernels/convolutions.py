"""Claims about convolution with one wide channel per group: depthwise layers, and filters of single images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engines.cpu import bilinear, columns, depthwise
from ...engines.cpu.codegen.builder import CELLS
from .cases import Case
from .compare import Unplanned, each, pulled, ran, same_form
from .domain import cells, specified


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
    """The cotangents of the windows that read a cell times their weights, by the one kernel or the other."""
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
