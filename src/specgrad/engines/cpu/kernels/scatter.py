"""What winners are for: tangents, cotangents and flat indices.

A winner's cell is base(window) + offsets[code]; a table per axis gives the bases. Each input plane is filled, in the cache, by the
windows that won there, in one fixed order whatever the number of threads; the code `none` has no cell.
"""

from __future__ import annotations

from .rows import at, compiled, fill, place, settle, widen


@compiled
def gather_winners(dx, codes, dy, ints, offsets, heads, row_bases, column_bases, start, stop):
    """dy = the tangent of each window's winner, and 0 where there is none."""
    none, inner, plane = ints[0], ints[1], ints[2]
    cell = start * heads.size * row_bases.size * column_bases.size * inner
    for outer in range(start, stop):
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


@compiled
def scatter_winners(gy, codes, gx, sample, ints, offsets, heads, row_bases, column_bases, start, stop, scratch):
    """gx = at each cell the sum of the cotangents of the windows that it won."""
    none, inner, plane, reach, half = ints[0], ints[1], ints[2], ints[3], ints[4]
    columns = column_bases.size
    cell = start * heads.size * row_bases.size * columns * inner
    for outer in range(start, stop):
        target = place(gx, outer * plane, scratch)
        cleared = 0
        for head in heads:
            for row in row_bases:
                edge = min(plane, head + row + reach)
                if edge > cleared:
                    fill(at(target, cleared), edge - cleared, 0)
                    cleared = edge
                own, arriving = at(codes, cell), at(gy, cell)
                base = at(target, head + row)
                if inner == 1:
                    for c in range(columns):
                        code = own[c]
                        if code != none:
                            base[column_bases[c] + offsets[code]] += widen(arriving[c], half, sample)
                else:
                    for c in range(columns):
                        for i in range(inner):
                            code = own[c * inner + i]
                            if code != none:
                                won = column_bases[c] + offsets[code] + i
                                base[won] += widen(arriving[c * inner + i], half, sample)
                cell += columns * inner
        fill(at(target, cleared), plane - cleared, 0)
        settle(target, plane, half, gx, outer * plane)


@compiled
def index_winners(codes, indices, ints, offsets, heads, row_bases, column_bases, start, stop):
    """indices = the winner's place in its plane, and -1 where there is none."""
    none, inner = ints[0], ints[1]
    cell = start * heads.size * row_bases.size * column_bases.size * inner
    for _ in range(start, stop):
        for head in heads:
            for row in row_bases:
                for column in column_bases:
                    for _i in range(inner):
                        code = codes[cell]
                        if code == none:
                            indices[cell] = -1
                        else:
                            indices[cell] = head + row + column + offsets[code]
                        cell += 1
