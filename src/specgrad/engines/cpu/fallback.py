"""A kernel that cannot be compiled for this machine: the specification answers instead, with a
warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from ...dispatch import write
from ...errors import SlowPathWarning
from .. import reference
from .codegen import CodegenError

F = TypeVar("F", bound=Callable[..., Any])


class ByStatement(NamedTuple):
    """What the specification keeps, where no kernel is right."""

    kept: Any


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    value, kept = reference.keep(op, operands, out)
    return value, ByStatement(kept)


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    return reference.push(op, operands, _kept(op, operands, kept), tangents, out)


def pull(
    op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None, out: Any = None
) -> tuple[Any, ...]:
    pulled = reference.pull(op, operands, _kept(op, operands, kept), cotangent, wanted)
    return tuple(write(op.name, p, o) for p, o in zip(pulled, out or (None,) * len(pulled), strict=True))


def at_once(op: Any, operands: tuple[Any, ...], direction: Any) -> Any:
    """No derivative without what is kept of the value."""
    return NotImplemented


def _kept(op: Any, operands: tuple[Any, ...], kept: Any) -> Any:
    return kept.kept if isinstance(kept, ByStatement) else reference.recall(op, operands)


def warn(op: Any, problem: CodegenError) -> None:
    words = f"{op.name}: runs on the reference engine, slowly ({problem}); install another version of llvmlite"
    warnings.warn(words, SlowPathWarning, stacklevel=6)


INSTEAD: dict[str, Any] = {
    "forward": reference.forward,
    "indices": reference.indices,
    "jvp": at_once,
    "vjp": at_once,
    **{function.__name__: function for function in (keep, push, pull)},
}


def or_by_statement(run: F) -> F:
    """A function of an engine, with the specification's of the same name where a kernel cannot be
    compiled."""
    instead = INSTEAD[run.__name__]

    @functools.wraps(run)
    def guarded(op: Any, operands: tuple[Any, ...], *rest: Any, **options: Any) -> Any:
        try:
            return run(op, operands, *rest, **options)
        except CodegenError as problem:
            warn(op, problem)
        return instead(op, operands, *rest, **options)

    return cast(F, guarded)
