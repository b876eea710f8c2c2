"""SciPy's image filters as pooling: maximum_filter, uniform_filter and correlate, sampled at the
stride; forward only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from scipy import ndimage

from ...ops import AvgPool, Conv, GlobalAvgPool, GlobalMaxPool, MaxPool
from .shapes import fed, is_a, only, pairs, sizes_of

Array = np.ndarray[Any, Any]


class ScipyNdimage:
    """A filter over every plane. SciPy has no stride; it pads by a constant, here -inf or 0."""

    name = "scipy.ndimage"
    version = f"scipy {scipy.__version__}"
    conventions = ("empty window is -inf", "padding is multiplied")

    def forward(self, op: Any, inputs: tuple[Array, ...]) -> Array:
        only(all(a.dtype in (np.float32, np.float64) for a in inputs), f"{inputs[0].dtype}")
        only(op.spatial_rank() >= 1, "rank 0")
        x, *rest = inputs
        return np.asarray(fed(op, x, lambda t: self._planes(op, t, rest)))

    def _planes(self, op: Any, x: Array, rest: list[Array]) -> Array:
        spatial = tuple(range(2, x.ndim))
        if is_a(op, GlobalMaxPool | GlobalAvgPool):
            run = ndimage.maximum if is_a(op, GlobalMaxPool) else ndimage.mean
            values = [[run(plane) for plane in image] for image in x]
            return np.asarray(values, x.dtype).reshape(*x.shape[:2], *(1,) * len(spatial))
        only(is_a(op, MaxPool | AvgPool | Conv) and not getattr(op, "ceil_mode", False), f"{op.name} or ceil_mode")
        if is_a(op, Conv):
            return self._convolved(op, x, rest)
        if is_a(op, MaxPool):
            footprint = self._footprint(op)
            return self._each(
                op,
                x,
                lambda p, origin: ndimage.maximum_filter(
                    p, footprint=footprint, mode="constant", cval=-np.inf, origin=origin
                ),
            )
        only(
            all(d == 1 for d in op.dilation) and op.count_include_pad and op.divisor_override is None,
            "dilation, divisors of an average",
        )
        return self._each(
            op, x, lambda p, origin: ndimage.uniform_filter(p, op.kernel_size, mode="constant", cval=0.0, origin=origin)
        )

    def _footprint(self, op: Any) -> Array:
        extents = [d * (k - 1) + 1 for k, d in zip(op.kernel_size, op.dilation, strict=True)]
        footprint = np.zeros(extents, bool)
        footprint[tuple(slice(None, None, d) for d in op.dilation)] = True
        return footprint

    def _each(self, op: Any, x: Array, run: Any) -> Array:
        """Filter every plane, with windows that start `before` cells ahead of a cell, and keep
        every stride-th cell."""
        around = pairs(op, sizes_of(op, x))
        extents = [d * (k - 1) + 1 for k, d in zip(op.kernel_size, op.dilation, strict=True)]
        lengths = replace(op, axes=None).output_shape(x.shape)[2:]
        only(all(a + b < e for (a, b), e in zip(around, extents, strict=True)), "padding as large as the kernel")
        origin = [a - e // 2 for (a, _), e in zip(around, extents, strict=True)]
        read = tuple(slice(0, n * s, s) for n, s in zip(lengths, op.stride, strict=True))
        made = np.empty((*x.shape[:2], *lengths), x.dtype)
        for place in np.ndindex(*x.shape[:2]):
            made[place] = run(x[place], origin)[read]
        return made

    def _convolved(self, op: Any, x: Array, rest: list[Array]) -> Array:
        weight, *bias = rest
        only(x.shape[1] == weight.shape[1] == 1 and op.groups == 1, "several channels")
        footprint = self._footprint(op)
        made = []
        for kernel in weight[:, 0]:
            spread = np.zeros(footprint.shape, x.dtype)
            spread[footprint] = kernel.reshape(-1)
            single = Conv(op.kernel_size, stride=op.stride, padding=op.padding, dilation=op.dilation)
            made.append(self._filtered(single, x, spread))
        y = np.concatenate(made, axis=1)
        return y + bias[0].reshape(1, -1, *(1,) * (y.ndim - 2)) if bias else y

    def _filtered(self, op: Any, x: Array, spread: Array) -> Array:
        pool = MaxPool(op.kernel_size, stride=op.stride, padding=op.padding, dilation=op.dilation)
        return self._each(
            pool, x, lambda p, origin: ndimage.correlate(p, spread, mode="constant", cval=0.0, origin=origin)
        )


def subjects() -> list[Any]:
    return [ScipyNdimage()]
