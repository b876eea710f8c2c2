"""Calls of the public functions for type checkers: `make lint` runs mypy on this file, a test runs
pyright."""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import specgrad as sg

Floats = npt.NDArray[np.float32]

x: Floats = np.ones((2, 3, 8, 8), np.float32)
w: Floats = np.ones((4, 3, 3, 3), np.float32)
asked: bool = bool(x.size)

assert_type(sg.max_pool(x, (2, 2)), Floats)
assert_type(sg.max_pool(x, (2, 2), stride=1, padding="same", ties="split"), Floats)
assert_type(sg.max_pool(x, (2, 2), return_indices=False), Floats)
assert_type(sg.max_pool(x, (2, 2), return_indices=True, padding=((1, 0), (0, 1))), tuple[Floats, Any])
assert_type(sg.max_pool(x, (2, 2), return_indices=asked), Floats | tuple[Floats, Any])
assert_type(sg.min_pool(x, (2, 2), return_indices=True), tuple[Floats, Any])
assert_type(sg.adaptive_max_pool(x, (2, None)), Floats)
assert_type(sg.adaptive_max_pool(x, (2, 2), return_indices=True), tuple[Floats, Any])
assert_type(sg.avg_pool(x, (3, 3), stride=2, padding=(1, 1), count_include_pad=False), Floats)
assert_type(sg.smooth_max_pool(x, (2, 2), beta=4), Floats)
assert_type(sg.global_avg_pool(x, 2, keepdims=False), Floats)
assert_type(sg.conv(x, w, stride=2), Floats)
assert_type(sg.linear(x, np.ones((5, 8), np.float32)), Floats)

assert_type(sg.max_pool2d(x, 2), Floats)
assert_type(sg.max_pool2d(x, 2, return_indices=True), tuple[Floats, Any])
assert_type(sg.adaptive_max_pool2d(x, None, return_indices=True), tuple[Floats, Any])
assert_type(sg.avg_pool2d(x, (2, 2)), Floats)
assert_type(sg.global_max_pool2d(x, ties="first"), Floats)
assert_type(sg.conv2d(x, w, None), Floats)

sg.max_pool(x, 2)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
sg.max_pool(x, (2, 2), kernel=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
sg.smooth_max_pool(x, (2, 2))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
sg.avg_pool2d(x, 2, divisor_override=0.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

op = sg.MaxPool((2, 2), stride=2, ties="all")
assert_type(op.ties, str)
assert_type(op(x), Any)
assert_type(sg.AvgPool((2, 2)).divisor_override, int | None)
sg.SmoothMaxPool((2, 2))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
sg.MaxPool((2, 2), stride=1, rank=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
sg.MaxPool((2, 2), ties=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
op.ties = "first"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
