"""The kernels of `emitters.columns` on the arrays and tables of a plan. All but `spread` run on the
thread that calls them."""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .bilinear import BLOCKS, Plan
from .codegen.builder import CELLS
from .codegen.object_code import Compiled
from .codegen.thread_pool import Call, address
from .emitters.columns import Columns, emit
from .limits import NEAR, VECTOR
from .steps import Step, compiled

Array = npt.NDArray[Any]
Range = tuple[int, int]

ALL = 1 << 62  # more items than there are


class Walk(NamedTuple):
    """A kernel, what it is told about a plan, and how that is packed."""

    kernel: Compiled
    told: dict[str, int]
    packs: struct.Struct
    tables: tuple[Array, ...]
    """What must live as long as their addresses are told: threads that meet may each make a plan's
    tables."""


@functools.lru_cache(maxsize=1024)
def walk(p: Plan, what: str, dtype: np.dtype[Any]) -> Walk:
    """The kernel of this name for a plan."""
    rows, length, low, high, stride, before, dilation, joined = p.table
    is_line = what in ("pack", "unpack")
    lanes = VECTOR // dtype.itemsize if stride <= NEAR else 0
    kernel = compiled(emit, Columns(what, CELLS[dtype.name], stride, joined and is_line, lanes))
    told = {"length": length, "outer": rows.shape[1], "taps": len(low), "before": before, "dilation": dilation}
    told |= {"rows": address(rows), "low": address(low), "high": address(high)}
    told |= {"size": p.wide_cells, "start": 0, "stop": p.narrow_cells, "period": ALL}
    return Walk(kernel, told, struct.Struct(f"={len(kernel.parameters)}q"), (rows, low, high))


def run(p: Plan, what: str, dtype: np.dtype[Any], items: int, **numbers: int) -> None:
    """Run a kernel on all items, here."""
    kernel, told, packs, _ = walk(p, what, dtype)
    told = told | numbers
    kernel.task(packs.pack(*[told[name] for name in kernel.parameters]), 0, items, None)


def _between(
    p: Plan, what: str, wide: Array, columns: Array, group: int, images: Range, channels: Range, cells: Range
) -> None:
    """Pack or unpack; an item is a channel, of several images."""
    several, (start, stop) = images[1] - images[0], cells
    apart = p.groups * p.wide_channels * p.wide_cells
    base = images[0] * apart + (group * p.wide_channels + channels[0]) * p.wide_cells
    run(
        p,
        what,
        wide.dtype,
        channels[1] - channels[0],
        wide=address(wide) + base * wide.itemsize,
        narrow=address(columns),
        inner=several,
        wide_item=p.wide_cells,
        wide_inner=apart,
        narrow_item=p.taps * several * (stop - start),
        narrow_inner=stop - start,
        line=several * (stop - start),
        start=start,
        stop=stop,
    )


def pack(p: Plan, wide: Array, columns: Array, *where: Any) -> None:
    """columns[(channel, tap), (image, cell)] = the wide cell that the tap of a narrow cell reads, 0
    for padding; of a group, and ranges of images, wide channels and narrow cells."""
    _between(p, "pack", wide, columns, *where)


def unpack(p: Plan, columns: Array, wide: Array, *where: Any) -> None:
    """Add every cell of columns, as `pack` lays them out, to the wide cell that it belongs to;
    those of padding are dropped (and may be zeroed)."""
    _between(p, "unpack", wide, columns, *where)


def _of_group(p: Plan, what: str, wide: Array, narrow: Array, weight: Array, channels: Range) -> None:
    """Correlate or weigh the planes of a group of an image; an item is a narrow channel."""
    first, last = channels
    run(
        p,
        what,
        wide.dtype,
        p.narrow_channels,
        wide=address(wide) + first * p.wide_cells * wide.itemsize,
        narrow=address(narrow),
        weight=address(weight) + first * p.taps * weight.itemsize,
        inner=last - first,
        wide_item=0,
        wide_inner=p.wide_cells,
        narrow_item=p.narrow_cells,
        narrow_inner=0,
        weight_item=p.columns,
    )


def correlate(p: Plan, wide: Array, weight: Array, narrow: Array) -> None:
    """narrow[n] += Σ wide[channel]·weight[n, channel] over all taps that are real."""
    _of_group(p, "correlate", wide, narrow, weight, (0, p.wide_channels))


def weigh(p: Plan, wide: Array, narrow: Array, weight: Array, channels: Range) -> None:
    """weight[n, channel] += Σ narrow[n]·wide[channel] over the cells that meet, for some wide
    channels."""
    _of_group(p, "weigh", wide, narrow, weight, channels)


@functools.lru_cache(maxsize=256)
def spread(p: Plan, dtype: np.dtype[Any]) -> Step:
    """wide[plane] = Σ over n of narrow[plane, n]·weight[group, n] + bias[group], of one wide
    channel per group: the kernel, of (wide, narrow, weight, bias)."""
    kernel, told, _, tables = walk(p, "spread", dtype)
    items = p.images * p.groups
    sizes = told | {
        "inner": p.narrow_channels,
        "wide_item": p.wide_cells,
        "wide_inner": 0,
        "narrow_item": p.narrow_channels * p.narrow_cells,
        "narrow_inner": p.narrow_cells,
        "period": p.groups,
        "weight_item": p.narrow_channels * p.taps,
    }
    return Step(Call(kernel, sizes, items, grain(p, items)), (), "each narrow cell adds to the cells it reads", tables)


def grain(p: Plan, items: int) -> int:
    """How many items a task takes."""
    return items if p.is_small else -(-items // (4 * BLOCKS))
