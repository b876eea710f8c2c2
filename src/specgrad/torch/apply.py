"""Every operator on tensors, by the interface of an engine: what `specgrad.max_pool(tensor, …)` and
`MaxPool(…)(tensor)` call.

Pooling runs by the registered operators of `operators`. Convolution runs by aten for ranks 1 to 3,
and higher ranks are built from these axis by axis. The other classes of `BY_ATEN` are aten calls,
and any other class runs by its own definition (`composed`). Torch can differentiate and transform
all of them. aten's convolution multiplies padding by the weight, so an infinite weight over padding
gives NaN here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its customary name
from torch import Tensor

from .. import dispatch, ops
from ..engines import TWINS, has_bare_window, reduction, reference, twin
from ..errors import ArgumentError, ScalarError, refusal
from ..scalars import find_family
from ..scalars.base import unlike
from ..scalars.torch import refuse_layout
from . import composed, kernels
from .eager import is_plain
from .fast_path import pooled
from .operators import FAMILIES, HALVES, encoded

Operands = tuple[Any, ...]
BILINEAR = (ops.Conv, ops.ConvTranspose, ops.Linear)


def reads(operands: Operands) -> bool:
    """Whether torch.compile is tracing a call on these operands."""
    return torch.compiler.is_compiling() and all(isinstance(x, Tensor) for x in operands)


def forward(op: Any, operands: Operands, out: Any = None) -> Any:
    """The value; copied into `out` where one is given."""
    if type(op) in FAMILIES:
        value = pooled(op, operands[0])
    else:
        value = _by_aten(op, *operands) if type(op) in BY_ATEN else composed.value(op, operands)
    if out is None:
        return value
    if not isinstance(out, Tensor) or (out.shape, out.dtype, out.device) != (value.shape, value.dtype, value.device):
        rule = f"must be a {value.dtype} tensor of shape {tuple(value.shape)} on {value.device}"
        raise refusal(ArgumentError, op.name, "out", out, rule, "allocate it with torch.empty")
    return out.copy_(value)


def keep(op: Any, operands: Operands) -> tuple[Any, Any]:
    """The value, and what the slopes are computed from."""
    if type(op) in FAMILIES and kernels.reads_codes(op):
        (x,) = operands
        value, codes = FAMILIES[type(op)].keep(x, kernels.last_axes(x), *encoded(op, x.ndim))
        return value, codes
    return forward(op, operands), recall(op, operands)


def recall(op: Any, operands: Operands) -> Any:
    if _is_stated(op, operands[0]):
        return reference.recall(op, operands)
    if type(op) in FAMILIES and kernels.reads_codes(op):
        return keep(op, operands)[1]
    return operands[0] if reduction(op) in ("max", "logsumexp") else None


def _is_stated(op: Any, x: Tensor) -> bool:
    """Whether the derivatives are computed from `Operator.row`: for classes that are in no table,
    and for integers."""
    return type(op) not in FAMILIES and (type(op) not in BY_ATEN or _is_exact(x))


def indices(op: Any, operands: Operands, out: Any = None) -> tuple[Any, Any]:
    """The value, and the winner's flat index in its spatial plane."""
    (x,) = operands
    if type(op) in TWINS and not _is_exact(x):
        other, sign = twin(op)
        return forward(op, operands, out), indices(other, (sign * x.detach(),))[1]
    if type(op) not in FAMILIES:
        return forward(op, operands, out), torch.from_numpy(reference.indices(op, operands)[1]).to(x.device)
    one = op if op.ties == "first" else dataclasses.replace(op, ties="first")
    value, codes = keep(one, operands)
    found = FAMILIES[type(one)].places(codes, x.detach(), list(x.shape), kernels.last_axes(x), *encoded(one, x.ndim))
    if one is not op or out is not None:
        value = forward(op, operands, out)
    return value, found


