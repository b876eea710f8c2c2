"""Rows: what every kernel does with one contiguous run of cells, each in loops that a compiler turns into vector instructions.

Rows are pointers with a length. Nothing here knows geometry beyond one row.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .access import ask_for, at, call_shared, dealt2, dealt3, dealt4, fetch, get, lanes, put, transpose4
from .compiling import PART, inline
from .vectors import BITS, Vector, combine, combined, evens, odds


def row_at(flat, offset, ring, row, slots, n, staged):
    """A row where it lies or, if it is staged, its copy in a ring of so many slots of n cells."""
    raise NotImplementedError


@overload(row_at, strict=False, jit_options=PART)
def _row_at(flat, offset, ring, row, slots, n, staged):
    if isinstance(staged, types.NoneType):
        return lambda flat, offset, ring, row, slots, n, staged: at(flat, offset)
    return lambda flat, offset, ring, row, slots, n, staged: at(ring, row % slots * n)


@inline
def fill(target, n, number):
    for i in range(n):
        target[i] = number


def _folded(builder, kind, maximum, cells):
    """The fold of some LLVM values of a type, pair by pair."""
    while len(cells) > 1:
        pairs = [combined(builder, kind, maximum, a, b) for a, b in zip(cells[::2], cells[1::2], strict=False)]
        cells = pairs + cells[len(pairs) * 2 :]
    return cells[0]


def _fold(target, rows, maximum, in_place=False, inlined=False, ahead=None):
    """The signature and the code of a loop target[i] = fold of row[i], by vectors; what lies so many cells `ahead` is asked for, if that is a number.

    Written in LLVM's own terms, as one function of the kernel that all its folds of this kind call, unless it is `inlined`: loops are what
    takes long to compile, and rows are long enough for calls.
    """
    vector = Vector(target.dtype, BITS // target.dtype.bitwidth)
    asks = isinstance(ahead, types.Integer)

    def write_loop(context, builder, to, count, *sources):
        if asks:
            *sources, beyond = sources
            fetched = list(sources)
        sources = [to, *sources] if in_place else sources
        index, step = count.type, count.type(vector.lanes)

        def one(kind, i):
            pointer = context.get_value_type(kind).as_pointer()

            def place(row):
                return builder.bitcast(builder.gep(row, [i]), pointer)

            loaded = [builder.load(place(row)) for row in sources]
            for value in loaded:
                value.align = target.dtype.bitwidth // 8
            return _folded(builder, kind, maximum, loaded), place(to)

        def write(value, place):
            builder.store(value, place).align = target.dtype.bitwidth // 8

        with builder.if_else(builder.icmp_signed("<", count, step)) as (short, long):
            with short, cgutils.for_range(builder, count) as loop:
                write(*one(target.dtype, loop.index))
            with long:
                last = builder.sub(count, step)
                # in place, before the vector before it writes some of these cells; else when what the row was made of has left the store buffer
                end = one(vector, last) if in_place else None
                with cgutils.for_range_slice(builder, index(0), last, step, index) as (i, _):
                    if asks:
                        for row in fetched:
                            ask_for(builder, builder.gep(row, [builder.add(i, beyond)]))
                    write(*one(vector, i))
                write(*(end or one(vector, last)))

    def codegen(context, builder, signature, args):
        args = args[: 2 + len(rows) + asks]
        if inlined:
            write_loop(context, builder, *args)
            return context.get_dummy_value()
        name = f"specgrad.fold.{target.dtype}.{maximum}.{len(rows)}.{in_place}.{asks}"
        call_shared(builder, name, args, lambda own, *given: write_loop(context, own, *given))
        return context.get_dummy_value()

    return types.void(target, types.intp, *rows, *([] if ahead is None else [ahead]), maximum), codegen


@intrinsic
def copy(typingctx, target, n, a):
    """target = a."""
    signature, codegen = _fold(target, (a,), types.none)
    return types.void(*signature.args[:-1]), codegen


@intrinsic
def fold2(typingctx, target, n, a, b, maximum):
    """target = a and b."""
    return _fold(target, (a, b), maximum)


@intrinsic
def fold3(typingctx, target, n, a, b, c, maximum):
    """target = a, b and c."""
    return _fold(target, (a, b, c), maximum)


@intrinsic
def fold4(typingctx, target, n, a, b, c, d, maximum):
    """target = a, b, c and d."""
    return _fold(target, (a, b, c, d), maximum)


@intrinsic
def fold5(typingctx, target, n, a, b, c, d, e, ahead, maximum):
    """target = a, b, c, d and e."""
    return _fold(target, (a, b, c, d, e), maximum, ahead=ahead)


@intrinsic
def into2(typingctx, target, n, a, maximum):
    """target = target and a."""
    return _fold(target, (a,), maximum, in_place=True)


@intrinsic
def into3(typingctx, target, n, a, b, maximum):
    """target = target, a and b."""
    return _fold(target, (a, b), maximum, in_place=True)


@intrinsic
def into4(typingctx, target, n, a, b, c, maximum):
    """target = target, a, b and c."""
    return _fold(target, (a, b, c), maximum, in_place=True)


@intrinsic
def into5(typingctx, target, n, a, b, c, d, ahead, maximum):
    """target = target, a, b, c and d, in a loop of its own: tall windows spend their time here."""
    return _fold(target, (a, b, c, d), maximum, in_place=True, inlined=True, ahead=ahead)


@inline
def fold_rows(target, n, first, apart, count, ahead, maximum):
    """target = the fold of `count` rows that lie `apart` cells from one another; few at a time, so that they stay at hand. Unless `ahead` is None,
    rows that are so many cells away are asked for."""
    if count == 1:
        copy(target, n, first)
    elif count == 2:
        fold2(target, n, first, at(first, apart), maximum)
    else:
        second, third = at(first, apart), at(first, 2 * apart)
        if count < 5:
            fold3(target, n, first, second, third, maximum)
            done = 3
        else:
            fold5(target, n, first, second, third, at(first, 3 * apart), at(first, 4 * apart), ahead, maximum)
            done = 5
        while done + 4 <= count:
            a = at(first, done * apart)
            b, c, d = at(a, apart), at(a, 2 * apart), at(a, 3 * apart)
            into5(target, n, a, b, c, d, ahead, maximum)
            done += 4
        if done + 2 <= count:
            into3(target, n, at(first, done * apart), at(first, (done + 1) * apart), maximum)
            done += 2
        if done < count:
            into2(target, n, at(first, done * apart), maximum)


@inline
def fold_pairs(target, n, source, maximum):
    """target[i] = source[2i] and source[2i + 1]; target may be source."""
    step, done = lanes(target), 0
    for i in range(0, n - step + 1, step):
        a, b = get(source, 2 * i), get(source, 2 * i + step)
        put(target, i, combine(evens(a, b), odds(a, b), maximum))
        done = i + step
    for i in range(done, n):
        target[i] = combine(source[2 * i], source[2 * i + 1], maximum)


@inline
def fold_dealt(target, n, source, stride, maximum):
    """target[i] = the fold of the cells from source[i*stride] to the next, of which there are 2, 3 or 4."""
    step = lanes(target)
    if n < step:
        for i in range(n):
            total = source[i * stride]
            for j in range(1, stride):
                total = combine(total, source[i * stride + j], maximum)
            target[i] = total
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        if stride == 2:
            a, b = dealt2(source, 2 * i)
            put(target, i, combine(a, b, maximum))
        elif stride == 3:
            a, b, c = dealt3(source, 3 * i)
            put(target, i, combine(combine(a, b, maximum), c, maximum))
        else:
            a, b, c, d = dealt4(source, 4 * i)
            put(target, i, combine(combine(a, b, maximum), combine(c, d, maximum), maximum))


@inline
def slide(source, pitch, rows, spare, room, target, there, n, taps, shift, maximum):
    """target[i] = fold over j < taps of source[i + j*shift], for i < n, of some rows that lie `pitch` cells from one another, and `there` where they go; `spare`
    has room for two times as many cells as they take up, `room`."""
    if taps > 7:
        slide_by_fours(source, pitch, rows, spare, room, target, there, n, taps, shift, maximum)
        return
    for row in range(rows):
        cells, to = at(source, row * pitch), at(target, row * there)
        a, b, c, d = at(cells, shift), at(cells, 2 * shift), at(cells, 3 * shift), at(cells, 4 * shift)
        if taps == 1:
            copy(to, n, cells)
        elif taps == 2:
            fold2(to, n, cells, a, maximum)
        elif taps <= 4:
            fold3(to, n, cells, a, b, maximum)
            if taps == 4:
                into2(to, n, c, maximum)
        else:
            fold5(to, n, cells, a, b, c, d, None, maximum)
            if taps == 6:
                into2(to, n, at(cells, 5 * shift), maximum)
            elif taps == 7:
                into3(to, n, at(cells, 5 * shift), at(cells, 6 * shift), maximum)


@inline
def slide_by_fours(source, pitch, rows, spare, room, target, there, n, taps, shift, maximum):
    """As `slide`, by runs of 1, 4, 16, … taps: a sum adds the runs that make up `taps`, a maximum lets the last two overlap."""
    done, run, half, end = 0, 1, 0, (rows - 1) * pitch + n
    current = source
    while True:
        if maximum is None:
            digit = taps // run % 4
            for row in range(rows):
                to, first = at(target, row * there), at(current, done * shift + row * pitch)
                second, third = at(first, run * shift), at(first, 2 * run * shift)
                if digit == 1 and done == 0:
                    copy(to, n, first)
                elif digit == 1:
                    into2(to, n, first, maximum)
                elif digit == 2 and done == 0:
                    fold2(to, n, first, second, maximum)
                elif digit == 2:
                    into3(to, n, first, second, maximum)
                elif digit == 3 and done == 0:
                    fold3(to, n, first, second, third, maximum)
                elif digit == 3:
                    into4(to, n, first, second, third, maximum)
            done += digit * run
        if 4 * run >= taps + (maximum is None):
            break
        a, b, c = at(current, run * shift), at(current, 2 * run * shift), at(current, 3 * run * shift)
        longer = at(spare, half * room)
        fold4(longer, end + (taps - 4 * run) * shift, current, a, b, c, maximum)
        current, half, run = longer, 1 - half, 4 * run
    if maximum is not None:
        for row in range(rows):
            to, first = at(target, row * there), at(current, row * pitch)
            second, last = at(first, run * shift), at(first, (taps - run) * shift)
            if taps <= 2 * run:
                fold2(to, n, first, last, maximum)
            elif taps <= 3 * run:
                fold3(to, n, first, second, last, maximum)
            else:
                fold4(to, n, first, second, at(first, 2 * run * shift), last, maximum)


@inline
def transpose(source, rows, columns, target):
    """target[column, row] = source[row, column]; one of the numbers of rows and columns is a multiple of four, as is every vector's."""
    transpose_part(source, columns, rows, columns, target, rows)


