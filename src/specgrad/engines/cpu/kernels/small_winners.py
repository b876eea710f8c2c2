"""Winners of windows of up to 3×3 taps, stride 1 or 2, on contiguous planes: `winners.find_winners` for the common cases.

Each input row is folded across once, into one of three rows kept at hand; a row of outputs is folded from these, down.
"""

from __future__ import annotations

import numpy as np

from .rows import at, beats, compiled, either, narrow, plus


@compiled
def find_small_winners(x, y, codes, identity, ints, task, scratch, code_scratch):
    """y, codes = the leader of each window of one task's planes and rows, and which tap it is, row-major."""
    height, width, height_out, width_out = ints[0], ints[1], ints[2], ints[3]
    rows, row_stride, above, taps, stride, before = ints[4], ints[5], ints[6], ints[7], ints[8], ints[9]
    span = max((width_out - 1) * stride + taps, width + before)
    inside = before == 0 and span == width
    down = at(scratch, 16)
    line = at(down, -before)
    for i in range(span):
        line[i] = identity[0]
    evens, odds = at(down, span), at(down, span + width_out + 1)
    values, taken = at(odds, width_out + 1), at(code_scratch, 0)
    zero, one, two = np.int32(0), np.int32(1), np.int32(2)
    for outer in range(task[0], task[1]):
        done = max(task[2] * row_stride - above, 0)
        for r in range(task[2], task[3]):
            top = r * row_stride - above
            first, stop = max(top, 0), min(top + rows, height)
            for row in range(max(done, first), stop):
                cells = at(x, (outer * height + row) * width)
                if not inside:
                    for i in range(width):
                        down[i] = cells[i]
                    cells = line
                second, third = at(cells, 1), at(cells, 2)
                if stride == 2:
                    for o in range(width_out):
                        evens[o], odds[o] = cells[2 * o], cells[2 * o + 1]
                    if taps == 3:
                        evens[width_out] = cells[2 * width_out]
                    cells, second, third = evens, odds, at(evens, 1)
                value, code = at(values, row % 3 * width_out), at(taken, row % 3 * width_out)
                if taps == 3:
                    for o in range(width_out):
                        a, b = cells[o], second[o]
                        wins = beats(b, a)
                        a, b, led = either(wins, b, a), third[o], either(wins, one, zero)
                        wins = beats(b, a)
                        value[o] = either(wins, b, a)
                        code[o] = either(wins, two, led)
                elif taps == 2:
                    for o in range(width_out):
                        a, b = cells[o], second[o]
                        wins = beats(b, a)
                        value[o] = either(wins, b, a)
                        code[o] = either(wins, one, zero)
                else:
                    for o in range(width_out):
                        value[o], code[o] = cells[o], zero
                for o in range(min(before, width_out)):  # padding led where all real cells are as low as it
                    code[o] = max(code[o], np.int32(max(before - o * stride, 0)))
            done = max(done, stop)
            target, won = at(y, (outer * height_out + r) * width_out), at(codes, (outer * height_out + r) * width_out)
            value, code = at(values, first % 3 * width_out), at(taken, first % 3 * width_out)
            later, later_code = at(values, (first + 1) % 3 * width_out), at(taken, (first + 1) % 3 * width_out)
            last, last_code = at(values, (first + 2) % 3 * width_out), at(taken, (first + 2) % 3 * width_out)
            least = np.int32((first - top) * taps)
            more = np.int32(least + taps)
            most = np.int32(more + taps)
            if stop - first < 2:
                for o in range(width_out):
                    target[o], won[o] = value[o], narrow(plus(code[o], least))
            elif stop - first == 2:
                for o in range(width_out):
                    a, b = value[o], later[o]
                    wins = beats(b, a)
                    target[o] = either(wins, b, a)
                    won[o] = narrow(either(wins, plus(later_code[o], more), plus(code[o], least)))
            else:
                for o in range(width_out):
                    a, b = value[o], later[o]
                    wins = beats(b, a)
                    a, b, led = (
                        either(wins, b, a),
                        last[o],
                        either(wins, plus(later_code[o], more), plus(code[o], least)),
                    )
                    wins = beats(b, a)
                    target[o] = either(wins, b, a)
                    won[o] = narrow(either(wins, plus(last_code[o], most), led))
