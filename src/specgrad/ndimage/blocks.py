"""`block_reduce` of scikit-image: each block of an image is reduced to one number."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arguments as checks
from ..errors import ArgumentError, refusal
from ..functional import avg_pool
from .arguments import Array, FilterTypeError, array_of
from .extremum import pooled


def block_reduce(
    image: Any,
    block_size: Any = 2,
    func: Callable[..., Any] = np.sum,
    cval: Any = 0,
    func_kwargs: dict[str, Any] | None = None,
) -> Array:
    """`func` of each block, as `skimage.measure.block_reduce`.

    Blocks that reach beyond the image are filled with `cval`. np.max, np.min and, of floats,
    np.mean are pooling; any other function runs on the blocks themselves.
    """
    name = "block_reduce"
    x = array_of(name, "image", image)
    if x.dtype.kind not in "biufc":
        raise refusal(FilterTypeError, name, "image", x, f"data type not supported: {x.dtype}", "cast to a number type")
    if not callable(func):
        raise refusal(ArgumentError, name, "func", func, "must be a function of an array and axis", "give e.g. np.max")
    if not isinstance(func_kwargs, dict | None):
        rule = f"must be a dict of keyword arguments, got {type(func_kwargs).__name__}"
        raise refusal(ArgumentError, name, "func_kwargs", func_kwargs, rule, 'write e.g. {"dtype": np.float64}')
    if not isinstance(cval, numbers.Number | np.bool_):
        rule = f"must be a number, got {type(cval).__name__}"
        raise refusal(FilterTypeError, name, "cval", cval, rule, "write a number")
    sizes = checks.per_axis(name, "block_size", block_size, x.ndim, 1)
    filling: Any = cval
    short = [-n % size for n, size in zip(x.shape, sizes, strict=True)]
    try:
        wide = np.pad(x, [(0, more) for more in short], constant_values=filling) if any(short) else x
    except (OverflowError, ValueError):
        raise refusal(ArgumentError, name, "cval", cval, f"{x.dtype} does not have it", "cast the image") from None
    if not func_kwargs and wide.size and wide.ndim:
        if func in (np.max, np.min) and wide.dtype.kind in "iuf" and wide.dtype.itemsize <= 8:
            return pooled(wide, sizes, func is np.min)
        if func is np.mean and wide.dtype in (np.float32, np.float64):
            return np.asarray(avg_pool(wide, sizes))
    blocks = wide.reshape([part for n, size in zip(wide.shape, sizes, strict=True) for part in (n // size, size)])
    return np.asarray(func(blocks, axis=tuple(range(1, blocks.ndim, 2)), **(func_kwargs or {})))
