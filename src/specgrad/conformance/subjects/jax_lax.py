"""JAX, unmodified: lax.reduce_window and lax.conv_general_dilated, with jax.jvp and jax.vjp.

JAX has no pooling functions. As in its documentation and in flax, windows are reduced by max from
-inf, or by add from 0 and a division.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...ops import AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, Linear, MaxPool
from ..subject import NotOffered
from .shapes import fed, is_a, only, pairs, sizes_of

Array = np.ndarray[Any, Any]


def windowed(op: Any, x: Any, start: Any, reduce: Any) -> Any:
    """reduce_window with the operator's kernel, stride, padding and dilation on (batch, channels,
    *spatial)."""
    words = {
        "window_dimensions": (1, 1, *op.kernel_size),
        "window_strides": (1, 1, *op.stride),
        "padding": ((0, 0), (0, 0), *pairs(op, sizes_of(op, x))),
        "window_dilation": (1, 1, *op.dilation),
    }
    return lax.reduce_window(x, start, reduce, **words)


def pooled(op: Any, x: Any) -> Any:
    spatial = tuple(range(2, 2 + op.spatial_rank()))
    if is_a(op, MaxPool | AvgPool):
        only(not op.ceil_mode, "ceil_mode")
    if is_a(op, MaxPool):
        only(op.ties == "first", f"ties={op.ties!r}")
        lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
        return windowed(op, x, np.array(lowest, x.dtype), lax.max)
    if is_a(op, AvgPool):
        only(op.divisor_override is None, "divisor_override")
        total = windowed(op, x, np.array(0, x.dtype), lax.add)
        if op.count_include_pad:
            return total / int(np.prod(op.kernel_size))
        return total / windowed(op, jnp.ones_like(x), np.array(0, x.dtype), lax.add)
    if is_a(op, GlobalMaxPool):
        only(op.ties == "split", f"ties={op.ties!r}")
        return jnp.max(x, axis=spatial, keepdims=True)
    if is_a(op, GlobalAvgPool):
        return jnp.mean(x, axis=spatial, keepdims=True)
    raise NotOffered(op.name)


def convolved(op: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    rank = op.spatial_rank()
    letters = "abcdefgh"[:rank]
    words: Any = {
        "rhs_dilation": op.dilation,
        "dimension_numbers": (f"NC{letters}", f"OI{letters}", f"NC{letters}"),
    }
    if is_a(op, Conv):
        around = pairs(op, sizes_of(op, x))
        y = lax.conv_general_dilated(x, weight, op.stride, around, feature_group_count=op.groups, **words)
    else:
        only(op.groups == 1, "groups")
        # the padding of the dilated input that makes lax.conv_transpose the adjoint of a padded
        # convolution
        around = tuple(
            (d * (k - 1) - a, d * (k - 1) - b + extra)
            for k, d, (a, b), extra in zip(op.kernel_size, op.dilation, op.padding, op.output_padding, strict=True)
        )
        y = lax.conv_transpose(x, weight, op.stride, around, transpose_kernel=True, **words)
    return y if bias is None else y + bias[(slice(None), *(None,) * rank)]


def applied(op: Any, *operands: Any) -> Any:
    """An operator on JAX arrays."""
    x, *rest = operands
    if is_a(op, Linear):
        y = x @ rest[0].T
        return y + rest[1] if len(rest) > 1 else y
    run = convolved if is_a(op, Conv | ConvTranspose) else pooled
    return fed(op, x, lambda t: run(op, t, *rest))


@functools.cache
def compiled(applied: Any, op: Any, method: str) -> Any:
    """One compiled function per operator and method: JAX compiles it once per shape."""

    def run(*xs: Any) -> Any:
        return applied(op, *xs)

    def pulled(xs: Any, g: Any) -> Any:
        return jax.vjp(run, *xs)[1](g)

    if method == "forward":
        return jax.jit(lambda xs: run(*xs))
    if method == "jvp":
        return jax.jit(lambda xs, ts: jax.jvp(run, xs, ts)[1])
    if method == "vjp":
        return jax.jit(pulled)
    return jax.jit(lambda xs, ts, g: jax.jvp(lambda *z: pulled(z, g), xs, ts)[1])


class JaxLax:
    """lax on JAX's default device."""

    name = "jax"
    slow = True
    conventions = ("empty window is -inf", "padding is multiplied", "rounded at every step")
    version = f"jax {jax.__version__}"
    applied = staticmethod(applied)

    def _run(self, method: str, op: Any, *given: Any) -> Any:
        with jax.enable_x64(True):
            found = compiled(self.applied, op, method)(*given)
            return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Any:
        return self._run("forward", op, inputs)

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
        return self._run("jvp", op, inputs, tangents)

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> Any:
        return self._run("vjp", op, inputs, cotangent)

    def second(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array) -> Any:
        return self._run("second", op, inputs, tangents, cotangent)


def subjects() -> list[Any]:
    return [JaxLax()]
