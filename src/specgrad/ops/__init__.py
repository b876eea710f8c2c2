"""The operators. `OPERATORS` is the one list that tests, front ends, documentation and checks iterate."""

from __future__ import annotations

from .. import derive  # noqa: F401 - enters the rules by which all operators are differentiated again
from ..operator import Operator
from .activation import Erf, Exp, Gelu, Log, Relu, Sigmoid, Silu, Softplus, Sqrt, Tanh
from .conv import Conv, ConvTranspose, Linear
from .loss import CrossEntropy, MseLoss
from .pointwise import Abs, Add, Compare, Div, Larger, Mul, Power, Scale, Smaller, Sub, Where
from .pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)
from .reduce import LogSoftmax, Mean, Sum
from .shape import Detach, Reshape

OPERATORS: tuple[type[Operator], ...] = (
    MaxPool,
    AvgPool,
    SmoothMaxPool,
    AdaptiveMaxPool,
    AdaptiveAvgPool,
    GlobalMaxPool,
    GlobalAvgPool,
    Conv,
    ConvTranspose,
    Linear,
    Relu,
    Exp,
    Log,
    Sqrt,
    Tanh,
    Sigmoid,
    Softplus,
    Silu,
    Gelu,
    Erf,
    Add,
    Sub,
    Mul,
    Div,
    Scale,
    Power,
    Abs,
    Larger,
    Smaller,
    Compare,
    Where,
    Reshape,
    Detach,
    Sum,
    Mean,
    LogSoftmax,
    CrossEntropy,
    MseLoss,
)

__all__ = [
    "OPERATORS",
    "Abs",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Add",
    "AvgPool",
    "Compare",
    "Conv",
    "ConvTranspose",
    "CrossEntropy",
    "Detach",
    "Div",
    "Erf",
    "Exp",
    "Gelu",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "Larger",
    "Linear",
    "Log",
    "LogSoftmax",
    "MaxPool",
    "Mean",
    "MseLoss",
    "Mul",
    "Power",
    "Relu",
    "Reshape",
    "Scale",
    "Sigmoid",
    "Silu",
    "Smaller",
    "SmoothMaxPool",
    "Softplus",
    "Sqrt",
    "Sub",
    "Sum",
    "Tanh",
    "Where",
]
