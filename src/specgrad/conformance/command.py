"""The command `specgrad check`: choose subjects, run, report, and set the exit status."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import SpecgradError
from ..ops import OPERATORS
from . import conventions, operator_search, runner, subjects
from . import report as reports
from . import suites as outside
from .claims import CLAIMS, claim_called
from .cluster import connect
from .curated import WINDOWED, operator_called
from .html import write_html
from .interrupts import Interrupts
from .subject import BadSubject, printable
from .trial import Here
from .workers import Background, There, here

INTERRUPTED = 130


def check(
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="path/to/file.py:name (file.py alone: `subject`), package.module:name, or a known name; none: "
            "our own and the installed peers."
        ),
    ] = None,
    operator: Annotated[
        list[str] | None, typer.Option(help="Only this operator, e.g. MaxPool or max_pool; may be given several times.")
    ] = None,
    claim: Annotated[list[str] | None, typer.Option(help="Only this claim: " + ", ".join(CLAIMS) + ".")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, no search: some ten seconds a subject.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="A long search, and an array of more than 2^31 elements.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the search; equal seeds try equal cases.")] = 0,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run named subjects in this process, for debuggers.")
    ] = False,
    time_limit: Annotated[
        float, typer.Option(help="Time limit in seconds for one call of a named subject.", min=0.1, max=1e6)
    ] = 30.0,
    peers: Annotated[bool, typer.Option(help="Also check other installed libraries, if no subject is named.")] = True,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print every counterexample of other libraries.")
    ] = False,
    suites: Annotated[
        bool, typer.Option("--suites", help="Also run the tests of ONNX, PyTorch and JAX, if installed.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Check on the workers of the dask scheduler at this address.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one self-contained HTML file.")] = None,
) -> None:
    """Check implementations against the specification, and print a small counterexample of each
    difference.

    Exit status: 0 when our own (or the named) subjects hold, 1 when one differs, refuses a legal
    case, crashes or hangs, 2 on misuse.
    """
    console = Console()
    with Interrupts() as interrupts:
        try:
            if quick and thorough:
                raise Misuse("--quick and --thorough exclude each other")
            kinds = _called("--operator", operator_called, operator) or list(WINDOWED)
            claims = _called("--claim", claim_called, claim) or list(CLAIMS)
            for path in (json, html):
                writable(path)
            if scheduler is not None and subject:
                raise Misuse("--scheduler checks our own subjects and the peers: name no subject")
            client = None if scheduler is None else connect("check", scheduler)
            chosen: list[Any] = []
            with interrupts.raised():
                chosen = _named(subject or [], in_process, time_limit)
        except (Misuse, BadSubject, SpecgradError) as error:
            raise _misused(str(error)) from None
        effort = runner.QUICK if quick else runner.THOROUGH if thorough else runner.USUAL
        plan = runner.Plan(tuple(kind.__name__ for kind in kinds), tuple(claims), effort, seed)
        found = reports.Report([], [s.name for s in chosen], {}, shlex.join(["specgrad", *sys.argv[1:]]), seed)
        begun = time.monotonic()
        background = None if subject else Background(plan, peers, client)
        exactly = [] if subject else _exact_kinds(operator)
        matrix = _matrix(console, plan, chosen, exactly)
        with interrupts.raised():
            if not subject:
                own = [] if client else [home for home, one in subjects.OURS.items() if not one.needs]
                ours, found.missing = subjects.found(own)
                chosen = [Here(one) for one in ours]
                found.judged = [operator_search.NAME, *(s.name for s in chosen)]
            found.versions = reports.versions(chosen)
            _run(found, console, matrix, chosen, plan, background, exactly, interrupts)
            if suites:
                _outside(found, console)
        for one in chosen:
            one.stop()
            found.printed |= {one.name: one.printed} if one.printed else {}
        if background is not None:
            background.stop()
            background.report(found)
        if client is not None:
            client.close()
        found.seconds, found.interrupted = time.monotonic() - begun, interrupts.noted
        matrix.show(found)
        matrix.close()
        reports.told(found, console, verbose)
        reports.closing(found, console)
        try:
            if json is not None:
                reports.write_json(found, json)
            if html is not None:
                write_html(found, html)
        except OSError as error:
            raise _misused(f"the report is not written: {error}") from None
    if interrupts.noted:
        raise typer.Exit(INTERRUPTED)
    if all(cell.status in ("", "not offered") for cell in found.cells):
        raise _misused(f"nothing was tried: {', '.join(found.judged)} offers nothing of what was asked")
    raise typer.Exit(0 if found.holds else 1)


def _misused(words: str) -> typer.Exit:
    Console(stderr=True).print(f"specgrad check: {printable(words)}", markup=False, style="red")
    return typer.Exit(2)


def _outside(found: reports.Report, console: Console) -> None:
    """Run the outside suites whose libraries are installed."""
    for home, name in outside.HOMES.items():
        try:
            with console.status(name):
                found.suites.append(outside.run(home))
        except ModuleNotFoundError as error:
            found.missing[name] = f"{error.name} is not installed"


class Misuse(Exception):
    """A command line that cannot be run; the message names what can."""


def _called(option: str, find: Callable[[str], Any], names: list[str] | None) -> list[Any]:
    """The things that the values of an option name, without repetitions."""
    try:
        return list(dict.fromkeys(map(find, names or ())))
    except ValueError as error:
        raise Misuse(f"{option} {error}") from None


def _exact_kinds(names: list[str] | None) -> list[Any]:
    return [kind for kind in OPERATORS if not names or kind.__name__ in names or kind.name in names]


def writable(path: Path | None) -> None:
    """Refuse a path that cannot be written, before anything runs."""
    if path is None:
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise Misuse(f"there is no folder {folder}")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise Misuse(f"{path} cannot be written")


def _named(given: list[str], in_process: bool, seconds: float) -> list[Here | There]:
    """The subjects that the command line names."""
    chosen: dict[str, Here | There] = {}
    try:
        for place in (f"{word}:subject" if word.endswith(".py") else word for word in given):
            subject = here(place) if in_process else There(place, seconds)
            _refuse_unknown(subject, place, chosen)
            chosen[subject.name] = subject
    except BaseException:
        for one in chosen.values():
            one.stop()
        raise
    return list(chosen.values())


def _refuse_unknown(subject: Here | There, place: str, others: dict[str, Any]) -> None:
    unknown = set(subject.conventions) - set(conventions.NAMES)
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Misuse(f"{place!r}: {names} is no convention; choose from {', '.join(conventions.NAMES)}")
    if subject.name in others:
        raise Misuse(f"two subjects are called {subject.name!r}")


def _matrix(console: Console, plan: runner.Plan, chosen: list[Any], exactly: list[Any]) -> reports.Matrix:
    """The matrix to be printed: its columns, and the names of operators, which give the width of
    rows."""
    own = [subject for subject in chosen if subject.description is not None]
    alone = own and len(own) == len(chosen)
    asked = [claim for claim in CLAIMS if not alone or CLAIMS[claim].stated or claim == "refuses"]
    columns = [claim for claim in asked if claim in plan.claims]
    names = [*plan.operators, *(kind.__name__ for kind in exactly), *(subject.description.operator for subject in own)]
    return reports.Matrix(console, columns, names)


def _run(
    report: reports.Report,
    console: Console,
    matrix: reports.Matrix,
    chosen: list[Any],
    plan: runner.Plan,
    background: Background | None,
    exactly: list[Any],
    interrupts: Interrupts,
) -> None:
    """Run with a progress bar and a background process for the peers. The rows of a subject are
    printed when it is done; an interrupt keeps the results so far."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    from ..engines.cpu.codegen.code_cache import announced

    kinds = plan.kinds()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        own = bar.add_task("checking", total=len(chosen) * len(kinds))
        others = bar.add_task("peers", total=None, visible=background is not None)

        def progress(words: str) -> None:
            bar.update(own, advance=1, description=words)
            for name, cells in background.finished() if background is not None else ():
                matrix.add(name, cells)

        session = runner.Session(plan.effort, plan.seed, plan.claims, progress, interrupts.pulse)
        session.cells, session.skipped = report.cells, report.missing
        for subject in chosen:
            if subject.description is not None:
                examples, seconds = max(25, 5 * plan.effort.examples), max(1.0, plan.effort.shrink_seconds)
                report.cells += operator_search.cells(
                    subject, examples, seconds, plan.seed, plan.claims, interrupts.pulse
                )
                matrix.show(report)
        chosen = [subject for subject in chosen if subject.description is None]
        for cell in operator_search.our_cells(max(plan.effort.examples, 5), 10.0, plan.seed, plan.claims, exactly):
            report.cells.append(cell)
            interrupts.pulse()
        matrix.show(report)
        with announced(lambda: console.print("compiling kernels (once)", style="dim")):
            session.run(chosen, kinds, lambda name: matrix.show(report))
        if background is not None:
            if plan.effort.examples:  # a quick run ends before another process has started
                background.help()
            for words, total in background.wait():
                interrupts.pulse()
                bar.update(others, description=words or None, advance=bool(words), total=total)
                for name, cells in background.finished():
                    matrix.add(name, cells)
