"""Operators composed of XLA's operations, by their statement: what runs on GPUs and TPUs, which
specgrad's CPU kernels do not reach.

`Operator.value` and `Operator.row` run over JAX arrays as over any scalar. A tap is a strided slice
of the operand, padded; the VJP is the transpose of the JVP, which turns slices into pads: no
scatter, so the sums have one order on every device. Higher derivatives are JAX's, forward over the
row. Convolution is XLA's own, which multiplies padding by the weight.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..derive import ShapeOnly, VJPOf
from ..operator import Window
from ..ops import Conv, Fold, Linear, Reshape, SumPool, Unfold
from ..ops.conv import Bilinear
from ..ops.pointwise import Pointwise
from ..ops.window import Pool
from ..scalars.jax import Arrays
from . import host, whole
from .indices import Indices
from .windows import Sliced

Function = Callable[..., Any]

MOST_TAPS = 1024
"""The taps of a window that are composed; a larger one runs on the host."""


def value(op: Any, operands: Sequence[Any]) -> Any:
    """An operator, or a derivative of one, on JAX arrays."""
    base = op.base if op.derived else op
    if not _is_composed(base, op, operands):
        return _on_host(op, operands)
    if isinstance(op, Indices):
        return _indices(base, *operands)
    if not op.derived:
        return _forward(op, operands)
    own, seeds, directions = op.parts(operands)
    example = next(x for slot, x in zip(op.slots, operands, strict=True) if not slot.integer)
    full = tuple(_zeros(x.shape, example) if isinstance(x, ShapeOnly) else x for x in own)
    nested = directions if isinstance(op, VJPOf) else directions[:-1]

    def first(*xs: Any) -> Any:
        return _pull(base, xs, op.slot, seeds[0]) if isinstance(op, VJPOf) else _push(base, xs, directions[-1])

    derivative: Function = first
    for direction in nested:
        derivative = functools.partial(_tangent, derivative, direction)
    return derivative(*full)


def _is_composed(base: Any, op: Any, operands: Sequence[Any]) -> bool:
    if isinstance(base, Pool):
        shapes = [tuple(x.shape) for x in operands]
        (shape,) = op.base_shapes(shapes) if op.derived and not isinstance(op, Indices) else shapes
        return whole.is_whole(base) or Sliced(base, shape).taps <= MOST_TAPS
    if type(base) in (Fold, Unfold):
        return bool(math.prod(base.kernel_size) <= MOST_TAPS)
    return isinstance(base, Pointwise | Bilinear) and not isinstance(base, Reshape)


def _on_host(op: Any, operands: Sequence[Any]) -> Any:
    """The value by an engine of the CPU."""
    shape = op.output_shape(*(tuple(x.shape) for x in operands))
    dtype = jax.dtypes.canonicalize_dtype(np.int64) if isinstance(op, Indices) else operands[0].dtype

    def run(*given: Any) -> Any:
        out = np.empty((*shape, 1), dtype)
        host.run(op, tuple(_of_words(np.asarray(x), o) for x, o in zip(given, operands, strict=True)), out[..., 0])
        return out.view(np.uint32) if _is_long(dtype) else out[..., 0]

    if not _is_long(dtype):
        result = jax.ShapeDtypeStruct(shape, dtype)
    else:
        result = jax.ShapeDtypeStruct((*shape, np.dtype(dtype).itemsize // 4), np.uint32)
    found = jax.pure_callback(run, result, *map(_words, operands))
    if not _is_long(dtype):
        return lax.optimization_barrier(found)  # what a callback gives may be on one device, which jit does not take
    if np.dtype(dtype).kind != "c":
        return lax.bitcast_convert_type(found, dtype)
    parts = lax.bitcast_convert_type(found.reshape(*shape, 2, 2), np.float64)
    return lax.complex(parts[..., 0], parts[..., 1])


def _is_long(dtype: Any) -> bool:
    """Whether JAX narrows numbers of this dtype where x64 is off: as in the threads that call the
    host, for which a context manager does not switch it on."""
    return np.dtype(dtype).name in ("float64", "int64", "uint64", "complex128")


def _words(x: Any) -> Any:
    """The bits of an array of long numbers, as words of 32 bits along a new last axis."""
    if not _is_long(x.dtype):
        return x
    parts = jnp.stack([x.real, x.imag], -1) if np.dtype(x.dtype).kind == "c" else x
    return lax.bitcast_convert_type(parts, np.uint32).reshape(*x.shape, x.dtype.itemsize // 4)


def _of_words(words: Any, like: Any) -> Any:
    """The inverse of `_words`, on the host."""
    return np.ascontiguousarray(words).view(like.dtype)[..., 0] if _is_long(like.dtype) else words


def _zeros(shape: Sequence[int], example: Any) -> Any:
    """Zeros that vary over the devices of a shard_map as the example does. Where an operand does
    not vary, JAX sums its cotangent over the devices, as `primitive` does already."""
    return jnp.zeros_like(example, shape=shape)


def _tangent(f: Function, direction: Sequence[Any], *xs: Any) -> Any:
    """The derivative of f along one tangent per operand; None is zero."""
    moved = [place for place, v in enumerate(direction) if v is not None]

    def of_moved(*some: Any) -> Any:
        full = list(xs)
        for place, x in zip(moved, some, strict=True):
            full[place] = x
        return f(*full)

    return jax.jvp(of_moved, [xs[p] for p in moved], [direction[p] for p in moved])[1]


def _entered(xs: Sequence[Any]) -> tuple[Arrays, list[Any]]:
    """The scalars of these operands, and the operands in the precision of the computation."""
    S = Arrays(np.dtype(xs[0].dtype))
    return S, [S.enter("", "", x) for x in xs]


def _forward(op: Any, operands: Sequence[Any]) -> Any:
    S, xs = _entered(operands)
    if isinstance(op, Bilinear):
        found = _bilinear(op, *xs)
    elif isinstance(op, Pointwise):
        found = op.function(S, *xs)
    elif type(op) in (Fold, Unfold):
        found = _patches(op, *xs)
    elif whole.is_whole(op):
        found = whole.value(S, op, *xs)
    else:
        found = op.value(S, _window(S, op, xs))[0]
    shape = op.output_shape(*(tuple(x.shape) for x in operands))
    lengths = _kept_shape(op, operands)
    return S.leave(jnp.broadcast_to(found, lengths), shape)


def _indices(op: Any, x: Any) -> Any:
    """Where in its plane the winner of each window is; -1 where no cell is real."""
    S, xs = _entered([x])
    dtype = jax.dtypes.canonicalize_dtype(np.int64)
    if whole.is_whole(op):
        found = whole.winners(op, *xs).astype(dtype)
    else:
        window, positions = _window(S, op, xs), op.positions(x.shape)
        others = tuple(p for p in range(x.ndim) if p not in positions)
        sizes = tuple(x.shape[p] for p in positions)
        plane = np.arange(math.prod(sizes), dtype=dtype).reshape((1,) * len(others) + sizes)
        plane = jnp.asarray(np.moveaxis(plane, range(x.ndim), others + positions))
        found = jnp.full(window.size, -1, dtype)
        for tap, led in zip(window, op.value(S, window)[1][1], strict=True):
            found = jnp.where(led, S.take(plane, tap.place[0]), found)
    return jnp.broadcast_to(found, _kept_shape(op, [x])).reshape(op.output_shape(x.shape))


def _kept_shape(op: Any, operands: Sequence[Any]) -> Any:
    """The shape of the output before axes of length 1 are dropped."""
    shapes = [tuple(x.shape) for x in operands]
    return Pool.result_shape(op, *shapes) if isinstance(op, Pool) else op.output_shape(*shapes)


def _window(S: Arrays, op: Any, xs: Sequence[Any]) -> Window:
    block: Any = Sliced(op, tuple(xs[0].shape))
    return Window(S, block, xs)


def _push(op: Any, operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The output's tangent, by the row."""
    S, xs = _entered(operands)
    moved = [None if t is None else t.astype(S.computed) for t in tangents]
    shape = op.output_shape(*(tuple(x.shape) for x in operands))
    if isinstance(op, Bilinear):
        return S.leave(_tangent(functools.partial(_bilinear, op), moved, *xs), shape)
    return S.leave(jnp.broadcast_to(_row(S, op, xs)(*moved), _kept_shape(op, operands)), shape)