@inline
def transpose_part(source, width, rows, columns, target, height):
    """As `transpose`, of the first rows and columns of what is `width` cells wide, into what has room for `height` rows."""
    # along the longer side, so that few places are read and written in turn
    along, across, step, there, step_along, there_along = columns, rows, width, 1, 1, height
    if rows > columns:
        along, across, step, there, step_along, there_along = rows, columns, 1, height, width, 1
    for a in range(0, across - 3, 4):
        for b in range(0, along - 3, 4):
            transpose4(at(source, a * step + b * step_along), width, at(target, a * there + b * there_along), height)
    for row in range(rows):
        start = 0 if row >= rows // 4 * 4 else columns // 4 * 4
        for column in range(start, columns):
            target[column * height + row] = source[row * width + column]


@inline
def fetch_cells(cells, first, n):
    """Ask for n cells from the first on, a line at a time, which may lie beyond their array."""
    for i in range(first, first + n, lanes(cells)):
        fetch(cells, i)


@inline
def read(source, step, inner, inner_step, target, n):
    """target = n cells of `source`: runs of `inner` cells `inner_step` apart, the runs `step` apart."""
    if inner == 1:
        for i in range(n):
            target[i] = source[i * step]
    else:
        for run in range(n // inner):
            cells, part = at(source, run * step), at(target, run * inner)
            for i in range(inner):
                part[i] = cells[i * inner_step]


@inline
def lay_out(target, room, left, cells, n, stride):
    """target = `stride` lines of `room` cells: line q has the cells q, q + stride, … from place `left` on."""
    if stride == 1:
        copy(at(target, left), n, cells)
        return
    block, first = stride * lanes(target), at(target, left)
    done = n // stride * stride if stride <= 4 and n >= block else 0
    for start in range(0, done, block):
        i = min(start, done - block)
        to = at(first, i // stride)
        if stride == 2:
            a, b = dealt2(cells, i)
            put(to, 0, a)
            put(to, room, b)
        elif stride == 3:
            a, b, c = dealt3(cells, i)
            put(to, 0, a)
            put(to, room, b)
            put(to, 2 * room, c)
        else:
            a, b, c, d = dealt4(cells, i)
            put(to, 0, a)
            put(to, room, b)
            put(to, 2 * room, c)
            put(to, 3 * room, d)
    for q in range(stride):
        own, source = at(first, q * room), at(cells, q)
        for i in range(done // stride, (n - q + stride - 1) // stride):
            own[i] = source[i * stride]
