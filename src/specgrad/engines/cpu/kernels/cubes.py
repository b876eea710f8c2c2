"""Windows of 2×2×2 cells that share none, on volumes that lie whole: in one pass, where other windows of rank 3 take two. A NaN is only noticed."""

from __future__ import annotations

from .access import at, fetch, get, get_with, lanes, put, put_end
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .small import AHEAD, finish
from .small_winners import lead_of_four
from .threes import lead_down
from .vectors import combine_numbers as combine
from .vectors import evens, lesser_half, odds, splat
from .watching import holds_zero, is_spotted, look, look_for_nan, opened, saw_minus_zero, saw_nan, spot


@inline
def fold_edges(a, b, c, d, i, eye, maximum):
    """The fold of four rows from cell i on, their sums, and what was seen of them."""
    one, two, three, four = get(a, i), get(b, i), get(c, i), get(d, i)
    eye = look(look(eye, one, two), three, four)
    folded = combine(combine(one, two, maximum), combine(three, four, maximum), maximum)
    return folded, (one + two) + (three + four), eye


@compiled
def fold_cubes(x, y, identity, maximum, ints, over, rest, tasks, counter, crew, turn):
    """y = fold of the windows of the tasks it takes, which are ranges of planes of windows. Returns whether the order of folding may show in a maximum.

    `ints` has the lengths of each axis, before and after; rows of windows are at least as long as a vector.
    """
    shows = False
    depth, heads, height, rows, width, columns = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    step, like = lanes(at(y, 0)), get(at(y, 0), 0)
    overs, rests = splat(over, like), splat(rest, like)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for plane in range(tasks[t, 0], tasks[t, 1]):
            eye, result = opened(overs, maximum), at(y, plane * rows * columns)
            for r in range(rows):
                a = at(x, ((plane // heads * depth + plane % heads * 2) * height + 2 * r) * width)
                b, c = at(a, width), at(a, height * width)
                d, target = at(c, width), at(result, r * columns)
                for start in range(0, columns, step):
                    o = min(start, columns - step)
                    for ahead in (AHEAD * step, (AHEAD + 1) * step):
                        fetch(a, 2 * o + ahead)
                        fetch(b, 2 * o + ahead)
                        fetch(c, 2 * o + ahead)
                        fetch(d, 2 * o + ahead)
                    near, near_sums, eye = fold_edges(a, b, c, d, 2 * o, eye, maximum)
                    far, far_sums, eye = fold_edges(a, b, c, d, 2 * o + step, eye, maximum)
                    folded = combine(evens(near, far), odds(near, far), maximum)
                    eye = look_for_nan(eye, folded, near_sums + far_sums)
                    put_end(target, o, finish(folded, overs, rests, maximum), columns - start)
            if saw_nan(eye) or (saw_minus_zero(eye) and holds_zero(result, rows * columns)):
                shows = True
        t = take(counter)
    return disband(counter, crew, turn, shows)


@inline
def lead_edges(a, b, o, like, nans):
    """The leaders of the four cells that windows have in two rows, which of them each is, and the sums of these."""
    step = lanes(a) // 2
    near, far = get_with(a, 2 * o, like), get_with(a, 2 * o + step, like)
    below, far_below = get_with(b, 2 * o, like), get_with(b, 2 * o + step, like)
    first, second, third, fourth = evens(near, far), odds(near, far), evens(below, far_below), odds(below, far_below)
    best, led = lead_of_four(first, second, third, fourth, nans)
    return best, led, (near + far) + (below + far_below)


@compiled
def find_cubes(x, y, codes, identity, ints, tasks, counter, crew, turn):
    """y, codes = the leader of each window of the tasks it takes, and which cell it is, row-major. Returns whether there may be a NaN."""
    depth, heads, height, rows, width, columns = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    step, like = lanes(at(y, 0)) // 2, lesser_half(get(at(y, 0), 0))
    seen = splat(identity[0], like)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for plane in range(tasks[t, 0], tasks[t, 1]):
            for r in range(rows):
                a = at(x, ((plane // heads * depth + plane % heads * 2) * height + 2 * r) * width)
                b, c = at(a, width), at(a, height * width)
                d, where = at(c, width), (plane * rows + r) * columns
                value, code = at(y, where), at(codes, where)
                for start in range(0, columns, step):
                    o = min(start, columns - step)
                    best, led, sums = lead_edges(a, b, o, like, None)
                    later, later_led, more = lead_edges(c, d, o, like, None)
                    seen = spot(seen, sums + more)  # which is NaN, too, if infinities of both signs meet
                    best, led = lead_down(best, led, later, later_led, 4, None)
                    put(value, o, best)
                    put(code, o, led)
        t = take(counter)
    return disband(counter, crew, turn, is_spotted(seen))
