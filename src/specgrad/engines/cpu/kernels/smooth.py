"""Smooth maxima, one axis at a time, over (outer, n, inner) arrays: (1/β) log Σ exp(β cell), for β > 0.

A window is the pair (extreme, total): total = Σ exp(β(cell - pivot)), where the pivot is the extreme if that is finite, else 0. The next
axis folds pairs to pairs, and weights multiply along the chain: total_in·exp(β(pivot_in - pivot_out))/total_out. A padded tap that
counts as the value 0 adds its share, `mass` times exp(-β pivot), to the total and takes no part otherwise. β < 0 is the same of
the negated cells.

Every loop goes over cells that lie side by side, by vectors. With several inner cells these are the rows; with one, a line's cells are laid
out first by the rest of their index divided by the stride, with cells -∞ (which weigh nothing) around them. Windows of some such lines,
which are rows of a plane, are folded at once. Where windows share no cells and leave none out, some rows of them are laid out end to end, a group.
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from .access import at, get, held_at, lanes, put
from .compiling import PART, inline
from .exponential import exponential, logarithm, pivot
from .rows import copy, fill, lay_out
from .stations import GROUP, ROWS
from .vectors import any_of, both, differs, either, equals, exceeds, greater, splat, zipped_high, zipped_low


@inline
def take_up(cells, n, stride, source, room):
    """What lay_out undoes, of lines that begin at place 0."""
    if stride == 1:
        copy(cells, n, source)
        return
    step, done = lanes(source), 0
    if stride == 2:
        while done + 2 * step <= n:
            a, b = get(source, done // 2), get(source, room + done // 2)
            put(cells, done, zipped_low(a, b))
            put(cells, done + step, zipped_high(a, b))
            done += 2 * step
    for q in range(stride):
        own, target = at(source, q * room), at(cells, q)
        for i in range(done // stride, (n - q + stride - 1) // stride):
            target[i * stride] = own[i]


@inline
def share(cell, total, extreme, beta, zero):
    """What a cell adds to the total of a window with this extreme; a pair, if it has a total of its own."""
    if total is None:
        return exponential(beta * (cell - pivot(extreme)))
    return either(differs(total, zero), exponential(beta * (pivot(cell) - pivot(extreme))) * total, zero)


@inline
def weight(cell, total, extreme, sums, beta, zero, one, last):
    """A cell's share of its window's total. It is decided line by line: the cells of an infinite line share it among themselves, and those
    of a line that weighs nothing have nothing to share."""
    own = share(cell, total, extreme, beta, zero)
    found = own / sums
    if total is not None:
        found = either(both(equals(own, sums), differs(sums - sums, zero)), one, found)
    return found if last else either(differs(sums, zero), found, zero)


def total_at(totals, place):
    """The totals at some place, if there are any."""
    raise NotImplementedError


@overload(total_at, strict=False, jit_options=PART)
def _total_at(totals, place):
    if isinstance(totals, types.NoneType):
        return lambda totals, place: None
    return lambda totals, place: get(totals, place)


@inline
def fold_cells(most, sums, n, cells, totals, places, taps, padded, mass, beta, blank):
    """most, sums = the pairs of n windows: tap j of window i is cell places[j] + i, and `padded`[i] others weigh `mass`[i] each."""
    step = lanes(most)
    for start in range(0, n, step):
        i = min(start, max(n - step, 0))
        zeros = get(padded, i)
        nothing, b = zeros - zeros, splat(beta, zeros)
        extreme = either(exceeds(zeros, nothing), nothing, splat(blank, zeros))
        for j in range(taps):
            extreme = greater(extreme, get(cells, places[j] + i))
        padding, total = exceeds(zeros, nothing), nothing
        if any_of(padding, padding, padding, padding):
            total = either(padding, zeros * get(mass, i) * exponential(b * (nothing - pivot(extreme))), nothing)
        for j in range(taps):
            place = places[j] + i
            total = total + share(get(cells, place), total_at(totals, place), extreme, b, nothing)
        put(most, i, extreme)
        put(sums, i, total)


@inline
def cells_of(window, n, taps, stride, before, dilation, inner, places):
    """How many cells a window reads, which are then places[0], places[1], …"""
    count = 0
    for j in range(taps):
        cell = window * stride + j * dilation - before
        if 0 <= cell < n:
            places[count] = cell * inner
            count += 1
    return count


@inline
def windows_of(row, n, m, taps, stride, before, dilation, inner, places):
    """How many windows read a row, which are then places[0], places[1], …"""
    count = 0
    for j in range(taps):
        first = row - j * dilation + before
        if first >= 0 and first % stride == 0 and first // stride < m:
            places[count] = first // stride * inner
            count += 1
    return count


@inline
def cross(places, down, rows, across, columns):
    """How many sums of a row's and a column's place there are, which are then places[0], places[1], …"""
    for row in range(rows):
        for column in range(columns):
            places[row * columns + column] = down[row] + across[column]
    return rows * columns


@inline
def fold_lines(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places):
    """extremes, sums = the pair of each window of lines that have one inner cell, and of some rows of lines, if windows have several."""
    n, m, taps, stride, before, dilation, room, left = (
        ints[0],
        ints[1],
        ints[3],
        ints[4],
        ints[5],
        ints[6],
        ints[7],
        ints[8],
    )
    rows = at(ints, ROWS)
    height, windows, row_taps, row_step, above, row_apart = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    beta, blank = numbers[0], numbers[2]
    step = lanes(scratch)
    group = ints[GROUP]
    size, slot = group * m + 2 * step, stride * room
    most, total, steady = at(scratch, 0), at(scratch, size), at(scratch, 2 * size)
    lines = at(steady, size)
    fill(steady, size, mass[0])
    fill(lines, row_taps * slot, blank)
    for row in range(row_taps):
        for j in range(taps):
            cell = j * dilation - before
            places[row * taps + j] = row * slot + cell % stride * room + left + cell // stride
    for first in range(0, count * windows, group):
        found, taken = min(group, count * windows - first), 0
        for turn in range(found):
            outer, window, taken = (first + turn) // windows, (first + turn) % windows, 0
            for j in range(row_taps):
                row = window * row_step + j * row_apart - above
                if 0 <= row < height:
                    line = at(z, (outer * height + row) * n)
                    lay_out(at(lines, taken * slot), room, left + turn * m, line, n, stride)
                    taken += 1
        padded, size = at(zeros, first % windows * rows[6]), found * m
        fold_cells(most, total, size + -size % step, lines, None, places, taken * taps, padded, steady, beta, blank)
        copy(at(extremes, first * m), size, most)
        copy(at(sums, first * m), size, total)


@inline
def fold_rows(z, totals, extremes, sums, numbers, ints, zeros, mass, count, scratch, places):
    """extremes, sums = the pair of each window of rows of inner cells. All arrays can be read a vector beyond their end."""
    n, m, inner, taps, stride, before, dilation = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    rows = at(ints, ROWS)
    height, windows, row_taps, row_step, above, row_apart = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    beta, blank = numbers[0], numbers[2]
    step, size = lanes(scratch), inner + 2 * lanes(scratch)
    down, across = at(places, row_taps * taps), at(places, row_taps * (taps + 1))
    most, total, steady = at(scratch, 0), at(scratch, size), at(scratch, 2 * size)
    apart = inner < step
    for outer in range(count * windows):
        own, window = outer // windows * height * n * inner, outer % windows
        held = held_at(totals, totals, own)
        lines = cells_of(window, height, row_taps, row_step, above, row_apart, n * inner, down)
        for o in range(m):
            here = (outer * m + o) * inner
            cells = cells_of(o, n, taps, stride, before, dilation, inner, across)
            taken = cross(places, down, lines, across, cells)
            to_most, to_sums = most if apart else at(extremes, here), total if apart else at(sums, here)
            fill(steady, size, zeros[window * rows[6] + o])
            fold_cells(to_most, to_sums, inner, at(z, own), held, places, taken, steady, mass, beta, blank)
            if apart:
                for i in range(inner):
                    extremes[here + i], sums[here + i] = most[i], total[i]


@inline
def smooth_value(extremes, sums, y, numbers, n):
    """y = pivot + log(total)/β of n pairs, negated if β is negative."""
    beta, sign = numbers[0], numbers[1]
    step, done = lanes(y), 0
    while done + step <= n:
        extreme = get(extremes, done)
        value = pivot(extreme) + logarithm(get(sums, done)) / splat(beta, extreme)
        put(y, done, value * splat(sign, extreme))
        done += step
    for i in range(done, n):
        y[i] = sign * (pivot(extremes[i]) + logarithm(sums[i]) / beta)


@inline
def move_cells(target, n, cells, totals, extremes, sums, moved, places, count, pushes, numbers, last):
    """target[i] = Σ over j of a weight times moved[places[j] + i]: of the windows that read cell i
    or, if it `pushes` (not None), of the cells that window i reads. A window with a negative total is none."""
    step, beta, zero, one = lanes(target), numbers[0], numbers[3], numbers[4]
    for start in range(0, n, step):
        i = min(start, max(n - step, 0))
        like = get(cells, i)
        b, nothing, ones = splat(beta, like), splat(zero, like), splat(one, like)
        result = nothing
        for j in range(count):
            far = places[j] + i
            cell, window = i, far
            if pushes is not None:
                cell, window = far, i
            total, extreme = get(sums, window), get(extremes, window)
            part = weight(get(cells, cell), total_at(totals, cell), extreme, total, b, nothing, ones, last)
            result = result + either(equals(total, nothing - ones), nothing, part * get(moved, far))
        put(target, i, result)


@inline
def move_rows(z, totals, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places):
    """result[i] = Σ weight·moved[o], or if it `pushes` (not None) result[o] = Σ weight·moved[i], of rows of inner cells; `last`: no pass
    follows this one; `read`: which lines the passes that follow read at all."""
    n, m, inner, taps, stride, before, dilation = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6]
    rows = at(ints, ROWS)
    height, windows, row_taps, row_step, above, row_apart = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    step, zero = lanes(scratch), numbers[3]
    own, down, across = at(scratch, 0), at(places, row_taps * taps), at(places, row_taps * (taps + 1))
    deep, length = (height, n) if pushes is None else (windows, m)
    for outer in range(count * deep):
        block, row = outer // deep, outer % deep
        whole = at(result, outer * length * inner)
        if read[block % ints[9]] == 0:
            fill(whole, length * inner, zero)
            continue
        if pushes is None:
            lines = windows_of(row, height, windows, row_taps, row_step, above, row_apart, m * inner, down)
        else:
            lines = cells_of(row, height, row_taps, row_step, above, row_apart, n * inner, down)
        for place in range(length):
            here = (outer * length + place) * inner
            if pushes is None:
                cells, readers = here, block * windows * m * inner
                arriving = at(moved, readers)
                columns = windows_of(place, n, m, taps, stride, before, dilation, inner, across)
            else:
                cells, readers = block * height * n * inner, here
                arriving = at(moved, cells)
                columns = cells_of(place, n, taps, stride, before, dilation, inner, across)
            taken = cross(places, down, lines, across, columns)
            held = held_at(totals, totals, cells)
            target = own if inner < step else at(whole, place * inner)
            move_cells(
                target, inner, at(z, cells), held, at(extremes, readers), at(sums, readers), arriving, places, taken,
                pushes, numbers, last,
            )  # fmt: skip
            if inner < step:
                for i in range(inner):
                    whole[place * inner + i] = own[i]


@inline
def move_lines(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places):
    """As `move_rows`, of lines that have one inner cell, and of some rows of lines, if windows have several."""
    n, m, taps, stride, before, dilation, room, left = (
        ints[0],
        ints[1],
        ints[3],
        ints[4],
        ints[5],
        ints[6],
        ints[7],
        ints[8],
    )
    rows = at(ints, ROWS)
    height, windows, row_taps, row_step, above, row_apart = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    zero, one = numbers[3], numbers[4]
    step, slot = lanes(scratch), stride * room
    lines, own_moved, own = at(scratch, 0), at(scratch, row_taps * slot), at(scratch, 2 * row_taps * slot)
    most = at(own, slot)
    total, arriving = at(most, row_taps * room), at(most, 2 * row_taps * room)
    fill(lines, row_taps * slot, numbers[2])
    fill(own_moved, row_taps * slot, zero)
    fill(most, 3 * row_taps * room, zero)
    fill(total, row_taps * room, zero - one)
    length, made = (height, n) if pushes is None else (windows, m)
    group = ints[GROUP]
    for first in range(0, count * length, group):
        found, target = min(group, count * length - first), at(result, first * made)
        if read[first // length % ints[9]] == 0:
            fill(target, made, zero)
        elif pushes is None:
            taken = 0
            lay_out(lines, room, left, at(z, first * n), found * n, stride)
            for turn in range(found):
                outer, row, begin = (first + turn) // length, (first + turn) % length, left + turn * m
                taken = windows_of(row, height, windows, row_taps, row_step, above, row_apart, m, places)
                for reader in range(taken):
                    window = outer * windows * m + places[reader]
                    place = reader * room + begin
                    copy(at(most, place), m, at(extremes, window))
                    copy(at(total, place), m, at(sums, window))
                    copy(at(arriving, place), m, at(moved, window))
            for q in range(stride):
                reached = 0
                for reader in range(taken):
                    for j in range(taps):
                        if (q - j * dilation + before) % stride == 0:
                            places[reached] = reader * room + (q - j * dilation + before) // stride
                            reached += 1
                cells = (found * n - q + stride - 1) // stride
                move_cells(
                    at(own, q * room), cells + -cells % step, at(lines, q * room + left), None, at(most, left),
                    at(total, left), at(arriving, left), places, reached, pushes, numbers, last,
                )  # fmt: skip
            take_up(target, found * n, stride, own, room)
        else:
            taken = 0
            for turn in range(found):
                outer, window, begin = (first + turn) // length, (first + turn) % length, left + turn * m
                taken = cells_of(window, height, row_taps, row_step, above, row_apart, n, places)
                for reader in range(taken):
                    line = outer * height * n + places[reader]
                    lay_out(at(lines, reader * slot), room, begin, at(z, line), n, stride)
                    lay_out(at(own_moved, reader * slot), room, begin, at(moved, line), n, stride)
            copy(at(most, left), found * m, at(extremes, first * m))
            copy(at(total, left), found * m, at(sums, first * m))
            for reader in range(taken):
                for j in range(taps):
                    cell = j * dilation - before
                    places[reader * taps + j] = reader * slot + cell % stride * room + cell // stride
            size = found * m
            move_cells(
                own, size + -size % step, at(lines, left), None, at(most, left), at(total, left), at(own_moved, left), places,
                taken * taps, pushes, numbers, last,
            )  # fmt: skip
            copy(target, size, own)
