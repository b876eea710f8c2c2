"""One thread per product of matrices while our own threads run many side by side.

BLAS libraries keep one global number of threads. It is lowered to 1 when the first of our parallel calls begins and put back when
the last one ends, so that concurrent callers neither oversubscribe the machine nor leave it slowed down.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Within this block, products of matrices run on the thread that calls them."""
    global _inside, _limit
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


_found: Any = None


def _controller() -> Any:
    global _found
    if _found is None:
        from threadpoolctl import ThreadpoolController

        _found = ThreadpoolController()
    return _found
