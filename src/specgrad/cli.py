"""The command line: `specgrad check | explain`. Every command stands in a module of its own and is registered here by one line."""

from __future__ import annotations

import sys

try:
    import typer

    from .conformance.command import check
    from .conformance.explain import explain
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


app.command()(check)
app.command()(explain)


def main() -> None:
    """The entry point of the `specgrad` command."""
    app()
