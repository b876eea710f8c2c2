"""Processes on other machines: the workers of a dask scheduler, found by its address."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, refusal
from .processes import Lost
from .subject import words_of

WAITING = 10.0
"""Seconds within which a scheduler must answer."""

TRIES = 5
"""How often a client tries to join a scheduler that is busy."""

_alone = threading.Lock()
"""Lets one function run at a time in a process, even if a dask worker has several threads."""


def connect(command: str, address: str) -> Any:
    """A client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        rule, remedy = "needs distributed, which is not installed", "pip install 'specgrad[dask]'"
        raise refusal(ArgumentError, command, "scheduler", address, rule, remedy) from None

    class Joining(Client):  # type: ignore[misc]
        def __init__(self) -> None:
            try:
                super().__init__(address, timeout=WAITING, set_as_default=False)
            except AssertionError:
                self.status = "closed"  # else Python waits for it to close when it frees it
                raise

    for tries_left in reversed(range(TRIES)):
        try:
            client = Joining()
            break
        except AssertionError:  # raised by distributed if the scheduler broadcasts a message while a client joins
            if not tries_left:
                raise
        except (OSError, ValueError, TypeError) as error:
            rule = f"no scheduler answers there ({words_of(error)})"
            raise refusal(ArgumentError, command, "scheduler", address, rule, "write e.g. tcp://host:8786") from None
    if not workers_of(client):
        client.close()
        raise refusal(ArgumentError, command, "scheduler", address, "has no workers", "start some: dask worker")
    return client


def workers_of(client: Any) -> int:
    """The present number of processes of a cluster."""
    return len(client.ncores())


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), while no other such call runs in this process."""
    with _alone:
        return function(*arguments)


class RemoteWorker:
    """A worker of a cluster, with the methods of `processes.Worker`."""

    fresh = False
    printed = ""

    def __init__(self, client: Any) -> None:
        self._client, self._future = client, None  # type: Any, Any

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
        """function(*arguments), computed by a worker of the cluster; raises Lost."""
        self._future = self._client.submit(alone, function, *arguments, pure=False)
        try:
            return self._future.result(timeout=seconds)
        except (TimeoutError, concurrent.futures.TimeoutError):
            raise Lost(f"no answer within {seconds} s") from None
        except concurrent.futures.CancelledError:
            raise Lost("the process was stopped") from None
        except Exception as error:
            raise Lost(f"{type(error).__name__}: {words_of(error)}") from None

    def stop(self) -> None:
        """Cancel the running call."""
        if self._future is not None:
            self._future.cancel()
