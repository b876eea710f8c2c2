"""Windows over planes that lie side by side, cell by cell, as in channels-last arrays: a vector of planes at a time, tap by tap.

Taps are taken in row-major order, and a later one takes the lead when it is strictly greater or NaN: the first maximum wins, or the last NaN.
Each of up to three axes is told by three tables: output o reads count[o] cells from first[o] on, and the first of them adds code[o] to
a winner's code; so sliding windows and bins are alike here. `ints` has, axis by axis, how far apart in memory its cells lie, how many
cells apart taps are, and by how much a code grows from tap to tap. Windows of up to `FEW` taps are gone through by a list of
where each lies and by how much its code is greater, both counted from the first real one: those that lost as much to padding share a list.
"""

from __future__ import annotations

import numpy as np

from .access import at, fetch, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import copy, fill
from .vectors import beats, either, equals, exceeds, greater, plus, quotient, splat

FEW = 32  # taps of a window whose leaders stay in registers
SOME = 8  # taps of a larger one that are gone through before leaders are put back


@inline
def list_taps(listed, ints, heads, rows, columns):
    """List the taps of a window of so many real cells along its axes."""
    n = 0
    for deep in range(heads):
        for down in range(rows):
            for across in range(columns):
                apart = (
                    deep * ints[0, 1] * ints[0, 0] + down * ints[1, 1] * ints[1, 0] + across * ints[2, 1] * ints[2, 0]
                )
                listed[2 * n], listed[2 * n + 1] = apart, deep * ints[0, 2] + down * ints[1, 2] + across * ints[2, 2]
                n += 1


@compiled
def fold_inner(
    x,
    y,
    identity,
    maximum,
    divisors,
    over,
    rest,
    inner,
    ints,
    bases,
    heads,
    rows,
    columns,
    tasks,
    counter,
    lists,
    crew,
    turn,
):
    """y = the maximum, or where `maximum` is None the sum, of windows of few taps; sums are divided by the divisor of each window of a plane or, if there are
    none, multiplied by `over` and `rest` (see `quotient`)."""
    head_first, head_count, _ = heads
    row_first, row_count, _ = rows
    first, count, _ = columns
    taps, n, across, down, deep = part_of(lists, turn), 0, 0, 0, 0
    step = lanes(x)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for h in range(tasks[t, 2], tasks[t, 3]):
                for r in range(tasks[t, 4], tasks[t, 5]):
                    line = ((outer * head_first.size + h) * row_first.size + r) * first.size * inner
                    row = at(x, bases[outer] + head_first[h] * ints[0, 0] + row_first[r] * ints[1, 0])
                    for c in range(first.size):
                        target, corner = at(y, line + c * inner), at(row, first[c] * ints[2, 0])
                        if count[c] != across or row_count[r] != down or head_count[h] != deep:
                            across, down, deep = count[c], row_count[r], head_count[h]
                            n = max(across, 0) * max(down, 0) * max(deep, 0)
                            list_taps(taps, ints, deep, down, across)
                        if n == 0:
                            fill(target, inner, identity[0])
                            continue
                        for place in range(0, inner, step):
                            cells = at(corner, min(place, inner - step))
                            folded = get(cells, 0)
                            for tap in range(1, n):
                                later = get(cells, taps[2 * tap])
                                if maximum is None:
                                    folded = folded + later
                                else:
                                    folded = either(beats(later, folded), later, folded)
                            if divisors is not None:
                                window = (h * row_first.size + r) * first.size + c
                                folded = folded / splat(divisors[window], folded)
                            elif maximum is None:
                                folded = quotient(folded, splat(over, folded), splat(rest, folded))
                            put(target, min(place, inner - step), folded)
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def lead_some(best, led, inner, cells, apart, taps, code, growth):
    """Let so many cells, of codes from this one on, take the lead of each plane where they are greater; what is written twice is written alike.

    A NaN stays in the lead whatever its code; of zeros the first one leads, but `best` may have another's sign.
    """
    step = lanes(best)
    for place in range(0, inner, step):
        i = min(place, inner - step)
        value = get(best, i)
        own = get_with(led, i, value)
        for tap in range(taps):
            later = get(cells, tap * apart + i)
            fetch(cells, (tap + SOME) * apart + i)
            own = either(exceeds(later, value), splat(np.int32(code + tap * growth), value), own)
            value = greater(value, later)
        put(best, i, value)
        put(led, i, own)


@inline
def settle_leaders(best, led, inner, corner, ints, heads, rows, columns, least):
    """Give zeros the sign of their leader, and find the last NaN of planes that have one."""
    for i in range(inner):
        if best[i] == 0:
            left = led[i] - least
            high = left // ints[0, 2]
            low = (left - high * ints[0, 2]) // ints[1, 2]
            tap = (left - high * ints[0, 2] - low * ints[1, 2]) // ints[2, 2]
            apart = high * ints[0, 1] * ints[0, 0] + low * ints[1, 1] * ints[1, 0] + tap * ints[2, 1] * ints[2, 0]
            best[i] = corner[apart + i]
        elif best[i] != best[i]:
            for high in range(heads):
                for low in range(rows):
                    for tap in range(columns):
                        apart = high * ints[0, 1] * ints[0, 0] + low * ints[1, 1] * ints[1, 0]
                        later = corner[apart + tap * ints[2, 1] * ints[2, 0] + i]
                        if later != later:
                            best[i] = later
                            led[i] = least + high * ints[0, 2] + low * ints[1, 2] + tap * ints[2, 2]


