"""Torch tensors, by `specgrad.torch`, which is imported when the first one arrives: this file
imports no torch."""

from __future__ import annotations

import importlib
from typing import Any

from ..scalars import is_tensor

TAKES = "every operator, over torch tensors of any device; derivatives by torch's own transforms too"


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    strangers = [x for x in operands if not is_tensor(x)]
    return f"it takes torch tensors only, not {type(strangers[0]).__name__}" if strangers else None


def _front() -> Any:
    return importlib.import_module("specgrad.torch.apply")


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return _front().forward(op, operands, out)


def keep(op: Any, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    kept: tuple[Any, Any] = _front().keep(op, operands)
    return kept


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return _front().recall(op, operands)


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    found: tuple[Any, Any] = _front().indices(op, operands, out)
    return found


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...]) -> Any:
    return _front().push(op, operands, kept, tangents)


def pull(op: Any, operands: tuple[Any, ...], kept: Any, cotangent: Any, wanted: Any = None) -> tuple[Any, ...]:
    pulled: tuple[Any, ...] = _front().pull(op, operands, kept, cotangent, wanted)
    return pulled
