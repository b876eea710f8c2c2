"""A graph as a model: every operator written in ONNX's own, opset 20.

A pool runs over planes (batch, 1, *spatial), wherever its axes stand. Windows that ONNX cannot
state (adaptive bins, a smooth maximum) are gathered cell by cell and reduced; sums are convolutions
with ones, so that nothing is rounded that the graph does not round.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .. import ops
from ..geometry import Shape, Sliding
from ..graph import Graph
from ..operator import Operator
from .writer import KINDS, Export, Value, refused

RELATIONS = {">": "Greater", ">=": "GreaterOrEqual", "<": "Less", "<=": "LessOrEqual", "==": "Equal"}
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}

Writer = Callable[..., Value]


def model(graph: Graph, dtype: Any) -> Any:
    """The ModelProto of a graph."""
    return Export(graph, dtype).model(WRITERS)


def direct(operator: str, **attributes: Any) -> Writer:
    """An operator that ONNX has under another name."""

    def write(to: Export, op: Any, shape: Shape, *operands: Value) -> Value:
        return to(operator, *operands, shape=shape, **attributes)

    return write


def same(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return x


def planes(to: Export, op: Any, x: Value) -> tuple[Value, Callable[[Value], Value]]:
    """The spatial axes of a pool last, all others as one batch of one channel; and the way back for
    its result."""
    positions = op.positions(x.shape)
    batch = [p for p in range(len(x.shape)) if p not in positions]
    order = [*batch, *positions]
    lengths = tuple(x.shape[p] for p in batch)
    flat = to.reshape(to.transpose(x, order), (math.prod(lengths), 1, *(x.shape[p] for p in positions)))

    def back(y: Value) -> Value:
        spread = to.reshape(y, (*lengths, *y.shape[2:]))
        return to.transpose(spread, [order.index(p) for p in range(len(order))])

    return flat, back


def windows(to: Export, op: Any, x: Value, fill: float | None, mask: str = "real") -> Value:
    """The cells of every window of planes, (batch, 1, outputs, taps); where a tap reads none
    `fill`, or a cell of the window again (0 if it has none)."""
    plane = x.shape[2:]
    axes = [axis.taps() for axis in op.spatial(plane)]
    place: Any = np.zeros((1, 1), np.int64)
    real: Any = np.ones((1, 1), bool)
    exists = real
    for length, axis in zip(plane, axes, strict=True):
        outputs, taps = (a * b for a, b in zip(place.shape, axis.cell.shape, strict=True))
        joined = (place * length)[:, None, :, None] + axis.cell[None, :, None, :]
        place = joined.reshape(outputs, taps)
        real, exists = (
            (one[:, None, :, None] & other[None, :, None, :]).reshape(outputs, taps)
            for one, other in ((real, axis.real), (exists, axis.exists))
        )
    cells = math.prod(plane)
    flat = to.reshape(x, (x.shape[0], 1, cells))
    if real.all():
        return to.gather(flat, place, 2)
    if fill is None:
        first = np.take_along_axis(place, real.argmax(axis=1)[:, None], 1)
        missing = np.broadcast_to(np.where(real.any(axis=1)[:, None], first, cells), real.shape)
    else:
        missing = np.where(exists, cells, cells + 1) if mask == "exists" else np.full(real.shape, cells + 1)
    extra = np.array([0.0, fill or 0.0])[: max(int(missing[~real].max()) + 1 - cells, 0)]
    if not extra.size:
        return to.gather(flat, np.where(real, place, missing), 2)
    around = to.array(np.broadcast_to(extra, (x.shape[0], 1, extra.size)))
    flat = to("Concat", flat, around, shape=(x.shape[0], 1, cells + extra.size), axis=2)
    return to.gather(flat, np.where(real, place, missing), 2)


def slide(op: Any, sizes: Shape) -> tuple[dict[str, Any], tuple[Sliding, ...], bool]:
    """ONNX's attributes of a sliding window, without ceil_mode: padding is lengthened; and whether
    that added taps."""
    axes = cast("tuple[Sliding, ...]", op.spatial(sizes))
    needed = [max((a.length - 1) * a.stride + a.extent - a.size - a.before, 0) for a in axes]
    after = [n if op.ceil_mode else a.after for n, a in zip(needed, axes, strict=True)]
    names = {"kernel_shape": "kernel", "strides": "stride", "dilations": "dilation"}
    made: dict[str, Any] = {name: [getattr(a, of) for a in axes] for name, of in names.items()}
    made["pads"] = [*(a.before for a in axes), *after]
    return made, axes, any(more > a.after for more, a in zip(after, axes, strict=True))


def is_common(window: dict[str, Any]) -> bool:
    """Whether padding is narrower than the kernel at each end of each axis: ONNX Runtime's pooling
    refuses wider padding."""
    return all(pad < k for pad, k in zip(window["pads"], 2 * window["kernel_shape"], strict=True))


def output_lengths(op: Any, x: Value) -> Shape:
    return (*x.shape[:2], *(axis.length for axis in op.spatial(x.shape[2:])))


def max_pool(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    if len(flat.shape) == 2:
        return x
    window, axes, _ = slide(op, flat.shape[2:])
    lowest = isinstance(op, ops.MinPool)
    flat = to("Neg", flat, shape=flat.shape) if lowest else flat
    if is_common(window) and all(a.taps().real.any(axis=1).all() for a in axes):
        made = to("MaxPool", flat, shape=output_lengths(op, flat), **window)
    else:  # ONNX leaves open what a window of padding alone is
        found = to.reduce("ReduceMax", windows(to, op, flat, None), (3,))
        made = to.reshape(found, output_lengths(op, flat))
    return back(to("Neg", made, shape=made.shape) if lowest else made)


def summed(to: Export, op: Any, x: Value) -> Value:
    """Sums of sliding windows over planes: a convolution with ones."""
    window, _, _ = slide(op, x.shape[2:])
    ones = to.array(np.ones((1, 1, *window["kernel_shape"])))
    return to("Conv", x, ones, shape=output_lengths(op, x), **window)


def sum_pool(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    return x if len(flat.shape) == 2 else back(summed(to, op, flat))


def divisors(op: Any, sizes: Shape) -> Any:
    """What the sums of a plane are divided by; 1 where there is no tap."""
    mask = "exists" if getattr(op, "count_include_pad", True) else "real"
    counts = [getattr(axis.taps(), mask).sum(axis=1) for axis in op.spatial(sizes)]
    table = functools.reduce(np.multiply.outer, counts, np.array(1))
    override = getattr(op, "divisor_override", None)
    return np.full(table.shape, override) if override is not None else np.maximum(table, 1)


def average_pool(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    if len(flat.shape) == 2 and op.divisor_override is None:
        return x
    window, axes, more = slide(op, flat.shape[2:]) if len(flat.shape) > 2 else ({}, (), True)
    some = all(a.taps().real.any(axis=1).all() for a in axes)
    if op.divisor_override is None and not more and some and is_common(window):
        counted = int(op.count_include_pad)
        return back(to("AveragePool", flat, shape=output_lengths(op, flat), count_include_pad=counted, **window))
    total = summed(to, op, flat) if axes else flat
    return back(to("Div", total, to.array(divisors(op, flat.shape[2:])), shape=total.shape))


def adaptive_average(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    total = to.reduce("ReduceSum", windows(to, op, flat, 0.0), (3,))
    total = to.reshape(total, output_lengths(op, flat))
    return back(to("Div", total, to.array(divisors(op, flat.shape[2:])), shape=total.shape))


def adaptive_max(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    made = to.reduce("ReduceMax", windows(to, op, flat, None), (3,))
    return back(to.reshape(made, output_lengths(op, flat)))


def global_pool(whole: str, reduction: str) -> Writer:
    def write(to: Export, op: Any, shape: Shape, x: Value) -> Value:
        positions = op.positions(x.shape)
        if op.keepdims and len(x.shape) > 2 and positions == tuple(range(2, len(x.shape))):
            return to(whole, x, shape=shape)
        return to.reduce(reduction, x, positions, op.keepdims)

    return write


def lp_pool(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    flat, back = planes(to, op, x)
    if len(flat.shape) == 2 or op.p == math.inf:
        flat = to("Abs", flat, shape=flat.shape)
    if len(flat.shape) == 2:
        return back(flat)
    if op.p == math.inf:
        made = to.reduce("ReduceMax", windows(to, op, flat, 0.0), (3,))
        return back(to.reshape(made, output_lengths(op, flat)))
    if op.p != int(op.p):
        raise refused(op, "ONNX has whole p alone", "use a whole p")
    window, _, _ = slide(op, flat.shape[2:])
    lengths = output_lengths(op, flat)
    if not is_common(window):
        pads, rank = window["pads"], len(flat.shape) - 2
        around = zip(flat.shape[2:], pads[:rank], pads[rank:], strict=True)
        padded = *flat.shape[:2], *(before + size + after for size, before, after in around)
        wide = to.array([0, 0, *pads[:rank], 0, 0, *pads[rank:]], np.int64)
        flat, window["pads"] = to("Pad", flat, wide, shape=padded), [0] * len(pads)
    return back(to("LpPool", flat, shape=lengths, p=int(op.p), **window))


def smooth_max(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    """β⁻¹ log Σ exp(β cells), of gathered windows; what takes no part is -inf."""
    flat, back = planes(to, op, x)
    beta = to.array(float(op.beta))
    scaled = to("Mul", flat, beta, shape=flat.shape)
    mask = "exists" if op.pad == "zero" else "real"
    if not all(getattr(axis.taps(), mask).any(axis=1).all() for axis in op.spatial(flat.shape[2:])):
        raise refused(op, "has a window of padding alone", "use less padding")
    cells = windows(to, op, scaled, -math.inf, mask)
    made = to.reshape(to.reduce("ReduceLogSumExp", cells, (3,)), output_lengths(op, flat))
    return back(to("Div", made, beta, shape=made.shape))


def conv(to: Export, op: Any, shape: Shape, x: Value, weight: Value, bias: Value | None = None) -> Value:
    rank = len(op.kernel_size)
    if rank == 0 and op.groups == 1:
        return linear(to, op, shape, x, weight if isinstance(op, ops.Conv) else to.transpose(weight, (1, 0)), bias)
    if rank == 0:
        raise refused(op, "has groups and no spatial axis", "use a kernel of one cell")
    lead = len(x.shape) - rank - 1
    flat = to.reshape(x, (math.prod(x.shape[:lead]), *x.shape[lead:]))
    axes = [axis for axis, _ in op.sliding(x.shape[lead + 1 :])]
    window: dict[str, Any] = {
        "kernel_shape": [*op.kernel_size],
        "strides": [a.stride for a in axes],
        "dilations": [a.dilation for a in axes],
        "pads": [*(a.before for a in axes), *(a.after for a in axes)],
        "group": op.groups,
    }
    kind = "Conv"
    if isinstance(op, ops.ConvTranspose):
        kind, window["output_padding"] = "ConvTranspose", [*cast(Shape, op.output_padding)]
    return to(kind, flat, weight, bias, shape=(flat.shape[0], *shape[lead:]), **window)


def linear(to: Export, op: Any, shape: Shape, x: Value, weight: Value, bias: Value | None = None) -> Value:
    flat = to.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    return to("Gemm", flat, weight, bias, shape=(flat.shape[0], shape[-1]), transB=1)


def compare(to: Export, op: Any, shape: Shape, x: Value, y: Value) -> Value:
    if op.relation == "!=":
        equal = to("Equal", x, y, shape=shape)
        truth = to("Not", equal, shape=shape)
    else:
        truth = to(RELATIONS[op.relation], x, y, shape=shape)
    return to("Cast", truth, shape=shape, to=KINDS[to.dtype.name])


def where(to: Export, op: Any, shape: Shape, condition: Value, x: Value, y: Value) -> Value:
    unmet = to("Equal", condition, to.array(0.0), shape=condition.shape)
    return to("Where", unmet, y, x, shape=shape)


def with_number(operator: str, name: str) -> Writer:
    """An operator whose second operand is a number of ours."""

    def write(to: Export, op: Any, shape: Shape, x: Value) -> Value:
        return to(operator, x, to.array(float(getattr(op, name))), shape=shape)

    return write


def gelu(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return to("Gelu", x, shape=shape, approximate=op.approximate)


def silu(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return to("Mul", x, to("Sigmoid", x, shape=shape), shape=shape)


def transpose(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return to.transpose(x, op.order(len(x.shape)))


def take(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return to.gather(x, np.asarray(op.indices, np.int64).reshape(np.shape(op.indices)), op.axis % len(x.shape))


def concatenate(to: Export, op: Any, shape: Shape, *arrays: Value) -> Value:
    return to("Concat", *arrays, shape=shape, axis=op.axis % len(shape))


def expand(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    return to("Expand", x, to.array(np.array(shape, np.int64), np.int64), shape=shape)


def pad(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    if not shape:
        return x
    pairs = [(0, 0)] * (len(shape) - len(op.padding)) + list(op.padding)
    pads = to.array(np.array([*(a for a, _ in pairs), *(b for _, b in pairs)], np.int64), np.int64)
    return to("Pad", x, pads, to.array(float(op.fill)), shape=shape, mode=MODES[op.mode])


def moved(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    """Any operator that moves cells: a table of the cells that it reads, and one of padding."""
    cells = math.prod(x.shape)
    table = np.asarray(op.move(np.arange(cells).reshape(x.shape), fill=cells))
    padding = to.array(np.array([float(op.padding_value())]))
    flat = to("Concat", to.reshape(x, (cells,)), padding, shape=(cells + 1,), axis=0)
    return to.gather(flat, table.reshape(-1), 0)


def sliced(to: Export, op: Any, shape: Shape, x: Value) -> Value:
    """A slice along every axis, where no step is negative; else a table of cells."""
    parts = [part for part in op.index if part is not None]
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [(None, None, None)] * (len(x.shape) - len(parts) + 1)
    ends = [
        (part % n, part % n + 1, 1) if isinstance(part, int) else slice(*part).indices(n)
        for part, n in zip(parts, x.shape, strict=False)
    ]
    if any(step < 0 for *_, step in ends) or not ends:
        return moved(to, op, shape, x)
    columns = [to.array(np.array(column, np.int64), np.int64) for column in zip(*ends, strict=True)]
    axes = to.array(np.arange(len(ends)), np.int64)
    lengths = (*(len(range(*end)) for end in ends), *x.shape[len(ends) :])
    return to("Slice", x, *columns[:2], axes, columns[2], shape=lengths)


def reduction(operator: str) -> Writer:
    def write(to: Export, op: Any, shape: Shape, x: Value) -> Value:
        return to.reduce(operator, x, op.positions(x.shape), op.keepdims)

    return write


def mse_loss(to: Export, op: Any, shape: Shape, prediction: Value, target: Value) -> Value:
    gap = to("Sub", prediction, target, shape=prediction.shape)
    return to.reduce("ReduceMean", to("Mul", gap, gap, shape=gap.shape), range(len(gap.shape)))


def cross_entropy(to: Export, op: Any, shape: Shape, logits: Value, labels: Value) -> Value:
    classes = logits.shape[-1]
    count = math.prod(logits.shape[:-1])
    flat = to.reshape(logits, (count, classes))
    return to("SoftmaxCrossEntropyLoss", flat, to.reshape(labels, (count,)), shape=())


def fold(to: Export, op: Any, shape: Shape, columns: Value) -> Value:
    """A transposed convolution, whose weight sends each row of a column to its own tap."""
    rows, axes = math.prod(op.kernel_size), op.sliding(tuple(op.output_size))
    if not axes:
        return columns
    flat = to.reshape(columns, (math.prod(columns.shape[:-1]) // rows, rows, *(a.length for a in axes)))
    weight = to.array(np.eye(rows).reshape(rows, 1, *op.kernel_size))
    fitted = [(a.length - 1) * a.stride + a.extent - a.before - a.after for a in axes]
    window: dict[str, Any] = {
        "strides": [*op.stride],
        "dilations": [*op.dilation],
        "pads": [*(a.before for a in axes), *(a.after for a in axes)],
        "output_padding": [n - least for n, least in zip(op.output_size, fitted, strict=True)],
    }
    return to("ConvTranspose", flat, weight, shape=(flat.shape[0], 1, *op.output_size), **window)


WRITERS: dict[type[Operator], Writer] = {
    ops.MaxPool: max_pool,
    ops.MinPool: max_pool,
    ops.AvgPool: average_pool,
    ops.SumPool: sum_pool,
    ops.LpPool: lp_pool,
    ops.SmoothMaxPool: smooth_max,
    ops.AdaptiveMaxPool: adaptive_max,
    ops.AdaptiveAvgPool: adaptive_average,
    ops.GlobalMaxPool: global_pool("GlobalMaxPool", "ReduceMax"),
    ops.GlobalAvgPool: global_pool("GlobalAveragePool", "ReduceMean"),
    ops.Conv: conv,
    ops.ConvTranspose: conv,
    ops.Linear: linear,
    ops.Matmul: direct("MatMul"),
    **{
        getattr(ops, name): direct(name)
        for name in (
            "Relu",
            "Exp",
            "Log",
            "Sqrt",
            "Tanh",
            "Sigmoid",
            "Softplus",
            "Erf",
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Abs",
        )
    },
    ops.Silu: silu,
    ops.Gelu: gelu,
    ops.Larger: direct("Max"),
    ops.Smaller: direct("Min"),
    ops.Scale: with_number("Mul", "factor"),
    ops.Power: with_number("Pow", "exponent"),
    ops.Compare: compare,
    ops.Where: where,
    ops.Reshape: same,
    ops.Detach: same,
    ops.Transpose: transpose,
    ops.Slice: sliced,
    ops.Take: take,
    ops.Concatenate: concatenate,
    ops.BroadcastTo: expand,
    ops.Pad: pad,
    ops.Unfold: moved,
    ops.Fold: fold,
    ops.Sum: reduction("ReduceSum"),
    ops.Mean: reduction("ReduceMean"),
    ops.LogSoftmax: direct("LogSoftmax", axis=-1),
    ops.Softmax: direct("Softmax", axis=-1),
    ops.CrossEntropy: cross_entropy,
    ops.MseLoss: mse_loss,
}
