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
    for outer in range(task[0], task[1]):
        plane = at(x, outer * height * width)
        watched = identity[1]
        for r in range(task[2], task[3]):
            top = r * row_stride - above
            a = at(plane, top * width) if 0 <= top < height else padding
            b = at(plane, (top + 1) * width) if 0 <= top + 1 < height and rows > 1 else padding
            c = at(plane, (top + 2) * width) if 0 <= top + 2 < height and rows > 2 else padding
            if rows > 2:
                for i in range(width):
                    down[i] = combine(combine(a[i], b[i], maximum), c[i], maximum)
            else:
                for i in range(width):
                    down[i] = combine(a[i], b[i], maximum)
            target = at(y, (outer * height_out + r) * width_out)
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
            elif taps == 3:
                for o in range(width_out):
                    folded = combine(combine(line[2 * o], line[2 * o + 1], maximum), line[2 * o + 2], maximum)
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
