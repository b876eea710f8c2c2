"""The average: one fold of sums forwards, the adjoint fold backwards. Being linear it keeps nothing but its plan."""

from __future__ import annotations

from typing import Any

from .cells import Array, Seen, canonical, handed_over, room_for, room_for_input, see
from .maximum import fold


def value(op: Any, x: Array, out: Array | None) -> Array:
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    fold(seen.plan.passes, seen, seen.flat, flat, maximum=None, divides=True)
    return handed_over(result, out)


def pull(seen: Seen, gy: Array) -> Array:
    flat, gx = room_for_input(seen)
    arriving = canonical(seen.plan, gy, of_output=True).view(seen.kind.stored)
    fold(seen.plan.passes_back, seen, arriving, flat, maximum=None, divides=True)
    return gx
