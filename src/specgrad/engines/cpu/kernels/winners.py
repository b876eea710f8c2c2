"""The maximum of any cells, bit for bit, and which tap won it.

y[o, r, c] is the first maximal cell of a window, or its last NaN. That choice survives a chain of folds only if columns are folded
before rows and a later candidate takes the lead when it is strictly greater or NaN; so every fold here takes (earlier, later).
Winners are codes: (row - first nominal row)*width + tap, where `width` codes were used up by the passes before.
"""

from __future__ import annotations

import numpy as np

from .rows import copy, fill, place, read, settle, transpose
from .vectors import at, beats, compiled, either, inline, plus, take

FEW = 7


@inline
def lead(value, code, n, later, later_code, shift):
    """Let the later cells take the lead where they do; their codes count from `shift`."""
    for i in range(n):
        a, b = value[i], later[i]
        wins = beats(b, a)
        value[i] = either(wins, b, a)
        code[i] = either(wins, plus(later_code[i], shift), code[i])


@inline
def lead2(value, code, n, a, a_code, b, b_code):
    """The leaders of earlier cells a and later cells b."""
    for i in range(n):
        wins = beats(b[i], a[i])
        value[i] = either(wins, b[i], a[i])
        code[i] = either(wins, b_code[i], a_code[i])


@inline
def across(source, value, code, outputs, inner, taps, stride, dilation, spare, spare_code, room):
    """value, code = the leader of source[o*stride + j*dilation], j < taps, and its j, for runs of `inner` cells each.

    Spares have room for two rows of `room` cells.
    """
    none = np.int32(0)
    if stride == 1 and taps > FEW:  # runs of 1, 2, 4, … taps, the last two overlapping
        n, run, half = outputs * inner, 1, 0
        shift = dilation * inner
        now, now_code = source, at(spare_code, room)
        fill(now_code, n + (taps - 1) * shift, none)
        while 2 * run < taps:
            next_value, next_code = at(spare, half * room), at(spare_code, half * room)
            later, later_code, more = at(now, run * shift), at(now_code, run * shift), np.int32(run)
            for i in range(n + (taps - 2 * run) * shift):
                wins = beats(later[i], now[i])
                next_value[i] = either(wins, later[i], now[i])
                next_code[i] = either(wins, plus(later_code[i], more), now_code[i])
            now, now_code, half, run = next_value, next_code, 1 - half, 2 * run
        rest = taps - run
        later, later_code, more = at(now, rest * shift), at(now_code, rest * shift), np.int32(rest)
        for i in range(n):
            wins = beats(later[i], now[i])
            value[i] = either(wins, later[i], now[i])
            code[i] = either(wins, plus(later_code[i], more), now_code[i])
    elif inner == 1 and stride > 1:
        for o in range(outputs):
            best, won = source[o * stride], none
            for j in range(1, taps):
                b = source[o * stride + j * dilation]
                wins = beats(b, best)
                best, won = either(wins, b, best), either(wins, np.int32(j), won)
            value[o], code[o] = best, won
    else:
        groups, n = (1, outputs * inner) if stride == 1 else (outputs, inner)
        for o in range(groups):
            cells, best, won = at(source, o * stride * inner), at(value, o * inner), at(code, o * inner)
            copy(best, n, cells)
            fill(won, n, none)
            for j in range(1, taps):
                later, more = at(cells, j * dilation * inner), np.int32(j)
                for i in range(n):
                    a, b = best[i], later[i]
                    wins = beats(b, a)
                    best[i] = either(wins, b, a)
                    won[i] = either(wins, more, won[i])


