"""Functions of arrays without windows: pointwise functions, shapes, reductions and losses.

The names are those of NumPy and PyTorch. A Python number among the operands takes the type of the
other operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from . import arguments
from .arguments import Ints
from .arithmetic import applied, combine, indicator, is_number
from .array_methods import FUNCTIONS, NUMPY
from .errors import ArgumentError, refusal
from .operator import shape_of
from .ops import (
    Abs,
    BroadcastTo,
    Concatenate,
    CrossEntropy,
    Detach,
    Erf,
    Exp,
    Gelu,
    Larger,
    Log,
    LogSoftmax,
    Matmul,
    Mean,
    MseLoss,
    Pad,
    Power,
    Relu,
    Reshape,
    Scale,
    Sigmoid,
    Silu,
    Slice,
    Smaller,
    Softmax,
    Softplus,
    Sqrt,
    Sum,
    Take,
    Tanh,
    Transpose,
    Where,
)
from .ops.shape import axis_in
from .scalars import as_operand

Array = Any


def add(x: Array, y: Array) -> Any:
    """x + y, broadcast as NumPy does. See `Add`."""
    return combine("+", x, y)


def sub(x: Array, y: Array) -> Any:
    """x - y, broadcast as NumPy does. See `Sub`."""
    return combine("-", x, y)


def mul(x: Array, y: Array) -> Any:
    """x * y cell by cell, broadcast as NumPy does. See `Mul`."""
    return combine("*", x, y)


def div(x: Array, y: Array) -> Any:
    """x / y cell by cell, broadcast as NumPy does. See `Div`."""
    return combine("/", x, y)


def scale(x: Array, factor: int | float | Fraction) -> Any:
    """factor * x, for a constant number. See `Scale`."""
    return Scale(factor)(x)


def power(x: Array, exponent: int | float | Fraction) -> Any:
    """x to the power of a constant number. See `Power`."""
    return Power(exponent)(x)


def abs(x: Array) -> Any:
    """|x|, with slope 0 at 0. See `Abs`."""
    return Abs()(x)


def maximum(x: Array, y: Array, *, ties: str = "split") -> Any:
    """The elementwise maximum of x and y, which share the gradient where they are equal. See
    `Larger`."""
    return applied(Larger(ties=ties), x, y)


def minimum(x: Array, y: Array, *, ties: str = "split") -> Any:
    """The elementwise minimum of x and y, which share the gradient where they are equal. See
    `Smaller`."""
    return applied(Smaller(ties=ties), x, y)


def greater(x: Array, y: Array) -> Any:
    """1 where x > y, else 0; its derivative is 0. See `Compare`."""
    return combine(">", x, y)


def greater_equal(x: Array, y: Array) -> Any:
    """1 where x ≥ y, else 0; its derivative is 0. See `Compare`."""
    return combine(">=", x, y)


def less(x: Array, y: Array) -> Any:
    """1 where x < y, else 0; its derivative is 0. See `Compare`."""
    return combine("<", x, y)


def less_equal(x: Array, y: Array) -> Any:
    """1 where x ≤ y, else 0; its derivative is 0. See `Compare`."""
    return combine("<=", x, y)


def equal(x: Array, y: Array) -> Any:
    """1 where x = y, else 0; its derivative is 0. See `Compare`."""
    return combine("==", x, y)


def not_equal(x: Array, y: Array) -> Any:
    """1 where x ≠ y, else 0; its derivative is 0. See `Compare`."""
    return combine("!=", x, y)


def where(condition: Array, x: Array, y: Array) -> Any:
    """x where the condition is not 0, else y. The condition is a comparison of `specgrad` or an
    array of booleans. See `Where`."""
    if isinstance(condition, bool):
        rule = "is a single truth value, as == of recorded values gives"
        raise refusal(ArgumentError, "where", "condition", condition, rule, "compare with greater, equal, …")
    if isinstance(condition, list | tuple):
        condition = as_operand("where", "condition", condition)
    if str(getattr(condition, "dtype", "")) in ("bool", "torch.bool"):
        condition = indicator(next((o for o in (x, y) if not is_number(o)), np.zeros(())), condition)
    return applied(Where(), condition, x, y)


def relu(x: Array) -> Any:
    """max(x, 0), with slope 0 at 0. See `Relu`."""
    return Relu()(x)


def exp(x: Array) -> Any:
    """e to the power of x. See `Exp`."""
    return Exp()(x)


def log(x: Array) -> Any:
    """The natural logarithm. See `Log`."""
    return Log()(x)


def sqrt(x: Array) -> Any:
    """The square root. See `Sqrt`."""
    return Sqrt()(x)


def tanh(x: Array) -> Any:
    """The hyperbolic tangent. See `Tanh`."""
    return Tanh()(x)


def erf(x: Array) -> Any:
    """The error function. See `Erf`."""
    return Erf()(x)


def sigmoid(x: Array) -> Any:
    """1 / (1 + exp(-x)). See `Sigmoid`."""
    return Sigmoid()(x)


def softplus(x: Array) -> Any:
    """log(1 + exp(x)). See `Softplus`."""
    return Softplus()(x)


def silu(x: Array) -> Any:
    """x / (1 + exp(-x)). See `Silu`."""
    return Silu()(x)


def gelu(x: Array, *, approximate: str = "none") -> Any:
    """x times the standard normal distribution function of x; approximate="tanh" uses a hyperbolic
    tangent. See `Gelu`."""
    return Gelu(approximate=approximate)(x)


def reshape(x: Array, shape: Ints) -> Any:
    """The same cells in the same order with another shape; one length may be -1. See `Reshape`."""
    return Reshape(shape)(x)  # type: ignore[arg-type]


def transpose(x: Array, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order: reversed, or as `axes` lists them. See `Transpose`."""
    return Transpose(axes)(x)


