"""Who runs an operator on these operands: a Var's own layer, or the first engine that offers to.

Anything with a method ``__specgrad__(op, operands)`` (a tape's or a graph's Var) is asked first. Engines are listed in `ENGINES`
from the fastest to the specification itself, and are imported when first needed; to add one, write a file and add a line.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from .errors import ArgumentError, refusal

ENGINES = {"reference": "specgrad.engines.reference"}

_forced: contextvars.ContextVar[str | None] = contextvars.ContextVar("specgrad_engine", default=None)


class Engine(Protocol):
    """What a module must offer to run operators."""

    TAKES: str
    """In words, which operators and arrays this engine takes."""

    def refuses(self, op: Any, operands: tuple[Any, ...]) -> str | None:
        """None if this engine runs the operator on these operands, else the reason why not."""

    def forward(self, op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
        """The value, written into `out` where one is given (`check_out` says whether it fits)."""

    def keep(self, op: Any, operands: tuple[Any, ...]) -> tuple[Any, Any]:
        """The value and what the derivatives need of it."""

    def indices(self, op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
        """The value and, per output cell, the winner's flat index in its spatial plane."""

    def push(self, op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...]) -> Any:
        """The output's tangent."""

    def pull(self, op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any) -> tuple[Any, ...]:
        """One cotangent per operand."""


def load(name: str) -> Any:
    """An engine by its name."""
    return importlib.import_module(ENGINES[name])


def choose(op: Any, operands: tuple[Any, ...]) -> Any:
    """The engine that runs this operator on these operands."""
    forced = _forced.get()
    reason = "no engine is registered"
    for name in ENGINES if forced is None else (forced,):
        candidate = load(name)
        reason = candidate.refuses(op, operands)
        if reason is None:
            return candidate
    remedy = "use another engine: " + ", ".join(ENGINES)
    raise refusal(ArgumentError, op.name, "engine", forced, reason, remedy)


@contextlib.contextmanager
def engine(name: str) -> Iterator[None]:
    """Force an engine within a ``with`` block: ``with engine("reference"): …``."""
    if not isinstance(name, str) or name not in ENGINES:
        raise refusal(ArgumentError, "engine", "name", name, "is not an engine", "choose from " + ", ".join(ENGINES))
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def list_engines() -> dict[str, str]:
    """The engines that are here, fastest first, and in words what each takes."""
    return {name: load(name).TAKES for name in ENGINES}


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    for operand in operands:
        if hasattr(operand, "__specgrad__"):
            return operand.__specgrad__(op, operands)
    return choose(op, operands).forward(op, operands, out)


def with_indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    found: tuple[Any, Any] = choose(op, operands).indices(op, operands, out)
    return found


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    chosen = choose(op, operands)
    value, kept = chosen.keep(op, operands)
    return value, chosen.push(op, operands, kept, tangents)


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
    chosen = choose(op, operands)
    _, kept = chosen.keep(op, operands)
    pulled: tuple[Any, ...] = chosen.pull(op, operands, kept, cotangent)
    return pulled


def check_out(name: str, out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse an `out` that a value of this shape and dtype cannot be written into."""
    fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == dtype and out.flags.writeable
    if not fits or dtype is None:
        rule = (
            f"must be a writable {dtype} array of shape {shape}" if dtype else "takes the values of plain arrays only"
        )
        raise refusal(ArgumentError, name, "out", out, rule, "allocate it with np.empty(shape, dtype)")


def write(name: str, value: Any, out: Any) -> Any:
    """The value itself, or `out` with the value written into it."""
    if out is None:
        return value
    check_out(name, out, value.shape, getattr(value, "dtype", None))
    out[...] = value
    return out
