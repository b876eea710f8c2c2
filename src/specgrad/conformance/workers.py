"""Subjects in processes of their own: the subjects of users, our layers on torch, and the peers.

A user's subject is called once per method and case, so that a lost process is the result of one
case. Our layers on torch and the peers are checked one operator at a time, on the second core. If
an operator loses the process, this is reported, and the next operator gets another process.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import subjects
from .cells import Cell
from .cluster import RemoteWorker, workers_of
from .processes import Lost, Worker
from .report import Report, versions
from .runner import Plan, Session
from .subject import BadSubject, is_operator, load, printable
from .trial import Crashed, Here, Reply, answer
from .user_operators import describe

LOADING = 120.0
"""The time limit for importing a subject, in seconds."""


class About(NamedTuple):
    """The facts about a subject in another process; `wrong` says why there is none."""

    name: str = ""
    version: str = ""
    slow: bool = False
    conventions: tuple[str, ...] = ()
    description: Any = None
    wrong: str | None = None


def here(place: str) -> Here:
    """The subject at a place, or with a known name, in this process."""
    found = load(place) if ":" in place or place.endswith(".py") else subjects.named(place)
    if found is None:
        raise BadSubject(f"{place!r}: {subjects.absent(place)}")
    return Here(found, place, describe(found) if is_operator(found) else None)


_asked: Here | None = None
"""The subject of this process."""


def _find(place: str) -> About:
    global _asked
    try:
        _asked = here(place)
    except Exception as error:
        return About(wrong=printable(str(error)))
    return About(_asked.name, _asked.version, _asked.slow, _asked.conventions, _asked.description)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    assert _asked is not None
    return function(_asked.subject, *arguments)


class There:
    """A subject in a process of its own; the loss of the process gives a `Reply`."""

    def __init__(self, place: str, seconds: float, memory: int | None = None) -> None:
        self.place, self.seconds = place, seconds
        self.losses = 0
        self._worker = Worker(memory)
        try:
            about: About = self._worker.call(_find, place, seconds=LOADING)
        except Lost as error:
            raise BadSubject(f"{place!r}: importing it: {error}") from None
        if about.wrong is not None:
            self.stop()
            raise BadSubject(about.wrong)
        self.name, self.version, self.slow, self.conventions, self.description, _ = about

    @property
    def printed(self) -> str:
        """The beginning of the text that the subject printed."""
        return self._worker.printed

    def ask(self, method: str, op: Any, arguments: tuple[Any, ...]) -> Reply:
        try:
            reply: Reply = self.run(answer, method, op, arguments)
        except Crashed as error:
            return Reply(lost=str(error))
        if (reply.refused or "").startswith("MemoryError"):
            self.stop()  # ending the process frees its memory
        return reply

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
        """function(subject, *arguments), in the subject's process; raises Crashed."""
        try:
            if self._worker.fresh:
                self._worker.call(_find, self.place, seconds=LOADING)
            return self._worker.call(_run, function, arguments, seconds=seconds or self.seconds)
        except Lost as error:
            self.losses += 1
            raise Crashed(function.__name__, str(error)) from None

    def stop(self) -> None:
        self._worker.stop()


@functools.cache
def _session(plan: Plan) -> Session:
    return Session(plan.effort, plan.seed, plan.claims)


@functools.cache
def _found(home: str) -> tuple[list[Any], dict[str, str]]:
    return subjects.found([home])


