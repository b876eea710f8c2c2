"""ONNX operators as models of one node, run by ONNX Runtime and by onnx.reference: forward only."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ...ops import AvgPool, Conv, ConvTranspose, GlobalAvgPool, GlobalMaxPool, Linear, MaxPool
from ..subject import NotOffered
from .shapes import fed, is_a, only, pairs, sizes_of

Array = np.ndarray[Any, Any]

OPSET = 22


def node_of(op: Any, inputs: tuple[Array, ...]) -> tuple[str, dict[str, Any]]:
    """The ONNX operator and its attributes, for inputs whose spatial axes are last."""
    rank = op.spatial_rank()
    only(rank >= 1 or is_a(op, Linear), "rank 0")
    if is_a(op, Linear):
        only(inputs[0].ndim == 2, "Gemm of other than two axes")
        return "Gemm", {"transB": 1}
    if is_a(op, GlobalMaxPool | GlobalAvgPool):
        return ("GlobalMaxPool" if is_a(op, GlobalMaxPool) else "GlobalAveragePool"), {}
    only(is_a(op, MaxPool | AvgPool | Conv | ConvTranspose), op.name)
    around = pairs(op, sizes_of(op, inputs[0]))
    words: dict[str, Any] = {
        "kernel_shape": op.kernel_size,
        "strides": op.stride,
        "pads": [before for before, _ in around] + [after for _, after in around],
        "dilations": op.dilation,
    }
    if is_a(op, Conv | ConvTranspose):
        words["group"] = op.groups
        if is_a(op, ConvTranspose):
            words["output_padding"] = op.output_padding
        return ("Conv" if is_a(op, Conv) else "ConvTranspose"), words
    words["ceil_mode"] = int(op.ceil_mode)
    if is_a(op, MaxPool):
        return "MaxPool", words
    only(op.divisor_override is None, "divisor_override")
    return "AveragePool", {**words, "count_include_pad": int(op.count_include_pad)}


@functools.lru_cache(maxsize=512)
def model_of(kind: str, attributes: tuple[tuple[str, Any], ...], types: tuple[tuple[str, tuple[int, ...]], ...]) -> Any:
    """A model of one node over inputs of these dtypes and shapes."""
    names = [f"x{i}" for i in range(len(types))]
    node = helper.make_node(
        kind, names, ["y"], **{name: list(v) if isinstance(v, tuple) else v for name, v in attributes}
    )
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in zip(names, types, strict=True)
    ]
    out = helper.make_tensor_value_info(
        "y", helper.np_dtype_to_tensor_dtype(np.dtype(types[0][0])), [None] * len(types[0][1])
    )
    graph = helper.make_graph([node], "one", given, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    return model


class OnnxSubject:
    """A runtime for models of one node."""

    name: str
    version: str

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        x, *rest = (np.ascontiguousarray(a) for a in inputs)
        if is_a(op, Linear):
            return self._model(op, (x, *rest))
        return np.asarray(fed(op, x, lambda t: self._model(op, (np.ascontiguousarray(t), *rest))))

    def _model(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        kind, attributes = node_of(op, inputs)
        frozen = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in attributes.items())
        model = model_of(kind, frozen, tuple((a.dtype.name, a.shape) for a in inputs))
        return self._run(model, {f"x{i}": a for i, a in enumerate(inputs)})

    def _run(self, model: Any, feeds: dict[str, Array]) -> Array:
        raise NotImplementedError


class OnnxRuntime(OnnxSubject):
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"
    conventions = ("padding is multiplied", "rounded at every step")

    def __init__(self) -> None:
        self.ort: Any = importlib.import_module("onnxruntime")
        self.version = f"onnxruntime {self.ort.__version__}"
        self.options = self.ort.SessionOptions()
        self.options.log_severity_level = 4
        self.options.intra_op_num_threads = 1

    def _model(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        only(not is_a(op, MaxPool | AvgPool) or op.spatial_rank() <= 3, f"pooling of rank {op.spatial_rank()}")
        return super()._model(op, inputs)

    def _run(self, model: Any, feeds: dict[str, Array]) -> Array:
        try:
            session = self.ort.InferenceSession(
                model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            if "NOT_IMPLEMENTED" in str(error) or "Type Error" in str(error):
                raise NotOffered(str(error).partition(" : ")[2].splitlines()[0]) from error
            raise
        return np.asarray(session.run(None, feeds)[0])


class OnnxReference(OnnxSubject):
    """The reference evaluator of the onnx package."""

    name = "onnx.reference"
    conventions = ("padding is multiplied", "rounded at every step")
    version = f"onnx {onnx.__version__}"

    def __init__(self) -> None:
        self.evaluator: Any = importlib.import_module("onnx.reference").ReferenceEvaluator

    def _run(self, model: Any, feeds: dict[str, Array]) -> Array:
        return np.asarray(self.evaluator(model).run(None, feeds)[0])


def subjects() -> list[Any]:
    made: list[Any] = [OnnxReference()]
    try:
        return [OnnxRuntime(), *made]
    except ImportError:
        return made
