"""Graphs and programs as documents: JSON that is read back without running code, and drawings as
DOT and SVG.

A document names operators by their classes; a reader takes the classes of specgrad, and those of
yours that it is given. Every node is built anew by the checks of a graph, and the bytes of an array
are counted before they are decoded. Numbers are kept exactly.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import html
import json
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from ..arithmetic import is_number
from ..derive import DERIVED
from ..errors import ArgumentError, ModelError, SpecgradError, refusal
from ..operator import Operator
from ..ops import OPERATORS
from .ir import GraphBase, GraphVar, Node

G = TypeVar("G", bound=GraphBase)

VERSION = 1
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def wrong(where: str, value: Any, rule: str, remedy: str = "write it with to_json") -> SpecgradError:
    return refusal(ModelError, "from_json", where, value, rule, remedy)


def document(graph: GraphBase) -> dict[str, Any]:
    """A graph as lists, dicts, words and numbers."""
    graph.validate()
    nodes = [_node(node) for node in graph.nodes]
    return {"format": "specgrad.graph", "version": VERSION, "nodes": nodes, "outputs": list(graph.outputs)}


def _node(node: Node) -> dict[str, Any]:
    about: dict[str, Any] = {"name": node.name, "shape": list(node.shape)}
    if node.is_input:
        return {**about, "differentiable": node.differentiable}
    if node.op is None:
        return {**about, "constant": _encoded(node.name, node.constant)}
    return {**about, "operator": _encoded(node.name, node.op), "operands": list(node.operands)}


def _encoded(where: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Fraction):
        return {"fraction": [value.numerator, value.denominator]}
    if isinstance(value, tuple | list):
        return [_encoded(where, part) for part in value]
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, Operator):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        parameters = {name: _encoded(where, getattr(value, name)) for name in names}
        return {"operator": type(value).__name__, "parameters": parameters}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"dtype": "object", "cells": [_encoded(where, cell) for cell in value.reshape(-1).tolist()]}
    if isinstance(value, np.ndarray) and value.dtype.name in DTYPES:
        cells = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
        return {"dtype": value.dtype.name, "bytes": base64.b64encode(cells.tobytes()).decode("ascii")}
    rule = f"node {where} holds a {type(value).__name__}, which no document holds"
    raise refusal(
        ArgumentError, "to_json", "value", value, rule, "use classes of operators with plain parameters, and arrays"
    )


def from_document(kind: type[G], found: Any, operators: Iterable[type[Operator]] = ()) -> G:
    """The graph that a document describes; ModelError names the place that is wrong."""
    taken: list[Any] = [*OPERATORS, *DERIVED, *operators]
    kinds = {one.__name__: one for one in taken}
    nodes, outputs = fields("document", found, "specgrad.graph", nodes=list, outputs=list)
    graph, made = kind(), list[GraphVar]()
    for index, about in enumerate(nodes):
        where = f"node {index}"
        try:
            made.append(_add(graph, made, where, about, kinds))
        except ModelError:
            raise
        except (
            SpecgradError,
            TypeError,
            ValueError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
        ) as error:
            raise wrong(where, about, f"is refused ({str(error)[:200]})", "mend the document") from None
    graph.output(*(made[_index("outputs", index, len(made))] for index in outputs))
    graph.validate()
    return graph


def fields(where: str, found: Any, form: str, **wanted: type) -> list[Any]:
    """Parts of a document of a known form and version."""
    if not isinstance(found, dict) or found.get("format") != form:
        raise wrong(where, found, f"is not a document of the form {form}")
    if found.get("version") != VERSION:
        rule = f"is of another version than {VERSION}, which is read here"
        raise wrong("version", found.get("version"), rule, "read it with the specgrad that wrote it")
    for name, kind in wanted.items():
        if not isinstance(found.get(name), kind):
            raise wrong(name, found.get(name), f"must be a {kind.__name__}")
    return [found[name] for name in wanted]


def _index(where: str, value: Any, count: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise wrong(where, value, f"is not one of the {count} nodes before it")
    return value


def _add(graph: GraphBase, made: Sequence[GraphVar], where: str, about: Any, kinds: dict[str, Any]) -> GraphVar:
    if (
        not isinstance(about, dict)
        or not isinstance(about.get("name"), str)
        or not isinstance(about.get("shape"), list)
    ):
        raise wrong(where, about, "must have a name and a shape")
    name, shape = about["name"], tuple(about["shape"])
    if "operator" in about:
        op = _decoded(where, about["operator"], kinds)
        if not isinstance(op, Operator) or not isinstance(about.get("operands"), list):
            raise wrong(where, about, "must have an operator and operands")
        operands = tuple(made[_index(f"operands of {where}", index, len(made))] for index in about["operands"])
        var = graph.record(op, op._given(operands), name=name)
    elif "constant" in about:
        constant = about["constant"]
        value = _array(where, constant, shape, kinds) if isinstance(constant, dict) and "dtype" in constant else None
        number = _decoded(where, constant, kinds) if value is None else None
        if value is None and not is_number(number):
            raise wrong(where, constant, "is not a number or an array")
        var = graph.constant(number if value is None else value, shape, name=name)
    else:
        var = graph.input(name, shape, about.get("differentiable", True))
    if var.shape != shape:
        raise wrong(where, list(shape), f"has the shape {var.shape}")
    return var


def _array(where: str, about: dict[str, Any], shape: tuple[int, ...], kinds: dict[str, Any]) -> Any:
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**40 for n in shape):
        raise wrong(where, list(shape), "is not the shape of an array")
    count, dtype = math.prod(shape), about["dtype"]
    if dtype == "object" and isinstance(about.get("cells"), list) and len(about["cells"]) == count:
        cells = np.empty(count, object)
        cells[:] = [_decoded(where, cell, kinds) for cell in about["cells"]]
        return cells.reshape(shape)
    if dtype not in DTYPES or not isinstance(about.get("bytes"), str):
        raise wrong(where, dtype, "is not an array of a known dtype")
    kind = np.dtype(dtype) if dtype != "bfloat16" else bfloat16()
    if len(about["bytes"]) != 4 * -(-count * kind.itemsize // 3):
        raise wrong(where, len(about["bytes"]), f"is not the length of {count} cells of {dtype} in base64")
    try:
        cells = np.frombuffer(base64.b64decode(about["bytes"], validate=True), kind.newbyteorder("<"))
    except (binascii.Error, ValueError):
        raise wrong(where, about["bytes"][:20], "is not base64") from None
    return cells.reshape(shape).astype(kind)


def bfloat16() -> Any:
    """The dtype, from the library that has it."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def _decoded(where: str, value: Any, kinds: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(where, part, kinds) for part in value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"} and value["float"] in ("inf", "-inf", "nan"):
        return float(value["float"])
    if value.keys() == {"fraction"}:
        return Fraction(*value["fraction"])
    if value.keys() == {"ellipsis"}:
        return Ellipsis
    if value.keys() != {"operator", "parameters"} or not isinstance(value["parameters"], dict):
        raise wrong(where, value, "is not a value of a document")
    kind = kinds.get(str(value["operator"]))
    if kind is None:
        remedy = "give its class: from_json(text, operators=[…])"
        raise wrong(where, value["operator"], "is not an operator that is known here", remedy)
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    if unknown := sorted(set(value["parameters"]) - known):
        raise wrong(where, unknown[0], f"is not a parameter of {kind.__name__}")
    return kind(**{name: _decoded(where, part, kinds) for name, part in value["parameters"].items()})


