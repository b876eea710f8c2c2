"""Our own layers over the engines: tape, graph, compiled program and the PyTorch front end, each where it is there."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ... import dispatch
from ..subject import NotOffered

Array = np.ndarray[Any, Any]


class Tape:
    """Values and gradients as a tape records and sweeps them."""

    name = "specgrad tape"

    def __init__(self) -> None:
        self.layer: Any = importlib.import_module("specgrad.autograd")

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        tape = self.layer.Tape()
        return np.asarray(op(*(tape.leaf(x) for x in inputs)).value)

    def jvp(self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...]) -> Array:
        return np.asarray(self.layer.jvp(lambda *xs: op(*xs), inputs, tangents)[1])

    def vjp(self, op: Any, inputs: tuple[Array, ...], cotangent: Array) -> tuple[Array, ...]:
        tape = self.layer.Tape()
        leaves = [tape.leaf(x) for x in inputs]
        swept = tape.backward(op(*leaves), cotangent)
        return tuple(swept.get(leaf, np.zeros_like(x)) for leaf, x in zip(leaves, inputs, strict=True))

    def second(
        self, op: Any, inputs: tuple[Array, ...], tangents: tuple[Array, ...], cotangent: Array
    ) -> tuple[Array, ...]:
        def pulled(*xs: Any) -> Any:
            return tuple(self.layer.vjp(lambda *ys: op(*ys), *xs)[1](cotangent))

        return tuple(np.asarray(moved) for moved in self.layer.jvp(pulled, inputs, tangents)[1])


class Graph:
    """Values and derivatives as a graph runs them."""

    name = "specgrad graph"

    def __init__(self) -> None:
        self.layer: Any = importlib.import_module("specgrad.graph")

    def _graph(self, op: Any, inputs: tuple[Array, ...]) -> Any:
        graph = self.layer.Graph()
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


class Program(Graph):
    """Values as a compiled program gives them."""

    name = "specgrad program"

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        graph = self._graph(op, inputs)
        engines = [name for name in dispatch.ENGINES if dispatch.load(name).refuses(op, inputs) is None]
        if not engines:
            raise NotOffered("no engine takes this")
        return np.asarray(graph.compile(inputs[0].dtype, engine=engines[0])(*inputs))

    jvp = vjp = None  # type: ignore[assignment]


def torch_layers() -> list[Any]:
    """The PyTorch front end, on the CPU and on CUDA where there is one; its derivatives are PyTorch's, of our registrations."""
    importlib.import_module("specgrad.torch")
    functional: Any = importlib.import_module(f"{__package__}.torch_functional")

    class TorchLayer(functional.TorchFunctional):  # type: ignore[misc]
        """specgrad's operators on torch tensors."""

        conventions = ("padding is multiplied",)  # by aten, whose convolution it is

        def __init__(self, device: str) -> None:
            super().__init__(device)
            self.name = f"specgrad torch {device}"

        def apply(self, op: Any, *tensors: Any) -> Any:
            return op(*tensors)

    available = functional.torch.cuda.is_available()
    return [TorchLayer(device) for device in (("cpu", "cuda") if available else ("cpu",))]


def subjects() -> list[Any]:
    made: list[Any] = []
    for make in (lambda: [Tape()], lambda: [Graph()], lambda: [Program()], torch_layers):
        try:
            made.extend(make())
        except ImportError:
            continue
    return made
