"""Folds of windows that share few cells or none, each by itself: what lies between them is not read."""

from __future__ import annotations

from .access import at, get, lanes
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .vectors import combine, either, folded, leads


@inline
def sum_window(first, apart, below, deep, tall, wide, zero):
    """The sum of `deep` times `tall` rows of `wide` cells."""
    step = lanes(first)
    done, total = wide // step * step, zero
    if done:
        sums, start = get(first, 0), step
        for head in range(deep):
            for row in range(tall):
                line = at(first, head * apart + row * below)
                for i in range(start, done, step):
                    sums = combine(sums, get(line, i), None)
                start = 0
        total = folded(sums, None)
    if done < wide:
        for head in range(deep):
            for row in range(tall):
                line = at(first, head * apart + row * below)
                for i in range(done, wide):
                    total += line[i]
    return total


@inline
def lead_window(first, apart, below, deep, tall, wide):
    """The first greatest of `deep` times `tall` rows of `wide` cells, or their last NaN."""
    best = first[0]
    for head in range(deep):
        for row in range(tall):
            line = at(first, head * apart + row * below)
            for i in range(wide):
                best = either(leads(line[i], best, True), line[i], best)
    return best


@compiled
def fold_each(x, y, identity, maximum, ints, bases, heads, rows, columns, divisors, tasks, counter, crew, turn):
    """y = the sum of each window over its divisor, or its maximum. Tables say where windows begin along each axis, and how many cells they have."""
    apart, below = ints[0], ints[1]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            target, window = at(y, outer * len(heads) * len(rows) * len(columns)), 0
            for h in range(len(heads)):
                for r in range(len(rows)):
                    line, deep, tall = bases[outer] + heads[h, 0] * apart + rows[r, 0] * below, heads[h, 1], rows[r, 1]
                    for c in range(len(columns)):
                        first, wide = at(x, line + columns[c, 0]), columns[c, 1]
                        if deep <= 0 or tall <= 0 or wide <= 0:
                            target[window] = identity[0]
                        elif maximum is None:
                            total = sum_window(first, apart, below, deep, tall, wide, identity[0])
                            target[window] = total / divisors[window]
                        else:
                            target[window] = lead_window(first, apart, below, deep, tall, wide)
                        window += 1
        t = take(counter)
    return disband(counter, crew, turn, False)
