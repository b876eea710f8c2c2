"""The CPU engine for NumPy arrays: pooling by compiled reductions, convolution by matrix products,
network operators by NumPy itself.

One part per kind of operator; this file chooses the part by the exact class of the operator.
Kernels are generated and compiled on first use."""

from __future__ import annotations

from typing import Any

from . import convolution, moves, network, norms, pooling, prepared  # noqa: F401 - four enter what they run elsewhere

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


def forward(op: Any, operands: tuple[Any, ...], out: Any = None) -> Any:
    return part(op.__class__).forward(op, operands, out)


def keep(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    kept: tuple[Any, Any] = part(op.__class__).keep(op, operands, out)
    return kept


def recall(op: Any, operands: tuple[Any, ...]) -> Any:
    return part(op.__class__).recall(op, operands)


def indices(op: Any, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    found: tuple[Any, Any] = part(op.__class__).indices(op, operands, out)
    return found


def push(op: Any, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    return part(op.__class__).push(op, operands, kept, tangents, out)


def pull(
    op: Any,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: Any = None,
) -> tuple[Any, ...]:
    pulled: tuple[Any, ...] = part(op.__class__).pull(op, operands, kept, cotangent, wanted, out)
    return pulled


def vjp(op: Any, operands: tuple[Any, ...], cotangent: Any) -> Any:
    return pooling.vjp(op, operands, cotangent) if part(op.__class__) is pooling else NotImplemented


def jvp(op: Any, operands: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    return pooling.jvp(op, operands, tangents) if part(op.__class__) is pooling else NotImplemented


def plan(op: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Any] | str:
    """The kernels of an operator, by what they compute; or in words why there are none, or what
    runs in their place."""
    found = part(op.__class__)
    if 0 in shape:
        return "runs nothing: the array has no cells"
    if found is pooling:
        return pooling.refuses_arrays(op, dtype, shape) or pooling.plan(op, shape, dtype)
    return f"runs: {found.TAKES}" if found else f"does not run {op.__class__.__name__}: the specification does"
