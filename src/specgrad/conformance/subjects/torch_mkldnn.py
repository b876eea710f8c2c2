"""PyTorch's oneDNN tensors: forward only, float32 only, as `tensor.to_mkldnn()` runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

from ...ops import AdaptiveAvgPool, AvgPool, Conv, Linear, MaxPool
from .shapes import fed, only, rank_of, sizes_of, symmetric
from .torch_functional import transpose

Array = np.ndarray[Any, Any]


class TorchMkldnn:
    """oneDNN as PyTorch offers it to dense tensors."""

    name = "torch mkldnn"
    version = f"torch {torch.__version__}"
    conventions = ("empty window is -inf", "padding is multiplied")

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        only(all(a.dtype == np.float32 for a in inputs), f"{inputs[0].dtype}")
        only(isinstance(op, MaxPool | AvgPool | AdaptiveAvgPool | Conv | Linear), op.name)
        only(all(a.size > 0 for a in inputs), "empty arrays")
        x, *rest = (
            torch.from_numpy(np.ascontiguousarray(a)).to_mkldnn()
            if i == 0
            else torch.from_numpy(np.ascontiguousarray(a))
            for i, a in enumerate(inputs)
        )
        if isinstance(op, Linear):
            return np.asarray(F.linear(x, *(r.to_mkldnn() for r in rest)).to_dense().numpy())
        dense = torch.from_numpy(np.ascontiguousarray(inputs[0]))
        return np.asarray(fed(op, dense, transpose, lambda t: self._run(op, t, rest)).numpy())

    def _run(self, op: Any, dense: Any, rest: list[Any]) -> Any:
        rank, sizes = rank_of(op), sizes_of(op, dense)
        x = dense.contiguous().to_mkldnn()
        if isinstance(op, MaxPool):
            only(
                op.ties == "first" and rank in (2, 3) and all(d == 1 for d in op.dilation),
                f"rank {rank}, ties={op.ties!r}, dilation",
            )
            padding = symmetric(op, sizes)
            only(
                all(p <= k // 2 for p, k in zip(padding, op.kernel_size, strict=True)), "padding beyond half the kernel"
            )
            return getattr(torch, f"max_pool{rank}d")(
                x, op.kernel_size, op.stride, padding, op.dilation, op.ceil_mode
            ).to_dense()
        if isinstance(op, AvgPool):
            only(
                rank in (2, 3) and all(d == 1 for d in op.dilation) and op.divisor_override is None,
                f"rank {rank}, dilation, divisor_override",
            )
            padding = symmetric(op, sizes)
            only(
                all(p <= k // 2 for p, k in zip(padding, op.kernel_size, strict=True)), "padding beyond half the kernel"
            )
            pool = getattr(F, f"avg_pool{rank}d")
            return pool(x, op.kernel_size, op.stride, padding, op.ceil_mode, op.count_include_pad).to_dense()
        if isinstance(op, AdaptiveAvgPool):
            only(rank == 2, f"rank {rank}")
            lengths = tuple(n if m is None else m for m, n in zip(op.output_size, sizes, strict=True))
            only(
                all(m and n % m == 0 for m, n in zip(lengths, sizes, strict=True)), "bins that do not divide the input"
            )
            return F.adaptive_avg_pool2d(x, lengths).to_dense()
        only(rank in (2, 3) and op.padding != "same", f"rank {rank}, same padding")
        weight, *bias = rest
        convolve = getattr(F, f"conv{rank}d")
        padding = symmetric(op, sizes)
        return convolve(x, weight, bias[0] if bias else None, op.stride, padding, op.dilation, op.groups).to_dense()


def subjects() -> list[Any]:
    return [TorchMkldnn()] if torch.backends.mkldnn.is_available() else []
