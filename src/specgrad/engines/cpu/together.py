"""Kernels on all threads: their tasks, a part of scratch for each thread, and the crew that runs them beside the caller.

The threads of the crew are hired when a call first has use for them, and then wait in compiled code (`kernels.crew`). Where there are no
semaphores to wait on, which is everywhere but on Linux, threads of Python's run the kernels instead. A forked child hires its own.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import sys
import threading
from typing import Any

import numpy as np

from ... import threads
from ...memory import LINE
from .cells import KEPT, Array
from .compiled import kernel, straight
from .kernels import mailbox
from .kernels.mailbox import BEGIN, DONE, LENGTH, OTHERS, OVER, SHARES, SIZE, STEP, WAKE

NATIVE = sys.platform == "linux"
_system = ctypes.CDLL(None) if NATIVE else None  # once: a forked child must not wait for the loader

Room = tuple[str, int, np.dtype[Any]]
"""Scratch that a kernel needs for each thread: what for, how many cells, and of which type."""


NONE_TAKEN = np.zeros(3, np.int64)
MANY = 16  # tasks of a thread, which work on more cells than its core's caches hold
_turned = itertools.cycle((False, True))  # whether the tasks of a call are taken backwards, if they are many
LEAST = 5120  # cells that scratch has, if it is kept


class Crew:
    """Threads that wait to be called by kernels."""

    def __init__(self) -> None:
        memory = np.zeros(SIZE + 8, np.int64)
        self.state = memory[-memory.ctypes.data % LINE // 8 :][:SIZE]
        self.members: list[threading.Thread] = []
        self.lock = threading.Lock()
        if _system is not None:
            for place in (WAKE, DONE):
                _system.sem_init(self.semaphore(place), 0, 0)

    def semaphore(self, place: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.state[place:].ctypes.data)

    def hire(self, members: int) -> None:
        """Let there be so many of them, unless they were dismissed or the system gives no more threads."""
        with self.lock:
            serve = kernel("crew.serve")
            while len(self.members) < members and not self.state[OVER]:
                name = f"specgrad-crew-{len(self.members)}"
                one = threading.Thread(target=serve, args=(self.state,), daemon=True, name=name)
                try:
                    one.start()
                except RuntimeError:
                    return
                self.members.append(one)

    def dismiss(self) -> None:
        """Let them go before the code in which they wait does; whoever calls then works alone."""
        with self.lock:
            self.state[OVER] = 1
            for _ in self.members:
                if _system is not None:
                    _system.sem_post(self.semaphore(WAKE))
            for one in self.members:
                one.join(timeout=1)


_crew = Crew()
atexit.register(lambda: _crew.dismiss())


class _AtHand(threading.local):
    """The scratch of this thread, by what it is for and its type."""

    def __init__(self) -> None:
        self.rooms: dict[str, Array] = {}
        self.tails: dict[str, tuple[Any, ...]] = {}
        """What kernels that run alone are told last, by the scratch that they need: a counter, scratch, crew and turn."""


_at_hand = _AtHand()


def parts(room: Room, members: int) -> Array:
    """A row of scratch for each of so many threads, kept for the next kernel if it is not much; cells are anything."""
    purpose, size, dtype = room
    key = purpose + dtype.char
    found = _at_hand.rooms.get(key)
    if found is None or len(found) < members or found.shape[1] < size:
        size = max(size + -size % LINE, LEAST)
        memory = np.empty(members * size * dtype.itemsize + LINE, np.uint8)
        start = -memory.ctypes.data % LINE
        found = memory[start : start + members * size * dtype.itemsize].view(dtype).reshape(members, size)
        if found.size <= KEPT:
            _at_hand.rooms[key] = found
            _at_hand.tails.clear()
    return found


def together(name: str, told: tuple[Any, ...], tasks: Array, *rooms: Room | None) -> bool:
    """Run a kernel on its tasks: told(…), tasks, counter, a part of each room for every thread, crew, turn. Whether it says so."""
    return share(kernel(name), told, tasks, rooms)


def share(run: Any, told: tuple[Any, ...], tasks: Array, rooms: tuple[Room | None, ...]) -> bool:
    """As `together`, of a kernel that is compiled."""
    members = min(threads.get_num_threads(), len(tasks)) if len(tasks) > 1 else 1
    backwards = members > 1 and len(tasks) >= MANY * members and next(_turned)
    counter, crew = (NONE_TAKEN if members == 1 else none_taken(members, len(tasks), backwards)).copy(), _crew
    given = [*told, tasks, counter]
    for room in rooms:
        given.append(None if room is None else parts(room, members))
    given.append(crew.state)
    if members > 1:
        if not NATIVE:
            turns = itertools.count()
            return threads.share(lambda: run(*given, next(turns)), members)
        if len(crew.members) < members - 1:
            crew.hire(members - 1)
        counter[OTHERS] = members - 1
    return bool(run(*given, 0))


@functools.lru_cache(maxsize=256)
def none_taken(members: int, tasks: int, backwards: bool) -> Array:
    """The counter of a call for so many threads before any task is taken, for copying: the tasks are shared out evenly, each share the last ones first if
    it goes backwards."""
    counter = np.zeros((members + 1, mailbox.LINE), np.int64)
    edges = np.arange(members + 1) * tasks // members
    counter[0, SHARES] = members
    counter[1:, BEGIN], counter[1:, LENGTH], counter[1:, STEP] = edges[:-1], np.diff(edges), 1
    if backwards:
        counter[1:, BEGIN], counter[1:, STEP] = edges[1:] - 1, -1
    return counter.reshape(-1)


class Call:
    """A kernel with all that it is told after its first arguments, which are arrays of the same types at every call: only at the first one is Numba
    asked what it compiled for these types."""

    __slots__ = ("name", "rooms", "run", "scratch", "tasks", "told")

    def __init__(self, name: str, told: tuple[Any, ...], tasks: Array, *rooms: Room | None) -> None:
        self.name, self.told, self.tasks, self.rooms = name, told, tasks, rooms
        self.run: Any = self.first
        words = ["-" if room is None else room[0] + room[2].char for room in rooms]
        small = all(room is None or room[1] <= LEAST for room in rooms)
        self.scratch = " ".join(words) if small else None
        """Which scratch it needs, unless it is more than the least that there is."""

    def __call__(self, *arrays: Array | None) -> bool:
        """Run it on its tasks; whether it says so."""
        if self.scratch is None or (len(self.tasks) > 1 and threads.get_num_threads() > 1):
            return share(self.run, (*arrays, *self.told), self.tasks, self.rooms)
        # taken away, since another call may come in between, from the handler of a signal
        tail = _at_hand.tails.pop(self.scratch, None)
        if tail is None:
            scratch = [None if room is None else parts(room, 1) for room in self.rooms]
            tail = (NONE_TAKEN.copy(), *scratch, _crew.state, 0)
        says: bool = self.run(*arrays, *self.told, self.tasks, *tail)
        if not says:
            tail[0][0] = 0
            _at_hand.tails[self.scratch] = tail
        return says

    def first(self, *given: Any) -> bool:
        run = kernel(self.name)
        says = bool(run(*given))
        self.run = straight(run, given)
        return says


def _forget() -> None:
    """Threads do not survive a fork: the child hires its own."""
    global _crew, _at_hand
    _crew, _at_hand = Crew(), _AtHand()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
