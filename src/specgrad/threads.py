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
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import arguments

VARIABLE = "SPECGRAD_NUM_THREADS"

_here: contextvars.ContextVar[int | None] = contextvars.ContextVar("specgrad_threads", default=None)
_lock = threading.Lock()
_everywhere: int | None = None
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


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
    helpers = min(get_num_threads(), len(tasks)) - 1
    if helpers < 1:
        for task in tasks:
            work(task)
        return
    left = collections.deque(tasks)

    def drain() -> None:
        while True:
            try:
                task = left.popleft()
            except IndexError:
                return
            work(task)

    futures = [_executor(helpers).submit(drain) for _ in range(helpers)]
    try:
        drain()
    finally:
        left.clear()
        for future in futures:
            if not future.cancel():
                future.result()


def _executor(helpers: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < helpers:
            _pool, _pool_size = ThreadPoolExecutor(helpers, thread_name_prefix="specgrad"), helpers
        return _pool


def _forget() -> None:
    """Threads do not survive a fork: the child makes its own."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
