"""The way back through averages of windows that are large and overlap little: many rows of cells are alike, and made once."""

from __future__ import annotations

from .access import at
from .compiling import compiled
from .crew import disband, enlist, part_of, take
from .rows import copy


@compiled
def spread_bins(g, gx, zero, row_first, row_count, near, far, divisors, tasks, counter, rooms, crew, turn):
    """gx = each cell's sum of g/divisor over the windows that read it.

    Rows of cells are read by row_count[i] rows of windows from row_first[i] on, columns by the windows near[i] and far[i], the one after the
    last standing for none.
    """
    height, width, columns, windows = row_first.size, near.size, divisors.shape[1], divisors.size
    over = divisors.reshape(-1)
    shares = part_of(rooms, turn)
    down, line = at(shares, windows), at(shares, windows + columns + 1)
    down[columns] = zero[0]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for plane in range(tasks[t, 0], tasks[t, 1]):
            arriving = at(g, plane * windows)
            for i in range(windows):
                shares[i] = arriving[i] / over[i]
            for row in range(height):
                if row == 0 or row_first[row] != row_first[row - 1] or row_count[row] != row_count[row - 1]:
                    for c in range(columns):
                        down[c] = zero[0]
                    for r in range(row_first[row], row_first[row] + row_count[row]):
                        own = at(shares, r * columns)
                        for c in range(columns):
                            down[c] += own[c]
                    for i in range(width):
                        line[i] = down[near[i]] + down[far[i]]
                copy(at(gx, (plane * height + row) * width), width, line)
        t = take(counter)
    disband(counter, crew, turn, False)
