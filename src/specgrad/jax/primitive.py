"""One JAX primitive for all operators. A derivative is an operator too (`derive`), so its rules
need nothing but the operator itself.

JVP is `Operator.tangent` and transposition is `Operator.cotangent`, which give operators again:
jvp, grad and their nestings work to any order. vmap is in `batching`. On the CPU XLA calls
specgrad's kernels (`host`); elsewhere the operator is composed of XLA's operations (`compose`).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from ..derive import ShapeOnly
from ..errors import ArgumentError, refusal
from ..ops import Add, Linear, Mul, Reshape, Scale, Sub
from ..ops.pointwise import Pointwise
from ..scalars import find_family, is_traced
from . import compose, host
from .batching import batch
from .indices import Indices

INLINE = (Add, Sub, Mul, Scale, Linear)
"""Operators that are XLA's own: it fuses and differentiates them."""

operator_p = Primitive("specgrad")

_composed_only: contextvars.ContextVar[bool] = contextvars.ContextVar("specgrad_jax_composed", default=False)


@contextlib.contextmanager
def composed() -> Iterator[None]:
    """What is compiled in this block consists of XLA's operations on every platform: a program to
    export, or to compare with."""
    token = _composed_only.set(True)
    try:
        yield
    finally:
        _composed_only.reset(token)


def apply(op: Any, operands: Sequence[Any], out: Any = None) -> Any:
    """An operator on values that JAX traces or holds, and on constants among them."""
    if out is not None:
        raise refusal(ArgumentError, op.name, "out", out, "an array of JAX is not written into", "leave it out")
    given = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in operands]
    _check(op, given)
    if type(op) is Reshape:
        return jnp.reshape(given[0], op.output_shape(given[0].shape))
    if type(op) in INLINE:
        return compose.value(op, given)
    return operator_p.bind(*_aligned(given), op=op)


def with_indices(op: Any, operands: Sequence[Any], out: Any = None) -> tuple[Any, Any]:
    """The value of a maximum, and the winner's flat index in its spatial plane."""
    return apply(op, operands, out), apply(Indices(op), operands)


def _check(op: Any, given: Sequence[Any]) -> None:
    """Refuse shapes and dtypes while JAX traces, as a call on arrays would."""
    op.output_shape(*(tuple(x.shape) for x in given))
    base = op.base if op.derived else op
    numbers = [(slot.name, x) for slot, x in zip(op.slots, given, strict=False) if not slot.integer]
    S = find_family(op.name, [name for name, _ in numbers], [x for _, x in numbers])
    S.require(op.name, *numbers[0], base.needs)


def _varying(aval: Any) -> frozenset[Any]:
    """The mesh axes along which the devices of a shard_map hold different values."""
    kind = getattr(aval, "mat", None)
    found: frozenset[Any] = kind.varying if kind is not None else getattr(aval, "vma", frozenset())
    return found


def _aligned(given: Sequence[Any]) -> list[Any]:
    """Operands that all vary along the same axes of a shard_map."""
    axes = [_varying(jax.typeof(x)) for x in given]
    every = frozenset().union(*axes)
    return [
        x if own == every else jax.lax.pcast(x, tuple(every - own), to="varying")
        for x, own in zip(given, axes, strict=True)
    ]


def _abstract(*avals: Any, op: Any) -> Any:
    shape = op.output_shape(*(tuple(aval.shape) for aval in avals))
    model = next(aval for slot, aval in zip(op.slots, avals, strict=False) if not slot.integer)
    dtype = jax.dtypes.canonicalize_dtype(np.int64) if isinstance(op, Indices) else model.dtype
    sharding = model.sharding.update(spec=PartitionSpec(*(None,) * len(shape)))
    return model.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)


def _eager(*operands: Any, op: Any) -> Any:
    if any(is_traced(x) or len(getattr(x, "devices", set)()) > 1 for x in operands):
        return _compiled(op)(*operands)
    if _composed_only.get():
        return compose.value(op, operands)
    aval = _abstract(*map(jax.typeof, operands), op=op)
    out = np.empty(aval.shape, aval.dtype)
    host.run(op, tuple(map(np.asarray, operands)), out)
    return jnp.asarray(out)


@functools.lru_cache(maxsize=1024)
def _compiled(op: Any) -> Any:
    return jax.jit(functools.partial(operator_p.bind, op=op))


def _zero(value: Any) -> Any:
    aval = jax.typeof(value)
    return ad.Zero(aval.to_tangent_aval() if hasattr(aval, "to_tangent_aval") else aval.at_least_vspace())


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, op: Any) -> tuple[Any, Any]:
    value = operator_p.bind(*primals, op=op)
    moved = op.tangent(primals, [None if type(t) is ad.Zero else t for t in tangents])
    return value, _zero(value) if moved is None else moved


def _transpose(cotangent: Any, *operands: Any, op: Any) -> list[Any]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in operands]
    cotangent = jnp.asarray(cotangent)
    known = [ShapeOnly(tuple(x.aval.shape)) if ad.is_undefined_primal(x) else x for x in operands]
    pulled = [
        op.cotangent(slot, known, cotangent) if ad.is_undefined_primal(x) else None for slot, x in enumerate(operands)
    ]
    return [
        ad.Zero(x.aval) if part is None and ad.is_undefined_primal(x) else part
        for x, part in zip(operands, pulled, strict=True)
    ]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, op: Any) -> tuple[Any, int]:
    return batch(lambda op, *given: apply(op, given), op, operands, axes)


operator_p.def_impl(_eager)
operator_p.def_abstract_eval(_abstract)
rules = (ad.primitive_jvps, _jvp), (ad.primitive_transposes, _transpose), (batching.primitive_batchers, _batch)
for table, rule in rules:  # JAX has no functions that enter them
    table[operator_p] = rule
_composed = mlir.lower_fun(lambda *given, op: compose.value(op, given), multiple_results=False)


def _on_cpu(context: Any, *operands: Any, op: Any) -> Any:
    """Cell by cell XLA is as good and fuses; everything else is a call of our kernels."""
    pointwise = isinstance(op.base if op.derived else op, Pointwise)
    return (_composed if pointwise or _composed_only.get() else host.lower)(context, *operands, op=op)


mlir.register_lowering(operator_p, _composed)
mlir.register_lowering(operator_p, _on_cpu, platform="cpu")
