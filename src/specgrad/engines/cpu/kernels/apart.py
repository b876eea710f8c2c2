"""The way back through windows that share no cell and leave no gap, and are 2 or 4 cells wide: rows of cells are written by vectors.

Cells that no window reads come after the others. Pairs are 2×2 windows on planes: `ints` has the lengths of the plane and of its
windows; tasks are ranges of planes and of rows of cells. Runs are windows of cells of one row. The one kernel that would do for both takes
1.2 to 1.4 times as long on pairs, the most common windows: so these have kernels of their own.
"""

from __future__ import annotations

import numpy as np

from .access import at, fetch, get, get_with, lanes, put, put_end
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .rows import fill
from .small import AHEAD
from .vectors import either, equals, quotient, splat, zipped_high, zipped_low


@inline
def put_pairs(target, o, even, odd, kept):
    """Write the last `kept` pairs, or all, of two vectors that are zipped from cell 2·o on, and no cell before them."""
    step = lanes(target)
    if 2 * kept > step:
        put_end(target, 2 * o, zipped_low(even, odd), 2 * kept - step)
    put_end(target, 2 * o + step, zipped_high(even, odd), 2 * kept)


@inline
def put_fours(target, o, a, b, c, d, kept):
    """As `put_pairs`, of four vectors from cell 4·o on."""
    step = lanes(target)
    low, high = (zipped_low(a, c), zipped_low(b, d)), (zipped_high(a, c), zipped_high(b, d))
    if kept >= step:  # at once: an instruction of some machines
        put(target, 4 * o, zipped_low(low[0], low[1]))
        put(target, 4 * o + step, zipped_high(low[0], low[1]))
        put(target, 4 * o + 2 * step, zipped_low(high[0], high[1]))
        put(target, 4 * o + 3 * step, zipped_high(high[0], high[1]))
        return
    if 4 * kept > 3 * step:
        put_end(target, 4 * o, zipped_low(low[0], low[1]), 4 * kept - 3 * step)
    if 4 * kept > 2 * step:
        put_end(target, 4 * o + step, zipped_high(low[0], low[1]), 4 * kept - 2 * step)
    if 4 * kept > step:
        put_end(target, 4 * o + 2 * step, zipped_low(high[0], high[1]), 4 * kept - step)
    put_end(target, 4 * o + 3 * step, zipped_high(high[0], high[1]), 4 * kept)


@inline
def put_won(target, o, cotangent, code, first, nothing, kept):
    """A row of windows' pairs of cells, of which the one that won, by its code, has the cotangent."""
    even = either(equals(code, splat(first, code)), cotangent, nothing)
    odd = either(equals(code, splat(np.uint8(first + 1), code)), cotangent, nothing)
    put_pairs(target, o, even, odd, kept)


