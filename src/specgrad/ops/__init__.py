"""The operators. `OPERATORS` is the one list that tests, front ends, documentation and checks iterate."""

from __future__ import annotations

from .. import derive  # noqa: F401 - enters the rules by which all operators are differentiated again
from ..operator import Operator
from .conv import Conv, ConvTranspose, Linear
from .loss import CrossEntropy, MseLoss
from .pointwise import Add, Detach, Mul, Relu, Reshape, Scale, Sub
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
    Add,
    Sub,
    Mul,
    Scale,
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
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Add",
    "AvgPool",
    "Conv",
    "ConvTranspose",
    "CrossEntropy",
    "Detach",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "Linear",
    "LogSoftmax",
    "MaxPool",
    "Mean",
    "MseLoss",
    "Mul",
    "Relu",
    "Reshape",
    "Scale",
    "SmoothMaxPool",
    "Sub",
    "Sum",
]
