"""The operators. `OPERATORS` is the one list that tests, front ends, documentation and checks
iterate."""

from __future__ import annotations

from .. import derive  # noqa: F401 - enters the rules by which all operators are differentiated again
from ..glossary import document_operator
from ..operator import Operator
from .activation import Erf, Exp, Gelu, Log, Relu, Sigmoid, Silu, Softplus, Sqrt, Tanh
from .conv import Conv, ConvTranspose, Linear
from .loss import CrossEntropy, MseLoss
from .matmul import Matmul
from .norm_pool import LpPool, MaxUnpool
from .order import Abs, Compare, Larger, Smaller, Where
from .patch import Fold, Pad, Unfold
from .pointwise import Add, Div, Mul, Power, Scale, Sub
from .pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    MinPool,
    SmoothMaxPool,
    SumPool,
)
from .reduce import LogSoftmax, Mean, Softmax, Sum
from .shape import BroadcastTo, Concatenate, Detach, Move, Reshape, Slice, Take, Transpose

OPERATORS: tuple[type[Operator], ...] = (
    MaxPool,
    MinPool,
    AvgPool,
    SumPool,
    LpPool,
    SmoothMaxPool,
    AdaptiveMaxPool,
    AdaptiveAvgPool,
    GlobalMaxPool,
    GlobalAvgPool,
    Conv,
    ConvTranspose,
    Linear,
    MaxUnpool,
    Matmul,
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
    Transpose,
    Slice,
    Take,
    Concatenate,
    BroadcastTo,
    Pad,
    Unfold,
    Fold,
    Detach,
    Sum,
    Mean,
    LogSoftmax,
    Softmax,
    CrossEntropy,
    MseLoss,
)

MOVES = tuple(kind for kind in OPERATORS if issubclass(kind, Move))
"""Those that move cells."""

for _kind in OPERATORS:
    document_operator(_kind)

__all__ = [
    "MOVES",
    "OPERATORS",
    "Abs",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Add",
    "AvgPool",
    "BroadcastTo",
    "Compare",
    "Concatenate",
    "Conv",
    "ConvTranspose",
    "CrossEntropy",
    "Detach",
    "Div",
    "Erf",
    "Exp",
    "Fold",
    "Gelu",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "Larger",
    "Linear",
    "Log",
    "LogSoftmax",
    "LpPool",
    "Matmul",
    "MaxPool",
    "MaxUnpool",
    "Mean",
    "MinPool",
    "MseLoss",
    "Mul",
    "Pad",
    "Power",
    "Relu",
    "Reshape",
    "Scale",
    "Sigmoid",
    "Silu",
    "Slice",
    "Smaller",
    "SmoothMaxPool",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Sub",
    "Sum",
    "SumPool",
    "Take",
    "Tanh",
    "Transpose",
    "Unfold",
    "Where",
]
