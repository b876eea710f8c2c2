"""Convolution with one wide channel per group, by direct loops over planes: depthwise layers, and
filters of single images."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory import room
from . import columns
from .bilinear import Plan
from .codegen.builder import CELLS
from .codegen.thread_pool import Call, address
from .emitters import depthwise
from .limits import NEAR, VECTOR
from .steps import Step, compiled, power

Array = npt.NDArray[Any]


@functools.lru_cache(maxsize=256)
def over_planes(p: Plan, what: str, dtype: np.dtype[Any]) -> Step:
    """The kernel that makes the narrow cells, or the weight's cotangent, of (wide, narrow, weight,
    and a bias for the first)."""
    laid, stride, length, lanes = p.laid, p.table[4], p.table[1], VECTOR // dtype.itemsize
    own = power(lanes, length) if what == "correlate" else lanes
    how = depthwise.Depthwise(
        what, CELLS[dtype.name], p.table[0].shape[1], len(laid.places), stride, own, lanes if stride <= NEAR else 0
    )
    pitch = -(-length // lanes) * lanes
    sizes = {
        "images": p.images,
        "groups": p.groups,
        "channels": p.narrow_channels,
        "height_out": len(laid.lines),
        "length": length,
        "pitch": pitch,
        **{name: getattr(laid, name) for name in ("height", "width", "room", "left", "cells")},
        **{name: address(getattr(laid, name)) for name in ("lines", "places")},
    }
    items = p.groups if what == "weigh" else p.images * p.groups
    scratch = laid.cells + (len(laid.lines) * pitch if what == "weigh" else 0)
    call = Call(compiled(depthwise.emit, how), sizes, items, columns.grain(p, items), scratch * dtype.itemsize)
    return Step(call, (), "planes that are laid out, lanes along windows", (laid.lines, laid.places))


def correlate(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`narrow_of` for groups of one wide channel."""
    over_planes(p, "correlate", wide.dtype).call.on(
        wide, out, weight, zeros_or(bias, p.groups * p.narrow_channels, wide.dtype)
    )
    return out


def spread(p: Plan, narrow: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`wide_of` for groups of one wide channel: with a stride of 1 a convolution with the taps
    turned round."""
    turned = p.turned
    if turned is not None and p.narrow_channels == 1 and is_finite(weight):
        taps = weight.reshape(p.groups, -1)[:, ::-1]
        return correlate(turned, narrow, np.ascontiguousarray(taps), bias, out)
    columns.spread(p, narrow.dtype).call.on(out, narrow, weight, zeros_or(bias, p.groups, narrow.dtype))
    return out


def weigh(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """`weight_of` for groups of one wide channel."""
    over_planes(p, "weigh", wide.dtype).call.on(wide, narrow, out)
    if np.isnan(out.min(initial=0)):  # vectors multiply infinite cells by zeros that stand for none: exact loops do not
        kernels = out.reshape(p.groups, p.narrow_channels, -1)
        out[...] = 0
        for group, image in itertools.product(range(p.groups), range(p.images)):
            columns.weigh(p, wide[image, group], narrow[image, group], kernels[group], (0, 1))
    return out


def is_finite(weight: Array) -> bool:
    """Whether zeros may stand for padding."""
    return bool(np.isfinite(weight, out=room(weight.shape, np.dtype(np.bool_))).all())


def zeros_or(bias: Array | None, count: int, dtype: np.dtype[Any]) -> Array:
    """A bias as one flat array, zeros where there is none."""
    return np.zeros(count, dtype) if bias is None else np.ascontiguousarray(bias.reshape(-1))
