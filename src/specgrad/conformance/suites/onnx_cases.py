"""ONNX's own node tests for pooling and convolution, and the models that PyTorch once exported for
it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ... import dispatch
from ...errors import SpecgradError
from ...ops import AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, MaxPool
from . import NotExpressible, Told, agreement

Array = np.ndarray[Any, Any]

VERSION = f"onnx {onnx.__version__}"

MODULES = (
    "maxpool",
    "averagepool",
    "conv",
    "convtranspose",
    "globalmaxpool",
    "globalaveragepool",
    "maxunpool",
    "lppool",
)
EXPORTED = ("pytorch-converted", "pytorch-operator")


def cases() -> Iterator[Told]:
    for name, model, given, expected in collected():
        try:
            wrong = difference(model.graph.node, given, expected)
            loosely = wrong is not None and printed(model.graph.node, given, expected)
            yield Told(name, None if loosely else wrong, loosely=loosely)
        except NotExpressible as reason:
            yield Told(name, not_expressible=str(reason))


def collected() -> Iterator[tuple[str, Any, dict[str, Array], list[Array]]]:
    """Name, model, inputs by name and expected outputs of every case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in MODULES:
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
        tests: Any = importlib.import_module("onnx.backend.test.case.node")._NodeTestCases
        loader: Any = importlib.import_module("onnx.backend.test.loader")
    kinds = {
        "MaxPool",
        "AveragePool",
        "Conv",
        "ConvTranspose",
        "GlobalMaxPool",
        "GlobalAveragePool",
        "MaxUnpool",
        "LpPool",
    }
    for case in tests:
        if case.model is not None and case.model.graph.node[0].op_type in kinds and len(case.model.graph.node) == 1:
            inputs, outputs = case.data_sets[0]
            names = [entry.name for entry in case.model.graph.input]
            yield (
                case.name,
                case.model,
                dict(zip(names, map(np.asarray, inputs), strict=False)),
                [np.asarray(o) for o in outputs],
            )
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


def difference(nodes: Any, given: dict[str, Array], expected: list[Array]) -> str | None:
    """Run the one node of a model by specgrad."""
    if len(nodes) != 1:
        raise NotExpressible("models of several nodes")
    (node,) = nodes
    operands = tuple(given[name] for name in node.input if name)
    words = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    try:
        op = operator(node.op_type, words, operands)
    except SpecgradError as error:
        return f"refused: {error}"
    wrong = agreement(op, operands, expected[0])
    if wrong is None and len(expected) > 1:
        _, indices = dispatch.with_indices(op, operands)
        wrong = None if np.array_equal(whole(indices, operands[0], words), expected[1]) else "indices differ"
    return wrong


def printed(nodes: Any, given: dict[str, Array], expected: list[Array]) -> bool:
    """Whether the expected output holds no more than four digits and agrees to them: some of ONNX's
    answers are typed in."""
    operands = tuple(given[name] for name in nodes[0].input if name)
    words = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
    wanted = expected[0].astype(np.float64)
    typed = np.abs(wanted - wanted.round(4)) <= 1e-6 * np.abs(wanted)
    ours = np.asarray(operator(nodes[0].op_type, words, operands)(*operands), float)
    return ours.shape == wanted.shape and bool(typed.all() and (np.abs(ours - wanted) <= 1e-4).all())


def whole(indices: Array, x: Array, words: dict[str, Any]) -> Array:
    """Indices in the plane as ONNX has them: in the flat tensor; storage_order 1 counts columns
    first."""
    rank = indices.ndim - 2
    sizes = x.shape[2:]
    if words.get("storage_order", 0):
        places = np.unravel_index(indices, sizes)
        indices = np.asarray(sum(p * int(np.prod(sizes[:i])) for i, p in enumerate(places)))
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *(1,) * rank)
    return np.asarray(indices + planes * int(np.prod(sizes)))


def operator(kind: str, words: dict[str, Any], operands: tuple[Array, ...]) -> Any:
    """The operator that an ONNX node states."""
    sizes = operands[0].shape[2:]
    rank = len(sizes)
    if kind == "GlobalMaxPool":
        return GlobalMaxPool(rank)
    if kind == "GlobalAveragePool":
        return GlobalAvgPool(rank)
    if kind in ("MaxUnpool", "LpPool"):
        raise NotExpressible(kind)
    kernel = tuple(words.get("kernel_shape", operands[1].shape[2:] if len(operands) > 1 else ()))
    common: dict[str, Any] = {
        "stride": tuple(words.get("strides", (1,) * rank)),
        "dilation": tuple(words.get("dilations", (1,) * rank)),
    }
    if kind == "ConvTranspose":
        return _transposed(words, sizes, kernel, common)
    padding = _padding(words, sizes, kernel, common)
    if kind == "Conv":
        return Conv(kernel, **common, padding=padding, groups=words.get("group", 1))
    common["ceil_mode"] = bool(words.get("ceil_mode", 0))
    if kind == "MaxPool":
        return MaxPool(kernel, **common, padding=padding)
    return AvgPool(kernel, **common, padding=padding, count_include_pad=bool(words.get("count_include_pad", 0)))


def _padding(words: dict[str, Any], sizes: tuple[int, ...], kernel: tuple[int, ...], common: dict[str, Any]) -> Any:
    auto = words.get("auto_pad", b"NOTSET").decode()
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pairs = []
        for n, k, s, d in zip(sizes, kernel, common["stride"], common["dilation"], strict=True):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            small = total // 2
            pairs.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
        return tuple(pairs)
    given = words.get("pads", [0] * (2 * len(sizes)))
    return tuple(zip(given[: len(sizes)], given[len(sizes) :], strict=True))


def _transposed(words: dict[str, Any], sizes: tuple[int, ...], kernel: tuple[int, ...], common: dict[str, Any]) -> Any:
    extra = tuple(words.get("output_padding", (0,) * len(sizes)))
    auto = words.get("auto_pad", b"NOTSET").decode()
    shape = words.get("output_shape")
    if auto.startswith("SAME") and shape is None:
        shape = [n * s for n, s in zip(sizes, common["stride"], strict=True)]
    given = words.get("pads", [0] * (2 * len(sizes)))
    padding = list(zip(given[: len(sizes)], given[len(sizes) :], strict=True))
    if shape is not None:
        lengths = [
            (n - 1) * s + d * (k - 1) + 1 + e
            for n, k, s, d, e in zip(sizes, kernel, common["stride"], common["dilation"], extra, strict=True)
        ]
        # what is too long is cropped, what is too short is filled: with output_padding
        padding, filled = [], []
        for length, wanted, e in zip(lengths, shape, extra, strict=True):
            total = max(length - wanted, 0)
            small = total // 2
            padding.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
            filled.append(e + max(wanted - length, 0))
        extra = tuple(filled)
    return ConvTranspose(kernel, **common, padding=tuple(padding), output_padding=extra, groups=words.get("group", 1))
