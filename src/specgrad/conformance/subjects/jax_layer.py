"""The JAX front end: our operators under jax.jit, by our kernels and composed of XLA's operations.
JAX differentiates our primitive."""

from __future__ import annotations

from typing import Any

from ... import jax as front
from .jax_lax import JaxLax


def _by_kernels(op: Any, *operands: Any) -> Any:
    return op(*operands)


def _by_xla(op: Any, *operands: Any) -> Any:
    """The same call under another name, and so with its own entries in the cache of compiled
    functions."""
    return op(*operands)


class JaxLayer(JaxLax):
    """specgrad's operators on JAX arrays."""

    name = "specgrad jax"
    conventions: Any = ()
    applied = staticmethod(_by_kernels)


class JaxComposed(JaxLayer):
    """specgrad's operators on JAX arrays, composed of XLA's operations as on devices other than the
    CPU."""

    name = "specgrad jax xla"
    conventions = ("padding is multiplied", "subnormals flushed")  # XLA's conventions, since its operations run
    applied = staticmethod(_by_xla)

    def _run(self, method: str, op: Any, *given: Any) -> Any:
        with front.composed():
            return super()._run(method, op, *given)


def subjects() -> list[Any]:
    return [JaxLayer(), JaxComposed()]