def slice(x: Array, index: Any) -> Any:
    """x[index], for integers, slices, None and ..., as in NumPy: ``slice(x, np.s_[0, 1:])``. See
    `Slice`."""
    return Slice(index)(x)


def take(x: Array, indices: Any, axis: int = 0) -> Any:
    """The cells of x at these integers along an axis. See `Take`."""
    return Take(indices, axis)(x)


def concatenate(arrays: Sequence[Array], axis: int = 0) -> Any:
    """The arrays joined along an axis. See `Concatenate`."""
    return Concatenate(len(_several("concatenate", arrays)), axis)(*arrays)


def stack(arrays: Sequence[Array], axis: int = 0) -> Any:
    """Arrays of the same shape joined along a new axis."""
    rank = len(shape_of("stack", "arrays[0]", _several("stack", arrays)[0])) + 1
    before = axis_in("stack", "axis", axis, arguments.integer("stack", "axis", axis, None), rank)
    return concatenate([slice(x, (*[(None, None, None)] * before, None)) for x in arrays], before)


def broadcast_to(x: Array, shape: Ints) -> Any:
    """x repeated to a shape, as NumPy broadcasts. See `BroadcastTo`."""
    return BroadcastTo(shape)(x)  # type: ignore[arg-type]


def pad(x: Array, padding: Sequence[Sequence[int]], mode: str = "constant", value: int | float | Fraction = 0) -> Any:
    """x with one (before, after) pair of cells around each of its last axes, in one of four modes.
    See `Pad`."""
    return Pad(padding, mode=mode, fill=value)(x)


def matmul(x: Array, y: Array) -> Any:
    """The product of matrices, or of stacks of them, as NumPy's. See `Matmul`."""
    return Matmul()(x, y)


def sum(x: Array, axis: Ints | None = None, *, keepdims: bool = False) -> Any:
    """Σ x over all axes, or over `axis`. See `Sum`."""
    return Sum(axis, keepdims=keepdims)(x)


def mean(x: Array, axis: Ints | None = None, *, keepdims: bool = False) -> Any:
    """Σ x / count over all axes, or over `axis`. See `Mean`."""
    return Mean(axis, keepdims=keepdims)(x)


def softmax(x: Array, axis: int = -1) -> Any:
    """exp(x) / Σ exp(x) over an axis. See `Softmax`."""
    return _along(Softmax(), x, axis)


