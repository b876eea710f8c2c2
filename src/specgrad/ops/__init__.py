"""The operators. `OPERATORS` is the one list that tests, front ends, documentation and checks iterate."""

from __future__ import annotations

from ..operator import Operator
from .conv import Conv, ConvTranspose, Linear
from .pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)

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
)

__all__ = [
    "OPERATORS",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AvgPool",
    "Conv",
    "ConvTranspose",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "Linear",
    "MaxPool",
    "SmoothMaxPool",
]
