"""The way back through averages of up to 3×3 taps, stride 1 or 2, on contiguous planes: the adjoint of the sums of `small.fold_small`.

Rows of cells are at least as long as a vector; rows of windows that are shorter are read one by one. The lines of cells are asked for before they are
written: rows are short, and between them other things are computed, so that a core does not see that its lines will be written whole.
"""

from __future__ import annotations

from .access import at, fetch, get, get_with, lanes, put, put_end
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill
from .small import AHEAD
from .vectors import half_sums, one_before, quotient, splat, zipped_high, zipped_low


@compiled
def share(g, shares, divisors, inner, tasks, counter, crew, turn):
    """shares = g/divisor, of every plane of windows that have `inner` cells each."""
    n = divisors.size
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            own, arriving = at(shares, outer * n * inner), at(g, outer * n * inner)
            if inner == 1:
                for i in range(n):
                    own[i] = arriving[i] / divisors[i]
            else:
                for window in range(n):
                    cells, given = at(own, window * inner), at(arriving, window * inner)
                    for i in range(inner):
                        cells[i] = given[i] / divisors[window]
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def spread_line(target, width, line, taps, stride, before, lead):
    """A row of inputs from the shares of the windows above each column; `line` has `lead` zeros before its first share."""
    step = lanes(line)
    if stride == 1:
        near = at(line, before)
        if taps == 3:
            for start in range(0, width, step):
                i = min(start, width - step)
                fetch(target, i + AHEAD * step)
                put(target, i, get(near, i) + get(near, i + 1) + get(near, i + 2))
            return
        for start in range(0, width, step):
            i = min(start, width - step)
            fetch(target, i + AHEAD * step)
            total = get(near, i)
            put(target, i, total + get(near, i + 1) if taps > 1 else total)
        return
    # an even place is read by one window or two, an odd place by one or none
    shares = at(line, lead)
    start, stop = (before + 1) // 2, (width + before) // 2
    none = line[0]
    done = start
    while done < stop and stop - start >= step:
        q = min(done, stop - step)
        own = get(shares, q)
        fetch(target, 2 * q + AHEAD * step)
        fetch(target, 2 * q + (AHEAD + 1) * step)
        both = own + get(line, q) if taps == 3 else own
        odd = own if taps > 1 else splat(none, own)
        put(target, 2 * q - before, zipped_low(both, odd))
        put(target, 2 * q - before + step, zipped_high(both, odd))
        done = q + step
    for q in range(done, stop):
        target[2 * q - before] = shares[q] + line[q] if taps == 3 else shares[q]
        target[2 * q - before + 1] = shares[q] if taps > 1 else none
    if before % 2:
        target[0] = shares[start - 1] if taps > 1 else none
    if (width + before) % 2:
        target[width - 1] = shares[stop] + line[stop] if taps == 3 else shares[stop]


@compiled
def spread_small(g, gx, zero, ints, over, rest, tasks, counter, rooms, crew, turn):
    """gx = each cell's sum of g/divisor over the windows that read it: the adjoint of `fold_small`'s sum."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    lead = taps - 1 if stride == 1 else 1
    step, scratch = lanes(rooms), part_of(rooms, turn)
    room = max(width_out, width) + before + 2 * step
    shares = at(scratch, step)
    line, padding = at(shares, -lead), at(shares, room)
    fill(line, lead + 2 * room, zero[0])
    overs, rests = splat(over, get(line, 0)), splat(rest, get(line, 0))
    short = width_out < step  # the last rows of an array are not read beyond their end
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane = at(g, outer * height_out * width_out)
            for row in range(tasks[t, 2], tasks[t, 3]):
                place = row + above
                last = min(place // row_stride, height_out - 1)
                first = max((place - rows + row_stride) // row_stride, 0)
                a = at(plane, first * width_out) if first <= last else padding
                b = at(plane, (first + 1) * width_out) if first + 1 <= last else padding
                c = at(plane, (first + 2) * width_out) if first + 2 <= last else padding
                if short:
                    for i in range(width_out):
                        shares[i] = quotient(a[i] + b[i] + c[i], over, rest)
                elif first + 2 <= last:
                    for start in range(0, width_out, step):
                        i = min(start, width_out - step)
                        put(shares, i, quotient(get(a, i) + get(b, i) + get(c, i), overs, rests))
                else:
                    for start in range(0, width_out, step):
                        i = min(start, width_out - step)
                        put(shares, i, quotient(get(a, i) + get(b, i), overs, rests))
                target = at(gx, (outer * height + row) * width)
                if stride == 1:
                    spread_line(target, width, line, taps, 1, before, lead)
                else:
                    spread_line(target, width, line, taps, 2, before, lead)
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def spread_threes(line, arriving, windows, over, rest, overs, rests, none):
    """line[p] = the sum of the shares of the windows that have place p, where window q has the places 2q to 2q+2. It begins with place -1, which has none."""
    step = lanes(line) // 2  # rows of windows are short
    earlier, q, last = splat(none, overs), 0, none
    while q + step <= windows:
        own = quotient(get_with(arriving, q, overs), overs, rests)
        odd = one_before(earlier, own)
        even = odd + own
        put(line, 2 * q - 1, zipped_low(odd, even))
        put(line, 2 * q - 1 + step, zipped_high(odd, even))
        earlier = own
        q += step
    if q > 0:
        last = quotient(arriving[q - 1], over, rest)
    while q <= windows:
        own = quotient(arriving[q], over, rest) if q < windows else none
        line[2 * q - 1], line[2 * q] = last, last + own
        last = own
        q += 1


@inline
def add_lines(target, n, a, b, both):
    """target = a + b, or a alone."""
    step = lanes(target)
    for start in range(0, n, step):
        i = min(start, n - step)
        fetch(target, i + AHEAD * step)
        put_end(target, i, get(a, i) + get(b, i) if both else get(a, i), n - start)


@compiled
def spread_halved(g, gx, zero, ints, over, rest, tasks, counter, rooms, crew, turn):
    """As `spread_small`, of 3×3 windows, stride 2. Each row of windows is spread across once, into one of two lines. In a column, too, an odd place has
    one window and an even one two: its row of cells is a line, or the sum of both."""
    height, width, height_out, width_out, above, before = ints[0], ints[1], ints[2], ints[3], ints[6], ints[9]
    step, none = lanes(rooms), zero[0]
    windows = min((width + before - 1) // 2 + 1, width_out)  # others have padding only
    room = (width + before) // step * step + 3 * step
    line, other = at(part_of(rooms, turn), 2 * step), at(part_of(rooms, turn), 2 * step + room)
    like = half_sums(get(at(g, 0), 0))
    overs, rests = splat(over, like), splat(rest, like)
    fill(part_of(rooms, turn), 2 * room, none)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 2] + above, tasks[t, 3] + above
        for outer in range(tasks[t, 0], tasks[t, 1]):
            plane, cells = at(g, outer * height_out * width_out), at(gx, (outer * height - above) * width)
            fill(line, width, none)
            for r in range((start + 1) // 2 - 1, (stop + 1) // 2):
                line, other = other, line
                if 0 <= r < height_out:
                    arriving = at(plane, r * width_out)
                    spread_threes(at(line, -before), arriving, windows, over, rest, overs, rests, none)
                else:
                    fill(line, width, none)
                if 2 * r >= start:
                    add_lines(at(cells, 2 * r * width), width, line, other, True)
                if start <= 2 * r + 1 < stop:
                    add_lines(at(cells, (2 * r + 1) * width), width, line, line, False)
        t = take(counter)
    disband(counter, crew, turn, False)
