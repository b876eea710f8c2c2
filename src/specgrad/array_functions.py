"""Functions of arrays that are no windows: of single cells, of shapes, reductions and losses.

They have NumPy's and PyTorch's names. A Python number among the operands takes on the scalar of the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .arguments import Ints
from .arithmetic import applied, combine, indicator, is_number
from .errors import ArgumentError, refusal
from .ops import (
    Abs,
    CrossEntropy,
    Detach,
    Erf,
    Exp,
    Gelu,
    Larger,
    Log,
    LogSoftmax,
    Mean,
    MseLoss,
    Power,
    Relu,
    Reshape,
    Scale,
    Sigmoid,
    Silu,
    Smaller,
    Softplus,
    Sqrt,
    Sum,
    Tanh,
    Where,
)
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
    """factor * x, for a number that is part of the operator. See `Scale`."""
    return Scale(factor)(x)


def power(x: Array, exponent: int | float | Fraction) -> Any:
    """x to the power of a number that is part of the operator. See `Power`."""
    return Power(exponent)(x)


def abs(x: Array) -> Any:
    """|x|, with slope 0 at 0. See `Abs`."""
    return Abs()(x)


def maximum(x: Array, y: Array, *, ties: str = "split") -> Any:
    """The larger of x and y cell by cell, which share the slope where they are equal. See `Larger`."""
    return applied(Larger(ties=ties), x, y)


def minimum(x: Array, y: Array, *, ties: str = "split") -> Any:
    """The smaller of x and y cell by cell, which share the slope where they are equal. See `Smaller`."""
    return applied(Smaller(ties=ties), x, y)


def greater(x: Array, y: Array) -> Any:
    """1 where x > y, else 0; no derivative passes. See `Compare`."""
    return combine(">", x, y)


def greater_equal(x: Array, y: Array) -> Any:
    """1 where x ≥ y, else 0; no derivative passes. See `Compare`."""
    return combine(">=", x, y)


def less(x: Array, y: Array) -> Any:
    """1 where x < y, else 0; no derivative passes. See `Compare`."""
    return combine("<", x, y)


def less_equal(x: Array, y: Array) -> Any:
    """1 where x ≤ y, else 0; no derivative passes. See `Compare`."""
    return combine("<=", x, y)


def equal(x: Array, y: Array) -> Any:
    """1 where x = y, else 0; no derivative passes. See `Compare`."""
    return combine("==", x, y)


def not_equal(x: Array, y: Array) -> Any:
    """1 where x ≠ y, else 0; no derivative passes. See `Compare`."""
    return combine("!=", x, y)


def where(condition: Array, x: Array, y: Array) -> Any:
    """x where the condition holds (is not 0), else y, for a comparison of `specgrad` or an array of booleans. See `Where`."""
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
    """x times the normal distribution of x; approximate="tanh" by a hyperbolic tangent. See `Gelu`."""
    return Gelu(approximate=approximate)(x)


def reshape(x: Array, shape: Ints) -> Any:
    """The same cells in the same order under another shape; one length may be -1. See `Reshape`."""
    return Reshape(shape)(x)  # type: ignore[arg-type]


def sum(x: Array, axis: Ints | None = None, *, keepdims: bool = False) -> Any:
    """Σ x over all axes, or over `axis`. See `Sum`."""
    return Sum(axis, keepdims=keepdims)(x)


def mean(x: Array, axis: Ints | None = None, *, keepdims: bool = False) -> Any:
    """Σ x / count over all axes, or over `axis`. See `Mean`."""
    return Mean(axis, keepdims=keepdims)(x)


def log_softmax(x: Array) -> Any:
    """x - log Σ exp(x) over the last axis. See `LogSoftmax`."""
    return LogSoftmax()(x)


def detach(x: Array) -> Any:
    """x, declared constant: no derivative passes. See `Detach`."""
    return Detach()(x)


def mse_loss(prediction: Array, target: Array) -> Any:
    """Mean over all cells of (prediction - target)². See `MseLoss`."""
    return MseLoss()(prediction, target)


def cross_entropy(logits: Array, integer_labels: Array) -> Any:
    """Mean over the batch of log Σ exp(logits) - logits[label], for logits (*batch, classes). See `CrossEntropy`."""
    return CrossEntropy()(logits, integer_labels)