@compiled
def find_inner(
    x, y, codes, identity, inner, ints, bases, heads, rows, columns, tasks, counter, lists, rooms, crew, turn
):
    """y, codes = the leaders of the windows of the tasks it takes; those without a cell have the identity and code 0."""
    head_first, head_count, head_code = heads
    row_first, row_count, row_code = rows
    first, count, column_code = columns
    taps, n, across, down, deep = part_of(lists, turn), 0, 0, 0, 0
    led, apart, step = part_of(rooms, turn), ints[2, 1] * ints[2, 0], lanes(x)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for h in range(tasks[t, 2], tasks[t, 3]):
                for r in range(tasks[t, 4], tasks[t, 5]):
                    line = ((outer * head_first.size + h) * row_first.size + r) * first.size * inner
                    row = at(x, bases[outer] + head_first[h] * ints[0, 0] + row_first[r] * ints[1, 0])
                    for c in range(first.size):
                        target, target_codes = at(y, line + c * inner), at(codes, line + c * inner)
                        corner = at(row, first[c] * ints[2, 0])
                        least = np.int32(head_code[h] + row_code[r] + column_code[c])
                        if count[c] != across or row_count[r] != down or head_count[h] != deep:
                            across, down, deep = count[c], row_count[r], head_count[h]
                            n = max(across, 0) * max(down, 0) * max(deep, 0)
                            if n <= FEW:
                                list_taps(taps, ints, deep, down, across)
                        if n == 0:
                            fill(target, inner, identity[0])
                            fill(target_codes, inner, 0)
                        elif n <= FEW:
                            for place in range(0, inner, step):
                                cells = at(corner, min(place, inner - step))
                                best = get(cells, 0)
                                own = splat(np.int32(0), best)
                                for tap in range(1, n):
                                    later = get(cells, taps[2 * tap])
                                    wins = beats(later, best)
                                    best = either(wins, later, best)
                                    own = either(wins, splat(np.int32(taps[2 * tap + 1]), best), own)
                                put(target, min(place, inner - step), best)
                                put(target_codes, min(place, inner - step), plus(own, splat(least, best)))
                        else:
                            copy(target, inner, corner)
                            fill(led, inner, least)
                            for high in range(deep):
                                for low in range(down):
                                    cells = at(corner, high * ints[0, 1] * ints[0, 0] + low * ints[1, 1] * ints[1, 0])
                                    code = least + high * ints[0, 2] + low * ints[1, 2]
                                    for tap in range(0, across, SOME):
                                        lead_some(
                                            target, led, inner, at(cells, tap * apart), apart,
                                            min(SOME, across - tap), code + tap * ints[2, 2], ints[2, 2],
                                        )  # fmt: skip
                            settle_leaders(target, led, inner, corner, ints, deep, down, across, least)
                            for i in range(inner):
                                target_codes[i] = led[i]
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def pull_inner(g, codes, gx, zero, idle, gaps, inner, ints, bases, heads, rows, columns, tasks, counter, crew, turn):
    """gx = each cotangent where its window has its winner, and 0 in all other cells: windows of few taps that share no cell. No window
    reads the `idle` rows of a plane, which are told by where they begin, nor the `gaps` of the others, which are columns.

    Cells are written in the order in which they lie: lines that are not go to memory by way of the cache.
    """
    head_first, head_count, head_code = heads
    row_first, row_count, row_code = rows
    first, count, column_code = columns
    apart, step = ints[2, 1] * ints[2, 0], lanes(g)
    nothing = splat(zero[0], get(at(g, 0), 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            if tasks[t, 2] == 0 and tasks[t, 4] == 0:
                for begin in idle:
                    fill(at(gx, bases[outer] + begin), ints[1, 0], zero[0])
            for h in range(tasks[t, 2], tasks[t, 3]):
                for r in range(tasks[t, 4], tasks[t, 5]):
                    line = ((outer * head_first.size + h) * row_first.size + r) * first.size * inner
                    for high in range(head_count[h]):
                        for low in range(row_count[r]):
                            base = bases[outer] + (head_first[h] + high * ints[0, 1]) * ints[0, 0]
                            row = at(gx, base + (row_first[r] + low * ints[1, 1]) * ints[1, 0])
                            above = head_code[h] + row_code[r] + high * ints[0, 2] + low * ints[1, 2]
                            for c in range(first.size):
                                arriving, own = at(g, line + c * inner), at(codes, line + c * inner)
                                cells, least = at(row, first[c] * ints[2, 0]), above + column_code[c]
                                for tap in range(count[c]):
                                    target, code = at(cells, tap * apart), type(own[0])(least + tap * ints[2, 2])
                                    for place in range(0, inner, step):
                                        i = min(place, inner - step)
                                        led, sent = get_with(own, i, nothing), get(arriving, i) + nothing
                                        put(target, i, either(equals(led, splat(code, led)), sent, nothing))
                            for gap in gaps:
                                fill(at(row, gap * ints[2, 0]), inner, zero[0])
        t = take(counter)
    disband(counter, crew, turn, False)
