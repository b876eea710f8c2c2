"""Windows that share few cells or none, and maxima that are plain numbers: winners at the cost of values.

A whole plane is one row, folded by several vectors side by side; its winner is looked for once the maximum is known. Other windows are
folded down first, each column with the first row that led it; of the columns that are equal the earliest row wins, then the earliest
column. Where a plane holds a NaN or -0.0 that shows, kernels say so: it is left to the exact search.
"""

from __future__ import annotations

import numpy as np

from .access import at, fetch, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .fold import watch_row
from .rows import copy, is_plain
from .small import finish
from .vectors import (
    any_of,
    combine,
    either,
    equals,
    exceeds,
    folded,
    greater,
    is_watched,
    numbered,
    splat,
    watch,
)

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
            if is_watched(watch(identity[1], folded, maximum), maximum) and not is_plain(plane, n):
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
def lead_down(values, rows, n, first, apart, count):
    """values, rows = the greatest of each column of `count` rows, and the first row that has it."""
    step = lanes(values)
    for start in range(0, n, step):
        i = min(start, n - step)
        best = get(first, i)
        led = splat(np.int32(0), best)
        for row in range(1, count):
            cells = get(first, i + row * apart)
            fetch(first, i + row * apart + 4 * step)  # nobody foresees that rows are walked down
            led = either(exceeds(cells, best), splat(np.int32(row), best), led)
            best = greater(best, cells)
        put(values, i, best)
        put(rows, i, led)


@inline
def some_cells(cells, i, n, blank):
    """The vector that begins at cell i of n, blank from the last on."""
    found = get(cells, i)
    return either(exceeds(splat(np.int32(n - i), found), numbered(found)), found, splat(blank, found))


@inline
def lead_across(values, rows, n, width, blank):
    """The greatest of n cells and, as row·width + its number, the first that is: of the earliest row, and there the earliest. Both can be
    read a vector beyond."""
    step = lanes(values)
    best = some_cells(values, 0, n, blank)
    for i in range(step, n, step):
        best = greater(best, some_cells(values, i, n, blank))
    most = folded(best, True)
    wanted, wide = splat(most, best), splat(np.int32(width), best)
    none = splat(np.int32(-(2**31)), best)
    won = none
    for i in range(0, n, step):
        # a window that is all blank has its first cell in its first row, before any that does not exist
        place = splat(np.int32(0), best) - get_with(rows, i, best) * wide - numbered(best) - splat(np.int32(i), best)
        won = greater(won, either(equals(some_cells(values, i, n, blank), wanted), place, none))
    return most, -folded(won, True)


@compiled
def find_apart(x, y, codes, identity, ints, bases, row_first, row_count, row_start, first, count, start, tasks, counter, rooms, code_rooms, crew, turn):  # fmt: skip
    """y, codes = the maximum of each window and its first place, row-major among the nominal taps. Returns whether order may show."""
    shows = False
    x_row, width, height_out, width_out, code_width = ints[0], ints[3], ints[5], ints[6], ints[18]
    values, rows = part_of(rooms, turn), part_of(code_rooms, turn)
    for i in range(width, width + lanes(values)):
        rows[i] = 0
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane, low, high = at(x, bases[outer]), 0, 0
            seen = identity[1]
            for r in range(tasks[t, 2], tasks[t, 3]):
                if row_count[r] <= 0:
                    continue
                low, high = row_first[r] if high == 0 else low, row_first[r] + row_count[r]
                lead_down(values, rows, width, at(plane, row_first[r] * x_row), x_row, row_count[r])
                for c in range(tasks[t, 4], tasks[t, 5]):
                    if count[c] <= 0:
                        continue
                    where = (outer * height_out + r) * width_out + c
                    cells, led = at(values, first[c]), at(rows, first[c])
                    most, won = lead_across(cells, led, count[c], code_width, identity[0])
                    y[where] = most
                    seen = watch(seen, most, True)
                    codes[where] = (row_first[r] - row_start[r]) * code_width + first[c] + won - start[c]
            if is_watched(seen, True):
                for row in range(low, high):
                    if not is_plain(at(plane, row * x_row), width):
                        shows = True
        t = take(counter)
    return disband(counter, crew, turn, shows)


@inline
def lead_beside(values, rows, apart, n, width):
    """As `lead_across`, of a vector of windows that lie side by side: their n cells are so far apart."""
    best = get(values, 0)
    for j in range(1, n):
        best = greater(best, get(values, j * apart))
    wide, none = splat(np.int32(width), best), splat(np.int32(-(2**31)), best)
    won = none
    for j in range(n):
        place = get_with(rows, j * apart, best) * wide + splat(np.int32(j), best)
        won = greater(won, either(equals(get(values, j * apart), best), splat(np.int32(0), best) - place, none))
    return best, splat(np.int32(0), best) - won


@compiled
def find_beside(x, y, codes, identity, ints, bases, row_first, row_count, row_start, first, count, start, tasks, counter, rooms, code_rooms, crew, turn):  # fmt: skip
    """As `find_apart`, of planes that lie side by side, fewer than a vector has cells."""
    shows = False
    x_row, width, inner, height_out, width_out, code_width = ints[0], ints[3], ints[4], ints[5], ints[6], ints[18]
    values, rows = part_of(rooms, turn), part_of(code_rooms, turn)
    step, n = lanes(values), width * inner
    found, places, eye = at(values, n + step), at(rows, n + step), at(values, n + step + width_out * inner + step)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        left, m = tasks[t, 4], (tasks[t, 5] - tasks[t, 4]) * inner
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane, low, high = at(x, bases[outer]), 0, 0
            put(eye, 0, splat(identity[1], get(eye, 0)))
            for r in range(tasks[t, 2], tasks[t, 3]):
                if row_count[r] <= 0:
                    continue
                low, high = row_first[r] if high == 0 else low, row_first[r] + row_count[r]
                lead_down(values, rows, n, at(plane, row_first[r] * x_row), x_row, row_count[r])
                for c in range(left, tasks[t, 5]):
                    if count[c] > 0:
                        cell = first[c] * inner
                        best, won = lead_beside(at(values, cell), at(rows, cell), inner, count[c], code_width)
                        before = (row_first[r] - row_start[r]) * code_width + first[c] - start[c]
                        put(found, (c - left) * inner, best)
                        put(places, (c - left) * inner, won + splat(np.int32(before), best))
                where = (outer * height_out + r) * width_out * inner + left * inner
                copy(at(y, where), m, found)
                watch_row(eye, found, m, True)
                for i in range(m):
                    codes[where + i] = places[i]
            if is_watched(get(eye, 0), True):
                for row in range(low, high):
                    if not is_plain(at(plane, row * x_row), n):
                        shows = True
        t = take(counter)
    return disband(counter, crew, turn, shows)
