"""Where cotangents land: the sum of each into the cell that won its window, in windows that may share their winners.

The place of a winner is a sum over the digits of its code, which are the taps of the axes: place = base + code·a + Σ (code div d)·b, by vectors, a
division being the upper part of a product. Cells are then added one by one, so everything else is done before, to leave the time to that. A sum must
not wait for the one before it to reach memory, and neighbouring windows often share their winner: so two planes are filled side by side
where they are small, or four. The order is fixed, whatever the number of threads.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .access import at, get, get_with, lanes, put
from .compiling import compiled, inline
from .crew import disband, enlist, part_of, take
from .machine import X86
from .rows import fill
from .vectors import Vector, cut, splat


@intrinsic
def as_those(typingctx, numbers, other):
    """A vector of small unsigned integers in the type of another's cells."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(other)
        size, wanted = args[0].type.element.width, kind.element.width
        return args[0] if size == wanted else (builder.zext if size < wanted else builder.trunc)(args[0], kind)

    return Vector(other.dtype, numbers.lanes)(numbers, other), codegen


@intrinsic
def upper_half(typingctx, a, b):
    """The upper halves of the products of unsigned integers."""

    def codegen(context, builder, signature, args):
        bits, lanes = a.dtype.bitwidth, a.lanes
        whole = ir.VectorType(ir.IntType(2 * bits), lanes)
        product = builder.mul(*(builder.zext(arg, whole) for arg in args))
        return builder.trunc(builder.lshr(product, ir.Constant(whole, [bits] * lanes)), args[0].type)

    return a(a, a), codegen


@intrinsic
def shifted(typingctx, a, by):
    """Unsigned integers without so many of their lowest bits."""

    def codegen(context, builder, signature, args):
        return builder.lshr(*args)

    return a(a, a), codegen


@intrinsic
def four(typingctx, places, i):
    """Four places from the i-th on, fetched by as few instructions as there are words of 64 bits."""
    bits = places.dtype.bitwidth

    def codegen(context, builder, signature, args):
        word, found = ir.IntType(64), []
        start = builder.bitcast(builder.gep(args[0], [args[1]]), word.as_pointer())
        for turn in range(bits // 16):
            loaded = builder.load(builder.gep(start, [word(turn)]))
            loaded.align = bits // 8
            for low in range(0, 64, bits):
                found.append(builder.and_(builder.lshr(loaded, word(low)), word((1 << bits) - 1)))
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.intp, 4)(places, types.intp), codegen


@intrinsic
def four_cells(typingctx, cells, i):
    """Four cells from the i-th on: by one access to memory, where one by one they would wait for those of the sums; x86 adds them from memory."""

    def codegen(context, builder, signature, args):
        start, numbers = builder.gep(args[0], [args[1]]), ir.IntType(32)
        if X86:
            found = [builder.load(builder.gep(start, [numbers(turn)])) for turn in range(4)]
        else:
            kind = ir.VectorType(context.get_value_type(cells.dtype), 4)
            loaded = builder.load(builder.bitcast(start, kind.as_pointer()))
            loaded.align = cells.dtype.bitwidth // 8
            found = [builder.extract_element(loaded, numbers(turn)) for turn in range(4)]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(cells.dtype, 4)(cells, types.intp), codegen


@inline
def locate(places, codes, bases, n, terms, bits):
    """places = where winners lie, of n windows with these bases; n is a vector's worth at least. A division takes the bits of a product from this one on; where
    that is 0, it takes the upper half of one that is twice as wide."""
    step, like = lanes(places), get(bases, 0)
    if bits > 0:  # then a is 1
        m, b, by = splat(terms[1], like), splat(terms[2], like), splat(cut(bits, places), like)
        for start in range(0, n, step):
            i = min(start, n - step)
            code = as_those(get_with(codes, i, like), like)
            place = get(bases, i) + code + shifted(code * m, by) * b
            for t in range(3, terms.size, 2):
                place = place + shifted(code * splat(terms[t], like), by) * splat(terms[t + 1], like)
            put(places, i, place)
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        code = as_those(get_with(codes, i, like), like)
        place = get(bases, i) + code * splat(terms[0], like)
        for t in range(1, terms.size, 2):
            place = place + upper_half(code, splat(terms[t], like)) * splat(terms[t + 1], like)
        put(places, i, place)


