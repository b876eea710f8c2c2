"""Ties of windows that share no cell: a cell ties if it equals the maximum of its window.

The maxima of a row of windows, and what is sent along them, are laid out above the cells that they belong to, once for all rows that these windows have; then rows are
compared as a whole. Each of three axes is told by two tables: window o has the count[o] cells from first[o] on. `ints` has how many
cells lie side by side (those of all planes that do, or 1), how long the axes are before, how many windows the first two have, and whether columns are
pairs from the first cell on, or whole planes are windows.
"""

from __future__ import annotations

import numpy as np

from .access import at, get, held_at, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import copy, fill, fold_pairs, fold_rows
from .ties import if_tied, sent_at
from .vectors import either, equals, exceeds, folded, numbered, splat, zipped_high, zipped_low
from .watching import holds_nan
from .whole import fold_row


@inline
def sent_if(cells, most, sent, nothing, nans):
    """What a vector of cells is sent, which is nothing where it does not tie."""
    if nans:
        return if_tied(cells, most, sent, nothing)
    return either(equals(cells, most), sent, nothing)


@inline
def share(row, n, given, sharers):
    """row = what is given, in as many shares as there are sharers."""
    for o in range(n):
        row[o] = given[o] / sharers[o]


@inline
def lay_above(target, windows, first, count, inner, pairs):
    """What each window has, above its cells."""
    step = lanes(target)
    if inner > 1:
        for o in range(first.size):
            for cell in range(first[o], first[o] + count[o]):
                copy(at(target, cell * inner), inner, at(windows, o * inner))
    elif pairs and first.size >= step:
        for start in range(0, first.size, step):
            o = min(start, first.size - step)
            own = get(windows, o)
            put(target, 2 * o, zipped_low(own, own))
            put(target, 2 * o + step, zipped_high(own, own))
    else:
        for o in range(first.size):
            fill(at(target, first[o]), count[o], windows[o])


@inline
def add_row(total, cells, most, moved, n, zero, one, nans):
    """total += what the cells of a row that tie send: 1 each, if nothing is moved."""
    step = lanes(total)
    nothing, ones, last = splat(zero, get(total, 0)), splat(one, get(total, 0)), n - step
    end = get(total, last) + sent_if(get(cells, last), get(most, last), sent_at(moved, last, ones), nothing, nans)
    for i in range(0, last, step):
        sent = sent_if(get(cells, i), get(most, i), sent_at(moved, i, ones), nothing, nans)
        put(total, i, get(total, i) + sent)
    put(total, last, end)


@inline
def total_of(cells, most, moved, n, zero, one, nans):
    """What the cells of a window that is a whole row send, as `add_row` adds it."""
    step, done = lanes(cells), 0
    wanted, nothing, ones = splat(most, get(cells, 0)), splat(zero, get(cells, 0)), splat(one, get(cells, 0))
    a, b = nothing, nothing
    for i in range(0, n - 2 * step + 1, 2 * step):
        a = a + sent_if(get(cells, i), wanted, sent_at(moved, i, ones), nothing, nans)
        b = b + sent_if(get(cells, i + step), wanted, sent_at(moved, i + step, ones), nothing, nans)
        done = i + 2 * step
    while done < n:  # the last vector ends with the row: what was added is left out
        i = min(done, n - step)
        new = exceeds(numbered(a), splat(np.int32(done - i - 1), a))
        sent = sent_if(get(cells, i), wanted, sent_at(moved, i, ones), nothing, nans)
        a = a + either(new, sent, nothing)
        done = i + step
    return folded(a + b, None)


@inline
def write_row(target, cells, most, sent, n, zero, nans):
    """target = what is sent to the cells of a row that tie; -0.0 added to nothing is 0.0."""
    step = lanes(target)
    nothing = splat(zero, get(sent, 0))
    for start in range(0, n, step):
        i = min(start, n - step)
        put(target, i, sent_if(get(cells, i), get(most, i), get(sent, i) + nothing, nothing, nans))


@inline
def write_alike(target, cells, most, sent, n, zero, nans):
    """As `write_row`, of a window that is a whole row."""
    step = lanes(target)
    wanted, nothing = splat(most, get(cells, 0)), splat(zero, get(cells, 0))
    sends = splat(sent, nothing) + nothing
    for start in range(0, n, step):
        i = min(start, n - step)
        put(target, i, sent_if(get(cells, i), wanted, sends, nothing, nans))


