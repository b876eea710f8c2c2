"""Windows of 2×2×2 cells that share none, on volumes that lie whole: in one pass, where other windows of rank 3 take two."""

from __future__ import annotations

from .access import at, fetch, get, lanes, put_end
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .small import AHEAD, finish
from .vectors import combine_numbers as combine
from .vectors import evens, odds, splat
from .watching import holds_zero, look, look_for_nan, opened, saw_minus_zero, saw_nan


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
