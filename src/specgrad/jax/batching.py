"""vmap: the mapped axis becomes an axis of the operator's batch, or of its groups where every
example has a weight of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..derive import Derived, VJPOf, _roles
from ..ops import Fold, MaxUnpool, Reshape, Unfold
from ..ops.conv import SlidingWeight
from ..ops.pointwise import Pointwise
from ..ops.window import Pool

Run = Callable[..., Any]

LEADING = (Pool, MaxUnpool, Fold, Unfold)
"""Operators whose leading axes are batch in every operand and in the result."""


def batch(run: Run, op: Any, operands: Sequence[Any], axes: Sequence[int | None]) -> tuple[Any, int]:
    """`run` the operator for every index of the mapped axes at once; the result and its mapped
    axis."""
    size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    base = op.base if op.derived else op
    alike = (
        isinstance(base, Pointwise)
        and not isinstance(base, Reshape)
        and len({x.ndim - (a is not None) for x, a in zip(operands, axes, strict=True)}) == 1
    )
    if alike or isinstance(base, LEADING):
        return run(_with_axis(op, size), *(_first(x, a, size) for x, a in zip(operands, axes, strict=True))), 0
    if isinstance(base, SlidingWeight):
        kinds, made = _kinds(op, len(operands))
        if made == "x" and all(a is None or kind == "x" for a, kind in zip(axes, kinds, strict=True)):
            moved = (_first(x, a, size) if k == "x" else x for x, a, k in zip(operands, axes, kinds, strict=True))
            return run(_with_axis(op, size, kinds_of_base(base)), *moved), 0
        return _grouped(run, op, base, size, [_first(x, a, size) for x, a in zip(operands, axes, strict=True)])
    return _one_by_one(run, op, operands, axes), 0


def _first(x: Any, axis: int | None, size: int) -> Any:
    """The operand with the mapped axis first; repeated where it has none."""
    return jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)


def _with_axis(op: Any, size: int, kinds: Sequence[str] | None = None) -> Any:
    """The operator on operands that have one leading axis more; of a convolution only those like x
    have."""
    if isinstance(op, Derived):
        shapes = tuple(
            s if s is None or (kinds is not None and kinds[place] != "x") else (size, *s)
            for place, s in enumerate(op.shapes)
        )
        return dataclasses.replace(op, base=_with_axis(op.base, size), shapes=shapes)
    if op.derived:
        return dataclasses.replace(op, base=_with_axis(op.base, size))
    axes = getattr(op, "axes", None)
    return op if axes is None else dataclasses.replace(op, axes=tuple(a if a < 0 else a + 1 for a in axes))


def kinds_of_base(base: Any) -> list[str]:
    return [slot.name for slot in base.slots]


def _kinds(op: Any, count: int) -> tuple[list[str], str]:
    """Per operand of a convolution or of its derivative, what it is shaped like: x, weight or bias;
    and the result."""
    if not op.derived:
        return kinds_of_base(op)[:count], "x"
    names = kinds_of_base(op.base)
    roles = _roles(op.shapes, len(op._seeds()), op.along)
    kinds = ["x" if kind == "seed" else names[slot] for kind, _, slot in roles]
    return kinds, names[op.slot] if isinstance(op, VJPOf) else "x"


def _grouped(run: Run, op: Any, base: Any, size: int, operands: Sequence[Any]) -> tuple[Any, int]:
    """Every index of the mapped axis a group of channels of its own."""
    rank = len(base.kernel_size)
    kinds, made = _kinds(op, len(operands))
    grouped = dataclasses.replace(base, groups=base.groups * size)
    if op.derived:
        names = kinds_of_base(base)
        shapes = tuple(s and _folded_shape((size, *s), names[place], rank) for place, s in enumerate(op.shapes))
        grouped = dataclasses.replace(op, base=grouped, shapes=shapes)
    result = run(grouped, *(_folded(x, kind, rank) for x, kind in zip(operands, kinds, strict=True)))
    channel = result.ndim - rank - 1 if made == "x" else 0
    lengths = result.shape
    return result.reshape(*lengths[:channel], size, lengths[channel] // size, *lengths[channel + 1 :]), channel


def _folded(x: Any, kind: str, rank: int) -> Any:
    """An operand whose first axis is mapped, with that axis in its channels."""
    shape = _folded_shape(x.shape, kind, rank)
    return (jnp.moveaxis(x, 0, x.ndim - rank - 2) if kind == "x" else x).reshape(shape)


def _folded_shape(shape: tuple[int, ...], kind: str, rank: int) -> tuple[int, ...]:
    size, *rest = shape
    channel = len(rest) - rank - 1 if kind == "x" else 0
    return (*rest[:channel], size * rest[channel], *rest[channel + 1 :])


def _one_by_one(run: Run, op: Any, operands: Sequence[Any], axes: Sequence[int | None]) -> Any:
    """One example after another, for operators whose mapped axis is no batch."""
    moved = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(operands, axes, strict=True)]

    def at(examples: Any) -> Any:
        rest = iter(examples)
        return run(op, *(x if a is None else next(rest) for x, a in zip(moved, axes, strict=True)))

    return jax.lax.map(at, [x for x, a in zip(moved, axes, strict=True) if a is not None])
