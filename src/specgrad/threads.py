"""Threads: how many an operator may use, and a pool for work of several steps in Python, each of
which releases the interpreter's lock.

A call splits its work into tasks that do not depend on the number of threads, so neither do the
bits of its result. The calling thread takes part, so that callers in many threads never wait for
one another's tasks to begin. A forked child starts a pool of its own; a fork waits for threads that
load or compile something.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import logging  # noqa: F401  before our hooks: see _wait
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import arguments

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "SPECGRAD_NUM_THREADS"

_here: contextvars.ContextVar[int | None] = contextvars.ContextVar("specgrad_threads", default=None)
_lock = threading.RLock()  # a signal handler may call while its thread hires
_everywhere: int | None = None
_calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
_helpers = 0

loading = threading.RLock()
"""Held while an engine or a kernel is loaded."""

_held: list[Any] = []


def _quota(groups: str | Path = "/proc/self/cgroup", mount: str | Path = "/sys/fs/cgroup") -> float:
    """How many processors the control groups of this process, and those above them, give it time
    for; inf without a quota.

    A line of `groups` reads number:controllers:path; version 2 has no controllers there. Inside a
    container the path may be the host's, of which only the root exists.
    """
    from pathlib import Path

    found = [math.inf]
    try:
        lines = [line.split(":", 2) for line in Path(groups).read_text().splitlines() if line.count(":") >= 2]
    except OSError:
        lines = []
    for _, controllers, path in lines:
        if not controllers or "cpu" in controllers.split(","):
            parts = [] if ".." in path else path.strip("/").split("/")
            for root in (Path(mount, controllers), Path(mount, "cpu" if controllers else "unified")):
                found += [_quota_of(root.joinpath(*parts[:depth])) for depth in range(len(parts) + 1)]
    return min(found)


def _quota_of(group: Path) -> float:
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if int(quota) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
            continue
    return math.inf


@functools.cache
def _available() -> int:
    """The processors that this process may run on, or as many as its control groups give it time
    for, if that is less."""
    if word := os.environ.get(VARIABLE):
        return arguments.integer(VARIABLE, "value", int(word) if word.strip().isdecimal() else word, 1)
    if hasattr(os, "process_cpu_count"):
        count = os.process_cpu_count() or 1
    else:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(count, _quota())))


def get_num_threads() -> int:
    """The largest number of threads that an operator called here uses.

    By default this is the number of processors that this process may run on, or fewer if its
    control group has a quota (a container's CPU limit). The variable SPECGRAD_NUM_THREADS changes
    the default."""
    return _here.get() or _everywhere or _available()


def set_num_threads(n: int) -> None:
    """Let operators use up to `n` threads from now on, except inside `num_threads` blocks."""
    global _everywhere
    _everywhere = arguments.integer("set_num_threads", "n", n, 1)


@contextlib.contextmanager
def num_threads(n: int) -> Iterator[None]:
    """Let operators use up to `n` threads within a ``with`` block, in this thread or task: ``with
    num_threads(1): …``."""
    before, wanted = _here.get(), arguments.integer("num_threads", "n", n, 1)
    try:
        _here.set(wanted)
        yield
    finally:
        _here.set(before)


def run(work: Callable[[Any], None], tasks: Sequence[Any]) -> None:
    """Call `work`, which must release the interpreter's lock to be of use here, on every task; the
    caller works too."""
    left = collections.deque(tasks)

    def drain() -> None:
        while True:
            try:
                task = left.popleft()
            except IndexError:
                return
            try:
                work(task)
            except BaseException:
                left.clear()
                raise

    share(drain, len(tasks))


def spread(work: Callable[[int, int], None], count: int, most: int) -> None:
    """Call work(first, last) on all of so many items, at most `most` and at least one at a time, as
    `run` does."""
    most = max(1, most)
    if count <= most:
        work(0, count)
    else:
        run(lambda first: work(first, min(first + most, count)), range(0, count, most))


def share(work: Callable[[], Any], parts: int) -> bool:
    """Call `work` here and on up to as many other threads as there are parts for; each call takes
    parts until none is left. Whether any call returned something true."""
    helpers = min(get_num_threads(), parts) - 1
    if helpers > _helpers:
        helpers = _hired(helpers)
    if helpers < 1:
        return bool(work())
    call = Call(work, helpers - 1)
    try:
        try:
            _calls.put(call)
            found = bool(work())
        finally:
            call.end()
    finally:
        call.end()  # if an interrupt came before the first: what helpers work on must outlive their work
    if call.error is not None:
        raise call.error
    return found or call.found


class Call:
    """Work that threads join while it lasts. Each that does calls two more: many cores are reached
    soon, and short work wakes few."""

    __slots__ = ("done", "error", "found", "lasts", "lock", "present", "wanted", "work")

    error: BaseException | None

    def __init__(self, work: Callable[[], Any], wanted: int) -> None:
        self.work, self.wanted, self.error, self.found = work, wanted, None, False
        self.present, self.lasts = 0, True
        self.lock, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()

    def join(self) -> None:
        """Take part in it, if there is anything left to do."""
        with self.lock:
            if not self.lasts:
                return
            self.present += 1
            more = min(self.wanted, 2)
            self.wanted -= more
        for _ in range(more):
            _calls.put(self)
        try:
            if self.work():
                self.found = True
        except BaseException as problem:
            self.error = problem
        with self.lock:
            self.present -= 1
            if not self.lasts and not self.present:
                self.done.release()

    def end(self) -> None:
        """Let nobody join any more, and wait for those who did. An interrupt that comes meanwhile
        is raised when they are gone."""
        with self.lock:
            self.lasts = False
        interrupt = None
        while self.present:
            try:
                self.done.acquire(timeout=1)
            except BaseException as problem:
                interrupt = problem
        if interrupt is not None:
            raise interrupt


def _hired(helpers: int) -> int:
    """Let there be so many threads that wait for calls, or as many as the system gives."""
    global _helpers
    with _lock:
        while _helpers < helpers:
            try:
                threading.Thread(target=_serve, args=(_calls,), daemon=True, name=f"specgrad-{_helpers}").start()
            except RuntimeError:
                break
            _helpers += 1
        return min(helpers, _helpers)


def _serve(calls: queue.SimpleQueue[Call]) -> None:
    while True:
        calls.get().join()


def _wait() -> None:
    """A thread that loads or compiles does not live on in a forked child, which would find its
    locks closed for ever.

    Hooks run from the last to the first. That of `logging` takes a lock which compilers ask for now
    and then: it has to run after this one, so `logging` is imported before.
    """
    loading.acquire()
    _held.append(loading)


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _forget() -> None:
    """Threads do not survive a fork: the child hires its own."""
    global _calls, _helpers, _lock
    _go_on()
    _calls, _helpers, _lock = queue.SimpleQueue(), 0, threading.RLock()
    _available.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_forget)
