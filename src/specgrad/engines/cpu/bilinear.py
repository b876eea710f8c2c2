"""A convolution, a transposed one or a linear map as the CPU engine counts it: images, groups,
channels, and where taps lie.

The wide side is what a convolution reads, the narrow side what it writes; a transposed convolution
goes the other way. How the work is cut into tiles, batches and tasks is decided here, and never
depends on the number of threads, on which no bit may depend.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...caches import cached_property
from ...geometry import Integers, Shape, Sliding
from ...ops.conv import Bilinear

VECTOR = 64  # cells beside a row, at least as many as a vector has
TILE_BYTES = 1 << 21  # columns of a tile, per thread: wide enough for good products, small enough for the caches
LEAST_TILE = 96  # narrower tiles make poor products
SMALL = 1 << 21  # multiplications below which a call stays on its thread
PIECES = 4  # into how many parts a batch of small images is cut at least
NARROW = 24  # columns of images that are better walked side by side,
FEW, TOGETHER = 16, 256  # at least and at most so many at once
BLOCKS = 8  # into how many blocks of channels a cotangent's work is cut, where it cannot be cut by images


class Laid(NamedTuple):
    """Planes as `emitters.depthwise` lays them out, with a row of zeros behind all rows."""

    lines: Integers
    """Where the row lies that an outer tap of a narrow row reads."""
    places: Integers
    """Where in it the cells of each tap begin."""
    height: int
    width: int
    room: int
    """Cells of one line of a row."""
    left: int
    """Zeros before the cells of a line, at least."""
    cells: int


@dataclass(frozen=True, eq=False)
class Plan:
    """The numbers of one call: how many images, groups and channels, and where the taps of narrow
    cells lie."""

    images: int
    groups: int
    wide_channels: int  # per group
    narrow_channels: int  # per group
    wide_cells: int
    narrow_cells: int
    taps: int
    axes: tuple[tuple[Sliding, int], ...]
    padded: bool

    @cached_property
    def table(self) -> tuple[Any, ...]:
        """rows, length, low, high, stride, before, dilation, joined: as `emitters.columns` names
        them."""
        return _table(self.axes)

    @cached_property
    def turned(self) -> Plan | None:
        """The plan by which wide cells are made of narrow ones, where strides are 1: a convolution
        with the taps turned round."""
        if any(axis.stride != 1 for axis, _ in self.axes):
            return None
        axes = tuple((replace_axis(axis, length), axis.size) for axis, length in self.axes)
        return replace(self, axes=axes, wide_cells=self.narrow_cells, narrow_cells=self.wide_cells)

    @cached_property
    def laid(self) -> Laid:
        """Where the kernels of `depthwise` lay out a plane."""
        rows, length, low, _, stride, before, dilation, _ = self.table
        taps, width = len(low), self.axes[-1][0].size if self.axes else 1
        height = self.wide_cells // max(width, 1)
        left = max(before, taps * dilation) // stride + 2
        room = 2 * left + max(length, width // stride + 1) + 2 * VECTOR
        cell = np.arange(taps) * dilation - before
        lines = np.where(rows >= 0, rows // max(width, 1), height) * (stride * room)
        places = cell % stride * room + left + cell // stride
        cells = -(-(height + 1) * stride * room // VECTOR) * VECTOR
        return Laid(lines, places, height, width, room, left, cells)

    @cached_property
    def side_by_side(self) -> Plan | None:
        """The plan by which narrow images are walked, many together, as the last axis of one, so
        that rows are long."""
        length = self.axes[-1][1] if self.axes else 1
        some = [n for n in range(min(self.images, TOGETHER), FEW - 1, -1) if self.images % n == 0]
        if self.taps == 1 or length >= NARROW or not some:
            return None
        return replace(
            self,
            images=self.images // some[0],
            axes=(*self.axes, (Sliding(some[0], 1), some[0])),
            wide_cells=self.wide_cells * some[0],
            narrow_cells=self.narrow_cells * some[0],
        )

    @property
    def pointwise(self) -> bool:
        """Whether the wide cells themselves are the columns."""
        return self.taps == 1 and not self.padded and self.wide_cells == self.narrow_cells

    @property
    def single(self) -> bool:
        """Whether images have one cell (linear maps), so that all images together make one
        product."""
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
        """Where some images begin for some channels of a group, how far apart they lie, how many
        there are, of how many channels and cells."""
        apart = self.groups * self.wide_channels * self.wide_cells
        base = images[0] * apart + (group * self.wide_channels + channels[0]) * self.wide_cells
        return base, apart, images[1] - images[0], channels[1] - channels[0], self.wide_cells

    def batches(self, height: int, itemsize: int) -> list[tuple[int, int]]:
        """Ranges of images, as many as make one tile where their cells are few; else each by
        itself."""
        width = max(LEAST_TILE, TILE_BYTES // max(1, height * itemsize))
        shares = 1 if self.is_small else PIECES
        some = max(1, min(width // max(1, self.narrow_cells), -(-self.images // shares)))
        return [(i, min(i + some, self.images)) for i in range(0, self.images, some)]

    @cached_property
    def is_small(self) -> bool:
        """Whether a whole product takes so few multiplications that it stays on its thread."""
        return self.images * self.groups * self.narrow_channels * self.columns * self.narrow_cells < SMALL


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
