"""Cells that lie apart are brought together."""

from __future__ import annotations

from .access import at, dealt2, get, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, take
from .rows import copy, transpose_part


@inline
def gather_row(source, step, target, n):
    """target = n cells that are `step` apart."""
    width = lanes(target)
    if step == 1:
        copy(target, n, source)
    elif step == 2 and n > width:
        for i in range(0, n - width, width):
            evens, _ = dealt2(source, 2 * i)
            put(target, i, evens)
        _, odds = dealt2(source, 2 * (n - width) - 1)  # so that nothing is read after the last cell
        put(target, n - width, odds)
    else:
        for i in range(n):
            target[i] = source[i * step]


@inline
def gather_wide(source, row_step, target, columns, first, last):
    """Rows that are shorter than a vector, each as one, of which the next ones overwrite what is too much; up to the row that is returned, from which on this
    would be read or written beyond the last one."""
    width = lanes(target)
    end = max(last - width // columns, first) if columns < width and row_step >= columns else first
    for row in range(first, end):
        put(target, row * columns, get(source, row * row_step))
    return end


@compiled
def gather_cells(x, y, ints, bases, tasks, counter, crew, turn):
    """y = the cells of x, as bits: planes that begin at `bases`, of rows and columns that are some steps apart. Tasks are ranges of planes and of rows."""
    rows, columns, row_step, step = ints[0], ints[1], ints[2], ints[3]
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        first, last = tasks[t, 2], tasks[t, 3]
        for plane in range(tasks[t, 0], tasks[t, 1]):
            source, target = at(x, bases[plane]), at(y, plane * rows * columns)
            if row_step == 1 and step != 1:
                transpose_part(at(source, first), step, columns, last - first, at(target, first * columns), columns)
            else:
                wide = gather_wide(source, row_step, target, columns, first, last) if step == 1 else first
                for row in range(wide, last):
                    gather_row(at(source, row * row_step), step, at(target, row * columns), columns)
        t = take(counter)
    return disband(counter, crew, turn, False)
