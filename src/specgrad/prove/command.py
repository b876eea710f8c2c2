"""The command `specgrad prove`: choose statements, decide them, report, and set the exit status."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from ..conformance.cluster import connect
from ..conformance.command import INTERRUPTED, Misuse, writable
from ..errors import SpecgradError
from ..ops import OPERATORS
from . import FAMILIES

WIDE = 160  # columns, if the output is not a terminal
Family = StrEnum("Family", {name: name for name in FAMILIES})  # type: ignore[misc]


def prove(
    family: Annotated[list[Family] | None, typer.Argument(help="The statements to prove; none: all.")] = None,
    operator: Annotated[
        list[str] | None, typer.Option(help="Only this operator, e.g. MaxPool or max_pool; may be given several times.")
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Only kernels of this emitter, e.g. tiles; may be given several times.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, max=1e6, help="Prove a sample of the statements, within this many seconds.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Prove on the workers of the dask scheduler at this address.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one self-contained HTML file.")] = None,
    badge: Annotated[
        Path | None, typer.Option(help="Write the numbers of proved statements into the marked line of this file.")
    ] = None,
) -> None:
    """Prove statements about all geometries, and about operators and kernels for all inputs of a
    geometry.

    Exit status: 0 when everything that was tried is as stated, 1 when a statement is refuted or
    undecided, 2 on misuse and if nothing was decided within the budget.
    """
    try:
        limited = [name for name, given in (("operators", operator), ("kernels", kernel)) if given]
        chosen = [str(name) for name in family or limited or FAMILIES]
        for name in limited:
            if chosen != [name]:
                raise Misuse(f"--{name[:-1]} chooses among {name} only: specgrad prove {name} --{name[:-1]} …")
        if badge is not None and (limited or budget is not None):
            raise Misuse("--badge counts all statements of a family: it takes no --operator, --kernel or --budget")
        if badge is not None and not badge.is_file():
            raise Misuse(f"--badge changes a line of a file: there is no file {badge}")
        kinds = [_kind(name) for name in operator or []]
        for path in (json, html, badge):
            writable(path)
        if find_spec("z3") is None:
            raise Misuse("z3 is not installed; the proofs need: pip install 'specgrad[prove]'")
        client = None if scheduler is None else connect("prove", scheduler)
    except (Misuse, SpecgradError) as error:
        raise _misused(str(error)) from None
    from . import report as reports
    from . import runner
    from .kernels import EMITTERS

    for name in kernel or []:
        if name not in EMITTERS:
            raise _misused(f"--kernel {name}: no such emitter; choose from {', '.join(EMITTERS)}")

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    found = reports.Report(shlex.join(["specgrad", *sys.argv[1:]]), _versions(), chosen)
    todo = runner.mixed(runner.tasks(name, kinds or kernel or ()) for name in chosen)
    if not todo:
        raise _misused(f"nothing is stated about {', '.join(kind.__name__ for kind in kinds)}")
    found.tasks, begun = len(todo), time.monotonic()
    try:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            for name, results in runner.run(todo, budget, client):
                found.done += 1
                for one in results:
                    found.enter(name, one)
                if console.is_terminal:
                    live.update(reports.table(found), refresh=True)
    except KeyboardInterrupt:
        found.interrupted = True
    except BrokenProcessPool:
        raise _misused("a process that was proving has ended by itself, perhaps for want of memory") from None
    found.seconds = time.monotonic() - begun
    console.print(reports.table(found), crop=False)
    reports.told(found, console)
    for path, write in ((json, reports.write_json), (html, reports.write_html), (badge, reports.write_badge)):
        if path is not None and not (found.interrupted and path is badge):
            try:
                write(found, path)
            except OSError as error:
                raise _misused(f"the report is not written: {error}") from None
    raise typer.Exit(INTERRUPTED if found.interrupted else 2 if not found.done else 0 if found.holds else 1)


def _kind(name: str) -> Any:
    for kind in OPERATORS:
        if name in (kind.__name__, kind.name):
            return kind
    raise Misuse(f"--operator {name}: no such operator; choose from {', '.join(kind.__name__ for kind in OPERATORS)}")


def _misused(words: str) -> typer.Exit:
    Console(stderr=True).print(f"specgrad prove: {words}", markup=False, style="red", soft_wrap=True)
    return typer.Exit(2)


def _versions() -> dict[str, str]:
    return {
        "specgrad": importlib.metadata.version("specgrad"),
        "z3": importlib.metadata.version("z3-solver"),
        "Python": platform.python_version(),
    }
