"""Winners of planes that lie side by side, cell by cell, as in channels-last arrays: a vector of planes at a time, tap by tap.

Taps are taken in row-major order, and a later one takes the lead when it is strictly greater or NaN: the first maximum wins, or the last NaN.
Each of up to three axes is told by three tables: output o reads count[o] cells from first[o] on, tap 0 being at start[o]; so sliding
windows and bins are alike here. `ints` has, axis by axis, how far apart in memory its cells lie, how many cells apart taps are, and by
how much a code grows from one cell (of the last axis: from one tap) to the next.
"""

from __future__ import annotations

import numpy as np

from .compiling import compiled, inline
from .rows import copy, fill
from .vectors import at, beats, either, equals, get, get_with, lanes, put, splat, take

FEW = 32  # cells of a window whose leaders stay in registers


@inline
def lead_cell(best, led, inner, cells, code):
    """Let the cells of this code take the lead of each plane where they beat it; what is written twice is written alike."""
    step = lanes(best)
    for place in range(0, inner, step):
        i = min(place, inner - step)
        value, later = get(best, i), get(cells, i)
        wins = beats(later, value)
        put(best, i, either(wins, later, value))
        put(led, i, either(wins, splat(np.int32(code), value), get_with(led, i, value)))


@compiled
def find_inner(x, y, codes, identity, inner, ints, bases, heads, rows, columns, tasks, counter, scratch):
    """y, codes = the leaders of the windows of the tasks it takes; those without a cell have the identity and code 0."""
    led = at(scratch, 0)
    head_first, head_count, head_start = heads
    row_first, row_count, row_start = rows
    first, count, start_of = columns
    step = lanes(x)
    t = take(counter)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for h in range(tasks[t, 2], tasks[t, 3]):
                for r in range(tasks[t, 4], tasks[t, 5]):
                    line = ((outer * head_first.size + h) * row_first.size + r) * first.size * inner
                    for c in range(first.size):
                        target, target_codes = at(y, line + c * inner), at(codes, line + c * inner)
                        if head_count[h] <= 0 or row_count[r] <= 0 or count[c] <= 0:
                            fill(target, inner, identity[0])
                            fill(target_codes, inner, 0)
                            continue
                        base = bases[outer] + head_first[h] * ints[0, 0] + row_first[r] * ints[1, 0]
                        corner = at(x, base + first[c] * ints[2, 0])
                        least = (head_first[h] - head_start[h]) * ints[0, 2] + (row_first[r] - row_start[r]) * ints[
                            1, 2
                        ]
                        least += (first[c] - start_of[c]) // ints[2, 1]
                        deep_step, deep_code = ints[0, 1] * ints[0, 0], ints[0, 1] * ints[0, 2]
                        down_step, down_code = ints[1, 1] * ints[1, 0], ints[1, 1] * ints[1, 2]
                        if head_count[h] * row_count[r] * count[c] > FEW:  # as cells lie in memory
                            copy(target, inner, corner)
                            fill(led, inner, np.int32(least))
                            for deep in range(head_count[h]):
                                for down in range(row_count[r]):
                                    cells = at(corner, deep * deep_step + down * down_step)
                                    code = least + deep * deep_code + down * down_code
                                    for tap in range(count[c]):
                                        lead_cell(
                                            target, led, inner, at(cells, tap * ints[2, 1] * ints[2, 0]), code + tap
                                        )
                            for i in range(inner):
                                target_codes[i] = led[i]
                            continue
                        for place in range(0, inner, step):
                            i = min(place, inner - step)
                            best = get(corner, i)
                            own = splat(np.int32(least), best)
                            for deep in range(head_count[h]):
                                for down in range(row_count[r]):
                                    cells = at(corner, i + deep * deep_step + down * down_step)
                                    code = least + deep * deep_code + down * down_code
                                    for tap in range(count[c]):
                                        later = get(cells, tap * ints[2, 1] * ints[2, 0])
                                        wins = beats(later, best)
                                        best = either(wins, later, best)
                                        own = either(wins, splat(np.int32(code + tap), best), own)
                            put(target, i, best)
                            put(target_codes, i, own)
        t = take(counter)


@compiled
def pull_inner(g, codes, gx, zero, inner, plane, ints, heads, rows, columns, tasks, counter):
    """gx = each cotangent where its window has its winner, and 0 in the window's other cells: windows that share no cell."""
    head_first, head_count, head_start = heads
    row_first, row_count, row_start = rows
    first, count, start_of = columns
    step = lanes(g)
    nothing = splat(zero[0], get(at(g, 0), 0))
    t = take(counter)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for h in range(tasks[t, 2], tasks[t, 3]):
                for r in range(tasks[t, 4], tasks[t, 5]):
                    line = ((outer * head_first.size + h) * row_first.size + r) * first.size * inner
                    for deep in range(head_count[h]):
                        head = head_first[h] + deep * ints[0, 1]
                        for down in range(row_count[r]):
                            row = row_first[r] + down * ints[1, 1]
                            base = outer * plane + head * ints[0, 0] + row * ints[1, 0]
                            least = (head - head_start[h]) * ints[0, 2] + (row - row_start[r]) * ints[1, 2]
                            for c in range(first.size):
                                arriving, own = at(g, line + c * inner), at(codes, line + c * inner)
                                for across in range(count[c]):
                                    cell = first[c] + across * ints[2, 1]
                                    target, code = at(gx, base + cell * ints[2, 0]), (cell - start_of[c]) // ints[2, 1]
                                    for place in range(0, inner, step):
                                        i = min(place, inner - step)
                                        led = get_with(own, i, nothing)
                                        won = equals(led, splat(type(own[0])(least + code), led))
                                        put(target, i, either(won, get(arriving, i), nothing))
        t = take(counter)
