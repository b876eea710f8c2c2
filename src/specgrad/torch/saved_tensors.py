"""What an engine keeps of a forward for the backward, as tensors that autograd saves: so that hooks
for saved tensors get them, and autograd raises an error if x is changed before backward.

The CPU engine keeps nested tuples of arrays. Their large arrays are saved as tensors. Arrays that
are views of x are saved as x itself. This module does not depend on how the engine nests them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..engines import cpu
from . import kernels
from .kernels import OnTorchsThreads, as_array, as_tensor

LARGE = 1024  # elements from which an array is saved as a tensor


class _Stored(NamedTuple):
    """The placeholder of an array: the saved tensor with this number, or for number 0 a view of x
    that starts at `offset`."""

    number: int
    shape: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    offset: int = 0


class Nest(NamedTuple):
    """What the engine kept, with a `_Stored` in place of each large array; and the strides that x
    had."""

    nest: Any
    step: tuple[int, ...]


def keep(op: Any, x: Tensor) -> tuple[Tensor, list[Tensor], Nest | None]:
    """The value, the tensors to save, of which x is the first, and the rest."""
    engine = kernels.engine(op, x)
    if engine is kernels.Arrays and not cpu.refuses(op, (as_array(x),)):
        return _keep_arrays(op, x)
    return engine.forward(op, x), [x], None


def pull(op: Any, gy: Tensor, saved: tuple[Tensor, ...], nest: Nest | None, last: int) -> Tensor:
    """gx, from the saved tensors."""
    x = saved[0]
    if nest is not None:
        return _pull_arrays(op, gy, saved, nest)
    return kernels.pull(op, gy, x, tuple(x.shape), last)


def _keep_arrays(op: Any, x: Tensor) -> tuple[Tensor, list[Tensor], Nest]:
    array = as_array(x)
    with OnTorchsThreads():
        value, kept = cpu.keep(op, (array,))
    saved: list[Tensor] = [x]
    numbers: dict[int, int] = {}

    def packed(node: Any) -> Any:
        if isinstance(node, np.ndarray) and node.size >= LARGE:
            if node.dtype == array.dtype and np.may_share_memory(node, array):
                offset = (node.ctypes.data - array.ctypes.data) // array.itemsize
                return _Stored(0, node.shape, tuple(s // node.itemsize for s in node.strides), offset)
            if id(node) not in numbers:
                numbers[id(node)] = len(saved)
                saved.append(as_tensor(node))
            return _Stored(numbers[id(node)])
        return _mapped(packed, node)

    return as_tensor(value), saved, Nest(packed(kept), x.stride())


def _pull_arrays(op: Any, gy: Tensor, saved: tuple[Tensor, ...], kept: Nest) -> Tensor:
    x = saved[0]

    def unpacked(node: Any) -> Any:
        if isinstance(node, _Stored):
            if node.number:
                return as_array(saved[node.number])
            return as_array(torch.as_strided(x, node.shape, node.step, x.storage_offset() + node.offset))
        return _mapped(unpacked, node)

    array = as_array(x)
    with OnTorchsThreads():
        same = x.stride() == kept.step  # a hook may return x in another layout
        remembered = unpacked(kept.nest) if same else cpu.recall(op, (array,))
        return as_tensor(cpu.pull(op, (array,), remembered, as_array(gy))[0])


def _mapped(function: Any, node: Any) -> Any:
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node)(*map(function, node))
    return type(node)(map(function, node)) if isinstance(node, tuple | list) else node
