"""Windows that share few cells or none, and maxima that are plain numbers: winners at the cost of values.

A whole plane is one row, folded by several vectors side by side; its winner is looked for once the maximum is known. Other windows are
folded down first, each column with the first row that led it; of the columns that are equal the earliest row wins, then the earliest
column. Where a plane holds a NaN or -0.0 that shows, kernels say so: it is left to the exact search.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from .access import at, fetch, get, get_with, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .fold import watch_row
from .rows import copy, fill
from .small import finish
from .vectors import any_of, combine, either, equals, exceeds, folded, greater, numbered, splat
from .watching import holds_minus_zero, is_spotted, is_watched, watch

AHEAD = 128  # cells that are asked for before they are needed, vectors of them


@inline
def fold_row(cells, n, maximum):
    """The fold of a row, which has a cell at least."""
    step, done = lanes(cells), 0
    if n < step:
        total = cells[0]
        done = 1
    elif n < 4 * step:
        a = get(cells, 0)
        for i in range(step, n - step + 1, step):
            a = combine(a, get(cells, i), maximum)
        done = n // step * step
        total = folded(a, maximum)
    else:
        a, b, c, d = get(cells, 0), get(cells, step), get(cells, 2 * step), get(cells, 3 * step)
        for i in range(4 * step, n - 4 * step + 1, 4 * step):
            for ahead in range(AHEAD, AHEAD + 4 * step, step):
                fetch(cells, i + ahead)
            a, b = combine(a, get(cells, i), maximum), combine(b, get(cells, i + step), maximum)
            c, d = combine(c, get(cells, i + 2 * step), maximum), combine(d, get(cells, i + 3 * step), maximum)
        done = n // (4 * step) * 4 * step
        for i in range(done, n - step + 1, step):
            a = combine(a, get(cells, i), maximum)
        done = n // step * step
        total = folded(combine(combine(a, b, maximum), combine(c, d, maximum), maximum), maximum)
    for i in range(done, n):
        total = combine(total, cells[i], maximum)
    return total


@compiled
def fold_planes(x, y, codes, identity, maximum, n, over, rest, tasks, counter, crew, turn):
    """y = the fold of each plane of n cells, codes (unless None) = its first cell that equals a maximum. Returns whether order may show."""
    shows = False
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane = at(x, outer * n)
            folded = fold_row(plane, n, maximum)
            y[outer] = finish(folded, over, rest, maximum)
            seen = watch(identity[1], folded, maximum)
            if is_watched(seen, maximum) and (is_spotted(seen) or holds_minus_zero(plane, n)):
                shows = True
            elif codes is not None:
                codes[outer] = find_equal(plane, n, folded)
        t = take(counter)
    return disband(counter, crew, turn, shows)


@inline
def find_equal(cells, n, number):
    """The first of n cells that equals the number; one does."""
    step, done = lanes(cells), 0
    if n >= 4 * step:
        wanted = splat(number, get(cells, 0))
        while done + 4 * step <= n:
            a, b = equals(get(cells, done), wanted), equals(get(cells, done + step), wanted)
            c, d = equals(get(cells, done + 2 * step), wanted), equals(get(cells, done + 3 * step), wanted)
            if any_of(a, b, c, d):
                break
            done += 4 * step
    while cells[done] != number:
        done += 1
    return done


@inline
def lead_down(values, led, n, first, apart, below, deep, count, reach):
    """values, led = the greatest of each column of `count` rows under each of `deep` heads, and the first row that has it, as head·reach + row."""
    step = lanes(values)
    for start in range(0, n, step):
        i = min(start, n - step)
        best = get(first, i)
        lead = splat(np.int32(0), best)
        for head in range(deep):
            for row in range(count):
                near = at(first, head * apart + row * below + i)
                fetch(near, 4 * step)  # nobody foresees that rows are walked down
                cells = get(near, 0)
                lead = either(exceeds(cells, best), splat(np.int32(head * reach + row), best), lead)
                best = greater(best, cells)
        put(values, i, best)
        put(led, i, lead)


@inline
def some_cells(cells, i, n, blank):
    """The vector that begins at cell i of n, blank from the last on."""
    found = get(cells, i)
    return either(exceeds(splat(np.int32(n - i), found), numbered(found)), found, splat(blank, found))


@inline
def lead_across(values, led, n, width, blank):
    """The greatest of n cells and, as row·width + its number, the first that is: of the earliest row, and there the earliest. Both can be
    read a vector beyond."""
    step = lanes(values)
    best = some_cells(values, 0, n, blank)
    for i in range(step, n, step):
        best = greater(best, some_cells(values, i, n, blank))
    most = folded(best, True)
    wanted, wide, none = splat(most, best), splat(np.int32(width), best), splat(np.int32(-(2**31)), best)
    won = none
    for i in range(0, n, step):
        # a window that is all blank has its first cell in its first row, before any that does not exist
        place = get_with(led, i, best) * wide + numbered(best) + splat(np.int32(i), best)
        tied = equals(some_cells(values, i, n, blank), wanted)
        won = greater(won, either(tied, splat(np.int32(0), best) - place, none))
    return most, -folded(won, True)


@inline
def lead_beside(values, led, n, width, apart):
    """As `lead_across`, of a vector of windows that lie side by side: their cells are so far apart."""
    best = get(values, 0)
    for j in range(1, n):
        best = greater(best, get(values, j * apart))
    wide, none = splat(np.int32(width), best), splat(np.int32(-(2**31)), best)
    won = none
    for j in range(n):
        place = get_with(led, j * apart, best) * wide + splat(np.int32(j), best)
        tied = equals(get(values, j * apart), best)
        won = greater(won, either(tied, splat(np.int32(0), best) - place, none))
    return best, splat(np.int32(0), best) - won


def lead_row(found, places, values, led, columns, inner, width, before, blank, beside):
    """found, places = the greatest cell of each window of a row, and its place, that of the row's first cell being `before`."""
    raise NotImplementedError


