"""Products of matrices by NumPy's BLAS: large ones in pieces on our own threads, each piece by one
thread of BLAS.

Threads of BLAS go on spinning after a product, for some 25 ms in OpenBLAS, and so slow down all
kernels that come next. Pieces depend on shapes alone, and so the bits of a result do not depend on
the number of threads.

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

import numpy as np

from ... import threads
from ...memory import Array

ALONE = {True: 1 << 13, False: 1 << 18}  # multiplications that BLAS leaves to one thread: by a vector, or not
PIECE, PIECES, LINES = 1 << 22, 32, 16  # multiplications of a piece, at least; pieces, at most; rows of one, at least

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


def product(x: Array, y: Array, out: Array) -> None:
    """out = x @ y, of matrices or stacks of matrices."""
    multiplications = out.size * x.shape[-1]
    is_shared = any(np.may_share_memory(out, one) for one in (x, y))
    if multiplications <= ALONE[1 in out.shape[-2:]] or is_shared:
        np.matmul(x, y, out=out)
        return
    x, y = (np.broadcast_to(one, (*out.shape[:-2], *one.shape[-2:])) for one in (x, y))
    axis = max(range(out.ndim), key=out.shape.__getitem__)
    count, least = out.shape[axis], LINES if axis >= out.ndim - 2 else 1
    pieces = max(1, min(PIECES, multiplications // PIECE, count // least))

    def part(first: int, last: int) -> None:
        cut = (slice(None),) * axis + (slice(first, last),)
        left = x if axis == out.ndim - 1 else x[cut]
        right = y if axis == out.ndim - 2 else y[cut]
        with np.errstate(all="ignore"):  # which each thread has for itself
            np.matmul(left, right, out=out[cut])

    with one_thread_each():
        threads.spread(part, count, -(-count // pieces))


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
