"""The average: one fold of sums forwards, the adjoint fold backwards. Being linear it keeps nothing but its plan."""

from __future__ import annotations

import math
from typing import Any

from . import halves
from .cells import BITS, Array, Seen, handed_over, room_for, room_for_input, see
from .folds import TAPS, Step, fold, fold_steps, fold_way, run
from .layouts import canonical, in_pieces, is_scattered
from .passes import VECTOR
from .picking import picked, put_back
from .plan import Plan
from .together import Call


def value(op: Any, x: Array, out: Array | None) -> Array:
    return keep(op, x, out)[0]


def keep(op: Any, x: Array, out: Array | None) -> tuple[Array, Seen]:
    seen = see(op, x, any_order=True)
    flat, result = room_for(seen, out)
    if seen.kind.half and (picked(seen.plan) is None or not seen.plan.is_undivided):
        halves.through_floats(seen.plan, halves.cells_of(seen, x), flat, False, fold_some)
    elif is_scattered(seen, folding):
        in_pieces(seen, flat, fold_some)
    else:
        fold_some(seen, seen.flat, flat)
    return handed_over(result, out), seen


def fold_some(seen: Seen, cells: Array, y: Array, where: slice | None = None) -> None:
    fold(seen.plan.passes, seen, cells, y, maximum=None, divides=True)


def folding(seen: Seen) -> list[Call]:
    """The kernels of a value."""
    return [step.call for step in fold_way(seen.plan.passes, seen, maximum=None, divides=True)]


def pull_some(seen: Seen, arriving: Array, cells: Array, where: slice) -> None:
    run(pull_way(seen), seen, arriving, cells)


def pull(seen: Seen, gy: Array, out: Array | None) -> Array:
    flat, gx = room_for_input(seen, out)
    made, found = seen.plan, seen.kind
    arriving = canonical(made, gy, of_output=True)
    if found.half:
        arriving = arriving.view(found.stored)
    windows = picked(made) if made.is_undivided else None
    if windows is not None:
        if found.half:
            put_back(windows, halves.sent(arriving, found.dtype), flat.view(BITS.stored), BITS)
        else:
            put_back(windows, arriving, flat, found)
        return gx
    if found.half:
        halves.through_floats(made, arriving, flat, True, pull_some)
    else:
        run(pull_way(seen), seen, arriving, flat)
    return gx


def pull_way(seen: Seen) -> list[Step]:
    """The kernels that bring a cotangent back, once they are known; not of windows of one cell that are not divided."""
    known: list[Step] | None = seen.plan.calls.get("pull")
    if known is None:
        known = seen.plan.calls["pull"] = spread_steps(seen)
    return known


def spread_steps(seen: Seen) -> list[Step]:
    """The kernels that bring a cotangent to the cells of its windows."""
    made, found = seen.plan, seen.kind
    small = made.small_back
    if small is None and made.apart_back is None and made.bins_back is not None:
        *tables, divisors = made.bins_back
        width = made.axes[-1].size
        size = divisors.size + divisors[:1].size + divisors.shape[2] + 1 + width + 2 * VECTOR
        size += made.plane if width < VECTOR else 0
        room = ("cells", size, found.computed)
        return [Step(Call("bins.spread_bins", (found.zero, *tables, divisors), made.plane_tasks, room))]
    over, rest, columns = made.divisors
    uniform = over.size == 1 and columns is None
    by = (over[0], rest[0]) if uniform else found.one
    steps = []
    if not uniform:  # what is not divided alike is divided before it is added up
        told: tuple[Any, ...] = (made.window_divisors, made.seen.inner)
        steps.append(Step(Call("spread.share", told, made.plane_tasks), math.prod(made.grid)))
    if small is not None and made.are_pairs:
        return [*steps, Step(Call("apart.spread_pairs", (found.zero, small[0], *by), small[1]))]
    if made.apart_back is not None:
        ints, tasks = made.apart_back
        return [*steps, Step(Call("apart.spread_apart", (found.zero, ints, *by), tasks))]
    if is_around(made):  # such an average is its own adjoint
        return [*steps, *fold_steps(made.passes, seen._replace(origin=0), maximum=None, divides=uniform)]
    if small is not None:
        ints, tasks, size = small
        room = ("cells", size, found.computed)
        halved = len(made.reads) == 2 and all((r.taps, r.stride) == (3, 2) for r in made.reads)
        kernel = "spread.spread_halved" if halved else "spread.spread_small"
        return [*steps, Step(Call(kernel, (found.zero, ints, *by), tasks, room))]
    if made.inside_back is not None:
        *inside, tasks = made.inside_back
        return [*steps, Step(Call("inner.fold_inner", (found.zero, None, None, *by, *inside), tasks, TAPS))]
    return [*steps, *fold_steps(made.passes_back, seen, maximum=None, divides=uniform)]


def is_around(made: Plan) -> bool:
    """Whether windows are the 3×3 cells around each cell, of planes that the kernel for small windows takes."""
    around = all((r.taps, r.stride, r.offset, r.length) == (3, 1, 1, r.size) for r in made.reads)
    return around and len(made.reads) == 2 and made.passes[0].small is not None
