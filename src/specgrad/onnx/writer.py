"""A model while it is written: its nodes and constants, and the few operators that all others are
written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ..arithmetic import is_number
from ..errors import ArgumentError, ModelError, SpecgradError, refusal
from ..geometry import Shape
from ..graph import Graph
from ..graph.ir import Node
from ..operator import Operator

OPSET = 20
KINDS = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


class Value:
    """A tensor of the model: its name and shape."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape


def float_type(dtype: Any) -> np.dtype[Any]:
    """One of ONNX's float types that NumPy has too."""
    try:
        name = "" if dtype is None else np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in KINDS:
        raise refusal(
            ArgumentError, "to_onnx", "dtype", str(dtype), "is not a float type", "choose from " + ", ".join(KINDS)
        )
    made: np.dtype[Any] = np.dtype(name)
    return made


class Export:
    """A model while it is written."""

    def __init__(self, graph: Graph, dtype: Any) -> None:
        graph.validate()
        self.graph, self.dtype = graph, float_type(dtype)
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {}
        self.taken = {node.name for node in graph.nodes}

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def array(self, value: Any, kind: Any = None) -> Value:
        """A constant of the model, in its dtype unless it holds integers."""
        array = np.asarray(value)
        name = self.fresh(f"array_{len(self.stored)}")
        self.stored[name] = numpy_helper.from_array(array.astype(self.dtype if kind is None else kind), name)
        return Value(name, array.shape)

    def __call__(
        self, operator: str, *operands: Value | None, shape: Shape, name: str = "", **attributes: Any
    ) -> Value:
        """A node of the model."""
        name = name or self.fresh(f"{operator}_{len(self.nodes)}")
        names = ["" if operand is None else operand.name for operand in operands]
        self.nodes.append(helper.make_node(operator, names, [name], name, **attributes))
        return Value(name, tuple(shape))

    def reshape(self, x: Value, shape: Shape) -> Value:
        if x.shape == tuple(shape):
            return x
        return self("Reshape", x, self.array(np.array(shape, np.int64), np.int64), shape=shape, allowzero=1)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        if [*order] == [*range(len(x.shape))]:
            return x
        return self("Transpose", x, shape=tuple(x.shape[p] for p in order), perm=[*order])

    def gather(self, x: Value, indices: Any, axis: int) -> Value:
        table = np.asarray(indices, np.int64)
        shape = (*x.shape[:axis], *table.shape, *x.shape[axis + 1 :])
        return self("Gather", x, self.array(table, np.int64), shape=shape, axis=axis)

    def reduce(self, operator: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        shape = tuple(1 if p in axes else n for p, n in enumerate(x.shape) if keep or p not in axes)
        names = self.array(np.array(axes, np.int64), np.int64)
        return self(operator, x, names, shape=shape, keepdims=int(keep), noop_with_empty_axes=1)

    def model(self, writers: Mapping[type[Operator], Callable[..., Value]]) -> Any:
        """The whole model, with one writer (to, op, shape, *operands) per operator."""
        values: list[Value] = []
        indices = self.graph.integers
        for node in self.graph.nodes:
            if node.is_input:
                values.append(Value(node.name, node.shape))
            elif node.op is None:
                values.append(self._constant(node, node.index in indices))
            else:
                writer = writers.get(type(node.op))
                values.append(self._named(node, self._operator(node, writer, [values[p] for p in node.operands])))
        outputs: list[Any] = []
        for place in self.graph.outputs:
            result = values[place]
            if self.graph.nodes[place].op is None or result.name in {output.name for output in outputs}:
                result = self("Identity", result, shape=result.shape)
            outputs.append(helper.make_tensor_value_info(result.name, KINDS[self.dtype.name], result.shape))
        inputs = [
            helper.make_tensor_value_info(
                node.name, TensorProto.INT64 if node.index in indices else KINDS[self.dtype.name], node.shape
            )
            for node in self.graph.inputs
        ]
        graph = helper.make_graph(self.nodes, "specgrad", inputs, outputs, list(self.stored.values()))
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="specgrad")

    def _constant(self, node: Node, integer: bool) -> Value:
        held = node.constant
        full = np.full(node.shape, float(held)) if is_number(held) else held
        try:
            return self.array(full, np.int64 if integer else None)
        except (TypeError, ValueError, OverflowError):
            rule, remedy = f"is no array of {self.dtype.name}", "use floats, integers or Fractions as constants"
            raise refusal(ModelError, "to_onnx", "constant", node.name, rule, remedy) from None

    def _named(self, node: Node, made: Value) -> Value:
        """A node's value under the node's name."""
        if not self.nodes or self.nodes[-1].output[0] != made.name:
            return self("Identity", made, shape=node.shape, name=node.name)
        self.nodes[-1].name = self.nodes[-1].output[0] = node.name
        return Value(node.name, node.shape)

    def _operator(self, node: Node, writer: Callable[..., Value] | None, operands: list[Value]) -> Value:
        if writer is None:
            rule = "is not written in ONNX"
            remedy = "export the function itself" if node.op.derived else "leave it to the code around the model"
            raise refused(node.op, rule, remedy)
        try:
            return self.reshape(writer(self, node.op, node.shape, *operands), node.shape)
        except SpecgradError as error:
            raise type(error)(f"node {node.name}: {error}") from None


def refused(op: Operator, rule: str, remedy: str) -> SpecgradError:
    return refusal(ModelError, "to_onnx", "operator", repr(op), rule, remedy)
