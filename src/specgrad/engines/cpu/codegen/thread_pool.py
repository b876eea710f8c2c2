"""parallel_for: a compiled task over all items, in chunks, on the threads that
`specgrad.get_num_threads` allows.

On Linux the threads wait in machine code (`native_pool`). Elsewhere, or if a system function is
missing, Python threads call the task, which releases the interpreter's lock. Each thread has its
own scratch memory, aligned to a cache line. A call of one chunk, or with one thread, runs in the
calling thread. A forked child starts its own pool. Calls from the torch front end run on torch's
threads (`Team`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import operator
import os
import platform
import struct
import sys
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from .... import threads
from ....memory import LINE, Array, Memory, keep_scratch, take_scratch
from . import CodegenError, code_cache, native_pool, object_code
from .native_pool import DONE, GRAIN, ITEMS, MEMBERS, SCRATCH, SIZE, STOP, STRIDE, TEAM, WAKE, WORDS
from .object_code import Compiled

MOST = 256  # threads

NONE = Memory(0, 0, np.empty(0, np.uint8))

_word = ctypes.c_size_t.from_address
_is_first = sys.implementation.name == "cpython" and _word(id(NONE.owner) + object.__basicsize__)

DATA = object.__basicsize__ if _is_first and _is_first.value == NONE.owner.ctypes.data else 0
"""How many bytes into an array object the address of its cells stands, by NumPy's binary interface;
0 if that is not known."""

_system: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
"""The system's functions, looked up once: a forked child must not wait for the loader."""


def address(array: Array) -> int:
    """Where the cells of an array begin. The array may be read-only; the caller keeps it alive."""
    if not isinstance(array, np.ndarray):  # a number of NumPy's looks like an array and has other memory
        raise TypeError(f"a kernel takes arrays, not {type(array).__name__}")
    return _word(id(array) + DATA).value if DATA else array.ctypes.data


class SimplePool:
    """Threads of Python's, by `specgrad.threads`."""

    address = 0

    def __init__(self) -> None:
        self._code = code = _library(workers=False)
        self.alone = _function(code["parallel_for"], ctypes.c_char_p)
        self._part = _function(code["part"], ctypes.c_char_p, *[ctypes.c_int64] * 3)

    def parallel_for(self, block: bytes) -> int:
        """Run a call of several members; its flags."""
        words = struct.unpack_from(f"={WORDS}q", block)
        items, grain, stride, members, scratch = (words[place] for place in (ITEMS, GRAIN, STRIDE, MEMBERS, SCRATCH))
        starts, turns, flags = iter(range(0, items, grain)), itertools.count(), [0]

        def work() -> None:
            own = scratch + next(turns) * stride
            flags.extend(self._part(block, begin, min(begin + grain, items), own) for begin in starts)

        threads.share(work, members)
        return functools.reduce(operator.or_, flags)

    def hire(self, workers: int) -> None:
        """Nothing: `specgrad.threads` does."""

    def stop(self) -> None:
        """Nothing: the threads are not only its own."""


