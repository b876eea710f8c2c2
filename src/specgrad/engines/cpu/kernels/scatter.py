"""What winners are for: tangents, cotangents and flat indices.

A winner's cell is base(window) + offsets[code]; a table per axis gives the bases. Each input plane is filled, in the cache, by the
windows that won there, in one fixed order whatever the number of threads; the code `none` has no cell. A sum must not wait for the one
before it to reach memory, and neighbouring windows often share their winner: so several planes are filled side by side.
"""

from __future__ import annotations

from .access import at
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .rows import fill, place, widen, write_out


@compiled
def gather_winners(dx, codes, dy, ints, offsets, heads, row_bases, column_bases, tasks, counter, crew, turn):
    """dy = the tangent of each window's winner, and 0 where there is none."""
    none, inner, plane = ints[0], ints[1], ints[2]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        cell = tasks[t, 0] * heads.size * row_bases.size * column_bases.size * inner
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for head in heads:
                for row in row_bases:
                    base = outer * plane + head + row
                    for column in column_bases:
                        source = at(dx, base + column)
                        for i in range(inner):
                            code = codes[cell]
                            if code == none:
                                dy[cell] = 0
                            else:
                                dy[cell] = source[offsets[code] + i]
                            cell += 1
        t = take(counter)
    disband(counter, crew, turn, False)


@inline
def clear(gx, planes, plane, cleared, edge):
    """Let the planes be 0 up to an edge."""
    for p in range(planes):
        fill(at(gx, p * plane + cleared), edge - cleared, 0)


@inline
def scatter_row(base, arriving, codes, columns, column_bases, offsets, half, sample, checked, none):
    """Add a row of cotangents to the cells that won; `checked`: some have none."""
    for c in range(columns):
        code = codes[c]
        if not checked or code != none:
            base[column_bases[c] + offsets[code]] += widen(arriving[c], half, sample)


@inline
def scatter_rows(base, arriving, codes, columns, column_bases, offsets, half, sample, checked, none, plane, cells):
    """The same of four planes."""
    base1, arriving1, codes1 = at(base, plane), at(arriving, cells), at(codes, cells)
    base2, arriving2, codes2 = at(base1, plane), at(arriving1, cells), at(codes1, cells)
    base3, arriving3, codes3 = at(base2, plane), at(arriving2, cells), at(codes2, cells)
    for c in range(columns):
        column, code, code1, code2, code3 = column_bases[c], codes[c], codes1[c], codes2[c], codes3[c]
        if not checked or code != none:
            base[column + offsets[code]] += widen(arriving[c], half, sample)
        if not checked or code1 != none:
            base1[column + offsets[code1]] += widen(arriving1[c], half, sample)
        if not checked or code2 != none:
            base2[column + offsets[code2]] += widen(arriving2[c], half, sample)
        if not checked or code3 != none:
            base3[column + offsets[code3]] += widen(arriving3[c], half, sample)


@compiled
def scatter_winners(
    gy, codes, gx, sample, ints, offsets, heads, row_bases, column_bases, tasks, counter, rooms, crew, turn
):
    """gx = at each cell the sum of the cotangents of the windows that it won; `near`: four planes at once, `apart`: one, in scratch."""
    none, inner, plane, reach, half, checked = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5] != 0
    near, apart = ints[6] != 0, ints[7] != 0
    columns, scratch = column_bases.size, part_of(rooms, turn)
    cells = heads.size * row_bases.size * columns * inner
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        outer, stop = tasks[t, 0], tasks[t, 1]
        while outer < stop:
            together = 4 if near and inner == 1 and half == 0 and stop - outer >= 4 else 1
            target = scratch if apart else place(gx, outer * plane, scratch)
            cleared = 0
            cell = outer * cells
            for head in heads:
                for row in row_bases:
                    edge = min(plane, head + row + reach)
                    if edge > cleared:
                        clear(target, together, plane, cleared, edge)
                        cleared = edge
                    own, arriving, base = at(codes, cell), at(gy, cell), at(target, head + row)
                    if together == 4:
                        if checked:
                            scatter_rows(
                                base, arriving, own, columns, column_bases, offsets, half, sample, True, none, plane, cells
                            )  # fmt: skip
                        else:
                            scatter_rows(
                                base, arriving, own, columns, column_bases, offsets, half, sample, False, none, plane, cells
                            )  # fmt: skip
                    elif inner == 1:
                        if checked:
                            scatter_row(base, arriving, own, columns, column_bases, offsets, half, sample, True, none)
                        else:
                            scatter_row(base, arriving, own, columns, column_bases, offsets, half, sample, False, none)
                    else:
                        for c in range(columns):
                            for i in range(inner):
                                code = own[c * inner + i]
                                if code != none:
                                    won = column_bases[c] + offsets[code] + i
                                    base[won] += widen(arriving[c * inner + i], half, sample)
                    cell += columns * inner
            clear(target, together, plane, cleared, plane)
            if apart:
                write_out(target, plane, half, gx, outer * plane)
            outer += together
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def sow_winners(gy, codes, gx, ints, offsets, heads, row_bases, column_bases, tasks, counter, crew, turn):
    """As `scatter_winners`, where winners are far apart: planes are cleared first, and by the time their winners are met they have
    reached memory. To fetch lines back that are on their way there takes longest, but nothing waits for these."""
    none, plane = ints[0], ints[2]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        fill(at(gx, tasks[t, 0] * plane), (tasks[t, 1] - tasks[t, 0]) * plane, 0)
        cell = tasks[t, 0] * heads.size * row_bases.size * column_bases.size
        for outer in range(tasks[t, 0], tasks[t, 1]):
            for head in heads:
                for row in row_bases:
                    target = at(gx, outer * plane + head + row)
                    for column in column_bases:
                        if codes[cell] != none:
                            target[column + offsets[codes[cell]]] += gy[cell]
                        cell += 1
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def index_winners(codes, indices, ints, offsets, heads, row_bases, column_bases, tasks, counter, crew, turn):
    """indices = the winner's place in its plane, and -1 where there is none."""
    none, inner, checked = ints[0], ints[1], ints[2] != 0
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        cell = tasks[t, 0] * heads.size * row_bases.size * column_bases.size * inner
        for _ in range(tasks[t, 0], tasks[t, 1]):
            for head in heads:
                for row in row_bases:
                    if inner == 1 and not checked:
                        own, found = at(codes, cell), at(indices, cell)
                        for c in range(column_bases.size):
                            found[c] = head + row + column_bases[c] + offsets[own[c]]
                        cell += column_bases.size
                        continue
                    for column in column_bases:
                        own, found, base = at(codes, cell), at(indices, cell), head + row + column
                        if checked:
                            for i in range(inner):
                                found[i] = -1 if own[i] == none else base + offsets[own[i]]
                        else:
                            for i in range(inner):
                                found[i] = base + offsets[own[i]]
                        cell += inner
        t = take(counter)
    disband(counter, crew, turn, False)
