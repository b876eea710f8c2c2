"""`specgrad certify model.onnx --vnnlib property.vnnlib`, with the answers of the verification
competition: sat, unsat or unknown."""

from __future__ import annotations

import sys
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import SpecgradError

WORDS = {"holds": "unsat", "violated": "sat", "unknown": "unknown"}


class Covers(StrEnum):
    """The arithmetic that a proof covers."""

    real = "real"
    float32 = "float32"
    float64 = "float64"


def certify(
    model: Annotated[Path, typer.Argument(help="An ONNX model.")],
    vnnlib: Annotated[
        Path, typer.Option(help="A property in VNN-LIB, version 1 or 2, which describes the counterexamples.")
    ],
    covers: Annotated[
        Covers, typer.Option(help="Also prove the property for this float arithmetic, in any order of summation.")
    ] = Covers.real,
    timeout: Annotated[
        float, typer.Option(min=0.0, help="Time limit in seconds; after it the answer is unknown.")
    ] = 300.0,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, writable=True, help="Write the certificate to this file, as JSON.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Replay the certificate in exact rationals.")] = False,
) -> None:
    """Decide whether a model has a counterexample to a property.

    Prints unsat (there is none), sat (with a counterexample, confirmed in exact rationals) or
    unknown, and exits with 0, 1 or 2. With --check the status is 3 if the printed answer is not
    confirmed.
    """
    missing = next((name for name in ("scipy", "onnx") if find_spec(name) is None), None)
    if missing:
        raise typer.BadParameter(f"certify needs {missing}: pip install 'specgrad[certify]'")
    if out is not None and not (folder := out.resolve().parent).is_dir():
        raise typer.BadParameter(f"--out: there is no folder {folder}")
    console = Console()
    try:
        found, outputs = _decide(console, model, vnnlib, covers.value, timeout)
    except SpecgradError as error:
        raise typer.BadParameter(str(error)) from None
    print(WORDS[found.status])
    if found.status == "violated":
        print(_counterexample(found, outputs))
    if out is not None:
        try:
            found.save(out)
        except OSError as error:
            raise typer.BadParameter(f"--out cannot be written: {error}") from None
    if check and found.status != "unknown":
        try:
            found.check()
        except SpecgradError as error:
            print(f"--check does not confirm {WORDS[found.status]}: {error}", file=sys.stderr)
            raise typer.Exit(3) from None
    raise typer.Exit({"holds": 0, "violated": 1}.get(found.status, 2))


def _decide(console: Console, model: Path, vnnlib: Path, covers: str, timeout: float) -> tuple[Any, int]:
    """The certificate, and the number of the model's outputs."""
    from .certify import model_bytes, of_property, read_model
    from .vnnlib import read

    held = model_bytes(model)  # a missing model is named before a fault of the property
    wanted = read(vnnlib)
    data, graph = read_model(model, held, wanted.inputs)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[parts]} parts"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("certifying", total=1.0, parts=0)
        found = of_property(
            data, graph, wanted, covers, timeout, lambda done, parts: bar.update(task, completed=done, parts=parts)
        )
        return found, wanted.outputs


def _counterexample(found: Any, outputs: int) -> str:
    """The exact input and the nearest floats of the output, in the competition's format."""
    x = found.counterexample
    y = found.graph().forward(x).reshape(-1)[-outputs:]  # after the inputs, if the property reads them
    lines = [f"(X_{place} {_decimal(number)})" for place, number in enumerate(x.reshape(-1).tolist())]
    lines += [f"(Y_{place} {float(number)!r})" for place, number in enumerate(y.tolist())]
    return "(" + "\n ".join(lines) + ")"


def _decimal(number: Fraction) -> str:
    """A number as a short exact decimal if possible, else as a fraction."""
    near = float(number)
    if Fraction(repr(near)) == number:
        return repr(near)
    return f"{Decimal(near):f}" if Fraction(near) == number else str(number)
