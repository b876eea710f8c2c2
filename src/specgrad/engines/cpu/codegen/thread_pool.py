"""parallel_for: a compiled task over all items, in chunks, on the threads that `specgrad.get_num_threads` allows.

Each thread has scratch of its own, from a cache line on. A call with one chunk, or on one thread, runs where it is called.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import operator
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .... import threads
from ....memory import LINE
from .object_code import Compiled

Array = npt.NDArray[Any]

LEAST, MOST = (
    1 << 16,
    1 << 20,
)  # bytes of scratch: the least that is allocated, and the most that is kept for the next call

_DATA = object.__basicsize__  # where an array object holds the address of its cells, by NumPy's binary interface
_word = ctypes.c_size_t.from_address


def address(array: Array) -> int:
    """Where the cells of an array begin. The array may be read-only; the caller keeps it alive."""
    return _word(id(array) + _DATA).value


class Scratch(NamedTuple):
    """Memory for one thread."""

    address: int
    size: int
    owner: Array


_spare: collections.deque[Scratch] = collections.deque(maxlen=32)


def _take(size: int) -> Scratch:
    """Scratch that no other thread uses; `_give` it back."""
    try:
        found = _spare.pop()
    except IndexError:
        pass
    else:
        if found.size >= size:
            return found
    size = max(size, LEAST)
    owner = np.empty(size + LINE, np.uint8)
    start = address(owner)
    return Scratch(start + -start % LINE, size, owner)


def _give(scratch: Scratch) -> None:
    if scratch.size <= MOST:
        _spare.append(scratch)


def parallel_for(compiled: Compiled, args: bytes, items: int, grain: int, scratch: int = 0) -> int:
    """Run a task on all items, `grain` of them at a time; the flags that its parts return, joined by "or".

    `args` holds the 64-bit integers that the kernel asks for; `scratch` is how many bytes of it a thread needs, if that is more
    than the kernel says itself.
    """
    size, task = max(compiled.scratch, scratch), compiled.task
    members = 1 if items <= grain else min(threads.get_num_threads(), -(-items // grain))
    if members == 1:
        own = _take(size)
        flags: int = task(args, 0, items, own.address)
        _give(own)
        return flags
    starts, found = iter(range(0, items, grain)), [0]

    def work() -> None:
        own = _take(size)
        found.extend(task(args, begin, min(begin + grain, items), own.address) for begin in starts)
        _give(own)

    threads.share(work, members)
    return functools.reduce(operator.or_, found)


class Call:
    """A compiled kernel with its sizes: ``call(*addresses)`` runs it on all threads. Calls may overlap, in any threads.

    Parameters of the kernel that `sizes` does not name are addresses, in the kernel's order.
    """

    __slots__ = ("_pack", "_places", "_template", "compiled", "grain", "items", "scratch")

    def __init__(self, compiled: Compiled, sizes: Mapping[str, int], items: int, grain: int, scratch: int = 0) -> None:
        self.compiled, self.items, self.grain, self.scratch = compiled, items, grain, scratch
        self._template = [sizes.get(name, 0) for name in compiled.parameters]
        self._places = [place for place, name in enumerate(compiled.parameters) if name not in sizes]
        self._pack = struct.Struct(f"={len(self._template)}q").pack

    def __call__(self, *addresses: int) -> int:
        """Run it with these addresses (see `address`); its flags."""
        args = self._template.copy()
        for place, number in zip(self._places, addresses, strict=True):
            args[place] = number
        return parallel_for(self.compiled, self._pack(*args), self.items, self.grain, self.scratch)
