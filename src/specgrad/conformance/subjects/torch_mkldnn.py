"""PyTorch's oneDNN tensors, as made by `tensor.to_mkldnn()`: forward only, float32 only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its customary name

from ...ops import AdaptiveAvgPool, AvgPool, Conv, Linear, MaxPool
from .shapes import fed, is_a, lengths_of, only, sizes_of
from .torch_functional import convolved, pooled

Array = np.ndarray[Any, Any]


class TorchMkldnn:
    """oneDNN, as PyTorch offers it for dense tensors."""

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
        only(op.spatial_rank() in (2, 3), f"rank {op.spatial_rank()}")
        return np.asarray(fed(op, x, lambda t: self._run(op, t, rest)).numpy())

    @staticmethod
    def _run(op: Any, dense: Any, rest: list[Any]) -> Any:
        x: Any = dense.contiguous().to_mkldnn()
        if is_a(op, Conv):
            only(op.padding != "same", "same padding")
            return convolved(op, x, *rest).to_dense()
        if is_a(op, AdaptiveAvgPool):
            sizes = sizes_of(op, dense)
            only(op.spatial_rank() == 2, f"rank {op.spatial_rank()}")
            bins = zip(lengths_of(op, sizes), sizes, strict=True)
            only(all(m and n % m == 0 for m, n in bins), "bins that do not divide the input")
        else:
            only(all(d == 1 for d in op.dilation), "dilation")
            only(getattr(op, "divisor_override", None) is None, "divisor_override")
        return pooled(op, x).to_dense()


def subjects() -> list[Any]:
    return [TorchMkldnn()] if torch.backends.mkldnn.is_available() else []  # type: ignore[no-untyped-call]
