"""Gradients of torch.nn's depthwise convolutions, and of those in groups of few channels, by the
CPU engine: torch's own take several times as long.

The values are torch's own. The engine computes the gradients of plain calls (`eager`) on float32
and float64 tensors of some size on the CPU that are contiguous or, with large kernels,
channels_last. Torch computes all others, and second derivatives.
"""

from __future__ import annotations

import functools
import math
import types
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: F401, N812 - a name in torch's own methods, as torch.jit.script reads them
from torch import Tensor, nn
from torch.nn.modules.utils import _pair, _single, _triple  # noqa: F401 - likewise

from ..engines import cpu
from ..errors import SpecgradError
from ..ops import Conv
from . import eager
from .fast_path import shown
from .kernels import OnTorchsThreads, as_array, as_tensor, laid_out, last_axes, layout

FEW = 4
"""The number of input channels of a group up to which torch's gradients are slow."""
TAPS = 9
LEAST = 1 << 20, 1 << 23
"""The number of multiplications from which calls of ours take less time: of kernels with more taps
than `TAPS`, and of others, for which torch has kernels of its own; on channels_last tensors these
are the faster ones."""
FLOATS = (torch.float32, torch.float64)


def is_slow(module: nn.Module) -> bool:
    """Whether a module is a convolution on the CPU whose gradients the engine may compute."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) or type(module) not in REPLACES:
        return False
    weight = module.weight
    return module.groups > 1 and weight.is_cpu and weight.dtype in FLOATS and weight.shape[1] <= FEW


@functools.lru_cache(maxsize=1024)
def planned(x: torch.Size, weight: torch.Size, options: tuple[Any, ...], last: int) -> Any:
    """The operator of a call on tensors of these shapes, or None if torch computes its gradients.
    `last` as in `kernels`."""
    stride, padding, dilation, groups = options
    is_small = math.prod(weight[2:]) <= TAPS
    if len(x) != len(weight) or isinstance(padding, str) or (last and is_small):
        return None
    try:
        op = Conv(tuple(weight[2:]), stride=stride, padding=padding, dilation=dilation, groups=groups)
        cells = math.prod(op.output_shape(tuple(x), tuple(weight)))
    except SpecgradError:
        return None
    return op if cells * math.prod(weight[1:]) >= LEAST[is_small] else None


def with_gradients(x: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor | None:
    """The value of a call whose gradients the engine will compute, or None for any other call."""
    given = (x, weight) if bias is None else (x, weight, bias)
    if (
        not eager.is_eager()
        or not torch.is_grad_enabled()
        or not all(type(one) in eager.CLASSES and one.is_cpu and one.dtype is x.dtype for one in given)
        or x.dtype not in FLOATS
        or not any(one.requires_grad for one in given)
    ):
        return None
    last = 0 if x.is_contiguous() else last_axes(x)
    op = planned(x.shape, weight.shape, options, last)
    if op is None or not x.is_contiguous(memory_format=layout(x.shape, last)):
        return None
    are_plain = all(one.is_contiguous() for one in given[1:]) and all(map(eager.is_plain, given))
    if not are_plain or torch.is_autocast_enabled("cpu"):
        return None
    return Convolved.apply(op, options, last, *given)  # type: ignore[no-any-return]


class Convolved(torch.autograd.Function):
    """A convolution in ordinary autograd."""

    @staticmethod
    def forward(ctx: Any, op: Any, options: tuple[Any, ...], last: int, *given: Tensor) -> Any:
        ctx.op, ctx.options = op, options
        ctx.save_for_backward(*given[:2])  # not the bias, which may change before backward
        bias = given[2] if len(given) > 2 else None
        value = getattr(torch, f"conv{len(op.kernel_size)}d")(*given[:2], bias, *options)
        is_last = value.is_contiguous(memory_format=layout(value.shape, last))  # else torch's gradients are not either
        ctx.last = last if is_last else 0
        return value

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        given, wanted = ctx.saved_tensors, ctx.needs_input_grad[3:]
        has_bias = len(wanted) > 2
        if torch.is_grad_enabled() or not eager.is_plain(gy):  # may be differentiated again or transformed
            stride, padding, dilation, groups = ctx.options
            sizes = [gy.shape[1]] if has_bias else None
            beside = sizes, stride, padding, dilation, False, [0] * len(stride), groups
            mask = [*wanted, *[False] * (3 - len(wanted))]
            return None, None, None, *torch.ops.aten.convolution_backward(gy, *given, *beside, mask)[: len(wanted)]
        bias = [gy.new_zeros(gy.shape[1])] if has_bias else []  # any numbers: no gradient depends on them
        *operands, cotangent = (as_array(one.contiguous()) for one in (*given, *bias, gy))
        with shown(ctx.op, "pull"), OnTorchsThreads():
            pulled = cpu.pull(ctx.op, tuple(operands), None, cotangent, wanted)
        gx, *others = (None if one is None else as_tensor(one) for one in pulled)
        return None, None, None, gx if gx is None else laid_out(gx, ctx.last), *others


class _Conv:
    _theirs: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        """Let our method wrap that of torch's own module, which torch.jit.script compiles."""
        theirs = next((base for base in cls.__bases__ if issubclass(base, nn.Module)), None)
        if theirs is not None:
            own: Any = cls._conv_forward
            cls._theirs = staticmethod(theirs._conv_forward)  # type: ignore[attr-defined]
            cls._conv_forward = functools.wraps(cls._theirs)(types.FunctionType(own.__code__, globals()))  # type: ignore[method-assign]

    def _conv_forward(self: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        if self.padding_mode == "zeros":
            found = with_gradients(input, weight, bias, (self.stride, self.padding, self.dilation, self.groups))
            if found is not None:
                return found
        return self._theirs(self, input, weight, bias)


class Conv1d(_Conv, nn.Conv1d):
    """torch.nn.Conv1d, with gradients by specgrad's CPU engine."""


class Conv2d(_Conv, nn.Conv2d):
    """torch.nn.Conv2d, with gradients by specgrad's CPU engine."""


class Conv3d(_Conv, nn.Conv3d):
    """torch.nn.Conv3d, with gradients by specgrad's CPU engine."""


REPLACES: dict[type[nn.Module], type[nn.Module]] = {kind.__bases__[1]: kind for kind in (Conv1d, Conv2d, Conv3d)}
"""torch's classes of modules, and the class of ours that replaces each."""
