"""Plans: the division of a tensor's axes into outer batch, depth, rows, columns and inner batch,
with their strides.

The last spatial axis is the columns, the one before the rows, all others together the depth. Batch
axes between the cells of a plane in memory (such as the channels of a channels_last tensor) are
inner, all others outer. Results, and operands of the output's shape, are dense in this order. Other
operands keep their strides if their batch axes merge into two outer groups and one inner group,
else they are copied. Plans are cached.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...caches import cached_property
from ...geometry import Axis, Shape, Sliding, readers

NARROW = 2**31 - 2**22
"""Larger offsets need 64 bits; a program may start up to a block of lanes beyond the last one."""


@dataclass(frozen=True, eq=False)
class Plan:
    """An operator on operands of one shape and one layout."""

    op: Any
    order: tuple[int, ...]
    """The operand's axes: outer batch, spatial, inner batch."""
    back: tuple[int, ...]
    copies: bool
    """Whether an operand of this layout is copied to canonical order first."""
    given: Shape
    """The operand's shape in canonical order, and the output's."""
    lengths: Shape
    shape: Shape
    dropped: tuple[int, ...]
    """Positions of the output's axes of length 1 that are not in `shape`."""
    outer: int
    groups: int
    inner: int
    steps: tuple[int, int, int, int, int, int]
    """Distances of neighbours along outer, group, depth, row, column, inner, in elements of the
    operand."""
    depth: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    wide: bool
    made: dict[Any, Any] = field(default_factory=dict)
    """A cache for this plan: tables by device, launches by rule and dtype."""

    @cached_property
    def depths(self) -> tuple[int, int, int]:
        """The numbers of cells, windows and taps of all axes of depth together."""
        return (
            math.prod(axis.size for axis in self.depth),
            math.prod(axis.length for axis in self.depth),
            math.prod(taps_of(axis) for axis in self.depth),
        )

    @cached_property
    def taps(self) -> int:
        """The number of taps of the longest window, which is also the code of no winner."""
        return self.depths[2] * taps_of(self.rows) * taps_of(self.columns)

    @cached_property
    def whole(self) -> bool:
        """Whether every window has a real cell."""
        return all(bool((axis.ranges().count > 0).all()) for axis in (*self.depth, self.rows, self.columns))

    @cached_property
    def outputs(self) -> int:
        return math.prod(self.lengths)

    @cached_property
    def cells(self) -> int:
        return math.prod(self.given)

    @cached_property
    def straight(self) -> bool:
        """Whether the canonical order is the caller's order."""
        return self.order == tuple(range(len(self.order)))

    def entered(self, x: Any) -> Any:
        """An operand in canonical order."""
        if not self.straight:
            x = x.permute(self.order)
        return x.contiguous() if self.copies else x

    def fitted(self, like_output: Any) -> Any:
        """A tensor of the output's shape, made dense in canonical order."""
        for p in self.dropped:
            like_output = like_output.unsqueeze(p)
        return (like_output if self.straight else like_output.permute(self.order)).contiguous()

    @cached_property
    def layout(self) -> tuple[Shape, Shape]:
        """Shape and strides, in the caller's order of axes, of a result that is dense in canonical
        order."""
        dense = torch.empty(self.lengths, device="meta").permute(self.back)
        for p in reversed(self.dropped):
            dense = dense.squeeze(p)
        return tuple(dense.shape), dense.stride()

    @cached_property
    def layout_given(self) -> tuple[Shape, Shape]:
        """`layout` for a tensor of the operand's shape."""
        dense = torch.empty(self.given, device="meta").permute(self.back)
        return tuple(dense.shape), dense.stride()

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """make(), cached under `key`."""
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = make()
        return found

    def table(self, name: str, device: Any) -> Any:
        """A table of this plan on a device."""
        return self.once(
            (name, device), lambda: torch.from_numpy(np.ascontiguousarray(getattr(self, f"_{name}")())).to(device)
        )

    def _numbers(self) -> Any:
        """β, and β log2(e)."""
        beta = float(getattr(self.op, "beta", 1))
        return np.array([beta, beta * math.log2(math.e)])

    def _scale(self) -> Any:
        """The divisor of an average, if it is the same for all windows, and its reciprocal."""
        number = self.made["divisor"][1]
        return np.array([number, 1 / number])

    def _rows(self) -> Any:
        return windows_table(self.rows)

    def _columns(self) -> Any:
        return windows_table(self.columns)

    def _depths(self) -> Any:
        """Per window along depth: its first real tap, the numbers of real and of existing taps; and
        per tap the cell's offset (-1: padding, -2: does not exist)."""
        step, offsets = self.steps[2], np.zeros((1, 1), np.int64)
        real = exists = np.ones((1, 1), np.bool_)
        for axis in self.depth:
            cell, own_real, own_exists = axis.taps()
            offsets = _product(offsets * axis.size, cell, np.add)
            real, exists = _product(real, own_real, np.logical_and), _product(exists, own_exists, np.logical_and)
        marked = np.where(real, offsets * step, np.where(exists, -1, -2))
        return np.column_stack([real.argmax(1), real.sum(1), exists.sum(1), marked]).astype(np.int64)

    def _row_spans(self) -> Any:
        """Per row of cells: the first and the last row of windows that read it."""
        windows = readers_table(self.rows)[..., 0]
        return np.column_stack([np.where(windows < 0, self.rows.length, windows).min(1), windows.max(1)]).astype(
            np.int32
        )

    def _row_readers(self) -> Any:
        return readers_table(self.rows)

    def _column_readers(self) -> Any:
        return readers_table(self.columns)

    def _depth_readers(self) -> Any:
        table = np.zeros((1, 1, 2), np.int32)
        for axis in self.depth:
            own = readers_table(axis)
            here, there = table[:, None, :, None], own[None, :, None, :]
            window = here[..., 0] * axis.length + there[..., 0]
            tap = here[..., 1] * taps_of(axis) + there[..., 1]
            absent = (here[..., 0] < 0) | (there[..., 0] < 0)
            shape = (table.shape[0] * own.shape[0], table.shape[1] * own.shape[1])
            table = np.stack([np.where(absent, -1, window).reshape(shape), tap.reshape(shape)], axis=-1)
        return table.astype(np.int32)

    def candidates(self, name: str, device: Any) -> int:
        """The largest number of windows that read a cell."""
        return int(self.table(name, device).shape[1])


