"""The CPU engine for NumPy arrays: pooling by compiled reductions, convolution by matrix products,
network operators by NumPy itself.

One part per kind of operator; this file chooses the part by the exact class of the operator.
Kernels are generated and compiled on first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...geometry import Shape

# moves, norms and prepared enter what they run elsewhere
from . import convolution, fallback, moves, network, norms, pooling, prepared  # noqa: F401
from .codegen import CodegenError
from .operands import is_plain_array

PARTS: dict[type[Any], Any] = {
    **dict.fromkeys(pooling.REDUCES, pooling),
    **dict.fromkeys(network.RULES, network),
}

TAKES = "; ".join(part.TAKES for part in dict.fromkeys(PARTS.values()))


def part(kind: Any) -> Any:
    """Who runs operators of exactly this class, or None."""
    return PARTS.get(kind)


def refuses(op: Any, operands: tuple[Any, ...]) -> str | None:
    found = part(op.__class__)
    return found.refuses(op, operands) if found else f"it does not run {op.__class__.__name__}"


def _run(rule: str, op: Any, operands: tuple[Any, ...], *rest: Any) -> Any:
    """What the operator's part computes, or the specification where a kernel cannot be compiled."""
    try:
        return getattr(PARTS[op.__class__], rule)(op, operands, *rest)
    except CodegenError as problem:
        fallback.warn(op, problem)
    return getattr(fallback, rule)(op, operands, *rest)


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return _run("forward", op, operands, out)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    kept: tuple[Any, Any] = _run("keep", op, operands, out)
    return kept


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return _run("recall", op, operands)


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    found: tuple[Any, Any] = _run("indices", op, operands, out)
    return found


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    if all(t is None or is_plain_array(t) for t in tangents):
        return _run("push", op, operands, kept, tangents, out)
    return fallback.push(op, operands, None, tangents, out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    if isinstance(cotangent, np.generic | float):  # of a result of one cell
        cotangent = np.asarray(cotangent)
    if not is_plain_array(cotangent):
        return fallback.pull(op, operands, None, cotangent, wanted, out)
    pulled: tuple[Any, ...] = _run("pull", op, operands, kept, cotangent, wanted, out)
    return pulled


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
    return pull(op, operands, recall(op, operands), cotangent)


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    value, kept = keep(op, operands)
    return value, push(op, operands, kept, tangents)


def plan(op: Any, shapes: tuple[Shape, ...], dtype: Any) -> dict[str, Any] | str:
    """The kernels of an operator, by what they compute; or in words why there are none, or what
    runs in their place."""
    found = part(op.__class__)
    if any(0 in shape for shape in (*shapes, op.output_shape(*shapes))):
        return "runs nothing: an array has no cells"
    if found is pooling:
        return pooling.refuses_arrays(op, dtype, shapes[0]) or pooling.plan(op, shapes[0], dtype)
    if op.__class__ in convolution.KINDS:
        return convolution.kernels(op, shapes, dtype)
    return f"runs: {found.TAKES}" if found else f"does not run {op.__class__.__name__}: the specification does"
