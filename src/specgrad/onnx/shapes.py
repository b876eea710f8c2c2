"""Operators that move cells, and those that compute shapes while the model is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import specgrad as sg

from .node import Node
from .reader import FLOATS, TYPES, dtype, type_name


def constant(node: Node) -> Any:
    given = [name for name in node.schema.attributes if node.attribute(name) is not None]
    if len(given) != 1 or given[0] in ("sparse_value", "value_string", "value_strings"):
        rule = "must be one array or number"
        raise node.refused("attributes", ", ".join(given), rule, "write `value`, or `value_float` and its like")
    value = node.attribute(given[0])
    if given[0] == "value":
        return value
    return np.array(value, np.float32 if "float" in given[0] else np.int64)


def shape(node: Node) -> Any:
    lengths = np.array(node.shape(0), np.int64)
    return lengths[slice(node.attribute("start") or 0, node.attribute("end"))]


def size(node: Node) -> Any:
    return np.array(math.prod(node.shape(0)), np.int64)


def identity(node: Node) -> Any:
    return node.value(0)


def dropout(node: Node) -> Any:
    """The identity; a mask is not computed, and training is refused."""
    node.attribute("seed"), node.attribute("ratio")
    if node.has(2) and bool(np.any(node.known(2))):
        raise node.refused(
            "training_mode", True, "drops cells at random", "export the model for inference: model.eval()"
        )
    return node.value(0)


def cast(node: Node) -> Any:
    """Known arrays are converted. A value of the graph has no type of its own: it may be widened, which changes no number."""
    node.attribute("saturate"), node.attribute("round_mode")
    return converted(node, node.attribute("to"))


def cast_like(node: Node) -> Any:
    """A cast to the type of the second operand; that of a value of the graph is known where all inputs have one type."""
    node.attribute("saturate"), node.attribute("round_mode")
    if node.is_known(1):
        return converted(node, next((t for t in TYPES if dtype(t) == node.known(1).dtype), 0))
    if node.model.widths != {node.model.widest}:
        rule, remedy = "is of several float types in this model", "export the model in one float type"
        raise node.refused("input 1", node.var(1), rule, remedy)
    return converted(node, {2: 10, 4: 1, 8: 11}[node.model.widest])


def converted(node: Node, target: int) -> Any:
    if target not in TYPES:
        raise node.refused("to", type_name(target), "is not a type that is read", "use floats, integers or bools")
    if node.is_known(0):
        with np.errstate(all="ignore"):
            return node.known(0).astype(dtype(target))
    if TYPES[target][0] not in FLOATS or dtype(target).itemsize < node.model.widest:
        rule = "would round a value of the graph, which has no type of its own"
        raise node.refused("to", type_name(target), rule, "export the model in one float type")
    node.model.widest = dtype(target).itemsize
    return node.var(0)


def reshape(node: Node) -> Any:
    x = node.var(0)
    wanted = node.integers(1, "shape") or ()
    if not node.attribute("allowzero"):
        if any(n == 0 and axis >= len(x.shape) for axis, n in enumerate(wanted)):
            rule = f"copies an axis that x of shape {x.shape} does not have"
            raise node.refused("shape", wanted, rule, "write its length")
        wanted = tuple(x.shape[axis] if n == 0 else n for axis, n in enumerate(wanted))
    return sg.reshape(x, wanted)


def flatten(node: Node) -> Any:
    x = node.var(0)
    axis = node.axis(len(x.shape), beyond=1)
    return sg.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(node: Node) -> Any:
    x = node.var(0)
    given = node.integers(1, "axes")
    axes = tuple(a for a, n in enumerate(x.shape) if n == 1) if given is None else node.axes(given, len(x.shape))
    if any(x.shape[a] != 1 for a in axes):
        raise node.refused("axes", axes, f"x has shape {x.shape}: only axes of one cell can go", "name these")
    return sg.reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes))


def unsqueeze(node: Node) -> Any:
    x = node.var(0)
    given = node.integers(1, "axes") or ()
    rank = len(x.shape) + len(given)
    axes, rest = node.axes(given, rank), iter(x.shape)
    return sg.reshape(x, tuple(1 if a in axes else next(rest) for a in range(rank)))


TABLE: dict[str, Callable[[Node], Any]] = {
    "Cast": cast,
    "CastLike": cast_like,
    "Constant": constant,
    "Dropout": dropout,
    "Flatten": flatten,
    "Identity": identity,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
}