def _product(one: Any, other: Any, combine: Any) -> Any:
    """A table over (windows of one × windows of other, taps of one × taps of other)."""
    joined = combine(one[:, None, :, None], other[None, :, None, :])
    return joined.reshape(one.shape[0] * other.shape[0], one.shape[1] * other.shape[1])


def taps_of(axis: Axis) -> int:
    """The number of taps of an axis's longest window."""
    return axis.most_taps


def windows_table(axis: Axis) -> Any:
    """Per window: the cell of tap 0, the first real tap, one past the last real tap, the number of
    existing taps."""
    start, first, count, existing, step = axis.ranges()
    lowest = (first - start) // step
    return np.column_stack([start, lowest, lowest + count, existing]).astype(np.int32)


def readers_table(axis: Axis) -> Any:
    """Per cell and reader: the window and its tap; -1 for missing readers."""
    if axis.length == 0:
        return np.full((axis.size, 1, 2), -1, np.int32)
    window, tap, exists = readers(axis)
    return np.stack([np.where(exists, window, -1), tap], axis=-1).astype(np.int32)


@functools.lru_cache(maxsize=1024)
def plan(op: Any, shape: Shape, strides: Shape) -> Plan:
    """The plan of an operator on an operand of this shape and these strides."""
    positions = op.positions(shape)
    axes = op.spatial(tuple(shape[p] for p in positions))
    batch = [p for p in range(len(shape)) if p not in positions]
    least = min((strides[p] for p in positions if shape[p] > 1), default=0)
    inner = [p for p in batch if shape[p] > 1 and 0 < strides[p] < least]
    outer = [p for p in batch if p not in inner]
    inner.sort(key=lambda p: -strides[p])
    order = (*outer, *positions, *inner)
    back = tuple(order.index(p) for p in range(len(shape)))
    groups = _merged([(shape[p], strides[p]) for p in outer])
    insides = _merged([(shape[p], strides[p]) for p in inner])
    deep = _merged([(shape[p], strides[p]) for p in positions[:-2]])
    copies = len(groups) > 2 or len(insides) > 1 or len(deep) > 1
    if copies:
        dense, run = [0] * len(shape), 1
        for p in reversed(order):
            dense[p], run = run, run * shape[p]
        strides = tuple(dense)
        groups = _merged([(shape[p], strides[p]) for p in outer])
        insides = _merged([(shape[p], strides[p]) for p in inner])
        deep = _merged([(shape[p], strides[p]) for p in positions[:-2]])
    (count, step_outer), (many, step_group) = (*groups, (1, 0), (1, 0))[:2]
    within, step_inner = insides[0] if insides else (1, 0)
    one = Sliding(1, 1)
    full = (*[one] * (2 - len(axes)), *axes)
    step_row = strides[positions[-2]] if len(positions) > 1 else 0
    step_column = strides[positions[-1]] if positions else 0
    step_depth = deep[0][1] if deep else 1
    lengths = list(shape)
    for p, axis in zip(positions, axes, strict=True):
        lengths[p] = axis.length
    result = op.output_shape(shape)
    dropped = () if len(result) == len(shape) else tuple(sorted(positions))
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    return Plan(
        op, order, back, copies,
        tuple(shape[p] for p in order), tuple(lengths[p] for p in order), result, dropped,
        count * many, many, within,
        (step_outer, step_group, step_depth, step_row, step_column, step_inner),
        full[:-2], full[-2], full[-1],
        max(reach, math.prod(lengths), math.prod(shape)) > NARROW,
    )  # fmt: skip


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Axes as (size, stride), without axes of length 1, with neighbours merged if contiguous."""
    found: list[tuple[int, int]] = []
    for size, stride in axes:
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return found
