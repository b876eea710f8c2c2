"""Half floats there and back on all threads; a half that is a NaN keeps its bits.

Pooling computes in float32: some planes at a time are widened, pooled, and rounded while they are in the caches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...geometry import Integers, strides
from ...memory import room
from .cells import HALVES, Array, Kind, Seen, canonical, kind
from .passes import even, grain
from .plan import Plan
from .together import Call, together

FLOATS = cast(Kind, kind(np.dtype(np.float32)))
SOME = 1 << 20  # cells that are widened at a time


def widened(halves: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of this dtype, which lie end to end, in float32."""
    wide = room((halves.size,), np.dtype(np.float32))
    conversion(halves.size, HALVES[dtype.name], True)(halves.view(np.uint16), wide)
    return wide


def narrowed(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of float32, which lie end to end, rounded to this dtype."""
    halves = room((wide.size,), dtype)
    conversion(wide.size, HALVES[dtype.name], False)(wide, halves.view(np.uint16))
    return halves


def sent(halves: Array, dtype: np.dtype[Any]) -> Array:
    """The bits of what comes of cells of this dtype when they are added to 0: -0.0 becomes 0.0, and a NaN a quiet one."""
    bits = room((halves.size,), np.dtype(np.int16))
    told = (halves.view(np.uint16), bits.view(np.uint16), HALVES[dtype.name])
    together("halves.send_cells", told, ranges(halves.size))
    return bits


def through_floats(
    made: Plan, source: Array, target: Array, backwards: bool, run: Callable[[Seen, Array, Array, slice], Any]
) -> bool:
    """target = what `run` makes of the source, both flat halves in the order of a plan: cells and windows or, `backwards`, windows and cells.

    It is told the plan of some planes, their cells and those of the result in float32, and where among all of the result's, or backwards the source's, they are.
    Whether it says so, after which it is not run again.
    """
    windows = math.prod(made.grid[1:])
    given, found = (windows, made.plane) if backwards else (made.plane, windows)
    most = max((stop - start for start, stop, _ in pieces(made)), default=0)
    wide, computed = room((most * given,), FLOATS.dtype), room((most * found,), FLOATS.dtype)
    for start, stop, some in pieces(made):
        cells, result = wide[: (stop - start) * given], computed[: (stop - start) * found]
        conversion(cells.size, made.half, True)(source[start * given : stop * given], cells)
        if run(Seen(some, FLOATS, cells, 0), cells, result, slice(start * windows, stop * windows)):
            return True
        conversion(result.size, made.half, False)(result, target[start * found : stop * found])
    return False


def cells_of(seen: Seen, x: Array) -> Array:
    """The halves of an operand as they are stored, flat in the order of its plan (copied if it lies otherwise)."""
    return canonical(seen.plan, np.asarray(x, seen.kind.dtype), of_output=False).view(seen.kind.stored)


def pieces(made: Plan) -> list[tuple[int, int, Plan]]:
    """Ranges of planes, and the plan of each in float32, whose cells lie end to end."""
    known: list[tuple[int, int, Plan]] | None = made.calls.get("pieces")
    if known is None:
        planes, inner, sizes = made.seen.planes, made.seen.inner, tuple(axis.size for axis in made.axes)
        least = -(-planes * max(made.plane, math.prod(made.grid[1:])) // SOME)
        some = max(-(-planes // max(least, 1)), 1)
        plans = {}
        for count in {min(some, planes), planes % some}:
            given = (count, *sizes) if inner == 1 else (count, *sizes, inner)
            steps = strides((count, *sizes, inner))
            seen = replace(
                made.seen,
                order=tuple(range(len(given))),
                outer=(count,),
                outer_strides=steps[:1],
                spatial=tuple(range(1, len(sizes) + 1)),
                spatial_strides=steps[1:-1],
                inner_stride=1,
            )
            one = replace(made, seen=seen, half=0, computed=FLOATS.code, given=given)
            plans[count] = replace(one, shape=one.lengths)
        known = made.calls["pieces"] = [
            (start, min(start + some, planes), plans[min(some, planes - start)]) for start in range(0, planes, some)
        ]
    return known


@functools.lru_cache(maxsize=512)
def conversion(cells: int, half: int, widens: bool) -> Call:
    """The kernel that makes float32 of so many halves, or halves of float32: which of the two it is told by its operands, always alike."""
    return Call("halves.convert_cells", (half,), ranges(cells))


@functools.lru_cache(maxsize=256)
def ranges(cells: int) -> Integers:
    """Tasks of some cells each."""
    starts = np.arange(0, cells, even(cells, grain(cells)))
    return np.stack([starts, np.append(starts[1:], cells)[: starts.size]], axis=1)
