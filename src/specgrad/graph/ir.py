"""The nodes of a graph: inputs, constants, operators and outputs, each value assigned once; shapes
are checked when a node is added.

A graph has shapes and no scalar: the same graph runs over floats, Fractions, Duals and the Vars of
a tape. It knows operators only by what all of them offer. A constant takes on the scalar of the
inputs: a number (the seed of a gradient, a zero), and an array of floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .. import arguments, dispatch, tree
from ..arithmetic import is_number, settled
from ..derive import ShapeOnly
from ..errors import ArgumentError, ShapeError, SpecgradError, refusal, shape_words
from ..levels import Level, Var
from ..operator import Operator, shape_of
from ..scalars import as_indices, as_operand

Shape = tuple[int, ...]


class GraphVar(Var):
    """A value of a graph: `shape` and `name`; its numbers exist when the graph runs."""

    __slots__ = ("index",)

    def __init__(self, graph: GraphBase, node: Node) -> None:
        super().__init__(graph, node.name, node.shape)
        self.index = node.index

    def filled(self, number: Any, shape: Shape) -> Any:
        return self.level.constant(number, shape)

    def indicator(self, mask: Any) -> Any:
        return self.level.constant(mask)

    def __repr__(self) -> str:
        return f"Var({self.name!r}, shape={self.shape})"


@dataclass(frozen=True, eq=False)
class Node:
    """One value: an input (neither operator nor constant), a constant (an array, or a number that
    fills the shape), or an operator's."""

    index: int
    name: str
    shape: Shape
    op: Any = None
    operands: tuple[int, ...] = ()
    constant: Any = None
    differentiable: bool = False

    @property
    def is_input(self) -> bool:
        return self.op is None and self.constant is None


