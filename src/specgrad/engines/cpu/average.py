"""The average: one fold of sums forwards, the adjoint fold backwards. Being linear it keeps nothing but its plan."""

from __future__ import annotations

from typing import Any

from .cells import Array, Seen, canonical, handed_over, room_for, room_for_input, see
from .maximum import fold
from .together import together


def value(op: Any, x: Array, out: Array | None) -> Array:
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    fold(seen.plan.passes, seen, seen.flat, flat, maximum=None, divides=True)
    return handed_over(result, out)


def pull(seen: Seen, gy: Array, out: Array | None) -> Array:
    flat, gx = room_for_input(seen, out)
    arriving = canonical(seen.plan, gy, of_output=True).view(seen.kind.stored)
    made, found = seen.plan, seen.kind
    over, rest, columns = made.divisors
    uniform = over.size == 1 and columns is None
    if uniform and made.are_pairs and made.small_back is not None and not found.half:
        pairs, tasks, _ = made.small_back
        together("apart.spread_pairs", (arriving, flat, found.zero, pairs, over[0], rest[0]), tasks)
        return gx
    if uniform and made.apart_back is not None:
        ints, tasks = made.apart_back
        together("apart.spread_apart", (arriving, flat, found.zero, ints, over[0], rest[0]), tasks)
        return gx
    if uniform and made.small_back is not None and not found.half:
        ints, tasks, size = made.small_back
        told = (arriving, flat, found.zero, ints, over[0], rest[0])
        together("small.spread_small", told, tasks, ("cells", size, found.computed))
        return gx
    bins = made.bins_back
    if bins is not None:
        size = bins[-1].size + made.axes[-1].length + 1 + made.axes[-1].size
        told = (arriving, flat, found.zero, *bins)
        together("bins.spread_bins", told, made.plane_tasks, ("cells", size, found.computed))
        return gx
    fold(seen.plan.passes_back, seen, arriving, flat, maximum=None, divides=True)
    return gx
