"""Folding windows where the order leaves no trace: sums, and maxima of plain numbers.

y[o, r, c] = fold over the rows first[r] + i*step and, in them, over the taps of column c. Rows are folded first (whole rows at a
time), then columns inside a row that stays in the nearest cache; the input is read once and the output written once. Cost per
cell: some three folds down, whatever the height of the window (prefixes and suffixes of blocks), and log2 of its width across.
"""

from __future__ import annotations

from .rows import (
    at,
    combine,
    compiled,
    copy,
    fill,
    fold2,
    fold3,
    inline,
    into2,
    into3,
    is_plain,
    place,
    quotient,
    read,
    row_at,
    settle,
    slide,
    watch,
)

FEW = 7  # windows of up to so many rows are folded directly


@inline
def across(source, spare, room, target, outputs, inner, taps, stride, dilation, maximum):
    """target[o] = fold over j < taps of source[o*stride + j*dilation], for runs of `inner` cells each."""
    if stride == 1 or (inner == 1 and taps > 4 * stride):
        n = ((outputs - 1) * stride + 1) * inner
        dense = target if stride == 1 else at(spare, 2 * room)
        slide(source, spare, room, dense, n, taps, dilation * inner, maximum)
        if stride > 1:
            for o in range(outputs):
                target[o] = dense[o * stride]
    elif inner > 1:
        for o in range(outputs):
            part = at(target, o * inner)
            copy(part, inner, at(source, o * stride * inner))
            for j in range(1, taps):
                into2(part, inner, at(source, (o * stride + j * dilation) * inner), maximum)
    elif stride == 2 and dilation == 1 and taps == 2:
        for o in range(outputs):
            target[o] = combine(source[2 * o], source[2 * o + 1], maximum)
    elif stride == 2 and dilation == 1 and taps == 3:
        for o in range(outputs):
            target[o] = combine(combine(source[2 * o], source[2 * o + 1], maximum), source[2 * o + 2], maximum)
    else:
        for o in range(outputs):
            folded = source[o * stride]
            for j in range(1, taps):
                folded = combine(folded, source[o * stride + j * dilation], maximum)
            target[o] = folded


@inline
def across_bins(source, target, inner, first, count, left, right, maximum):
    """target[o] = fold over the cells first[o] to first[o] + count[o], the row beginning with the first cell of `left`."""
    if inner == 1:
        for o in range(left, right):
            cell = first[o] - first[left]
            folded = source[cell]
            for j in range(cell + 1, cell + count[o]):
                folded = combine(folded, source[j], maximum)
            target[o - left] = folded
        return
    for o in range(left, right):
        part, cells = at(target, (o - left) * inner), at(source, (first[o] - first[left]) * inner)
        copy(part, inner, cells)
        for j in range(1, count[o]):
            into2(part, inner, at(cells, j * inner), maximum)


@inline
def divide(row, n, by, reciprocal, columns, some):
    """row /= by * columns, or by `by` alone where there are no columns."""
    if some:
        for i in range(n):
            row[i] = row[i] / (by * columns[i])
    else:
        for i in range(n):
            row[i] = quotient(row[i], by, reciprocal)


