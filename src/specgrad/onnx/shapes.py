"""Operators that move cells, and those that compute shapes while the model is read."""

from __future__ import annotations

import itertools
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
    """Known arrays are converted. A value of the graph has no type of its own: it may be widened,
    which changes no number."""
    node.attribute("saturate"), node.attribute("round_mode")
    return converted(node, node.attribute("to"))


def cast_like(node: Node) -> Any:
    """A cast to the type of the second operand; that of a value of the graph is known where all
    inputs have one type."""
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


def transpose(node: Node) -> Any:
    x = node.var(0)
    order = node.attribute("perm")
    return sg.transpose(x, tuple(range(len(x.shape)))[::-1] if order is None else node.axes(order, len(x.shape)))


def concatenate(node: Node) -> Any:
    arrays = [node.var(place) for place in range(len(node))]
    return sg.concatenate(arrays, node.axis(len(arrays[0].shape)))


def part(x: Any, axis: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    """Some of the cells along an axis."""
    return sg.slice(x, (*[slice(None)] * axis, slice(start, stop, step)))


def split(node: Node) -> Any:
    """Parts of these lengths, or of equal ones, of which the last may be shorter."""
    x, count = node.var(0), len(node.proto.output)
    axis = node.axis(len(x.shape))
    lengths = node.integers(1, "split")
    if lengths is None:
        parts = node.attribute("num_outputs") or count
        size = -(-x.shape[axis] // max(parts, 1))
        lengths = tuple(min(size, x.shape[axis] - start * size) for start in range(parts))
    if len(lengths) != count or sum(lengths) != x.shape[axis] or min(lengths) < 0:
        rule = f"does not make {count} parts of {x.shape[axis]} cells"
        raise node.refused("split", lengths, rule, "export the model again")
    ends = np.cumsum([0, *lengths]).tolist()
    return tuple(part(x, axis, start, stop) for start, stop in itertools.pairwise(ends))


def sliced(node: Node) -> Any:
    x = node.var(0)
    starts, ends, axes, steps = (
        node.integers(place, name) for place, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    starts, ends = starts or (), ends or ()
    axes = node.axes(tuple(range(len(starts))) if axes is None else axes, len(x.shape))
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.refused("starts", starts, "must be as many as ends, axes and steps", "export the model again")
    index = [slice(None)] * len(x.shape)
    for axis, *ends_of in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(*(max(min(n, 2**62), -(2**62)) for n in ends_of))
    return sg.slice(x, tuple(index))


def expand(node: Node) -> Any:
    x, wanted = node.var(0), node.integers(1, "shape") or ()
    try:
        shape = np.broadcast_shapes(x.shape, wanted)
    except ValueError:
        rule = f"x of shape {x.shape} does not broadcast to it"
        raise node.refused("shape", wanted, rule, "export the model again") from None
    return sg.broadcast_to(x, shape)


def tile(node: Node) -> Any:
    x, repeats = node.var(0), node.integers(1, "repeats") or ()
    if len(repeats) != len(x.shape) or any(n < 0 for n in repeats):
        rule = f"must have {len(x.shape)} entries from 0 on"
        raise node.refused("repeats", repeats, rule, "export the model again")
    apart = sg.reshape(x, tuple(n for length in x.shape for n in (1, length)))
    pairs = tuple(zip(repeats, x.shape, strict=True))
    made = sg.broadcast_to(apart, tuple(n for pair in pairs for n in pair))
    return sg.reshape(made, tuple(a * b for a, b in pairs))


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def pad(node: Node) -> Any:
    """Cells around an axis; a negative number takes cells away."""
    x, mode = node.var(0), node.attribute("mode")
    rank = len(x.shape)
    pads = node.integers(1, "pads") or ()
    axes = node.axes(node.integers(3, "axes") or tuple(range(rank)), rank)
    if mode not in MODES or len(pads) != 2 * len(axes):
        rule = f"must be one of {', '.join(MODES)}, with {2 * len(axes)} numbers of cells"
        raise node.refused("mode", mode, rule, "export the model again")
    value = node.attribute("value") if "value" in node.schema.attributes else node.number(2) if node.has(2) else 0
    pairs = [(0, 0)] * rank
    for place, axis in enumerate(axes):
        pairs[axis] = (pads[place], pads[place + len(axes)])
        before, after = (max(-n, 0) for n in pairs[axis])
        if before or after:
            x = part(x, axis, before, x.shape[axis] - after)
    around = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
    return sg.pad(x, around, MODES[mode], value) if any(map(any, around)) else x


def gather(node: Node) -> Any:
    x = node.var(0)
    indices = node.known(1)
    if indices.dtype.kind not in "iu":
        raise node.refused("indices", indices, "must be integers", "export the model again")
    axis = node.axis(len(x.shape))
    if indices.size:
        return sg.take(x, indices, axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])  # a list of no index has one axis
    return sg.reshape(sg.take(x, indices.reshape(-1), axis), shape)


def depth_to_space(node: Node) -> Any:
    x, block, mode = node.var(0), node.attribute("blocksize"), node.attribute("mode") or "DCR"
    n, channels, high, wide = blocked(node, x, block, mode, 1)
    inner = channels // block**2
    if mode == "DCR":
        apart = sg.transpose(sg.reshape(x, (n, block, block, inner, high, wide)), (0, 3, 4, 1, 5, 2))
    else:
        apart = sg.transpose(sg.reshape(x, (n, inner, block, block, high, wide)), (0, 1, 4, 2, 5, 3))
    return sg.reshape(apart, (n, inner, high * block, wide * block))


def space_to_depth(node: Node) -> Any:
    x, block, mode = node.var(0), node.attribute("blocksize"), node.attribute("mode") or "DCR"
    n, channels, high, wide = blocked(node, x, block, mode, 0)
    apart = sg.reshape(x, (n, channels, high // block, block, wide // block, block))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return sg.reshape(sg.transpose(apart, order), (n, channels * block**2, high // block, wide // block))


def blocked(node: Node, x: Any, block: int, mode: str, deep: bool | int) -> tuple[int, ...]:
    """The shape of an image whose channels, or whose sides, divide into blocks."""
    divides = len(x.shape) == 4 and 1 <= block < 2**15
    if divides:
        divides = x.shape[1] % block**2 == 0 if deep else x.shape[2] % block == x.shape[3] % block == 0
    if not divides or mode not in ("DCR", "CRD"):
        rule = f"does not divide x of shape {x.shape} in mode {mode}"
        raise node.refused("blocksize", block, rule, "export the model again")
    return tuple(x.shape)


def constant_of_shape(node: Node) -> Any:
    lengths = node.integers(0, "input") or ()
    value = node.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else value
    if any(n < 0 for n in lengths) or fill.size != 1:
        raise node.refused("shape", lengths, "must be lengths from 0 on", "export the model again")
    node.model.spend(math.prod(lengths), node)
    return np.full(lengths, fill.reshape(-1)[0], fill.dtype)


def counted(node: Node) -> Any:
    start, limit, step = (node.known(place).reshape(-1) for place in range(3))
    if any(a.size != 1 for a in (start, limit, step)) or step[0] == 0:
        raise node.refused("delta", step, "must be one number other than 0", "export the model again")
    node.attribute("stash_type")
    node.model.spend(max(int((limit[0] - start[0]) / step[0]), 0) + 1, node)
    return np.arange(start[0], limit[0], step[0], dtype=start.dtype)


TABLE: dict[str, Callable[[Node], Any]] = {
    "Cast": cast,
    "CastLike": cast_like,
    "Concat": concatenate,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Dropout": dropout,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "Identity": identity,
    "Pad": pad,
    "Range": counted,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Slice": sliced,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
