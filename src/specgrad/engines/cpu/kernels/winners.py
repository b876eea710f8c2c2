"""The maximum of any cells, bit for bit, and which tap won it.

y[o, r, c] is the first maximal cell of a window, or its last NaN. That choice survives a chain of folds only if columns are folded
before rows and a later candidate takes the lead when it is strictly greater or NaN; so every fold here takes (earlier, later).
Winners are codes: (row - first nominal row)*width + tap, where `width` codes were used up by the passes before. To compare for NaN, too, takes up
to a quarter of the time: it is done only if a kernel is told that there are some (`nans`, else None), and it says so when it meets one untold.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from .access import at, get, get_with, held_at, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .halves import place, read, settle
from .rows import copy, fill, lay_out, transpose
from .vectors import either, leads, plus, splat
from .watching import holds_nan

FEW = 7


@inline
def lead(value, code, n, a, a_code, b, b_code, shift, nans):
    """value, code = the leaders of earlier cells a, which they may be themselves, and later cells b, whose codes count from `shift`."""
    step = lanes(value)
    if n < step:
        for i in range(n):
            wins = leads(b[i], a[i], nans)
            value[i] = either(wins, b[i], a[i])
            code[i] = either(wins, plus(b_code[i], shift), a_code[i])
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        best, later = get(a, i), get(b, i)
        wins = leads(later, best, nans)
        led = plus(get_with(b_code, i, best), splat(shift, best))
        put(value, i, either(wins, later, best))
        put(code, i, either(wins, led, get_with(a_code, i, best)))


@inline
def lead_rows(value, codes, n, ring, ring_code, slot, apart, end, rows, shift, nans):
    """value, codes = the leaders of so many rows of a ring that ends there, `apart` cells from one another, and their codes and the shift."""
    step = lanes(value)
    if n < step:
        for i in range(n):
            here = slot + i
            best, led = ring[here], ring_code[here]
            for _ in range(1, rows):
                here += apart if here + apart < end else apart - end
                wins = leads(ring[here], best, nans)
                best, led = either(wins, ring[here], best), either(wins, ring_code[here], led)
            value[i], codes[i] = best, plus(led, shift)
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        here = slot
        best = get(ring, here + i)
        led = get_with(ring_code, here + i, best)
        for _ in range(1, rows):
            here += apart if here + apart < end else apart - end
            later = get(ring, here + i)
            wins = leads(later, best, nans)
            best, led = either(wins, later, best), either(wins, get_with(ring_code, here + i, best), led)
        put(value, i, best)
        put(codes, i, plus(led, splat(shift, best)))


@inline
def lead_taps(value, code, n, cells, apart, taps, least, nans):
    """value, code = the leaders of `taps` rows that lie `apart` cells from one another; codes count from `least`."""
    step, one = lanes(value), np.int32(1)
    if n < step:
        for i in range(n):
            best, led, tap = cells[i], least, least
            for j in range(1, taps):
                tap = plus(tap, one)
                wins = leads(cells[i + j * apart], best, nans)
                best, led = either(wins, cells[i + j * apart], best), either(wins, tap, led)
            value[i], code[i] = best, led
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        best = get(cells, i)
        led = splat(least, best)
        tap = least
        for j in range(1, taps):
            tap = plus(tap, one)
            later = get(cells, i + j * apart)
            wins = leads(later, best, nans)
            best, led = either(wins, later, best), either(wins, splat(tap, best), led)
        put(value, i, best)
        put(code, i, led)


@inline
def across_neighbours(source, value, code, outputs, inner, taps, dilation, least, spare, spare_code, room, nans):
    """value, code = the leader of source[o + j*dilation], j < taps, and least + j, for runs of `inner` cells each.

    Spares have room for two rows of `room` cells.
    """
    n, shift, run, half = outputs * inner, dilation * inner, taps, 1
    while run > FEW:
        run = (run + 1) // 2
    if run == taps:
        lead_taps(value, code, n, source, shift, taps, least, nans)
        return
    # runs of a few taps, then of twice as many, and again, the last two overlapping
    now, now_code = spare, spare_code
    lead_taps(now, now_code, n + (taps - run) * shift, source, shift, run, least, nans)
    while run < taps:
        more = min(run, taps - run)
        last = 2 * run >= taps
        next_value = value if last else at(spare, half * room)
        next_code = code if last else at(spare_code, half * room)
        length = n if last else n + (taps - 2 * run) * shift
        later, later_code = at(now, more * shift), at(now_code, more * shift)
        lead(next_value, next_code, length, now, now_code, later, later_code, np.int32(more), nans)
        now, now_code, half, run = next_value, next_code, 1 - half, 2 * run


@inline
def across_strided(source, value, code, outputs, inner, taps, stride, dilation, least, spare, nans):
    """value, code = the leader of source[o*stride + j*dilation], j < taps, and least + j, for runs of `inner` cells each.

    The spare has room for two rows of cells.
    """
    if inner == 1 and stride <= FEW and outputs >= lanes(value):
        # cells are laid out by the rest of their place divided by the stride, where those of one tap are neighbours
        step, line = lanes(value), outputs + (taps - 1) * dilation // stride + 1
        lay_out(spare, line, 0, source, (outputs - 1) * stride + (taps - 1) * dilation + 1, stride)
        for start in range(0, outputs, step):
            i = min(start, outputs - step)
            best = get(spare, i)
            led, tap, place_of, rest = splat(least, best), least, i, 0
            for _ in range(1, taps):
                tap = plus(tap, np.int32(1))
                rest += dilation
                while rest >= stride:
                    rest -= stride
                    place_of += 1
                later = get(spare, rest * line + place_of)
                wins = leads(later, best, nans)
                best, led = either(wins, later, best), either(wins, splat(tap, best), led)
            put(value, i, best)
            put(code, i, led)
    elif inner == 1:
        for o in range(outputs):
            best, won = source[o * stride], least
            for j in range(1, taps):
                b = source[o * stride + j * dilation]
                wins = leads(b, best, nans)
                best, won = either(wins, b, best), either(wins, plus(least, np.int32(j)), won)
            value[o], code[o] = best, won
    else:
        for o in range(outputs):
            lead_taps(
                at(value, o * inner), at(code, o * inner), inner, at(source, o * stride * inner), dilation * inner, taps, least, nans
            )  # fmt: skip


def lead_across(cells, value, code, left, right, inner, taps, stride, dilation, offset, least, spare, spare_code, room, first, count, known, where, strided, nans):  # fmt: skip
    """value, code = the leaders of a row: as the pass before left them, of the bins, or of uniform columns."""
    raise NotImplementedError


@overload(lead_across, strict=False, jit_options=PART)
def _lead_across(cells, value, code, left, right, inner, taps, stride, dilation, offset, least, spare, spare_code, room, first, count, known, where, strided, nans):  # fmt: skip
    if not isinstance(known, types.NoneType):
        return lead_known
    return lead_uniform if isinstance(first, types.NoneType) else lead_bins


def lead_known(cells, value, code, left, right, inner, taps, stride, dilation, offset, least, spare, spare_code, room, first, count, known, where, strided, nans):  # fmt: skip
    n, own = (right - left) * inner, at(known, where)
    copy(value, n, cells)
    for i in range(n):
        code[i] = plus(np.int32(own[i]), least)


def lead_bins(cells, value, code, left, right, inner, taps, stride, dilation, offset, least, spare, spare_code, room, first, count, known, where, strided, nans):  # fmt: skip
    for o in range(left, right):
        near, to = at(cells, (first[o] - first[left]) * inner), (o - left) * inner
        lead_taps(at(value, to), at(code, to), inner, near, inner, count[o], least, nans)


def lead_uniform(cells, value, code, left, right, inner, taps, stride, dilation, offset, least, spare, spare_code, room, first, count, known, where, strided, nans):  # fmt: skip
    if strided is None:
        across_neighbours(cells, value, code, right - left, inner, taps, dilation, least, spare, spare_code, room, nans)
    else:
        across_strided(cells, value, code, right - left, inner, taps, stride, dilation, least, spare, nans)
    for o in range(left, right):  # padding led where all real cells are as low as it
        skipped = -((o * stride - offset) // dilation)
        if skipped <= 0:
            break
        for i in range((o - left) * inner, (o - left + 1) * inner):
            code[i] = max(code[i], plus(least, np.int32(skipped)))


@inline
def lead_tall(value, code, m, first, last, block, slots, ring, ring_code, suffixes, suffix_codes, prefix, prefix_code, suffix_block, prefix_block, prefix_to, nans):  # fmt: skip
    """value, code = the leaders of all rows of a ring from first to last, by the leaders of ends and of beginnings of blocks. Which block's ends are known, which
    block's beginning, and up to which row, is given and returned."""
    zero = np.int32(0)
    here, there = first // block, last // block
    whole = first == here * block
    if not whole and suffix_block != here:
        row = min((here + 1) * block, last + 1) - 1
        place, slot = (row - here * block) * m, row % slots * m
        copy(at(suffixes, place), m, at(ring, slot))
        copy(at(suffix_codes, place), m, at(ring_code, slot))
        for earlier in range(row - 1, first - 1, -1):
            place, slot = (earlier - here * block) * m, earlier % slots * m
            part, part_code = at(suffixes, place), at(suffix_codes, place)
            lead(part, part_code, m, at(ring, slot), at(ring_code, slot), at(part, m), at(part_code, m), zero, nans)
        suffix_block = here
    if whole or here != there:
        if prefix_block != there:
            prefix_block, prefix_to = there, there * block
            slot = prefix_to % slots * m
            copy(prefix, m, at(ring, slot))
            copy(prefix_code, m, at(ring_code, slot))
        while prefix_to < last:
            prefix_to += 1
            slot = prefix_to % slots * m
            lead(prefix, prefix_code, m, prefix, prefix_code, at(ring, slot), at(ring_code, slot), zero, nans)
    place = (first - here * block) * m
    suffix, suffix_code = at(suffixes, place), at(suffix_codes, place)
    if here != there:
        lead(value, code, m, suffix, suffix_code, prefix, prefix_code, zero, nans)
    else:
        copy(value, m, prefix if whole else suffix)
        copy(code, m, prefix_code if whole else suffix_code)
    return suffix_block, prefix_block, prefix_to