@inline
def across_bins(source, value, code, inner, first, count, left, right):
    """value, code = the leader of the cells first[o] to first[o] + count[o], and which of them it is."""
    none = np.int32(0)
    if inner == 1:
        for o in range(left, right):
            cell = first[o] - first[left]
            best, won = source[cell], none
            for j in range(1, count[o]):
                wins = beats(source[cell + j], best)
                best, won = either(wins, source[cell + j], best), either(wins, np.int32(j), won)
            value[o - left], code[o - left] = best, won
        return
    for o in range(left, right):
        cells = at(source, (first[o] - first[left]) * inner)
        best, best_code = at(value, (o - left) * inner), at(code, (o - left) * inner)
        copy(best, inner, cells)
        fill(best_code, inner, 0)
        for j in range(1, count[o]):
            later = at(cells, j * inner)
            for i in range(inner):
                wins = beats(later[i], best[i])
                best[i] = either(wins, later[i], best[i])
                best_code[i] = either(wins, np.int32(j), best_code[i])


@compiled
def find_winners(
    x,
    y,
    codes_in,
    codes,
    identity,
    ints,
    bases,
    row_low,
    row_first,
    row_count,
    row_start,
    bin_first,
    bin_count,
    tasks,
    counter,
    scratch,
    code_scratch,
    laid,
    laid_out,
    laid_codes,
):
    """Leaders and their codes for the windows of the tasks it takes (outer, row and column ranges).

    If there is a block, some planes at a time are laid out in it cell by cell, so that rows are long. Else a task is worked on by pieces of
    some columns each.
    """
    x_row, x_column, x_inner, width, inner, height_out, width_out = (
        ints[0],
        ints[1],
        ints[2],
        ints[3],
        ints[4],
        ints[5],
        ints[6],
    )
    step, block, slots, half = ints[7], ints[8], ints[9], ints[11]
    offset, taps, stride, dilation, height, code_width = ints[14], ints[15], ints[16], ints[17], ints[18], ints[19]
    bins, zero = bin_first.size > 0, np.int32(0)
    blocked, together = laid.size > 0, inner
    plane, plane_out = height * width, height_out * width_out
    t = take(counter)
    while t < tasks.shape[0]:
        outer_start, outer_stop, top, bottom, left, right = 0, 1, 0, height_out, 0, width_out
        source_cells, target_cells = laid if blocked else x, laid_out if blocked else y
        target_codes = laid_codes if blocked else codes
        for begin in range(
            tasks[t, 0 if blocked else 4], tasks[t, 1 if blocked else 5], together if blocked else ints[20]
        ):
            if blocked:
                first_plane = min(begin, bases.size - together)
                transpose(at(x, first_plane * plane), together, plane, at(laid, 0))
            else:
                outer_start, outer_stop, top, bottom = tasks[t, 0], tasks[t, 1], tasks[t, 2], tasks[t, 3]
                left, right = begin, min(begin + ints[20], tasks[t, 5])
            if bins:
                first_cell, pad = bin_first[left], 0
                last_cell = bin_first[right - 1] + bin_count[right - 1]
                span = last_cell - first_cell
            else:
                origin = left * stride
                span = (right - 1 - left) * stride + (taps - 1) * dilation + 1
                first_cell = max(0, origin - offset)
                last_cell = max(first_cell, min(width, origin + span - offset))
                pad = offset + first_cell - origin
            n, room, m = (last_cell - first_cell) * inner, span * inner, (right - left) * inner
            ring, ring_code = at(scratch, 0), at(code_scratch, 0)
            suffixes, suffix_codes = at(ring, slots * m), at(ring_code, slots * m)
            prefix, prefix_code = at(suffixes, block * m), at(suffix_codes, block * m)
            result, result_code = at(prefix, m), at(prefix_code, m)
            spare, spare_code = at(result, m), at(result_code, m)
            padded = at(spare, 2 * room)
            fill(padded, room, identity[0])
            for outer in range(outer_start, outer_stop):
                base = bases[outer] + first_cell * x_column
                staged_to = 0
                suffix_block = prefix_block = prefix_to = -1
                for r in range(top, bottom):
                    f, count = row_first[r], row_count[r]
                    last = f + (count - 1) * step
                    where = ((outer * height_out + r) * width_out + left) * inner
                    for row in range(max(staged_to, row_low[r]), last + 1):
                        value, code = at(ring, row % slots * m), at(ring_code, row % slots * m)
                        more = np.int32(row * code_width)
                        read(
                            at(source_cells, base + row * x_row),
                            x_column,
                            inner,
                            x_inner,
                            half,
                            at(padded, pad * inner),
                            n,
                        )
                        if codes_in.size > 0:
                            known = at(codes_in, (outer * height + row) * width + left)
                            copy(value, m, padded)
                            for i in range(m):
                                code[i] = plus(np.int32(known[i]), more)
                        else:
                            if bins:
                                across_bins(padded, value, code, inner, bin_first, bin_count, left, right)
                            else:
                                across(
                                    padded,
                                    value,
                                    code,
                                    right - left,
                                    inner,
                                    taps,
                                    stride,
                                    dilation,
                                    spare,
                                    spare_code,
                                    room,
                                )
                                for o in range(left, right):  # padding led where all real cells are as low as it
                                    skipped = -((o * stride - offset) // dilation)
                                    if skipped <= 0:
                                        break
                                    for i in range((o - left) * inner, (o - left + 1) * inner):
                                        code[i] = max(code[i], skipped)
                            for i in range(m):
                                code[i] = plus(code[i], more)
                    staged_to = max(staged_to, last + 1)
                    value = place(target_cells, where, result)
                    code = result_code
                    if count <= 0:
                        fill(value, m, identity[0])
                        fill(code, m, 0)
                    elif block > 0 and count > FEW:
                        here, there = f // block, last // block
                        suffix, suffix_code = (
                            at(suffixes, (f - here * block) * m),
                            at(suffix_codes, (f - here * block) * m),
                        )
                        if f != here * block and suffix_block != here:
                            end = min((here + 1) * block, last + 1)
                            for row in range(end - 1, f - 1, -1):
                                own, own_code = at(ring, row % slots * m), at(ring_code, row % slots * m)
                                part, part_code = (
                                    at(suffixes, (row - here * block) * m),
                                    at(suffix_codes, (row - here * block) * m),
                                )
                                if row == end - 1:
                                    copy(part, m, own)
                                    copy(part_code, m, own_code)
                                else:
                                    lead2(part, part_code, m, own, own_code, at(part, m), at(part_code, m))
                            suffix_block = here
                        if here != there or f == here * block:
                            if prefix_block != there:
                                prefix_block, prefix_to = there, there * block
                                copy(prefix, m, at(ring, prefix_to % slots * m))
                                copy(prefix_code, m, at(ring_code, prefix_to % slots * m))
                            while prefix_to < last:
                                prefix_to += 1
                                lead(
                                    prefix,
                                    prefix_code,
                                    m,
                                    at(ring, prefix_to % slots * m),
                                    at(ring_code, prefix_to % slots * m),
                                    zero,
                                )
                        if here != there:
                            lead2(value, code, m, suffix, suffix_code, prefix, prefix_code)
                        elif f == here * block:
                            copy(value, m, prefix)
                            copy(code, m, prefix_code)
                        else:
                            copy(value, m, suffix)
                            copy(code, m, suffix_code)
                    else:
                        copy(value, m, at(ring, f % slots * m))
                        copy(code, m, at(ring_code, f % slots * m))
                        for j in range(1, count):
                            slot = (f + j * step) % slots * m
                            lead(value, code, m, at(ring, slot), at(ring_code, slot), zero)
                    settle(value, m, half, target_cells, where)
                    final, shift = at(target_codes, where), np.int32(-row_start[r] * code_width)
                    for i in range(m):
                        final[i] = plus(code[i], shift)
            if blocked:
                transpose(at(laid_out, 0), plane_out, together, at(y, first_plane * plane_out))
                transpose(at(laid_codes, 0), plane_out, together, at(codes, first_plane * plane_out))
        t = take(counter)
