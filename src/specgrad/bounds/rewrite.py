"""Rewriting of graphs to operators with relaxations: quotients, losses and leaky relus by simpler
operators that are equal over the reals."""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import is_number
from ..errors import ArgumentError, refusal
from ..graph import Graph
from ..graph.ir import GraphVar
from ..operator import Operator
from ..ops import (
    Add,
    Concatenate,
    CrossEntropy,
    Detach,
    Div,
    Exp,
    Larger,
    LogSoftmax,
    MaxPool,
    MaxUnpool,
    Mean,
    MinPool,
    MseLoss,
    Mul,
    Power,
    Relu,
    Reshape,
    Scale,
    Softmax,
    Sub,
    Sum,
    Take,
)

_rewritten: weakref.WeakKeyDictionary[Graph, tuple[int, Graph]] = weakref.WeakKeyDictionary()


def rewritten(graph: Graph) -> Graph:
    """The graph, with the same inputs and outputs, in operators with relaxations; cached."""
    known = _rewritten.get(graph)
    if known is not None and known[0] == len(graph.nodes) + len(graph.outputs):
        return known[1]
    made = Graph()
    values: list[GraphVar] = []
    for node in graph.nodes:
        if node.is_input:
            values.append(made.input(node.name, node.shape, node.differentiable))
        elif node.op is None:
            values.append(made.constant(node.constant, node.shape if is_number(node.constant) else ()))
        else:
            operands = tuple(values[p] for p in node.operands)
            rule = RULES.get(type(node.op))
            found = None if rule is None else rule(made, node.op, *operands)
            values.append(made.record(node.op, operands) if found is None else found)
    made.output(*(values[p] for p in graph.outputs))
    _rewritten[graph] = len(graph.nodes) + len(graph.outputs), made
    return made


def _constant(graph: Graph, var: GraphVar) -> Any:
    """The constant array or number of a value, or None."""
    return graph.nodes[var.index].constant


def _div(graph: Graph, op: Operator, x: GraphVar, y: GraphVar) -> Any:
    """x · y⁻¹; None, for no change, if y is an array of constants. A quotient by a number is a
    multiple."""
    known = _constant(graph, y)
    if is_number(known) and known:
        return Scale(1 / Fraction(known))(x) if y.shape == () else None
    return None if known is not None else Mul()(x, Power(-1)(y))


def _square(graph: Graph, op: Operator, x: GraphVar, y: GraphVar) -> Any:
    return Power(2)(x) if x.index == y.index else None


def _detach(graph: Graph, op: Operator, x: GraphVar) -> Any:
    return x


def _squares(graph: Graph, op: Operator, prediction: GraphVar, target: GraphVar) -> Any:
    return Mean()(Power(2)(Sub()(prediction, target)))


def _cross_entropy(graph: Graph, op: Operator, logits: GraphVar, labels: GraphVar) -> Any:
    known = _constant(graph, labels)
    if known is None:
        rule, remedy = "must be constants of the graph", "write them in the function, not as an argument"
        raise refusal(ArgumentError, "bounds", "integer_labels", labels, rule, remedy)
    chosen = np.eye(logits.shape[-1])[np.asarray(known)]
    return Scale(-1)(Mean()(Sum(axis=-1)(Mul()(LogSoftmax()(logits), graph.constant(chosen)))))


def _softmax(graph: Graph, op: Operator, x: GraphVar) -> Any:
    return Exp()(LogSoftmax()(x))


def _leaky(graph: Graph, op: Operator, x: GraphVar, y: GraphVar) -> Any:
    """max(x, a x) = a x + (1 - a) relu(x) for a number a from 0 to 1: one nonlinear operator of x
    instead of a maximum of two values."""
    for whole, part in ((x, y), (y, x)):
        node = graph.nodes[part.index]
        if type(node.op) is Scale and node.operands == (whole.index,) and 0 <= node.op.factor <= 1:
            return Add()(part, Scale(1 - Fraction(node.op.factor))(Relu()(whole)))
    return None


def _minima(graph: Graph, op: Any, x: GraphVar) -> Any:
    fields = {field.name: getattr(op, field.name) for field in dataclasses.fields(op)}
    return Scale(-1)(MaxPool(**fields)(Scale(-1)(x)))


def _unpool(graph: Graph, op: Any, y: GraphVar, indices: GraphVar) -> Any:
    """Unpooling as a selection of cells, or of a 0 appended after the last cell."""
    known = _constant(graph, indices)
    if known is None:
        rule, remedy = "must be constants of the graph", "write them in the function, not as an argument"
        raise refusal(ArgumentError, "bounds", "indices", indices, rule, remedy)
    cells = math.prod(y.shape)
    found = op(np.arange(1, cells + 1).reshape(y.shape), np.asarray(known)).reshape(-1) - 1
    behind = Concatenate(2)(Reshape(-1)(y), graph.constant(np.zeros(1)))  # type: ignore[arg-type]
    return Reshape(op.output_shape(y.shape, y.shape))(Take(np.where(found < 0, cells, found))(behind))


RULES: dict[type[Operator], Callable[..., Any]] = {
    MinPool: _minima,
    MaxUnpool: _unpool,
    Div: _div,
    Mul: _square,
    Detach: _detach,
    MseLoss: _squares,
    CrossEntropy: _cross_entropy,
    Larger: _leaky,
    Softmax: _softmax,
}
