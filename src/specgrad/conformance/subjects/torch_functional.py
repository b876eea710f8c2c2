"""PyTorch, unmodified: torch.nn.functional on the CPU, and on CUDA if available.

Reverse mode is by autograd, forward mode by torch.func.jvp, second order by differentiating the
reverse sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

from ...ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    MaxPool,
)
from ..subject import NotOffered
from .shapes import fed, is_a, lengths_of, only, sizes_of, symmetric
from .tensors import array_of, tensor_of

Array = np.ndarray[Any, Any]


def pooled(op: Any, x: Any) -> Any:
    """A pooling operator on (batch, channels, *spatial)."""
    rank = op.spatial_rank()
    only(rank in (1, 2, 3), f"rank {rank}")
    sizes = sizes_of(op, x)
    if is_a(op, MaxPool):
        only(op.ties == "first", f"ties={op.ties!r}")
        return getattr(F, f"max_pool{rank}d")(x, *_window(op, sizes), op.dilation, op.ceil_mode)
    if is_a(op, AvgPool):
        only(all(d == 1 for d in op.dilation), "dilation of an average")
        window = _window(op, sizes)
        words = {} if op.divisor_override is None else {"divisor_override": op.divisor_override}
        only(rank > 1 or not words, "divisor_override in one axis")
        return getattr(F, f"avg_pool{rank}d")(x, *window, op.ceil_mode, op.count_include_pad, **words)
    if is_a(op, AdaptiveMaxPool):
        only(op.ties == "first", f"ties={op.ties!r}")
        return getattr(F, f"adaptive_max_pool{rank}d")(x, lengths_of(op, sizes))
    if is_a(op, AdaptiveAvgPool):
        return getattr(F, f"adaptive_avg_pool{rank}d")(x, lengths_of(op, sizes))
    if is_a(op, GlobalMaxPool):
        only(op.ties != "all", "ties='all'")
        if op.ties == "split":
            return torch.amax(x, tuple(range(2, 2 + rank)), keepdim=True)
        return getattr(F, f"adaptive_max_pool{rank}d")(x, (1,) * rank)
    if is_a(op, GlobalAvgPool):
        return x.mean(tuple(range(2, 2 + rank)), keepdim=True)
    raise NotOffered(op.name)


def _window(op: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Kernel, stride and padding; not offered if PyTorch refuses the padding."""
    padding = symmetric(op, sizes)
    only(all(p <= k // 2 for p, k in zip(padding, op.kernel_size, strict=True)), "padding beyond half the kernel")
    return op.kernel_size, op.stride, padding


def convolved(op: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    """A convolution on (batch, channels, *spatial)."""
    rank = op.spatial_rank()
    only(rank in (1, 2, 3), f"rank {rank}")
    if is_a(op, Conv):
        padding: Any = symmetric(op, sizes_of(op, x)) if op.padding != "same" else "same"
        only(padding != "same" or all(s == 1 for s in op.stride), "same padding with a stride")
        return getattr(F, f"conv{rank}d")(x, weight, bias, op.stride, padding, op.dilation, op.groups)
    padding = symmetric(op, sizes_of(op, x))
    words = (op.stride, padding, op.output_padding, op.groups, op.dilation)
    return getattr(F, f"conv_transpose{rank}d")(x, weight, bias, *words)


def applied(op: Any, *operands: Any) -> Any:
    """An operator on tensors."""
    if is_a(op, Linear):
        return F.linear(*operands)
    x, *weights = operands
    run = convolved if is_a(op, Conv | ConvTranspose) else pooled
    return fed(op, x, lambda t: run(op, t, *weights))


class TorchFunctional:
    """torch.nn.functional on a device."""

    conventions: tuple[str, ...] = ("empty window is -inf", "padding is multiplied", "rounded at every step")

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.name = f"torch {device}"
        self.version = f"torch {torch.__version__}"

    def apply(self, op: Any, *tensors: Any) -> Any:
        """An operator on tensors."""
        return applied(op, *tensors)

    def _tensors(self, arrays: tuple[Array, ...]) -> list[Any]:
        try:
            return [tensor_of(a, self.device) for a in arrays]
        except RuntimeError as error:
            if "CUDA error" in str(error):  # after a failed assertion no call works on the device in this process
                raise NotOffered("the device, which failed on an earlier case; check this operator alone") from error
            raise

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        return array_of(self.apply(op, *self._tensors(inputs)), inputs[0])

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        self._spare(op, inputs)
        pushed = torch.func.jvp(
            lambda *xs: self.apply(op, *xs), tuple(self._tensors(inputs)), tuple(self._tensors(tangents))
        )[1]
        return array_of(pushed, inputs[0])

    def _spare(self, op: Any, inputs: tuple[Array, ...]) -> None:
        """Do not offer cases that fail an assertion on a CUDA device: the process could not use the
        device any more."""
        if self.device != "cpu" and is_a(op, MaxPool):
            geometry = op.geometry(inputs[0].shape)
            empty = (geometry.block(0, geometry.outputs).count("real") == 0).any()
            only(
                not empty, "a window without a real cell: its index is out of bounds, which ends the use of the device"
            )

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        leaves = [t.requires_grad_() for t in self._tensors(inputs)]
        y = self.apply(op, *leaves)
        pulled = torch.autograd.grad(y, leaves, self._tensors((cotangent,))[0], allow_unused=True)
        return tuple(_numpy(p, x) for p, x in zip(pulled, inputs, strict=True))

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        leaves = [t.requires_grad_() for t in self._tensors(inputs)]
        pulled = torch.autograd.grad(self.apply(op, *leaves), leaves, self._tensors((cotangent,))[0], create_graph=True)
        along = sum((p * t).sum() for p, t in zip(pulled, self._tensors(tangents), strict=True))
        if not isinstance(along, torch.Tensor) or not along.requires_grad:
            return tuple(np.zeros_like(x) for x in inputs)
        moved = torch.autograd.grad(along, leaves, allow_unused=True)
        return tuple(_numpy(m, x) for m, x in zip(moved, inputs, strict=True))


def _numpy(tensor: Any, like: Array) -> Array:
    return np.zeros_like(like) if tensor is None else array_of(tensor, like)


def subjects() -> list[Any]:
    return [TorchFunctional(), *([TorchFunctional("cuda")] if torch.cuda.is_available() else [])]
