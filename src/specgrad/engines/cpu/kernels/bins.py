"""The way back through averages of windows that are large and overlap little: cells that the same windows read are alike, in runs of a row, and so
are neighbouring rows."""

from __future__ import annotations

from .access import at, get, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import copy
from .vectors import splat


@inline
def add_up(target, n, rows, which, zero):
    """target = the sum of rows of n cells: from which[0] on, which[1] of them."""
    for i in range(n):
        target[i] = zero
    for row in range(which[0], which[0] + which[1]):
        own = at(rows, row * n)
        for i in range(n):
            target[i] += own[i]


@compiled
def spread_bins(g, gx, zero, heads, rows, columns, divisors, tasks, counter, rooms, crew, turn):
    """gx = each cell's sum of g/divisor over the windows that read it.

    `heads`, `rows` and `columns` are runs of the cells of each axis that the same windows read: the first of these, how many, and where the run
    begins and ends; of columns, which are read by up to two windows, both, the one after the last standing for none.
    """
    depth, height, width = heads[-1, 3], rows[-1, 3], columns[-1, 3]
    windows, across = divisors.size, divisors.shape[2]
    layer, plane = divisors.shape[1] * across, height * width
    over, shares = divisors.reshape(-1), part_of(rooms, turn)
    summed = divisors.shape[0] > 1 or len(heads) > 1 or heads[0, 1] != 1
    held = at(shares, windows if summed else 0)
    down = at(shares, windows + layer)
    line = at(down, across + 1)
    step, down[across] = lanes(line), zero[0]
    canvas = at(line, width + step)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            arriving = at(g, outer * windows)
            for i in range(windows):
                shares[i] = arriving[i] / over[i]
            for run in range(len(heads)):
                if summed:
                    add_up(held, layer, shares, at(heads, 4 * run), zero[0])
                for head in range(heads[run, 2], heads[run, 3]):
                    there = at(gx, (outer * depth + head) * plane)
                    if head > heads[run, 2]:
                        copy(there, plane, at(there, -plane))
                        continue
                    # vectors that are longer than a row also write what follows it, if that is still to be written
                    follows = ((tasks[t, 1] - outer) * depth - head - 1) * plane >= step
                    target = there if width >= step or follows else canvas
                    for r in range(len(rows)):
                        add_up(down, across, held, at(rows, 4 * r), zero[0])
                        if len(columns) == width:
                            for c in range(width):
                                line[c] = down[columns[c, 0]] + down[columns[c, 1]]
                        else:
                            for c in range(len(columns)):
                                number = splat(down[columns[c, 0]] + down[columns[c, 1]], get(line, 0))
                                for i in range(columns[c, 2], columns[c, 3], step):
                                    put(line, i, number)
                        if width >= step:
                            for row in range(rows[r, 2], rows[r, 3]):
                                copy(at(target, row * width), width, line)
                        else:
                            for row in range(rows[r, 2], rows[r, 3]):
                                put(target, row * width, get(line, 0))
                    if width < step and not follows:
                        copy(there, plane, canvas)
        t = take(counter)
    disband(counter, crew, turn, False)