class GraphBase(Level):
    """What a graph is made of: its nodes, how they are added, printed, checked and run one by
    one."""

    called = "graph"

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.outputs: list[int] = []
        self._names: set[str] = set()
        self._holds: dict[int, bool] = {}  # whether an operand is read as integers or as numbers

    @property
    def inputs(self) -> list[Node]:
        """The inputs, in the order in which they were made and are given."""
        return [node for node in self.nodes if node.is_input]

    def input(self, name: str, shape: Sequence[int], differentiable: bool = True) -> GraphVar:
        """A value that is given when the graph runs; differentiable=False for labels and other data
        without derivative."""
        if not isinstance(name, str) or not name or unused(self, name) != name:
            rule, remedy = "is not a name of its own", "give every input another name, in letters"
            raise refusal(ArgumentError, "input", "name", name, rule, remedy)
        lengths = self._lengths("input", shape)
        return self._add(name, lengths, differentiable=arguments.flag("input", "differentiable", differentiable))

    def constant(self, value: Any, shape: Sequence[int] = (), *, name: str | None = None) -> GraphVar:
        """An array that is part of the graph, or a number that fills `shape` in the scalar of the
        inputs."""
        name = unused(self, name or f"constant_{len(self.nodes)}")
        lengths = self._lengths("constant", shape)
        if is_number(value):
            return self._add(name, lengths, constant=value)
        if dispatch.is_var(value):
            rule, remedy = "a graph's constants are arrays, known before it runs", "make it an input of the graph"
            raise refusal(ArgumentError, "constant", "value", value, rule, remedy)
        array = as_operand("constant", "value", value)
        if lengths not in ((), tuple(array.shape)):
            rule, remedy = "an array has a shape of its own", "leave it out, or give a number"
            raise refusal(ArgumentError, "constant", "shape", shape, rule, remedy)
        if isinstance(array, np.ndarray) and (array.flags.writeable or array.base is not None):
            array = array.copy()  # what is done to its memory later is not part of the graph
            array.flags.writeable = False
        return self._add(name, tuple(array.shape), constant=array)

    @staticmethod
    def _lengths(name: str, shape: Any) -> Shape:
        lengths = arguments.shape(name, "shape", shape)
        if -1 in lengths:
            raise refusal(ArgumentError, name, "shape", shape, "has an open length", "write every length")
        return lengths

    def copy(self) -> Self:
        """Another graph of the same values, whose outputs and nodes are added to apart."""
        other = type(self)()
        other.nodes, other.outputs = [*self.nodes], [*self.outputs]
        other._names, other._holds = {*self._names}, {**self._holds}
        return other

    def output(self, *values: Any) -> GraphBase:
        """Add outputs, in order."""
        indices = [self._index("output", "value", value) for value in values]
        self.outputs.extend(indices)
        return self

    def record(self, op: Operator, operands: tuple[Any, ...], name: str | None = None) -> GraphVar:
        before = len(self.nodes)
        try:
            indices = tuple(self._index(op.name, s.name, o) for s, o in zip(op.slots, operands, strict=False))
            shape = self._checked(op, indices)
        except SpecgradError as error:
            self._names.difference_update(node.name for node in self.nodes[before:])
            del self.nodes[before:]
            raise type(error)(f"node {op.name}_{before}: {error}") from None
        self._holds.update((index, slot.integer) for slot, index in zip(op.slots, indices, strict=False))
        return self._add(unused(self, name or f"{op.name}_{len(self.nodes)}"), shape, op=op, operands=indices)

    def _index(self, name: str, argument: str, value: Any) -> int:
        if not dispatch.is_var(value):
            return int(self.constant(value).index)
        self.admit(name, argument, value)
        return int(value.index if value.level is self else self.constant(value).index)

    def _add(self, name: str, shape: Shape, **how: Any) -> GraphVar:
        node = Node(len(self.nodes), name, shape, **how)
        self._names.add(name)
        self.nodes.append(node)
        return GraphVar(self, node)

    def _checked(self, op: Operator, indices: Sequence[int]) -> Shape:
        """The shape of an operator's value, once all operands fit their slots."""
        for slot, index in zip(op.slots, indices, strict=False):
            node = self.nodes[index]
            if slot.integer:
                if node.op is not None or node.differentiable:
                    rule = "must be integers: an input with differentiable=False, or an integer array"
                    remedy = f"make it graph.input({node.name!r}, {node.shape}, differentiable=False)"
                    raise refusal(ArgumentError, op.name, slot.name, shape_words(node.shape), rule, remedy)
                if node.constant is not None:
                    as_indices(op.name, slot.name, node.constant)
            if self._holds.get(index, slot.integer) is not slot.integer:
                rule, remedy = f"{node.name} is used both as integers and as numbers", "make two inputs of it"
                raise refusal(ArgumentError, op.name, slot.name, shape_words(node.shape), rule, remedy)
        shape = op.output_shape(*(self.nodes[index].shape for index in indices))
        nodes = [self.nodes[index] for index in indices]
        labels = [n.constant if s.integer else ShapeOnly(n.shape) for s, n in zip(op.slots, nodes, strict=False)]
        if all(known is not None for known in labels):
            op.check(labels)
        return shape

    @property
    def integers(self) -> set[int]:
        """The places that hold integers such as labels, whatever the scalar of the graph."""
        return {index for index, integer in self._holds.items() if integer}

    def validate(self) -> None:
        """Refuse a graph that is not legal: an operand that comes later, a shape that is not the
        operator's, no output."""
        names = set()
        for index, node in enumerate(self.nodes):
            rule = ""
            if node.index != index or node.name in names:
                rule = "does not have its own name and index"
            elif any(not 0 <= operand < index for operand in node.operands):
                rule = "reads a value that is not there before it"
            elif node.op is not None and node.shape != self._checked(node.op, node.operands):
                rule = f"has shape {node.shape} but its operator gives {self._checked(node.op, node.operands)}"
            if rule:
                raise refusal(
                    ArgumentError, "graph", "node", node.name, rule, "build it with the functions of specgrad"
                )
            names.add(node.name)
        if not self.outputs:
            raise refusal(ArgumentError, "graph", "outputs", 0, "a graph needs an output", "name it: graph.output(y)")
        for index in self.outputs:
            if not 0 <= index < len(self.nodes):
                raise refusal(ArgumentError, "graph", "output", index, "is not a node", "give a Var of this graph")

    def __repr__(self) -> str:
        names = [", ".join(node.name for node in part) for part in (self.inputs, [self.nodes[p] for p in self.outputs])]
        return f"<Graph of {len(self.nodes)} values: ({names[0]}) to ({names[1]})>"

    def __str__(self) -> str:
        lines = []
        for node in self.nodes:
            if node.is_input:
                kind = "differentiable" if node.differentiable else ""
                lines.append(f"{node.name} = input({kind}): {node.shape}")
            elif node.op is None:
                array = f"array({getattr(node.constant, 'dtype', type(node.constant).__name__)})"
                shown = node.constant if is_number(node.constant) else array
                lines.append(f"{node.name} = {shown}: {node.shape}")
            else:
                operands = ", ".join(self.nodes[index].name for index in node.operands)
                lines.append(f"{node.name} = {node.op!r}({operands}): {node.shape}")
        return "\n".join([*lines, "return " + ", ".join(self.nodes[index].name for index in self.outputs)])


