"""Plain eager calls run their kernel without torch's dispatcher, which takes longer than pooling a
small image.

A call is plain if only ordinary autograd takes part in it (`eager`). Every other call goes through
the registered operators of `operators`, and so does a backward that may be differentiated again.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from ..engines import reduction
from ..engines.torch_private import is_profiled
from ..scalars.torch import refuse_layout
from . import kernels, saved_tensors
from .eager import is_plain
from .operators import FAMILIES, encoded
from .prepared import find


def pooled(op: Any, x: Tensor) -> Any:
    """The value of a pooling operator."""
    if is_plain(x):
        return run(op, x)
    refuse_layout(op.name, "x", x)
    return FAMILIES[type(op)].value(x, kernels.last_axes(x), *encoded(op, x.ndim))


def run(op: Any, x: Tensor, indices: bool = False, last: int | None = None) -> Any:
    """The value on a plain tensor, and with `indices` also the indices of the winners of a maximum
    with ties "first". `last` as in `operators`; by default the layout of x decides."""
    call = find(op, x, last)
    if call is not None:
        return call(x, indices)
    last = kernels.last_axes(x) if last is None else last
    with shown(op, "forward"):
        if x.requires_grad and torch.is_grad_enabled():
            return Pooled.apply(x, op, last, indices)
        return (kernels.with_places if indices else kernels.forward)(op, x, last)


def shown(op: Any, rule: str) -> Any:
    """A context in which a profiler records a rule of an operator under its name."""
    return torch.profiler.record_function(f"specgrad::{op.name}_{rule}") if is_profiled() else _NOTHING


_NOTHING = contextlib.nullcontext()


class Pooled(torch.autograd.Function):
    """A pooling operator in ordinary autograd, on the CPU engine or by the specification."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, op: Any, last: int, indices: bool) -> Any:
        ctx.rest = op, tuple(x.shape), last
        if kernels.reads_codes(op):
            value, codes = kernels.keep(op, x, last)
            if indices:
                places = kernels.places(op, codes, x, tuple(x.shape), last)
                ctx.mark_non_differentiable(places)
                ctx.save_for_backward(codes, places)  # then backward raises if places were changed, as torch's
                return value, places
            ctx.save_for_backward(codes)
        elif reduction(op) == "mean":
            value = kernels.forward(op, x, last)
            ctx.save_for_backward(None)
        else:
            value, saved, ctx.nest = saved_tensors.keep(op, x)
            ctx.save_for_backward(*saved)
            value = kernels.laid_out(value, last)
        return value

    @staticmethod
    def backward(ctx: Any, gy: Tensor, *_: Any) -> Any:
        saved, (op, shape, last) = ctx.saved_tensors, ctx.rest  # read once: checkpoint allows one read
        source = saved[0]
        if not is_plain(gy) or torch.is_grad_enabled():  # may be transformed or differentiated again
            gx = FAMILIES[type(op)].pull(gy, source, list(shape), last, *encoded(op, len(shape)))
        else:
            with shown(op, "pull"):
                if hasattr(ctx, "nest"):
                    gx = kernels.laid_out(saved_tensors.pull(op, gy, saved, ctx.nest, last), last)
                else:
                    gx = kernels.pull(op, gy, source, shape, last)
        return gx, None, None, None
