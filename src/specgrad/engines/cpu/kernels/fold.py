"""Folding windows where the order leaves no trace: sums, and maxima of plain numbers.

y[o, r, c] = fold over the rows first[r] + i*step and, in them, over the taps of column c. Rows are folded first (whole rows at a
time), then columns inside a row that stays in the nearest cache; the input is read once and the output written once. Cost per
cell: some three to five folds down, whatever the height of the window (by `stacks`, and in windows that are too tall or apart by prefixes and suffixes of
blocks), and log4 of its width across.
"""

from __future__ import annotations

from numba import types
from numba.extending import overload

from .access import at, fetch, get, held_at, lanes, put
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .heights import STACK
from .rows import (
    copy,
    fetch_cells,
    fill,
    fold2,
    fold3,
    fold_dealt,
    fold_pairs,
    fold_rows,
    into2,
    into3,
    lay_out,
    read,
    row_at,
    slide,
    transpose,
)
from .stacks import stack_across, stack_down
from .vectors import combine, quotient, splat
from .watching import holds_minus_zero, is_spotted, is_watched, watch

AHEAD = 1 << 11  # cells that are read before those that are asked for now
FEW = 7  # windows of up to so many rows are folded directly


def fold_down(target, n, flat, offset, apart, ring, first, step, count, slots, staged, bins, strided, maximum):
    """target = the fold of `count` rows: where they lie, `apart` cells from one another, or if they are staged from `first` on, `step`
    apart, in a ring of so many slots. Where windows are bins or strided, rows to come are asked for."""
    raise NotImplementedError


@overload(fold_down, strict=False, jit_options=PART)
def _fold_down(target, n, flat, offset, apart, ring, first, step, count, slots, staged, bins, strided, maximum):
    if not isinstance(staged, types.NoneType):
        return fold_staged
    apart = not isinstance(bins, types.NoneType) or not isinstance(strided, types.NoneType)
    return fold_far if apart else fold_near


def fold_near(target, n, flat, offset, apart, ring, first, step, count, slots, staged, bins, strided, maximum):
    fold_rows(target, n, at(flat, offset), apart, count, None, maximum)


