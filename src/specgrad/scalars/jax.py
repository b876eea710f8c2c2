"""JAX arrays of one number type: the specification composed of XLA's operations, for devices that
specgrad has no kernels for.

Cells keep their shape, so that one operation covers all output cells; the windows of `specgrad.jax`
say how cells are taken.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp

from .base import Cells, Mask, Number
from .floats import Numbers


class Arrays(Numbers):
    """JAX arrays of one dtype; constants are NumPy's."""

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        return jnp.asarray(array).astype(self.computed)

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        return jnp.reshape(cells, shape).astype(self.dtype)

    def zeros(self, size: Any) -> Cells:
        return jnp.zeros(size, self.computed)

    def take(self, cells: Cells, index: Any) -> Cells:
        return index.of(cells)

    def gt(self, a: Cells, b: Cells) -> Mask:
        return jnp.greater(a, b)

    def eq(self, a: Cells, b: Cells) -> Mask:
        return jnp.equal(a, b)

    def is_nan(self, a: Cells) -> Mask:
        return jnp.isnan(a)

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        return jnp.where(mask, a, b)

    def exp(self, a: Cells) -> Cells:
        return jnp.exp(a)

    def log(self, a: Cells) -> Cells:
        return jnp.log(a)

    def sqrt(self, a: Cells) -> Cells:
        return jnp.sqrt(a)

    def tanh(self, a: Cells) -> Cells:
        return jnp.tanh(a)

    def erf(self, a: Cells) -> Cells:
        return jax.scipy.special.erf(a)

    def logistic(self, a: Cells) -> Cells:
        return jax.nn.sigmoid(a)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        return jnp.logaddexp(a, b)

    def power(self, a: Cells, exponent: Number) -> Cells:
        return jnp.power(a, self.constant(exponent))

    def still(self, a: Cells) -> Cells:
        return jax.lax.stop_gradient(a)

    def pivot(self, a: Cells) -> Cells:
        return jax.lax.stop_gradient(jnp.where(jnp.isfinite(a), a, self.constant(0)))
