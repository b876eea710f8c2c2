"""ONNX models as graphs, ``specgrad.onnx.load("model.onnx")``, and graphs as models,
``graph.to_onnx()``. Needs the package `onnx`, which is imported when first used.

A loaded model is a graph: it runs over floats, exact rationals, enclosures and z3 terms, has
derivatives, and can be printed and compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ModelError, refusal
from ..graph import Graph

__all__ = ["load", "load_parameters"]


def load(
    source: Any, *, shapes: Mapping[str, Sequence[int]] | None = None, constants: Mapping[str, Any] | None = None
) -> Graph:
    """The graph of a model: a path, bytes, or a ModelProto. Its weights are constants of the graph.

    `shapes` gives inputs their shapes if the model leaves lengths open. `constants` gives inputs a
    fixed value, such as a shape that the model takes as an input. An unsupported operator raises an
    error with its name and its place in the model.
    """
    graph: Graph = _model(source, shapes, constants, False).build()
    return graph


def load_parameters(
    source: Any, *, shapes: Mapping[str, Sequence[int]] | None = None, constants: Mapping[str, Any] | None = None
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model with its float weights as inputs, after the model's own, and the weights
    by their names in that order."""
    model = _model(source, shapes, constants, True)
    graph = model.build()
    return graph, dict(model.parameters)


def _model(source: Any, shapes: Any, constants: Any, as_inputs: bool) -> Any:
    try:
        from .importer import Model
    except ModuleNotFoundError as missing:
        raise ImportError(f"specgrad.onnx needs {missing.name}: pip install 'specgrad[onnx]'") from missing
    for argument, given in (("shapes", shapes), ("constants", constants)):
        if not (given is None or isinstance(given, Mapping)):
            rule, remedy = f"must be a mapping from names of inputs, got {type(given).__name__}", "write {name: …}"
            raise refusal(ModelError, "onnx.load", argument, given, rule, remedy)
    return Model(source, shapes or {}, constants or {}, as_inputs)
