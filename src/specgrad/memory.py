"""Memory of results, and of what an engine takes beside its operands: used before where that is
possible, since new memory is slow.

Results that nobody holds any more leave their memory to the next ones, and calls leave their
scratch. All that is kept so is at most `get_memory_cache()` bytes, 64 MiB at first; a quarter of it
may be scratch. A compiled program lends more. It runs the same steps over and over, and each asks
for the same arrays in the same order: a `Reserve` remembers what a step asked for, so that from its
second run on nothing is allocated. Arrays of a reserve must not outlive the run of its program.
"""

from __future__ import annotations

import collections
import math
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import arguments

Array = npt.NDArray[Any]

LINE = 64  # bytes of a cache line
LARGE = 1 << 16  # bytes from which it matters where an array begins, and whether its memory was used before


class Here(threading.local):
    """The reserve that this thread takes arrays from, if any."""

    reserve: Reserve | None = None


class Memory(NamedTuple):
    """Bytes from a cache line on, and what holds them."""

    size: int
    address: int
    owner: Array


here = Here()
_most = [1 << 26]  # bytes that are kept, in a list that outlives this module
_spare: collections.deque[Memory] = collections.deque(maxlen=16)
_scratch: collections.deque[Memory] = collections.deque(maxlen=8)


def get_memory_cache() -> int:
    """The largest number of bytes that is kept for results and scratch of later calls."""
    return _most[0]


def set_memory_cache(n: int) -> None:
    """Keep at most `n` bytes of memory for results and scratch of later calls, and free what is
    kept now. 0 keeps no memory.

    Kept memory makes calls faster: the system clears every page of new memory, which can take as
    long as a pooling call.
    """
    _most[0] = arguments.integer("set_memory_cache", "n", n, 0, most=arguments.LONGEST)
    clear_memory_cache()


def clear_memory_cache() -> None:
    """Free all memory that is kept for later calls. Results in use, and the memory of compiled
    programs, are not freed."""
    _spare.clear()
    _scratch.clear()


class Block:
    """Memory of one array and its views. When the last of them goes it is kept for another: new
    memory costs as much as a pooling does, since the system clears every page of it."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: Memory, size: int) -> None:
        self.memory = memory
        self.__array_interface__ = {"data": (memory.address, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(
        self, spare: Any = _spare, most: list[int] = _most
    ) -> None:  # what it needs when the module is gone already
        bound = most[0] // 4 * 3
        if self.memory[0] <= bound // 2:
            spare.append(self.memory)
            try:  # by places: other threads, and blocks that go while this one does, may change it meanwhile
                while sum(spare[place][0] for place in range(len(spare))) > bound:
                    spare.popleft()
            except IndexError:
                pass


def _new(size: int) -> Memory:
    owner = np.empty(size + LINE, np.uint8)
    start: int = owner.ctypes.data
    return Memory(size, start + -start % LINE, owner)


def _taken(size: int) -> Memory:
    """Spare memory that is large enough and not twice so, or new, from a cache line on."""
    for _ in range(len(_spare)):
        try:
            memory = _spare.pop()
        except IndexError:  # another thread was quicker
            break
        if size <= memory.size <= 2 * size:
            return memory
        _spare.appendleft(memory)
    return _new(size)


def take_scratch(size: int) -> Memory:
    """Memory for one call, until it is given to `keep_scratch`; bytes are anything."""
    try:
        memory = _scratch.pop()
        if memory.size >= size:
            return memory
    except IndexError:
        pass
    return _new(max(size, LARGE))


def keep_scratch(memory: Memory) -> None:
    """Keep the scratch of a call that has ended for the next one, if it is not much."""
    if memory.size <= _most[0] // 32:
        _scratch.append(memory)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array whose cells are anything; a large one begins with a cache line, since vectors that
    are written across two of them cost twice."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or dtype.hasobject:
        return np.empty(shape, dtype)
    found: Array = np.asarray(Block(_taken(size), size)).view(dtype).reshape(shape)
    return found


class Reserve:
    """The arrays of one step, which it is lent again in the order in which it asked for them: while
    `here.reserve` is this one, from `taken` on."""

    __slots__ = ("arrays", "taken")

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.taken = 0

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
    """An array whose cells are anything, for use until the call ends or, where something is kept,
    until that is used."""
    reserve = here.reserve
    return empty(shape, dtype) if reserve is None else reserve.room(shape, dtype)
