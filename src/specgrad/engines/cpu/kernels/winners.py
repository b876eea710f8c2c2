"""The maximum of any cells, bit for bit, and which tap won it.

y[o, r, c] is the first maximal cell of a window, or its last NaN. That choice survives a chain of folds only if columns are led
before rows, each in order (`leading`).
Winners are codes: (row - first nominal row)*width + tap, where `width` codes were used up by the passes before. To compare for NaN, too, takes up
to a quarter of the time: it is done only if a kernel is told that there are some (`nans`, else None), and it says so when it meets one untold.
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from .access import at, get, held_at, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .heights import GROUP
from .leading import across_neighbours, lead, lead_rows, lead_taps
from .rows import fetch_cells, fill, lay_out, read, transpose
from .vectors import cut, either, leads, plus, splat
from .watching import holds_nan

FEW = 3  # rows that are led at once, of windows of more
APART = 7  # the widest stride at which cells are laid out by the rest of their place


@inline
def across_strided(source, value, code, outputs, inner, taps, stride, dilation, spare, nans):
    """value, code = the leader of source[o*stride + j*dilation], j < taps, and j, for runs of `inner` cells each.

    The spare has room for two rows of cells.
    """
    none, one = cut(0, code), cut(1, code)
    if inner == 1 and stride <= APART and outputs >= lanes(value):
        # cells are laid out by the rest of their place divided by the stride, where those of one tap are neighbours
        step, line = lanes(value), outputs + (taps - 1) * dilation // stride + 1
        lay_out(spare, line, 0, source, (outputs - 1) * stride + (taps - 1) * dilation + 1, stride)
        for start in range(0, outputs, step):
            i = min(start, outputs - step)
            best = get(spare, i)
            led, tap, place_of, rest = splat(none, best), none, i, 0
            for _ in range(1, taps):
                tap = plus(tap, one)
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
            best, won, tap = source[o * stride], none, none
            for j in range(1, taps):
                tap = plus(tap, one)
                b = source[o * stride + j * dilation]
                wins = leads(b, best, nans)
                best, won = either(wins, b, best), either(wins, tap, won)
            value[o], code[o] = best, won
    else:
        for o in range(outputs):
            near, to = at(source, o * stride * inner), o * inner
            lead_taps(at(value, to), at(code, to), inner, near, dilation * inner, taps, nans)


def lead_across(cells, value, code, rows, room, left, right, inner, taps, stride, dilation, spare, spare_code, first, count, strided, nans):  # fmt: skip
    """value, code = the leaders of some rows, `room` cells from one another, and which of a window's taps they are: of bins, of columns that are neighbours, or of
    others. The latter and bins are told of one row."""
    raise NotImplementedError


@overload(lead_across, strict=False, jit_options=PART)
def _lead_across(cells, value, code, rows, room, left, right, inner, taps, stride, dilation, spare, spare_code, first, count, strided, nans):  # fmt: skip
    if not isinstance(first, types.NoneType):
        return lead_bins
    return lead_near if isinstance(strided, types.NoneType) else lead_apart


def lead_bins(cells, value, code, rows, room, left, right, inner, taps, stride, dilation, spare, spare_code, first, count, strided, nans):  # fmt: skip
    for o in range(left, right):
        near, to = at(cells, (first[o] - first[left]) * inner), (o - left) * inner
        lead_taps(at(value, to), at(code, to), inner, near, inner, count[o], nans)


def lead_near(cells, value, code, rows, room, left, right, inner, taps, stride, dilation, spare, spare_code, first, count, strided, nans):  # fmt: skip
    n = (rows - 1) * room + (right - left) * inner
    across_neighbours(cells, value, code, n, taps, dilation * inner, spare, spare_code, GROUP * room, nans)


def lead_apart(cells, value, code, rows, room, left, right, inner, taps, stride, dilation, spare, spare_code, first, count, strided, nans):  # fmt: skip
    across_strided(cells, value, code, right - left, inner, taps, stride, dilation, spare, nans)


@inline
def count_padding(least, n, inner, stride, dilation, before):
    """least = how many taps of each window of a row are padding in front of it, of a row of n cells of which the first has so many columns `before` it, where
    that is not 0; returns how many cells these are."""
    o = 0
    while o * stride < before and o * inner < n:
        fill(at(least, o * inner), inner, cut((before - o * stride + dilation - 1) // dilation, least))
        o += 1
    return o * inner


@inline
def lead_tall(value, code, m, first, last, block, pitch, mask, ring, ring_code, width, shift, suffixes, suffix_codes, prefix, prefix_code, start, top, end, nans):  # fmt: skip
    """value, code = the leaders of all rows of a ring from first to last, by the leaders of ends and of beginnings of blocks, and their codes, each row's with so
    many times `width` as its number, and a shift. Where the block of the first row begins of which ends are known, which row is its last, and up to which row the beginning
    of the next is known, is given and returned."""
    none = cut(0, code)
    while start + block <= first:
        start, top = start + block, -1
    within = last < start + block
    whole, next_start = first == start, start if within else start + block
    if not whole and top < 0:
        top = last if within else start + block - 1
        slot = (top & mask) * pitch
        later, later_code, more = at(ring, slot), at(ring_code, slot), cut(top * width, code)
        for row in range(top - 1, first - 1, -1):
            slot, place = (row & mask) * pitch, (row - start) * m
            part, part_code = at(suffixes, place), at(suffix_codes, place)
            own = cut(row * width, code)
            lead(part, part_code, m, at(ring, slot), at(ring_code, slot), own, later, later_code, more, nans)
            later, later_code, more = part, part_code, none
    if whole or not within:
        end = max(end, next_start)
        while end < last:
            begins, slot = end == next_start, (end & mask) * pitch
            more = cut(end * width, code) if begins else none
            earlier, earlier_code = (at(ring, slot), at(ring_code, slot)) if begins else (prefix, prefix_code)
            end += 1
            slot, own = (end & mask) * pitch, cut(end * width, code)
            lead(prefix, prefix_code, m, earlier, earlier_code, more, at(ring, slot), at(ring_code, slot), own, nans)
    slot = (first & mask) * pitch
    a, a_code, a_shift = at(ring, slot), at(ring_code, slot), plus(cut(first * width, code), shift)
    if not whole and first < top:
        place = (first - start) * m
        a, a_code, a_shift = at(suffixes, place), at(suffix_codes, place), shift
    slot = (last & mask) * pitch
    b, b_code, b_shift = at(ring, slot), at(ring_code, slot), plus(cut(last * width, code), shift)
    if last > next_start:
        b, b_code, b_shift = prefix, prefix_code, shift
    if whole:
        a, a_code, a_shift = b, b_code, b_shift
    elif within:
        b, b_code, b_shift = a, a_code, a_shift
    lead(value, code, m, a, a_code, a_shift, b, b_code, b_shift, nans)
    return start, top, end


@inline
def lead_down(value, code, m, first, count, step, block, pitch, slots, ring, ring_code, width, shift, suffixes, suffix_codes, prefix, prefix_code, blank, known, tall, nans):  # fmt: skip
    """value, code = the leaders of `count` rows of a ring of so many slots, `step` apart from the first on, and their codes as in `lead_tall`, which is given and returns
    what is `known`; 0 and the blank where there is no row."""
    slot, last = (first & (slots - 1)) * pitch, first + (count - 1) * step
    if count <= 0:
        fill(value, m, blank)
        fill(code, m, 0)
    elif tall is not None and block > 0 and count > FEW:
        start, top, end = known
        return lead_tall(
            value, code, m, first, last, block, pitch, slots - 1, ring, ring_code, width, shift, suffixes, suffix_codes,
            prefix, prefix_code, start, top, end, nans,
        )  # fmt: skip
    else:
        shift, more = plus(shift, cut(first * width, code)), cut(step * width, code)
        lead_rows(value, code, m, ring, ring_code, slot, step * pitch, slots * pitch, count, shift, more, nans)
    return known


@compiled
def find_winners(
    x,
    y,
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
    some columns each. What is None is compiled without: a block, bins, `strided`, which says that
    columns of windows are not neighbours, `tall`, that rows are led by blocks, and `nans`. Returns whether it should have been told of these.
    """
    told = at(ints, 0)
    x_row, x_column, x_inner, width = told[0], told[1], told[2], told[3]
    inner, height_out, width_out = told[4], told[5], told[6]
    step, block, extent = told[7], told[8], told[9]
    offset, taps, stride, dilation, height, code_width = told[12], told[13], told[14], told[15], told[16], told[17]
    row_low, row_first = at(row_table, 0), at(row_table, height_out)
    row_count, row_start = at(row_table, 2 * height_out), at(row_table, 3 * height_out)
    bin_first, bin_count = held_at(bins, bins, 0), held_at(bins, bins, width_out)
    plane, plane_out = height * width, height_out * width_out
    source_cells, target_cells, target_codes = at(x, 0), at(y, 0), at(codes, 0)
    begins, ends, every = 4, 5, told[18]
    if blocks is not None:
        source_cells, target_cells = part_of(blocks, turn), part_of(led_blocks, turn)
        target_codes = part_of(code_blocks, turn)
        begins, ends, every = 0, 1, inner
    group = GROUP if strided is None and bins is None else 1
    slots = group
    while slots < extent + group - 1:  # a power of two, by which rows find their place
        slots *= 2
    met = False
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        outer_start, outer_stop, top, bottom, left, right = 0, 1, 0, height_out, 0, width_out
        for begin in range(tasks[t, begins], tasks[t, ends], every):
            if blocks is not None:
                first_plane = min(begin, bases.size - inner)
                transpose(at(x, first_plane * plane), inner, plane, source_cells)
                fetch_cells(at(x, first_plane * plane), inner * plane, inner * plane)
                fetch_cells(at(y, first_plane * plane_out), 0, inner * plane_out)
            else:
                outer_start, outer_stop, top, bottom = tasks[t, 0], tasks[t, 1], tasks[t, 2], tasks[t, 3]
                left, right = begin, min(begin + told[18], tasks[t, 5])
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
            pitch = m if group == 1 else room
            suffixes, suffix_codes = part_of(rooms, turn), part_of(code_rooms, turn)
            prefix, prefix_code = at(suffixes, block * m), at(suffix_codes, block * m)
            ring, ring_code = at(prefix, m), at(prefix_code, m)
            spare, spare_code = at(ring, slots * pitch), at(ring_code, slots * pitch)
            padded = at(spare, 2 * group * room)
            fill(padded, group * room, identity[0])
            least, in_front = at(spare_code, 2 * group * room), 0
            if bins is None:
                in_front = count_padding(least, m, inner, stride, dilation, offset - left * stride)
            for outer in range(outer_start, outer_stop):
                base = bases[outer] + first_cell * x_column
                staged_to, known = 0, (0, -1, -1)
                for r in range(top, bottom):
                    first, count = row_first[r], row_count[r]
                    where = ((outer * height_out + r) * width_out + left) * inner
                    staged_to, stop = max(staged_to, row_low[r]), min(first + (count - 1) * step + 1, height)
                    while staged_to < stop:
                        begun, staged_to = staged_to, min((staged_to // group + 1) * group, height)
                        for row in range(begun, staged_to):
                            target = at(padded, (row - begun) * room + pad * inner)
                            read(at(source_cells, base + row * x_row), x_column, inner, x_inner, target, n)
                            if nans is None:
                                met |= holds_nan(target, n)
                        slot = (begun & (slots - 1)) * pitch
                        value, code = at(ring, slot), at(ring_code, slot)
                        lead_across(
                            padded, value, code, staged_to - begun, room, left, right, inner, taps, stride, dilation,
                            spare, spare_code, bin_first, bin_count, strided, nans,
                        )  # fmt: skip
                        for row in range(staged_to - begun):
                            own = at(code, row * pitch)
                            for i in range(in_front):  # padding led where all real cells are as low as it
                                own[i] = max(own[i], least[i])
                    value, code = at(target_cells, where), at(target_codes, where)
                    known = lead_down(
                        value, code, m, first, count, step, block, pitch, slots, ring, ring_code, code_width,
                        cut(-row_start[r] * code_width, code), suffixes, suffix_codes, prefix, prefix_code, identity[0],
                        known, tall, nans,
                    )  # fmt: skip
            if blocks is not None:
                transpose(target_cells, plane_out, inner, at(y, first_plane * plane_out))
                transpose(target_codes, plane_out, inner, at(codes, first_plane * plane_out))
        t = take(counter)
    return disband(counter, crew, turn, met)


@compiled
def find_further(
    x, y, codes_in, codes, identity, tall, nans, ints, bases, row_table, tasks, counter, rooms, code_rooms, crew, turn
):
    """As `find_winners`, of the leaders that a pass before has left, with their codes: rows are led where they lie."""
    told = at(ints, 0)
    x_row, width, height_out, step, block = told[0], told[3], told[5], told[7], told[8]
    height, code_width, tile = told[16], told[17], told[18]
    row_first, row_count, row_start = (
        at(row_table, height_out),
        at(row_table, 2 * height_out),
        at(row_table, 3 * height_out),
    )
    slots = 1
    while slots < height:  # of a ring that never comes round
        slots *= 2
    suffixes, suffix_codes = part_of(rooms, turn), part_of(code_rooms, turn)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for left in range(tasks[t, 4], tasks[t, 5], tile):
            m = min(tile, tasks[t, 5] - left)
            prefix, prefix_code = at(suffixes, block * m), at(suffix_codes, block * m)
            for outer in range(tasks[t, 0], tasks[t, 1]):
                known, rows, rows_codes = (
                    (0, -1, -1),
                    at(x, bases[outer] + left),
                    at(codes_in, outer * height * width + left),
                )
                for r in range(tasks[t, 2], tasks[t, 3]):
                    where = (outer * height_out + r) * width + left
                    value, code = at(y, where), at(codes, where)
                    known = lead_down(
                        value, code, m, row_first[r], row_count[r], step, block, x_row, slots, rows, rows_codes, code_width,
                        cut(-row_start[r] * code_width, code), suffixes, suffix_codes, prefix, prefix_code, identity[0],
                        known, tall, nans,
                    )  # fmt: skip
        t = take(counter)
    disband(counter, crew, turn, False)
