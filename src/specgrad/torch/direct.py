"""The short way: a plain eager call runs its kernel without torch's dispatcher, which costs more than pooling a small image.

Taken only where nothing but ordinary autograd could notice: no transform, mode, trace or dual level is active, and the operand is a
plain tensor. Everything else goes through the registered operators, and so does a backward that is to be differentiated again.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

from ..engines import reduction
from ..scalars.torch import refuse_layout
from . import keeping, kernels
from .operators import FAMILIES, encoded

CLASSES = (Tensor, torch.nn.Parameter)


@functools.cache
def _keys_of_plain(device: str) -> frozenset[int]:
    """The dispatch keys of a tensor that is nothing else besides: no wrapper of a transform, no view of negated numbers."""
    found = set()
    for inference in (False, True):
        with torch.inference_mode(inference):
            found.add(_C._dispatch_keys(torch.empty(0, device=device)).raw_repr())
    return frozenset(found)


def is_plain(x: Tensor) -> bool:
    """Whether a call on this tensor is noticed by nothing but ordinary autograd."""
    return (
        not torch.compiler.is_compiling()
        and type(x) in CLASSES
        and not x.is_meta
        and _C._functorch.peek_interpreter_stack() is None
        and _C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
        and _C._get_tracing_state() is None
        and _C._dispatch_keys(x).raw_repr() in _keys_of_plain(x.device.type)  # asked last: what is plain is learnt here
    )


def pooled(op: Any, x: Tensor) -> Any:
    """The value of a pooling operator."""
    if is_plain(x):
        return run(op, x)
    refuse_layout(op.name, "x", x)
    return FAMILIES[type(op)].value(x, kernels.last_axes(x), *encoded(op, x.ndim))


def run(op: Any, x: Tensor, indices: bool = False, last: int = -1) -> Any:
    """The value on a plain tensor, and if asked for the places of the winners of a maximum that has one of each window."""
    last = kernels.last_axes(x) if last < 0 else last
    if x.requires_grad and torch.is_grad_enabled():
        return Pooled.apply(x, op, last, indices)
    return (kernels.with_places if indices else kernels.forward)(op, x, last)


class Pooled(torch.autograd.Function):
    """A pooling operator in ordinary autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, op: Any, last: int, indices: bool) -> Any:
        ctx.rest = op, tuple(x.shape), last
        if kernels.reads_codes(op):
            value, codes = kernels.keep(op, x, last)
            if indices:
                places = kernels.places(op, codes, x, tuple(x.shape), last)
                ctx.mark_non_differentiable(places)
                ctx.save_for_backward(
                    codes, places
                )  # as torch does, which refuses to go back once they were written to
                return value, places
            ctx.save_for_backward(codes)
        elif reduction(op) == "mean":
            value = kernels.forward(op, x, last)
            ctx.save_for_backward(None)
        else:
            value, saved, ctx.nest = keeping.keep(op, x)
            ctx.save_for_backward(*saved)
            value = kernels.laid_out(value, last)
        return value

    @staticmethod
    def backward(ctx: Any, gy: Tensor, *_: Any) -> Any:
        (source, *_), (op, shape, last) = ctx.saved_tensors, ctx.rest
        if not is_plain(gy) or torch.is_grad_enabled():  # to be transformed or differentiated again
            gx = FAMILIES[type(op)].pull(gy, source, list(shape), last, *encoded(op, len(shape)))
        elif hasattr(ctx, "nest"):
            gx = kernels.laid_out(keeping.pull(op, gy, ctx.saved_tensors, ctx.nest, last), last)
        else:
            gx = kernels.pull(op, gy, source, shape, last)
        return gx, None, None, None