def _row(S: Arrays, op: Any, xs: Sequence[Any]) -> Function:
    """The linear function from tangents of the operands to that of the output."""
    if isinstance(op, Pointwise):
        slopes = op.slopes_of(S, *xs)

        def gathered(*moved: Any) -> Any:
            parts = [s.apply(S, t) for s, t in zip(slopes, moved, strict=True) if s is not None and t is not None]
            return sum(parts, S.constant(0))

        return gathered
    if type(op) in (Fold, Unfold):
        return functools.partial(_patches, op)
    if whole.is_whole(op):
        return whole.row(S, op, *xs)
    window = _window(S, op, xs)
    kept = op.value(S, window)[1] if op.keeps else None
    entries = list(op.row(S, window, kept))
    return lambda dx: sum((e.apply(S, S.take(dx, e.place)) for e in entries), S.zeros(window.size))


def _pull(op: Any, operands: Sequence[Any], slot: int, cotangent: Any) -> Any:
    """The cotangent of one operand: the transpose of `_push`."""
    S, xs = _entered(operands)
    shape, lengths = tuple(operands[slot].shape), _kept_shape(op, operands)
    arriving = jnp.reshape(cotangent.astype(S.computed), lengths)
    if isinstance(op, Bilinear):
        return S.leave(jax.vjp(functools.partial(_bilinear, op), *xs)[1](arriving)[slot], shape)
    row = _row(S, op, xs)

    def moved(dx: Any) -> Any:
        directions = [dx if place == slot else None for place in range(len(xs))]
        return jnp.broadcast_to(row(*directions), lengths)

    return S.leave(jax.linear_transpose(moved, xs[slot])(arriving)[0], shape)


