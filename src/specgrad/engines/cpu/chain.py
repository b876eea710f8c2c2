"""What chains of one-axis passes share: their order, last axis first, and arrays as they take and leave them.

Half floats are widened to float32 first, which takes an array of the operand's size.
"""

from __future__ import annotations

import math

import numpy as np

from ...memory import room
from . import halves
from .cells import Array, Kind, Seen, room_for, room_for_input
from .layouts import canonical
from .plan import Plan


def widened(made: Plan, found: Kind, array: Array, of_output: bool) -> Array:
    """A flat array in the order of the plan, in the type in which it is computed."""
    flat = canonical(made, array, of_output)
    return halves.widened(flat, found.dtype) if found.half else np.asarray(flat, found.dtype)


def place_for(made: Plan, found: Kind, out: Array | None, of_output: bool) -> tuple[Array, Array | None]:
    """Memory for a result, flat in the order of the plan, and the array that it makes up: `out` itself if it lies so, none yet where halves
    are to be rounded."""
    if found.half:
        return room((math.prod(made.lengths if of_output else made.given),), found.computed), None
    return (room_for if of_output else room_for_input)(Seen(made, found, found.zero[:0], 0), out)


def leave(made: Plan, found: Kind, flat: Array, of_output: bool) -> Array:
    """What `widened` undoes: rounded once, in the caller's order of axes."""
    shape = made.lengths if of_output else made.given
    cells = halves.narrowed(flat, found.dtype) if found.half else flat
    return cells.reshape(shape).transpose(made.back)


def stations(made: Plan) -> list[tuple[int, int, int]]:
    """(axis, outer, inner) of each pass, last axis first."""
    sizes = [axis.size for axis in made.axes]
    after = made.seen.inner
    found = []
    for axis in reversed(range(len(sizes))):
        found.append((axis, made.seen.planes * math.prod(sizes[:axis]), after))
        after *= made.axes[axis].length
    return found