@compiled
def fold_windows(
    x,
    y,
    identity,
    maximum,
    ints,
    bases,
    row_low,
    row_first,
    row_count,
    bin_first,
    bin_count,
    divisors,
    reciprocals,
    column_divisor,
    marks,
    task,
    scratch,
):
    """Fold the windows of one task (outer, row and column ranges); mark the planes whose maximum is not plain."""
    x_row, x_column, x_inner, width, inner, height_out, width_out = (
        ints[0],
        ints[1],
        ints[2],
        ints[3],
        ints[4],
        ints[5],
        ints[6],
    )
    step, block, slots, staged, half, divide_before = ints[7], ints[8], ints[9], ints[10] != 0, ints[11], ints[12] != 0
    up, offset, taps, stride, dilation = ints[13], ints[14], ints[15], ints[16], ints[17]
    outer_start, outer_stop, start, stop, left, right = task
    bins, by_column = bin_first.size > 0, column_divisor.size > 0
    if bins:
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
    straight = not bins and taps == 1 and stride == 1 and up == 1 and lead == 0 and room == n
    blank = identity[0]
    ring = at(scratch, 0)
    suffixes = at(ring, slots * n if staged else 0)
    prefix = at(suffixes, block * n)
    spread = at(prefix, n)
    result = at(spread, room)
    spare = at(result, (right - left) * inner)  # three rows
    fill(spread, room, blank)
    down = at(spread, lead * inner) if up == 1 else spare
    size = (right - left) * inner
    divide_after_rows = not divide_before and divisors.size > 1
    for outer in range(outer_start, outer_stop):
        base = bases[outer] + first_cell * x_column
        staged_to = 0
        watched, highest = identity[1], -1
        suffix_block = prefix_block = prefix_to = -1
        for r in range(start, stop):
            f, count = row_first[r], row_count[r]
            last = f + (count - 1) * step
            highest = max(highest, last)
            where = ((outer * height_out + r) * width_out + left) * inner
            if r > start and f == row_first[r - 1] and count == row_count[r - 1] and not divide_after_rows:
                copy(at(y, where), size, at(y, where - width_out * inner))
                continue
            folded = place(y, where, result)
            target = folded if straight else down
            if staged:
                for row in range(max(staged_to, row_low[r]), last + 1):
                    kept = at(ring, row % slots * n)
                    read(at(x, base + row * x_row), x_column, inner, x_inner, half, kept, n)
                    if divide_before:
                        which = min(row, divisors.size - 1)
                        divide(
                            kept,
                            n,
                            divisors[which],
                            reciprocals[which],
                            at(column_divisor, first_cell * inner),
                            by_column,
                        )
                staged_to = max(staged_to, last + 1)
            if count <= 0:
                fill(target, n, blank)
            elif block > 0 and count > FEW:
                here, there = f // block, last // block
                suffix = at(suffixes, (f - here * block) * n)
                if f != here * block and suffix_block != here:
                    end = min((here + 1) * block, last + 1)
                    for row in range(end - 1, f - 1, -1):
                        own = row_at(x, base + row * x_row, ring, row % slots * n, staged)
                        part = at(suffixes, (row - here * block) * n)
                        if row == end - 1:
                            copy(part, n, own)
                        else:
                            fold2(part, n, own, at(part, n), maximum)
                    suffix_block = here
                if here != there or f == here * block:
                    if prefix_block != there:
                        prefix_block, prefix_to = there, there * block
                        copy(prefix, n, row_at(x, base + prefix_to * x_row, ring, prefix_to % slots * n, staged))
                    while prefix_to < last:
                        prefix_to += 1
                        own = row_at(x, base + prefix_to * x_row, ring, prefix_to % slots * n, staged)
                        into2(prefix, n, own, maximum)
                if here != there:
                    fold2(target, n, suffix, prefix, maximum)
                else:
                    copy(target, n, prefix if f == here * block else suffix)
            else:
                a = row_at(x, base + f * x_row, ring, f % slots * n, staged)
                if count == 1:
                    copy(target, n, a)
                for j in range(1, count, 2):
                    row = f + j * step
                    b = row_at(x, base + row * x_row, ring, row % slots * n, staged)
                    row = row + step if j + 1 < count else row
                    c = row_at(x, base + row * x_row, ring, row % slots * n, staged)
                    if j > 1:
                        if j + 1 < count:
                            into3(target, n, b, c, maximum)
                        else:
                            into2(target, n, b, maximum)
                    elif count > 2:
                        fold3(target, n, a, b, c, maximum)
                    else:
                        fold2(target, n, a, b, maximum)
            if up > 1:
                if inner == 1:
                    for i in range(n):
                        spread[lead + i * up] = down[i]
                else:
                    for i in range(n // inner):
                        copy(at(spread, (lead + i * up) * inner), inner, at(down, i * inner))
            if bins:
                across_bins(spread, folded, inner, bin_first, bin_count, left, right, maximum)
            elif not straight:
                across(spread, spare, room, folded, right - left, inner, taps, stride, dilation, maximum)
            if not divide_before and divisors.size > 0:
                which = min(r, divisors.size - 1)
                divide(folded, size, divisors[which], reciprocals[which], at(column_divisor, left * inner), by_column)
            if maximum is not None:
                for i in range(size):
                    watched = watch(watched, folded[i], maximum)
            settle(folded, size, half, y, where)
        if maximum is not None and not watched > 0:
            for row in range(row_low[start], highest + 1):
                if staged:
                    read(at(x, base + row * x_row), x_column, inner, x_inner, half, ring, n)
                if not is_plain(row_at(x, base + row * x_row, ring, 0, staged), n):
                    marks[outer] = 1
                    break
