"""A process that runs functions, one at a time, and may be lost: by a crash, an exit, or a timeout.

The caller gets an exception that says how the process ended, and the next call starts another
process. Printed text is captured. Memory is limited, so that a function that needs too much gets a
MemoryError and no other process is killed. A pool of `concurrent.futures` does not say how a
process ended, cannot be used after a crash, and cannot kill a process that hangs (before Python
3.14).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..sizes import available
from .interrupts import held
from .subject import words_of

MOST_PRINTED = 4000
"""The number of printed characters that are kept."""


class Lost(Exception):
    """The process ended before its answer; the message says how."""


class Worker:
    """A process, started at the first call, with at most `memory` bytes (None: nine tenths of the
    free memory)."""

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory
        self.printed = ""
        self._process: Any = None
        self._connection: Any = None

    @property
    def fresh(self) -> bool:
        """Whether the next call starts a process."""
        return self._process is None

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
        """function(*arguments), computed in the process; raises Lost."""
        if self.fresh:
            self._start()
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(seconds):
                raise Lost(f"no answer within {seconds:g} s")
            done, result = self._connection.recv()
        except (EOFError, OSError):
            raise Lost(self._ending()) from None
        except BaseException:
            self.stop()  # the function is still running
            raise
        if not done:
            raise Lost(result)
        return result

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()  # the thread that listens sees the connection end
            process.join(5)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        reading, writing = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(theirs, writing, self.memory), daemon=True)
        with held():
            process.start()
        theirs.close()
        writing.close()
        self._process, self._connection = process, ours
        threading.Thread(target=self._listen, args=(reading,), daemon=True).start()

    def _listen(self, reading: Any) -> None:
        """Keep the first MOST_PRINTED characters of the printed text."""
        with contextlib.suppress(OSError):
            while chunk := os.read(reading.fileno(), 65536):
                self.printed = (self.printed + chunk.decode(errors="backslashreplace"))[:MOST_PRINTED]

    def _ending(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "the process was stopped"
        process.join(5)
        status: int | None = process.exitcode
        if status is None:
            process.kill()
            return "the process closed its connection"
        if status >= 0:
            return f"the process exited with status {status}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-status).name
            return f"the process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        return f"the process was ended by signal {-status}"


def _serve(connection: Any, writing: Any, memory: int | None) -> None:
    """Run the functions that arrive, until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process gets the signal, and ends this process
    if os.name == "posix":
        for stream in (1, 2):
            os.dup2(writing.fileno(), stream)
        for standard in (sys.stdout, sys.stderr):
            standard.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _limit_memory(memory)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            reply = True, function(*arguments)
        except BaseException as error:
            reply = False, f"{type(error).__name__}: {words_of(error)}"
        connection.send(reply)


def _limit_memory(memory: int | None) -> None:
    """Limit this process's memory, and write no core files."""
    try:
        import resource
    except ImportError:
        return
    for limit, most in (
        (resource.RLIMIT_DATA, available() * 9 // 10 if memory is None else memory),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        if most or limit == resource.RLIMIT_CORE:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
