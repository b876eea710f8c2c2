"""The maximum: by folds in any order where cells are plain numbers, by winners where order shows or derivatives need them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import threads
from .cells import Array, Seen, canonical, flat_if_it_lies_so, fresh, see
from .compiled import kernel
from .plan import Plan

EVERY_PLANE_IS_PLAIN = np.zeros(0, np.uint8)
NOTHING = np.zeros(0, np.int64)


class Winners(NamedTuple):
    """What the derivatives keep: which tap won, as one code per output cell, in the order of the plan."""

    seen: Seen
    codes: Array


def value(op: Any, x: Array, out: Array | None) -> Array:
    """The maximum alone."""
    seen = see(op, x, any_order=True)
    made, found = seen.plan, seen.kind
    flat = flat_if_it_lies_so(made, found, out)
    if flat is None:
        flat, made_array = fresh(made, found)
        result = made_array.reshape(made.shape)
    else:
        result = out
    marks = fold(made.passes, seen.flat, seen.origin, flat, found, True)
    if marks:
        exact = winners(see(op, x), None, with_codes=False)[0]
        np.copyto(result, exact.reshape(made.shape))
    else:
        blank(made, flat, 0)
    if out is not None and result is not out:
        np.copyto(out, result)
        return out
    return result


def fold(passes: Any, x: Array, origin: int, y: Array, found: Any, maximum: bool | None, divisors: Any = None) -> bool:
    """Run the passes of a fold from x to y; whether a maximum met a NaN or a -0.0 and has to be done otherwise."""
    run = kernel("fold.fold_windows")
    none = found.zero[:0]
    for turn, one in enumerate(passes):
        last = turn == len(passes) - 1
        target = y if last else np.empty(one.outputs, found.computed)
        rows, columns = (
            divisors if divisors is not None and (one.ints[12] or (last and not passes[0].ints[12])) else (none, none)
        )
        bases = one.bases + origin if origin and turn == 0 else one.bases
        marks = np.zeros(one.outer if maximum else 0, np.uint8)
        identity = found.lowest if maximum else found.zero
        bin_first, bin_count = one.bins

        def work(task: Any, x: Array = x, target: Array = target, one: Any = one, bases: Any = bases, rows: Any = rows, columns: Any = columns, marks: Any = marks) -> None:  # fmt: skip
            scratch = np.empty(one.scratch, found.computed)
            if one.small is not None and not origin and not columns.size and rows.size <= 1:
                factor = found.computed.type(1 / rows[0] if rows.size else 1)
                kernel("small.fold_small")(x, target, identity, maximum, one.small, factor, marks, task, scratch)
                return
            run(
                x,
                target,
                identity,
                maximum,
                one.ints,
                bases,
                one.rows.low,
                one.rows.first,
                one.rows.count,
                bin_first,
                bin_count,
                rows,
                columns,
                marks,
                task,
                scratch,
            )

        threads.run(work, one.tasks)
        if maximum and marks.any():
            return True
        x = target
    return False


def winners(seen: Seen, flat: Array | None, with_codes: bool = True) -> tuple[Array, Array]:
    """The exact maximum and the code of each winner."""
    made, found = seen.plan, seen.kind
    run = kernel("winners.find_winners")
    array = None
    if flat is None:
        flat, array = fresh(made, found)
    x, known = seen.flat, None
    width = np.uint8 if made.codes <= 255 else np.uint16 if made.codes <= 65535 else np.int32
    for turn, one in enumerate(made.passes):
        last = turn == len(made.passes) - 1
        target = flat if last else np.empty(one.outputs, found.computed)
        codes = np.empty(one.outputs, width) if with_codes else None
        bases = one.bases + seen.origin if turn == 0 else one.bases
        bin_first, bin_count = one.bins

        def work(task: Any, x: Array = x, target: Array = target, one: Any = one, bases: Any = bases, known: Any = known, codes: Any = codes) -> None:  # fmt: skip
            scratch, code_scratch = np.empty(one.scratch, found.computed), np.empty(one.code_scratch, np.int32)
            run(
                x,
                target,
                known,
                codes,
                found.lowest,
                one.ints,
                bases,
                one.rows.low,
                one.rows.first,
                one.rows.count,
                one.rows.start,
                bin_first,
                bin_count,
                task,
                scratch,
                code_scratch,
            )

        threads.run(work, one.tasks)
        x, known = target, codes
    blank(made, flat, 0)
    if codes is not None:
        blank(made, codes, made.codes)
    return flat if array is None else array, codes


def blank(made: Plan, flat: Array, number: int) -> None:
    """Write a number where windows have no real cell."""
    for where in made.empty:
        flat.reshape(made.grid)[where] = number


def keep(op: Any, x: Array) -> tuple[Array, Winners]:
    seen = see(op, x)
    array, codes = winners(seen, None)
    return array.reshape(seen.plan.shape), Winners(seen, codes)


def indices(op: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    """The maximum, and the place of the first winner in its plane."""
    y, (seen, codes) = keep(op, x)
    made = seen.plan
    found = np.empty(made.lengths, np.int64)
    ints = np.array([made.codes, made.seen.inner])
    tables = made.in_plane
    each_plane(made, lambda a, b: kernel("scatter.index_winners")(codes, found.reshape(-1), ints, *tables, a, b))
    if out is not None:
        np.copyto(out, y)
        y = out
    return y, found.transpose(made.back).reshape(made.shape)


def push(kept: Winners, dx: Array) -> Array:
    """dy: the tangent of the first winner."""
    (made, found, _, _), codes = kept
    flat, dy = fresh(made, found)
    source = canonical(made, dx, of_output=False).view(found.stored)
    ints = np.array([made.codes, made.seen.inner, made.plane])
    tables = made.in_input
    each_plane(made, lambda a, b: kernel("scatter.gather_winners")(source, codes, flat, ints, *tables, a, b))
    return dy.reshape(made.shape)


def pull(kept: Winners, gy: Array) -> Array:
    """gx: at each cell the cotangents of the windows that it won."""
    (made, found, _, _), codes = kept
    flat, gx = fresh(made, found, of_output=False)
    arriving = canonical(made, gy, of_output=True).view(found.stored)
    by_code, heads, rows, columns = made.in_input
    reach = int(by_code[-1] + columns.max(initial=0)) + made.seen.inner
    ints = np.array([made.codes, made.seen.inner, made.plane, reach, found.half])

    def work(start: int, stop: int) -> None:
        scratch = np.empty(made.plane if found.half else 0, found.computed)
        kernel("scatter.scatter_winners")(
            arriving, codes, flat, found.zero, ints, by_code, heads, rows, columns, start, stop, scratch
        )

    each_plane(made, work)
    return gx


def each_plane(made: Plan, work: Any, grain: int = 1 << 18) -> None:
    """Call work(start, stop) over all outer planes, some `grain` cells at a time."""
    some = max(grain // max(made.plane, 1), 1)
    tasks = [(a, min(a + some, made.seen.planes)) for a in range(0, made.seen.planes, some)]
    threads.run(lambda task: work(*task), tasks)