def log_softmax(x: Array, axis: int = -1) -> Any:
    """x - log Σ exp(x) over an axis. See `LogSoftmax`."""
    return _along(LogSoftmax(), x, axis)


def batch_norm(
    x: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    eps: int | float | Fraction = 1e-5,
    axis: int = 1,
) -> Any:
    """(x - mean) / √(variance + eps) * weight + bias, for one number of each per channel of `axis`.

    By default, mean and variance are computed from x over all other axes (variance: the mean
    square of the difference), and have derivatives.
    """
    shape = shape_of("batch_norm", "x", x)
    channel = axis_in("batch_norm", "axis", axis, arguments.integer("batch_norm", "axis", axis, None), len(shape))
    across = (-1, *[1] * (len(shape) - channel - 1))
    mean, variance, weight, bias = (None if a is None else reshape(a, across) for a in (mean, variance, weight, bias))
    others = [p for p in range(len(shape)) if p != channel]
    return _normalised("batch_norm", x, others, mean, variance, weight, bias, eps)


def layer_norm(
    x: Array,
    rank: int = 1,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    eps: int | float | Fraction = 1e-5,
) -> Any:
    """(x - mean) / √(variance + eps) * weight + bias, with the mean and variance of x over its last
    `rank` axes."""
    axes = list(range(-arguments.integer("layer_norm", "rank", rank, 1, most=arguments.AXES), 0))
    return _normalised("layer_norm", x, axes, None, None, weight, bias, eps)


def _normalised(
    name: str, x: Array, axes: Sequence[int], mean: Array, variance: Array, weight: Array, bias: Array, eps: Any
) -> Any:
    eps = arguments.factor(name, "eps", eps, "write a small positive number")
    if (mean is None) != (variance is None):
        missing = "mean" if mean is None else "variance"
        raise refusal(ArgumentError, name, missing, None, "is missing beside the other one", "give both, or neither")
    centred = sub(x, Mean(axes, keepdims=True)(x) if mean is None else mean)
    spread = Mean(axes, keepdims=True)(mul(centred, centred)) if variance is None else variance
    y = div(centred, sqrt(add(spread, eps)))
    y = y if weight is None else mul(y, weight)
    return y if bias is None else add(y, bias)


def _along(op: Any, x: Array, axis: int) -> Any:
    """An operator over the last axis, applied over another one."""
    rank = len(shape_of(op.name, "x", x))
    at = axis_in(op.name, "axis", axis, arguments.integer(op.name, "axis", axis, None), rank) if rank else -1
    if at in (-1, rank - 1):
        return op(x)
    order = [*range(at), *range(at + 1, rank), at]
    return transpose(op(transpose(x, order)), [*range(at), rank - 1, *range(at, rank - 1)])


def _several(name: str, arrays: Any) -> Any:
    """A list or tuple with an array at least."""
    if not isinstance(arrays, list | tuple) or not arrays:
        rule, remedy = "is not a list of arrays", "write [x, y]"
        raise refusal(ArgumentError, name, "arrays", arrays, rule, remedy)
    return arrays


def detach(x: Array) -> Any:
    """x as a constant: its derivative is 0. See `Detach`."""
    return Detach()(x)


def mse_loss(prediction: Array, target: Array) -> Any:
    """Mean over all cells of (prediction - target)². See `MseLoss`."""
    return MseLoss()(prediction, target)


def cross_entropy(logits: Array, integer_labels: Array) -> Any:
    """Mean over the batch of log Σ exp(logits) - logits[label], for logits (*batch, classes). See
    `CrossEntropy`."""
    return CrossEntropy()(logits, integer_labels)


FUNCTIONS.update({word: one for word, one in globals().items() if getattr(one, "__module__", "") == __name__})
CELLS = ["exp", "log", "sqrt", "tanh", "abs", "maximum", "minimum"]
SHAPES = ["where", "reshape", "transpose", "concatenate", "stack", "broadcast_to", "sum", "mean"]
NUMPY.update({getattr(np, word): FUNCTIONS[word] for word in (*CELLS, *SHAPES)})  # those that mean the same
