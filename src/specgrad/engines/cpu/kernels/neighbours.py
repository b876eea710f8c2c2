"""Winners of 3×3 windows that move by one cell, on contiguous planes, two rows of windows in one loop: `winners.find_winners` for a common case.

Two rows of windows share two rows of cells, of which the leaders are compared once. Cells are led across where they lie; padding is a vector of its own at either end. A row that is
padding is the row next to it once more, with the codes that this one has: it takes no lead that it would not have anyway. As in `winners`, a NaN that nobody told of
(`nans`) is only noticed.
"""

from __future__ import annotations

import numpy as np

from .access import at, fetch, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill
from .vectors import either, leads, one_after, one_before, plus, splat
from .watching import is_spotted

ROW_LESS = np.uint8(256 - 3)  # added to the codes of a row of cells, for windows that begin a row later


@inline
def pad_ends(ends, cells, width, identity, total):
    """ends = the first taps of the first windows of a row, if they have a cell of padding before them, and the last taps of the last ones; `total` and
    the sum of cells at either end, which without padding are in the middle of no window."""
    step = lanes(cells)
    first, last = get(cells, 0), get(cells, width - step)
    put(ends, 0, one_before(splat(identity, first), first))
    put(ends, step, one_after(last, splat(identity, last)))
    return total + first + last


@inline
def lead_near(cells, ends, o, last, before, after, least, nans):
    """The leaders of three neighbouring taps of a row, and which tap each is; the cells in the middle."""
    near = at(cells, o - before)
    best, second = get(ends if before and o == 0 else near, 0), get(near, 1)
    third = get(at(ends, lanes(cells)) if after and o == last else at(near, 2), 0)
    wins = leads(second, best, nans)
    led = either(wins, splat(np.uint8(1), best), get_with(least if o == 0 else at(least, lanes(cells)), 0, best))
    best = either(wins, second, best)
    wins = leads(third, best, nans)
    return either(wins, third, best), either(wins, splat(np.uint8(2), best), led), second


@inline
def lead_later(best, led, later, later_led, shift, nans):
    """The leaders of two that follow each other, and their codes; the later's have a shift."""
    wins = leads(later, best, nans)
    return either(wins, later, best), either(wins, plus(later_led, shift), led)


@inline
def lead_row(value, code, outputs, cells, ends, before, after, least, total, nans):
    """The leaders of the taps of a row, and which tap each is; `total` and the sum of all cells, which is NaN if one is (and if infinities of both signs meet)."""
    step = lanes(cells)
    last = outputs - step
    for start in range(0, outputs, step):
        o = min(start, last)
        best, led, middle = lead_near(cells, ends, o, last, before, after, least, nans)
        total = total + middle
        put(value, o, best)
        put(code, o, led)
    return total


@inline
def lead_two_rows(y, codes, other, other_codes, outputs, kept, kept_codes, into, into_codes, room, cells, below, ends, before, after, least, ahead, shifts, total, nans):  # fmt: skip
    """The leaders of two rows of windows, from those of their first two rows of cells, which are kept, and from the two rows of cells after; and those of the latter."""
    step = lanes(cells)
    last = outputs - step
    first, second, third, fourth = shifts
    for start in range(0, outputs, step):
        o = min(start, last)
        fetch(cells, o + ahead)
        fetch(below, o + ahead)
        c, c_led, middle = lead_near(cells, ends, o, last, before, after, least, nans)
        put(into, o, c)
        put(into_codes, o, c_led)
        total = total + middle
        b = get(kept, room + o)
        b_led = plus(get_with(kept_codes, room + o, b), splat(second, b))
        shared, shared_led = lead_later(b, b_led, c, c_led, splat(third, b), nans)
        a = get(kept, o)
        a_led = plus(get_with(kept_codes, o, a), splat(first, a))
        best, led = lead_later(a, a_led, shared, shared_led, splat(np.uint8(0), a), nans)
        put(y, o, best)
        put(codes, o, led)
        d, d_led, middle = lead_near(below, at(ends, 2 * step), o, last, before, after, least, nans)
        put(into, room + o, d)
        put(into_codes, room + o, d_led)
        total = total + middle
        led = plus(shared_led, splat(ROW_LESS, b))
        best, led = lead_later(shared, led, d, d_led, splat(fourth, b), nans)
        put(other, o, best)
        put(other_codes, o, led)
    return total


@compiled
def find_neighbours(x, y, codes, identity, nans, ints, tasks, counter, rooms, code_rooms, crew, turn):
    """As `small_winners.find_small_winners`, of the windows of `maximum.are_neighbours`."""
    height, width, height_out, width_out, above, before = ints[0], ints[1], ints[2], ints[3], ints[6], ints[9]
    after = width_out + 2 - before - width
    step, lowest = lanes(rooms), identity[0]
    ends, least = part_of(rooms, turn), part_of(code_rooms, turn)
    kept, kept_codes = at(ends, 4 * step), at(least, 2 * step)
    into, into_codes = at(kept, 2 * width_out), at(kept_codes, 2 * width_out)
    spare, spare_codes = at(into, 2 * width_out), at(into_codes, 2 * width_out)
    fill(ends, step, 0)
    total = get(ends, 0)
    fill(least, 2 * step, 0)
    least[0] = np.uint8(before)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane = at(x, outer * height * width)
            for r in range(tasks[t, 2], tasks[t, 3], 2):
                top = r - above
                if r == tasks[t, 2]:
                    for row in range(2):
                        cells = at(plane, min(max(top + row, 0), height - 1) * width)
                        total = pad_ends(ends, cells, width, lowest, total)
                        total = lead_row(
                            at(kept, row * width_out), at(kept_codes, row * width_out), width_out, cells, ends, before,
                            after, least, total, nans,
                        )  # fmt: skip
                cells, below = at(plane, min(top + 2, height - 1) * width), at(plane, min(top + 3, height - 1) * width)
                total = pad_ends(ends, cells, width, lowest, total)
                total = pad_ends(at(ends, 2 * step), below, width, lowest, total)
                where = (outer * height_out + r) * width_out
                target, target_codes, other, other_codes = at(y, where), at(codes, where), spare, spare_codes
                if r + 1 < tasks[t, 3]:
                    other, other_codes = at(target, width_out), at(target_codes, width_out)
                shifts = (
                    np.uint8(3 * (max(top, 0) - top)),
                    np.uint8(3 * (min(top + 1, height - 1) - top)),
                    np.uint8(3 * (min(top + 2, height - 1) - top)),
                    np.uint8(3 * (min(top + 3, height - 1) - top - 1)),
                )
                total = lead_two_rows(
                    target, target_codes, other, other_codes, width_out, kept, kept_codes, into, into_codes, width_out,
                    cells, below, ends, before, after, least, 2 * width, shifts, total, nans,
                )  # fmt: skip
                kept, kept_codes, into, into_codes = into, into_codes, kept, kept_codes
        t = take(counter)
    return disband(counter, crew, turn, nans is None and is_spotted(total))
