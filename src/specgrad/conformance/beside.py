"""The peers, checked in a process of their own: the second core is used, and a peer that crashes takes nobody with it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from typing import Any

from .runner import Cell, Plan


def serve(connection: Any, plan: Plan) -> None:
    """Check every installed peer and send what is found, one operator of one subject at a time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interruption is the other process's to handle
    from . import subjects
    from .report import versions
    from .runner import Session

    found, missing = subjects.found(subjects.PEERS)
    quick = plan.effort.examples == 0
    chosen = [s for s in found if not (quick and getattr(s, "slow", False))]
    missing |= {s.name: "is slow, and left out by --quick" for s in found if s not in chosen}
    session = Session(plan.effort.for_peers(), plan.seed, plan.claims)
    kinds = plan.kinds()
    connection.send(("begin", len(chosen) * len(kinds), {s.name: versions([s])[s.name] for s in chosen}, missing))
    for subject in chosen:
        for kind in kinds:
            connection.send(
                ("cells", f"{subject.name}: {kind.__name__}", session.one(subject, kind, plan.effort.peer_examples))
            )
    connection.send(("end",))


class Beside:
    """A process that checks the peers, and what it has sent so far."""

    def __init__(self, plan: Plan) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=serve, args=(theirs, plan), daemon=True)
        self.process.start()
        theirs.close()
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.total: int | None = None
        self.ended = False

    def _take(self) -> str:
        """Receive one message, and say what it was about."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.ended = True
            self.missing["peers"] = "their process ended early"
            return "peers"
        if message[0] == "begin":
            _, self.total, self.versions, self.missing = message
        elif message[0] == "cells":
            self.cells += message[2]
            return str(message[1])
        else:
            self.ended = True
        return "peers"

    def wait(self) -> Iterator[tuple[str, int | None]]:
        """Until all is received: what was checked last, and how much there is in all."""
        while not self.ended:
            yield self._take(), self.total

    def stop(self) -> list[Cell]:
        """End the process, and return all cells that it sent."""
        while not self.ended and self.connection.poll():
            self._take()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(5)
        return self.cells