def push(op: Any, operands: Operands, kept: Any, tangents: Operands) -> Any:
    for slot, x, dx in zip(op.slots, operands, tangents, strict=False):
        _check_direction(op, f"tangent of {slot.name}", dx, x)
    if _is_stated(op, operands[0]):
        return reference.push(op, operands, kept, tangents)
    if type(op) in FAMILIES:
        (x,), (dx,) = operands, tangents
        dx = torch.zeros_like(x) if dx is None else dx
        return FAMILIES[type(op)].push(dx, kept, kernels.last_axes(x), *encoded(op, x.ndim))
    moved = [s for s, t in enumerate(tangents) if t is not None]
    return torch.func.jvp(
        _of_slots(op, operands, moved), tuple(_writable(operands[s]) for s in moved), tuple(tangents[s] for s in moved)
    )[1]


def pull(op: Any, operands: Operands, kept: Any, cotangent: Any, wanted: Any = None) -> Operands:
    _check_direction(op, "cotangent", cotangent, operands[0])
    if _is_stated(op, operands[0]):
        return reference.pull(op, operands, kept, cotangent, wanted)
    if type(op) in FAMILIES:
        (x,) = operands
        return (FAMILIES[type(op)].pull(cotangent, kept, list(x.shape), kernels.last_axes(x), *encoded(op, x.ndim)),)
    reached = [s for s in range(len(operands)) if op.slots[s].differentiable and (wanted is None or wanted[s])]
    back = torch.func.vjp(_of_slots(op, operands, reached), *(operands[s] for s in reached))[1]
    pulled = [t.conj().resolve_conj() for t in back(cotangent.conj())]  # torch's are of the conjugate transpose
    found = dict(zip(reached, pulled, strict=True))
    return tuple(found.get(s) for s in range(len(operands)))


def _writable(x: Tensor) -> Tensor:
    """The tensor with memory of its own for each cell, and no pending sign or conjugation: torch
    makes tangents that are laid out like it."""
    x = x.resolve_conj().resolve_neg()
    return x.clone(memory_format=torch.contiguous_format) if 0 in x.stride() else x


def _of_slots(op: Any, operands: Operands, slots: list[int]) -> Any:
    """The operator as a function of some of its operands."""

    def function(*moved: Any) -> Any:
        given = dict(zip(slots, moved, strict=True))
        return _by_aten(op, *(given.get(s, x) for s, x in enumerate(operands)))

    return function


def _by_aten(op: Any, *operands: Any) -> Any:
    x = operands[0]
    if not torch.compiler.is_compiling():  # there shapes may be symbolic and were checked before
        for slot, given in zip(op.slots, operands, strict=False):
            refuse_layout(op.name, slot.name, given)
        op.output_shape(*(tuple(given.shape) for given in operands))
        _check(op, operands)
    if type(op) in BILINEAR and _is_exact(x):  # which aten refuses
        return reference.forward(op, operands)
    if type(op) in BILINEAR and _is_cut_off(op, *operands):
        return _autocast(composed.value(op, operands))
    if x.dtype in HALVES and _rounds_between(op, x):
        wide = (given.float() if given.dtype in HALVES else given for given in operands)
        return BY_ATEN[type(op)](op, *wide).to(x.dtype)
    return BY_ATEN[type(op)](op, *operands)


def _is_exact(x: Tensor) -> bool:
    """Whether a tensor holds integers, which aten does not convolve or differentiate."""
    return not x.is_floating_point() and not x.is_complex()


def _is_cut_off(op: Any, x: Tensor, weight: Tensor, bias: Any = None) -> bool:
    """Whether aten refuses operands without cells, or its adjoint of a convolution of an empty
    batch is no function of them to autograd."""
    return not weight.numel() or (type(op) is ops.ConvTranspose and len(op.kernel_size) > 3 and not x.numel())


def _rounds_between(op: Any, x: Tensor) -> bool:
    """Whether aten rounds half floats between the steps of an operator: a sum and its bias, a
    square and its mean."""
    if type(op) in BILINEAR:
        return x.device.type == "cpu"
    return type(op) in (ops.CrossEntropy, ops.MseLoss) and not _autocasts(x)


def _autocast(y: Tensor) -> Tensor:
    """The result of a convolution in the dtype that autocast chooses, if it is on."""
    if y.dtype not in (torch.float32, *HALVES) or not _autocasts(y):
        return y
    return y.to(torch.get_autocast_dtype(y.device.type))