class NativePool:
    """Worker threads that wait in machine code."""

    def __init__(self) -> None:
        self._code = code = _library(workers=True)
        self.parallel_for = self.alone = _function(code["parallel_for"], ctypes.c_char_p)
        memory = np.zeros(SIZE + LINE // 8, np.int64)
        self._state = memory[-memory.ctypes.data % LINE // 8 :][:SIZE]
        self.address = address(self._state)
        self.workers: list[threading.Thread] = []
        self._lock = threading.RLock()  # a signal handler may call while its thread hires
        for place in (WAKE, DONE):
            _system.sem_init(self._semaphore(place), 0, 0)

    def _serve(self) -> None:
        """Wait for calls, holding on to this object and so to the code."""
        _function(self._code["serve"], ctypes.c_void_p)(self.address)

    def _semaphore(self, place: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.address + 8 * place)

    def hire(self, workers: int) -> None:
        """Let there be so many workers, unless the pool was stopped or the system gives no more
        threads."""
        if workers <= len(self.workers):
            return
        with self._lock:
            while len(self.workers) < workers and not self._state[STOP]:
                name = f"specgrad-worker-{len(self.workers)}"
                one = threading.Thread(target=self._serve, daemon=True, name=name)
                try:
                    one.start()
                except RuntimeError:
                    return
                self.workers.append(one)

    def stop(self) -> None:
        """Let the workers end before their code does; whoever calls then runs alone."""
        with self._lock:
            self._state[STOP] = 1
            for _ in self.workers:
                _system.sem_post(self._semaphore(WAKE))
            for one in self.workers:
                one.join(timeout=1)


class Team(NativePool):
    """The threads of another library, by the GOMP_parallel of its OpenMP runtime. Each thread that
    calls has a team of its own."""

    def __init__(self, parallel: int) -> None:
        super().__init__()
        self._state[TEAM] = parallel

    def hire(self, workers: int) -> None:
        """Nothing: the other library does."""


class Here(threading.local):
    """Whether this thread's calls run on the team's threads."""

    borrows = False


Pool = NativePool | SimplePool
here = Here()
_pool: Pool | None = None
_team: Team | None = None
_is_forked = False


def borrow(library: str) -> None:
    """Let the team be the threads of OpenMP's runtime that a library of this path has loaded, if it
    has one. Not in a forked child, where the runtime would wait for its parent's threads."""
    global _team
    if _is_forked:
        return
    with threads.loading, contextlib.suppress(OSError, AttributeError, CodegenError):
        _team = Team(ctypes.cast(ctypes.CDLL(library).GOMP_parallel, ctypes.c_void_p).value or 0)


def _function(code: int, *kinds: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(code)


@functools.cache
def _library(workers: bool) -> Any:
    """The code of the pool; CodegenError where functions that its workers need are missing."""
    needs = native_pool.SYSTEM if workers else {}
    if missing := [name for name in needs if not hasattr(_system, name)]:
        raise CodegenError(f"the system has no {', '.join(missing)}")
    symbols = {name: ctypes.cast(getattr(_system, name), ctypes.c_void_p).value or 0 for name in needs}
    machine = platform.machine()
    _, code = code_cache.fetch((native_pool.emit, machine, workers), lambda: (None, native_pool.emit(machine, workers)))
    return object_code.load(code, ("part", "parallel_for", *["serve"] * workers), symbols)


def _start() -> Pool:
    global _pool
    with threads.loading:
        if _pool is None:
            try:
                _pool = NativePool()
            except CodegenError:
                _pool = SimplePool()
        return _pool


class Call:
    """A task over all items, in chunks of `grain`: ``call(*arrays)`` runs it, on all threads.

    The first parameters of the kernel are arrays, in the kernel's order; `sizes` names the others.
    `scratch` is how many bytes of it a thread needs, if that is more than the kernel says. `tables`
    are those whose addresses are among the sizes: they live as long as the call does, which another
    thread's plan may replace while it runs. Calls may overlap, in any threads and in signal
    handlers.
    """

    __slots__ = ("_head", "_keeps", "_pack", "_scratch", "_tail", "chunks", "tables")

    def __init__(
        self,
        compiled: Compiled,
        sizes: Mapping[str, int],
        items: int,
        grain: int,
        scratch: int = 0,
        tables: tuple[Array, ...] = (),
    ) -> None:
        grain = max(grain, items >> 30, 1)  # chunks are counted in 32 bits
        self._keeps, self.tables, self.chunks = compiled, tables, -(-items // grain)
        self._scratch = max(compiled.scratch, scratch + -scratch % LINE)
        names = compiled.parameters
        arrays = sum(name not in sizes for name in names)
        self._head = struct.pack("=6q", compiled.address, items, grain, self._scratch, len(names), arrays)
        self._pack = struct.Struct(f"={4 + arrays}q").pack
        self._tail = struct.pack(f"={len(names) - arrays}q", *(sizes[name] for name in names[arrays:]))

    def __call__(self, *arrays: Array) -> int:
        """Run the task with the addresses of these arrays, which may be read-only; its flags,
        joined by "or"."""
        words = map(id if DATA else address, arrays)
        pool, members = _pool or _start(), 1
        run = pool.alone
        if self.chunks > 1 and (members := min(threads.get_num_threads(), self.chunks, MOST)) > 1:
            if here.borrows and _team is not None:
                pool = _team
            pool.hire(members - 1)
            run = pool.parallel_for
        memory = take_scratch(members * self._scratch) if self._scratch else NONE
        flags: int = run(self._head + self._pack(DATA, members, pool.address, memory.address, *words) + self._tail)
        if self._scratch:
            keep_scratch(memory)
        return flags


def _renew() -> None:
    """Threads do not survive a fork: the child starts its own, since OpenMP's runtime does not."""
    global _pool, _team, _is_forked
    _team, _is_forked = None, True
    if _pool is not None:
        _pool = type(_pool)()


atexit.register(lambda: _pool and _pool.stop())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