def unused(graph: GraphBase, name: str) -> str:
    """This name, or the next that no node of the graph has."""
    while name in graph._names:
        name += "_"
    return name


def given_inputs(name: str, what: str, wanted: Sequence[Node], integers: set[int], xs: Sequence[Any]) -> list[Any]:
    """One array or Var per wanted node, refused unless it has the node's shape; those of a dict by
    their keys."""
    flat = [leaf for _, leaf in tree.leaves(tuple(xs))]
    if len(flat) != len(wanted):
        rule = f"{len(wanted)} are needed: " + ", ".join(node.name for node in wanted)
        raise refusal(ShapeError, name, f"{what}s", len(flat), rule, "give one array for each (a list is a nest)")
    found, rest = [], iter(wanted)
    flat = [leaf for x in xs for leaf in _in_order(name, what, rest, x)]
    for node, value in zip(wanted, flat, strict=True):
        argument = f"{what} {node.name}"
        if shape_of(name, argument, value) != node.shape:
            rule, remedy = f"must have shape {node.shape}", "reshape or broadcast it first"
            raise refusal(ShapeError, name, argument, value, rule, remedy)
        convert = as_indices if node.index in integers else as_operand
        found.append(value if dispatch.is_var(value) else convert(name, argument, value))
    return found


def _in_order(name: str, what: str, rest: Iterator[Node], given: Any) -> list[Any]:
    """The leaves of one argument in the order of the next nodes. Keys may come in any order, where
    the nodes were traced and are named by paths."""
    leaves = dict(tree.leaves(given))
    nodes = list(itertools.islice(rest, len(leaves)))
    if not tree.has_keys(given) or not all("[" in node.name for node in nodes):
        return list(leaves.values())
    paths = ["".join(node.name.partition("[")[1:]) for node in nodes]
    for node, path in zip(nodes, paths, strict=True):
        if path not in leaves:
            rule, remedy = "is not in the nest under its name", "give a nest with the keys that were traced, or arrays"
            raise refusal(ShapeError, name, f"{what} {node.name}", given, rule, remedy)
    return [leaves[path] for path in paths]


def example_of(inputs: Sequence[Node], integers: set[int], given: Sequence[Any]) -> Any:
    """An input in whose scalar constants are: one that is differentiated, if there is any."""
    numbers = [(node, x) for node, x in zip(inputs, given, strict=True) if node.index not in integers]
    numbers.sort(key=lambda one: not one[0].differentiable)
    return numbers[0][1] if numbers else np.zeros(())


def interpret(graph: GraphBase, given: Sequence[Any]) -> list[Any]:
    """The outputs, by running one operator after another on whatever the inputs are."""
    values: list[Any] = []
    rest, integers = iter(given), graph.integers
    example = example_of(graph.inputs, integers, given)
    for node in graph.nodes:
        if node.is_input:
            values.append(next(rest))
        elif node.op is None:
            values.append(settled(example, node.constant, node.shape))
        else:
            values.append(dispatch.forward(node.op, tuple(values[index] for index in node.operands)))
    return [values[index] for index in graph.outputs]