def _autocasts(x: Tensor) -> bool:
    """Whether autocast is on, so that torch chooses dtypes by its own rules."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _check(op: Any, operands: Operands) -> None:
    """Refuse tensors with dtypes that the operator does not take, with the same message as every
    other engine."""
    first = operands[0]
    for slot, x in zip(op.slots, operands, strict=False):
        if not slot.integer:
            find_family(op.name, [slot.name], [x]).require(op.name, slot.name, x, op.needs)
            _check_alike(op, slot.name, x, first)
        elif x.is_floating_point() or x.is_complex() or x.dtype is torch.bool:
            raise refusal(ScalarError, op.name, slot.name, x, "must hold integers", "cast first, e.g. x.long()")
        elif is_plain(x) and x.device.type == "cpu":  # on other devices torch's kernel checks values
            op.check(operands)


def _check_direction(op: Any, argument: str, given: Any, like: Tensor) -> None:
    """Refuse a tangent or cotangent that is not of its operand's kind; None is zero."""
    if given is None:
        return
    if not isinstance(given, Tensor):
        raise refusal(ScalarError, op.name, argument, given, *unlike(type(given).__name__, "Tensor"))
    _check_alike(op, argument, given, like)


def _check_alike(op: Any, argument: str, given: Tensor, like: Tensor) -> None:
    """Refuse tensors of two dtypes, except under autocast, or of two devices. aten would compute
    with some of these pairs."""
    if given.device != like.device or (given.dtype != like.dtype and not _autocasts(given)):
        words = unlike(f"{given.dtype} on {given.device}", f"{like.dtype} on {like.device}")
        raise refusal(ScalarError, op.name, argument, given, *words)


def _number(op: Any, x: Tensor, argument: str, number: Any) -> Any:
    """A number that is a parameter of an operator, as an int or float for aten."""
    if not torch.compiler.is_compiling():
        find_family(op.name, ["x"], [x]).number(op.name, argument, number)
    return int(number) if _is_exact(x) else float(number)


def _over(op: Any, x: Tensor) -> Any:
    return tuple(range(x.ndim)) if op.axis is None else op.axis


def _sum(op: Any, x: Tensor) -> Tensor:
    axes = _over(op, x)
    return x.sum(axes, keepdim=op.keepdims, dtype=x.dtype) if axes else x.clone()


def _mean(op: Any, x: Tensor) -> Tensor:
    axes = _over(op, x)
    return x.mean(axes, keepdim=op.keepdims) if axes else x.clone()


def _slice(op: Any, x: Tensor) -> Tensor:
    if any(isinstance(part, tuple) and (part[2] or 1) < 0 for part in op.index):
        return composed.value(op, (x,))  # aten has no negative steps
    return x[tuple(slice(*part) if isinstance(part, tuple) else part for part in op.index)]


def _take(op: Any, x: Tensor) -> Tensor:
    axis, indices = op.axis % x.ndim, torch.tensor(op.indices, dtype=torch.int64, device=x.device)
    chosen = x.index_select(axis, indices.reshape(-1) % max(x.shape[axis], 1))
    return chosen.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _pad(op: Any, x: Tensor) -> Tensor:
    if op.mode != "constant":  # aten pads some axes of some ranks only
        return composed.value(op, (x,))
    return F.pad(x, [p for pair in reversed(op.padding) for p in pair], value=_number(op, x, "value", op.fill))


def _twin_at(op: Any, shape: tuple[int, ...]) -> tuple[Any, int, bool]:
    """The operator's twin, its sign, and whether the sign is negative with a window of padding
    alone, whose value 0 must not become -0."""
    other, sign = twin(op)
    return other, sign, sign < 0 and has_bare_window(op, shape)


_known_twin = functools.lru_cache(maxsize=256)(_twin_at)


def _traced_twin(op: Any, shape: tuple[Any, ...]) -> tuple[Any, int, bool]:
    """The same by comparisons of lengths alone, which torch.compile can trace. The last answer may
    be True without need."""
    other, sign = twin(op)
    axes = op.spatial(tuple(shape[p] for p in op.positions(shape)))
    return other, sign, sign < 0 and True in [axis.may_miss for axis in axes]


