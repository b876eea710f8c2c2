"""Winners of 3×3 windows, stride 2, on contiguous planes, in one loop per row of outputs: `winners.find_winners` for a common case.

The leaders of each third row are kept, since the next windows begin with it; the rows between are folded where they lie. Windows with padding before or after
are searched one by one. As in `winners`, a NaN that nobody told of (`nans`) is only noticed.
"""

from __future__ import annotations

import numpy as np

from .access import at, fetch, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill
from .small import row_of
from .small_winners import lead_of_two
from .vectors import combine, either, evens, leads, lesser_half, narrow, odds, plus, splat
from .watching import is_spotted


@inline
def read_threes(cells, o, like):
    """What `lead_of_three` needs of a row, of the windows from o on, 3 wide and stride 2."""
    step = lanes(cells) // 2
    near, far = get_with(cells, 2 * o, like), get_with(cells, 2 * o + step, like)
    return near, far, get_with(cells, 2 * o + 1, like), get_with(cells, 2 * o + 1 + step, like)


@inline
def lead_of_three(read, nans):
    """The leaders of three neighbouring taps, which tap each is, and sums of the first two."""
    first, second, third = evens(read[0], read[1]), odds(read[0], read[1]), odds(read[2], read[3])
    best, led = lead_of_two(first, second, 0, nans)
    wins = leads(third, best, nans)
    return either(wins, third, best), either(wins, splat(np.uint8(2), best), led), first + second


@inline
def lead_down(best, led, later, later_led, code, nans):
    """The leaders of the rows so far and of the next one, of which the first tap has this code, and their codes."""
    wins = leads(later, best, nans)
    return either(wins, later, best), either(wins, plus(later_led, splat(np.uint8(code), best)), led)


@inline
def lead_threes(value, code, begin, end, above, above_code, below, below_code, middle, lower, ahead, total, nans):
    """The leaders of 3×3 windows, stride 2, that have no padding, and which tap each is, from those of their first row and from the two rows of
    cells after it, and those of the last one; `total` and the sum of all cells, which is NaN if one is (and if infinities of both signs meet).

    Cells are read one turn before they are needed, and half as many at a time as elsewhere: so a core finds something to do while it waits.
    """
    step, like = lanes(middle) // 2, total
    near, far = read_threes(middle, begin, like), read_threes(lower, begin, like)
    o, last = begin, end - step
    while True:
        fetch(middle, 2 * o + ahead)
        fetch(lower, 2 * o + ahead)
        best, following = get_with(above, o, like), min(o + step, last)
        led = get_with(above_code, o, like)
        later, later_led, sums = lead_of_three(near, nans)
        near, total = read_threes(middle, following, like), total + sums
        best, led = lead_down(best, led, later, later_led, 3, nans)
        later, later_led, sums = lead_of_three(far, nans)
        far, total = read_threes(lower, following, like), total + sums
        best, led = lead_down(best, led, later, later_led, 6, nans)
        put(below, o, later)
        put(below_code, o, later_led)
        put(value, o, best)
        put(code, o, led)
        if o == last:
            return total + splat(combine(middle[2 * end], lower[2 * end], None), total)
        o = following


@inline
def lead_of_cells(cells, begin, width, nans):
    """The leader of three neighbouring taps, some of which may be before a row's cells or after them, and which tap it is; the sum of cells. Without
    a branch: a tap that is padding is a cell that was asked before."""
    first = min(max(begin, 0), width - 1)
    second, third = max(min(begin + 1, width - 1), first), max(min(begin + 2, width - 1), first)
    wins = leads(cells[second], cells[first], nans)
    best, place = either(wins, cells[second], cells[first]), either(wins, second, first)
    wins = leads(cells[third], best, nans)
    best, place = either(wins, cells[third], best), either(wins, third, place)
    total = combine(combine(cells[first], cells[second], None), cells[third], None)  # in their own type
    return best, narrow(place - begin), total


@inline
def lead_at_ends(value, code, o, above, above_code, below, below_code, middle, lower, width, before, total, nans):
    """As `lead_threes`, of one window that may have padding before and after."""
    later, later_led, sums = lead_of_cells(middle, 2 * o - before, width, nans)
    last, last_led, more = lead_of_cells(lower, 2 * o - before, width, nans)
    best, led = lead_down(above[o], above_code[o], later, later_led, 3, nans)
    value[o], code[o] = lead_down(best, led, last, last_led, 6, nans)
    below[o], below_code[o] = last, last_led
    return total + splat(combine(sums, more, None), total)


@compiled
def find_threes(x, y, codes, identity, nans, ints, tasks, counter, rooms, code_rooms, crew, turn):
    """As `small_winners.find_small_winners`, of the windows of `maximum.are_threes`."""
    height, width, height_out, width_out, above, before = ints[0], ints[1], ints[2], ints[3], ints[6], ints[9]
    begin, end = (before + 1) // 2, min((width + before - 3) // 2 + 1, width_out)
    kept, kept_codes = part_of(rooms, turn), part_of(code_rooms, turn)
    other, other_codes = at(kept, width_out), at(kept_codes, width_out)
    spare, spare_codes, padding = at(other, width_out), at(other_codes, width_out), at(other, 2 * width_out)
    fill(padding, width, 0)
    total = lesser_half(get(padding, 0))
    fill(padding, width, identity[0])
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane = at(x, outer * height * width)
            for r in range(tasks[t, 2] - 1, tasks[t, 3]):
                top, where = 2 * r - above, (outer * height_out + r) * width_out
                value, code, missing = at(y, where), at(codes, where), 0
                if r < tasks[t, 2]:
                    # only to keep the leaders of the first windows' first row, or of the first one that they have
                    value, code, missing = spare, spare_codes, max(-2 - top, 0)
                middle = row_of(plane, top + 1, height, width, padding)
                lower = row_of(plane, top + 2 + missing, height, width, padding)
                for turned in range(begin + width_out - end):
                    o = turned if turned < begin else turned - begin + end
                    total = lead_at_ends(
                        value, code, o, kept, kept_codes, other, other_codes, middle, lower, width, before, total, nans
                    )
                middle, lower = at(middle, -before), at(lower, -before)
                total = lead_threes(
                    value, code, begin, end, kept, kept_codes, other, other_codes, middle, lower, 4 * width, total, nans
                )
                kept, kept_codes, other, other_codes = other, other_codes, kept, kept_codes
                for o in range(width_out if missing else 0):
                    kept_codes[o] += np.uint8(3 * missing)
        t = take(counter)
    return disband(counter, crew, turn, nans is None and is_spotted(total))