def _told(home: str) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the subjects in a file, by name, and the missing ones."""
    found, missing = _found(home)
    return {subject.name: versions([subject])[subject.name] for subject in found}, missing


def _checked(home: str, name: str, operator: str, plan: Plan) -> tuple[list[Cell], dict[str, str]]:
    """The cells of one operator of one subject, and the skipped cases."""
    session = _session(plan)
    session.effort = plan.effort if home in subjects.OURS else plan.effort.for_peers()
    (subject,) = [one for one in _found(home)[0] if one.name == name]
    (kind,) = [one for one in plan.kinds() if one.__name__ == operator]
    return session.one(subject, kind, session.effort.examples), session.skipped


class Background:
    """The processes that check whole files of subjects, and their results so far.

    With a client of a cluster, its workers are the processes, and they check all of our own files.
    """

    def __init__(self, plan: Plan, peers: bool = True, client: Any = None) -> None:
        self.plan, self._client = plan, client
        ours = {home: one for home, one in subjects.OURS.items() if one.needs or client is not None}
        others = subjects.PEERS if peers else {}
        self._homes, self.missing = subjects.installed({**ours, **others})
        if plan.effort.examples == 0:
            for home in [name for name in self._homes if name in others and others[name].slow]:
                self._homes.remove(home)
                self.missing[str(others[home])] = "is slow, and left out by --quick"
        self.cells: list[Cell] = []
        self.versions: dict[str, str] = {}
        self.judged: list[str] = []
        """The names of our own subjects that were checked."""
        self.broken: list[str] = []
        """Our own subjects and operators whose process was lost during their check."""
        self.total = sum(len(subjects.HOMES[home].names) for home in self._homes) * len(plan.operators)
        self._workers: list[Worker | RemoteWorker] = []
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._stopped = False
        self._finished: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """The names of checked operators, one after the other; None when a process has finished."""
        for _ in range(1 if client is None else workers_of(client)):
            self.help()

    def help(self) -> None:
        """Start a process, if there is work left."""
        if self._homes:
            self._running += 1
            self._workers.append(Worker() if self._client is None else RemoteWorker(self._client))
            self._threads.append(threading.Thread(target=self._work, args=(self._workers[-1],), daemon=True))
            self._threads[-1].start()

    def _work(self, worker: Worker | RemoteWorker) -> None:
        """Check one file after the other."""
        try:
            while self._homes and not self._stopped:
                with contextlib.suppress(IndexError):  # another thread was quicker
                    self._home(worker, self._homes.pop(0))
        finally:
            worker.stop()
            self._news.put(None)

    def _home(self, worker: Worker | RemoteWorker, home: str) -> None:
        try:
            found, missing = worker.call(_told, home)
        except Lost as error:
            self._lost(home, home, error)
            return
        self.versions |= found
        self.missing |= missing
        self.judged += found if home in subjects.OURS else []
        self.total -= (len(subjects.HOMES[home].names) - len(found)) * len(self.plan.operators)
        for name in found:
            for operator in self.plan.operators:
                if self._stopped:
                    return
                try:
                    cells, skipped = worker.call(_checked, home, name, operator, self.plan)
                    self.cells += cells
                    self.missing |= skipped
                except Lost as error:
                    self._lost(home, f"{name}: {operator}", error)
                self._news.put(f"{name}: {operator}")
            self._finished.put(name)

    def _lost(self, home: str, trying: str, error: Lost) -> None:
        if not self._stopped:
            self.missing[trying] = str(error)
            self.broken += [trying] if home in subjects.OURS else []

    def wait(self) -> Iterator[tuple[str, int]]:
        """Wait until all is done: yields the last checked operator, or "", and the total."""
        while self._running:
            news = self._news.get()
            self._running -= news is None
            yield news or "", self.total

    def finished(self) -> Iterator[tuple[str, list[Cell]]]:
        """The subjects completed since the last call, with their cells."""
        while not self._finished.empty():
            name = self._finished.get()
            yield name, [cell for cell in self.cells if cell.subject == name]

    def stop(self) -> None:
        """End the processes."""
        self._stopped = True
        for worker in self._workers:
            worker.stop()

    def report(self, report: Report) -> None:
        """Add the results to a report, in an order that does not depend on timing."""
        names = [name for home in subjects.HOMES.values() for name in home.names]
        operators, claims = self.plan.operators, self.plan.claims
        report.cells += sorted(
            self.cells, key=lambda c: (names.index(c.subject), operators.index(c.operator), claims.index(c.claim))
        )
        report.judged += sorted(self.judged, key=names.index)
        report.broken += self.broken
        report.versions |= self.versions
        report.missing |= self.missing