@compiled
def pull_pairs(g, codes, gx, zero, ints, tasks, counter, crew, turn):
    """gx = each cotangent where its 2×2 window has its winner, and 0 elsewhere: windows that share no cell and leave no gap."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    step = lanes(g)
    nothing = splat(zero[0], get(at(g, 0), 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            row, stop = tasks[t, 2], tasks[t, 3]
            while row < stop:
                target = at(gx, (outer * height + row) * width)
                if row // 2 >= height_out:
                    fill(target, width, zero[0])
                    row += 1
                    continue
                where = (outer * height_out + row // 2) * width_out
                arriving, own = at(g, where), at(codes, where)
                # both rows of a window at once, unless a task has only one
                rows = 2 if row % 2 == 0 and row + 1 < stop else 1
                upper = np.uint8(row % 2 * 2)
                for start in range(0, width_out, step):
                    o = min(start, width_out - step)
                    cotangent = get(arriving, o) + nothing  # so that no -0.0 is sent
                    code = get_with(own, o, cotangent)
                    put_won(target, o, cotangent, code, upper, nothing, width_out - start)
                    if rows == 2:
                        put_won(at(target, width), o, cotangent, code, np.uint8(2), nothing, width_out - start)
                if width % 2:
                    target[width - 1] = zero[0]
                    target[rows * width - 1] = zero[0]
                row += rows
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def pull_run(target, o, arriving, codes, nothing, taps, kept):
    """A vector of cotangents to the winners of windows that are runs of `taps` cells; of the last `kept` windows."""
    cotangent = get(arriving, o) + nothing
    code = get_with(codes, o, cotangent)
    first = either(equals(code, splat(np.uint8(0), code)), cotangent, nothing)
    second = either(equals(code, splat(np.uint8(1), code)), cotangent, nothing)
    if taps == 2:
        put_pairs(target, o, first, second, kept)
    else:
        third = either(equals(code, splat(np.uint8(2), code)), cotangent, nothing)
        fourth = either(equals(code, splat(np.uint8(3), code)), cotangent, nothing)
        put_fours(target, o, first, second, third, fourth, kept)


@compiled
def pull_runs(g, codes, gx, zero, ints, tasks, counter, crew, turn):
    """gx = each cotangent where its window, a run of 2 or 4 cells of a row, has its winner, and 0 elsewhere."""
    taps, width, width_out, rows = ints[0], ints[1], ints[2], ints[3]
    step = lanes(g)
    nothing = splat(zero[0], get(at(g, 0), 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for row in range(tasks[t, 0] * rows, tasks[t, 1] * rows):
            target, arriving, own = at(gx, row * width), at(g, row * width_out), at(codes, row * width_out)
            if taps == 2:
                for start in range(0, width_out, step):
                    pull_run(target, min(start, width_out - step), arriving, own, nothing, 2, width_out - start)
            else:  # the last ones apart: one loop for all made long rows slower
                for o in range(0, width_out - step + 1, step):
                    pull_run(target, o, arriving, own, nothing, 4, step)
                if width_out % step:
                    pull_run(target, width_out - step, arriving, own, nothing, 4, width_out % step)
            fill(at(target, taps * width_out), width - taps * width_out, zero[0])
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def spread_pairs(g, gx, zero, ints, over, rest, tasks, counter, crew, turn):
    """gx = the cotangent of each cell's 2×2 window times `over` and `rest` (see `quotient`), and 0 where no window reads."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    step = lanes(g)
    like = get(at(g, 0), 0)
    overs, rests = splat(over, like), splat(rest, like)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for row in range(tasks[t, 2], tasks[t, 3]):
                target = at(gx, (outer * height + row) * width)
                if row // 2 >= height_out:
                    fill(target, width, zero[0])
                    continue
                arriving = at(g, (outer * height_out + row // 2) * width_out)
                for start in range(0, width_out, step):
                    o = min(start, width_out - step)
                    share = quotient(get(arriving, o), overs, rests)
                    put_pairs(target, o, share, share, width_out - start)
                for i in range(2 * width_out, width):
                    target[i] = zero[0]
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def spread_row(target, arriving, columns, across, over, rest):
    """A row of cells from the shares of a row of windows."""
    step = lanes(target)
    for start in range(0, columns, step):
        o = min(start, columns - step)
        if across * columns < AHEAD * step:  # in short rows a core does not see that lines will be written whole
            fetch(target, across * o + AHEAD * step)
            fetch(target, across * o + (AHEAD + 1) * step)
            if across == 4:
                fetch(target, across * o + (AHEAD + 2) * step)
                fetch(target, across * o + (AHEAD + 3) * step)
        share = quotient(get(arriving, o), over, rest)
        if across == 2:
            put_pairs(target, o, share, share, columns - start)
        else:
            put_fours(target, o, share, share, share, share, step)


@compiled
def spread_apart(g, gx, zero, ints, over, rest, tasks, counter, crew, turn):
    """gx = the cotangent of each cell's window times `over` and `rest` (see `quotient`), and 0 where no window reads.

    `ints` has, for three axes, how many cells they have, how many windows, and how many taps these have; tasks are ranges of slabs (all
    depths of all planes) and, of each, of rows of windows.
    """
    depth, heads, deep = ints[0, 0], ints[0, 1], ints[0, 2]
    height, rows, down = ints[1, 0], ints[1, 1], ints[1, 2]
    width, columns, across = ints[2, 0], ints[2, 1], ints[2, 2]
    like = get(at(g, 0), 0)
    overs, rests = splat(over, like), splat(rest, like)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for slab in range(tasks[t, 0], tasks[t, 1]):
            head, plane = slab % depth // deep, slab // depth
            for r in range(tasks[t, 2], tasks[t, 3]):
                arriving = at(g, ((plane * heads + head) * rows + r) * columns)
                for row in range(r * down, (r + 1) * down if r < rows - 1 else height):
                    target = at(gx, (slab * height + row) * width)
                    if head >= heads or row >= rows * down:
                        fill(target, width, zero[0])
                        continue
                    if across == 2:
                        spread_row(target, arriving, columns, 2, overs, rests)
                    else:
                        spread_row(target, arriving, columns, 4, overs, rests)
                    fill(at(target, across * columns), width - across * columns, zero[0])
        t = take(counter)
    disband(counter, crew, turn, False)
