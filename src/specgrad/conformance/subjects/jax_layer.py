"""The JAX front end: our operators under jax.jit, by our kernels and composed of XLA's operations;
derivatives are JAX's, of our primitive."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import jax as front
from .jax_lax import JaxLax

Array = np.ndarray[Any, Any]


def _by_kernels(op: Any, *operands: Any) -> Any:
    return op(*operands)


def _by_xla(op: Any, *operands: Any) -> Any:
    """The same call by another name, under which what is compiled is kept apart."""
    return op(*operands)


class JaxLayer(JaxLax):
    """specgrad's operators on JAX arrays."""

    name = "specgrad jax"
    conventions: Any = ()
    applied = staticmethod(_by_kernels)


class JaxComposed(JaxLayer):
    """The same as other devices than the CPU run it."""

    name = "specgrad jax xla"
    conventions = ("padding is multiplied", "subnormals flushed")  # by XLA, whose operations they are
    applied = staticmethod(_by_xla)

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        with front.composed():
            return super().forward(op, inputs)

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        with front.composed():
            return super().jvp(op, inputs, tangents)

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        with front.composed():
            return super().vjp(op, inputs, cotangent)

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        with front.composed():
            return super().second(op, inputs, tangents, cotangent)


def subjects() -> list[Any]:
    return [JaxLayer(), JaxComposed()]
