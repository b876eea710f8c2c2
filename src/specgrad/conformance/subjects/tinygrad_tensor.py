"""tinygrad, unmodified: Tensor.max_pool2d, avg_pool2d, conv2d and conv_transpose2d of any rank;
reverse mode only."""

from __future__ import annotations

import contextlib
import importlib.metadata
from typing import Any

import numpy as np
from tinygrad import Context, Tensor

from ...ops import AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, Linear, MaxPool
from ..subject import NotOffered
from .shapes import fed, is_a, only, pairs, sizes_of, symmetric

Array = np.ndarray[Any, Any]


def _flat(op: Any, x: Any) -> list[int]:
    """The padding in tinygrad's order: last axis first, before and after."""
    return [p for pair in reversed(pairs(op, sizes_of(op, x))) for p in pair]


def pooled(op: Any, x: Any) -> Any:
    rank = op.spatial_rank()
    only(rank >= 1, "rank 0")
    if is_a(op, MaxPool):
        only(op.ties == "split", f"ties={op.ties!r}")
        return x.max_pool2d(op.kernel_size, op.stride, op.dilation, _flat(op, x), op.ceil_mode)
    if is_a(op, AvgPool):
        only(op.divisor_override is None, "divisor_override")
        return x.avg_pool2d(op.kernel_size, op.stride, op.dilation, _flat(op, x), op.ceil_mode, op.count_include_pad)
    if is_a(op, GlobalMaxPool):
        only(op.ties == "split", f"ties={op.ties!r}")
        return x.max(tuple(range(2, 2 + rank)), keepdim=True)
    if is_a(op, GlobalAvgPool):
        return x.mean(tuple(range(2, 2 + rank)), keepdim=True)
    raise NotOffered(op.name)


def convolved(op: Any, x: Any, *weights: Any) -> Any:
    only(op.spatial_rank() >= 1, "rank 0")
    words = {"groups": op.groups, "stride": op.stride, "dilation": op.dilation}
    if is_a(op, Conv):
        return x.conv2d(*weights, **words, padding=_flat(op, x))
    padding = list(symmetric(op, sizes_of(op, x)))
    return x.conv_transpose2d(*weights, **words, padding=padding, output_padding=op.output_padding)


def applied(op: Any, *operands: Any) -> Any:
    x, *rest = operands
    if is_a(op, Linear):
        return x.linear(rest[0].transpose(), *rest[1:])
    run = convolved if is_a(op, Conv | ConvTranspose) else pooled
    return fed(op, x, lambda t: run(op, t, *rest))


class TinygradTensor:
    """Tensors on tinygrad's default device."""

    slow = True
    version = f"tinygrad {importlib.metadata.version('tinygrad')}"
    conventions = ("empty window is -inf", "padding is multiplied", "rounded at every step")

    def __init__(self, device: str | None = None) -> None:
        self.device = device
        self.name = "tinygrad" if device is None else f"tinygrad {device.lower()}"

    def _tensors(self, arrays: tuple[Array, ...]) -> list[Any]:
        only(all(a.size > 0 for a in arrays), "empty arrays")
        return [Tensor(a.copy(order="C"), device=self.device) for a in arrays]

    def _context(self) -> Any:
        return contextlib.nullcontext() if self.device is None else Context(DEV=self.device)

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        with self._context():
            return np.asarray(applied(op, *self._tensors(inputs)).numpy())

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        with self._context():
            leaves = self._tensors(inputs)
            (arriving,) = self._tensors((cotangent,))
            pulled = applied(op, *leaves).gradient(*leaves, gradient=arriving)
            return tuple(np.asarray(p.numpy()) for p in pulled)


def subjects() -> list[Any]:
    """The subject on tinygrad's default device, or on its Python device if the default has no
    compiler."""
    try:
        (Tensor([1.0]) + 1).numpy()
    except Exception:
        return [TinygradTensor("PYTHON")]
    return [TinygradTensor()]
