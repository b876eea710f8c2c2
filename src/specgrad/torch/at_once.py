"""Pooling operators on ordinary tensors in eager calls: what `specgrad.max_pool(tensor, …)` and
`MaxPool(…)(tensor)` try first.

As in `routing`, what runs a call is decided once for tensors of equal shape, strides, dtype and
device. Torch's own kernel pools a small tensor on the CPU if one of torch's functions means the
same and `routing` chooses torch for that function. Otherwise our engines run. A call goes through
torch's dispatcher only if it is not plain (`eager`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import dispatch
from ..engines import REDUCTIONS, TWINS, has_bare_window, twin
from ..engines.torch_private import function_modes
from ..errors import SpecgradError
from ..ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, MaxPool
from . import eager, fast_path, prepared, routing
from .kernels import last_axes
from .routing import FLOATS, FUNCTIONS, MOST, Route

NAMES: dict[type[Any], tuple[str, tuple[str, ...]]] = {
    MaxPool: ("max_pool", ("kernel_size", "stride", "padding", "dilation", "ceil_mode")),
    AvgPool: (
        "avg_pool",
        ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    AdaptiveMaxPool: ("adaptive_max_pool", ("output_size",)),
    AdaptiveAvgPool: ("adaptive_avg_pool", ("output_size",)),
}
"""torch's functions, by the first part of their names, and their parameters in order."""
WHOLE: dict[type[Any], type[Any]] = {GlobalMaxPool: AdaptiveMaxPool, GlobalAvgPool: AdaptiveAvgPool}

_routes: dict[Any, Route] = {}


def at_once(op: Any, x: Tensor, indices: bool = False) -> Any:
    """The value on an ordinary tensor in an eager call, and with `indices` also the indices of the
    winners; NotImplemented for any other call."""
    if not eager.is_eager() or dispatch.forced() is not None:
        return NotImplemented
    try:
        key = op, indices, routing.SMALL, x.shape, x.stride(), x.dtype, x.device
    except RuntimeError:  # a tensor without strides
        return NotImplemented
    route = _routes.get(key) or add(key, op, x, indices)
    wanted = x.requires_grad and torch.is_grad_enabled()
    if route.torchs[wanted] and function_modes() == 0 and not x.is_neg():  # torch's max_pool1d loses the sign
        return route.aten(x)
    return route.ours(x) if eager.is_ordinary(x) else NotImplemented


def add(key: Any, op: Any, x: Tensor, indices: bool) -> Route:
    """A new route."""
    if len(_routes) >= MOST:
        _routes.clear()
    return _routes.setdefault(key, find(op, x, indices) or GENERAL)


GENERAL = Route(lambda x: NotImplemented, (False, False))


def find(op: Any, x: Tensor, indices: bool) -> Route | None:
    """Decide what runs an operator on tensors like x; None: `apply` does."""
    kind, shape = type(op), tuple(x.shape)
    if kind not in REDUCTIONS and kind not in TWINS:
        return None
    if x.layout is not torch.strided or x.is_meta or x.dtype not in FLOATS or x.numel() == 0:
        return None
    if indices and op.ties != "first":
        return None
    try:
        op.output_shape(shape)
    except SpecgradError:
        return None
    base, sign = twin(op) if kind in TWINS else (op, 1)
    if sign < 0 and has_bare_window(op, shape):
        return None
    call = prepared.find(base, x) or functools.partial(fast_path.run, base, last=last_axes(x))
    ours = functools.partial(call, indices=True) if indices else call
    aten, torchs = torchs_own(base, x, indices)
    return Route(signed(ours, sign), torchs, aten and signed(aten, sign))


def signed(call: Callable[[Tensor], Any], sign: int) -> Callable[[Tensor], Any]:
    """A call of an operator as its twin: the other operator of the negated tensor, negated."""
    if sign > 0:
        return call

    def turned(x: Tensor) -> Any:
        found = call(-x)
        return (-found[0], found[1]) if isinstance(found, tuple) else -found

    return turned


def torchs_own(op: Any, x: Tensor, indices: bool) -> tuple[Callable[[Tensor], Any] | None, tuple[bool, bool]]:
    """torch's own kernel that means the same as an operator, or None; and whether torch runs the
    call, without and with a gradient."""
    none, rank = (None, (False, False)), op.spatial_rank()
    drops = not getattr(op, "keepdims", True)
    if type(op) in WHOLE:
        ties = {"ties": op.ties} if hasattr(op, "ties") else {}
        op = WHOLE[type(op)]((1,) * rank, axes=op.axes, **ties)
    name, parameters = NAMES.get(type(op), ("", ()))
    function = FUNCTIONS.get(f"{name}{rank}d")
    # our results are channels_last in more cases than torch's
    if function is None or not x.is_cpu or not (rank == 2 or x.is_contiguous()):
        return none
    if rank == 1:  # torch's average of one axis has no divisor; `is_same` compares ours
        parameters = tuple(field for field in parameters if field != "divisor_override")
    arguments = tuple(as_torch_writes(op, field) for field in parameters)
    asked = function.asked(x.shape[-rank:], *arguments)
    if asked is None or asked.op is None or asked.misses or not is_same(op, asked.op, x.ndim):
        return none
    route = function.route(x, arguments, indices)
    if route.aten is None:
        return none
    one = getattr(op, "ties", "first") == "first"
    own = functools.partial(route.aten, given=arguments)
    return (lambda t: own(t).flatten(-rank - 1)) if drops else own, (route.torchs[0], route.torchs[1] and one)


def as_torch_writes(op: Any, field: str) -> Any:
    """A parameter in torch's form: one number if all axes have the same, because torch parses a
    number faster than a tuple. None for padding that torch does not have."""
    value = getattr(op, field)
    if field == "padding":
        value = None if value == "same" or any(a != b for a, b in value) else tuple(a for a, _ in value)
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


def is_same(op: Any, other: Any, ndim: int) -> bool:
    """Whether the operator that torch's arguments describe computes the same values as ours."""
    axes = op.axes
    if axes is not None and tuple(a - ndim if a >= 0 else a for a in axes) != other.axes:
        return False
    alike = {field: getattr(other, field) for field in ("axes", "ties") if hasattr(other, field)}
    return bool(dataclasses.replace(op, **alike) == other)


for kind in eager.CLASSES:
    dispatch.shortcuts["value", kind] = dispatch.shortcuts["indices", kind] = at_once
