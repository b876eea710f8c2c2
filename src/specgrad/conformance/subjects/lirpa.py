"""auto_LiRPA, unmodified: bounds of single torch operators by CROWN."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import auto_LiRPA
import numpy as np
import torch

from ...ops import AvgPool, Conv, MaxPool
from ..subject import NotOffered
from .shapes import fed, is_a, only
from .tensors import array_of, tensor_of
from .torch_functional import TorchFunctional, applied, pooled

Array = np.ndarray[Any, Any]


class Single(torch.nn.Module):
    """One operator with constants, as a module."""

    def __init__(self, op: Any, constants: tuple[Any, ...]) -> None:
        super().__init__()
        self.op, self.constants = op, constants

    def forward(self, x: Any) -> Any:
        return applied(self.op, x, *self.constants) if self.constants else pooled(self.op, x)


class AutoLirpa(TorchFunctional):
    """Values by torch; bounds by CROWN, whose refusals count as not offered."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.name = "auto_LiRPA"
        self.version = f"auto_LiRPA {getattr(auto_LiRPA, '__version__', '')}".strip()

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        self._offers(op, inputs)
        return super().forward(op, inputs)

    @staticmethod
    def _offers(op: Any, inputs: tuple[Array, ...]) -> None:
        only(is_a(op, MaxPool | AvgPool | Conv), op.name)
        only(inputs[0].dtype == np.float32 and inputs[0].size > 0, f"{inputs[0].dtype} of {inputs[0].size} cells")
        only(op.spatial_rank() == 2, f"rank {op.spatial_rank()}")

    def bounds(self, op: Any, inputs: tuple[Array, ...], radius: Array) -> Array:
        self._offers(op, inputs)
        x, *constants = (tensor_of(a, "cpu") for a in inputs)
        if constants:
            ends = self._bounded(op, x, constants, float(radius.flat[0]))
        else:
            ends = [fed(op, x, partial(self._end, op, float(radius.flat[0]), end)) for end in (0, 1)]
        return np.stack([array_of(end, inputs[0]) for end in ends])

    def _end(self, op: Any, radius: float, end: int, x: Any) -> Any:
        return self._bounded(op, x, (), radius)[end]

    @staticmethod
    def _bounded(op: Any, x: Any, constants: Any, radius: float) -> Any:
        ball = auto_LiRPA.PerturbationLpNorm(norm=np.inf, x_L=x - radius, x_U=x + radius)
        logging.disable(logging.ERROR)  # auto_LiRPA also logs its refusals
        try:
            network = auto_LiRPA.BoundedModule(Single(op, tuple(constants)), x, verbose=0)
            found: Any = network.compute_bounds(x=(auto_LiRPA.BoundedTensor(x, ball),), method="CROWN")
        except Exception as error:
            raise NotOffered(f"{type(error).__name__}: {str(error).strip()[:80]}") from error
        finally:
            logging.disable(logging.NOTSET)
        return [end.detach() for end in found]


def subjects() -> list[Any]:
    return [AutoLirpa()]
