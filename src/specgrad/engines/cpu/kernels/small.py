"""Windows of up to 3×3 taps, stride 1 or 2, on contiguous planes: the common cases, in two loops per row of outputs.

The rows of a window are folded into one line in the nearest cache, then the line's taps into outputs. A row that is padding is a row
of the fold's identity, so edges take the same loops. Rows of inputs are at least as long as a vector; rows of outputs that are shorter are
computed apart and copied.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from .access import at, fetch, get, lanes, put, put_end
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill, fold2
from .vectors import combine_numbers as combine
from .vectors import divided, evens, odds, splat
from .watching import holds_zero, look, look_for_nan, opened, saw_minus_zero, saw_nan

AHEAD = 32  # vectors that are read before those that are asked for now


@intrinsic
def finish(typingctx, folded, over, rest, maximum):
    """A folded window as its value: a maximum as it is, a sum divided."""

    def codegen(context, builder, signature, args):
        return divided(builder, folded, *args[:3]) if isinstance(maximum, types.NoneType) else args[0]

    return folded(folded, over, rest, maximum), codegen


@inline
def fold_taps(line, o, taps, stride, step, maximum):
    """The fold of neighbouring taps of a line, for the vector of outputs that begins with o."""
    if stride == 1:
        folded = get(line, o)
        if taps > 1:
            folded = combine(folded, get(line, o + 1), maximum)
        if taps > 2:
            folded = combine(folded, get(line, o + 2), maximum)
        return folded
    a, b = get(line, 2 * o), get(line, 2 * o + step)
    folded = evens(a, b)
    if taps > 1:
        folded = combine(folded, odds(a, b), maximum)
    if taps > 2:
        folded = combine(folded, evens(get(line, 2 * o + 2), get(line, 2 * o + 2 + step)), maximum)
    return folded


@inline
def fold_line(target, outputs, line, taps, stride, over, rest, maximum):
    """A row of outputs from the line that its rows were folded into."""
    step = lanes(line)
    last = max(outputs - step, 0)
    for start in range(0, outputs, step):
        o = min(start, last)
        put(target, o, finish(fold_taps(line, o, taps, stride, step, maximum), over, rest, maximum))


@inline
def fold_pairs_of_rows(target, outputs, a, b, over, rest, eye, maximum):
    """As fold_line, of 2×2 windows that do not overlap, from their two rows; returns what was seen of them."""
    step = lanes(a)
    for start in range(0, outputs, step):
        o = min(start, outputs - step)
        fetch(a, 2 * o + AHEAD * step)
        fetch(a, 2 * o + (AHEAD + 1) * step)
        fetch(b, 2 * o + AHEAD * step)
        fetch(b, 2 * o + (AHEAD + 1) * step)
        above, below = get(a, 2 * o), get(b, 2 * o)
        further_above, further_below = get(a, 2 * o + step), get(b, 2 * o + step)
        near, far = combine(above, below, maximum), combine(further_above, further_below, maximum)
        folded = combine(evens(near, far), odds(near, far), maximum)
        eye = look(look(eye, above, below), further_above, further_below)
        eye = look_for_nan(eye, folded, (above + below) + (further_above + further_below))
        put_end(target, o, finish(folded, over, rest, maximum), outputs - start)
    return eye


@inline
def fold_two(line, n, a, b, eye, maximum):
    """line = a and b; returns what was seen of them."""
    for start in range(0, n, lanes(line)):
        i = min(start, n - lanes(line))
        one, other = get(a, i), get(b, i)
        folded = combine(one, other, maximum)
        eye = look_for_nan(look(eye, one, other), folded, one + other)
        put(line, i, folded)
    return eye


@inline
def fold_three(line, n, a, b, c, new, eye, maximum):
    """line = a, b and c; returns what was seen of c and, where two rows are new, of b."""
    for start in range(0, n, lanes(line)):
        i = min(start, n - lanes(line))
        if new == 2:
            fetch(b, i + AHEAD * lanes(line))
            fetch(c, i + AHEAD * lanes(line))
        one, other = get(b, i), get(c, i)
        shared = combine(one, other, maximum)
        if new == 2:
            eye = look_for_nan(look(eye, one, other), shared, one + other)
        else:
            eye = look_for_nan(look(eye, other, other), other, other)
        put(line, i, combine(get(a, i), shared, maximum))
    return eye


@inline
def fold_four(near, far, n, a, b, c, d, eye, maximum):
    """near = a, b and c, far = b, c and d: two rows of windows, which have two rows in common; returns what was seen of these."""
    for start in range(0, n, lanes(near)):
        i = min(start, n - lanes(near))
        one, other = get(b, i), get(c, i)
        shared = combine(one, other, maximum)
        eye = look_for_nan(look(eye, one, other), shared, one + other)
        put(near, i, combine(get(a, i), shared, maximum))
        put(far, i, combine(shared, get(d, i), maximum))
    return eye


@inline
def fold_plane(target, plane, line, height, width, over, rest, overs, rests, eye, maximum):
    """As fold_line, of the 3×3 windows around all cells of a plane: as if its rows were one, and then those at the ends of rows."""
    n, below = height * width, at(plane, width)
    eye = fold_two(line, width, plane, below, eye, maximum)
    eye = fold_three(at(line, width), n - 2 * width, plane, below, at(below, width), 1, eye, maximum)
    fold2(at(line, n - width), width, at(plane, n - 2 * width), at(plane, n - width), maximum)
    fold_line(target, n, at(line, -1), 3, 1, overs, rests, maximum)
    for start in range(0, n, width):
        end = start + width - 1
        left, right = (
            combine(line[start], line[start + 1], maximum),
            combine(line[end - 1], line[end], maximum),
        )
        target[start], target[end] = finish(left, over, rest, maximum), finish(right, over, rest, maximum)
    return eye


@inline
def row_of(plane, row, height, width, padding):
    """A row of a plane, or one of padding."""
    return at(plane, row * width) if 0 <= row < height else padding


@compiled
def fold_small(x, y, identity, maximum, ints, over, rest, tasks, counter, rooms, crew, turn):
    """y = fold of the windows of the tasks it takes. Returns whether the order of folding may show in a maximum."""
    shows = False
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    step, scratch = lanes(rooms), part_of(rooms, turn)
    span = max((width_out - 1) * stride + taps, width + before)
    room = (span // step + 4) * step
    down = at(scratch, step)  # aligned, as room is: a vector store across two cache lines costs more than one
    down_too, padding, apart = at(down, room), at(down, 2 * room), at(down, 3 * room)
    line, line_too, whole = at(down, -before), at(down_too, -before), at(down, 4 * room)
    fill(line, 3 * room, identity[0])
    short = width_out < step
    pairs = stride == 2 and taps == 2 and rows == 2 and before == 0 and 2 * width_out <= width and not short
    fours = stride == 1 and taps == 3 and rows == 3 and row_stride == 1 and not short
    overs, rests = splat(over, get(down, 0)), splat(rest, get(down, 0))
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane, result = at(x, outer * height * width), at(y, outer * height_out * width_out)
            first, last = tasks[t, 2], tasks[t, 3]
            r, eye = first, opened(overs, maximum)
            if ints[10] != 0 and last - first == height:
                eye = fold_plane(result, plane, whole, height, width, over, rest, overs, rests, eye, maximum)
                r = last
            elif rows == 3:
                top, bottom = first * row_stride - above, (last - 1) * row_stride - above + 2
                if top >= 0 or bottom < height:  # rows that no fold below looks at
                    a = row_of(plane, top, height, width, padding)
                    eye = fold_two(down, width, a, row_of(plane, bottom, height, width, padding), eye, maximum)
            while pairs and r < last:
                a = row_of(plane, r * row_stride - above, height, width, padding)
                b = row_of(plane, r * row_stride - above + 1, height, width, padding)
                eye = fold_pairs_of_rows(at(result, r * width_out), width_out, a, b, overs, rests, eye, maximum)
                r += 1
            while fours and r + 1 < last:
                top = r - above
                a, b = row_of(plane, top, height, width, padding), row_of(plane, top + 1, height, width, padding)
                c, d = row_of(plane, top + 2, height, width, padding), row_of(plane, top + 3, height, width, padding)
                eye = fold_four(down, down_too, width, a, b, c, d, eye, maximum)
                target = at(result, r * width_out)
                fold_line(target, width_out, line, 3, 1, overs, rests, maximum)
                fold_line(at(target, width_out), width_out, line_too, 3, 1, overs, rests, maximum)
                r += 2
            while r < last:
                top = r * row_stride - above
                a, b = row_of(plane, top, height, width, padding), padding
                if rows > 1:
                    b = row_of(plane, top + 1, height, width, padding)
                if rows > 2:
                    c = row_of(plane, top + 2, height, width, padding)
                    eye = fold_three(down, width, a, b, c, 2, eye, maximum)
                else:
                    eye = fold_two(down, width, a, b, eye, maximum)
                own = at(result, r * width_out)
                ends = (last - r) * width_out < step  # before a vector would: others may have written what follows
                target = apart if ends else own
                if stride == 1:
                    if taps == 3:
                        fold_line(target, width_out, line, 3, 1, overs, rests, maximum)
                    else:
                        fold_line(target, width_out, line, taps, 1, overs, rests, maximum)
                else:
                    if taps == 3:
                        fold_line(target, width_out, line, 3, 2, overs, rests, maximum)
                    else:
                        fold_line(target, width_out, line, taps, 2, overs, rests, maximum)
                if ends:
                    for o in range(width_out):
                        own[o] = apart[o]
                r += 1
            if saw_nan(eye) or (
                saw_minus_zero(eye) and holds_zero(at(result, first * width_out), (last - first) * width_out)
            ):
                shows = True
        t = take(counter)
    return disband(counter, crew, turn, shows)
