"""Half floats there and back, whole arrays of them on all threads; a half that is a NaN keeps its bits."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...geometry import Integers
from ...memory import room
from .cells import HALVES, Array
from .passes import even, grain
from .together import together


def widened(halves: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of this dtype, which lie end to end, in float32."""
    wide = room((halves.size,), np.dtype(np.float32))
    together("halves.convert_cells", (halves.view(np.uint16), wide, HALVES[dtype.name]), ranges(halves.size))
    return wide


def narrowed(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Cells of float32, which lie end to end, rounded to this dtype."""
    halves = room((wide.size,), dtype)
    together("halves.convert_cells", (wide, halves.view(np.uint16), HALVES[dtype.name]), ranges(wide.size))
    return halves


def sent(halves: Array, dtype: np.dtype[Any]) -> Array:
    """The bits of what comes of cells of this dtype when they are added to 0: -0.0 becomes 0.0, and a NaN a quiet one."""
    bits = room((halves.size,), np.dtype(np.int16))
    told = (halves.view(np.uint16), bits.view(np.uint16), HALVES[dtype.name])
    together("halves.send_cells", told, ranges(halves.size))
    return bits


@functools.lru_cache(maxsize=256)
def ranges(cells: int) -> Integers:
    """Tasks of some cells each."""
    starts = np.arange(0, cells, even(cells, grain(cells)))
    return np.stack([starts, np.append(starts[1:], cells)[: starts.size]], axis=1)
