"""Windows of up to 3×3 taps, stride 1 or 2, on contiguous planes: the common cases, in two loops per row of outputs.

The rows of a window are folded into one line in the nearest cache, then the line's taps into outputs. A row that is padding is a row
of the fold's identity, so edges take the same loops.
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from .rows import at, combine, compiled, is_plain, quotient, watch


def finish(folded, divisor, reciprocal, maximum):
    """A folded window as its value: a maximum as it is, a sum divided."""
    raise NotImplementedError


@overload(finish, strict=False, jit_options={"error_model": "numpy"})
def _finish(folded, divisor, reciprocal, maximum):
    if not isinstance(maximum, types.NoneType):
        return lambda folded, divisor, reciprocal, maximum: folded
    return lambda folded, divisor, reciprocal, maximum: quotient(folded, divisor, reciprocal)


@compiled
def fold_small(x, y, identity, maximum, ints, divisor, reciprocal, marks, task, scratch):
    """y = fold of the windows of one task's planes; marks the planes whose maximum the order of folding may show in."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    blank = identity[0]
    span = max((width_out - 1) * stride + taps, width + before)
    down = at(scratch, 16)  # aligned: a vector store across two cache lines costs more than one
    line, padding = at(down, -before), at(down, span)
    for i in range(2 * span):
        line[i] = blank
    pairs = stride == 2 and taps == 2 and rows == 2 and before == 0 and 2 * width_out <= width
    split = stride == 2 and taps == 3
    first_pair, last_pair = (before + 1) // 2, (width + before) // 2
    evens, odds = at(padding, span), at(padding, span + span // 2 + 2)
    for i in range(span + 4):
        evens[i] = blank
    for outer in range(task[0], task[1]):
        plane = at(x, outer * height * width)
        watched = identity[1]
        for r in range(task[2], task[3]):
            top = r * row_stride - above
            a = at(plane, top * width) if 0 <= top < height else padding
            b = at(plane, (top + 1) * width) if 0 <= top + 1 < height and rows > 1 else padding
            c = at(plane, (top + 2) * width) if 0 <= top + 2 < height and rows > 2 else padding
            target = at(y, (outer * height_out + r) * width_out)
            if pairs:
                for o in range(width_out):
                    upper = combine(a[2 * o], a[2 * o + 1], maximum)
                    folded = combine(upper, combine(b[2 * o], b[2 * o + 1], maximum), maximum)
                    watched = watch(watched, folded, maximum)
                    target[o] = finish(folded, divisor, reciprocal, maximum)
                continue
            if split:  # taps 0 and 2 of a window are neighbours among the even places of a line
                for o in range(first_pair, last_pair):
                    i = 2 * o - before
                    evens[o] = combine(combine(a[i], b[i], maximum), c[i], maximum)
                    odds[o] = combine(combine(a[i + 1], b[i + 1], maximum), c[i + 1], maximum)
                if before % 2:
                    odds[first_pair - 1] = combine(combine(a[0], b[0], maximum), c[0], maximum)
                if (width + before) % 2:
                    i = width - 1
                    evens[last_pair] = combine(combine(a[i], b[i], maximum), c[i], maximum)
                next_evens = at(evens, 1)
                for o in range(width_out):
                    folded = combine(combine(evens[o], odds[o], maximum), next_evens[o], maximum)
                    watched = watch(watched, folded, maximum)
                    target[o] = finish(folded, divisor, reciprocal, maximum)
                continue
            if rows > 2:
                for i in range(width):
                    down[i] = combine(combine(a[i], b[i], maximum), c[i], maximum)
            else:
                for i in range(width):
                    down[i] = combine(a[i], b[i], maximum)
            if taps == 1:
                for o in range(width_out):
                    folded = line[o * stride]
                    watched = watch(watched, folded, maximum)
                    target[o] = finish(folded, divisor, reciprocal, maximum)
            elif stride == 1:
                if taps == 3:
                    for o in range(width_out):
                        folded = combine(combine(line[o], line[o + 1], maximum), line[o + 2], maximum)
                        watched = watch(watched, folded, maximum)
                        target[o] = finish(folded, divisor, reciprocal, maximum)
                else:
                    for o in range(width_out):
                        folded = combine(line[o], line[o + 1], maximum)
                        watched = watch(watched, folded, maximum)
                        target[o] = finish(folded, divisor, reciprocal, maximum)
            else:
                for o in range(width_out):
                    folded = combine(line[2 * o], line[2 * o + 1], maximum)
                    watched = watch(watched, folded, maximum)
                    target[o] = finish(folded, divisor, reciprocal, maximum)
        if maximum is not None and not watched > 0:
            first, last = max(task[2] * row_stride - above, 0), min((task[3] - 1) * row_stride - above + rows, height)
            if not is_plain(at(plane, first * width), (last - first) * width):
                marks[outer] = 1


@compiled
def spread_small(g, gx, zero, ints, divisor, reciprocal, task, scratch):
    """gx = each cell's sum of g/divisor over the windows that read it: the adjoint of `fold_small`'s sum."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    lead = taps - 1 if stride == 1 else 1
    room = max(width_out + before, width + before) + 4
    shares = at(scratch, 16)
    line, padding = at(shares, -lead), at(shares, room)
    for i in range(2 * room):
        line[i] = zero[0]
    for outer in range(task[0], task[1]):
        plane = at(g, outer * height_out * width_out)
        for row in range(task[2], task[3]):
            place = row + above
            last = min(place // row_stride, height_out - 1)
            first = max((place - rows + row_stride) // row_stride, 0)
            a = at(plane, first * width_out) if first <= last else padding
            b = at(plane, (first + 1) * width_out) if first + 1 <= last else padding
            if first + 2 <= last:
                c = at(plane, (first + 2) * width_out)
                for i in range(width_out):
                    shares[i] = quotient(a[i] + b[i] + c[i], divisor, reciprocal)
            else:
                for i in range(width_out):
                    shares[i] = quotient(a[i] + b[i], divisor, reciprocal)
            target = at(gx, (outer * height + row) * width)
            if stride == 1:
                near = at(line, before)
                if taps == 3:
                    for i in range(width):
                        target[i] = near[i] + near[i + 1] + near[i + 2]
                elif taps == 2:
                    for i in range(width):
                        target[i] = near[i] + near[i + 1]
                else:
                    for i in range(width):
                        target[i] = near[i]
            else:  # an even place is read by one window or two, an odd place by one or none
                start, stop = (before + 1) // 2, (width + before) // 2
                one, none = taps > 1, zero[0]
                if taps == 3:
                    for q in range(start, stop):
                        i = 2 * q - before
                        target[i] = shares[q] + line[q]
                        target[i + 1] = shares[q]
                else:
                    for q in range(start, stop):
                        i = 2 * q - before
                        target[i] = shares[q]
                        target[i + 1] = shares[q] if one else none
                if before % 2:
                    target[0] = shares[start - 1] if one else none
                if (width + before) % 2:
                    target[width - 1] = shares[stop] + line[stop] if taps == 3 else shares[stop]
