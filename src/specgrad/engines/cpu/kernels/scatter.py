"""What winners are for: tangents, cotangents and flat indices.

A winner's cell is base(window) + offsets[code]; a table per axis gives the bases. Each input plane is filled, in the cache, by the
windows that won there, in one fixed order whatever the number of threads; the code `none` has no cell. Most cotangents go another way (`landing`).
"""

from __future__ import annotations

from .access import at
from .compiling import compiled
from .crew import disband, enlist, part_of, take
from .halves import rounded, widen
from .rows import copy, fill


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


@compiled
def scatter_winners(gy, codes, gx, ints, offsets, heads, row_bases, column_bases, tasks, counter, rooms, crew, turn):
    """gx = at each cell the sum of the cotangents of the windows that it won; `apart`: a plane is filled in scratch first."""
    none, inner, plane, reach, apart = ints[0], ints[1], ints[2], ints[3], ints[4] != 0
    columns, scratch = column_bases.size, part_of(rooms, turn)
    cells = heads.size * row_bases.size * columns * inner
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        for outer in range(tasks[t, 0], tasks[t, 1]):
            target, cleared = at(scratch, 0) if apart else at(gx, outer * plane), 0
            cell = outer * cells
            for head in heads:
                for row in row_bases:
                    edge = max(min(plane, head + row + reach), cleared)
                    fill(at(target, cleared), edge - cleared, 0)
                    cleared = edge
                    own, arriving, base = at(codes, cell), at(gy, cell), at(target, head + row)
                    if inner == 1:
                        for c in range(columns):
                            if own[c] != none:
                                base[column_bases[c] + offsets[own[c]]] += arriving[c]
                    else:
                        for c in range(columns):
                            for i in range(c * inner, (c + 1) * inner):
                                if own[i] != none:
                                    won = column_bases[c] + offsets[own[i]] + i - c * inner
                                    base[won] += arriving[i]
                    cell += columns * inner
            fill(at(target, cleared), plane - cleared, 0)
            if apart:
                copy(at(gx, outer * plane), plane, target)
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
def sow_halves(
    gy, codes, gx, half, ints, offsets, heads, row_bases, column_bases, tasks, counter, rooms, lists, crew, turn
):
    """As `sow_winners`, of half floats, which are added up apart and rounded once. Of what is apart only winners are ever cleared."""
    none, inner, plane = ints[0], ints[1], ints[2]
    sums, places, columns = part_of(rooms, turn), part_of(lists, turn), column_bases.size
    cells = heads.size * row_bases.size * columns * inner
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        fill(at(gx, tasks[t, 0] * plane), (tasks[t, 1] - tasks[t, 0]) * plane, 0)
        for outer in range(tasks[t, 0], tasks[t, 1]):
            own, arriving, target, cell = at(codes, outer * cells), at(gy, outer * cells), at(gx, outer * plane), 0
            for head in heads:
                for row in row_bases:
                    for column in column_bases:
                        for i in range(inner):
                            # beyond the plane is room for those that have no winner
                            lost = own[cell] == none
                            place = plane if lost else head + row + column + offsets[own[cell]] + i
                            sums[place] = 0
                            places[cell] = place
                            cell += 1
            for cell in range(cells):
                sums[places[cell]] += widen(arriving[cell], half)
            for cell in range(cells):
                if places[cell] < plane:
                    target[places[cell]] = rounded(sums[places[cell]], half)
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
