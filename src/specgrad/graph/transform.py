"""Graphs from graphs: the derivative in either mode, and the clean-up that follows.

A derivative is built by applying operators to Vars of the new graph, by the same rules by which a
tape is differentiated again: there is no second set of rules. Zeros are never built; an operator
without a rule raises.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .. import dispatch
from ..arithmetic import is_number, total
from ..errors import ShapeError, refusal
from .ir import GraphBase, GraphVar, Node, unused

G = TypeVar("G", bound=GraphBase)


def jvp(graph: G) -> G:
    """(xs, dxs) -> (ys, dys), with one tangent per differentiable input.

    >>> import specgrad as sg
    >>> print(jvp(sg.trace(lambda x: sg.scale(sg.relu(x), 2), (3,))))
    x = input(differentiable): (3,)
    d_x = input(differentiable): (3,)
    relu_2 = Relu()(x): (3,)
    jvp(relu)_3 = JVPOf(Relu(), shapes=(None,), along=((True,),))(x, d_x): (3,)
    scale_4 = Scale(2)(relu_2): (3,)
    scale_5 = Scale(2)(jvp(relu)_3): (3,)
    return scale_4, scale_5
    """
    graph.validate()
    made = type(graph)()
    values = _inputs(made, graph)
    tangents: dict[int, Any] = {
        node.index: made.input(unused(made, f"d_{node.name}"), node.shape)
        for node in graph.inputs
        if node.differentiable
    }
    for node in graph.nodes:
        _copy(made, node, values)
        if node.op is not None:
            operands = tuple(values[index] for index in node.operands)
            moved = tuple(tangents.get(index) for index in node.operands)
            tangents[node.index] = dispatch.push(node.op, operands, None, moved)
    made.output(*(values[index] for index in graph.outputs))
    for index in graph.outputs:
        moved_output = tangents.get(index)
        made.output(made.constant(0, graph.nodes[index].shape) if moved_output is None else moved_output)
    return simplified(made)


def vjp(graph: G) -> G:
    """(xs, gys) -> gxs, with one cotangent per output and per differentiable input."""
    graph.validate()
    made = type(graph)()
    values = _inputs(made, graph)
    seeds = [
        made.input(unused(made, f"g_{graph.nodes[index].name}"), graph.nodes[index].shape) for index in graph.outputs
    ]
    for node in graph.nodes:
        _copy(made, node, values)
    made.output(*_swept(made, graph, values, seeds))
    return simplified(made)


def value_and_grad(graph: G) -> G:
    """xs -> (y, gxs) for a graph with one output of one cell."""
    graph.validate()
    shapes = [graph.nodes[index].shape for index in graph.outputs]
    if len(shapes) != 1 or any(length != 1 for length in shapes[0]):
        rule, remedy = "a gradient needs one output of one cell", "sum or average the outputs, or use vjp"
        raise refusal(ShapeError, "value_and_grad", "outputs", shapes, rule, remedy)
    made = type(graph)()
    values = _inputs(made, graph)
    for node in graph.nodes:
        _copy(made, node, values)
    seed = made.constant(1, shapes[0])
    made.output(values[graph.outputs[0]], *_swept(made, graph, values, [seed]))
    return simplified(made)


def _swept(made: GraphBase, graph: GraphBase, values: dict[int, GraphVar], seeds: list[GraphVar]) -> list[Any]:
    """The cotangents of all differentiable inputs, as Vars of the graph being made."""
    follows: set[int] = set()
    for node in graph.nodes:
        slots = node.op.slots if node.op is not None else ()
        if node.differentiable or any(
            slot.differentiable and index in follows for slot, index in zip(slots, node.operands, strict=False)
        ):
            follows.add(node.index)
    found: dict[int, Any] = {}
    for index, seed in zip(graph.outputs, seeds, strict=True):
        found[index] = total(found.get(index), seed)
    for node in reversed(graph.nodes):
        arriving = found.get(node.index)
        if arriving is None or node.op is None or node.index not in follows:
            continue
        operands = tuple(values[index] for index in node.operands)
        wanted = [index in follows for index in node.operands]
        pulled = dispatch.pull(node.op, operands, None, arriving, wanted)
        for index, part in zip(node.operands, pulled, strict=True):
            found[index] = total(found.get(index), part)
    return [
        made.constant(0, node.shape) if found.get(node.index) is None else found[node.index]
        for node in graph.inputs
        if node.differentiable
    ]


def simplified(graph: G) -> G:
    """The same outputs of the same inputs, without nodes that none of them needs and with every
    value computed once."""
    needed = set(graph.outputs) | {node.index for node in graph.inputs}
    for node in reversed(graph.nodes):
        if node.index in needed:
            needed.update(node.operands)
    made = type(graph)()
    values: dict[int, GraphVar] = {}
    known: dict[Any, GraphVar] = {}
    for node in graph.nodes:
        if node.index not in needed:
            continue
        key = _meaning(node, values)
        if key not in known:
            known[key] = _copy(made, node, values)
        values[node.index] = known[key]
    made.output(*(values[index] for index in graph.outputs))
    return made


def lowered(graph: G) -> G:
    """The same graph with formulas in the place of derivatives that have one, for scalars that are
    not rounded in between."""
    made = type(graph)()
    values = _inputs(made, graph)
    for node in graph.nodes:
        formula = NotImplemented
        if node.op is not None and node.op.derived and not node.op.is_first:
            formula = node.op.formula([values[index] for index in node.operands])
        if formula is NotImplemented:
            _copy(made, node, values)
        else:
            values[node.index] = formula
    made.output(*(values[index] for index in graph.outputs))
    return made


def _meaning(node: Node, values: dict[int, GraphVar]) -> Any:
    """Nodes with equal meanings have equal values."""
    if node.is_input:
        return node.name
    if node.op is not None:
        return node.op, repr(node.op), tuple(values[index].index for index in node.operands)
    if is_number(node.constant):
        return type(node.constant), repr(node.constant), node.shape
    if isinstance(node.constant, np.ndarray) and node.constant.dtype != object:
        return str(node.constant.dtype), node.shape, node.constant.tobytes()
    return "constant", id(node.constant)


def _inputs(made: GraphBase, graph: GraphBase) -> dict[int, GraphVar]:
    return {node.index: made.input(node.name, node.shape, node.differentiable) for node in graph.inputs}


def _copy(made: GraphBase, node: Node, values: dict[int, GraphVar]) -> GraphVar:
    """A node of another graph in the graph being made, unless it is there."""
    if node.index not in values:
        if node.op is not None:
            values[node.index] = made.record(node.op, tuple(values[index] for index in node.operands))
        elif node.is_input:
            values[node.index] = made.input(node.name, node.shape, node.differentiable)
        else:
            values[node.index] = made.constant(node.constant, node.shape)
    return values[node.index]
