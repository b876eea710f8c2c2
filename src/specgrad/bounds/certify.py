"""`certify`: a property of a network for all inputs of a box, proved or refuted, as a
certificate."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import specgrad as sg

from .. import onnx
from ..arithmetic import is_number
from ..errors import ArgumentError, ModelError, ShapeError, SpecgradError, refusal
from ..graph import Graph
from .api import UNITS
from .boxes import given_boxes, one_output, rows_of
from .certificate import Certificate, Problem, onnx_of
from .exact import objects
from .rewrite import rewritten
from .search import Claim, Progress, Row, Search
from .vnnlib import Alternative, Property, bytes_of


def margins(graph: Graph, box: Any, of: Any, covers: str, timeout: float, progress: Progress | None) -> Certificate:
    """A certificate that every row of `of` times the output is greater than 0."""
    place = one_output("certify", graph)
    rows = rows_of("certify", of, math.prod(graph.nodes[place].shape))
    given_boxes("certify", graph, box)  # refuses anything but a box
    ends = [tuple(exactly(end) for end in (side if isinstance(side, tuple) else (side,))) for side in box]
    claims = [[Row([Fraction(n) for n in row], Fraction(0))] for row in rows.tolist()]
    return solve(model_of(graph), covers, [(*ends, claims)], timeout, progress)


def of_property(
    model: bytes | None, graph: Graph, wanted: Property, covers: str, timeout: float, progress: Progress | None
) -> Certificate:
    """A certificate that no input and output satisfy a VNN-LIB property. `model`: the graph's
    bytes, if they are a complete model."""
    place = one_output("certify", graph)
    counts = [math.prod(node.shape) for node in graph.inputs], math.prod(graph.nodes[place].shape)
    if len(counts[0]) != 1 or (counts[0][0], counts[1]) != (wanted.inputs, wanted.outputs):
        sizes = " + ".join(map(str, counts[0]))
        rule = (
            f"is about {wanted.inputs} input numbers and {wanted.outputs} output numbers, "
            f"but the model has {sizes} input numbers and {counts[1]} output numbers"
        )
        raise refusal(ShapeError, "certify", "property", "VNN-LIB", rule, "give the model that it was written for")
    shape, mixed = graph.inputs[0].shape, any(reads_inputs(a) for a in wanted.alternatives)
    if mixed:
        graph = with_inputs(graph)
    if mixed or model is None:
        model = model_of(graph)
    problems: dict[Any, list[Claim]] = {}
    for alternative in wanted.alternatives:
        claims = problems.setdefault((alternative.lower, alternative.upper), [])
        claims.append(claim_of(alternative, wanted.inputs if mixed else 0, wanted.outputs))
    boxes = [
        ((objects(list(lower), shape),), (objects(list(upper), shape),), claims)
        for (lower, upper), claims in problems.items()
    ]
    return solve(model, covers, boxes, timeout, progress)


def model_bytes(path: Path) -> bytes:
    """The bytes of a model's file."""
    try:
        return bytes_of(path)
    except (OSError, EOFError, zlib.error) as error:
        raise refusal(ModelError, "onnx.load", "file", str(path), f"cannot be read: {error}", "give a model") from None


def read_model(path: Path, data: bytes, inputs: int) -> tuple[bytes | None, Graph]:
    """The graph of a model for a property of `inputs` inputs, and its bytes if they are a complete
    model.

    An open length of the model's input is set so that the model has this number of inputs.
    """
    shapes = open_shapes(data, inputs)
    # a path also reads weights in other files
    graph = onnx.load(data if path.suffix == ".gz" else path, shapes=shapes)
    try:
        onnx.load(data)
    except SpecgradError:
        return None, graph
    return data, graph


def open_shapes(model: bytes, inputs: int) -> dict[str, tuple[int, ...]]:
    """The shape of a model's only input, if it has one open length."""
    from ..onnx.reader import read

    proto = read(model)[0].graph
    stored = {tensor.name for tensor in proto.initializer}
    given = [value for value in proto.input if value.name not in stored]
    if len(given) != 1:
        return {}
    lengths = [dim.dim_value if dim.HasField("dim_value") else None for dim in given[0].type.tensor_type.shape.dim]
    rest = math.prod(n for n in lengths if n is not None)
    if lengths.count(None) != 1 or rest < 1 or inputs % rest:
        return {}
    return {given[0].name: tuple(inputs // rest if n is None else n for n in lengths)}


def reads_inputs(alternative: Alternative) -> bool:
    return any(kind == "X" for constraint in alternative.constraints for kind, _ in constraint.coefficients)


def with_inputs(graph: Graph) -> Graph:
    """The graph with its flat input concatenated before its output."""

    def both(x: Any) -> Any:
        return sg.concatenate([sg.reshape(x, (-1,)), sg.reshape(graph.forward(x), (-1,))])

    return sg.trace(both, graph.inputs[0].shape)


def claim_of(alternative: Alternative, before: int, outputs: int) -> Claim:
    """The negation of an alternative: a counterexample satisfies all constraints Σ c·v ≤ b, so at
    least one of them must be exceeded, or reached if it is strict."""
    claim = []
    for constraint in alternative.constraints:
        row = [Fraction(0)] * (before + outputs)
        for (kind, place), c in constraint.coefficients.items():
            row[place + (before if kind == "Y" else 0)] += c
        scale = math.lcm(*(c.denominator for c in row))
        claim.append(Row([c * scale for c in row], constraint.bound * scale, constraint.strict))
    return claim or [
        Row([Fraction(0)] * (before + outputs), Fraction(0))
    ]  # no constraint: every input is a counterexample


@np.errstate(all="ignore")  # where numbers overflow, nothing is bounded
def solve(model: bytes, covers: str, boxes: Sequence[Any], timeout: float, progress: Progress | None) -> Certificate:
    """Search box after box, until one is violated or the time is over."""
    source = onnx_of(model)
    graph = rewritten(source)
    deadline, problems = time.monotonic() + timeout, []
    for lower, upper, claims in boxes:
        search = Search(source, graph, list(zip(lower, upper, strict=True)), claims, UNITS[covers])
        outer = given_boxes("certify", graph, (tuple(lower), tuple(upper)))
        answer = search.run(outer, deadline, progress)
        x = None if answer.x is None else tuple(answer.x)
        problems.append(Problem(tuple(lower), tuple(upper), tuple(claims), answer.step, x, answer.broken))
        if x is not None:
            break
    return Certificate(model, covers, tuple(problems))


def exactly(array: Any) -> Any:
    """Numbers as exact Fractions."""
    made = np.asarray(array)
    return objects([Fraction(n) for n in made.reshape(-1).tolist()], made.shape)


def model_of(graph: Graph) -> bytes:
    """A graph as an ONNX model in float64; refused if float64 cannot represent all of its
    numbers."""
    for node in graph.nodes:
        held = [value for value in vars(node.op).values() if isinstance(value, Fraction | float)] if node.op else []
        if is_number(node.constant):
            held.append(node.constant)
        elif node.constant is not None and np.asarray(node.constant).dtype not in (np.float16, np.float32, np.float64):
            held += np.ravel(node.constant).tolist()
        if any(math.isfinite(n) and Fraction(n) != Fraction(float(n)) for n in held):
            rule, remedy = "holds a number that no float64 is", "write its numbers as floats"
            raise refusal(ArgumentError, "certify", "node", node.name, rule, remedy)
    data: bytes = graph.to_onnx(np.float64).SerializeToString()
    return data
