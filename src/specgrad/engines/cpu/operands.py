"""Arrays in the form that kernels use: contiguous cells of shape (planes, *spatial, inner).

`inner` are the batch axes that come after all spatial axes in memory (channels-last), `planes` the
other batch axes. An array that is contiguous in some order of its axes is used without a copy, and
its result has the same order; any other array is copied.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ...geometry import Axis, Shape
from ...memory import Array, empty, room
from .codegen.values import CELLS, Cell


class Layout(NamedTuple):
    """In which order the axes of an array lie, and its shape in that order: planes, spatial axes,
    inner cells."""

    order: tuple[int, ...]
    outer: int
    """How many axes stand before the spatial ones."""
    shape: Shape
    spatial: tuple[int, ...]
    """The spatial axes of the array, in the order in which they lie."""

    @property
    def planes(self) -> int:
        return math.prod(self.shape[: self.outer])

    @property
    def inner(self) -> int:
        return math.prod(self.shape[self.outer + len(self.spatial) :])

    @property
    def back(self) -> tuple[int, ...]:
        """The order of axes that turns what lies so into what was given."""
        return back_of(self.order)

    def cells(self, array: Array, lengths: Shape, dtype: np.dtype[Any]) -> Array:
        """The cells of an array that has these lengths in this order, copied if they do not lie so;
        dtype is in this machine's order of bytes."""
        if array.shape != lengths or not is_sorted(self.order):
            array = array.reshape([lengths[p] for p in self.back]).transpose(self.order)
        flags = array.flags
        if array.dtype == dtype and flags.c_contiguous and flags.aligned:
            return array
        copy = room(array.shape, dtype)
        np.copyto(copy, array, casting="unsafe")
        return copy

    def of_output(self, axes: tuple[Axis, ...]) -> Shape:
        """The shape of windows over the spatial axes, in this order."""
        rank = len(self.spatial)
        return (*self.shape[: self.outer], *(axis.length for axis in axes), *self.shape[self.outer + rank :])


@functools.lru_cache(maxsize=512)
def back_of(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order of axes that undoes another."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


@functools.lru_cache(maxsize=512)
def layout_of(shape: Shape, steps: Shape, positions: tuple[int, ...], any_order: bool) -> Layout:
    """How an array of these strides is taken; `any_order` lets the spatial axes stand as they
    lie."""
    spatial = sorted(positions, key=lambda p: -abs(steps[p])) if any_order else list(positions)
    nearest = min((abs(steps[p]) for p in spatial if shape[p] > 1), default=0)
    batch = sorted((p for p in range(len(shape)) if p not in positions), key=lambda p: -abs(steps[p]))
    tail = [p for p in batch if shape[p] > 1 and abs(steps[p]) < nearest]
    outer = [p for p in batch if p not in tail]
    order = (*outer, *spatial, *tail)
    return Layout(order, len(outer), tuple(shape[p] for p in order), tuple(spatial))


@functools.cache
def cell_of(dtype: np.dtype[Any]) -> Cell | None:
    """The cells of a dtype, or None if kernels do not take them."""
    return CELLS.get(dtype.name)


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same numbers in this machine's order of bytes."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


@functools.lru_cache(maxsize=512)
def is_sorted(order: tuple[int, ...]) -> bool:
    """Whether axes stand in the order in which they were given."""
    return all(a < b for a, b in itertools.pairwise(order))


def result_in(
    layout: Layout, lengths: Shape, shape: Shape, dtype: np.dtype[Any], out: Array | None
) -> tuple[Array, Array]:
    """Memory for a result in the order of a layout, of these lengths, and the array of that shape
    that it makes up: `out` if it lies so."""
    if out is not None and out.dtype.isnative and out.flags.aligned and out.flags.writeable:
        if out.flags.c_contiguous and is_sorted(layout.order):
            return out if lengths == shape else out.reshape(lengths), out
        given = tuple(lengths[p] for p in layout.back)
        as_laid = out.reshape(given).transpose(layout.order)
        if as_laid.flags.c_contiguous and np.may_share_memory(as_laid, out):
            return as_laid, out
    memory = empty(lengths, dtype)
    if is_sorted(layout.order):
        return memory, memory if lengths == shape else memory.reshape(shape)
    return memory, memory.transpose(layout.back).reshape(shape)


def handed_over(result: Array, out: Array | None) -> Array:
    """The result, in `out` where one was given, rounded if need be."""
    if out is None or out is result:
        return result
    with np.errstate(all="ignore"):  # a half float overflows to infinity, as everywhere
        np.copyto(out, result, casting="unsafe")
    return out


def is_plain_array(direction: Any) -> bool:
    """Whether a tangent or cotangent is an array of plain numbers, not of Duals or other
    objects."""
    return isinstance(direction, np.ndarray) and direction.dtype != object


@functools.cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether these are floats that kernels compute in, or halves that they widen."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64") and dtype.isnative
