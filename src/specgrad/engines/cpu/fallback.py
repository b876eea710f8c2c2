"""The specification's answers, where a kernel cannot be compiled or is not right."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from ...dispatch import write
from ...errors import SlowPathWarning
from .. import reference
from .codegen import CodegenError

forward, indices = reference.forward, reference.indices


class ByStatement(NamedTuple):
    """What the specification keeps, where no kernel is right."""

    kept: Any


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    value, kept = reference.keep(op, operands, out)
    return value, ByStatement(kept)


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return ByStatement(reference.recall(op, operands))


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    return reference.push(op, operands, _kept(op, operands, kept), tangents, out)


def pull(
    op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None, out: Any = None
) -> tuple[Any, ...]:
    pulled = reference.pull(op, operands, _kept(op, operands, kept), cotangent, wanted)
    return tuple(write(op.name, p, o) for p, o in zip(pulled, out or (None,) * len(pulled), strict=True))


def _kept(op: Any, operands: tuple[Any, ...], kept: Any) -> Any:
    return kept.kept if isinstance(kept, ByStatement) else reference.recall(op, operands)


def warn(op: Any, problem: CodegenError) -> None:
    words = f"{op.name}: runs on the reference engine, slowly ({problem}); install another version of llvmlite"
    warnings.warn(words, SlowPathWarning, stacklevel=6)
