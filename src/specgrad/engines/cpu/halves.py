"""Half floats there and back on all threads; a half that is a NaN keeps its bits.

Pooling computes in float32: some planes at a time are widened, pooled, and rounded while they are in the caches.
"""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import numpy as np

from ...geometry import Integers
from ...memory import room
from .cells import Array, Kind, Seen, kind
from .layouts import Run, canonical, pieces
from .passes import even, grain
from .plan import Plan
from .together import Call, together

FLOATS = cast(Kind, kind(np.dtype(np.float32)))


def half_of(dtype: np.dtype[Any]) -> int:
    """Which half float a dtype is."""
    return cast(Kind, kind(dtype)).half


def widened(halves: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of this dtype, which lie end to end, in float32."""
    wide = room((halves.size,), np.dtype(np.float32))
    conversion(halves.size, half_of(dtype), True)(halves.view(np.uint16), wide)
    return wide


def narrowed(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of float32, which lie end to end, rounded to this dtype."""
    halves = room((wide.size,), dtype)
    conversion(wide.size, half_of(dtype), False)(wide, halves.view(np.uint16))
    return halves


def sent(halves: Array, dtype: np.dtype[Any]) -> Array:
    """The bits of what comes of cells of this dtype when they are added to 0: -0.0 becomes 0.0, and a NaN a quiet one."""
    bits = room((halves.size,), np.dtype(np.int16))
    told = (halves.view(np.uint16), bits.view(np.uint16), half_of(dtype))
    together("halves.send_cells", told, ranges(halves.size))
    return bits


def through_floats(made: Plan, source: Array, target: Array, backwards: bool, run: Run) -> bool:
    """target = what `run` makes of the source, both flat halves in the order of a plan: cells and windows or, `backwards`, windows and cells (of which it is
    then told where they are). Whether it says so."""
    windows = math.prod(made.grid[1:])
    given, found = (windows, made.plane) if backwards else (made.plane, windows)
    most = max((stop - start for start, stop, _ in pieces(made, FLOATS)), default=0)
    wide, computed = room((most * given,), FLOATS.dtype), room((most * found,), FLOATS.dtype)
    for start, stop, some in pieces(made, FLOATS):
        cells, result = wide[: (stop - start) * given], computed[: (stop - start) * found]
        conversion(cells.size, made.half, True)(source[start * given : stop * given], cells)
        if run(Seen(some, FLOATS, cells, 0), cells, result, slice(start * windows, stop * windows)):
            return True
        conversion(result.size, made.half, False)(result, target[start * found : stop * found])
    return False


def cells_of(seen: Seen, x: Array) -> Array:
    """The halves of an operand as they are stored, flat in the order of its plan (copied if it lies otherwise)."""
    return canonical(seen.plan, np.asarray(x, seen.kind.dtype), of_output=False).view(seen.kind.stored)


@functools.lru_cache(maxsize=512)
def conversion(cells: int, half: int, widens: bool) -> Call:
    """The kernel that makes float32 of so many halves, or halves of float32: which of the two it is told by its operands, always alike."""
    return Call("halves.convert_cells", (half,), ranges(cells))


@functools.lru_cache(maxsize=256)
def ranges(cells: int) -> Integers:
    """Tasks of some cells each."""
    starts = np.arange(0, cells, even(cells, grain(cells)))
    return np.stack([starts, np.append(starts[1:], cells)[: starts.size]], axis=1)
