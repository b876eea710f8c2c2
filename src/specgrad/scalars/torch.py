"""Torch tensors of one number type on one device: the specification composed of aten calls, which
autograd can follow.

Half floats are computed in float32 and rounded once at the end. Sums are deterministic on every
device.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..errors import ScalarError, refusal
from .base import Cells, Family, Mask, Number, TooLong, refuse_nested, unheld, unlike
from .floats import LACKS

_HALVES = (torch.float16, torch.bfloat16)
_BARE = (torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex32)  # stored by torch, hardly computed
_INTEGERS = {"division": (LACKS["i"]["division"][0], "cast first, e.g. x.double()")}


class Tensors(Family):
    """Tensors of one dtype on one device."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.rounds = dtype in _HALVES
        self.computed = torch.float32 if self.rounds else dtype
        self.lacks = LACKS["c"] if dtype.is_complex else {} if dtype.is_floating_point else _INTEGERS

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def holds(self, number: Number) -> bool:
        try:
            held = torch.tensor(float(number), dtype=self.computed)
        except OverflowError:
            return False
        return bool(torch.isfinite(held) and held != 0)

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        if not isinstance(array, torch.Tensor) or (array.dtype, array.device) != (self.dtype, self.device):
            other = f"{array.dtype} on {array.device}" if isinstance(array, torch.Tensor) else type(array).__name__
            raise refusal(ScalarError, name, argument, array, *unlike(other, f"{self.dtype} on {self.device}"))
        refuse_layout(name, argument, array)
        return array.to(self.computed).reshape(-1)

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        return cells.to(self.dtype).reshape(shape)

    def constant(self, number: Any) -> Cells:
        if not isinstance(number, np.ndarray):
            number = int(number) if self.lacks is _INTEGERS else float(number)
        return torch.as_tensor(number, dtype=self.computed, device=self.device)

    def number(self, name: str, argument: str, number: Number) -> Cells:
        return super().number(name, argument, self._within(self.computed, name, argument, number))

    def filled(self, name: str, argument: str, number: Number, shape: tuple[int, ...]) -> Any:
        return super().filled(name, argument, self._within(self.dtype, name, argument, number), shape)

    def _within(self, dtype: torch.dtype, name: str, argument: str, number: Number) -> Number:
        """The number, where a dtype has it in its range; torch would wrap it, or make it infinite,
        without a word."""
        range_of = torch.iinfo(dtype) if self.lacks is _INTEGERS else torch.finfo(dtype)
        infinite = isinstance(number, float) and not math.isfinite(number)
        if not infinite and not range_of.min <= number <= range_of.max:
            raise unheld(name, argument, number)
        return number

    def zeros(self, size: int) -> Cells:
        return torch.zeros(size, dtype=self.computed, device=self.device)

    def take(self, cells: Cells, index: Any) -> Cells:
        return cells[torch.as_tensor(index, device=self.device)]

    def join(self, blocks: Sequence[Cells]) -> Cells:
        return torch.cat([self.zeros(0), *blocks])

    def interleave(self, columns: Sequence[Cells]) -> Cells:
        return torch.stack(list(columns), dim=-1).reshape(-1)

    def add_at(self, target: Cells, index: Any, values: Cells) -> Cells:
        places = torch.as_tensor(index, device=self.device)
        if self.device.type == "cpu":
            return target.index_add(0, places, values)
        return target.index_put((places,), values, accumulate=True)  # sorts first; index_add would add atomically

    def gt(self, a: Cells, b: Cells) -> Mask:
        return torch.gt(a, b)

    def eq(self, a: Cells, b: Cells) -> Mask:
        return torch.eq(a, b)

    def is_nan(self, a: Cells) -> Mask:
        return torch.ne(a, a)

    def both(self, a: Mask, b: Mask) -> Mask:
        return self._mask(a) & self._mask(b)

    def either(self, a: Mask, b: Mask) -> Mask:
        return self._mask(a) | self._mask(b)

    def negate(self, a: Mask) -> Mask:
        return ~self._mask(a)

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        return torch.where(self._mask(mask), a, b)

    def exp(self, a: Cells) -> Cells:
        return torch.exp(a)

    def log(self, a: Cells) -> Cells:
        return torch.log(a)

    def sqrt(self, a: Cells) -> Cells:
        return torch.sqrt(a)

    def tanh(self, a: Cells) -> Cells:
        return torch.tanh(a)

    def erf(self, a: Cells) -> Cells:
        return torch.erf(a)

    def logistic(self, a: Cells) -> Cells:
        return torch.sigmoid(a)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        return torch.logaddexp(a, b)

    def power(self, a: Cells, exponent: Number) -> Cells:
        try:
            # no tensor: autograd would multiply the logarithm of a negative a by 0
            return torch.pow(a, self.constant(exponent) if self.lacks is _INTEGERS else float(exponent))
        except OverflowError:
            raise TooLong from None

    def still(self, a: Cells) -> Cells:
        return a.detach()

    def pivot(self, a: Cells) -> Cells:
        return torch.where(torch.isfinite(a), a, self.constant(0)).detach()

    def truth(self, mask: Mask) -> Any:
        return self._mask(mask).cpu().numpy()

    def _mask(self, mask: Mask) -> Any:
        return torch.as_tensor(mask, device=self.device)


def normal(kind: type) -> None:
    """No class of torch is a scalar: a tensor is an operand, and never an element."""


def refuse_layout(name: str, argument: str, x: Any) -> None:
    """Only tensors that hold every cell, in rows of one length, are read here."""
    refuse_nested(name, argument, x)
    if x.layout is not torch.strided:
        rule = f"the layout {x.layout} is not taken"
        raise refusal(ScalarError, name, argument, x, rule, "make it dense first: x.to_dense()")


def family_of(name: str, arguments: Sequence[str], operands: Sequence[Any]) -> Family:
    """The family of the first tensor among these operands; the others must fit it."""
    first = next(operand for operand in operands if isinstance(operand, torch.Tensor))
    narrow = first.is_floating_point() and first.dtype.itemsize < 2
    if first.dtype in _BARE or first.is_quantized or narrow:
        rule, remedy = f"{first.dtype} is not a scalar specgrad takes", "cast to a number first, e.g. x.float()"
        raise refusal(ScalarError, name, arguments[0], first, rule, remedy)
    return Tensors(first.dtype, first.device)
