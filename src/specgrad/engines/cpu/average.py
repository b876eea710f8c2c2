"""The average: one fold of sums forwards, the adjoint fold backwards. Being linear it keeps nothing but its plan."""

from __future__ import annotations

from typing import Any

from ...memory import room
from . import halves
from .cells import BITS, Array, Seen, canonical, handed_over, room_for, room_for_input, see
from .maximum import fold
from .passes import VECTOR
from .picking import picked, put_back
from .together import together


def value(op: Any, x: Array, out: Array | None) -> Array:
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    fold(seen.plan.passes, seen, seen.flat, flat, maximum=None, divides=True)
    return handed_over(result, out)


def pull(seen: Seen, gy: Array, out: Array | None) -> Array:
    flat, gx = room_for_input(seen, out)
    made, found = seen.plan, seen.kind
    arriving = canonical(made, gy, of_output=True).view(found.stored)
    windows = picked(made) if made.is_undivided else None
    if windows is not None:
        if found.half:
            put_back(windows, halves.sent(arriving, found.dtype), flat.view(BITS.stored), BITS)
        else:
            put_back(windows, arriving, flat, found)
        return gx
    small = None if found.half else made.small_back
    if small is None and made.apart_back is None and made.bins_back is not None:
        *tables, divisors = made.bins_back
        width = made.axes[-1].size
        size = divisors.size + divisors[:1].size + divisors.shape[2] + 1 + width + 2 * VECTOR
        size += made.plane if width < VECTOR else 0
        told: tuple[Any, ...] = (arriving, flat, found.zero, *tables, divisors)
        together("bins.spread_bins", told, made.plane_tasks, ("cells", size, found.computed))
        return gx
    over, rest, columns = made.divisors
    uniform = over.size == 1 and columns is None
    by = (over[0], rest[0]) if uniform else found.one
    if not uniform:  # what is not divided alike is divided before it is added up
        shares = room((arriving.size,), found.computed)
        told = (arriving, shares, made.window_divisors, made.seen.inner, found.half)
        together("small.share", told, made.plane_tasks)
        arriving = shares
    if small is not None and made.are_pairs:
        together("apart.spread_pairs", (arriving, flat, found.zero, small[0], *by), small[1])
    elif made.apart_back is not None:
        ints, tasks = made.apart_back
        together("apart.spread_apart", (arriving, flat, found.zero, ints, *by), tasks)
    elif made.passes[0].is_around:  # such an average is its own adjoint
        fold(made.passes, seen._replace(flat=arriving, origin=0), arriving, flat, maximum=None, divides=uniform)
    elif small is not None:
        ints, tasks, size = small
        together("small.spread_small", (arriving, flat, found.zero, ints, *by), tasks, ("cells", size, found.computed))
    else:
        fold(made.passes_back, seen, arriving, flat, maximum=None, divides=uniform)
    return gx
