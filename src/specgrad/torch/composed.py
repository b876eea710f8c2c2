"""Operators that have neither a kernel of ours nor an aten call: they run by their own definition,
composed of aten calls, or on the CPU engine where it takes them and nothing else takes part.

The value is `Operator.value`, and both derivatives come from `Operator.row`, as in every engine.
Autograd would differentiate the value instead, and at a tie the two may differ. Higher derivatives
are autograd's derivatives of the row. All transforms of torch.func work; torch.compile runs such a
call as eager Python.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import dispatch
from ..engines import cpu, reference
from ..engines.torch_private import with_outer_tangents
from . import kernels
from .eager import is_plain


class Stated(torch.autograd.Function):
    """An operator on tensors, by its value and its row."""

    generate_vmap_rule = True

    @staticmethod
    def forward(op: Any, *operands: Tensor) -> Tensor:
        if (arrays := _arrays(op, operands)) is not None:
            with kernels.OnTorchsThreads():
                return kernels.as_tensor(cpu.forward(op, arrays))
        value: Tensor = reference.forward(op, operands)
        return value.clone() if value._is_view() else value  # autograd forbids writes to views

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.op, *operands = inputs
        ctx.save_for_backward(*operands)
        ctx.save_for_forward(*operands)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        op, operands, wanted = ctx.op, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if not torch.is_grad_enabled() and (arrays := _arrays(op, operands, cotangent)) is not None:
            *xs, arriving = arrays
            with kernels.OnTorchsThreads():
                pulled = cpu.pull(op, tuple(xs), cpu.recall(op, tuple(xs)), arriving, wanted)
            return None, *(None if p is None else kernels.as_tensor(p) for p in pulled)
        pulled = reference.pull(op, operands, reference.recall(op, operands), cotangent.conj(), wanted)
        return None, *(None if p is None else p.conj() for p in pulled)  # torch's are of the conjugate transpose

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Tensor:
        op = ctx.op

        def rule(operands: tuple[Any, ...]) -> Any:
            return reference.push(op, operands, reference.recall(op, operands), tangents)

        moved: Tensor = with_outer_tangents(rule, ctx.saved_tensors)
        return moved


def _arrays(op: Any, operands: tuple[Tensor, ...], *directions: Tensor) -> tuple[Any, ...] | None:
    """The memory of operands, and of directions, for the CPU engine; None if it does not take
    them, or if a transform takes part."""
    tensors = (*operands, *directions)
    if type(op) not in cpu.PARTS or not all(is_plain(x) and kernels.engine(op, x) is kernels.Arrays for x in tensors):
        return None
    arrays = tuple(map(kernels.as_array, tensors))
    return arrays if cpu.refuses(op, arrays[: len(operands)]) is None else None


def value(op: Any, operands: tuple[Any, ...]) -> Tensor:
    """The value, which torch can differentiate and transform."""
    if not torch.compiler.is_compiling() and _arrays(op, operands) is None:
        dispatch.warn_if_slow(op, operands, [f"torch: it has no kernel for {type(op).__name__}"], stacklevel=7)
    made: Tensor = _eagerly(op, *operands)
    return made


_eagerly = torch.compiler.disable(Stated.apply)
