"""ONNX's node tests for pooling and convolution, and ONNX's models exported from PyTorch, read by
`specgrad.onnx`."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ... import dispatch
from ... import onnx as reader
from . import LOOSELY, Judge, NotExpressible, agreement

Array = np.ndarray[Any, Any]

VERSION = f"onnx {onnx.__version__}"

KINDS = (
    *("MaxPool", "AveragePool", "Conv", "ConvTranspose"),
    *("GlobalMaxPool", "GlobalAveragePool", "MaxUnpool", "LpPool"),
)
EXPORTED = ("pytorch-converted", "pytorch-operator")
OPSET = 7
"""The first opset that is read. Later versions of these operators only added attributes."""


def cases() -> Iterator[tuple[str, Judge]]:
    for name, *case in collected():
        yield name, functools.partial(difference, *case)


def difference(model: Any, given: dict[str, Array], expected: list[Array]) -> str | None:
    op, operands = stated(model, given)
    wrong = agreement(op, operands, expected[0])
    if wrong is None and len(expected) > 1:
        indices = whole(dispatch.with_indices(op, operands)[1], operands[0], model.graph.node[0])
        wrong = None if np.array_equal(indices, expected[1]) else "indices differ"
    return LOOSELY if wrong and printed(op, operands, expected[0]) else wrong


def collected() -> Iterator[tuple[str, Any, dict[str, Array], list[Array]]]:
    """Name, model, inputs by name and expected outputs of every case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            importlib.import_module(f"onnx.backend.test.case.node.{kind.lower()}")
        tests: Any = importlib.import_module("onnx.backend.test.case.node")._NodeTestCases
        loader: Any = importlib.import_module("onnx.backend.test.loader")
    for case in tests:
        if case.model is not None and case.model.graph.node[0].op_type in KINDS and len(case.model.graph.node) == 1:
            inputs, outputs = case.data_sets[0]
            names = [entry.name for entry in case.model.graph.input]
            given = dict(zip(names, map(np.asarray, inputs), strict=False))
            yield case.name, case.model, given, [np.asarray(o) for o in outputs]
    for kind in EXPORTED:
        for case in loader.load_model_tests(kind=kind):
            if any(word in case.name.lower() for word in ("pool", "conv")):
                yield (case.name, *_stored(Path(case.model_dir)))


def _stored(folder: Path) -> tuple[Any, dict[str, Array], list[Array]]:
    model = onnx.load(str(folder / "model.onnx"))
    data = folder / "test_data_set_0"
    known = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    names = [entry.name for entry in model.graph.input if entry.name not in known]
    inputs = [_tensor(data / f"input_{i}.pb") for i in range(len(names))]
    outputs = [_tensor(data / f"output_{i}.pb") for i in range(len(model.graph.output))]
    return model, {**known, **dict(zip(names, inputs, strict=True))}, outputs


def _tensor(path: Path) -> Array:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return np.asarray(numpy_helper.to_array(tensor))


def stated(model: Any, given: dict[str, Array]) -> tuple[Any, tuple[Array, ...]]:
    """The operator of a model with one node, and its operands."""
    if len(model.graph.node) != 1:
        raise NotExpressible("models of several nodes")
    (node,) = model.graph.node
    if node.op_type == "MaxUnpool":
        raise NotExpressible(node.op_type)
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    del alone.graph.output[1:]  # the indices of a maximum are compared separately
    alone.opset_import[0].version = max(model.opset_import[0].version, OPSET)
    known = {entry.name: given[entry.name] for entry in model.graph.input if given[entry.name].dtype.kind != "f"}
    (op,) = [made.op for made in reader.load(alone, constants=known).nodes if made.op is not None]
    return op, tuple(given[name] for name in node.input if name)


def printed(op: Any, operands: tuple[Array, ...], expected: Array) -> bool:
    """Whether the expected output has at most four digits and agrees to them: some of ONNX's
    answers are typed in."""
    wanted = expected.astype(np.float64)
    typed = np.abs(wanted - wanted.round(4)) <= 1e-6 * np.abs(wanted)
    ours = np.asarray(op(*operands), float)
    return ours.shape == wanted.shape and bool(typed.all() and (np.abs(ours - wanted) <= 1e-4).all())


def whole(indices: Array, x: Array, node: Any) -> Array:
    """Indices in the plane as ONNX gives them: in the flat tensor; column-major for storage_order
    1."""
    rank = indices.ndim - 2
    sizes = x.shape[2:]
    if any(a.name == "storage_order" and a.i for a in node.attribute):
        places = np.unravel_index(indices, sizes)
        indices = np.asarray(sum(p * int(np.prod(sizes[:i])) for i, p in enumerate(places)))
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *(1,) * rank)
    return np.asarray(indices + planes * int(np.prod(sizes)))
