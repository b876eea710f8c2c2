"""Convolution with one wide channel per group, by direct loops over planes: depthwise layers, and filters of single images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import threads
from ...memory import room
from .bilinear import BLOCKS, Plan
from .cells import scratch
from .compiled import kernel

Array = npt.NDArray[Any]


def in_parts(p: Plan, things: int, work: Any) -> None:
    """Call work(tasks, counter) on all threads; tasks are ranges of so many things."""
    parts = 1 if p.is_small else min(4 * BLOCKS, things)
    edges = np.linspace(0, things, parts + 1).astype(np.int64)
    tasks, counter = np.stack([edges[:-1], edges[1:]], axis=1), np.zeros(1, np.int64)
    threads.share(lambda: work(tasks, counter), parts)


def correlate(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`narrow_of` for groups of one wide channel."""
    ints, size = p.depthwise_numbers()
    cells, kernels, added = wide.reshape(-1), weight.reshape(-1), nothing_or(bias, wide.dtype)

    def work(tasks: Array, counter: Array) -> None:
        room, places = (
            scratch("cells", size, wide.dtype),
            scratch("places", int(ints[5]), np.dtype(np.int64)),
        )
        kernel("depthwise.correlate_planes")(
            cells, kernels, added, out.reshape(-1), p.table[0], ints, tasks, counter, room, places
        )

    in_parts(p, p.images * p.groups, work)
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

    def work(tasks: Array, counter: Array) -> None:
        kernel("depthwise.spread_planes")(cells, kernels, added, out.reshape(-1), rows, ints, low, high, tasks, counter)

    in_parts(p, p.images * p.groups, work)
    return out


def weigh(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """`weight_of` for groups of one wide channel."""
    ints, size = p.depthwise_numbers()

    def work(tasks: Array, counter: Array) -> None:
        room, places = scratch("cells", size, wide.dtype), scratch("places", int(ints[5]), np.dtype(np.int64))
        kernel("depthwise.weigh_planes")(
            wide.reshape(-1),
            narrow.reshape(-1),
            out.reshape(-1),
            p.images,
            p.table[0],
            ints,
            tasks,
            counter,
            room,
            places,
        )

    in_parts(p, p.groups, work)
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
