"""JAX's harness cases of reduce_window and conv_general_dilated that are pooling or convolution."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ...ops import AvgPool, Conv, MaxPool
from . import Judge, NotExpressible, agreement

Array = np.ndarray[Any, Any]

VERSION = f"jax {jax.__version__}"


def cases() -> Iterator[tuple[str, Judge]]:
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")
        known: Any = importlib.import_module("jax._src.internal_test_util.test_harnesses").all_harnesses
        for harness in known:
            if harness.params.get("enable_xla") is False:
                continue  # the same case for another back end
            pool = "window_dimensions" in harness.params and "computation" in harness.params
            if pool or ("lhs_shape" in harness.params and "rhs_dilation" in harness.params):
                yield harness.fullname, functools.partial(difference, harness, pool)


def difference(harness: Any, pool: bool) -> str | None:
    dtype = np.dtype(harness.dtype)
    if dtype.kind == "b" or (pool and dtype.kind == "c"):
        raise NotExpressible(f"{'pooling' if pool else 'convolution'} of {dtype.name}")
    op, scale = windowed(harness.params, dtype) if pool else convolution(harness.params)
    arguments = harness.dyn_args_maker(np.random.RandomState(0))
    operands = tuple(np.asarray(a) for a in arguments[: 1 if pool else 2])
    if pool and scale and operands[0].dtype.kind in "iu":
        raise NotExpressible("sums of integers")
    expected = np.asarray(harness.dyn_fun(*arguments))
    if not expected.size:
        raise NotExpressible("windows that do not fit: JAX answers with nothing, specgrad refuses")
    numbers = None if pool else harness.params["dimension_numbers"]
    if numbers is not None:
        x, weight = (_laid_out(a, letters, numbers) for a, letters in zip(operands, numbers[:2], strict=True))
        operands, expected = (x, weight), _laid_out(expected, numbers[2], numbers)
    return agreement(op, operands, expected)


def _pairs(padding: Any) -> Any:
    return padding.lower() if isinstance(padding, str) else tuple(tuple(int(p) for p in pair) for pair in padding)


def _spatial(numbers: Any) -> list[str]:
    """The letters of the spatial axes in the kernel's order, which strides and paddings follow."""
    return [letter for letter in numbers[1] if letter not in "OI"]


def _laid_out(array: Array, letters: str, numbers: Any) -> Array:
    """An array with its two other axes before the spatial axes: batch and channels, or a kernel's
    output and input channels."""
    first = "NC" if "N" in letters else "OI"
    return np.transpose(array, [letters.index(letter) for letter in (*first, *_spatial(numbers))])


def windowed(words: dict[str, Any], dtype: np.dtype[Any]) -> tuple[Any, bool]:
    """A maximum, or a sum as an average with a divisor of 1; windows over all axes."""
    name = words["computation"].__name__
    start = float(words["init_value"])
    if any(d != 1 for d in words["base_dilation"]):
        raise NotExpressible("base_dilation")
    shape: dict[str, Any] = {
        "kernel_size": tuple(words["window_dimensions"]),
        "stride": tuple(words["window_strides"]),
        "padding": _pairs(words["padding"]),
        "dilation": tuple(words["window_dilation"]),
    }
    lowest = -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min
    if name == "max" and start == lowest:
        return MaxPool(**shape), False
    if name == "add" and start == 0:
        return AvgPool(**shape, divisor_override=1), True
    raise NotExpressible(
        f"reduce_window of {name} from {start:g}" if name in ("max", "add") else f"reduce_window of {name}"
    )


def convolution(words: dict[str, Any]) -> tuple[Any, bool]:
    numbers = words["dimension_numbers"]
    if numbers is not None and not all(isinstance(letters, str) for letters in numbers):
        raise NotExpressible("axes that are numbered")
    if words["preferred_element_type"] is not None:
        raise NotExpressible("preferred_element_type")
    if any(d != 1 for d in words["lhs_dilation"]) or words["batch_group_count"] != 1:
        raise NotExpressible("lhs_dilation or batch_group_count")
    kernel = tuple(words["rhs_shape"])[2:]
    if numbers is not None:
        kernel = tuple(words["rhs_shape"][numbers[1].index(letter)] for letter in _spatial(numbers))
    return (
        Conv(
            kernel,
            stride=tuple(words["window_strides"]),
            padding=_pairs(words["padding"]),
            dilation=tuple(words["rhs_dilation"]),
            groups=words["feature_group_count"],
        ),
        False,
    )
