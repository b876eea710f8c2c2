"""The command line: `specgrad check | bench | warmup`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table
except ImportError as missing:
    sys.exit(f"specgrad: {missing.name} is not installed; the command line needs: pip install 'specgrad[cli]'")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Sliding-window operators, stated once.",
)


@app.callback()
def _commands() -> None:
    """Keep commands as subcommands, also while there is only one."""


@app.command()
def check(
    examples: int = typer.Option(40, min=1, help="Cases to search per operator and claim."),
    seed: int = typer.Option(0, help="Where the search starts; equal seeds try equal cases."),
) -> None:
    """Check every operator against its fixed answers, its Dual witness and its adjoint; exit 1 if one differs."""
    from .conformance import selfcheck
    from .ops import OPERATORS

    console = Console()
    claims = ("fixed answers", "Dual witness", "adjoint")
    findings = list(
        track(
            selfcheck.run(examples, seed),
            description="checking",
            total=len(OPERATORS) * len(claims),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )
    table = Table("operator", *claims, title="specgrad check")
    for kind in OPERATORS:
        mine = {f.claim: f for f in findings if f.operator == kind.__name__}
        table.add_row(kind.__name__, *(_cell(mine[claim]) for claim in claims))
    console.print(table)
    differences = [finding for finding in findings if finding.difference]
    for finding in differences:
        console.print(f"{finding.operator}, {finding.claim}: {finding.difference}", markup=False, style="red")
    tried = sum(finding.cases for finding in findings)
    console.print(f"{tried} cases, {len(differences)} claims broken")
    raise typer.Exit(1 if differences else 0)


def _cell(finding: object) -> str:
    cases, difference = finding.cases, finding.difference  # type: ignore[attr-defined]
    return "[red]differs[/]" if difference else f"[green]holds[/] ({cases})" if cases else "-"


@app.command()
def bench(
    quick: Annotated[bool, typer.Option(help="Smaller batches and fewer repetitions.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write every cell to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw cost against kernel size and rank to this image.")] = None,
) -> None:
    """Measure pooling against the speed of a copy and against the peers that are installed."""
    from . import bench as benchmark

    benchmark.run(quick, json, plot, Console())


@app.command()
def warmup() -> None:
    """Compile the common kernels, so that no later call has to."""
    from .engines.cpu.warmup import steps

    console = Console()
    todo = list(steps())
    for _, compile_it in track(todo, description="compiling", console=console, disable=not console.is_terminal):
        compile_it()
    console.print(f"{len(todo)} kernels are ready")


def main() -> None:
    """The entry point of the `specgrad` command."""
    app()