def read(text: Any) -> Any:
    """JSON as its lists, dicts, words and numbers."""

    def refused(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(text, parse_constant=refused)
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong("text", text if isinstance(text, str) else type(text).__name__, f"is not JSON ({error})") from None


def _label(graph: GraphBase, node: Node) -> tuple[str, str]:
    """The two lines of a node in a drawing."""
    if node.is_input:
        return node.name, f"input {node.shape}"
    if node.op is None:
        return node.name, f"{node.constant if is_number(node.constant) else node.constant.dtype} {node.shape}"
    words = repr(node.op)
    return words if len(words) <= 44 else words[:43] + "…", str(node.shape)


def to_dot(graph: GraphBase) -> str:
    """A graph in Graphviz's language."""

    def quoted(words: str) -> str:
        return words.replace("\\", "\\\\").replace('"', '\\"')

    lines = ["digraph {", "  node [shape=box, fontname=monospace];"]
    for node in graph.nodes:
        style = ', style=filled, fillcolor="#dfeaf7"' if node.is_input else ""
        style = ", penwidth=2" if node.index in graph.outputs else style
        first, second = map(quoted, _label(graph, node))
        lines.append(f'  n{node.index} [label="{first}\\n{second}"{style}];')
        lines += [f"  n{operand} -> n{node.index};" for operand in node.operands]
    return "\n".join([*lines, "}", ""])


WIDE, HIGH, GAP = 330, 40, 24


def to_svg(graph: GraphBase) -> str:
    """A graph drawn from top to bottom: every node one row below the lowest of its operands."""
    depth: list[int] = []
    for node in graph.nodes:
        depth.append(1 + max((depth[index] for index in node.operands), default=-1))
    rows: dict[int, list[int]] = {}
    for index, row in enumerate(depth):
        rows.setdefault(row, []).append(index)
    corner = {
        index: (GAP + number * (WIDE + GAP), GAP + row * (HIGH + GAP))
        for row in rows
        for number, index in enumerate(rows[row])
    }
    width, height = (max((c[axis] for c in corner.values()), default=0) + (WIDE, HIGH)[axis] + GAP for axis in (0, 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="monospace" font-size="12">'
    ]
    for node in graph.nodes:
        x, y = corner[node.index]
        for operand in node.operands:
            a, b = corner[operand]
            parts.append(f'<line x1="{a + WIDE / 2}" y1="{b + HIGH}" x2="{x + WIDE / 2}" y2="{y}" stroke="#888"/>')
    for node in graph.nodes:
        x, y = corner[node.index]
        fill = "#dfeaf7" if node.is_input else "#fff"
        stroke = 2 if node.index in graph.outputs else 1
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4" fill="{fill}" stroke="#333" '
            f'stroke-width="{stroke}"/>'
        )
        for line, words in enumerate(_label(graph, node)):
            parts.append(f'<text x="{x + 8}" y="{y + 16 + 16 * line}">{html.escape(words)}</text>')
    return "\n".join([*parts, "</svg>"])
