"""Narrow planes under windows that move by one cell: laid out with its padding, a plane is one line, on which the cells of a row and those of a column lie at equal
distances. So it is folded across and then down in a few long loops. The padding between two rows serves both; what is computed there is left behind.

`ints` has the lengths of a plane and of its windows, how far apart rows are laid, how many cells a line has room for, and of each axis the padding in front, taps and dilation.
"""

from __future__ import annotations

from .access import at, get_quarter, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .heights import STACK, TALLEST
from .leading import across_neighbours, lead_longer
from .rows import fill, slide
from .small import finish
from .stacks import stack
from .vectors import cut, greater, splat
from .watching import holds_minus_zero, is_spotted, is_watched, spot, watch


@inline
def lay_apart(line, pitch, plane, height, width, seen):
    """line = the rows of a plane, `pitch` cells from one another; what was seen of NaN."""
    step = lanes(line) // 4
    for row in range(height):
        cells, target = at(plane, row * width), at(line, row * pitch)
        for start in range(0, width, step):
            i = min(start, width - step)
            some = get_quarter(cells, i)
            put(target, i, some)
            seen = spot(seen, some)
    return seen


@compiled
def fold_flat(x, y, identity, maximum, ints, over, rest, tasks, counter, rooms, crew, turn):
    """y = fold of the windows of the planes of the tasks it takes. Returns whether the order of folding may show in a maximum."""
    height, width, height_out, width_out, pitch, room = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    before, taps, dilation, above, rows, apart = ints[6], ints[7], ints[8], ints[9], ints[10], ints[11] * pitch
    line = part_of(rooms, turn)
    spread, result, spare = at(line, room), at(line, 2 * room), at(line, 3 * room)
    down = at(spread, before)
    fill(line, 2 * room, identity[0])
    m = (height_out - 1) * pitch + width_out
    stacked = STACK <= rows <= TALLEST and ints[11] == 1 and height_out >= STACK
    step, some = lanes(line) // 4, get_quarter(line, 0)
    overs, rests = splat(over, some), splat(rest, some)
    shows = False
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane, target = at(x, outer * height * width), at(y, outer * height_out * width_out)
            if stacked:
                for start in range(0, height_out, STACK):
                    r = min(start, height_out - STACK)
                    stack(at(down, r * pitch), pitch, width, plane, width, r - above, height, line, rows, True, maximum)
            else:
                lay_apart(at(line, above * pitch + before), pitch, plane, height, width, some)
                slide(line, 0, 1, spare, room, spread, 0, height_out * pitch, rows, apart, maximum)
            slide(spread, 0, 1, spare, room, result, 0, m, taps, dilation, maximum)
            seen = splat(identity[1], some)
            for row in range(height_out):
                cells, own = at(result, row * pitch), at(target, row * width_out)
                seen_here = splat(identity[1], some)  # of which no other row waits
                for start in range(0, width_out, step):
                    i = min(start, width_out - step)
                    folded = get_quarter(cells, i)
                    seen_here = watch(seen_here, folded, maximum)
                    put(own, i, finish(folded, overs, rests, maximum))
                seen = watch(seen, seen_here, maximum)
            if is_watched(seen, maximum) and (is_spotted(seen) or holds_minus_zero(plane, height * width)):
                shows = True
        t = take(counter)
    return disband(counter, crew, turn, shows)


@compiled
def find_flat(x, y, codes, identity, nans, ints, least, tasks, counter, rooms, code_rooms, crew, turn):
    """y, codes = the leader of each window of the planes of the tasks it takes, and its code. Returns whether it should have been told of NaNs.

    `least` has the code of each window's first real cell: padding leads where all of these are as low as it.
    """
    height, width, height_out, width_out, pitch, room = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    before, taps, dilation, above, rows, apart = ints[6], ints[7], ints[8], ints[9], ints[10], ints[11] * pitch
    line, codes_across = part_of(rooms, turn), part_of(code_rooms, turn)
    across, down, spare = at(line, room), at(line, 2 * room), at(line, 3 * room)
    codes_down, spare_codes = at(codes_across, room), at(codes_across, 2 * room)
    fill(line, 2 * room, identity[0])
    fill(codes_across, room, cut(0, codes))
    n, m = (height - 1) * pitch + width_out, (height_out - 1) * pitch + width_out
    step, some = lanes(line) // 4, get_quarter(line, 0)
    seen, first = splat(identity[0], some), above * pitch
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            where = outer * height_out * width_out
            seen = lay_apart(at(line, before), pitch, at(x, outer * height * width), height, width, seen)
            across_neighbours(
                line, at(across, first), at(codes_across, first), n, taps, dilation, spare, spare_codes, room, nans
            )
            led, told = across, codes_across
            if rows > 1:
                more = cut(ints[11] * taps, codes)
                lead_longer(
                    down, codes_down, m, across, codes_across, 1, rows, apart, more, spare, spare_codes, room, nans
                )
                led, told = down, codes_down
            for row in range(height_out):
                target, target_codes = at(y, where + row * width_out), at(codes, where + row * width_out)
                for start in range(0, width_out, step):
                    i = min(start, width_out - step)
                    put(target, i, get_quarter(at(led, row * pitch), i))
                    code = get_with(at(told, row * pitch), i, some)
                    put(target_codes, i, greater(code, get_with(at(least, row * pitch), i, some)))
        t = take(counter)
    return disband(counter, crew, turn, nans is None and is_spotted(seen))
