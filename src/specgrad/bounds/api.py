"""The methods of `bounds`: their arguments, the rows of `of`, and the shape of the result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import ArgumentError, refusal
from ..graph import Graph
from .affine import Affine, Box, unbounded
from .alpha import optimise
from .analysis import Analysis, Form
from .boxes import given_boxes, one_output, rows_of
from .results import Bounds, LinearForm
from .rewrite import rewritten
from .zonotope import Zonotopes

INNER = 3  # steps for the cells of inner relus
UNITS = {"real": 0.0, "float32": 2.0**-24, "float64": 2.0**-53}


@np.errstate(all="ignore")  # an overflow gives infinite bounds
def run(graph: Graph, box: Any, method: str, of: Any, covers: str) -> Bounds:
    """Bounds of the graph's output by a method."""
    one_output("bounds", graph)
    graph = rewritten(graph)
    (output,) = graph.outputs
    boxes = given_boxes("bounds", graph, box)
    shape = graph.nodes[output].shape
    cells = math.prod(shape)
    rows = None if of is None else rows_of("bounds", of, cells)
    if method == "zonotope":
        if covers != "real":
            rule, remedy = "is offered by crown, alpha and ibp", 'write method="crown"'
            raise refusal(ArgumentError, "bounds", "covers", covers, rule, remedy)
        return _of_zonotope(Zonotopes(graph, boxes), output, rows, shape)
    closer = (lambda found, place, rows: optimise(found, place, rows, INNER)) if method == "alpha" else None
    analysis = Analysis(graph, boxes, refine=method != "ibp", unit=UNITS[covers], closer=closer)
    if method == "ibp":
        reached = analysis.boxes[output] if rows is None else combined(rows, analysis.boxes[output])
        return Bounds(*reached)
    matrix = np.eye(cells) if rows is None else rows
    find = optimise if method == "alpha" else Analysis.lower
    both = find(analysis, output, np.concatenate([matrix, -matrix]))
    shape = shape if rows is None else (len(rows),)
    low, high = both.lower[: len(matrix)], -both.lower[len(matrix) :]
    reached = Box(low, high).reshaped(shape)
    if rows is None:
        reached = reached.within(analysis.boxes[output])
    halves = slice(len(matrix)), slice(len(matrix), None)
    return Bounds(*reached, *(_form(graph, both, half, sign) for half, sign in zip(halves, (1, -1), strict=True)))


def combined(rows: Any, box: Box) -> Box:
    """rows·y for y in a box."""
    return Affine({0: sparse.csr_array(rows)}, np.zeros(len(rows))).image([box]).known


def _form(graph: Graph, form: Form, half: slice, sign: int) -> LinearForm:
    """Some rows of a form as arrays of the inputs' shapes; sign -1 turns a form below -y into a
    form above y."""
    found, constant = [], form.constant[half]
    for node in graph.inputs:
        rows = form.rows.get(node.index)
        dense = np.zeros((constant.size, math.prod(node.shape)))
        if rows is not None:
            dense = (rows.toarray() if sparse.issparse(rows) else np.asarray(rows))[half]
        found.append(sign * dense.reshape(constant.size, *node.shape))
    return LinearForm(tuple(found), sign * constant)


def _of_zonotope(found: Zonotopes, output: int, rows: Any, shape: tuple[int, ...]) -> Bounds:
    if found.is_unbounded:
        return Bounds(*unbounded(shape if rows is None else (len(rows),)))
    if rows is None:
        return Bounds(*found.boxes[output])
    form = Affine({0: sparse.csr_array(rows)}, np.zeros(len(rows)))
    nothing = found.of_ends(np.zeros(len(rows)), np.zeros(len(rows)))
    value = found.mapped(form, [found.values[output]], [found.boxes[output]], nothing)
    return Bounds(*value.box((len(rows),)).known.within(combined(rows, found.boxes[output])))
