"""Threads: how many an operator may use, and a pool on which compiled loops run side by side.

A call splits its work into tasks that do not depend on the number of threads, so neither do the bits of its result. The calling
thread takes part, so that callers in many threads never wait for one another's tasks to begin. A forked child starts a pool of its
own.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import arguments

VARIABLE = "SPECGRAD_NUM_THREADS"

_here: contextvars.ContextVar[int | None] = contextvars.ContextVar("specgrad_threads", default=None)
_lock = threading.Lock()
_everywhere: int | None = None
_jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
_helpers = 0


def _available() -> int:
    if VARIABLE in os.environ:
        word = os.environ[VARIABLE]
        return arguments.integer(VARIABLE, "value", int(word) if word.strip().isdigit() else word, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads an operator called here may use."""
    global _everywhere
    here = _here.get()
    if here is not None:
        return here
    if _everywhere is None:
        _everywhere = _available()
    return _everywhere


def set_num_threads(n: int) -> None:
    """Let operators use up to `n` threads, from now on, wherever no `num_threads` block says otherwise."""
    global _everywhere
    _everywhere = arguments.integer("set_num_threads", "n", n, 1)


@contextlib.contextmanager
def num_threads(n: int) -> Iterator[None]:
    """Let operators use up to `n` threads within a ``with`` block, in this thread or task: ``with num_threads(1): …``."""
    token = _here.set(arguments.integer("num_threads", "n", n, 1))
    try:
        yield
    finally:
        _here.reset(token)


def run(work: Callable[[Any], None], tasks: Sequence[Any]) -> None:
    """Call `work`, which must release the interpreter's lock to be of use here, on every task; the caller works too."""
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


def share(work: Callable[[], Any], parts: int) -> bool:
    """Call `work` here and on as many other threads as there are parts for; each call takes parts until none is left. Whether any call
    returned something true."""
    if parts < 2:
        return bool(work())
    jobs = [Job(work) for _ in range(min(get_num_threads(), parts) - 1)]
    if jobs:
        _hire(len(jobs))
        for job in jobs:
            _jobs.put(job)
    try:
        found = bool(work())
    finally:
        for job in jobs:
            job.finish()
    for job in jobs:
        if job.error is not None:
            raise job.error
        found = found or job.found
    return found


class Job:
    """A call that some thread of the pool makes, unless it is called off before."""

    __slots__ = ("done", "error", "found", "started", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.error, self.found = work, None, False
        self.started, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()

    error: BaseException | None

    def start(self) -> None:
        if self.started.acquire(blocking=False):
            try:
                self.found = bool(self.work())
            except BaseException as problem:
                self.error = problem
            finally:
                self.done.release()

    def finish(self) -> None:
        """Call it off, or wait for its end if it has begun."""
        if not self.started.acquire(blocking=False):
            self.done.acquire()


def _hire(helpers: int) -> None:
    """Let there be so many threads that wait for jobs."""
    global _helpers
    if _helpers < helpers:
        with _lock:
            while _helpers < helpers:
                threading.Thread(target=_serve, args=(_jobs,), daemon=True, name=f"specgrad-{_helpers}").start()
                _helpers += 1


def _serve(jobs: queue.SimpleQueue[Job]) -> None:
    while True:
        jobs.get().start()


def _forget() -> None:
    """Threads do not survive a fork: the child hires its own."""
    global _jobs, _helpers, _lock
    _jobs, _helpers, _lock = queue.SimpleQueue(), 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
