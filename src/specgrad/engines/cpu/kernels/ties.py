"""Tied maxima, one axis at a time, over (outer, n, inner) arrays.

A cell ties with a window's maximum exactly if it ties with the maximum of its line and that line's maximum with the window's; so
counts, tangents and cotangents of tied cells go along the same chain as the maximum. Tables `first` and `count` say which cells,
`step` apart, an output reads; or backwards, which outputs read a cell.

Every loop goes over inner cells. Where there is but one, a vector's worth of lines are laid side by side first, some `pieces` of them after
the other: from which row to which, and which of the others these rows read.
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from .access import at, get, held_at, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill, transpose_part
from .vectors import any_of, both, differs, either, equals, greater, splat


def sent_at(moved, place, ones):
    """What a vector of cells sends, which is 1 if nothing is moved: then ties are counted."""
    raise NotImplementedError


@overload(sent_at, strict=False, jit_options=PART)
def _sent_at(moved, place, ones):
    if isinstance(moved, types.NoneType):
        return lambda moved, place, ones: ones
    if isinstance(ones, types.Number):
        return lambda moved, place, ones: moved[place]
    return lambda moved, place, ones: get(moved, place)


@inline
def if_tied(a, b, sent, nothing):
    """What is sent between cells that are equal, or both NaN."""
    return either(equals(a, b), sent, either(both(differs(a, a), differs(b, b)), sent, nothing))


@inline
def fold_rows(z, out, numbers, start, stop, low, inner, step, first, count):
    """out[o] = the greatest of the cells that o reads, a NaN if one is there, 0 if it reads none; z has the cells from `low` on."""
    width = lanes(out)
    done = inner // width * width
    for o in range(start, stop):
        begin, target = (first[o] - low) * inner, (o - start) * inner
        if count[o] <= 0:
            fill(at(out, target), inner, numbers[0])
            continue
        for i in range(0, done, width):
            most = get(z, begin + i)
            for j in range(1, count[o]):
                most = greater(most, get(z, begin + j * step * inner + i))
            put(out, target + i, most)
        for i in range(done, inner):
            best = z[begin + i]
            for j in range(1, count[o]):
                best = greater(best, z[begin + j * step * inner + i])
            out[target + i] = best


@inline
def move_rows(own, others, moved, target, numbers, start, stop, low, inner, step, first, count):
    """target[r] = Σ of what others send (if nothing is moved, 1) that r reads and ties with; there are others from `low` on."""
    width, zero, one = lanes(target), numbers[0], numbers[1]
    done = inner // width * width
    for r in range(start, stop):
        begin, here = (first[r] - low) * inner, (r - start) * inner
        for i in range(0, done, width):
            mine = get(own, here + i)
            nothing, ones, missing = splat(zero, mine), splat(one, mine), differs(mine, mine)
            total = nothing
            if any_of(missing, missing, missing, missing):
                for j in range(count[r]):
                    place = begin + j * step * inner + i
                    total = total + if_tied(mine, get(others, place), sent_at(moved, place, ones), nothing)
            else:  # whoever is equal to a number is one
                for j in range(count[r]):
                    place = begin + j * step * inner + i
                    total = total + either(equals(mine, get(others, place)), sent_at(moved, place, ones), nothing)
            put(target, here + i, total)
        for i in range(done, inner):
            total_here = zero
            for j in range(count[r]):
                place = begin + j * step * inner + i
                total_here += if_tied(own[here + i], others[place], sent_at(moved, place, one), zero)
            target[here + i] = total_here


@compiled
def greatest(z, out, numbers, ints, first, count, pieces, tasks, counter, rooms, crew, turn):
    """out[o] = the greatest z[i] of each window."""
    n, m, inner, step, room = ints[0], ints[1], ints[2], ints[3], ints[4]
    width = lanes(z)
    cells = part_of(rooms, turn)
    windows = at(cells, room)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 0], tasks[t, 1]
        if len(pieces) == 0 or stop - start < width:
            for outer in range(start, stop):
                fold_rows(
                    at(z, outer * n * inner), at(out, outer * m * inner), numbers, 0, m, 0, inner, step, first, count
                )
        else:
            for begin in range(start, stop, width):
                line = min(begin, stop - width)
                for p in range(len(pieces)):
                    a, b, low, high = pieces[p, 0], pieces[p, 1], pieces[p, 2], pieces[p, 3]
                    transpose_part(at(z, line * n + low), n, width, high - low, cells, width)
                    fold_rows(cells, windows, numbers, a, b, low, width, step, first, count)
                    transpose_part(windows, width, b - a, width, at(out, line * m + a), m)
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def move_ties(own, others, moved, target, numbers, ints, first, count, pieces, tasks, counter, rooms, crew, turn):
    """target[r] = Σ moved[s] over the s that r reads and ties with: tangents of the cells of a window (moved = None counts them), or cotangents of the
    windows of a cell."""
    n, m, inner, step, room = ints[0], ints[1], ints[2], ints[3], ints[4]
    width = lanes(target)
    cells = part_of(rooms, turn)
    sent, here, result = at(cells, room), at(cells, 2 * room), at(cells, 3 * room)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 0], tasks[t, 1]
        if len(pieces) == 0 or stop - start < width:
            for outer in range(start, stop):
                move_rows(
                    at(own, outer * m * inner), at(others, outer * n * inner), held_at(moved, moved, outer * n * inner),
                    at(target, outer * m * inner), numbers, 0, m, 0, inner, step, first, count,
                )  # fmt: skip
        else:
            for begin in range(start, stop, width):
                line = min(begin, stop - width)
                for p in range(len(pieces)):
                    a, b, low, high = pieces[p, 0], pieces[p, 1], pieces[p, 2], pieces[p, 3]
                    transpose_part(at(own, line * m + a), m, width, b - a, here, width)
                    transpose_part(at(others, line * n + low), n, width, high - low, cells, width)
                    if moved is not None:
                        transpose_part(at(moved, line * n + low), n, width, high - low, sent, width)
                    move_rows(
                        here, cells, held_at(moved, sent, 0), result, numbers, a, b, low, width, step, first, count
                    )
                    transpose_part(result, width, b - a, width, at(target, line * m + a), m)
        t = take(counter)
    disband(counter, crew, turn, False)
