"""PyTorch's oneDNN tensors: forward only, float32 only, as `tensor.to_mkldnn()` runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

from ...ops import AdaptiveAvgPool, AvgPool, Conv, Linear, MaxPool
from .shapes import fed, is_a, only, rank_of, sizes_of, symmetric
from .torch_functional import transpose

Array = np.ndarray[Any, Any]


class TorchMkldnn:
    """oneDNN as PyTorch offers it to dense tensors."""

    name = "torch mkldnn"
    version = f"torch {torch.__version__}"
    conventions = ("empty window is -inf", "padding is multiplied")

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        only(all(a.dtype == np.float32 for a in inputs), f"{inputs[0].dtype}")
        only(is_a(op, MaxPool | AvgPool | AdaptiveAvgPool | Conv | Linear), op.name)
        only(all(a.size > 0 for a in inputs), "empty arrays")
        x, *rest = (torch.from_numpy(a.copy(order="C")) for a in inputs)
        if is_a(op, Linear):
            return np.asarray(F.linear(*(t.to_mkldnn() for t in (x, *rest))).to_dense().numpy())
        only(rank_of(op) in (2, 3), f"rank {rank_of(op)}")
        return np.asarray(fed(op, x, transpose, lambda t: self._run(op, t, rest)).numpy())

    def _run(self, op: Any, dense: Any, rest: list[Any]) -> Any:
        rank, sizes = rank_of(op), sizes_of(op, dense)
        x: Any = dense.contiguous().to_mkldnn()
        if is_a(op, MaxPool | AvgPool):
            only(all(d == 1 for d in op.dilation), "dilation")
            padding = symmetric(op, sizes)
            halves = zip(padding, op.kernel_size, strict=True)
            only(all(p <= k // 2 for p, k in halves), "padding beyond half the kernel")
            window = (op.kernel_size, op.stride, padding)
        if is_a(op, MaxPool):
            only(op.ties == "first", f"ties={op.ties!r}")
            return getattr(torch, f"max_pool{rank}d")(x, *window, op.dilation, op.ceil_mode).to_dense()
        if is_a(op, AvgPool):
            only(op.divisor_override is None, "divisor_override")
            return getattr(F, f"avg_pool{rank}d")(x, *window, op.ceil_mode, op.count_include_pad).to_dense()
        if is_a(op, AdaptiveAvgPool):
            only(rank == 2, f"rank {rank}")
            lengths = tuple(n if m is None else m for m, n in zip(op.output_size, sizes, strict=True))
            only(
                all(m and n % m == 0 for m, n in zip(lengths, sizes, strict=True)), "bins that do not divide the input"
            )
            return F.adaptive_avg_pool2d(x, list(lengths)).to_dense()  # type: ignore[arg-type]
        only(op.padding != "same", "same padding")
        weight, *bias = rest
        convolve = getattr(F, f"conv{rank}d")
        padding = symmetric(op, sizes)
        return convolve(x, weight, bias[0] if bias else None, op.stride, padding, op.dilation, op.groups).to_dense()


def subjects() -> list[Any]:
    return [TorchMkldnn()] if torch.backends.mkldnn.is_available() else []  # type: ignore[no-untyped-call]
