"""Bytes of a model file to checked protocol buffers and arrays: nothing is allocated before its
size is known to be true.

A tensor's bytes must be as many as its shape and type need. External data is read from regular
files inside the model's own folder alone. What the operators mean is not decided here.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelError, SpecgradError, refusal

LARGEST_FILE = 2**31 - 1  # what a protocol buffer can hold
MOST_AXES = 32

TYPES = {  # data_type -> (dtype, the field that holds it where raw_data does not)
    1: ("float32", "float_data"),
    2: ("uint8", "int32_data"),
    3: ("int8", "int32_data"),
    4: ("uint16", "int32_data"),
    5: ("int16", "int32_data"),
    6: ("int32", "int32_data"),
    7: ("int64", "int64_data"),
    9: ("bool", "int32_data"),
    10: ("float16", "int32_data"),
    11: ("float64", "double_data"),
    12: ("uint32", "uint64_data"),
    13: ("uint64", "uint64_data"),
    16: ("bfloat16", "int32_data"),
}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def bad(argument: str, value: Any, rule: str, remedy: str) -> SpecgradError:
    """The refusal of a model, or of a part of it."""
    return refusal(ModelError, "onnx.load", argument, value, rule, remedy)


def type_name(data_type: int) -> str:
    """The name of an element type as a message shows it."""
    import onnx

    names = onnx.TensorProto.DataType
    return str(names.Name(data_type).lower()) if data_type in names.values() else f"number {data_type}"


def read(source: Any) -> tuple[Any, Path | None]:
    """A ModelProto, and the folder in which its external data may lie."""
    import onnx
    from google.protobuf.message import DecodeError

    folder = None
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "ModelProto"), None
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    else:
        try:
            path = Path(os.fspath(source))
            size = path.stat().st_size
            if size > LARGEST_FILE:
                rule = f"has {size} bytes, more than the {LARGEST_FILE} of a protocol buffer"
                raise bad("source", str(source), rule, "save the weights as external data")
            data, folder = path.read_bytes(), path.parent
        except TypeError:
            rule = f"must be a path, bytes or a ModelProto, got {type(source).__name__}"
            raise bad("source", source, rule, "write load('model.onnx')") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise bad("source", str(source), f"cannot be read: {reason}", "give the path of a file") from None
    model = onnx.ModelProto()
    shown = "bytes" if folder is None else str(source)
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):  # which of them depends on the build of protobuf
        raise bad("source", shown, "is not a protocol buffer of ONNX, or is cut off", "export it again") from None
    return _checked(model, shown), folder


def _checked(model: Any, shown: str) -> Any:
    """The model, if it has a graph and its names are text: a name that is not UTF-8 arrives as
    bytes."""
    if not model.HasField("graph") or not model.graph.output:
        raise bad("source", shown, "holds no graph with an output", "give a file that an ONNX exporter wrote")
    graph = model.graph
    names = [value.name for part in (graph.input, graph.output, graph.initializer) for value in part]
    for node in graph.node:
        names += [node.op_type, node.name, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
    for name in names:
        if not isinstance(name, str):
            raise bad("name", name, "is not text in UTF-8", "export the model again")
    return model


def dtype(data_type: int) -> np.dtype[Any]:
    """An element type as NumPy's; bfloat16 is ml_dtypes'."""
    name = TYPES[data_type][0]
    if name == "bfloat16":
        import ml_dtypes

        half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return half
    return np.dtype(name)


def tensor(proto: Any, folder: Path | None, what: str = "tensor") -> np.ndarray[Any, Any]:
    """The array of a TensorProto, once its bytes are as many as its shape and type need."""
    import onnx

    shape, name = tuple(proto.dims), proto.name or "(no name)"
    if proto.data_type not in TYPES:
        rule, remedy = f"holds elements of type {type_name(proto.data_type)}", "use floats, integers or bools"
        raise bad(what, name, rule, remedy)
    kind = dtype(proto.data_type)
    if any(n < 0 for n in shape) or len(shape) > MOST_AXES:
        raise bad(what, name, f"has shape {shape}", f"write at most {MOST_AXES} lengths from 0 on")
    needed = math.prod(shape)
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        data = _external(proto, folder, what, needed * kind.itemsize)
        return np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    field = TYPES[proto.data_type][1]
    raw = proto.HasField("raw_data")
    held = len(proto.raw_data) if raw else len(getattr(proto, field))
    if held != needed * (kind.itemsize if raw else 1):
        unit = "bytes" if raw else "elements"
        rule = f"has shape {shape} of {kind} but {held} {unit}"
        raise bad(what, name, rule, "the file is cut off or not what it says: export it again")
    try:
        array = onnx.numpy_helper.to_array(proto)
    except (ValueError, TypeError, OverflowError) as error:  # an int32_data of 2**31 - 1 is no uint8
        raise bad(what, name, f"does not hold {kind}: {error}", "export it again") from None
    return np.asarray(array)


def _external(proto: Any, folder: Path | None, what: str, needed: int) -> bytes:
    """The bytes of a tensor that lies in another file, which must be a regular one inside the
    model's folder."""
    name = proto.name or "(no name)"
    entries = {entry.key: entry.value for entry in proto.external_data}
    location: str = entries.get("location", "")
    if folder is None:
        rule, remedy = "lies in another file, and bytes have no folder", "load the model by its path"
        raise bad(what, name, rule, remedy)
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        inside = bool(location) and path.is_relative_to(root) and not Path(location).is_absolute() and path.is_file()
    except (OSError, ValueError, RuntimeError):  # a null byte, a loop of links
        inside = False
    if not inside:
        rule = f"its external file {location!r} is not a file inside the model's folder"
        raise bad(what, name, rule, "put the file beside the model")
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(needed)))
    except ValueError:
        offset = length = -1
    size = path.stat().st_size
    if length != needed or not 0 <= offset <= size - needed:
        rule = f"needs {needed} bytes, and names {length} from {offset} on of a file of {size}"
        raise bad(what, name, rule, "the file is cut off or not what it says: export it again")
    with path.open("rb") as file:
        file.seek(offset)
        data: bytes = file.read(needed)
        return data
