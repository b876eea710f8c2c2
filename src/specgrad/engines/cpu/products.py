"""Convolution, transposed convolution and linear maps by products of matrices over tiles that stay
in cache.

Three products serve both operators, value and derivatives. With the weight of a group as a matrix W
(narrow channels × columns) and P the columns of a tile of narrow cells (see `emitters.columns`):

    narrow = W P          conv's value; conv_transpose's input cotangent
    wide   = fold(Wᵀ N)   conv's input cotangent; conv_transpose's value
    weight = N Pᵀ         both weight cotangents

where N are the tile's narrow cells. Only a tile's columns exist at a time, at most `TILE_BYTES` of
them per thread; 1×1 kernels need none, and groups of one channel run direct loops instead
(`depthwise`). Zeros that stand for padding are multiplied here; where a factor is not finite,
direct loops skip them instead.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import threads
from . import columns
from .bilinear import BLOCKS, Plan, blocks
from .blas import as_many_threads, one_thread_each
from .columns import Range
from .depthwise import correlate, is_finite, spread, weigh
from .operands import scratch as at_hand

Array = npt.NDArray[Any]


def scratch(name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """A matrix of this thread that is reused from task to task; its contents are whatever was left
    there."""
    cells = shape[0] * shape[1]
    return at_hand(name, cells, dtype)[:cells].reshape(shape)


def run(p: Plan, work: Any, tasks: list[Any]) -> None:
    """Do all tasks with one BLAS thread each: on this thread if they are small, else on all of
    them."""
    quiet = np.errstate(all="ignore")(work)  # each thread has an error state of its own
    with one_thread_each():
        if p.is_small:
            for task in tasks:
                quiet(task)
        else:
            threads.run(quiet, tasks)


def packed(p: Plan, wide: Array, group: int, images: Range, channels: Range, cells: Range) -> Array:
    """The columns of some narrow cells of several images, side by side, for some of the wide
    channels."""
    shape = (channels[1] - channels[0]) * p.taps, (images[1] - images[0]) * (cells[1] - cells[0])
    made = scratch("columns", shape, wide.dtype)
    columns.pack(p, wide, made, group, images, channels, cells)
    return made


def gathered(p: Plan, narrow: Array, group: int, first: int, last: int) -> Array:
    """The narrow cells of several images, side by side."""
    cells = scratch("narrow", (p.narrow_channels, (last - first) * p.narrow_cells), narrow.dtype)
    cells.reshape(p.narrow_channels, last - first, -1)[...] = narrow[first:last, group].transpose(1, 0, 2)
    return cells


@np.errstate(all="ignore")
def narrow_of(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """out[image, group] = W · columns(wide[image, group]) + bias."""
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    finite = not p.padded or is_finite(weight)
    if p.wide_channels == 1 and finite and not p.single:
        return correlate(p, wide, weight, bias, out)
    direct = not finite
    added = None if bias is None else bias.reshape(p.groups, p.narrow_channels, 1)
    if p.single:
        with as_many_threads():
            for group in range(p.groups):
                np.matmul(wide[:, group, :, 0], matrix[group].T, out=out[:, group, :, 0])
        if added is not None:
            out += added
        return out

    def work(task: tuple[int, int, int, int]) -> None:
        image, group, start, stop = task
        target = out[image, group, :, start:stop]
        if direct:
            target[...] = 0 if added is None else added[group]
            columns.correlate(p, wide[image, group], matrix[group], target)
            return
        if p.pointwise:
            cells = wide[image, group, :, start:stop]
        else:
            cells = packed(p, wide, group, (image, image + 1), (0, p.wide_channels), (start, stop))
        np.matmul(matrix[group], cells, out=target)
        if added is not None:
            target += added[group]

    def of_several(task: tuple[int, int, int]) -> None:
        group, first, last = task
        cells = packed(p, wide, group, (first, last), (0, p.wide_channels), (0, p.narrow_cells))
        product = scratch("product", (p.narrow_channels, cells.shape[1]), wide.dtype)
        np.matmul(matrix[group], cells, out=product)
        if added is not None:
            product += added[group]
        out[first:last, group] = product.reshape(p.narrow_channels, last - first, -1).transpose(1, 0, 2)

    batches = p.batches(p.columns, wide.itemsize)
    if len(batches) < p.images and not direct:
        run(p, of_several, [(g, *batch) for g, batch in itertools.product(range(p.groups), batches)])
        return out
    tiles = [(0, p.narrow_cells)] if direct else p.tiles(p.columns, wide.itemsize)
    run(p, work, [(i, g, *tile) for i, g, tile in itertools.product(range(p.images), range(p.groups), tiles)])
    return out


@np.errstate(all="ignore")
def wide_of(p: Plan, narrow: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """out[image, group] = Wᵀ · narrow[image, group], every column cell added to the cell it was
    read from, + bias."""
    direct = p.wide_channels == 1
    if direct and not p.single:
        return spread(p, narrow, weight, bias, out)
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    added = None if bias is None else bias.reshape(p.groups, p.wide_channels, 1)
    if p.single:
        with as_many_threads():
            for group in range(p.groups):
                np.matmul(narrow[:, group, :, 0], matrix[group], out=out[:, group, :, 0])
        if added is not None:
            out += added
        return out

    def work(task: tuple[int, int, int, int]) -> None:
        image, group, first, last = task
        target = out[image, group, first:last]
        if p.pointwise:
            np.matmul(matrix[group, :, first:last].T, narrow[image, group], out=target)
            if added is not None:
                target += added[group, first:last]
            return
        target[...] = 0 if added is None else added[group, first:last]
        turned = matrix[group, :, first * p.taps : last * p.taps].T
        for start, stop in p.tiles(turned.shape[0], narrow.itemsize):
            cells = scratch("columns", (turned.shape[0], stop - start), narrow.dtype)
            np.matmul(turned, narrow[image, group, :, start:stop], out=cells)
            columns.unpack(p, cells, out, group, (image, image + 1), (first, last), (start, stop))

    def of_several(task: tuple[int, int, int]) -> None:
        group, first, last = task
        cells = scratch("columns", (p.columns, (last - first) * p.narrow_cells), narrow.dtype)
        np.matmul(matrix[group].T, gathered(p, narrow, group, first, last), out=cells)
        out[first:last, group] = 0 if added is None else added[group]
        columns.unpack(p, cells, out, group, (first, last), (0, p.wide_channels), (0, p.narrow_cells))

    batches = p.batches(p.columns, narrow.itemsize)
    if len(batches) < p.images:
        run(p, of_several, [(g, *batch) for g, batch in itertools.product(range(p.groups), batches)])
        return out

    # whole images where there are enough of them, since wider products are better ones
    whole = p.images * p.groups >= BLOCKS or p.is_small
    parts = [(0, p.wide_channels)] if whole else blocks(p.wide_channels)
    run(p, work, [(i, g, *block) for i, g, block in itertools.product(range(p.images), range(p.groups), parts)])
    return out


@np.errstate(all="ignore")
def weight_of(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """out[group] = Σ over images and tiles of N · columns(wide)ᵀ."""
    matrix = out.reshape(p.groups, p.narrow_channels, p.columns)
    if p.single:
        with as_many_threads():
            for group in range(p.groups):
                np.matmul(narrow[:, group, :, 0].T, wide[:, group, :, 0], out=matrix[group])
        return out
    if p.wide_channels == 1:
        return weigh(p, wide, narrow, out)
    out[...] = 0

    def directly(task: tuple[int, int, int]) -> None:
        group, first, last = task
        matrix[group, :, first * p.taps : last * p.taps] = 0
        for image in range(p.images):
            columns.weigh(p, wide[image, group], narrow[image, group], matrix[group], (first, last))

    def work(task: tuple[int, int, int]) -> None:
        group, first, last = task
        height = (last - first) * p.taps
        target = matrix[group, :, first * p.taps : last * p.taps]
        product = scratch("product", (p.narrow_channels, height), wide.dtype)
        for image, (start, stop) in itertools.product(range(p.images), p.tiles(height, wide.itemsize)):
            cells = packed(p, wide, group, (image, image + 1), (first, last), (start, stop))
            np.matmul(narrow[image, group, :, start:stop], cells.T, out=product)
            target += product

    def of_several(task: tuple[int, int, int]) -> None:
        group, first, last = task
        height = (last - first) * p.taps
        target = matrix[group, :, first * p.taps : last * p.taps]
        product = scratch("product", (p.narrow_channels, height), wide.dtype)
        for start, stop in batches:
            cells = packed(p, wide, group, (start, stop), (first, last), (0, p.narrow_cells))
            np.matmul(gathered(p, narrow, group, start, stop), cells.T, out=product)
            target += product

    def of_points(task: tuple[int, int, int]) -> None:
        group, first, last = task
        target = matrix[group, first:last]
        product = scratch("product", (last - first, p.columns), wide.dtype)
        for image, (start, stop) in itertools.product(range(p.images), p.tiles(p.columns, wide.itemsize)):
            np.matmul(narrow[image, group, first:last, start:stop], wide[image, group, :, start:stop].T, out=product)
            target += product

    if p.pointwise:  # cut by narrow channels: wide ones may be few, and no columns are packed again for it
        run(p, of_points, [(g, *block) for g, block in itertools.product(range(p.groups), blocks(p.narrow_channels))])
        return out
    parts = blocks(p.wide_channels)
    if p.is_small:  # one thread, one block
        parts = [(0, p.wide_channels)]
    batches = p.batches((parts[0][1] - parts[0][0]) * p.taps, wide.itemsize)
    tasks = [(g, *block) for g, block in itertools.product(range(p.groups), parts)]
    run(p, of_several if len(batches) < p.images else work, tasks)
    if p.padded and np.isnan(out.min(initial=0)):
        run(p, directly, tasks)
    return out
