"""torch.nn's convolutions on the CPU engine, for models that `accelerate` changes with
convolution=True.

The engine runs plain calls (`eager`) on contiguous float32 and float64 tensors of some size on the
CPU. Torch runs all others, and second derivatives. Zeros of the padding are skipped, never
multiplied: an infinite weight gives no NaN there.
"""

from __future__ import annotations

import functools
import types
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: F401, N812 - a name in torch's own methods, as torch.jit.script reads them
from torch import Tensor, nn

from ..engines import cpu
from ..engines.cpu import bilinear
from ..errors import SpecgradError
from ..ops import Conv, ConvTranspose
from . import eager
from .fast_path import shown
from .kernels import OnTorchsThreads, as_array, as_tensor

LEAST = 1 << 22
"""The number of multiplications from which a call of ours costs less time than the kernel saves."""
FLOATS = (torch.float32, torch.float64)
EXACT = ("none", "ieee")
"""The precisions of float32 in which torch multiplies all bits."""


@functools.lru_cache(maxsize=1024)
def planned(kind: Any, x: tuple[int, ...], weight: tuple[int, ...], options: tuple[Any, ...]) -> Any:
    """The operator of a call on tensors of these shapes, or None if torch runs it."""
    stride, padding, dilation, groups, *output_padding = options
    if len(x) != len(weight) or isinstance(padding, str) or 0 in x:
        return None
    words = {"output_padding": output_padding[0]} if output_padding else {}
    try:
        op = kind(weight[2:], stride=stride, padding=padding, dilation=dilation, groups=groups, **words)
        op.output_shape(x, weight)
    except SpecgradError:
        return None
    return op if bilinear.plan(op, x, weight).work >= LEAST else None


def convolved(kind: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor | None:
    """The result of a call by the engine, or None if torch runs it."""
    given = (x, weight) if bias is None else (x, weight, bias)
    if torch.compiler.is_compiling() or not all(type(one) in eager.CLASSES for one in given):
        return None
    dtype = x.dtype
    are_taken = all(one.is_cpu and one.dtype is dtype and one.is_contiguous() for one in given)
    if not are_taken or dtype not in FLOATS or not all(map(eager.is_plain, given)):
        return None
    if torch.is_autocast_enabled("cpu") or torch.backends.mkldnn.conv.fp32_precision not in EXACT:  # type: ignore[attr-defined]
        return None
    op = planned(kind, tuple(x.shape), tuple(weight.shape), options)
    if op is None or (bias is not None and bias.shape != (op.output_shape(x.shape, weight.shape)[1],)):
        return None
    if torch.is_grad_enabled() and any(one.requires_grad for one in given):
        return Convolved.apply(op, *given)  # type: ignore[no-any-return, no-untyped-call]
    return value(op, given)


def value(op: Any, given: tuple[Tensor, ...]) -> Tensor:
    with shown(op, "forward"), OnTorchsThreads():
        return as_tensor(cpu.forward(op, tuple(map(as_array, given))))


class Convolved(torch.autograd.Function):
    """A convolution in ordinary autograd."""

    @staticmethod
    def forward(ctx: Any, op: Any, *given: Tensor) -> Tensor:
        ctx.op, ctx.biased = op, len(given) > 2
        ctx.save_for_backward(*given[:2])
        return value(op, given)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        op, (x, weight), wanted = ctx.op, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or not eager.is_plain(gy):  # may be differentiated again or transformed
            sizes = [gy.shape[1]] if ctx.biased else None
            mask = [*wanted, *[False] * (3 - len(wanted))]
            found = torch.ops.aten.convolution_backward(gy, x, weight, sizes, *atens(op), mask)
            return None, *found[: len(wanted)]
        operands = x, weight, *[gy.new_zeros(gy.shape[1])] * ctx.biased
        with shown(op, "pull"), OnTorchsThreads():
            pulled = cpu.pull(op, tuple(map(as_array, operands)), None, as_array(gy), wanted)
        return None, *[None if one is None else as_tensor(one) for one in pulled]


def atens(op: Any) -> tuple[Any, ...]:
    """The arguments of aten's convolution: stride, padding, dilation, whether it is transposed,
    output padding, groups."""
    padding = [before for before, _ in op.padding]
    beyond = getattr(op, "output_padding", None)
    return op.stride, padding, op.dilation, beyond is not None, beyond or (0,) * len(padding), op.groups


class _Ours:
    _theirs: ClassVar[Any]
    _method: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Let our method wrap that of torch's own module, which torch.jit.script compiles."""
        theirs = next((base for base in cls.__bases__ if issubclass(base, nn.Module)), None)
        if theirs is not None:
            cls._theirs = staticmethod(getattr(theirs, cls._method))
            own = getattr(cls, cls._method)
            of_its_own = types.FunctionType(own.__code__, globals(), argdefs=own.__defaults__)
            setattr(cls, cls._method, functools.wraps(cls._theirs)(of_its_own))


class _Conv(_Ours):
    _method = "_conv_forward"

    def _conv_forward(self: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        if self.padding_mode == "zeros":
            options = self.stride, self.padding, self.dilation, self.groups
            found = convolved(Conv, input, weight, bias, options)
            if found is not None:
                return found
        return self._theirs(self, input, weight, bias)


class Conv1d(_Conv, nn.Conv1d):
    """torch.nn.Conv1d, by specgrad's CPU engine."""


class Conv2d(_Conv, nn.Conv2d):
    """torch.nn.Conv2d, by specgrad's CPU engine."""


class Conv3d(_Conv, nn.Conv3d):
    """torch.nn.Conv3d, by specgrad's CPU engine."""


class _ConvTranspose(_Ours):
    _method = "forward"

    def forward(self: Any, input: Tensor, output_size: Any = None) -> Any:
        if output_size is None and self.padding_mode == "zeros":
            options = self.stride, self.padding, self.dilation, self.groups, self.output_padding
            found = convolved(ConvTranspose, input, self.weight, self.bias, options)
            if found is not None:
                return found
        return self._theirs(self, input, output_size)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d, by specgrad's CPU engine."""


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d, by specgrad's CPU engine."""


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d, by specgrad's CPU engine."""


REPLACES: dict[type[nn.Module], type[nn.Module]] = {
    kind.__bases__[1]: kind for kind in (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
}
"""torch's classes of modules, and the class of ours that replaces each."""