def fold_far(target, n, flat, offset, apart, ring, first, step, count, slots, staged, bins, strided, maximum):
    ahead = apart * max(5, AHEAD // max(n, 1))
    if count < 5:
        for row in range(count):
            for i in range(0, n, lanes(target)):
                fetch(at(flat, offset), row * apart + i + ahead)
    fold_rows(target, n, at(flat, offset), apart, count, ahead, maximum)


def fold_staged(target, n, flat, offset, apart, ring, first, step, count, slots, staged, bins, strided, maximum):
    a, b = at(ring, first % slots * n), at(ring, (first + step) % slots * n)
    if count == 1:
        copy(target, n, a)
    elif count == 2:
        fold2(target, n, a, b, maximum)
    else:
        fold3(target, n, a, b, at(ring, (first + 2 * step) % slots * n), maximum)
        last = first + (count - 1) * step
        for row in range(first + 3 * step, last, 2 * step):
            into3(target, n, at(ring, row % slots * n), at(ring, (row + step) % slots * n), maximum)
        if count > 3 and count % 2 == 0:
            into2(target, n, at(ring, last % slots * n), maximum)


def fold_across(
    source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum
):
    """A row of outputs from the row that its rows were folded into: target[o] = fold over j < taps of source[o*stride + j*dilation], for
    runs of `inner` cells each; or of the cells of each bin, if there are bins."""
    raise NotImplementedError


@overload(fold_across, strict=False, jit_options=PART)
def _fold_across(
    source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum
):
    if not isinstance(first, types.NoneType):
        return across_bins
    if isinstance(strided, types.NoneType):
        return across_neighbours
    return across_dealt if isinstance(strided, types.Boolean) else across_far


def across_neighbours(source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum):  # fmt: skip
    slide(source, 0, 1, spare, room, target, 0, (right - left) * inner, taps, dilation * inner, maximum)


@inline
def dealt_row(rows, length, tap, stride, dilation):
    """Where the cells of a tap lie, one for each window."""
    return at(rows, tap * dilation % stride * length + tap * dilation // stride)


def across_dealt(
    source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum
):
    """At strides of up to 4, of which every tap is a row of the cells that are dealt to as many rows as the stride says."""
    outputs = right - left
    if inner > 1:
        for o in range(outputs):
            fold_rows(
                at(target, o * inner), inner, at(source, o * stride * inner), dilation * inner, taps, None, maximum
            )
    elif dilation == 1 and stride == taps:
        fold_dealt(target, outputs, source, stride, maximum)
    else:
        line = outputs + (taps - 1) * dilation // stride
        lay_out(spare, line, 0, source, (outputs - 1) * stride + (taps - 1) * dilation + 1, stride)
        for j in range(0, taps, 2):
            a, b = dealt_row(spare, line, j, stride, dilation), dealt_row(spare, line, j + 1, stride, dilation)
            if j > 0 and j + 1 < taps:
                into3(target, outputs, a, b, maximum)
            elif j > 0:
                into2(target, outputs, a, maximum)
            elif taps == 1:
                copy(target, outputs, a)
            else:
                fold2(target, outputs, a, b, maximum)


def across_far(source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum):
    outputs = right - left
    if inner == 1 and taps > 4 * stride:
        dense = at(spare, 2 * room)
        slide(source, 0, 1, spare, room, dense, 0, (outputs - 1) * stride + 1, taps, dilation, maximum)
        for o in range(outputs):
            target[o] = dense[o * stride]
    elif inner > 1:
        for o in range(outputs):
            fold_rows(
                at(target, o * inner), inner, at(source, o * stride * inner), dilation * inner, taps, None, maximum
            )
    elif dilation == 1 and stride == taps and taps & (taps - 1) == 0:  # halved until one cell is left of each window
        cells = outputs * taps // 2
        while cells > outputs:
            fold_pairs(spare, cells, source, maximum)
            source, cells = spare, cells // 2
        fold_pairs(target, cells, source, maximum)
    else:
        done = outputs // 4 * 4
        for o in range(0, done, 4):  # four at a time: each waits for its own folds only
            near = at(source, o * stride)
            one, two, three = at(near, stride), at(near, 2 * stride), at(near, 3 * stride)
            a, b, c, d = near[0], one[0], two[0], three[0]
            for j in range(dilation, taps * dilation, dilation):
                a, b = combine(a, near[j], maximum), combine(b, one[j], maximum)
                c, d = combine(c, two[j], maximum), combine(d, three[j], maximum)
            target[o], target[o + 1], target[o + 2], target[o + 3] = a, b, c, d
        for o in range(done, outputs):
            folded = source[o * stride]
            for j in range(1, taps):
                folded = combine(folded, source[o * stride + j * dilation], maximum)
            target[o] = folded


def across_bins(
    source, spare, room, target, left, right, inner, taps, stride, dilation, first, count, strided, maximum
):
    """target[o] = fold over the cells first[o] to first[o] + count[o], the row beginning with the first cell of `left`."""
    for o in range(left, right):
        cells = at(source, (first[o] - first[left]) * inner)
        if inner > 1:
            fold_rows(at(target, (o - left) * inner), inner, cells, inner, count[o], None, maximum)
        elif count[o] == 1:
            target[o - left] = cells[0]
        else:
            folded, other = cells[0], cells[1]
            for j in range(2, count[o] - 1, 2):
                folded, other = combine(folded, cells[j], maximum), combine(other, cells[j + 1], maximum)
            if count[o] % 2:
                folded = combine(folded, cells[count[o] - 1], maximum)
            target[o - left] = combine(folded, other, maximum)


@inline
def divide(row, n, by, rest, columns, first):
    """row /= by * columns from the first on; where there are no columns, it is multiplied by the two parts of a reciprocal."""
    if columns.size > 0:
        own = at(columns, first)
        for i in range(n):
            row[i] = row[i] / (by * own[i])
        return
    step = lanes(row)
    if n < step:
        for i in range(n):
            row[i] = quotient(row[i], by, rest)
        return
    last = n - step
    over, rests = splat(by, get(row, 0)), splat(rest, get(row, 0))
    end = quotient(get(row, last), over, rests)
    for i in range(0, last, step):
        put(row, i, quotient(get(row, i), over, rests))
    put(row, last, end)


@inline
def watch_row(eye, row, n, nothing, maximum):
    """Watch a row of maxima; `eye` is a vector of what was seen, at first `nothing`."""
    if maximum is not None:
        step = lanes(row)
        if n < step:
            for i in range(n):
                eye[0] = watch(eye[0], row[i], maximum)
        else:
            seen = splat(nothing, get(eye, 0))  # not what was seen before, for which it would wait
            for start in range(0, n, step):
                seen = watch(seen, get(row, min(start, n - step)), maximum)
            put(eye, 0, watch(get(eye, 0), seen, maximum))


@compiled
def fold_windows(
    x,
    y,
    identity,
    maximum,
    staged,
    strided,
    tall,
    ints,
    bases,
    row_table,
    bins,
    divisors,
    rests,
    column_divisor,
    tasks,
    counter,
    rooms,
    blocks,
    folded_blocks,
    crew,
    turn,
):
    """Fold the windows of the tasks it takes (outer, row and column ranges). Returns whether the order of folding may show in a maximum.

    If there is a block, some planes at a time are laid out in it cell by cell, so that rows are long. Else a task is worked on by pieces of
    some columns each, which are near enough for rows to stay in the nearest cache. Sums are divided if there are divisors; maxima have
    none. What is None is compiled without: a block, bins, divisors, `staged`, which says that rows are copied before they are folded, `strided`, that
    columns of windows are not neighbours but up to four cells apart (True), or more (a number), and `tall`, that rows are folded by blocks.
    """
    told = at(ints, 0)
    x_row, x_column, x_inner, width = told[0], told[1], told[2], told[3]
    inner, height_out, width_out = told[4], told[5], told[6]
    step, block, slots = told[7], told[8], told[9]
    up, offset, taps, stride, dilation = told[11], told[12], told[13], told[14], told[15]
    plane, plane_out = told[16] * width, height_out * width_out
    row_low, row_first, row_count = at(row_table, 0), at(row_table, height_out), at(row_table, 2 * height_out)
    bin_first, bin_count = held_at(bins, bins, 0), held_at(bins, bins, width_out)
    source_cells, target_cells = at(x, 0), at(y, 0)
    begins, ends, every = 4, 5, told[18]
    if blocks is not None:
        source_cells, target_cells = part_of(blocks, turn), part_of(folded_blocks, turn)
        begins, ends, every = 0, 1, inner
    shows = False
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
                first_cell, lead = bin_first[left], 0
                last_cell = bin_first[right - 1] + bin_count[right - 1]
                span = last_cell - first_cell
            else:
                origin = left * stride
                span = (right - 1 - left) * stride + (taps - 1) * dilation + 1
                first_cell = max(0, -((offset - origin) // up))
                last_cell = max(first_cell, min(width, (origin + span - 1 - offset) // up + 1))
                lead = offset + first_cell * up - origin
            n, room = (last_cell - first_cell) * inner, span * inner
            straight = lies = False
            if bins is None:
                whole = up == 1 and lead == 0 and room == n
                straight = whole and taps == 1 and stride == 1
                # a single row can be folded across where it lies
                lies = whole and not straight
            if staged is not None:
                lies = False
            blank = identity[0]
            eye = part_of(rooms, turn)
            ring = at(eye, lanes(eye))
            suffixes = ring
            if staged is not None:
                suffixes = at(ring, slots * n)
            prefix = at(suffixes, block * n)
            # rows are written from a place on that vectors are best written to
            before, pitch = lanes(eye) + (slots + block + 1) * n + lead * inner, room + -room % lanes(eye)
            spread = at(eye, before + -before % lanes(eye) - lead * inner)
            blank_row = at(spread, STACK * pitch)
            spare = at(blank_row, n)
            fill(spread, STACK * pitch + n, blank)
            stacks = told[19] > 0 and bottom - top >= STACK and n >= lanes(eye)
            down = at(spread, lead * inner) if up == 1 else spare
            size = (right - left) * inner
            alike = True  # rows that are folded from the same rows
            if divisors is not None:
                alike = divisors.size <= 1
            for outer in range(outer_start, outer_stop):
                base = bases[outer] + first_cell * x_column
                staged_to = 0
                highest = -1
                fill(eye, lanes(eye), identity[1])
                suffix_block = prefix_block = prefix_to = -1
                done = top
                while done < bottom:
                    rows, r = 1, done
                    if stacks:
                        rows, r = STACK, min(done, bottom - STACK)
                    done = r + rows
                    f, count = row_first[r], row_count[r]
                    last = f + (count - 1) * step
                    highest = max(highest, row_first[done - 1] + (row_count[done - 1] - 1) * step)
                    where = ((outer * height_out + r) * width_out + left) * inner
                    if rows == 1 and r > top and f == row_first[r - 1] and count == row_count[r - 1] and alike:
                        copy(at(target_cells, where), size, at(target_cells, where - width_out * inner))
                        continue
                    folded = at(target_cells, where)
                    target, source = folded if straight else down, spread
                    if staged is not None:
                        for row in range(max(staged_to, row_low[r]), last + 1):
                            kept = at(ring, row % slots * n)
                            read(at(source_cells, base + row * x_row), x_column, inner, x_inner, kept, n)
                        staged_to = max(staged_to, last + 1)
                    if rows > 1:
                        beside, there = (folded, width_out * inner) if straight else (down, pitch)
                        stack_down(
                            beside, there, n, at(source_cells, base), x_row, r - told[20], told[16], blank_row, told[19], staged, maximum
                        )  # fmt: skip
                        if not straight:
                            stack_across(
                                spread, pitch, spare, STACK * pitch, folded, width_out * inner, size, taps, dilation * inner, staged, strided, maximum
                            )  # fmt: skip
                    elif count <= 0:
                        fill(target, n, blank)
                    elif tall is not None and block > 0 and count > FEW:
                        here, there = f // block, last // block
                        suffix = at(suffixes, (f - here * block) * n)
                        if f != here * block and suffix_block != here:
                            end = min((here + 1) * block, last + 1)
                            for row in range(end - 1, f - 1, -1):
                                own = row_at(source_cells, base + row * x_row, ring, row, slots, n, staged)
                                part = at(suffixes, (row - here * block) * n)
                                if row == end - 1:
                                    copy(part, n, own)
                                else:
                                    fold2(part, n, own, at(part, n), maximum)
                            suffix_block = here
                        if here != there or f == here * block:
                            if prefix_block != there:
                                prefix_block, prefix_to = there, there * block
                                copy(
                                    prefix,
                                    n,
                                    row_at(source_cells, base + prefix_to * x_row, ring, prefix_to, slots, n, staged),
                                )
                            while prefix_to < last:
                                prefix_to += 1
                                own = row_at(source_cells, base + prefix_to * x_row, ring, prefix_to, slots, n, staged)
                                into2(prefix, n, own, maximum)
                        if here != there:
                            fold2(target, n, suffix, prefix, maximum)
                        else:
                            copy(target, n, prefix if f == here * block else suffix)
                    elif count == 1 and lies:
                        source = row_at(source_cells, base + f * x_row, ring, f, slots, n, staged)
                    else:
                        fold_down(target, n, source_cells, base + f * x_row, step * x_row, ring, f, step, count, slots, staged, bins, strided, maximum)  # fmt: skip
                    if up > 1 and rows == 1:
                        if inner == 1:
                            for i in range(n):
                                spread[lead + i * up] = down[i]
                        else:
                            for i in range(n // inner):
                                copy(at(spread, (lead + i * up) * inner), inner, at(down, i * inner))
                    if not straight and rows == 1:
                        fold_across(
                            source, spare, STACK * pitch, folded, left, right, inner, taps, stride, dilation, bin_first, bin_count, strided, maximum
                        )  # fmt: skip
                    for row in range(rows):
                        own = at(folded, row * width_out * inner)
                        if divisors is not None and divisors.size > 0:
                            which = min(r + row, divisors.size - 1)
                            divide(own, size, divisors[which], rests[which], column_divisor, left * inner)
                        watch_row(eye, own, size, identity[1], maximum)
                if is_watched(get(eye, 0), maximum):
                    if is_spotted(get(eye, 0)):
                        shows = True
                        continue
                    for row in range(row_low[top], highest + 1):
                        if staged is not None:
                            read(at(source_cells, base + row * x_row), x_column, inner, x_inner, ring, n)
                        if holds_minus_zero(row_at(source_cells, base + row * x_row, ring, 0, 1, 0, staged), n):
                            shows = True
                            break
            if blocks is not None:
                transpose(target_cells, plane_out, inner, at(y, first_plane * plane_out))
        t = take(counter)
    return disband(counter, crew, turn, shows)
