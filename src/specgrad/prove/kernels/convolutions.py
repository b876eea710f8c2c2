"""Claims about convolution: its value, and the cotangents of its input and its weight."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...engines.cpu import bilinear, gemm, weight_gradient
from ...engines.cpu.codegen.values import CELLS
from ...engines.cpu.steps import Chain
from .cases import Case
from .compare import DOMAIN, Unplanned, each, expect, pulled, ran, same_form
from .domain import cells, specified


class Planned:
    """A convolution with the engine's plan, and symbols for its operands."""

    def __init__(self, case: Case) -> None:
        x, weight = case.shape
        self.case, self.plan = case, bilinear.plan(case.op, x, weight)
        self.cell, self.dtype = CELLS[case.dtype], np.dtype(case.dtype)
        self.skips = bool(dict(case.constants).get("SKIPS"))
        if self.plan.single:
            raise Unplanned
        self.x, self.weight, self.bias = cells("x", x), cells("w", weight), cells("b", weight[:1])
        self.g = cells("g", case.op.output_shape(x, weight))

    def made(self, forward: bool, source: Any, bias: Any, shape: Any) -> Any:
        """The result of the planned product: the output from the input (forward), or the input's
        cotangent from the output's."""
        product = gemm.product(self.plan, forward, self.dtype, self.skips)
        if product.packing is None or product.step is None or product.fills:
            raise Unplanned
        groups, channels, _ = product.target
        added = np.zeros((groups, product.rows), object)
        if bias is not None:
            added[:, :channels] = bias.reshape(groups, channels)
        chain = Chain((product.packing, product.step), (("packed", product.packed, self.dtype),))
        expect(self.case, chain)
        given = {"source": source, "weight": self.weight, "bias": added}
        return ran(chain, {name: (self.cell, one) for name, one in given.items()}, {"target": (self.cell, shape)})[0]


def convolution(case: Case) -> None:
    """The sum of a window's real cells times their weights, and the bias."""
    p = Planned(case)
    each(p.made(True, p.x, p.bias, p.g.shape), specified(case.op, p.x, p.weight, p.bias), same_form, False)


def convolution_vjp(case: Case) -> None:
    """The cotangents of the windows that read a cell times their weights."""
    p = Planned(case)
    each(p.made(False, p.g, None, p.x.shape), pulled(case.op, 0, [p.x, p.weight], p.g), same_form, False)


def convolution_weight_vjp(case: Case) -> None:
    """The sum over outputs of cotangent times input cell, for each weight."""
    p = Planned(case)
    found = weight_gradient.gradient(p.plan, p.dtype, p.skips)
    if found.step is None:
        raise Unplanned
    given = {"wide": (p.cell, p.x), "narrow": (p.cell, p.g)}
    matrix = np.zeros((p.weight.size // p.plan.taps, p.plan.taps), object)
    shape = found.shares, len(matrix), len(found.taps)
    (made,) = ran(found.step, given, {"weight": (p.cell, shape)}, *found.step.arrays)
    matrix[:, found.taps] = functools.reduce(np.vectorize(DOMAIN.add, otypes=[object]), made)
    each(matrix.reshape(p.weight.shape), pulled(case.op, 1, [p.x, p.weight], p.g), same_form, False)
