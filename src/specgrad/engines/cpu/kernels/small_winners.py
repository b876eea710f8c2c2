"""Winners of windows of up to 3×3 taps, stride 1 or 2, on contiguous planes: `winners.find_winners` for the common cases.

Each input row is folded across once, into one of three rows kept at hand; a row of outputs is folded from these, down. Rows of inputs are at
least as long as a vector; rows of outputs that are shorter are computed apart and copied. As in `winners`, a NaN that nobody told of (`nans`) is only spotted.
"""

from __future__ import annotations

import numpy as np

from .access import at, dealt2, dealt4, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill
from .vectors import either, evens, leads, odds, plus, splat
from .watching import is_spotted, spot


@inline
def copy_row(target, n, source, seen):
    """target = source; what was seen of NaN."""
    step = lanes(source)
    for start in range(0, n, step):
        i = min(start, n - step)
        cells = get(source, i)
        put(target, i, cells)
        seen = spot(seen, cells)
    return seen


@inline
def lead_across(value, code, outputs, cells, taps, stride, nans):
    """The leaders of neighbouring taps of a row, and which tap each is."""
    step = lanes(cells)
    last = max(outputs - step, 0)
    for start in range(0, outputs, step):
        o = min(start, last)
        if stride == 1:
            best, second, third = get(cells, o), get(cells, o + 1), get(cells, o + 2)
        else:
            a, b = get(cells, 2 * o), get(cells, 2 * o + step)
            best, second = evens(a, b), odds(a, b)
            third = evens(get(cells, 2 * o + 2), get(cells, 2 * o + 2 + step)) if taps > 2 else second
        led = splat(np.uint8(0), best)
        if taps > 1:
            wins = leads(second, best, nans)
            best, led = either(wins, second, best), either(wins, splat(np.uint8(1), best), led)
        if taps > 2:
            wins = leads(third, best, nans)
            best, led = either(wins, third, best), either(wins, splat(np.uint8(2), best), led)
        put(value, o, best)
        put(code, o, led)


@inline
def lead_of_two(first, second, code, nans):
    """The leaders of two taps, of which the first has this code, and their codes."""
    wins = leads(second, first, nans)
    return either(wins, second, first), either(wins, splat(np.uint8(code + 1), first), splat(np.uint8(code), first))


@inline
def lead_of_four(a, b, c, d, nans):
    """The leaders of the taps 0 to 3, and their codes."""
    best, led = lead_of_two(a, b, 0, nans)
    later, later_led = lead_of_two(c, d, 2, nans)
    wins = leads(later, best, nans)
    return either(wins, later, best), either(wins, later_led, led)


@inline
def lead_pairs(value, code, outputs, a, b, seen, nans):
    """The leaders of 2×2 windows side by side, from their two rows, and which tap each is; what was seen of NaN."""
    step = lanes(a)
    for start in range(0, outputs, step):
        o = min(start, outputs - step)
        near, far = get(a, 2 * o), get(a, 2 * o + step)
        below, far_below = get(b, 2 * o), get(b, 2 * o + step)
        seen = spot(seen, (near + far) + (below + far_below))  # which is NaN, too, if infinities of both signs meet
        best, led = lead_of_four(
            evens(near, far), odds(near, far), evens(below, far_below), odds(below, far_below), nans
        )
        put(value, o, best)
        put(code, o, led)
    return seen


@inline
def lead_runs(value, code, cells, first, last, taps, seen, nans):
    """The leaders of windows, from the first on, that are runs of 2 or 4 cells side by side, and which tap each is; what was seen of NaN, as above."""
    step = lanes(cells)
    for start in range(first, last, step):
        o = max(min(start, last - step), 0)
        if taps == 2:
            a, b = dealt2(cells, 2 * o)
            seen = spot(seen, a + b)
            best, led = lead_of_two(a, b, 0, nans)
        else:
            a, b, c, d = dealt4(cells, 4 * o)
            seen = spot(seen, (a + b) + (c + d))
            best, led = lead_of_four(a, b, c, d, nans)
        put(value, o, best)
        put(code, o, led)
    return seen


