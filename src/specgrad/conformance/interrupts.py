"""SIGINT during a check: recorded at any time, and raised as KeyboardInterrupt only where work may
stop.

An exception raised in a callback, a destructor or a subject's own handler may be swallowed. The
record remains, and `pulse` raises it again between two cases.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Interrupts:
    """A context manager that handles SIGINT."""

    def __init__(self) -> None:
        self.noted = False
        self._raising = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        self.noted = True
        if self._raising:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """A context in which SIGINT raises KeyboardInterrupt; the block then ends without an
        error."""
        try:
            self._raising = True
            self.pulse()
            yield
        except KeyboardInterrupt:
            self.noted = True
        finally:
            self._raising = False

    def pulse(self) -> None:
        """Raise KeyboardInterrupt if a SIGINT was recorded."""
        if self.noted:
            raise KeyboardInterrupt


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Block SIGINT for a moment: SIGINT arrives afterwards, and a process started meanwhile blocks
    it for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
