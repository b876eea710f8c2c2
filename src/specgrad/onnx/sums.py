"""Matrix products, reductions over axes, and the normalisations that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import specgrad as sg

from .node import Node

Reader = Callable[[Node], Any]


def gemm(node: Node) -> Any:
    """alpha·A·B + beta·C, either matrix turned round or not."""
    a, b = node.var(0), node.var(1)
    for name, value, matrix in (("A", a, node.shape(0)), ("B", b, node.shape(1))):
        if len(matrix) != 2:
            raise node.refused(name, value, "must be a matrix", "use MatMul for stacks of them")
    left = sg.transpose(a, (1, 0)) if node.attribute("transA") else a
    weight = b if node.attribute("transB") else sg.transpose(b, (1, 0))
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    third = node.has(2) and beta != 0
    if third and alpha == beta == 1 and node.shape(2) == (weight.shape[0],):
        return sg.linear(left, weight, node.var(2))
    product = sg.linear(left, weight)
    product = product if alpha == 1 else sg.scale(product, alpha)
    return sg.add(product, node.var(2) if beta == 1 else sg.scale(node.var(2), beta)) if third else product


def matmul(node: Node) -> Any:
    return sg.matmul(node.var(0), node.var(1))


def reduced_axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """The axes of a reduction: all where none is named, unless that means none; None for none."""
    given = node.integers(1, "axes")
    nothing = bool(node.attribute("noop_with_empty_axes"))
    if not given:
        return None if nothing else tuple(range(rank))
    return node.axes(given, rank)


def reduction(function: Callable[..., Any] | None, alone: Callable[[Any], Any], exact: Any = None) -> Reader:
    """A reduction (x, axes, keepdims); `alone` is what it makes of single cells, `exact` NumPy's,
    for known integers."""

    def read(node: Node) -> Any:
        shape = node.shape(0)
        axes, keep = reduced_axes(node, len(shape)), bool(node.attribute("keepdims"))
        if exact is not None and node.is_known(0) and (function is None or node.known(0).dtype.kind in "iub"):
            if axes is not None and exact is not np.prod and not math.prod(shape[axis] for axis in axes):
                raise node.refused("input 0", node.known(0), "has no cell along these axes", "drop the empty input")
            return np.asarray(exact(node.known(0), axis=axes, keepdims=keep)) if axes is not None else node.known(0)
        if function is None:
            raise node.refused("operator", node.operator, "is read where its operand is known", "export without it")
        return alone(node.var(0)) if axes is None or not shape else function(node.var(0), axes, keep)

    return read


def same(x: Any) -> Any:
    return x


def square(x: Any) -> Any:
    return sg.mul(x, x)


def total(x: Any, axes: Any, keep: bool) -> Any:
    return sg.sum(x, axes, keepdims=keep)


def greatest(x: Any, axes: Any, keep: bool) -> Any:
    return sg.global_max_pool(x, len(axes), axes=axes, keepdims=keep, ties="split")


def least(x: Any, axes: Any, keep: bool) -> Any:
    return sg.scale(greatest(sg.scale(x, -1), axes, keep), -1)


def log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    """A smooth maximum of the whole axes, which does not overflow."""
    made = sg.smooth_max_pool(x, tuple(x.shape[axis] for axis in axes), beta=1, axes=axes)
    return made if keep else sg.reshape(made, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


def along(function: Callable[..., Any]) -> Reader:
    """Softmax over an axis; before opset 13, over all axes from `axis` on together."""

    def read(node: Node) -> Any:
        x = node.var(0)
        if node.version >= 13:
            return function(x, node.axis(len(x.shape)))
        axis = node.axis(len(x.shape), beyond=1)
        flat = sg.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return sg.reshape(function(flat, -1), x.shape)

    return read


def batch_norm(node: Node) -> Any:
    """Of given means and variances; the outputs of training are not computed."""
    node.attribute("momentum")
    if node.attribute("training_mode") or node.attribute("spatial") == 0:
        rule, remedy = "normalises by the batch, or by cells", "export the model for inference: model.eval()"
        raise node.refused("training_mode", node.attribute("training_mode"), rule, remedy)
    x, weight, bias, mean, variance = (node.var(place) for place in range(5))
    return sg.batch_norm(x, mean, variance, weight, bias, eps=node.attribute("epsilon"))


def grouped(node: Node, x: Any, groups: int) -> Any:
    """Each group of channels of each image, with mean 0 and variance 1."""
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise node.refused("num_groups", groups, f"does not divide the channels of {x.shape}", "export the model again")
    apart = sg.reshape(x, (x.shape[0], groups, -1))
    return sg.reshape(sg.layer_norm(apart, 1, eps=node.attribute("epsilon")), x.shape)


def per_channel(x: Any, array: Any) -> Any:
    """One number per channel, in a shape that broadcasts."""
    return sg.reshape(array, (-1, *[1] * (len(x.shape) - 2)))


def instance_norm(node: Node) -> Any:
    x = node.var(0)
    made = grouped(node, x, x.shape[1] if len(x.shape) > 1 else 0)
    return sg.add(sg.mul(made, per_channel(x, node.var(1))), per_channel(x, node.var(2)))


def group_norm(node: Node) -> Any:
    """Before opset 21, weight and bias have one number per group."""
    x, groups = node.var(0), node.attribute("num_groups")
    node.attribute("stash_type")
    made = grouped(node, x, groups)
    weight, bias = node.var(1), node.var(2)
    if node.version < 21:
        each = (groups, x.shape[1] // groups)
        weight, bias = (sg.reshape(sg.broadcast_to(sg.reshape(a, (-1, 1)), each), (-1,)) for a in (weight, bias))
    return sg.add(sg.mul(made, per_channel(x, weight)), per_channel(x, bias))


def layer_norm(node: Node) -> Any:
    """Over all axes from `axis` on; also the means and the inverse deviations where they are asked
    for."""
    x, eps = node.var(0), node.attribute("epsilon")
    node.attribute("stash_type")
    axes = tuple(range(node.axis(len(x.shape)), len(x.shape)))
    y = sg.layer_norm(x, len(axes), node.var(1), node.var(2) if node.has(2) else None, eps=eps)
    if len(node.proto.output) == 1:
        return y
    mean = sg.mean(x, axes, keepdims=True)
    spread = sg.mean(square(sg.sub(x, mean)), axes, keepdims=True)
    return y, mean, sg.power(sg.sqrt(sg.add(spread, eps)), -1)


def rms_norm(node: Node) -> Any:
    x = node.var(0)
    node.attribute("stash_type")
    axes = tuple(range(node.axis(len(x.shape)), len(x.shape)))
    size = sg.sqrt(sg.add(sg.mean(square(x), axes, keepdims=True), node.attribute("epsilon")))
    return sg.mul(sg.div(x, size), node.var(1))


def mean_variance_norm(node: Node) -> Any:
    x = node.var(0)
    axes = node.axes(node.attribute("axes"), len(x.shape))
    centred = sg.sub(x, sg.mean(x, axes, keepdims=True))
    return sg.div(centred, sg.add(sg.sqrt(sg.mean(square(centred), axes, keepdims=True)), 1e-9))


def lp_norm(node: Node) -> Any:
    """x over its norm along an axis; 0 where that is 0."""
    x, p = node.var(0), node.attribute("p")
    axis = (node.axis(len(x.shape)),)
    if p not in (1, 2):
        raise node.refused("p", p, "must be 1 or 2", "export the model again")
    size = total(sg.abs(x), axis, True) if p == 1 else sg.sqrt(total(square(x), axis, True))
    return sg.where(sg.equal(size, 0), sg.scale(x, 0), sg.div(x, size))


def local_response_norm(node: Node) -> Any:
    """x / (bias + alpha/size · Σ x² over `size` neighbouring channels)^beta."""
    x, size = node.var(0), node.attribute("size")
    if len(x.shape) < 3 or size < 1:
        raise node.refused("size", size, "needs channels, and a number from 1 on", "export the model again")
    around = (((size - 1) // 2, size // 2),)
    near = sg.avg_pool(square(x), (size,), stride=1, padding=around, axes=(1,), divisor_override=1)
    factor, bias, beta = (node.attribute(name) for name in ("alpha", "bias", "beta"))
    return sg.mul(x, sg.power(sg.add(sg.scale(near, factor / size), bias), -beta))


TABLE: dict[str, Reader] = {
    "BatchNormalization": batch_norm,
    "Gemm": gemm,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LRN": local_response_norm,
    "LayerNormalization": layer_norm,
    "LogSoftmax": along(sg.log_softmax),
    "LpNormalization": lp_norm,
    "MatMul": matmul,
    "MeanVarianceNormalization": mean_variance_norm,
    "RMSNormalization": rms_norm,
    "ReduceL1": reduction(lambda x, axes, keep: total(sg.abs(x), axes, keep), sg.abs),
    "ReduceL2": reduction(lambda x, axes, keep: sg.sqrt(total(square(x), axes, keep)), sg.abs),
    "ReduceLogSum": reduction(lambda x, axes, keep: sg.log(total(x, axes, keep)), sg.log),
    "ReduceLogSumExp": reduction(log_sum_exp, same),
    "ReduceMax": reduction(greatest, same, np.max),
    "ReduceMean": reduction(lambda x, axes, keep: sg.mean(x, axes, keepdims=keep), same),
    "ReduceMin": reduction(least, same, np.min),
    "ReduceProd": reduction(None, same, np.prod),
    "ReduceSum": reduction(total, same, np.sum),
    "ReduceSumSquare": reduction(lambda x, axes, keep: total(square(x), axes, keep), square),
    "Softmax": along(sg.softmax),
}
