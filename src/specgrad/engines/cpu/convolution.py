"""Convolution, transposed convolution and linear maps of NumPy floats: operands as `products` takes
them, and back.

Peak extra memory of a call, beyond a band per thread and the packed weight: for half floats a copy
of each operand and result in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory import room
from ...operator import output_shape
from ...ops.conv import Bilinear, Conv, ConvTranspose, Linear
from .bilinear import plan
from .network import RULES, Array, Rule
from .products import product_of, weight_of


class Call:
    """An operator on operands of some shapes, seen as (images, groups, channels, cells)."""

    def __init__(self, op: Bilinear, x: Array, weight: Array) -> None:
        self.plan = p = plan(op, x.shape, weight.shape)
        self.transposed = type(op) is ConvTranspose
        wide = (p.images, p.groups, p.wide_channels, p.wide_cells)
        narrow = (p.images, p.groups, p.narrow_channels, p.narrow_cells)
        self.read, self.written = (narrow, wide) if self.transposed else (wide, narrow)

    def value(self, x: Array, weight: Array, bias: Array | None, out: Array) -> None:
        x, out = laid(x).reshape(self.read), out.reshape(self.written)
        product_of(self.plan, not self.transposed, x, laid(weight), None if bias is None else laid(bias), out)

    def pull(self, weight: Array, gy: Array, out: Array) -> None:
        """The input's cotangent."""
        gy, out = laid(gy).reshape(self.written), out.reshape(self.read)
        product_of(self.plan, self.transposed, gy, laid(weight), None, out)

    def pull_weight(self, x: Array, gy: Array, out: Array) -> None:
        """The weight's cotangent."""
        x, gy = laid(x).reshape(self.read), laid(gy).reshape(self.written)
        weight_of(self.plan, *((gy, x) if self.transposed else (x, gy)), out)

    def pull_bias(self, gy: Array, out: Array) -> None:
        """The bias's cotangent."""
        images, groups, channels, cells = self.written
        gy.reshape(images, groups * channels, cells).sum(axis=(0, 2), dtype=gy.dtype, out=out)


def laid(array: Array) -> Array:
    """The cells of an array, end to end."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy()


class _Bilinear(Rule):
    def value(self, op: Any, xs: Any, out: Array) -> Any:
        x, weight, *bias = xs
        if out.size:
            target = _apart(out, xs)
            Call(op, x, weight).value(x, weight, bias[0] if bias else None, target)
            _copy(target, out)

    def push(self, op: Any, xs: Any, kept: Any, slot: int, dx: Array) -> Any:
        if slot == 2:
            return dx.reshape(-1, *[1] * len(op.weight_kernel()[0]))
        x, weight = (dx if s == slot else one for s, one in enumerate(xs[:2]))
        moved = room(output_shape(op, tuple([one.shape for one in xs])), dx.dtype)
        if moved.size:
            Call(op, x, weight).value(x, weight, None, moved)
        return moved

    def pull_into(self, op: Any, xs: Any, kept: Any, slot: int, g: Array, target: Array) -> None:
        if not g.size:
            target[...] = 0
            return
        call, part = Call(op, *xs[:2]), _apart(target, (*xs, g))
        if slot == 2:
            call.pull_bias(g, part)
        else:
            (call.pull, call.pull_weight)[slot](xs[1 - slot], g, part)
        _copy(part, target)


def _apart(out: Array, read: tuple[Array, ...]) -> Array:
    """What a result is written into: `out` where its memory will do and nothing that is read lies
    in it; else an array of its own."""
    is_apart = out.flags.carray and not any(np.may_share_memory(out, x) for x in read)
    return out if is_apart else room(out.shape, out.dtype)


def _copy(made: Array, out: Array) -> None:
    if made is not out:
        np.copyto(out, made)


RULES.update(dict.fromkeys((Conv, ConvTranspose, Linear), _Bilinear()))