@inline
def add(target, places, arriving, n):
    """target[places[i]] += arriving[i], one after the other."""
    for i in range(0, n - 3, 4):
        p, q, r, s = four(places, i)
        to_p, to_q, to_r, to_s = four_cells(arriving, i)
        target[p] += to_p
        target[q] += to_q
        target[r] += to_r
        target[s] += to_s
    for i in range(n - n % 4, n):
        target[places[i]] += arriving[i]


@inline
def add_to_both(target, other, places, others_places, arriving, others, n):
    """As `add`, of two planes: both are read before one is written, which for all that is known here could be any cell."""
    for i in range(0, n - 3, 4):
        p, q, r, s = four(places, i)
        others_p, others_q, others_r, others_s = four(others_places, i)
        to_p, to_q, to_r, to_s = four_cells(arriving, i)
        to_others_p, to_others_q, to_others_r, to_others_s = four_cells(others, i)
        here, there = target[p] + to_p, other[others_p] + to_others_p
        target[p], other[others_p] = here, there
        here, there = target[q] + to_q, other[others_q] + to_others_q
        target[q], other[others_q] = here, there
        here, there = target[r] + to_r, other[others_r] + to_others_r
        target[r], other[others_r] = here, there
        here, there = target[s] + to_s, other[others_s] + to_others_s
        target[s], other[others_s] = here, there
    for i in range(n - n % 4, n):
        target[places[i]] += arriving[i]
        other[others_places[i]] += others[i]


@inline
def add_to_four(target, plane, places, room, arriving, cells, n):
    """As `add`, of four planes."""
    second, third, fourth = at(target, plane), at(target, 2 * plane), at(target, 3 * plane)
    for i in range(n):
        p, q, r, s = places[i], places[room + i], places[2 * room + i], places[3 * room + i]
        a, b = target[p] + arriving[i], second[q] + arriving[cells + i]
        c, d = third[r] + arriving[2 * cells + i], fourth[s] + arriving[3 * cells + i]
        target[p], second[q], third[r], fourth[s] = a, b, c, d


@compiled
def land(gy, codes, gx, ints, terms, bases, chunks, tasks, counter, rooms, crew, turn):
    """gx = at each cell the sum of the cotangents of the windows that it won, of up to 1, 2 or 4 planes at a time.

    A chunk is some neighbouring windows of a plane: the first, how many, the cell from which their places are counted, where their bases
    begin, and up to which cell the plane is cleared before.
    """
    plane, cells, room, most, bits = ints[0], ints[1], ints[2], ints[3], ints[4]
    places, others_places = part_of(rooms, turn), at(part_of(rooms, turn), room)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        outer, stop = tasks[t, 0], tasks[t, 1]
        while outer < stop:
            beside, cleared = most, 0
            while beside > stop - outer:
                beside //= 2
            for chunk in range(len(chunks)):
                told = at(chunks, 5 * chunk)
                first, n, edge = told[0], told[1], told[4]
                own, target = at(bases, told[3]), at(gx, outer * plane + told[2])
                here, arriving = at(codes, outer * cells + first), at(gy, outer * cells + first)
                fill(at(gx, outer * plane + cleared), edge - cleared, 0)
                locate(places, here, own, n, terms, bits)
                for other in range(1, beside):  # one loop for all planes made sums wait a tenth longer
                    fill(at(gx, (outer + other) * plane + cleared), edge - cleared, 0)
                    locate(at(places, other * room), at(here, other * cells), own, n, terms, bits)
                if beside == 4:
                    add_to_four(target, plane, places, room, arriving, cells, n)
                elif beside == 2:
                    add_to_both(target, at(target, plane), places, others_places, arriving, at(arriving, cells), n)
                else:
                    add(target, places, arriving, n)
                cleared = edge
            outer += beside
        t = take(counter)
    disband(counter, crew, turn, False)
