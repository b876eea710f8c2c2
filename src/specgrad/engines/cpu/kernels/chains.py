"""Smooth maxima of all axes, some planes at a time, so that pairs stay in the cache: the passes of `smooth`, last axis first, and back.

A row of `passes` has the integers of a pass (n, m, inner, taps, stride, before, dilation, room, left, after how many lines those that are read
repeat, and those of rows that its lines are folded along with), then how many lines, cells and windows a plane has, where its part of `zeros`,
`mass` and `read` begins, and where in the scratch its extremes and its totals are, or its tangents or cotangents. The first pass, alone
without totals, is over `lines` or over rows (None); `more` is None if it is the only one, and then the others are not compiled.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic, overload

from .access import at
from .compiling import PART, compiled, inline
from .crew import disband, enlist, part_of, take
from .planes import bring_together, take_apart
from .smooth import fold_lines, fold_rows, move_lines, move_rows, smooth_value
from .stations import CELLS, EXTREMES, LINES, MASS, READ, ROWS, SUMS, WIDTH, WINDOWS, ZEROS


@intrinsic
def cells_from(typingctx, address, like):
    """A pointer to cells, as those of an array are, from an address on."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.intp, like), codegen


@inline
def settle_empty(extremes, sums, empty, lines, windows, inner, numbers):
    """Let windows without any tap weigh something all the same, so that no weight is 0/0."""
    for line in range(lines):
        for window in empty:
            for i in range(inner):
                extremes[(line * windows + window) * inner + i] = numbers[3]
                sums[(line * windows + window) * inner + i] = numbers[4]


def fold_first(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places, lines):
    """The first pass of a fold, whose cells have no totals."""
    raise NotImplementedError


@overload(fold_first, strict=False, jit_options=PART)
def _fold_first(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places, lines):
    def of_rows(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places, lines):
        fold_rows(z, None, extremes, sums, numbers, ints, zeros, mass, count, scratch, places)

    def of_lines(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places, lines):
        fold_lines(z, extremes, sums, numbers, ints, zeros, mass, count, scratch, places)

    return of_rows if isinstance(lines, types.NoneType) else of_lines


def move_first(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places, lines):
    """The pass of a move at which cells have no totals."""
    raise NotImplementedError


@overload(move_first, strict=False, jit_options=PART)
def _move_first(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places, lines):
    def of_rows(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places, lines):
        move_rows(z, None, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places)

    def of_lines(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places, lines):
        move_lines(z, extremes, sums, moved, result, pushes, last, read, numbers, ints, count, scratch, places)

    return of_rows if isinstance(lines, types.NoneType) else of_lines


@compiled
def fold_chain(
    z, y, kept, lines, more, together, numbers, sizes, passes, zeros, mass, starts, empty, tasks, counter, rooms, lists,
    crew, turn,
):  # fmt: skip
    """y = the smooth maxima, if it has cells; the pairs after each pass go to where `kept` says, or if it is empty nowhere.

    `together`: how many planes are walked as one block, or None; `sizes`: how many planes there are, with how many cells and windows, and where in the scratch
    blocks of cells, blocks that are moved, and the lines of a pass are; `empty`: the windows without a tap, of each pass from its `starts` on.
    """
    scratch, places = part_of(rooms, turn), part_of(lists, turn)
    planes, cells, windows, blocks, own = sizes[0], sizes[1], sizes[2], at(scratch, sizes[3]), at(scratch, sizes[5])
    turns, ints = passes.size // WIDTH, at(passes, 0)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 0], tasks[t, 1]
        if together is None:
            extremes = at(z, start * cells)
        else:
            extremes = blocks
            bring_together(z, blocks, start, stop, planes, cells, together)
        sums = extremes
        for p in range(turns):
            ints = at(passes, p * WIDTH)
            count = (stop - start) * ints[LINES]
            to_extremes, to_sums = at(scratch, ints[EXTREMES]), at(scratch, ints[SUMS])
            if kept.size > 0:
                to_extremes = at(cells_from(kept[2 * p], z), start * ints[WINDOWS])
                to_sums = at(cells_from(kept[2 * p + 1], z), start * ints[WINDOWS])
            beside, weights = at(zeros, ints[ZEROS]), at(mass, ints[MASS])
            if more is not None and p > 0:
                fold_rows(extremes, sums, to_extremes, to_sums, numbers, ints, beside, weights, count, own, places)
            else:
                fold_first(extremes, to_extremes, to_sums, numbers, ints, beside, weights, count, own, places, lines)
            without = empty[starts[p] : starts[p + 1]]
            settle_empty(to_extremes, to_sums, without, count, ints[1] * ints[ROWS + 1], ints[2], numbers)
            extremes, sums = to_extremes, to_sums
        if y.size > 0:
            n = (stop - start) * ints[WINDOWS]
            if together is None:
                smooth_value(extremes, sums, at(y, start * windows), numbers, n)
            else:
                smooth_value(extremes, sums, blocks, numbers, n)
                take_apart(blocks, y, start, stop, planes, windows, together)
        t = take(counter)
    disband(counter, crew, turn, False)


@compiled
def move_chain(
    z, moved, result, kept, pushes, lines, more, together, numbers, sizes, passes, read, tasks, counter, rooms, lists,
    crew, turn,
):  # fmt: skip
    """result = cotangents of the cells or, if it `pushes` (not None), tangents of the windows: `moved` times the weights along the chain."""
    scratch, places = part_of(rooms, turn), part_of(lists, turn)
    planes, cells, windows, own = sizes[0], sizes[1], sizes[2], at(scratch, sizes[5])
    given, made = (windows, cells) if pushes is None else (cells, windows)
    last = passes.size // WIDTH - 1
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        start, stop = tasks[t, 0], tasks[t, 1]
        if together is None:
            first, arriving = at(z, start * cells), at(moved, start * given)
        else:
            first, arriving = at(scratch, sizes[3]), at(scratch, sizes[4])
            bring_together(z, first, start, stop, planes, cells, together)
            bring_together(moved, arriving, start, stop, planes, given, together)
        for turned in range(last + 1):
            p = last - turned if pushes is None else turned
            ints = at(passes, p * WIDTH)
            count = (stop - start) * ints[LINES]
            extremes = at(cells_from(kept[2 * p], z), start * ints[WINDOWS])
            sums = at(cells_from(kept[2 * p + 1], z), start * ints[WINDOWS])
            target, lines_read = at(scratch, ints[EXTREMES]), at(read, ints[READ])
            if together is None and turned == last:
                target = at(result, start * made)
            if more is not None and p > 0:
                most = at(cells_from(kept[2 * p - 2], z), start * ints[CELLS])
                totals = at(cells_from(kept[2 * p - 1], z), start * ints[CELLS])
                move_rows(
                    most, totals, extremes, sums, arriving, target, pushes, p == last, lines_read, numbers, ints, count, own, places
                )  # fmt: skip
            else:
                move_first(
                    first, extremes, sums, arriving, target, pushes, p == last, lines_read, numbers, ints, count, own, places, lines
                )  # fmt: skip
            arriving = target
        if together is not None:
            take_apart(arriving, result, start, stop, planes, made, together)
        t = take(counter)
    disband(counter, crew, turn, False)
