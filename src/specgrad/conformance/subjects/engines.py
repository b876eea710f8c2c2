"""Our own engines: every one in `dispatch.ENGINES` that takes arrays, forced, on what it takes.
Tensors are in `torch_layer`, dask arrays in tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dispatch
from ...scalars.dual import Dual
from ..subject import NotOffered
from . import OTHER_ARRAYS

Array = np.ndarray[Any, Any]


class Engine:
    """One engine; what it refuses it does not offer."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.name = f"specgrad {engine}"
        self.module = dispatch.load(engine)

    def _offered(self, op: Any, inputs: tuple[Any, ...]) -> None:
        op.output_shape(*(x.shape for x in inputs))
        reason = self.module.refuses(op, inputs)
        if reason is not None:
            raise NotOffered(reason)

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        self._offered(op, inputs)
        with dispatch.engine(self.engine):
            return np.asarray(op(*inputs))

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        self._offered(op, inputs)
        with dispatch.engine(self.engine):
            return np.asarray(op.jvp(inputs, tangents)[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        self._offered(op, inputs)
        with dispatch.engine(self.engine):
            return tuple(op.vjp(inputs, cotangent))

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        duals = tuple(Dual(x, t) for x, t in zip(inputs, tangents, strict=True))
        self._offered(op, duals)
        with dispatch.engine(self.engine):
            return tuple(pulled.tangent for pulled in op.vjp(duals, cotangent))


def subjects() -> list[Any]:
    made = []
    for name in dispatch.ENGINES:
        if name in OTHER_ARRAYS:
            continue
        try:
            made.append(Engine(name))
        except ImportError:
            continue
    return made
