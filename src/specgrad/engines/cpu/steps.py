"""Steps (kernels with their parameters, ready to run) and chains of steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...memory import Array, room
from . import limits
from .codegen.code_cache import cached
from .codegen.object_code import Compiled
from .codegen.thread_pool import Call, address


class Step(NamedTuple):
    """A kernel, and the names of the arrays whose addresses it takes."""

    call: Call
    arrays: tuple[str, ...]
    reason: str
    walk: str = ""
    """The emitter."""


class Chain(NamedTuple):
    """Kernels that run one after another, with the arrays between them: their cells and types."""

    steps: tuple[Step, ...]
    between: tuple[tuple[str, int, np.dtype[Any]], ...]

    def __call__(self, x: Array, y: Array, **beside: Array) -> int:
        """Run all, or as far as a step meets a NaN; the flags of all. What is written beside y
        stands in the kernel's order."""
        if not self.between:  # one step
            return self.steps[0].call(x, y, *beside.values())
        arrays = {"x": x, "y": y, **beside, **{name: room((cells,), dtype) for name, cells, dtype in self.between}}
        flags = 0
        for step in self.steps:
            flags |= step.call(*[arrays[name] for name in step.arrays])
            if flags & 1:
                break
        return flags


class Divisors(NamedTuple):
    """What sums are divided by: one number per window along the first axis times one per window of
    all others; or one for all."""

    rows: Array
    columns: Array | None

    @property
    def kind(self) -> str:
        if self.columns is not None:
            return "each"
        return "scale" if math.frexp(self.rows[0])[0] == 0.5 else "all"


@functools.lru_cache(maxsize=256)
def compiled(emit: Any, how: Any) -> Compiled:
    """A kernel in machine code."""
    return cached((emit, how), lambda: emit(how, limits.VECTOR))


def grain(items: int, cells: int) -> int:
    """How many items of so many cells a task takes: some 64 tasks, none so small or large that its
    own cost shows."""
    return max(1, min(max(items * cells // 64, limits.LEAST), limits.MOST) // max(cells, 1))


def cut(count: int, parts: int, least: int = 0) -> tuple[int, int]:
    """How large the parts are into which something is cut, and how many these are: at most so many,
    and one if the last were smaller than the `least`."""
    part = -(-count // max(1, min(count, parts))) or 1
    number = -(-count // part) or 1
    return (part, number) if count - (number - 1) * part >= least else (count, 1)


def power(lanes: int, cells: int) -> int:
    """The lanes of vectors of which one at least fits into so many cells."""
    return min(lanes, 1 << max(cells, 1).bit_length() - 1)


def step(
    emit: Any,
    how: Any,
    given: Mapping[str, int | Array],
    items: int,
    some: int,
    reason: str,
    scratch: int = 0,
) -> Step:
    """A kernel on so many items, of which a task takes some. It is given sizes and tables, besides
    the arrays of a call; `scratch` are bytes that a thread needs besides the kernel's own."""
    kernel, tables = compiled(emit, how), tuple(one for one in given.values() if isinstance(one, np.ndarray))
    numbers = {name: address(one) if isinstance(one, np.ndarray) else one for name, one in given.items()}
    call = Call(kernel, numbers, items, some, kernel.scratch + scratch, tables)
    names = tuple(name for name in kernel.parameters if name not in given)
    return Step(call, names, reason, emit.__module__.rpartition(".")[2])


def plane(rows: Any, columns: Any) -> dict[str, Any]:
    """The sizes of a plane of cells and of the plane of its windows."""
    return {"height": rows.size, "width": columns.size, "height_out": rows.length, "width_out": columns.length}


def tiled(rows: Any, columns: Any, tile: tuple[int, int], tiles: tuple[int, int]) -> dict[str, Any]:
    """The same of sliding windows, whose plane is cut into so many tiles, down and across, of at
    most so many rows and columns."""
    around = {"above": rows.before, "before": columns.before, "tile_rows": tile[0], "tile_columns": tile[1]}
    return plane(rows, columns) | around | {"down": tiles[0], "across": tiles[1]}


Divided = tuple[str, dict[str, Array]]
"""How a kernel divides, and the tables of what it divides by."""
NOT_DIVIDED: Divided = ("no", {})
