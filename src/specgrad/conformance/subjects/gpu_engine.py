"""The GPU engine, on a CUDA device, or on the CPU in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...engines import gpu
from ...ops import SmoothMaxPool
from ...ops.pool import Maximum, Pool
from ..subject import NotOffered
from .tensors import array_of, tensor_of

Array = np.ndarray[Any, Any]


class GpuEngine:
    """The engine on NumPy arrays, called as the torch front end calls it."""

    name = "specgrad gpu"
    slow = True

    def __init__(self, device: str, layout: str = "contiguous") -> None:
        self.device = device
        self.layout = layout

    def tensor(self, array: Array) -> Any:
        """An array on the device, in this subject's layout."""
        made = tensor_of(array, self.device)
        if self.layout == "channels_last" and made.ndim > 2:
            order = (0, *range(2, made.ndim), 1)
            return made.permute(order).contiguous().permute(np.argsort(order).tolist())
        if self.layout == "gaps":
            wide = torch.zeros([2 * n for n in made.shape], dtype=made.dtype, device=self.device)
            view = wide[tuple(slice(1, None, 2) for _ in made.shape)]
            return view.copy_(made)
        return made

    def entered(self, op: Any, inputs: tuple[Array, ...]) -> Any:
        if not isinstance(op, Pool):
            raise NotOffered(op.name)
        op.output_shape(*(x.shape for x in inputs))
        if inputs[0].dtype.name not in ("float16", "bfloat16", "float32", "float64"):
            raise NotOffered(f"{inputs[0].dtype}")
        if gpu.INTERPRETED and inputs[0].dtype.name == "bfloat16" and not isinstance(op, Maximum):
            raise NotOffered("bfloat16 in Triton's interpreter, which truncates where the device rounds")
        x = self.tensor(inputs[0])
        reason = gpu.refuses(op, (x,))
        if reason is not None:
            raise NotOffered(reason)
        return x

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        return array_of(gpu.forward(op, (self.entered(op, inputs),)), inputs[0])

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        x = self.entered(op, inputs)
        return array_of(
            gpu.push(op, (x,), gpu.keep(op, (x,))[1], (self.tensor(tangents[0]),)),
            inputs[0],
        )

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        x = self.entered(op, inputs)
        (gx,) = gpu.pull(op, (x,), gpu.keep(op, (x,))[1], self.tensor(cotangent))
        return (array_of(gx, inputs[0]),)

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        """β(dx⊙Wᵀg - Wᵀ(g⊙W dx)), in the precision of the computation and rounded once; 0 for
        constant slopes."""
        x = self.entered(op, inputs)
        if not isinstance(op, SmoothMaxPool):
            return (np.zeros_like(inputs[0]),)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        dx, gy = self.tensor(tangents[0]).to(wide), self.tensor(cotangent).to(wide)
        kept = gpu.keep(op, (x,))[1]
        along = gpu.push(op, (x,), kept, (dx,))
        pulled, there = (gpu.pull(op, (x,), kept, g)[0] for g in (gy, gy * along))
        return (array_of((float(op.beta) * (dx * pulled - there)).to(x.dtype), inputs[0]),)


def subjects() -> list[Any]:
    """The GPU engine, if it can run."""
    if gpu.INTERPRETED:
        return [GpuEngine("cpu")]
    return [GpuEngine("cuda")] if torch.cuda.is_available() else []
