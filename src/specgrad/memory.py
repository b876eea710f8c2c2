"""Memory that an engine takes beside its operands and results: fresh, or the same again where a compiled program lends it.

A program runs the same steps over and over, and each asks for the same arrays in the same order. A `Reserve` remembers what a step
asked for, so that from its second run on nothing is allocated. Arrays of a reserve must not outlive the run of its program.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_here = threading.local()


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
            self.arrays.append(np.empty(shape, dtype))
        found = self.arrays[self.taken]
        if found.shape != shape or found.dtype != dtype:
            found = self.arrays[self.taken] = np.empty(shape, dtype)
        self.taken += 1
        return found


def room(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array whose cells are anything, for use until the call ends or, where something is kept, until that is used."""
    reserve: Reserve | None = getattr(_here, "reserve", None)
    return np.empty(shape, dtype) if reserve is None else reserve.room(shape, dtype)