def _twin(op: Any, x: Tensor) -> Any:
    find = _traced_twin if torch.compiler.is_compiling() else _known_twin
    other, sign, is_bare = find(op, tuple(x.shape))
    if is_bare or not x.is_floating_point():
        return composed.value(op, (x,))
    return pooled(other, x) if sign > 0 else -pooled(other, -x)


def _max_unpool(op: Any, y: Tensor, indices: Tensor) -> Tensor:
    batch, cells = y.shape[: y.ndim - len(op.output_size)], math.prod(op.output_size)
    flat = y.reshape((*batch, math.prod(y.shape[len(batch) :])))
    at = indices.reshape(flat.shape).long()
    at = torch.where(at < 0, cells, at)  # an extra cell for the values without an index
    numbers = torch.arange(flat.shape[-1], device=y.device).expand_as(at)
    last = torch.full((*batch, cells + 1), -1, device=y.device).scatter_reduce(-1, at, numbers, "amax")
    chosen = torch.where(last.gather(-1, at) == numbers, flat, 0)
    filled = flat.new_zeros((*batch, cells + 1)).scatter_add(-1, at, chosen)
    return filled[..., :cells].reshape((*batch, *op.output_size))


def _cross_entropy(op: Any, logits: Tensor, labels: Tensor) -> Tensor:
    rows, none = logits.reshape(-1, logits.shape[-1]), torch.iinfo(torch.int64).min  # ignores no label
    return F.cross_entropy(rows, labels.reshape(-1).long(), ignore_index=none)


