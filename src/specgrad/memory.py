"""Memory of results, and of what an engine takes beside its operands: used before where that is possible, since new memory is slow.

Results that nobody holds any more leave their memory to the next ones, up to `KEPT` bytes in all. A compiled program lends more. It runs the
same steps over and over, and each asks for the same arrays in the same order: a `Reserve` remembers what a step asked for, so that from its
second run on nothing is allocated. Arrays of a reserve must not outlive the run of its program.
"""

from __future__ import annotations

import collections
import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LINE = 64  # bytes of a cache line
LARGE = 1 << 16  # bytes from which it matters where an array begins, and whether its memory was used before
KEPT = 1 << 28  # bytes of memory that is kept for the next arrays


class _Here(threading.local):
    """The reserve that this thread takes arrays from, if any."""

    reserve: Reserve | None = None


_here = _Here()
_spare: collections.deque[tuple[int, int, Array]] = collections.deque(
    maxlen=16
)  # sizes, addresses, and what holds them


class Block:
    """Memory of one array and its views. When the last of them goes it is kept for another: new memory costs as much as a pooling does,
    since the system clears every page of it."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: tuple[int, int, Array], size: int) -> None:
        self.memory = memory
        self.__array_interface__ = {"data": (self.memory[1], False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self, spare: Any = _spare, most: int = KEPT) -> None:  # what it needs when the module is gone already
        if self.memory[0] <= most // 2:
            spare.append(self.memory)
            try:  # by places: other threads, and blocks that go while this one does, may change it meanwhile
                while sum(spare[place][0] for place in range(len(spare))) > most:
                    spare.popleft()
            except IndexError:
                pass


def _taken(size: int) -> tuple[int, int, Array]:
    """Spare memory that is large enough and not twice so, or new, from a cache line on."""
    for _ in range(len(_spare)):
        try:
            memory = _spare.pop()
        except IndexError:  # another thread was quicker
            break
        if size <= memory[0] <= 2 * size:
            return memory
        _spare.appendleft(memory)
    fresh = np.empty(size + LINE, np.uint8)
    start: int = fresh.ctypes.data
    return size, start + -start % LINE, fresh


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array whose cells are anything; a large one begins with a cache line, since vectors that are written across two of them cost twice."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or dtype.hasobject:
        return np.empty(shape, dtype)
    found: Array = np.asarray(Block(_taken(size), size)).view(dtype).reshape(shape)
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
        self.before = _here.reserve
        _here.reserve = self

    def __exit__(self, *problem: object) -> None:
        _here.reserve = self.before

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The next array, if it is what it was; else a new one in its place."""
        if self.taken == len(self.arrays):
            self.arrays.append(empty(shape, dtype))
        found = self.arrays[self.taken]
        if found.shape != shape or found.dtype != dtype:
            found = self.arrays[self.taken] = empty(shape, dtype)
        self.taken += 1
        return found


def room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array whose cells are anything, for use until the call ends or, where something is kept, until that is used."""
    reserve = _here.reserve
    return empty(shape, dtype) if reserve is None else reserve.room(shape, dtype)
