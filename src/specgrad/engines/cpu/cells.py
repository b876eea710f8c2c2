"""Arrays of convolutions and networks: half floats widened, results delivered, scratch of a thread."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory import LINE, empty, room

Array = npt.NDArray[Any]
KEPT = 1 << 20  # cells


class Memory:
    """The memory of an array, with all that NumPy asks of it but that it must not be written."""

    def __init__(self, array: Array) -> None:
        told = array.__array_interface__
        self.owner, self.__array_interface__ = array, {**told, "data": (told["data"][0], False)}


def unlocked(array: Array) -> Array:
    """An array of the same memory that could be written, as kernels are compiled for operands that could be, though they only read them."""
    if array.flags.writeable:
        return array
    if array.dtype.kind in "fiu" and array.dtype.isbuiltin:
        return np.asarray(Memory(array))
    return np.asarray(Memory(array.view(f"u{array.itemsize}"))).view(array.dtype)


_at_hand = threading.local()


def scratch(purpose: str, size: int, dtype: np.dtype[Any]) -> Array:
    """Memory of this thread for one kernel at a time, kept for the next one if it is not much; its cells are anything."""
    if size > KEPT:
        return np.empty(size, dtype)
    key = purpose + dtype.char
    found: Array | None = getattr(_at_hand, key, None)
    if found is None or found.size < size:
        room = np.empty(max(size, 4096) * dtype.itemsize + LINE, np.uint8)
        skipped = -room.ctypes.data % LINE
        found = room[skipped : skipped + max(size, 4096) * dtype.itemsize].view(dtype)
        setattr(_at_hand, key, found)
    return found


def handed_over(result: Array, out: Array | None) -> Array:
    """The result, in `out` where one was given, rounded if need be."""
    if out is None or out is result:
        return result
    with np.errstate(all="ignore"):  # a half float overflows to infinity, as everywhere
        np.copyto(out, result, casting="unsafe")
    return out


def rounded(result: Array, dtype: np.dtype[Any]) -> Array:
    """The result in this dtype: the array itself, or a copy of halves."""
    return result if result.dtype == dtype else handed_over(result, empty(result.shape, dtype))


def wide(array: Any, dtype: np.dtype[Any]) -> Array:
    """Cells of this dtype in the type that they are computed in: halves in float32, everything else as it is."""
    if dtype.itemsize > 2:
        return unlocked(np.asarray(array, dtype))
    found = room(array.shape, np.dtype(np.float32))
    np.copyto(found, array, casting="unsafe")
    return found


def is_plain_array(direction: Any) -> bool:
    """Whether a tangent or cotangent is an array of plain numbers, not of Duals or other objects."""
    return isinstance(direction, np.ndarray) and direction.dtype != object


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether these are floats that kernels compute in, or halves that they widen."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64") and dtype.isnative