@overload(lead_row, strict=False, jit_options=PART)
def _lead_row(found, places, values, led, columns, inner, width, before, blank, beside):
    def across(found, places, values, led, columns, inner, width, before, blank, beside):
        for c in range(len(columns)):
            first, n = columns[c, 0], columns[c, 1]
            if n > 0:
                found[c], won = lead_across(at(values, first), at(led, first), n, width, blank)
                places[c] = before + first - columns[c, 2] + won

    def side_by_side(found, places, values, led, columns, inner, width, before, blank, beside):
        for c in range(len(columns)):
            cell, n = columns[c, 0] * inner, columns[c, 1]
            if n > 0:
                most, won = lead_beside(at(values, cell), at(led, cell), n, width, inner)
                put(found, c * inner, most)  # and beyond its cells, where the next one's are
                put(places, c * inner, won + splat(np.int32(before + columns[c, 0] - columns[c, 2]), most))

    return across if isinstance(beside, types.NoneType) else side_by_side


@compiled
def find_apart(
    x, y, codes, identity, beside, ints, bases, heads, rows, columns, tasks, counter, rooms, code_rooms, crew, turn
):
    """y, codes = the maximum of each window and its first place, row-major among the nominal taps. Returns whether order may show.

    `ints`: how far apart heads are, and rows, how many cells a row has, how many planes lie side by side (`beside` is None for one), and the lengths of
    codes, of rows and of columns. The tables have for each window of an axis the first cell that it reads, how many, and where tap 0 is.
    """
    shows = False
    apart, below, inner, reach, code_width = ints[0], ints[1], ints[3], ints[4], ints[5]
    n, m = ints[2] * inner, len(columns) * inner
    values, led = part_of(rooms, turn), part_of(code_rooms, turn)
    step = lanes(values)
    found, places, eye = at(values, n + step), at(led, n + step), at(values, n + m + 2 * step)
    fill(led, n + step, np.int32(0))
    fill(found, m, identity[0])
    fill(places, m, np.int32(0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane = at(x, bases[outer])
            for d in range(tasks[t, 2], tasks[t, 3]):
                low, high, deep = 0, 0, heads[d, 1]
                fill(eye, step, identity[1])
                for r in range(tasks[t, 4], tasks[t, 5]):
                    top, count = rows[r, 0], rows[r, 1]
                    if deep <= 0 or count <= 0:
                        continue
                    low, high = top if high == 0 else low, top + count
                    corner = at(plane, heads[d, 0] * apart + top * below)
                    lead_down(values, led, n, corner, apart, below, deep, count, reach)
                    before = ((heads[d, 0] - heads[d, 2]) * reach + top - rows[r, 2]) * code_width
                    lead_row(found, places, values, led, columns, inner, code_width, before, identity[0], beside)
                    where = ((outer * len(heads) + d) * len(rows) + r) * m
                    copy(at(y, where), m, found)
                    watch_row(eye, found, m, identity[1], True)
                    for i in range(m):
                        codes[where + i] = places[i]
                if is_watched(get(eye, 0), True):
                    shows = shows or is_spotted(get(eye, 0))
                    for head in range(heads[d, 0], heads[d, 0] + deep):
                        for row in range(low, high):
                            shows = shows or holds_minus_zero(at(plane, head * apart + row * below), n)
        t = take(counter)
    return disband(counter, crew, turn, shows)
