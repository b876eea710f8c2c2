"""A model as a graph: nodes are read in order, each as operators of specgrad applied to values of
the graph.

What follows from constants alone (shapes, axes, scales) is computed where an operator must know it
while the model is read, and stays in the graph elsewhere: weights are never rounded by reading
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import dispatch
from ..arguments import is_sequence
from ..arithmetic import is_number
from ..errors import SpecgradError
from ..graph import Graph
from ..graph.ir import GraphVar
from ..graph.transform import simplified
from ..scalars import as_operand
from . import table
from .node import Array, Node, Unknown
from .reader import FLOATS, MOST_AXES, TYPES, bad, dtype, read, tensor, type_name

OPSETS = range(7, 29)
MOST_KNOWN = 2**24  # cells of all that is computed while a model is read

Value = Array | GraphVar | Unknown


class Model:
    """A model while it is read: the graph so far, and what each name stands for."""

    def __init__(
        self, source: Any, shapes: Mapping[str, Any], constants: Mapping[str, Any], as_inputs: bool = False
    ) -> None:
        self.proto, self.folder = read(source)
        self.opset = self._opset()
        self.graph = Graph()
        self.values: dict[str, Value] = {}
        self.vars: dict[str, GraphVar] = {}
        self.as_inputs = as_inputs
        self.parameters: dict[str, Array] = {}
        self.widths: set[int] = set()
        """The bytes of the float types of the model's inputs."""
        self.widest = 0
        """The bytes of the widest float type that a value of the graph has in the model."""
        self._dependent: list[bool] = []
        self._evaluated: dict[int, Array] = {}
        self._cells = 0
        main = self.proto.graph
        self.stored = {proto.name for proto in main.initializer}
        if self.proto.functions or main.sparse_initializer:
            what = "functions" if self.proto.functions else "sparse_initializer"
            remedy = (
                "inline them: onnx.inliner.inline_local_functions(model)" if what == "functions" else "make it dense"
            )
            raise bad(what, len(getattr(self.proto, what) or main.sparse_initializer), "are not read", remedy)
        self._inputs(dict(shapes), dict(constants))

    def _opset(self) -> int:
        versions = sorted({entry.version for entry in self.proto.opset_import if entry.domain in ("", "ai.onnx")})
        if len(versions) != 1 or versions[0] not in OPSETS:
            rule = f"opsets {OPSETS[0]} to {OPSETS[-1]} are read"
            raise bad("opset", versions[0] if len(versions) == 1 else versions, rule, "export for one of these")
        return int(versions[0])

    def _inputs(self, shapes: dict[str, Any], constants: dict[str, Any]) -> None:
        main = self.proto.graph
        known = [proto.name for proto in main.input]
        for argument, given in (("shapes", shapes), ("constants", constants)):
            for name in given:
                if name not in known:
                    raise bad(argument, name, "is not an input of the model", "choose from " + ", ".join(known))
        dimensions: dict[str, int] = {}
        for proto in main.input:
            if proto.name in constants:
                self._set(proto.name, np.asarray(as_operand("onnx.load", "constants", constants[proto.name])))
            elif proto.name not in self.stored:
                shape = self._shape(proto, shapes.get(proto.name), dimensions)
                self.widths.add(dtype(proto.type.tensor_type.elem_type).itemsize)
                self.widest = max(self.widths)
                self._set(proto.name, self.graph.input(proto.name, shape))
        for proto in main.initializer:
            if proto.name not in constants:
                self._set(proto.name, tensor(proto, self.folder, "initializer"))

    @staticmethod
    def _shape(proto: Any, given: Any, dimensions: dict[str, int]) -> tuple[int, ...]:
        """The shape of an input: the model's, with its open lengths taken from the one that the
        caller gives."""
        kind = proto.type.tensor_type
        if not proto.type.HasField("tensor_type") or TYPES.get(kind.elem_type, ("",))[0] not in FLOATS:
            is_tensor = proto.type.HasField("tensor_type")
            rule = f"holds {type_name(kind.elem_type)}, not floats" if is_tensor else "is not a tensor"
            remedy = f"make it a constant: load(…, constants={{{proto.name!r}: array}})"
            raise bad("input", proto.name, rule, remedy)
        declared: list[Any] = [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim
        ]
        remedy = f"write load(…, shapes={{{proto.name!r}: (…)}})"
        if given is None and (not kind.HasField("shape") or any(not isinstance(n, int) for n in declared)):
            raise bad("input", proto.name, f"has the open shape {tuple(declared)}", remedy)
        if given is not None and (not is_sequence(given) or len(given) > MOST_AXES):
            raise bad("shapes", given, "is not a tuple of lengths", remedy)
        wanted = tuple(declared) if given is None else tuple(given)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in wanted) or len(wanted) > MOST_AXES:
            raise bad("input", proto.name, f"has the shape {wanted}, which is not one of lengths from 0 on", remedy)
        if not kind.HasField("shape"):
            return wanted
        for length, own in zip(wanted, declared, strict=False):
            fixed = dimensions.setdefault(own, length) if isinstance(own, str) else own
            if fixed not in (None, length):
                raise bad("shapes", wanted, f"the model has {tuple(declared)} for {proto.name!r}", "give what fits it")
        if len(wanted) != len(declared):
            raise bad("shapes", wanted, f"the model has {tuple(declared)} for {proto.name!r}", "give what fits it")
        return wanted

    def _set(self, name: str, value: Value) -> None:
        if name in self.values:
            raise bad("name", name, "is given to two values", "export the model again")
        self.values[name] = value

    def build(self) -> Graph:
        """Read all nodes; the graph with the model's outputs."""
        for number, proto in enumerate(self.proto.graph.node):
            node = Node(self, number, proto)
            for name, value in zip(proto.output, self._results(node), strict=False):
                if name:
                    self._set(name, value)
        for proto in self.proto.graph.output:
            if not isinstance(self.values.get(proto.name), np.ndarray | GraphVar):
                raise bad("output", proto.name, "is computed by no node", "export the model again")
            value = self.values[proto.name]
            self.graph.output(self._as_var(proto.name) if isinstance(value, np.ndarray) else value)
        return simplified(self.graph)

    def _results(self, node: Node) -> list[Value]:
        """The outputs of a node."""
        reader = table.TABLE.get(node.operator)
        if reader is None:
            raise node.refused(
                "operator", node.operator, "is not read by specgrad", "see docs/onnx.md for the ones that are"
            )
        try:
            made = reader(node)
            node.finish()
        except SpecgradError as error:
            text = str(error)
            raise error if text.startswith(node.where) else type(error)(f"{node.where}: {text}") from None
        results = list(made) if isinstance(made, tuple) else [made]
        missing = Unknown(f"is output {len(results)} or later of {node.operator}, which specgrad does not compute")
        return [*results, *[missing] * (len(node.proto.output) - len(results))]

    def value(self, name: str, node: Node) -> Array | GraphVar:
        """What a name stands for, once it is computed."""
        value = self.values.get(name)
        if value is None:
            raise node.refused("input", name, "is computed by no node before this one", "export the model again")
        if isinstance(value, Unknown):
            raise node.refused("input", name, value.reason, "export a model without it")
        return value

    def _as_var(self, name: str) -> GraphVar:
        """A known array as a value of the graph: a constant, or an input of its own where it is a
        parameter."""
        if name not in self.vars:
            array = self.values[name]
            assert isinstance(array, np.ndarray)
            if self.as_inputs and name in self.stored and array.dtype.name in FLOATS:
                self.parameters[name] = array
                self.vars[name] = self.graph.input(name, array.shape)
            else:
                self.vars[name] = self.graph.constant(array)
        return self.vars[name]

    def var(self, name: str, node: Node) -> GraphVar:
        value = self.value(name, node)
        if isinstance(value, GraphVar):
            return value
        if value.dtype == np.bool_:
            raise node.refused("input", name, "holds bools where numbers are needed", "cast it first")
        return self._as_var(name)

    def is_known(self, name: str, node: Node) -> bool:
        value = self.value(name, node)
        return not isinstance(value, GraphVar) or not self._depends(value.index)

    def known(self, name: str, node: Node) -> Array:
        value = self.value(name, node)
        if not isinstance(value, GraphVar):
            return value
        if self._depends(value.index):
            rule = "depends on the model's inputs, and must be known while the model is read"
            raise node.refused("input", name, rule, "export the model for inputs of one shape")
        self._evaluate(value.index, node)
        return self._evaluated[value.index]

    def spend(self, cells: int, node: Node) -> None:
        """Count cells that are computed while the model is read, which must not be many."""
        self._cells += cells
        if self._cells > MOST_KNOWN:
            rule = f"reading the model would compute {self._cells} cells, more than {MOST_KNOWN}"
            raise node.refused("operator", node.operator, rule, "give these as constants")

    def _depends(self, place: int) -> bool:
        """Whether a value depends on an input of the graph."""
        for node in self.graph.nodes[len(self._dependent) : place + 1]:
            self._dependent.append(node.is_input or any(self._dependent[p] for p in node.operands))
        return self._dependent[place]

    def _evaluate(self, place: int, node: Node) -> None:
        """Compute what a value follows from, once, within the cells that reading a model may
        take."""
        nodes, wanted, waiting = self.graph.nodes, set(), [place]
        while waiting:
            at = waiting.pop()
            if at not in self._evaluated and at not in wanted:
                wanted.add(at)
                waiting.extend(nodes[at].operands)
        computed = (at for at in wanted if not isinstance(nodes[at].constant, np.ndarray))
        self.spend(sum(math.prod(nodes[at].shape) for at in computed), node)
        for at in sorted(wanted):
            made = nodes[at]
            if made.op is None:
                fill = is_number(made.constant)
                self._evaluated[at] = np.full(made.shape, made.constant) if fill else np.asarray(made.constant)
                continue
            arrays = [self._evaluated[p] for p in made.operands]
            numbers = [is_number(nodes[p].constant) for p in made.operands]
            kind = next((a.dtype for a, number in zip(arrays, numbers, strict=True) if not number), arrays[0].dtype)
            operands = [a.astype(kind) if number else a for a, number in zip(arrays, numbers, strict=True)]
            self._evaluated[at] = np.asarray(dispatch.forward(made.op, tuple(operands)))
