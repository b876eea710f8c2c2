"""Maxima whose ties share, ties "all" and "split": windows that share no cell by comparing whole
arrays, others by weights."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...geometry import Shape, Sliding
from . import weighted
from .axes import even

Array = npt.NDArray[Any]


class Blocks(NamedTuple):
    """An array cut into the cells of its windows: batch axes, then for each axis the windows and
    the cells of one."""

    op: Any
    given: Shape
    order: tuple[int, ...]
    cut: tuple[slice, ...]
    blocks: Shape
    within: tuple[int, ...]
    """The axes of `blocks` along which a window's cells lie."""
    shape: Shape

    def of_cells(self, array: Array) -> Array:
        """An array of the operand's shape, in blocks."""
        return array.reshape(self.given).transpose(self.order)[self.cut].reshape(self.blocks)

    def of_windows(self, array: Array) -> Array:
        """An array of the result's shape, to be broadcast over blocks."""
        lengths = tuple(1 if axis in self.within else n for axis, n in enumerate(self.blocks))
        full = [n for axis, n in enumerate(self.blocks) if axis not in self.within]
        back = np.argsort(self.order)
        return array.reshape([full[p] for p in back]).transpose(self.order).reshape(lengths)

    def back(self, windows: Array) -> Array:
        """What `of_windows` undoes."""
        full = [n for axis, n in enumerate(self.blocks) if axis not in self.within]
        return windows.reshape(full).transpose(np.argsort(self.order)).reshape(self.shape)


class Kept(NamedTuple):
    """Where cells tie with their window's value, and among how many a cotangent is split."""

    blocks: Blocks
    tied: Array
    sharers: Array | None
    dtype: np.dtype[Any]


@functools.lru_cache(maxsize=256)
def blocks_of(op: Any, given: Shape) -> Blocks | None:
    """How windows that lie side by side cut an array; None for others."""
    positions = op.positions(given)
    axes = [even(axis) for axis in op.spatial(tuple(given[p] for p in positions))]
    if not axes:
        return None
    for axis in axes:
        if not isinstance(axis, Sliding) or axis.stride != axis.kernel or axis.before or axis.dilation > 1:
            return None
        if axis.length * axis.kernel > axis.size:
            return None
    batch = tuple(p for p in range(len(given)) if p not in positions)
    sizes = [(axis.length, axis.kernel) for axis in axes if isinstance(axis, Sliding)]
    cut = (slice(None),) * len(batch) + tuple(slice(0, n * k) for n, k in sizes)
    shape = tuple(given[p] for p in batch) + tuple(n for pair in sizes for n in pair)
    within = tuple(len(batch) + 2 * i + 1 for i in range(len(sizes)))
    return Blocks(op, given, batch + positions, cut, shape, within, op.output_shape(given))


def keep(op: Any, x: Array, value: Array) -> Any:
    """What the derivatives keep; None where only the specification knows."""
    dtype = x.dtype.newbyteorder("=")
    if not x.size or not value.size:
        return None
    blocks = blocks_of(op, x.shape)
    how = weighted.weighted_of(op, x.shape, dtype)
    small = math.prod(getattr(op, "kernel_size", x.shape)) <= weighted.AT_ONCE
    if how is not None and (blocks is None or small):
        return weighted.keep_ties(how, x, value)
    if blocks is None:
        return None
    cells, greatest = blocks.of_cells(x), blocks.of_windows(value)
    tied = cells == greatest
    if dtype.kind not in "iu":
        tied |= (cells != cells) & (greatest != greatest)
    sharers = tied.sum(axis=blocks.within, keepdims=True) if op.ties == "split" else None
    return Kept(blocks, tied, sharers, dtype)


def push(kept: Kept, dx: Array, out: Array | None = None) -> Array:
    """dy: the tangents of tied cells, or their mean."""
    blocks, tied, sharers, dtype = kept
    wide = np.float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    terms = np.zeros(blocks.blocks, wide)  # in one order, however tangents lie, so that sums have the same bits
    np.copyto(terms, blocks.of_cells(dx), where=tied)
    total = terms.sum(axis=blocks.within, keepdims=True)
    return _delivered(blocks.back(total if sharers is None else total / sharers), dtype, out)


def pull(kept: Kept, gy: Array, out: Array | None = None) -> Array:
    """gx: the cotangent of its window at each tied cell, or its share."""
    blocks, tied, sharers, dtype = kept
    share = blocks.of_windows(gy) + dtype.type(0)  # a sum of one, which is no -0.0
    if sharers is not None:
        wide = np.float32 if dtype.itemsize == 2 else dtype
        share = (share.astype(wide) / sharers.astype(wide)).astype(dtype)
    gx = np.zeros(blocks.given, dtype) if out is None else out
    if out is not None:
        gx[...] = 0
    turned = gx.transpose(blocks.order)[blocks.cut]
    turned[...] = np.where(tied, share, np.zeros((), dtype)).reshape(turned.shape)
    return gx


def _delivered(found: Array, dtype: np.dtype[Any], out: Array | None) -> Array:
    if out is None:
        return found.astype(dtype, copy=False)
    np.copyto(out, found, casting="unsafe")
    return out
