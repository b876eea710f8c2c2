"""Memory that an engine takes beside its operands and results: fresh, or the same again where a compiled program lends it.

A program runs the same steps over and over, and each asks for the same arrays in the same order. A `Reserve` remembers what a step
asked for, so that from its second run on nothing is allocated. Arrays of a reserve must not outlive the run of its program.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LINE = 64  # bytes of a cache line
LARGE = 1 << 14  # bytes from which it matters where an array begins

_here = threading.local()


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array whose cells are anything; a large one begins with a cache line, since vectors that are written across two of them cost twice."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = np.empty(size + LINE, np.uint8)
    skipped = -memory.ctypes.data % LINE
    found: Array = memory[skipped : skipped + size].view(dtype).reshape(shape)
    return found


class Reserve:
    """The arrays of one step: ``with reserve: …`` hands them out again, in the order in which they were asked for."""

    __slots__ = ("arrays", "before", "taken")

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.taken = 0
        self.before: Reserve | None = None

    def __enter__(self) -> None:
        self.taken = 0
        self.before = getattr(_here, "reserve", None)
        _here.reserve = self

    def __exit__(self, *problem: object) -> None:
        _here.reserve = self.before

    def room(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """The next array, if it is what it was; else a new one in its place."""
        if self.taken == len(self.arrays):
            self.arrays.append(empty(shape, dtype))
        found = self.arrays[self.taken]
        if found.shape != shape or found.dtype != dtype:
            found = self.arrays[self.taken] = empty(shape, dtype)
        self.taken += 1
        return found


def room(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array whose cells are anything, for use until the call ends or, where something is kept, until that is used."""
    reserve: Reserve | None = getattr(_here, "reserve", None)
    return empty(shape, dtype) if reserve is None else reserve.room(shape, dtype)
