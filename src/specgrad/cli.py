"""The command line: `specgrad check | prove | explain | certify | bench | warmup`; a command stands
in a module of its own."""

from __future__ import annotations

import io
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import track

    from .bounds.command import certify
    from .conformance.command import Misuse, check, writable
    from .drawing.command import explain
    from .prove.command import prove
except ImportError as missing:
    sys.exit(f"specgrad: {missing.name} is not installed; the command line needs: pip install 'specgrad[cli]'")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Check, prove, draw and measure sliding-window operators (pooling, convolution).",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"specgrad {sys.modules['specgrad'].__dict__['__version__']}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Check, prove, draw and measure sliding-window operators (pooling, convolution)."""


app.command()(check)
app.command()(explain)
app.command()(prove)
app.command()(certify)


class Benchmark(StrEnum):
    """What can be measured."""

    pool = "pool"
    conv = "conv"


class Shapes(StrEnum):
    """Which layers are measured."""

    common = "common"
    held_out = "held-out"
    linear = "linear"


@app.command()
def bench(
    what: Annotated[Benchmark, typer.Argument(help="Pooling, or convolution with its gradients.")] = Benchmark.pool,
    shapes: Annotated[
        Shapes, typer.Option(help="Convolution layers used to choose kernels, others, or linear maps.")
    ] = Shapes.common,
    only: Annotated[str, typer.Option(help="Only convolution layers whose name contains this text.")] = "",
    quick: Annotated[bool, typer.Option(help="Smaller batches and fewer repetitions.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write every cell to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the time of pooling by kernel size, rank and library into this image."),
    ] = None,
) -> None:
    """Measure pooling (compared with a plain copy) or convolution, and the same in other installed
    libraries."""
    from . import bench as benchmark

    try:
        for path in (json, markdown, plot):
            writable(path)
        if plot is not None and what is Benchmark.conv:
            raise Misuse("--plot draws pooling alone")
        if only and what is Benchmark.pool:
            raise Misuse("--only chooses convolution layers: specgrad bench conv --only …")
        if only and not benchmark.named(shapes, only):
            raise Misuse(f"--only {only}: no layer of --shapes {shapes} has this in its name")
        if plot is not None and find_spec("matplotlib") is None:
            raise Misuse("--plot needs matplotlib: pip install 'specgrad[plot]'")
    except Misuse as error:
        raise typer.BadParameter(str(error)) from None
    if what is Benchmark.conv:
        benchmark.run_convolution(shapes, only, quick, json, markdown, Console())
    else:
        benchmark.run(quick, json, markdown, plot, Console())


@app.command()
def warmup() -> None:
    """Compile the common kernels in advance, so that first calls are fast."""
    from .engines.cpu.warmup import steps

    console = Console()
    todo = list(steps())
    for _, compile_it in track(todo, description="compiling", console=console, disable=not console.is_terminal):
        compile_it()
    console.print(f"{len(todo)} kernels are ready")


def main() -> None:
    """The entry point of the `specgrad` command; where its output goes need not know all of its
    letters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