@compiled
def find_winners(
    x,
    y,
    codes_in,
    codes,
    identity,
    strided,
    tall,
    nans,
    ints,
    bases,
    row_table,
    bins,
    tasks,
    counter,
    rooms,
    code_rooms,
    blocks,
    led_blocks,
    code_blocks,
    crew,
    turn,
):
    """Leaders and their codes for the windows of the tasks it takes (outer, row and column ranges).

    If there is a block, some planes at a time are laid out in it cell by cell, so that rows are long. Else a task is worked on by pieces of
    some columns each. What is None is compiled without: a block, bins, the codes of a pass before, `strided`, which says that
    columns of windows are not neighbours, `tall`, that rows are folded by blocks, and `nans`. Returns whether it should have been told of these.
    """
    told = at(ints, 0)
    x_row, x_column, x_inner, width = told[0], told[1], told[2], told[3]
    inner, height_out, width_out = told[4], told[5], told[6]
    step, block, slots, half = told[7], told[8], told[9], told[11]
    offset, taps, stride, dilation, height, code_width = told[13], told[14], told[15], told[16], told[17], told[18]
    row_low, row_first = at(row_table, 0), at(row_table, height_out)
    row_count, row_start = at(row_table, 2 * height_out), at(row_table, 3 * height_out)
    bin_first, bin_count = held_at(bins, bins, 0), held_at(bins, bins, width_out)
    plane, plane_out = height * width, height_out * width_out
    source_cells, target_cells, target_codes = at(x, 0), at(y, 0), at(codes, 0)
    begins, ends, every = 4, 5, told[19]
    if blocks is not None:
        source_cells, target_cells = part_of(blocks, turn), part_of(led_blocks, turn)
        target_codes = part_of(code_blocks, turn)
        begins, ends, every = 0, 1, inner
    met = False
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        outer_start, outer_stop, top, bottom, left, right = 0, 1, 0, height_out, 0, width_out
        for begin in range(tasks[t, begins], tasks[t, ends], every):
            if blocks is not None:
                first_plane = min(begin, bases.size - inner)
                transpose(at(x, first_plane * plane), inner, plane, source_cells)
            else:
                outer_start, outer_stop, top, bottom = tasks[t, 0], tasks[t, 1], tasks[t, 2], tasks[t, 3]
                left, right = begin, min(begin + told[19], tasks[t, 5])
            if bins is not None:
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
            ring, ring_code = part_of(rooms, turn), part_of(code_rooms, turn)
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
                        if nans is None and codes_in is None:
                            met |= holds_nan(at(padded, pad * inner), n)
                        lead_across(
                            padded, value, code, left, right, inner, taps, stride, dilation, offset, more, spare, spare_code,
                            room, bin_first, bin_count, codes_in, (outer * height + row) * width + left, strided, nans,
                        )  # fmt: skip
                    staged_to = max(staged_to, last + 1)
                    value, final = place(target_cells, where, result), at(target_codes, where)
                    code, shift = result_code, np.int32(-row_start[r] * code_width)
                    if count <= 0:
                        fill(value, m, identity[0])
                        fill(final, m, 0)
                    elif tall is not None and block > 0 and count > FEW:
                        suffix_block, prefix_block, prefix_to = lead_tall(
                            value, code, m, f, last, block, slots, ring, ring_code, suffixes, suffix_codes, prefix,
                            prefix_code, suffix_block, prefix_block, prefix_to, nans,
                        )  # fmt: skip
                        for i in range(m):
                            final[i] = plus(code[i], shift)
                    else:
                        lead_rows(
                            value, final, m, ring, ring_code, f % slots * m, step * m, slots * m, count, shift, nans
                        )
                    settle(value, m, half, target_cells, where)
            if blocks is not None:
                transpose(target_cells, plane_out, inner, at(y, first_plane * plane_out))
                transpose(target_codes, plane_out, inner, at(codes, first_plane * plane_out))
        t = take(counter)
    return disband(counter, crew, turn, met)