@inline
def fold_columns(target, total, first, count, inner, zero):
    """The sum of what lies above the cells of each window."""
    for o in range(first.size):
        cells = at(total, first[o] * inner)
        if count[o] <= 0:
            fill(at(target, o * inner), inner, zero)
        elif inner > 1:
            fold_rows(at(target, o * inner), inner, cells, inner, count[o], None, None)
        else:
            target[o] = fold_row(cells, count[o], None)


@compiled
def push_matches(x, y, sharers, moved, result, numbers, ints, heads, rows, columns, tasks, counter, rooms, crew, turn):
    """result[o] = Σ moved[i] over the cells i of window o that equal its maximum y[o]; their number, if nothing is moved; divided among
    them, if `sharers` is not None."""
    inner, deep, high, wide, heads_out, rows_out, pairs = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    (head_first, head_count), (row_first, row_count), (first, count) = heads, rows, columns
    n, windows, zero, one = wide * inner, first.size * inner, numbers[0], numbers[1]
    most = part_of(rooms, turn)
    total = at(most, n)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for line in range(tasks[t, 0], tasks[t, 1]):
            if ints[7]:
                cells, sent = at(x, line * n), held_at(moved, moved, line * n)
                if y[line] != y[line]:
                    result[line] = total_of(cells, y[line], sent, n, zero, one, True)
                else:
                    result[line] = total_of(cells, y[line], sent, n, zero, one, False)
                if sharers is not None:
                    result[line] /= sharers[line]
                continue
            r, h, plane = line % rows_out, line // rows_out % heads_out, line // rows_out // heads_out
            own, target = at(y, line * windows), at(result, line * windows)
            lay_above(most, own, first, count, inner, pairs)
            nans = holds_nan(own, windows)
            fill(total, n, zero)
            for head in range(head_first[h], head_first[h] + head_count[h]):
                for row in range(row_first[r], row_first[r] + row_count[r]):
                    where = ((plane * deep + head) * high + row) * n
                    cells, sent = at(x, where), held_at(moved, moved, where)
                    if nans:
                        add_row(total, cells, most, sent, n, zero, one, True)
                    else:
                        add_row(total, cells, most, sent, n, zero, one, False)
            if pairs:
                fold_pairs(target, first.size, total, None)
            else:
                fold_columns(target, total, first, count, inner, zero)
            if sharers is not None:
                share(target, windows, target, at(sharers, line * windows))
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def pull_matches(
    x, y, sharers, arriving, result, numbers, ints, heads, rows, columns, tasks, counter, rooms, crew, turn
):
    """result[i] = arriving[o], if the cell i of window o equals its maximum y[o], else 0; divided among its sharers, if they are given. Rows that no
    window has are left as they are."""
    inner, deep, high, wide, heads_out, rows_out, pairs = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    (head_first, head_count), (row_first, row_count), (first, count) = heads, rows, columns
    n, windows, zero = wide * inner, first.size * inner, numbers[0]
    most = part_of(rooms, turn)
    sent, shares = at(most, n), at(most, 2 * n)
    if not ints[7]:
        fill(sent, n, zero)  # to columns that no window has
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for line in range(tasks[t, 0], tasks[t, 1]):
            if ints[7]:
                target, cells, given = at(result, line * n), at(x, line * n), arriving[line]
                if sharers is not None:
                    given /= sharers[line]
                if y[line] != y[line]:
                    write_alike(target, cells, y[line], given, n, zero, True)
                else:
                    write_alike(target, cells, y[line], given, n, zero, False)
                continue
            r, h, plane = line % rows_out, line // rows_out % heads_out, line // rows_out // heads_out
            own, given = at(y, line * windows), at(arriving, line * windows)
            if sharers is not None:
                share(shares, windows, given, at(sharers, line * windows))
                given = shares
            lay_above(most, own, first, count, inner, pairs)
            lay_above(sent, given, first, count, inner, pairs)
            nans = holds_nan(own, windows)
            for head in range(head_first[h], head_first[h] + head_count[h]):
                for row in range(row_first[r], row_first[r] + row_count[r]):
                    where = ((plane * deep + head) * high + row) * n
                    if nans:
                        write_row(at(result, where), at(x, where), most, sent, n, zero, True)
                    else:
                        write_row(at(result, where), at(x, where), most, sent, n, zero, False)
        t = take(counter)
    disband(counter, crew, turn, False)
