"""Tied maxima, one axis at a time, over (outer, n, inner) arrays.

A cell ties with a window's maximum exactly if it ties with the maximum of its line and that line's maximum with the window's; so
counts, tangents and cotangents of tied cells go along the same chain as the maximum. Tables `first` and `count` say which cells,
`step` apart, an output reads.
"""

from __future__ import annotations

from .access import at
from .compiling import compiled, inline
from .vectors import greater


@inline
def ties(a, b):
    return a == b or (a != a and b != b)


@compiled
def max_pass(z, out, ints, first, count, start, stop):
    """out[o] = the greatest z[i]; a NaN if one is there."""
    n, m, inner, step = ints[0], ints[1], ints[2], ints[3]
    for outer in range(start, stop):
        for o in range(m):
            best, line = at(out, (outer * m + o) * inner), at(z, (outer * n + first[o]) * inner)
            if count[o] > 0:
                if inner == 1:
                    most = line[0]
                    for j in range(1, count[o]):
                        most = greater(most, line[j * step])
                    best[0] = most
                else:
                    for e in range(inner):
                        best[e] = line[e]
                    for j in range(1, count[o]):
                        later = at(line, j * step * inner)
                        for e in range(inner):
                            best[e] = greater(best[e], later[e])


@compiled
def tie_push(z, out, a, pushed, ints, first, count, start, stop):
    """pushed[o] = Σ a[i] over the cells i that tie with the maximum of window o (a = None counts them)."""
    n, m, inner, step = ints[0], ints[1], ints[2], ints[3]
    for outer in range(start, stop):
        for o in range(m):
            here = (outer * m + o) * inner
            best, total = at(out, here), at(pushed, here)
            for e in range(inner):
                total[e] = 0
            for j in range(count[o]):
                cell = (outer * n + first[o] + j * step) * inner
                line = at(z, cell)
                if a is None:
                    for e in range(inner):
                        if ties(line[e], best[e]):
                            total[e] += 1
                else:
                    moved = at(a, cell)
                    for e in range(inner):
                        if ties(line[e], best[e]):
                            total[e] += moved[e]


@compiled
def tie_pull(z, out, arriving, pulled, ints, first, count, start, stop):
    """pulled[i] = Σ arriving[o] over the windows o with whose maximum cell i ties."""
    n, m, inner, step = ints[0], ints[1], ints[2], ints[3]
    for outer in range(start, stop):
        plane = at(pulled, outer * n * inner)
        for i in range(n * inner):
            plane[i] = 0
        for o in range(m):
            here = (outer * m + o) * inner
            best, g = at(out, here), at(arriving, here)
            for j in range(count[o]):
                cell = (first[o] + j * step) * inner
                line, target = at(z, outer * n * inner + cell), at(plane, cell)
                for e in range(inner):
                    if ties(line[e], best[e]):
                        target[e] += g[e]
