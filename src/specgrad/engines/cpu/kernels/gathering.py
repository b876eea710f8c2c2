"""The way back through maxima of the windows of three taps per axis around each cell, on contiguous planes: each cell gathers the cotangents of the windows that it won.

Window and cell number f have the same place, so that a tap of window f is cell f + (i-1)·width + j-1 (in rank 2), and this holds for all planes as one long line, without rows or
edges: what lies beyond these is padding, which wins nothing. And of the windows that differ in one axis only, those that were won in one place of it were won by the same
cell, since the axes after it were led first (`winners`). So cotangents are gathered axis by axis: to the places of their winners in the first, where the tap in the
others stays known, then in the next.
"""

from __future__ import annotations

import numpy as np

from .access import at, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill
from .vectors import cut, either, equals, exceeds, plus, splat


@inline
def gather_across(line, led, n, apart, taps, arriving, codes, none):
    """line, led = at each cell the sum of the cotangents of three windows, `apart` cells from one another, that were won where it is, and the tap in the axes that are left, which
    have so many taps."""
    step, zeros = lanes(line), splat(none, get(line, 0))
    most = splat(cut(taps, led), zeros)
    up, far_up = splat(cut(-taps, led), zeros), splat(cut(-2 * taps, led), zeros)
    for start in range(0, n, step):
        i = min(start, n - step)
        tap_a = plus(get_with(codes, i - apart, zeros), far_up)
        tap_b, tap_c = plus(get_with(codes, i, zeros), up), get_with(codes, i + apart, zeros)
        wins_a, wins_b, wins_c = exceeds(most, tap_a), exceeds(most, tap_b), exceeds(most, tap_c)
        a, b = either(wins_a, get(arriving, i - apart), zeros), either(wins_b, get(arriving, i), zeros)
        put(line, i, a + b + either(wins_c, get(arriving, i + apart), zeros))
        put(led, i, either(wins_a, tap_a, either(wins_b, tap_b, tap_c)))


@inline
def gather_along(target, n, line, led, none):
    """target = at each cell the sum of what it won in the line."""
    step, zeros = lanes(line), splat(none, get(line, 0))
    first, second, third = splat(np.uint8(0), zeros), splat(np.uint8(1), zeros), splat(np.uint8(2), zeros)
    for start in range(0, n, step):
        i = min(start, n - step)
        a = either(equals(get_with(led, i - 1, zeros), third), get(line, i - 1), zeros)
        b = either(equals(get_with(led, i, zeros), second), get(line, i), zeros)
        put(target, i, a + b + either(equals(get_with(led, i + 1, zeros), first), get(line, i + 1), zeros))


@compiled
def gather(gy, codes, gx, zero, steps, piece, tasks, counter, rooms, code_rooms, crew, turn):
    """gx = at each cell the sum of the cotangents of the windows that it won, of the cells of the tasks it takes.

    `steps` has how far apart cells are that are neighbours in all axes but the last, and how far the furthest taps are.
    """
    none, total, reach = zero[0], gx.size, steps[steps.size - 1]
    taps, room = 1, piece + 2 * (reach + lanes(rooms))
    for _ in range(steps.size - 1):
        taps *= 3
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        begin, end = tasks[t, 0], tasks[t, 1]
        while begin < end:
            stop = end if end - begin < piece + lanes(rooms) else begin + piece
            n, margin, left = stop - begin, reach, taps
            line, led = part_of(rooms, turn), part_of(code_rooms, turn)
            other, other_led = at(line, room), at(led, room)
            arriving, own = at(gy, begin), at(codes, begin)
            if begin < reach or stop + reach > total:
                # beyond all cells nothing was won
                fill(line, n + 2 * reach, none)
                fill(led, n + 2 * reach, 255)
                for i in range(max(reach - begin, 0), min(n + 2 * reach, total - begin + reach)):
                    line[i], led[i] = gy[begin - reach + i], codes[begin - reach + i]
                arriving, own = at(line, reach), at(led, reach)
                line, led, other, other_led = other, other_led, line, led
            for axis in range(steps.size - 1):
                margin -= steps[axis]
                gather_across(
                    line, led, n + 2 * margin, steps[axis], left, at(arriving, -margin), at(own, -margin), none
                )
                arriving, own = at(line, margin), at(led, margin)
                line, led, other, other_led = other, other_led, line, led
                left //= 3
            gather_along(at(gx, begin), n, arriving, own, none)
            begin = stop
        t = take(counter)
    disband(counter, crew, turn, False)
