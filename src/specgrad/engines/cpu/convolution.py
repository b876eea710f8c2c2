"""Convolution, transposed convolution and linear maps of NumPy floats: operands as `products` takes
them, and back.

Half floats are computed in float32 and rounded once. Peak extra memory of a call, beyond a band per
thread and the packed weight: for half floats a copy of each operand and result in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...dispatch import check_out, write
from ...memory import empty, room
from ...ops.conv import Bilinear, Conv, ConvTranspose, Linear
from ...scalars.floats import admitted
from ...sizes import refuse_result
from .. import reference
from .bilinear import plan
from .fallback import or_by_statement
from .operands import handed_over, is_float, is_plain_array, rounded, wide
from .products import product_of, weight_of

TAKES = "convolution, transposed convolution and linear maps of NumPy arrays: float64, float32, float16 and bfloat16"

CLASSES = (Conv, ConvTranspose, Linear)

Array = npt.NDArray[Any]


class Call:
    """An operator on float32 or float64 operands, which it sees as (images, groups, channels,
    cells)."""

    def __init__(self, op: Bilinear, x: Array, weight: Array) -> None:
        self.plan = p = plan(op, x.shape, weight.shape)
        self.transposed = type(op) is ConvTranspose
        wide = (p.images, p.groups, p.wide_channels, p.wide_cells)
        narrow = (p.images, p.groups, p.narrow_channels, p.narrow_cells)
        self.read, self.written = (narrow, wide) if self.transposed else (wide, narrow)
        self.x, self.weight = x, np.ascontiguousarray(weight)

    def value(
        self, out: Array, bias: Array | None = None, x: Array | None = None, weight: Array | None = None
    ) -> Array:
        """The operator's value, into `out`; at another x or weight where one is given."""
        cells = np.ascontiguousarray(self.x if x is None else x).reshape(self.read)
        factors = self.weight if weight is None else np.ascontiguousarray(weight)
        product_of(self.plan, not self.transposed, cells, factors, bias, out.reshape(self.written))
        return out

    def pull(self, gy: Array, out: Array) -> Array:
        """The input's cotangent, of an output's as it is seen."""
        product_of(self.plan, self.transposed, gy, self.weight, None, out.reshape(self.read))
        return out

    def pull_weight(self, gy: Array, out: Array) -> Array:
        """The weight's cotangent, likewise."""
        x = np.ascontiguousarray(self.x).reshape(self.read)
        return weight_of(self.plan, gy, x, out) if self.transposed else weight_of(self.plan, x, gy, out)

    def pull_bias(self, gy: Array, out: Array) -> Array:
        """The bias's cotangent, likewise."""
        images, groups, channels, cells = self.written
        return gy.reshape(images, groups * channels, cells).sum(axis=(0, 2), dtype=gy.dtype, out=out)


def refuses(op: Bilinear, operands: tuple[Any, ...]) -> str | None:
    """Why this engine does not run the operator on these operands, or None."""
    kinds = {getattr(operand, "dtype", None) for operand in operands}
    if len(kinds) > 1 or not all(type(operand) is np.ndarray for operand in operands):
        return "operands are not NumPy arrays of one dtype"
    (dtype,) = kinds
    return None if dtype is not None and is_float(dtype) else f"{dtype} is not float16, bfloat16, float32 or float64"


@or_by_statement
def forward(op: Bilinear, operands: tuple[Any, ...], out: Any = None) -> Any:
    """The value; half floats are computed in float32 and rounded once."""
    x = operands[0]
    shape, dtype = op.output_shape(*(operand.shape for operand in operands)), x.dtype
    refuse_result(op.name, shape, dtype.itemsize)
    if out is not None:
        check_out(op.name, out, shape, dtype)
    given = [wide(operand, dtype) for operand in operands]
    target = target_for(out, shape, given[0].dtype, operands)
    if target.size:
        Call(op, given[0], given[1]).value(target, *given[2:])
    return rounded(target, dtype) if out is None else handed_over(target, out)


def target_for(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], read: tuple[Array, ...]) -> Array:
    """What a result is written into: `out` where its memory will do and nothing that is read lies
    in it; else an array of its own."""
    if out is None:
        return empty(shape, dtype)
    direct = out.dtype == dtype and out.flags.carray and not any(np.may_share_memory(out, x) for x in read)
    return out if direct else room(shape, dtype)


def keep(op: Bilinear, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    """The value; the derivatives need nothing of it."""
    return forward(op, operands, out), None


def recall(op: Bilinear, operands: tuple[Any, ...]) -> None:
    """Nothing."""


@or_by_statement
def push(op: Bilinear, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    """dy = dx ∗ w + x ∗ dw + db."""
    if not all(t is None or is_plain_array(t) for t in tangents):
        return reference.push(op, operands, reference.recall(op, operands), tangents)
    dtype = operands[0].dtype
    x, weight = (wide(operand, dtype) for operand in operands[:2])
    moved = [
        t if t is None else wide(admitted(dtype, op.name, f"tangent of {slot.name}", t), dtype)
        for slot, t in zip(op.slots, tangents, strict=False)
    ]
    total = np.zeros(op.output_shape(*(operand.shape for operand in operands)), x.dtype)
    if total.size:
        call, part = Call(op, x, weight), room(total.shape, total.dtype)
        if moved[0] is not None:
            total += call.value(part, x=moved[0])
        if moved[1] is not None:
            total += call.value(part, weight=moved[1])
        if len(moved) == 3 and moved[2] is not None:
            total += moved[2].reshape(-1, *[1] * len(op.weight_kernel()[0]))
    return write(op.name, rounded(total, dtype), out)


@or_by_statement
def pull(
    op: Bilinear,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: tuple[Any, ...] | None = None,
) -> tuple[Any, ...]:
    """The cotangents of input, weight and bias, as far as they are wanted."""
    if not is_plain_array(cotangent):
        return reference.pull(op, operands, reference.recall(op, operands), cotangent, wanted)
    dtype = operands[0].dtype
    gy = np.ascontiguousarray(wide(admitted(dtype, op.name, "cotangent", cotangent), dtype))
    targets = out or (None,) * len(operands)
    given = tuple(wide(operand, dtype) for operand in operands)
    call = Call(op, *given[:2])
    arriving = gy.reshape(call.written)
    pulled: list[Any] = []
    for slot, (operand, target) in enumerate(zip(given, targets, strict=True)):
        if wanted is not None and not wanted[slot]:
            pulled.append(None)
            continue
        part = target_for(target, operand.shape, operand.dtype, (*operands, gy))
        if gy.size:
            (call.pull, call.pull_weight, call.pull_bias)[slot](arriving, part)
        else:
            part[...] = 0
        pulled.append(rounded(part, dtype) if target is None else handed_over(part, target))
    return tuple(pulled)
