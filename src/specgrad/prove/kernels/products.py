"""Claims about products of matrices: of linear maps, of convolutions with one window of a whole
image, and of stacks of matrices."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from ...engines.cpu import matmul
from ...engines.cpu.codegen.values import CELLS
from ...engines.cpu.network import RULES
from .cases import Case
from .compare import DOMAIN, each, expect, pulled, ran, same_form
from .domain import cells, specified


class Planned:
    """An operator with the engine's rule for it, and symbols for its operands."""

    def __init__(self, case: Case) -> None:
        self.case, self.cell, self.dtype = case, CELLS[case.dtype], np.dtype(case.dtype)
        self.operands = [cells(name, shape) for name, shape in zip("xwb", case.shape, strict=False)]
        self.g = cells("g", case.op.output_shape(*case.shape))
        self.rule: Any = RULES[type(case.op)]

    @contextlib.contextmanager
    def over_symbols(self) -> Iterator[None]:
        """A context in which the engine's rule multiplies symbols by its own plans."""
        with mock.patch.object(matmul, "product", self.product):
            yield

    def product(self, x: Any, y: Any, out: Any, bias: Any = None) -> None:
        """`matmul.product` of symbols."""
        *stack, rows, columns = out.shape
        x, y, biases = matmul.ordered(x), matmul.ordered(y), 1 if bias is None else bias.size // columns
        n, size = matmul.Sizes(tuple(stack), rows, columns, x.shape[-1]), out.itemsize
        strides = tuple(tuple(one // size * self.dtype.itemsize for one in some.strides) for some in (x, y, out))
        step, parts, _, padded, _ = matmul.planned(n, (x.shape[:-2], y.shape[:-2]), strides, self.dtype, biases, 2)
        expect(self.case, step)
        added = np.zeros((biases + 1, padded), object)
        if bias is not None:
            added[:-1, :columns] = bias.reshape(-1, columns)
        given = {"x": x.ravel(order="K"), "y": y.ravel(order="K"), "bias": added}
        found = ran(
            step,
            {name: (self.cell, one) for name, one in given.items()},
            {"z": (self.cell, (parts, out.size))},
            *("x", "y", "bias", "z"),
        )[0]
        if parts == 1:
            out[...] = np.lib.stride_tricks.as_strided(found[0], out.shape, out.strides)
        else:
            out[...] = functools.reduce(np.vectorize(DOMAIN.add, otypes=[object]), found).reshape(out.shape)


def product(case: Case) -> None:
    """The sum of a row's cells times a column's, and the bias."""
    p = Planned(case)
    found = np.empty(p.g.shape, object)
    with p.over_symbols():
        p.rule.value(case.op, p.operands, found)
    each(found, specified(case.op, *p.operands), same_form, False)


def product_vjp(case: Case, slot: int = 0) -> None:
    """The cotangents of the results that a cell is a factor of, times the other factors."""
    p = Planned(case)
    found = np.empty(case.shape[slot], object)
    with p.over_symbols():
        p.rule.pull_into(case.op, p.operands, None, slot, p.g, found)
    each(found, pulled(case.op, slot, p.operands[:2], p.g), same_form, False)


def product_weight_vjp(case: Case) -> None:
    """The same for the second factor."""
    product_vjp(case, 1)
