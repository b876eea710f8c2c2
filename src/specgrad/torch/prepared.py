"""Prepared calls: pooling of CUDA tensors with everything decided once for tensors of one shape,
layout, dtype and device. A call then only allocates its results and launches kernels.

`find` is for plain tensors (`eager`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..engines import REDUCTIONS, reduction
from ..engines.torch_private import is_dual, is_profiled
from . import kernels
from .eager import is_ordinary
from .operators import FAMILIES, encoded

MOST = 4096  # cached calls
_found: dict[Any, Prepared] = {}


class Prepared:
    """An operator on tensors of one geometry: its programs, each made at its first use, and its
    autograd function."""

    __slots__ = ("apply", "device", "dtype", "last", "name", "op", "programs", "shape", "steps", "what")

    def __init__(self, op: Any, x: Tensor, last: int) -> None:
        self.op, self.last, self.name = op, last, f"specgrad::{op.name}"
        self.shape, self.steps, self.dtype, self.device = tuple(x.shape), x.stride(), x.dtype, x.device
        self.what = reduction(op)
        self.programs: dict[Any, Any] = {}
        # the `apply` of C++, without the search for transforms in Function.apply
        self.apply: Any = super(torch.autograd.Function, NODES[type(op)]).apply  # type: ignore[misc]

    def program(self, rule: Any) -> Any:
        """Make the program of a rule, which is a pair of a name and the dtype of the cotangent. Its
        results have the layout that `last` requires."""
        name, moved = rule
        made = kernels.gpu().prepare(self.op, name, self.shape, self.steps, self.dtype, self.device, moved)
        results = made.memory[: made.results]
        lies = all(kernels.empty_strides(shape, self.last) == steps for shape, steps, _ in results)
        found = made if lies else lambda *operands: [kernels.laid_out(part, self.last) for part in made(*operands)]
        self.programs[rule] = found
        return found

    def run(self, rule: Any, *operands: Tensor) -> list[Tensor]:
        """The results of a rule."""
        program = self.programs.get(rule) or self.program(rule)
        if is_profiled():
            with torch.profiler.record_function(f"{self.name}_{rule[0]}"):
                results: list[Tensor] = program(*operands)
            return results
        return program(*operands)  # type: ignore[no-any-return]

    def takes(self, gy: Tensor) -> bool:
        """Whether only ordinary autograd takes part in the backward of this cotangent."""
        return not is_dual() and type(gy) is Tensor and is_ordinary(gy)

    def __call__(self, x: Tensor, indices: bool = False) -> Any:
        """The value, and with `indices` also the indices of a maximum's winners."""
        if x.requires_grad and torch.is_grad_enabled():
            return self.apply(x, self, indices)
        return tuple(self.run(INDICES, x)) if indices else self.run(FORWARD, x)[0]

    def prepare(self) -> None:
        """Make the programs of a training step in advance: while a CUDA graph is captured, nothing
        can be copied to the device."""
        for rule in (FORWARD, KEEP, ("pull", self.dtype)):
            self.program(rule)


FORWARD, KEEP, INDICES, PLACES = (("forward", None), ("keep", None), ("indices", None), ("places", None))


class Node(torch.autograd.Function):
    """A pooling operator in ordinary autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, call: Prepared, indices: bool) -> Any:
        ctx.call = call
        y, *kept = call.run(KEEP, x)
        if call.what == "mean":
            ctx.save_for_backward(None)
        elif not kernels.reads_codes(call.op):
            ctx.save_for_backward(x, *((y,) if call.what == "max" else ()), *kept)
        elif not indices:
            ctx.save_for_backward(*kept)
        else:
            (places,) = call.run(PLACES, *kept)
            ctx.mark_non_differentiable(places)
            ctx.save_for_backward(*kept, places)  # then backward raises if places were changed, as torch's
            return y, places
        return y

    @staticmethod
    def backward(ctx: Any, gy: Tensor, *_: Any) -> Any:
        saved, call = ctx.saved_tensors, ctx.call
        if torch.is_grad_enabled() or not call.takes(gy):  # may be differentiated again or transformed
            op, shape = call.op, call.shape
            gx = FAMILIES[type(op)].pull(gy, saved[0], list(shape), call.last, *encoded(op, len(shape)))
        elif saved[0] is None:
            gx = call.run(("pull", gy.dtype), gy)[0]
        elif kernels.reads_codes(call.op):
            gx = call.run(("pull", gy.dtype), gy, saved[0])[0]
        else:
            x, *kept = saved
            gx = call.run(("pull", gy.dtype), x, gy, *kept)[0]
        return gx, None, None


NODES = {
    kind: type(kind.__name__, (Node,), {"__doc__": f"{kind.__name__} in ordinary autograd."}) for kind in REDUCTIONS
}
"""The autograd function of each operator. Profilers and `grad_fn` show the name of this class."""


def find(op: Any, x: Tensor, last: int | None = None) -> Prepared | None:
    """The prepared call of an operator on tensors like x, or None if the GPU engine does not take
    them. `last` says whether results are channels_last; by default the layout of x decides."""
    if not x.is_cuda:
        return None
    key = op, x.shape, x.stride(), x.dtype, x.device, last
    found: Prepared | None = _found.get(key)
    if found is None and kernels.engine(op, x) is kernels.Device:
        if len(_found) >= MOST:
            _found.clear()
        found = _found[key] = Prepared(op, x, kernels.last_axes(x) if last is None else last)
    return found
