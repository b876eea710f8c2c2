"""NumPy arrays as torch tensors and back. NumPy's bfloat16, unknown to torch, is converted by its
bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


def tensor_of(array: Array, device: str) -> Any:
    """A copy of an array, on a device."""
    if array.dtype.name == "bfloat16":
        made = torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    else:
        made = torch.from_numpy(np.array(array, order="C"))
    return made.to(device)


def array_of(tensor: Any, like: Array) -> Array:
    """A tensor as an array; for a bfloat16 tensor, `like` has NumPy's bfloat16."""
    there = tensor.detach().cpu()
    if there.dtype == torch.bfloat16 and like.dtype.name == "bfloat16":
        bits: Array = there.contiguous().view(torch.int16).numpy()
        return bits.view(like.dtype)
    found: Array = there.numpy()
    return found