@compiled
def find_runs(x, y, codes, identity, nans, ints, tasks, counter, crew, turn):
    """As `find_small_winners`, of windows that are runs of 2 or 4 cells of a row, which share none; a row of them has a vector's worth at least."""
    taps, width, width_out, rows = ints[0], ints[1], ints[2], ints[3]
    seen = splat(identity[1], get(at(y, 0), 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for row in range(outer * rows + tasks[t, 2], outer * rows + tasks[t, 3]):
                value, code, cells = at(y, row * width_out), at(codes, row * width_out), at(x, row * width)
                if taps == 2:
                    seen = lead_runs(value, code, cells, tasks[t, 4], tasks[t, 5], 2, seen, nans)
                else:
                    seen = lead_runs(value, code, cells, tasks[t, 4], tasks[t, 5], 4, seen, nans)
        t = take(counter)
    return disband(counter, crew, turn, nans is None and is_spotted(seen))


@compiled
def find_small_winners(x, y, codes, identity, nans, ints, tasks, counter, rooms, code_rooms, crew, turn):
    """y, codes = the leader of each window of the tasks it takes, and which tap it is, row-major. Returns whether it should
    have been told of NaNs."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    step, scratch = lanes(rooms), part_of(rooms, turn)
    span = max((width_out - 1) * stride + taps, width + before) + 3 * step
    down = at(scratch, step)
    line = at(down, -before)
    fill(line, before + span, identity[0])
    room = width_out + step
    values, taken = at(down, span), part_of(code_rooms, turn)
    apart, apart_codes = at(values, 3 * room), at(taken, 3 * room)
    side_by_side = rows == row_stride == taps == stride == 2 and above == before == 0 and width_out >= step
    side_by_side = side_by_side and 2 * width_out <= width and 2 * height_out <= height
    seen = splat(identity[0], get(down, 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            if side_by_side:
                for r in range(tasks[t, 2], tasks[t, 3]):
                    where, a = (outer * height_out + r) * width_out, at(x, (outer * height + 2 * r) * width)
                    seen = lead_pairs(at(y, where), at(codes, where), width_out, a, at(a, width), seen, nans)
                continue
            done = max(tasks[t, 2] * row_stride - above, 0)
            for r in range(tasks[t, 2], tasks[t, 3]):
                top = r * row_stride - above
                first, stop = max(top, 0), min(top + rows, height)
                for row in range(max(done, first), stop):
                    seen = copy_row(down, width, at(x, (outer * height + row) * width), seen)
                    value, code = at(values, row % 3 * room), at(taken, row % 3 * room)
                    if stride == 1:
                        lead_across(value, code, width_out, line, taps, 1, nans)
                    else:
                        lead_across(value, code, width_out, line, taps, 2, nans)
                    for o in range(min(before, width_out)):  # padding led where all real cells are as low as it
                        code[o] = max(code[o], np.uint8(max(before - o * stride, 0)))
                done = max(done, stop)
                where = (outer * height_out + r) * width_out
                ends = (
                    tasks[t, 3] - r
                ) * width_out < step  # before a vector would: others may have written what follows
                target, target_codes = (apart, apart_codes) if ends else (at(y, where), at(codes, where))
                value, code = at(values, first % 3 * room), at(taken, first % 3 * room)
                later, later_code = at(values, (first + 1) % 3 * room), at(taken, (first + 1) % 3 * room)
                final, final_code = at(values, (first + 2) % 3 * room), at(taken, (first + 2) % 3 * room)
                least = np.uint8((first - top) * taps)
                more, most = np.uint8(least + taps), np.uint8(least + 2 * taps)
                last = max(width_out - step, 0)
                for start in range(0, width_out, step):
                    o = min(start, last)
                    best = get(value, o)
                    led = plus(get_with(code, o, best), splat(least, best))
                    if stop - first > 1:
                        b = get(later, o)
                        wins = leads(b, best, nans)
                        best = either(wins, b, best)
                        led = either(wins, plus(get_with(later_code, o, best), splat(more, best)), led)
                    if stop - first > 2:
                        b = get(final, o)
                        wins = leads(b, best, nans)
                        best = either(wins, b, best)
                        led = either(wins, plus(get_with(final_code, o, best), splat(most, best)), led)
                    put(target, o, best)
                    put(target_codes, o, led)
                if ends:
                    own, own_codes = at(y, where), at(codes, where)
                    for o in range(width_out):
                        own[o], own_codes[o] = apart[o], apart_codes[o]
        t = take(counter)
    return disband(counter, crew, turn, nans is None and is_spotted(seen))
