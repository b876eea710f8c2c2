"""Windows of few taps along lines, up to 4 cells apart: cells are dealt to a vector for each tap where they lie, and folded."""

from __future__ import annotations

from .access import at, dealt2, dealt3, dealt4, get, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .small import finish
from .vectors import combine, splat
from .watching import holds_minus_zero, is_spotted, is_watched, watch


@inline
def every(line, place, stride):
    """A vector of the cells `stride` apart."""
    if stride == 1:
        return get(line, place)
    if stride == 2:
        return dealt2(line, place)[0]
    if stride == 3:
        return dealt3(line, place)[0]
    return dealt4(line, place)[0]


@inline
def fold_taps(line, place, taps, stride, dilation, maximum):
    """The fold of a vector of windows, of which the first has its first tap at this place."""
    if dilation == 1 and stride == 3 and taps <= 3:
        a, b, c = dealt3(line, place)
        folded = combine(a, b, maximum)
        return combine(folded, c, maximum) if taps == 3 else folded
    if dilation == 1 and stride == 4 and taps <= 4:
        a, b, c, d = dealt4(line, place)
        folded = combine(a, b, maximum)
        if taps == 2:
            return folded
        return combine(folded, combine(c, d, maximum) if taps == 4 else c, maximum)
    folded = every(line, place, stride)
    for tap in range(1, taps):
        folded = combine(folded, every(line, place + tap * dilation, stride), maximum)
    return folded


@inline
def fold_inside(target, line, start, stop, before, taps, stride, dilation, overs, rests, seen, maximum):
    """Outputs from `start` to `stop`, by vectors; returns what was seen of them."""
    step = lanes(line)
    for begin in range(start, stop, step):
        o = min(begin, stop - step)
        folded = fold_taps(line, o * stride - before, taps, stride, dilation, maximum)
        seen = watch(seen, folded, maximum)
        put(target, o, finish(folded, overs, rests, maximum))
    return seen


@inline
def fold_edge(target, line, n, start, stop, before, taps, stride, dilation, over, rest, nearest, blank, maximum):
    """Outputs from `start` to `stop`, one by one; returns what was seen of them."""
    for o in range(start, stop):
        folded = blank
        for tap in range(taps):
            place = o * stride - before + tap * dilation
            if 0 <= place < n:
                folded = combine(folded, line[place], maximum)
        nearest = watch(nearest, folded, maximum)
        target[o] = finish(folded, over, rest, maximum)
    return nearest


@compiled
def fold_lines(x, y, identity, maximum, ints, over, rest, tasks, counter, crew, turn):
    """y = the fold of each window of the lines of the tasks it takes. Returns whether the order of folding may show in a maximum.

    `ints`: how many cells and outputs lines have; taps, stride, dilation and padding before; and which outputs are folded by vectors.
    """
    n, outputs, taps, stride, dilation, before, start, stop = (
        ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], ints[6], ints[7]
    )  # fmt: skip
    blank, shows = identity[0], False
    like = get(at(x, 0), 0)
    overs, rests = splat(over, like), splat(rest, like)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        seen, nearest = splat(identity[1], like), identity[1]
        for one in range(tasks[t, 0], tasks[t, 1]):
            line, target = at(x, one * n), at(y, one * outputs)
            nearest = fold_edge(
                target, line, n, 0, start, before, taps, stride, dilation, over, rest, nearest, blank, maximum
            )
            if stride == 1:
                seen = fold_inside(target, line, start, stop, before, taps, 1, dilation, overs, rests, seen, maximum)
            elif stride == 2:
                seen = fold_inside(target, line, start, stop, before, taps, 2, dilation, overs, rests, seen, maximum)
            elif stride == 3:
                seen = fold_inside(target, line, start, stop, before, taps, 3, dilation, overs, rests, seen, maximum)
            else:
                seen = fold_inside(target, line, start, stop, before, taps, 4, dilation, overs, rests, seen, maximum)
            nearest = fold_edge(
                target, line, n, stop, outputs, before, taps, stride, dilation, over, rest, nearest, blank, maximum
            )
        if is_watched(seen, maximum) or is_watched(nearest, maximum):
            cells = (tasks[t, 1] - tasks[t, 0]) * n
            spotted = is_spotted(seen) or is_spotted(nearest)
            shows = shows or spotted or holds_minus_zero(at(x, tasks[t, 0] * n), cells)
        t = take(counter)
    return disband(counter, crew, turn, shows)
