"""Convolution, transposed convolution and linear maps by products of matrices over tiles that stay in cache.

Three products serve both operators, value and derivatives. With the weight of a group as a matrix W (narrow channels × columns) and
P the columns of a tile of narrow cells (see `kernels.columns`):

    narrow = W P          conv's value; conv_transpose's input cotangent
    wide   = fold(Wᵀ N)   conv's input cotangent; conv_transpose's value
    weight = N Pᵀ         both weight cotangents

where N are the tile's narrow cells. Only a tile's columns exist at a time, at most `TILE_BYTES` of them per thread; 1×1
kernels need none, and groups of one channel (depthwise) run direct loops instead. Tasks do not depend on the number of threads, so
neither do the bits. Zeros that stand for padding are multiplied here; where a factor is not finite, direct loops skip them instead.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import threads
from ...dispatch import check_out, write
from ...geometry import Integers, Shape, Sliding
from ...ops.conv import Bilinear, ConvTranspose
from ...scalars.floats import admitted
from .. import reference
from .blas import as_many_threads, one_thread_each
from .cells import is_plain_array
from .cells import scratch as at_hand
from .compiled import kernel
from .plan import VECTOR

TAKES = "convolution, transposed convolution and linear maps of NumPy arrays: float64, float32, float16 and bfloat16"

Array = npt.NDArray[Any]

TILE_BYTES = 1 << 21  # columns of a tile, per thread: wide enough for good products, small enough for the caches
LEAST_TILE = 96  # narrower tiles make poor products
SMALL = 1 << 21  # multiplications below which a call stays on its thread
PIECES = 4  # into how many parts a batch of small images is cut at least
BLOCKS = 8  # into how many blocks of channels a cotangent's work is cut, where it cannot be cut by images


@dataclass(frozen=True, eq=False)
class Plan:
    """The numbers of one call: how many images, groups and channels, and where the taps of narrow cells lie."""

    images: int
    groups: int
    wide_channels: int  # per group
    narrow_channels: int  # per group
    wide_cells: int
    narrow_cells: int
    taps: int
    axes: tuple[tuple[Sliding, int], ...]
    padded: bool

    @functools.cached_property
    def table(self) -> tuple[Any, ...]:
        """rows, length, low, high, stride, before, dilation, joined: the trailing arguments of the kernels of `columns`."""
        return _table(self.axes)

    @functools.cached_property
    def turned(self) -> Plan | None:
        """The plan by which wide cells are made of narrow ones, where strides are 1: a convolution with the taps turned round."""
        if any(axis.stride != 1 for axis, _ in self.axes):
            return None
        axes = tuple((replace_axis(axis, length), axis.size) for axis, length in self.axes)
        return replace(self, axes=axes, wide_cells=self.narrow_cells, narrow_cells=self.wide_cells)

    def depthwise_numbers(self) -> tuple[Integers, int]:
        """What the kernels of `depthwise` are told, and their scratch."""
        rows, length, low, _, stride, before, dilation, _ = self.table
        taps, width = len(low), self.axes[-1][0].size if self.axes else 1
        left = max(before, taps * dilation) // stride + 2
        room = 2 * left + max(length, width // stride + 1) + 2 * VECTOR
        height = self.wide_cells // width
        numbers = [self.groups, self.narrow_channels, length, width, height, taps, stride, before, dilation, room, left]
        return np.array(numbers), height * stride * room + len(rows) * (length + VECTOR) + 8 * VECTOR

    @property
    def pointwise(self) -> bool:
        """Whether the wide cells themselves are the columns."""
        return self.taps == 1 and not self.padded and self.wide_cells == self.narrow_cells

    @property
    def single(self) -> bool:
        """Whether images have one cell (linear maps), so that all images together make one product."""
        return self.pointwise and self.narrow_cells == 1

    @property
    def columns(self) -> int:
        """The height of a tile's columns."""
        return self.wide_channels * self.taps

    def tiles(self, height: int, itemsize: int) -> list[tuple[int, int]]:
        """Cut the narrow cells into tiles of which `height` rows stay in cache."""
        width = max(LEAST_TILE, TILE_BYTES // max(1, height * itemsize))
        count = max(1, -(-self.narrow_cells // width))
        width = -(-self.narrow_cells // count)
        return [(start, min(start + width, self.narrow_cells)) for start in range(0, self.narrow_cells, max(1, width))]

    def place(self, group: int, images: tuple[int, int], channels: tuple[int, int]) -> tuple[int, ...]:
        """Where some images begin for some channels of a group, how far apart they lie, how many there are, of how many channels and cells."""
        apart = self.groups * self.wide_channels * self.wide_cells
        base = images[0] * apart + (group * self.wide_channels + channels[0]) * self.wide_cells
        return base, apart, images[1] - images[0], channels[1] - channels[0], self.wide_cells

    def batches(self, height: int, itemsize: int) -> list[tuple[int, int]]:
        """Ranges of images, as many as make one tile where their cells are few; else each by itself."""
        width = max(LEAST_TILE, TILE_BYTES // max(1, height * itemsize))
        shares = 1 if self.work() < SMALL else PIECES  # never the number of threads, on which no bit may depend
        some = max(1, min(width // max(1, self.narrow_cells), -(-self.images // shares)))
        return [(i, min(i + some, self.images)) for i in range(0, self.images, some)]

    def work(self) -> int:
        """Multiplications of a whole product."""
        return self.images * self.groups * self.narrow_channels * self.columns * self.narrow_cells


def blocks(channels: int) -> list[tuple[int, int]]:
    """Cut channels into blocks that different threads may own."""
    width = -(-channels // BLOCKS)
    return [(c, min(c + width, channels)) for c in range(0, channels, width)]


@functools.lru_cache(maxsize=256)
def plan(op: Bilinear, x: Shape, weight: Shape) -> Plan:
    """The plan for operands of these shapes."""
    kernel, groups = op.weight_kernel()
    rank = len(kernel)
    axes = op.sliding(x[len(x) - rank :])
    wide, narrow = tuple(axis.size for axis, _ in axes), tuple(length for _, length in axes)
    return Plan(
        images=math.prod(x[: len(x) - rank - 1]),
        groups=groups,
        wide_channels=weight[1],
        narrow_channels=weight[0] // groups,
        wide_cells=math.prod(wide),
        narrow_cells=math.prod(narrow),
        taps=math.prod(kernel),
        axes=axes,
        padded=any(not axis.taps(outputs=length).real.all() for axis, length in axes),
    )


def replace_axis(axis: Sliding, length: int) -> Sliding:
    """The axis that reads the outputs of another one of stride 1 which read each of its cells."""
    before = (axis.kernel - 1) * axis.dilation - axis.before
    return replace(axis, size=length, before=before)


def _table(axes: tuple[tuple[Sliding, int], ...]) -> tuple[Any, ...]:
    """Where the wide rows begin that narrow rows read, and which columns of them are real."""
    *outer, (last, length) = axes or ((Sliding(1, 1), 1),)
    rows = np.zeros((1, 1), np.int64)
    for axis, count in outer:
        cell, real, _ = axis.taps(outputs=count)
        stepped = rows[:, None, :, None] * axis.size + cell[None, :, None, :]
        known = (rows >= 0)[:, None, :, None] & real[None, :, None, :]
        rows = np.where(known, stepped, -1).reshape(rows.shape[0] * count, -1)
    rows = np.where(rows >= 0, rows * last.size, -1)
    shift = np.arange(last.kernel) * last.dilation - last.before
    low = np.clip(-(shift // last.stride), 0, length)
    high = np.clip((last.size - 1 - shift) // last.stride + 1, low, length)
    joined = last.stride == 1 and last.size == length
    return rows, length, low, high, last.stride, last.before, last.dilation, joined


def scratch(name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """A matrix of this thread that is reused from task to task; its contents are whatever was left there."""
    cells = shape[0] * shape[1]
    return at_hand(name, cells, dtype)[:cells].reshape(shape)


def run(p: Plan, work: Any, tasks: list[Any]) -> None:
    """Do all tasks with one BLAS thread each: on this thread if they are small, else on all of them."""
    quiet = np.errstate(all="ignore")(work)  # each thread has an error state of its own
    with one_thread_each():
        if p.work() < SMALL:
            for task in tasks:
                quiet(task)
        else:
            threads.run(quiet, tasks)


Range = tuple[int, int]


def packed(p: Plan, wide: Array, group: int, images: Range, channels: Range, cells: Range) -> Array:
    """The columns of some narrow cells of several images, side by side, for some of the wide channels."""
    several, (start, stop) = images[1] - images[0], cells
    columns = scratch("columns", ((channels[1] - channels[0]) * p.taps, several * (stop - start)), wide.dtype)
    kernel("columns.pack")(wide.reshape(-1), *p.place(group, images, channels), columns, start, stop, *p.table)
    return columns


def unpacked(p: Plan, columns: Array, out: Array, group: int, images: Range, channels: Range, cells: Range) -> None:
    """Add columns, as `packed` lays them out, to the wide cells that they belong to."""
    kernel("columns.unpack")(columns, out.reshape(-1), *p.place(group, images, channels), *cells, *p.table)


def gathered(p: Plan, narrow: Array, group: int, first: int, last: int) -> Array:
    """The narrow cells of several images, side by side."""
    cells = scratch("narrow", (p.narrow_channels, (last - first) * p.narrow_cells), narrow.dtype)
    cells.reshape(p.narrow_channels, last - first, -1)[...] = narrow[first:last, group].transpose(1, 0, 2)
    return cells


@np.errstate(all="ignore")
def narrow_of(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """out[image, group] = W · columns(wide[image, group]) + bias."""
    matrix = weight.reshape(p.groups, p.narrow_channels, p.columns)
    finite = not p.padded or bool(np.isfinite(weight).all())
    if p.wide_channels == 1 and finite and not p.single:
        return correlate(p, wide, weight, bias, out)
    direct = not finite
    rows = weight.reshape(p.groups, p.narrow_channels, p.wide_channels, -1, len(p.table[2]))
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
            kernel("columns.correlate")(wide[image, group], rows[group], target, *p.table)
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
    """out[image, group] = Wᵀ · narrow[image, group], every column cell added to the cell it was read from, + bias."""
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
            unpacked(p, cells, out, group, (image, image + 1), (first, last), (start, stop))

    def of_several(task: tuple[int, int, int]) -> None:
        group, first, last = task
        cells = scratch("columns", (p.columns, (last - first) * p.narrow_cells), narrow.dtype)
        np.matmul(matrix[group].T, gathered(p, narrow, group, first, last), out=cells)
        out[first:last, group] = 0 if added is None else added[group]
        unpacked(p, cells, out, group, (first, last), (0, p.wide_channels), (0, p.narrow_cells))

    batches = p.batches(p.columns, narrow.itemsize)
    if len(batches) < p.images:
        run(p, of_several, [(g, *batch) for g, batch in itertools.product(range(p.groups), batches)])
        return out

    # whole images where there are enough of them, since wider products are better ones
    parts = [(0, p.wide_channels)] if p.images * p.groups >= BLOCKS else blocks(p.wide_channels)
    run(p, work, [(i, g, *block) for i, g, block in itertools.product(range(p.images), range(p.groups), parts)])
    return out


@np.errstate(all="ignore")
def weight_of(p: Plan, wide: Array, narrow: Array, out: Array) -> Array:
    """out[group] = Σ over images and tiles of N · columns(wide)ᵀ."""
    matrix = out.reshape(p.groups, p.narrow_channels, p.columns)
    rows = out.reshape(p.groups, p.narrow_channels, p.wide_channels, -1, len(p.table[2]))
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
        rows[group, :, first:last] = 0
        for image in range(p.images):
            kernel("columns.weigh")(wide[image, group], narrow[image, group], rows[group], first, last, *p.table)

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
    if p.work() < SMALL:  # one thread, one block
        parts = [(0, p.wide_channels)]
    batches = p.batches((parts[0][1] - parts[0][0]) * p.taps, wide.itemsize)
    tasks = [(g, *block) for g, block in itertools.product(range(p.groups), parts)]
    run(p, of_several if len(batches) < p.images else work, tasks)
    if p.padded and np.isnan(out).any():
        run(p, directly, tasks)
    return out


def in_parts(p: Plan, things: int, work: Any) -> None:
    """Call work(tasks, counter) on all threads; tasks are ranges of so many things."""
    parts = 1 if p.work() < SMALL else min(4 * BLOCKS, things)
    edges = np.linspace(0, things, parts + 1).astype(np.int64)
    tasks, counter = np.stack([edges[:-1], edges[1:]], axis=1), np.zeros(1, np.int64)
    threads.share(lambda: work(tasks, counter), parts)


def correlate(p: Plan, wide: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`narrow_of` for groups of one wide channel."""
    ints, size = p.depthwise_numbers()
    cells, kernels, added = wide.reshape(-1), weight.reshape(-1), nothing_or(bias, wide.dtype)

    def work(tasks: Array, counter: Array) -> None:
        room, places = (
            at_hand("cells", size, wide.dtype),
            at_hand("places", int(ints[5]), np.dtype(np.int64)),
        )
        kernel("depthwise.correlate_planes")(
            cells, kernels, added, out.reshape(-1), p.table[0], ints, tasks, counter, room, places
        )

    in_parts(p, p.images * p.groups, work)
    return out


def spread(p: Plan, narrow: Array, weight: Array, bias: Array | None, out: Array) -> Array:
    """`wide_of` for groups of one wide channel: with a stride of 1 a convolution with the taps turned round."""
    turned = p.turned
    if turned is not None and p.narrow_channels == 1 and np.isfinite(weight).all():
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
        room, places = at_hand("cells", size, wide.dtype), at_hand("places", int(ints[5]), np.dtype(np.int64))
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
    if np.isnan(out).any():  # vectors multiply infinite cells by zeros that stand for none: exact loops do not
        rows = out.reshape(p.groups, p.narrow_channels, p.wide_channels, -1, len(p.table[2]))
        out[...] = 0
        for group, image in itertools.product(range(p.groups), range(p.images)):
            kernel("columns.weigh")(wide[image, group], narrow[image, group], rows[group], 0, 1, *p.table)
    return out


def nothing_or(bias: Array | None, dtype: np.dtype[Any]) -> Array:
    """A bias as one flat array, empty where there is none."""
    return np.empty(0, dtype) if bias is None else np.ascontiguousarray(bias.reshape(-1))


class Call:
    """An operator on float32 or float64 operands, which it sees as (images, groups, channels, cells)."""

    def __init__(self, op: Bilinear, x: Array, weight: Array) -> None:
        self.plan = p = plan(op, x.shape, weight.shape)
        self.transposed = isinstance(op, ConvTranspose)
        wide = (p.images, p.groups, p.wide_channels, p.wide_cells)
        narrow = (p.images, p.groups, p.narrow_channels, p.narrow_cells)
        self.read, self.written = (narrow, wide) if self.transposed else (wide, narrow)
        self.x = np.ascontiguousarray(x)
        self.weight = np.ascontiguousarray(weight)

    def value(
        self, out: Array, bias: Array | None = None, x: Array | None = None, weight: Array | None = None
    ) -> Array:
        """The operator's value, into `out`; at another x or weight where one is given."""
        cells = self.x if x is None else np.ascontiguousarray(x)
        kernel = self.weight if weight is None else np.ascontiguousarray(weight)
        product = wide_of if self.transposed else narrow_of
        product(self.plan, cells.reshape(self.read), kernel, bias, out.reshape(self.written))
        return out

    def pull(self, gy: Array) -> Array:
        """The input's cotangent."""
        product = narrow_of if self.transposed else wide_of
        out = np.empty_like(self.x)
        product(self.plan, gy.reshape(self.written), self.weight, None, out.reshape(self.read))
        return out

    def pull_weight(self, gy: Array) -> Array:
        """The weight's cotangent."""
        x, g = self.x.reshape(self.read), gy.reshape(self.written)
        return weight_of(self.plan, *((g, x) if self.transposed else (x, g)), np.empty_like(self.weight))

    def pull_bias(self, gy: Array) -> Array:
        """The bias's cotangent."""
        images, groups, channels, cells = self.written
        summed: Array = gy.reshape(images, groups * channels, cells).sum(axis=(0, 2), dtype=gy.dtype)
        return summed


def refuses(op: Bilinear, operands: tuple[Any, ...]) -> str | None:
    """Why this engine does not run the operator on these operands, or None."""
    kinds = {getattr(operand, "dtype", None) for operand in operands}
    if len(kinds) > 1 or not all(type(operand) is np.ndarray for operand in operands):
        return "operands are not NumPy arrays of one dtype"
    (dtype,) = kinds
    return None if dtype is not None and is_float(dtype) else f"{dtype} is not float16, bfloat16, float32 or float64"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether these are the floats that the engine computes in, or halves that it widens."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64") and dtype.isnative


def widened(array: Any, dtype: np.dtype[Any]) -> Array:
    """Halves as float32, everything else as it is."""
    return np.asarray(array, np.float32 if dtype.itemsize == 2 else dtype)


def forward(op: Bilinear, operands: tuple[Any, ...], out: Any = None) -> Any:
    """The value; half floats are computed in float32 and rounded once."""
    x = operands[0]
    shape, dtype = op.output_shape(*(operand.shape for operand in operands)), x.dtype
    if out is not None:
        check_out(op.name, out, shape, dtype)
    wide = [widened(operand, dtype) for operand in operands]
    direct = out is not None and out.dtype == wide[0].dtype and out.flags.c_contiguous and not _meets(out, operands)
    target = out if direct else np.empty(shape, wide[0].dtype)
    if target.size:
        Call(op, wide[0], wide[1]).value(target, *wide[2:])
    if out is None:
        return target.astype(dtype, copy=False)
    if not direct:
        out[...] = target
    return out


def _meets(out: Array, operands: tuple[Array, ...]) -> bool:
    return any(np.may_share_memory(out, operand) for operand in operands)


def keep(op: Bilinear, operands: tuple[Any, ...], out: Any = None) -> tuple[Any, Any]:
    """The value; the derivatives need nothing of it."""
    return forward(op, operands, out), None


def recall(op: Bilinear, operands: tuple[Any, ...]) -> None:
    """Nothing."""


def push(op: Bilinear, operands: tuple[Any, ...], kept: Any, tangents: tuple[Any, ...], out: Any = None) -> Any:
    """dy = dx ∗ w + x ∗ dw + db."""
    if not all(t is None or is_plain_array(t) for t in tangents):
        return reference.push(op, operands, reference.recall(op, operands), tangents)
    dtype = operands[0].dtype
    x, weight = (widened(operand, dtype) for operand in operands[:2])
    moved = [
        t if t is None else widened(admitted(dtype, op.name, f"tangent of {slot.name}", t), dtype)
        for slot, t in zip(op.slots, tangents, strict=False)
    ]
    total = np.zeros(op.output_shape(*(operand.shape for operand in operands)), x.dtype)
    if total.size:
        call, part = Call(op, x, weight), np.empty_like(total)
        if moved[0] is not None:
            total += call.value(part, x=moved[0])
        if moved[1] is not None:
            total += call.value(part, weight=moved[1])
        if len(moved) == 3 and moved[2] is not None:
            total += moved[2].reshape(-1, *[1] * len(op.weight_kernel()[0]))
    return write(op.name, total.astype(dtype, copy=False), out)


def pull(
    op: Bilinear,
    operands: tuple[Any, ...],
    kept: Any,
    cotangent: Any,
    wanted: tuple[bool, ...] | None = None,
    out: tuple[Any, ...] | None = None,
) -> tuple[Any, ...]:
    """The cotangents of input, weight and bias, as far as they are wanted."""
    if not is_plain_array(cotangent):
        return reference.pull(op, operands, reference.recall(op, operands), cotangent, wanted)
    dtype = operands[0].dtype
    gy = np.ascontiguousarray(widened(admitted(dtype, op.name, "cotangent", cotangent), dtype))
    targets = out or (None,) * len(operands)
    if gy.size == 0:
        parts: list[Any] = [np.zeros_like(operand) for operand in operands]
    else:
        call = Call(op, *(widened(operand, dtype) for operand in operands[:2]))
        rules = (call.pull, call.pull_weight, call.pull_bias)[: len(operands)]
        parts = [rule(gy) if wanted is None or wanted[slot] else None for slot, rule in enumerate(rules)]
    return tuple(
        part if part is None else write(op.name, part.astype(dtype, copy=False), target)
        for part, target in zip(parts, targets, strict=True)
    )
