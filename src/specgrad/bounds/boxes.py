"""Conversion of the argument `box` to float64 boxes that contain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..arguments import is_sequence
from ..errors import ArgumentError, ScalarError, ShapeError, refusal
from ..graph import Graph
from ..graph.ir import Node
from ..scalars import as_operand
from .affine import Box, Floats


def given_boxes(name: str, graph: Graph, box: Any) -> list[Box]:
    """One box per input of a graph, from a pair (lower, upper), each an array or a tuple with one
    array per input."""
    if not is_sequence(box) or len(box) != 2:
        raise refusal(ArgumentError, name, "box", box, "must be a pair", "write (lower, upper)")
    sides = [side if isinstance(side, tuple) else (side,) for side in box]
    if any(len(side) != len(graph.inputs) for side in sides):
        rule = f"the graph has {len(graph.inputs)} inputs"
        raise refusal(ShapeError, name, "box", box, rule, "give a tuple of arrays on either side, one per input")
    return [_box(name, node, *ends) for node, *ends in zip(graph.inputs, *sides, strict=True)]


def _box(name: str, node: Node, lower: Any, upper: Any) -> Box:
    made = Box(
        outward(name, f"lower {node.name}", lower, -math.inf), outward(name, f"upper {node.name}", upper, math.inf)
    )
    for argument, end in (("lower", made.lower), ("upper", made.upper)):
        if end.shape != node.shape:
            rule = f"must have shape {node.shape}"
            raise refusal(ShapeError, name, f"{argument} {node.name}", end, rule, "give one number per cell")
        if not np.isfinite(end).all():
            rule, remedy = "must be finite", "give a bounded box"
            raise refusal(ArgumentError, name, f"{argument} {node.name}", end, rule, remedy)
    if not (made.lower <= made.upper).all():
        place = tuple(int(i) for i in np.argwhere(made.lower > made.upper)[0])
        rule, remedy = f"lies below `lower` at {place}", "give lower ≤ upper in every cell"
        raise refusal(ArgumentError, name, f"upper {node.name}", made.upper, rule, remedy)
    return made


def outward(name: str, argument: str, value: Any, side: float) -> Floats:
    """An array of numbers as float64: exactly, or rounded towards `side`."""
    array = np.asarray(as_operand(name, argument, value))
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return array.astype(np.float64)
    try:
        near = array.astype(np.float64)
        exact = [Fraction(a) for a in array.reshape(-1).tolist()]
    except (TypeError, ValueError, OverflowError):
        rule, remedy = "must be real numbers", "give floats, integers or Fractions"
        raise refusal(ScalarError, name, argument, array, rule, remedy) from None
    flat = near.reshape(-1)
    for place, (number, held) in enumerate(zip(exact, flat.tolist(), strict=True)):
        if number != held and (held < number) == (side > 0):
            flat[place] = np.nextafter(held, side)
    return near


def rows_of(name: str, of: Any, cells: int) -> Floats:
    """The argument `of` as a matrix with one column per cell of the output."""
    matrix = np.asarray(as_operand(name, "of", of))
    if matrix.dtype.kind not in "fiu" or matrix.ndim < 1 or not matrix.size or math.prod(matrix.shape[1:]) != cells:
        rule = f"must be a matrix of numbers with {cells} columns, one per output cell"
        raise refusal(ShapeError, name, "of", matrix, rule, "write np.eye(n) for all outputs")
    matrix = matrix.reshape(len(matrix), cells).astype(np.float64)
    if not np.isfinite(matrix).all():
        raise refusal(ArgumentError, name, "of", matrix, "must be finite", "give finite numbers")
    return matrix


def one_output(name: str, graph: Graph) -> int:
    """The index of a graph's only output."""
    graph.validate()
    places: Sequence[int] = graph.outputs
    if len(places) != 1:
        rule, remedy = "one output is bounded at a time", "name one output"
        raise refusal(ArgumentError, name, "outputs", len(places), rule, remedy)
    return places[0]
