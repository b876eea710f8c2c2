"""The published answers: values and cotangents known in advance, to a stated number of digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operator import Operator
from ..ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Add,
    AvgPool,
    Conv,
    ConvTranspose,
    CrossEntropy,
    Detach,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    LogSoftmax,
    MaxPool,
    Mean,
    MinPool,
    MseLoss,
    Mul,
    Relu,
    Reshape,
    Scale,
    SmoothMaxPool,
    Sub,
    Sum,
    SumPool,
)


@dataclass(frozen=True, eq=False)
class Fixed:
    """A fixed answer: the value and, for some answers, a cotangent and its VJP."""

    op: Operator
    operands: tuple[Any, ...]
    value: Any
    cotangent: Any = None
    pulled: tuple[Any, ...] = ()
    digits: int | None = None
    """The number of correct decimals; None: the answer is exact."""


def _fixed() -> list[Fixed]:
    x = np.arange(1.0, 10.0).reshape(3, 3)
    ones = np.ones((2, 2))
    row = np.array([1.0, 2.0, 3.0, 4.0])
    channel = np.array([[-3.0]])
    kernel = np.array([[[[0.2, -0.1], [0.3, 0.4]]]])
    grouped = np.array([[1.0, 2.0, 3.0, 4.0]]) * np.array([[1.0], [10.0], [100.0], [1000.0]])
    passing = np.array([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]] * 2)
    plane = np.array([[1.0, 3.0], [3.0, 2.0]])
    smooth_pulled = [
        [0.068873054, 0.182425524, 0.11355247],
        [0.377540669, 1, 0.622459331],
        [0.308667615, 0.817574476, 0.508906862],
    ]
    smooth_value = [[6.350980524, 7.350980524], [9.350980524, 10.350980524]]
    far = np.array([1e20, -1e20])
    return [
        Fixed(
            Conv((2, 2)),
            (x[None], kernel, np.array([0.05])),
            [[[3.25, 4.05], [5.65, 6.45]]],
            ones[None],
            ([[[0.2, 0.1, -0.1], [0.5, 0.8, 0.3], [0.3, 0.7, 0.4]]], [[[[12, 16], [24, 28]]]], [4]),
            digits=12,
        ),
        Fixed(MaxPool((2, 2), stride=1), (x,), [[5, 6], [8, 9]], ones, ([[0, 0, 0], [0, 1, 1], [0, 1, 1]],)),
        Fixed(
            AvgPool((2, 2), stride=1),
            (x,),
            [[3, 4], [6, 7]],
            ones,
            ([[0.25, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 0.25]],),
        ),
        Fixed(MinPool((2, 2), stride=1), (x,), [[1, 2], [4, 5]], ones, ([[1, 1, 0], [1, 1, 0], [0, 0, 0]],)),
        Fixed(MinPool((3, 3), stride=2, padding=1), (x,), [[1, 2], [4, 5]]),
        Fixed(SumPool((2, 2), stride=1), (x,), [[12, 16], [24, 28]], ones, ([[1, 2, 1], [2, 4, 2], [1, 2, 1]],)),
        Fixed(MaxPool((3, 3), stride=2, padding=1), (x,), [[5, 6], [8, 9]]),
        Fixed(MaxPool((3, 3), stride=2, padding=1), (-x,), [[-1, -2], [-4, -5]]),
        Fixed(AvgPool((3, 3), stride=2, padding=1), (x,), [[4 / 3, 16 / 9], [8 / 3, 28 / 9]], digits=15),
        Fixed(SmoothMaxPool((2, 2), stride=1, beta=0.5), (x,), smooth_value, ones, (smooth_pulled,), digits=9),
        Fixed(SmoothMaxPool((4,), beta=1), (row,), [4.440189698561], digits=12),
        Fixed(SmoothMaxPool((4,), beta=10), (row,), [4.000004540096], digits=12),
        Fixed(SmoothMaxPool((4,), beta=-1), (row,), [0.559810301439], digits=12),
        Fixed(SmoothMaxPool((4,), beta=1), (np.full(4, 2.0),), [3.386294361120], digits=12),
        Fixed(
            SmoothMaxPool((3,), stride=1, padding=1, beta=1),
            (np.array([1.0]),),
            [1.551444713932],
            np.ones(1),
            ([0.576116884766],),
            digits=12,
        ),
        Fixed(SmoothMaxPool((2,), beta=1e20), (far,), [1e20], np.ones(1), ([1, 0],)),
        Fixed(SmoothMaxPool((2,), beta=-1e20), (far,), [-1e20], np.ones(1), ([0, 1],)),
        Fixed(SmoothMaxPool((2,), beta=1e10), (np.array([1e300, -1e300]),), [1e300], np.ones(1), ([1, 0],)),
        Fixed(
            MaxPool((1,), stride=1, padding=1),
            (np.array([-4.0]),),
            [0, -4, 0],
            np.array([5.0, 7.0, 11.0]),
            ([7],),
        ),
        Fixed(MaxPool((2, 2), stride=1, padding=1), (channel,), [[-3, -3], [-3, -3]], ones, ([[4]],)),
        Fixed(GlobalMaxPool(2), (plane,), [[3]], np.array([[6.0]]), ([[0, 6], [6, 0]],)),
        Fixed(GlobalMaxPool(2, ties="split"), (plane,), [[3]], np.array([[6.0]]), ([[0, 3], [3, 0]],)),
        Fixed(GlobalMaxPool(2, ties="first"), (plane,), [[3]], np.array([[6.0]]), ([[0, 6], [0, 0]],)),
        Fixed(GlobalAvgPool(2), (plane,), [[2.25]], np.array([[6.0]]), ([[1.5, 1.5], [1.5, 1.5]],)),
        Fixed(AdaptiveAvgPool((3,)), (np.arange(1.0, 6.0),), [1.5, 3, 4.5]),
        Fixed(AdaptiveMaxPool((3,)), (np.arange(1.0, 6.0),), [2, 4, 5]),
        Fixed(
            ConvTranspose((2, 2), stride=2),
            (np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.ones((1, 1, 2, 2))),
            [[[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]],
        ),
        Fixed(
            Conv((2,), dilation=2, padding=((1, 0),), groups=2),
            (grouped, passing, np.array([1.0, 2.0, 3.0, 4.0])),
            [[3, 5, 7], [22, 42, 62], [203, 403, 603], [2004, 4004, 6004]],
        ),
        Fixed(MaxPool((2,)), (np.array([-math.inf, -math.inf]),), [-math.inf], np.ones(1), ([1, 0],)),
        Fixed(Linear(), (np.array([1.0, 2.0]), np.array([[3.0, 4.0]])), [11], np.ones(1), ([3, 4], [[1, 2]])),
        Fixed(Relu(), (np.array([-1.0, 0.0, 2.0]),), [0, 0, 2], np.ones(3), ([0, 0, 1],)),
        Fixed(Add(), (np.ones((2, 1)), np.ones(3)), [[2] * 3] * 2, np.ones((2, 3)), ([[3], [3]], [2, 2, 2])),
        Fixed(Sub(), (np.ones((2, 1)), np.ones(3)), [[0] * 3] * 2, np.ones((2, 3)), ([[3], [3]], [-2, -2, -2])),
        Fixed(Mul(), (row, np.array(2.0)), [2, 4, 6, 8], np.ones(4), ([2, 2, 2, 2], 10)),
        Fixed(Scale(3), (row,), [3, 6, 9, 12], np.ones(4), ([3, 3, 3, 3],)),
        Fixed(Reshape((2, -1)), (row,), [[1, 2], [3, 4]], ones, ([1, 1, 1, 1],)),
        Fixed(Detach(), (row,), row, np.ones(4), (None,)),
        Fixed(Sum(1), (x,), [6, 15, 24], np.array([1.0, 2.0, 3.0]), ([[1] * 3, [2] * 3, [3] * 3],)),
        Fixed(Mean(), (row,), 2.5, np.array(1.0), ([0.25] * 4,)),
        Fixed(
            LogSoftmax(),
            (np.array([1.0, 2.0, 3.0]),),
            [-2.407605964444, -1.407605964444, -0.407605964444],
            np.array([1.0, 0.0, 0.0]),
            ([0.909969426830, -0.244728471055, -0.665240955775],),
            digits=12,
        ),
        Fixed(
            CrossEntropy(),
            (np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), np.array([2, 0])),
            0.753109126556,
            np.array(1.0),
            ([[0.045015286585, 0.122364235527, -0.167379522113], [-1 / 3, 1 / 6, 1 / 6]], None),
            digits=12,
        ),
        Fixed(MseLoss(), (np.array([1.0, 3.0]), np.zeros(2)), 5, np.array(1.0), ([1, 3], [-1, -3])),
    ]


FIXED = _fixed()