def _conv(op: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = len(op.kernel_size)
    if rank == 0:  # rank 1 over one cell
        return _conv(ops.Conv((1,), groups=op.groups), x[..., None], weight[..., None], bias)[..., 0]
    channel = x.ndim - rank - 1
    axes = [axis for axis, _ in op.sliding(tuple(x.shape[channel + 1 :]))]
    pads = [(axis.before, axis.after) for axis in axes]
    lead, x = x.shape[:channel], x.reshape(-1, *x.shape[channel:])
    y = _convolved(x, weight, bias, list(op.stride), pads, list(op.dilation), op.groups)
    return y.reshape(*lead, *y.shape[1:])


def _convolved(
    x: Tensor,
    weight: Tensor,
    bias: Any,
    stride: list[int],
    pads: list[tuple[int, int]],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """Convolution over (batch, channel, *spatial): aten's up to rank 3; beyond it a sum over the
    taps of the first axis."""
    rank = len(stride)
    if rank <= 3:
        if any(a != b for a, b in pads):
            x, pads = F.pad(x, [p for pair in reversed(pads) for p in pair]), [(0, 0)] * rank
        function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        return function(x, weight, bias, stride, [a for a, _ in pads], dilation, groups)
    (before, after), step = pads[0], dilation[0]
    x = F.pad(x, [0, 0] * (rank - 1) + [before, after])
    length = (x.shape[2] - step * (weight.shape[2] - 1) - 1) // stride[0] + 1
    total: Any = None
    for tap in range(weight.shape[2]):
        rows = x[:, :, tap * step : tap * step + (length - 1) * stride[0] + 1 : stride[0]].movedim(2, 1)
        part = _convolved(
            rows.reshape(-1, *rows.shape[2:]),
            weight[:, :, tap],
            bias if tap == 0 else None,
            stride[1:],
            pads[1:],
            dilation[1:],
            groups,
        )
        total = part if total is None else total + part
    summed: Tensor = total.reshape(-1, length, *total.shape[1:]).movedim(1, 2)
    return summed


def _conv_transpose(op: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = len(op.kernel_size)
    if rank == 0:  # rank 1 over one cell
        return _conv_transpose(ops.ConvTranspose((1,), groups=op.groups), x[..., None], weight[..., None], bias)[..., 0]
    channel = x.ndim - rank - 1
    lead, sizes = x.shape[:channel], x.shape[channel + 1 :]
    x = x.reshape(-1, *x.shape[channel:])
    if rank <= 3:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        y = function(x, weight, None, op.stride, 0, 0, op.groups, op.dilation)
        room = [(-a, extra - b) for (a, b), extra in zip(op.padding, op.output_padding, strict=True)]
        amounts = [p for pair in reversed(room) for p in pair]
        if any(p > 0 for p in amounts):  # before the crop, which may take some of it away again
            y = F.pad(y, [max(p, 0) for p in amounts])
        if any(p < 0 for p in amounts):  # negative padding crops
            y = F.pad(y, [min(p, 0) for p in amounts])
    else:  # the adjoint of convolution in its input
        shape = (x.shape[0], weight.shape[1] * op.groups, *(axis.size for axis, _ in op.sliding(tuple(sizes))))
        first: Any = (..., *(slice(n) for n in sizes))

        def convolution(z: Tensor) -> Tensor:
            kernel = weight.conj()  # torch.func.vjp conjugates it again
            return _convolved(z, kernel, None, list(op.stride), list(op.padding), list(op.dilation), op.groups)[first]

        y = torch.func.vjp(convolution, x.new_zeros(shape))[1](x)[0]
        y = _autocast(y)  # an adjoint has the dtype of its input
    if bias is not None:
        y = y + bias.to(y.dtype).reshape(-1, *(1,) * rank)  # autocast has chosen the dtype of y
    return y.reshape(*lead, *y.shape[1:])


BY_ATEN: dict[type[Any], Any] = {
    ops.Conv: _conv,
    ops.ConvTranspose: _conv_transpose,
    ops.Linear: lambda op, x, weight, bias=None: F.linear(x, weight, bias),
    ops.Matmul: lambda op, x, y: torch.matmul(x, y),
    ops.MinPool: _twin,
    ops.SumPool: _twin,
    ops.MaxUnpool: _max_unpool,
    ops.Relu: lambda op, x: torch.relu(x),
    ops.Exp: lambda op, x: torch.exp(x),
    ops.Log: lambda op, x: torch.log(x),
    ops.Sqrt: lambda op, x: torch.sqrt(x),
    ops.Tanh: lambda op, x: torch.tanh(x),
    ops.Sigmoid: lambda op, x: torch.sigmoid(x),
    ops.Softplus: lambda op, x: torch.logaddexp(x, torch.zeros_like(x)),
    ops.Silu: lambda op, x: F.silu(x),
    ops.Gelu: lambda op, x: F.gelu(x, approximate=op.approximate),
    ops.Erf: lambda op, x: torch.erf(x),
    ops.Add: lambda op, x, y: x + y,
    ops.Sub: lambda op, x, y: x - y,
    ops.Mul: lambda op, x, y: x * y,
    ops.Div: lambda op, x, y: x / y,
    ops.Power: lambda op, x: torch.pow(x, op.exponent if isinstance(op.exponent, int) else float(op.exponent)),
    ops.Abs: lambda op, x: torch.abs(x),
    ops.Where: lambda op, condition, x, y: torch.where(condition == 0, y, x),
    ops.Scale: lambda op, x: x * _number(op, x, "factor", op.factor),
    ops.Reshape: lambda op, x: x.reshape(op.shape),
    ops.Transpose: lambda op, x: x.permute(op.order(x.ndim)),
    ops.Slice: _slice,
    ops.Take: _take,
    ops.Concatenate: lambda op, *arrays: torch.cat(arrays, op.axis),
    ops.BroadcastTo: lambda op, x: x.expand(op.shape),
    ops.Pad: _pad,
    ops.Detach: lambda op, x: x.detach(),
    ops.Sum: _sum,
    ops.Mean: _mean,
    ops.LogSoftmax: lambda op, x: torch.log_softmax(x, -1),
    ops.Softmax: lambda op, x: torch.softmax(x, -1),
    ops.CrossEntropy: _cross_entropy,
    ops.MseLoss: lambda op, prediction, target: (prediction - target).square().mean(),
}
"""The operators that are aten calls, by exact class."""

dispatch.tracer = sys.modules[__name__]
