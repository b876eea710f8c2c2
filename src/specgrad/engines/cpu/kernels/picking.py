"""Windows of one cell each: their cells are copied, and cotangents go back to them."""

from __future__ import annotations

from .access import at
from .compiling import compiled
from .crew import disband, enlist, take
from .rows import copy, fill


@compiled
def pick(x, y, ints, bases, rows, tasks, counter, crew, turn):
    """y = the cells of x that are windows: `count` in each of the rows, `step` apart from the `first` on, in runs of `inner`. Tasks are ranges of
    the rows of all planes."""
    first, step, count, inner = ints[0], ints[1], ints[2], ints[3]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for r in range(tasks[t, 0], tasks[t, 1]):
            plane = r // len(rows)
            source = at(x, bases[plane] + rows[r - plane * len(rows)] + first)
            target = at(y, r * count * inner)
            if inner == 1:
                for i in range(count):
                    target[i] = source[i * step]
            else:
                for i in range(count):
                    copy(at(target, i * inner), inner, at(source, i * step))
        t = take(counter)
    return disband(counter, crew, turn, False)


@compiled
def put_back(gy, gx, zero, ints, rows, tasks, counter, crew, turn):
    """gx = 0 + the cotangents at the cells that are windows, and 0 elsewhere: each row of a plane is told which row of windows it has, or -n if it
    and the next n - 1 rows have none. Tasks are ranges of the rows of all planes."""
    first, step, count, inner, line, height = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        r, stop = tasks[t, 0], tasks[t, 1]
        while r < stop:
            plane = r // len(rows)
            row, target = rows[r - plane * len(rows)], at(gx, r * line)
            some = 1 if row >= 0 else min(-row, stop - r)
            if row < 0 or count * inner < line:
                fill(target, some * line, zero[0])
            if row >= 0:
                source, there = at(gy, (plane * height + row) * count * inner), at(target, first)
                if inner == 1:
                    for i in range(count):
                        there[i * step] = source[i] + zero[0]
                else:
                    for i in range(count):
                        run, own = at(there, i * step), at(source, i * inner)
                        for j in range(inner):
                            run[j] = own[j] + zero[0]
            r += some
        t = take(counter)
    return disband(counter, crew, turn, False)


@compiled
def put_in_planes(gy, gx, zero, places, plane, tasks, counter, crew, turn):
    """The same, of planes so small that each is filled whole: tables say at which place each of its windows lies. Tasks are ranges of planes."""
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            source, target = at(gy, outer * len(places)), at(gx, outer * plane)
            fill(target, plane, zero[0])
            for i in range(len(places)):
                target[places[i]] = source[i] + zero[0]
        t = take(counter)
    return disband(counter, crew, turn, False)
