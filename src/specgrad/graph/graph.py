"""The graph that users make and are given: its nodes, with derivatives, programs and documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from .. import arguments, tree
from ..operator import Operator
from ..scalars.foreign import home
from . import document, transform
from .ir import GraphBase, given_inputs, interpret
from .program import Program


class Graph(GraphBase):
    """A static single-assignment program: create inputs, apply specgrad's functions, and declare
    the outputs.

    >>> import numpy as np, specgrad as sg
    >>> graph = Graph()
    >>> x = graph.input("x", (2, 4))
    >>> _ = graph.output(sg.sum(sg.relu(x) * 3))
    >>> print(graph)
    x = input(differentiable): (2, 4)
    relu_1 = Relu()(x): (2, 4)
    constant_2 = 3: ()
    mul_3 = Mul()(relu_1, constant_2): (2, 4)
    sum_4 = Sum()(mul_3): ()
    return sum_4
    >>> graph.forward(np.ones((2, 4)))
    array(24.)
    """

    def __call__(self, *xs: Any) -> Any:
        """The outputs for these inputs, as `forward`."""
        return self.forward(*xs)

    def to_json(self) -> str:
        """This graph with its constants as JSON for `Graph.from_json`; numbers are stored
        exactly."""
        return json.dumps(document.document(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, operators: Sequence[type[Operator]] = ()) -> Self:
        """Read a graph from JSON. No code is run; operators must be specgrad's or listed in
        `operators`."""
        return document.from_document(cls, document.read(text), operators)

    def to_dot(self) -> str:
        """A Graphviz (DOT) drawing of this graph."""
        return document.to_dot(self)

    def _repr_svg_(self) -> str:
        """This graph as notebooks draw it."""
        return document.to_svg(self)

    def forward(self, *xs: Any) -> Any:
        """The output for these inputs, or a tuple of several outputs. Inputs are arrays of any
        scalar type, Duals or Vars; nested containers are flattened."""
        self.validate()
        given = given_inputs("forward", "input", self.inputs, self.integers, xs)
        results = list(map(home(leaf for _, leaf in tree.leaves(xs)), interpret(self, given)))
        return results[0] if len(results) == 1 else tuple(results)

    def jvp(self, xs: Sequence[Any], dxs: Sequence[Any]) -> tuple[Any, Any]:
        """(y, dy): the outputs, and their tangents for one tangent per differentiable input."""
        self.validate()
        xs, dxs = (arguments.one_each("jvp", name, given) for name, given in (("inputs", xs), ("tangents", dxs)))
        given = given_inputs("jvp", "input", self.inputs, self.integers, xs)
        moved = given_inputs("jvp", "tangent", [node for node in self.inputs if node.differentiable], set(), dxs)
        both = list(map(home(leaf for _, leaf in tree.leaves(xs)), interpret(transform.jvp(self), [*given, *moved])))
        count = len(self.outputs)
        return (both[0], both[1]) if count == 1 else (tuple(both[:count]), tuple(both[count:]))

    def vjp(self, xs: Sequence[Any], gys: Any) -> tuple[Any, ...]:
        """One cotangent per differentiable input, for one cotangent per output."""
        self.validate()
        given = given_inputs("vjp", "input", self.inputs, self.integers, arguments.one_each("vjp", "inputs", xs))
        ends = [self.nodes[index] for index in self.outputs]
        arriving = given_inputs("vjp", "cotangent", ends, set(), gys if isinstance(gys, list | tuple) else (gys,))
        return tuple(
            map(home(leaf for _, leaf in tree.leaves(tuple(xs))), interpret(transform.vjp(self), [*given, *arriving]))
        )

    def compile(self, dtype: Any = np.float64, engine: str = "cpu") -> Program:
        """Compile this graph into a Program for one dtype, whose memory is planned once.

        `engine` is the preferred engine. Operators that it does not support run on the next engine
        of `list_engines()` that does, as in ordinary calls, with a SlowPathWarning if a large array
        runs on the reference engine. Within ``with engine(name):`` only that engine is used, and an
        unsupported operator raises an error. A program keeps its engines.
        """
        return Program(self, dtype, engine)

    def to_onnx(self, dtype: Any = np.float32) -> Any:
        """The ModelProto of this graph for one float type, opset 20: ``onnx.save(graph.to_onnx(),
        "model.onnx")``.

        Constants are rounded to the type. Needs the package `onnx`.
        """
        try:
            exporter = import_module("specgrad.onnx.exporter")  # a graph knows no format, but offers all
        except ModuleNotFoundError as missing:
            raise ImportError(f"to_onnx needs {missing.name}: pip install 'specgrad[onnx]'") from missing
        return exporter.model(self, dtype)
