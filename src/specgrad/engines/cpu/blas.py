"""One BLAS thread per matrix product: specgrad's own thread pool runs several products at once.

BLAS libraries keep one global number of threads. It is lowered to 1 when the first of our calls
begins and put back when the last one ends, so that concurrent callers neither oversubscribe the
machine nor leave it slowed down. A forked child, where none of those calls goes on, has the number
put back.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

from ... import threads

_lock = threading.RLock()  # a signal handler may call while its thread counts
_inside: set[object] = set()
_before: list[int] = []
"""The numbers to be put back; until then nobody asks for them again, so that what an interrupt cuts
short is done when the next call ends."""


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Within this block, products of matrices run on the thread that calls them."""
    global _before
    here = object()
    try:
        with _lock:
            _before = _before or [library.get_num_threads() for library in _libraries()]
            _inside.add(here)
            for library in _libraries():
                library.set_num_threads(1)
        yield
    finally:
        _inside.discard(here)  # before anything that an interrupt could keep from being done
        with _lock:
            if not _inside:
                _put_back()


def _put_back() -> None:
    global _before
    for library, number in zip(_libraries(), _before, strict=False):
        library.set_num_threads(number)
    _before = []


def as_many_threads() -> contextlib.AbstractContextManager[None]:
    """For a single product, which BLAS itself may cut: on one thread if we are told to use one."""
    return one_thread_each() if threads.get_num_threads() == 1 else contextlib.nullcontext()


@functools.cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _forget() -> None:
    global _lock
    _lock = threading.RLock()
    _inside.clear()
    if _before:
        _put_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
