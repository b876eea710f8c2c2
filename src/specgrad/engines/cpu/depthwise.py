"""Convolution with one wide channel per group, by direct loops over planes: depthwise layers, and filters of single images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory import room
from .bilinear import BLOCKS, Plan
from .compiled import kernel
from .together import together

Array = npt.NDArray[Any]


def ranges(p: Plan, things: int) -> Array:
    """Tasks: ranges of so many things."""
    edges = np.linspace(0, things, (1 if p.is_small else min(4 * BLOCKS, things)) + 1).astype(np.int64)
    return np.stack([edges[:-1], edges[1:]], axis=1)


def correlate(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`narrow_of` for groups of one wide channel."""
    ints, size = p.depthwise_numbers()
    cells, kernels, added = wide.reshape(-1), weight.reshape(-1), nothing_or(bias, wide.dtype)

    rooms = ("cells", size, wide.dtype), ("places", int(ints[5]), np.dtype(np.int64))
    told = (cells, kernels, added, out.reshape(-1), p.table[0], ints)
    together("depthwise.correlate_planes", told, ranges(p, p.images * p.groups), *rooms)
    return out


def spread(p: Plan, narrow: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`wide_of` for groups of one wide channel: with a stride of 1 a convolution with the taps turned round."""
    turned = p.turned
    if turned is not None and p.narrow_channels == 1 and is_finite(weight):
        taps = weight.reshape(p.groups, -1)[:, ::-1]
        return correlate(turned, narrow, np.ascontiguousarray(taps), bias, out)
    ints, _ = p.depthwise_numbers()
    cells, kernels, added = narrow.reshape(-1), weight.reshape(-1), nothing_or(bias, narrow.dtype)
    rows, _, low, high, *_ = p.table

    told = (cells, kernels, added, out.reshape(-1), rows, ints, low, high)
    together("depthwise.spread_planes", told, ranges(p, p.images * p.groups))
    return out


def weigh(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """`weight_of` for groups of one wide channel."""
    ints, size = p.depthwise_numbers()

    rooms = ("cells", size, wide.dtype), ("places", int(ints[5]), np.dtype(np.int64))
    told = (wide.reshape(-1), narrow.reshape(-1), out.reshape(-1), p.images, p.table[0], ints)
    together("depthwise.weigh_planes", told, ranges(p, p.groups), *rooms)
    if np.isnan(out.min(initial=0)):  # vectors multiply infinite cells by zeros that stand for none: exact loops do not
        rows = out.reshape(p.groups, p.narrow_channels, p.wide_channels, -1, len(p.table[2]))
        out[...] = 0
        for group, image in itertools.product(range(p.groups), range(p.images)):
            kernel("columns.weigh")(wide[image, group], narrow[image, group], rows[group], 0, 1, *p.table)
    return out


def is_finite(weight: Array) -> bool:
    """Whether zeros may stand for padding."""
    return bool(np.isfinite(weight, out=room(weight.shape, np.dtype(np.bool_))).all())


def nothing_or(bias: Array | None, dtype: np.dtype[Any]) -> Array:
    """A bias as one flat array, empty where there is none."""
    return np.empty(0, dtype) if bias is None else np.ascontiguousarray(bias.reshape(-1))
