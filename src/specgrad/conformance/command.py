"""The command `specgrad check`: choose subjects, run, report, and say by the exit status whether the judged ones hold."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..ops import OPERATORS
from . import exact, runner, subjects
from . import report as reports
from . import suites as outside
from .beside import Beside
from .subject import BadSubject, load
from .telling import WINDOWED

INTERRUPTED = 130


def check(
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="path/to/file.py:subject, package.module:subject, or a known name; none: our own and the installed peers."
        ),
    ] = None,
    operator: Annotated[
        list[str] | None, typer.Option(help="Only this operator, e.g. MaxPool or max_pool; may be given several times.")
    ] = None,
    claim: Annotated[
        list[str] | None, typer.Option(help="Only this claim: " + ", ".join(runner.ALL_CLAIMS) + ".")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Some ten seconds: fewer cases, no search.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="A long search, and an array of more than 2^31 elements.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Where the search starts; equal seeds try equal cases.")] = 0,
    peers: Annotated[bool, typer.Option(help="Also check the installed peers (when no subject is named).")] = True,
    suites: Annotated[
        bool, typer.Option("--suites", help="Also run ONNX's, PyTorch's and JAX's own cases, where installed.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one self-contained HTML file.")] = None,
) -> None:
    """Check implementations against the specification, with the smallest counterexample of every difference.

    Exit status: 0 when our own (or the named) subjects hold, 1 when one differs or refuses a legal case, 2 on misuse.
    """
    console = Console()
    try:
        if quick and thorough:
            raise Misuse("--quick and --thorough exclude each other")
        kinds = [_kind(name) for name in operator or []] or list(WINDOWED)
        claims = [_claim(name) for name in claim or []] or list(runner.ALL_CLAIMS)
        chosen, judged, missing, names = _chosen(subject or [])
    except (Misuse, BadSubject) as error:
        Console(stderr=True).print(f"specgrad check: {error}", markup=False, style="red")
        raise typer.Exit(2) from None
    effort = runner.QUICK if quick else runner.THOROUGH if thorough else runner.USUAL
    for path in (json, html):
        if path is not None and not path.resolve().parent.is_dir():
            Console(stderr=True).print(
                f"specgrad check: there is no folder {path.resolve().parent}", markup=False, style="red"
            )
            raise typer.Exit(2)
    begun = time.monotonic()
    exactly = None if subject else (lambda: exact.cells(max(effort.examples, 5), seed, claims, _exact_kinds(operator)))
    plan = runner.Plan(tuple(kind.__name__ for kind in kinds), tuple(claims), effort, seed)
    beside = Beside(plan) if peers and not subject else None
    session, interrupted = _run(console, chosen, kinds, plan, beside, exactly)
    found = reports.Report(
        session.cells,
        judged,
        reports.versions(chosen),
        " ".join(["specgrad", *sys.argv[1:]]),
        seed,
        time.monotonic() - begun,
        missing,
        [],
        interrupted,
    )
    found.missing.update(session.skipped)
    if beside is not None:
        found.versions.update(beside.versions)
        found.missing.update(beside.missing)
    if suites and not interrupted:
        _outside(found, console)
    reports.matrix(found, console)
    reports.told(found, console, names)
    reports.closing(found, console)
    if json is not None:
        reports.write_json(found, json, names)
    if html is not None:
        from .html import write_html

        write_html(found, html, names)
    raise typer.Exit(INTERRUPTED if interrupted else 0 if found.holds else 1)


def _outside(found: reports.Report, console: Console) -> None:
    """Run the outside suites whose libraries are installed."""
    for home, name in outside.HOMES.items():
        try:
            with console.status(name):
                found.suites.append(outside.run(home))
        except ModuleNotFoundError as error:
            found.missing[name] = f"{error.name} is not installed"
        except KeyboardInterrupt:
            found.interrupted = True
            return


class Misuse(Exception):
    """What was asked for cannot be done; the message says what can."""


def _kind(name: str) -> Any:
    for kind in WINDOWED:
        if name in (kind.__name__, kind.name):
            return kind
    raise Misuse(f"--operator {name}: choose from " + ", ".join(kind.__name__ for kind in WINDOWED))


def _exact_kinds(names: list[str] | None) -> list[Any]:
    return [kind for kind in OPERATORS if not names or kind.__name__ in names or kind.name in names]


def _claim(name: str) -> str:
    if name not in runner.ALL_CLAIMS:
        raise Misuse(f"--claim {name}: choose from " + ", ".join(runner.ALL_CLAIMS))
    return name


def _chosen(given: list[str]) -> tuple[list[Any], list[str], dict[str, str], dict[str, str]]:
    """The subjects, the names of those that are judged, what is missing, and how each subject was named."""
    if not given:
        ours, missing = subjects.found(subjects.OURS)
        return ours, [exact.NAME, *(s.name for s in ours)], missing, {}
    chosen, names = [], {}
    for place in given:
        found = load(place) if ":" in place else subjects.named(place)
        if found is None:
            known = ", ".join(subjects.NAMES)
            raise Misuse(
                f"{place!r} is no subject here; write path/to/file.py:subject, package.module:subject, or one of: {known}"
            )
        if found.name in names:
            raise Misuse(f"two subjects are called {found.name!r}")
        chosen.append(found)
        names[found.name] = place
    return chosen, [s.name for s in chosen], {}, names


def _run(
    console: Console, chosen: list[Any], kinds: list[Any], plan: runner.Plan, beside: Beside | None, exactly: Any
) -> tuple[Any, bool]:
    """Run with a progress bar, the peers in a process beside; what was found stands when interrupted."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        own = bar.add_task("checking", total=len(chosen) * len(kinds))
        others = bar.add_task("peers", total=None, visible=beside is not None)
        session = runner.Session(
            plan.effort, plan.seed, plan.claims, lambda words: bar.update(own, description=words, advance=1)
        )
        try:
            if exactly is not None:
                session.cells += exactly()
            session.run(chosen, kinds)
            if beside is not None:
                for words, total in beside.wait():
                    bar.update(others, description=words, advance=1, total=total)
        except KeyboardInterrupt:
            return session, True
        finally:
            if beside is not None:
                session.cells += beside.stop()
    return session, False
