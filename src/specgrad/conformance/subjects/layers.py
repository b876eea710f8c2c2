"""Our own layers over the engines: tape, graph and compiled program. The PyTorch front end is in
`torch_layer`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import autograd, dispatch
from ...graph import Graph as Recorded
from ...graph import transform
from ..expected import is_half
from ..subject import NotOffered

Array = np.ndarray[Any, Any]


class Tape:
    """Values and gradients by a tape."""

    name = "specgrad tape"

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        tape = autograd.Tape()
        return np.asarray(op(*(tape.leaf(x) for x in inputs)).value)

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        return np.asarray(autograd.jvp(lambda *xs: op(*xs), inputs, tangents)[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        tape = autograd.Tape()
        leaves = [tape.leaf(x) for x in inputs]
        swept = tape.backward(op(*leaves), cotangent)
        return tuple(swept.get(leaf, np.zeros_like(x)) for leaf, x in zip(leaves, inputs, strict=True))

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        def pulled(*xs: Any) -> Any:
            return tuple(autograd.vjp(lambda *ys: op(*ys), *xs)[1](cotangent))

        return tuple(np.asarray(moved) for moved in autograd.jvp(pulled, inputs, tangents)[1])


class Graph:
    """Values and derivatives by a graph."""

    name = "specgrad graph"

    def _graph(self, op: Any, inputs: tuple[Array, ...]) -> Any:
        graph = Recorded()
        made = [graph.input(f"x{i}", x.shape) for i, x in enumerate(inputs)]
        graph.output(op(*made))
        return graph

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        return np.asarray(self._graph(op, inputs).forward(*inputs))

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        result = self._graph(op, inputs).jvp(inputs, tangents)
        return np.asarray(result[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        pulled = self._graph(op, inputs).vjp(inputs, cotangent)
        return tuple(pulled if isinstance(pulled, tuple) else (pulled,))

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        if "exp" in op.needs and is_half(inputs[0].dtype):
            raise NotOffered("one rounding of half floats: the second derivative is several nodes, and each rounds")
        made = transform.jvp(transform.vjp(self._graph(op, inputs)))
        given = (*inputs, cotangent, *tangents, np.zeros_like(cotangent))
        return self._run(op, inputs, made, given)[len(inputs) :]

    def _run(self, op: Any, inputs: tuple[Array, ...], graph: Any, given: tuple[Array, ...]) -> tuple[Array, ...]:
        """The outputs of a graph derived from an operator's graph."""
        results = graph.forward(*given)
        return results if isinstance(results, tuple) else (results,)


class Program(Graph):
    """Values and derivatives by compiled programs of the operator's graph and of its derivative
    graphs."""

    name = "specgrad program"

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        return np.asarray(self._run(op, inputs, self._graph(op, inputs), inputs)[0])

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        made = transform.jvp(self._graph(op, inputs))
        return np.asarray(self._run(op, inputs, made, (*inputs, *tangents))[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        return self._run(op, inputs, transform.vjp(self._graph(op, inputs)), (*inputs, cotangent))

    def _run(self, op: Any, inputs: tuple[Array, ...], graph: Any, given: tuple[Array, ...]) -> tuple[Array, ...]:
        engines = [name for name in dispatch.ENGINES if dispatch.load(name).refuses(op, inputs) is None]
        if not engines:
            raise NotOffered("no engine takes this")
        results = graph.compile(inputs[0].dtype, engine=engines[0])(*given)
        return results if isinstance(results, tuple) else (results,)


def subjects() -> list[Any]:
    return [Tape(), Graph(), Program()]
