"""What an engine keeps of a forward computation, as tensors that autograd can see: hooks count and
move them, x is guarded.

The CPU engine keeps nested tuples of arrays. Large arrays among them become tensors; those that are
views of x become x itself, so that autograd notices when x is written to before backward. How the
engine nests them is not known here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..engines import cpu
from . import kernels
from .kernels import as_array, as_many_threads, as_tensor

LARGE = 1024  # elements from which an array is worth showing to autograd


class _Stored(NamedTuple):
    """Stands for an array: the saved tensor with this number, or a view of x (number 0) that starts
    at `offset`."""

    number: int
    shape: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    offset: int = 0


class Nest(NamedTuple):
    """What was kept, with `_Stored` in the place of large arrays; and how x lay when it was
    kept."""

    nest: Any
    step: tuple[int, ...]


def keep(op: Any, x: Tensor) -> tuple[Tensor, list[Tensor], Nest | None]:
    """The value, the tensors to save, x being the first, and the rest."""
    engine = kernels.engine(op, x)
    if engine is kernels.Arrays and not cpu.refuses(op, (as_array(x),)):
        return _keep_arrays(op, x)
    return engine.forward(op, x), [x], None


def pull(op: Any, gy: Tensor, saved: tuple[Tensor, ...], nest: Nest | None, last: int) -> Tensor:
    """gx, from what was kept."""
    x = saved[0]
    if nest is not None:
        return _pull_arrays(op, gy, saved, nest)
    return kernels.pull(op, gy, x, tuple(x.shape), last)


def _keep_arrays(op: Any, x: Tensor) -> tuple[Tensor, list[Tensor], Nest]:
    array = as_array(x)
    with as_many_threads():
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
    with as_many_threads():
        same = x.stride() == kept.step  # a hook may have brought x back in another layout
        remembered = unpacked(kept.nest) if same else cpu.recall(op, (array,))
        return as_tensor(cpu.pull(op, (array,), remembered, as_array(gy))[0])


def _mapped(function: Any, node: Any) -> Any:
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node)(*map(function, node))
    return type(node)(map(function, node)) if isinstance(node, tuple | list) else node
