"""The PyTorch front end: our operators on tensors, on the CPU and on CUDA if available. PyTorch
differentiates them by our registrations."""

from __future__ import annotations

from typing import Any

import torch

import specgrad.torch  # noqa: F401 - registers the operators

from .torch_functional import TorchFunctional


class TorchLayer(TorchFunctional):
    """specgrad's operators on torch tensors."""

    conventions = ("padding is multiplied",)  # aten's convention, since its convolution runs

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        self.name = f"specgrad torch {device}"

    def _spare(self, op: Any, inputs: tuple[Any, ...]) -> None:
        """Our operators have no such case."""

    def apply(self, op: Any, *tensors: Any) -> Any:
        return op(*tensors)


def subjects() -> list[Any]:
    return [TorchLayer(device) for device in (("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))]