def _patches(op: Any, x: Any) -> Any:
    """The cells under each tap of a kernel, side by side; or the transpose."""
    if type(op) is Fold:
        unfold, shape = op.transposes(x.shape)
        return _transposed(functools.partial(_patches, unfold), shape, x)
    taps = Sliced(SumPool(op.kernel_size, stride=op.stride, padding=op.padding, dilation=op.dilation), x.shape).steps()
    cells = jnp.stack([tap.place[0].of(x) for tap in taps], x.ndim - len(op.kernel_size))  # type: ignore[attr-defined]
    return cells.reshape(op.output_shape(x.shape))


def _transposed(f: Function, shape: Sequence[int], y: Any) -> Any:
    """The transpose, at y, of a linear function of an array of this shape."""
    return jax.linear_transpose(f, jax.eval_shape(functools.partial(_zeros, shape), y))(y)[0]


def _bilinear(op: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    """A convolution, its adjoint or a linear map by XLA's own operation, in full precision."""
    if isinstance(op, Linear):
        found = jnp.matmul(x, weight.T, precision=lax.Precision.HIGHEST)
        return found if bias is None else found + bias
    rank = len(op.kernel_size)
    batch, spatial = x.shape[: x.ndim - rank - 1], tuple(x.shape[x.ndim - rank :])
    planes = x.reshape(math.prod(batch), *x.shape[len(batch) :])
    axes = op.sliding(spatial)

    def convolved(z: Any) -> Any:
        whole = lax.conv_general_dilated(
            z, weight, op.stride, [(axis.before, axis.after) for axis, _ in axes],
            rhs_dilation=op.dilation, feature_group_count=op.groups, precision=lax.Precision.HIGHEST,
        )  # fmt: skip
        return whole[(..., *(slice(length) for _, length in axes))]

    if isinstance(op, Conv):
        found = convolved(planes)
    else:
        channels = weight.shape[1] * op.groups
        found = _transposed(convolved, (len(planes), channels, *(axis.size for axis, _ in axes)), planes)
    if bias is not None:
        found = found + bias.reshape(-1, *(1,) * rank)
    return found.reshape(*batch, *found.shape[1:])
