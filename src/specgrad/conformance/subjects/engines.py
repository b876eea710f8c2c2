"""Our own engines: each engine of `dispatch.ENGINES` that takes NumPy arrays, forced, on operators
that it runs. Tensors are in `torch_layer`, dask arrays in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dispatch
from ...scalars.dual import Dual
from ..subject import NotOffered
from . import OTHER_ARRAYS

Array = np.ndarray[Any, Any]


class Engine:
    """One engine; calls that the engine refuses are not offered."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.name = f"specgrad {engine}"
        self.module = dispatch.load(engine)

    def _run(self, op: Any, inputs: tuple[Any, ...], call: Callable[[], Any]) -> Any:
        op.output_shape(*(x.shape for x in inputs))
        reason = self.module.refuses(op, inputs)
        if reason is not None:
            raise NotOffered(reason)
        with dispatch.engine(self.engine):
            return call()

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Any:
        return self._run(op, inputs, lambda: op(*inputs))

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Any:
        return self._run(op, inputs, lambda: op.jvp(inputs, tangents)[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> Any:
        return self._run(op, inputs, lambda: op.vjp(inputs, cotangent))

    def second(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array) -> Any:
        duals = tuple(Dual(x, t) for x, t in zip(inputs, tangents, strict=True))
        return self._run(op, duals, lambda: tuple(pulled.tangent for pulled in op.vjp(duals, cotangent)))


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
