"""Processes beside: they check what stands on torch, and the peers, while our own NumPy layers are checked here.

The second core is used, and a library that crashes takes nobody with it. A process is handed one file of subjects after the other;
after a crash, and when this process has done its own part, a new one takes the files that are left.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import subjects
from .cells import Cell
from .interrupts import held
from .report import Report
from .runner import Plan


def serve(connection: Any, plan: Plan) -> None:
    """Check the subjects of the files that are handed out, and send what is found, one operator of one subject at a time."""
    from .report import versions
    from .runner import Session

    session = Session(plan.effort, plan.seed, plan.claims)
    while True:
        connection.send(("next",))
        home = connection.recv()
        if home is None:
            return
        found, missing = subjects.found([home])
        connection.send(("subjects", {s.name: versions([s])[s.name] for s in found}, missing))
        session.effort = plan.effort if home in subjects.OURS else plan.effort.for_peers()
        for subject in found:
            for kind in plan.kinds():
                connection.send(("trying", f"{subject.name}: {kind.__name__}"))
                connection.send(("cells", session.one(subject, kind, session.effort.examples), session.skipped))


@dataclass(eq=False)
class Worker:
    """A process, the file that it was handed last, and what it tries."""

    process: Any
    connection: Any
    home: str = ""
    trying: str = ""


class Beside:
    """The processes, and what they have sent so far."""

    def __init__(self, plan: Plan, peers: bool = True) -> None:
        self.plan = plan
        ours = {home: one for home, one in subjects.OURS.items() if one.needs}
        others = subjects.PEERS if peers else {}
        self._homes, self.missing = subjects.installed({**ours, **others})
        if plan.effort.examples == 0:
            for home in [name for name in self._homes if name in others and others[name].slow]:
                self._homes.remove(home)
                self.missing[str(others[home])] = "is slow, and left out by --quick"
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}
        self.judged: list[str] = []
        """The names of our own subjects among those that were checked."""
        self.broken: list[str] = []
        """What of our own was being checked when a process ended early."""
        self.total = sum(len(subjects.HOMES[home].names) for home in self._homes) * len(plan.operators)
        self._workers: list[Worker] = []
        self._messages: queue.SimpleQueue[tuple[Worker, str, list[Any]]] = queue.SimpleQueue()
        self._handing = threading.Lock()
        self.help()

    def help(self) -> None:
        """Start a process, if there is work left for it."""
        if not self._homes:
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        worker = Worker(context.Process(target=serve, args=(theirs, self.plan), daemon=True), ours)
        self._workers.append(worker)
        with held():
            worker.process.start()
        theirs.close()
        # a pipe holds little: whoever does not read what is sent stops the sender
        threading.Thread(target=self._receive, args=(worker,), daemon=True).start()

    def _receive(self, worker: Worker) -> None:
        """Take over whatever a process sends, and hand it its next file, until it ends."""
        home: str | None = ""
        try:
            while home is not None:
                kind, *rest = worker.connection.recv()
                if kind == "next":
                    with self._handing:
                        home = self._homes.pop(0) if self._homes else None
                    worker.connection.send(home)
                    kind, rest = ("home", [home]) if home else ("end", [])
                self._messages.put((worker, kind, rest))
        except (EOFError, OSError):
            self._messages.put((worker, "lost", []))

    def _take(self) -> str:
        """Take one message, and say what was checked, if anything was."""
        worker, kind, rest = self._messages.get()
        if kind == "home":
            worker.home = worker.trying = rest[0]
        elif kind == "subjects":
            versions, missing = rest
            self.versions |= versions
            self.missing |= missing
            self.judged += versions if worker.home in subjects.OURS else []
            self.total -= (len(subjects.HOMES[worker.home].names) - len(versions)) * len(self.plan.operators)
        elif kind == "trying":
            (worker.trying,) = rest
        elif kind == "cells":
            self.cells += rest[0]
            self.missing |= rest[1]
            return worker.trying
        else:
            self._workers.remove(worker)
            if kind == "lost":
                self._lost(worker)
        return ""

    def _lost(self, worker: Worker) -> None:
        """A process ended early: say while what; the files that are left go to a new one, unless none can be started."""
        self.missing[worker.trying or "a process"] = "the process ended while this was checked"
        if worker.home:
            self.broken += [worker.trying] if worker.home in subjects.OURS else []
            self.help()
        else:
            self.broken += [home for home in self._homes if home in subjects.OURS]

    def wait(self) -> Iterator[tuple[str, int]]:
        """Until all is received: what was checked last, if anything was, and how much there is in all."""
        while self._workers:
            yield self._take(), self.total

    def stop(self) -> None:
        """End the processes."""
        with self._handing:
            self._homes.clear()
        while self._workers and not self._messages.empty():
            self._take()
        for worker in self._workers:
            worker.process.terminate()
            worker.process.join(5)

    def report(self, report: Report) -> None:
        """Enter what was found."""
        report.cells += self.cells
        report.judged += self.judged
        report.broken += self.broken
        report.versions |= self.versions
        report.missing |= self.missing
