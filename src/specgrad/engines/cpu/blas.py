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

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Within this block, products of matrices run on the thread that calls them."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = [library.get_num_threads() for library in _libraries()]
        _inside += 1
        if _inside == 1:
            for library in _libraries():
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, number in zip(_libraries(), _before, strict=True):
                    library.set_num_threads(number)


def as_many_threads() -> contextlib.AbstractContextManager[None]:
    """For a single product, which BLAS itself may cut: on one thread if we are told to use one."""
    return one_thread_each() if threads.get_num_threads() == 1 else contextlib.nullcontext()


@functools.cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _forget() -> None:
    global _lock, _inside
    _lock = threading.Lock()
    if _inside:
        _inside = 0
        for library, number in zip(_libraries(), _before, strict=True):
            library.set_num_threads(number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
