"""Where cotangents land: the sum of each into the cell that won its window, in windows that may share their winners.

The place of a winner is a sum over the digits of its code, which are the taps of the axes: place = base + code·a + Σ (code div d)·b, by vectors, a
division being the upper half of a product. Cells are then added one by one, so everything else is done before, to leave the time to that. A sum must
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
from .rows import fill
from .vectors import Vector, splat


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


@inline
def locate(places, codes, bases, n, terms):
    """places = where winners lie, of n windows with these bases; n is a vector's worth at least."""
    step = lanes(places)
    for start in range(0, n, step):
        i = min(start, n - step)
        place = get(bases, i)
        code = as_those(get_with(codes, i, place), place)
        place = place + code * splat(terms[0], place)
        for t in range(1, terms.size, 2):
            place = place + upper_half(code, splat(terms[t], place)) * splat(terms[t + 1], place)
        put(places, i, place)


@inline
def add(target, places, arriving, n):
    """target[places[i]] += arriving[i], one after the other."""
    for i in range(0, n - 3, 4):
        a, b, c, d = four(places, i)
        to_a, to_b, to_c, to_d = arriving[i], arriving[i + 1], arriving[i + 2], arriving[i + 3]
        target[a] += to_a
        target[b] += to_b
        target[c] += to_c
        target[d] += to_d
    for i in range(n - n % 4, n):
        target[places[i]] += arriving[i]


@inline
def add_to_both(target, other, places, others_places, arriving, others, n):
    """As `add`, of two planes: both are read before one is written, which for all that is known here could be any cell."""
    for i in range(0, n - 3, 4):
        p, q, r, s = four(places, i)
        others_p, others_q, others_r, others_s = four(others_places, i)
        here, there = target[p] + arriving[i], other[others_p] + others[i]
        target[p], other[others_p] = here, there
        here, there = target[q] + arriving[i + 1], other[others_q] + others[i + 1]
        target[q], other[others_q] = here, there
        here, there = target[r] + arriving[i + 2], other[others_r] + others[i + 2]
        target[r], other[others_r] = here, there
        here, there = target[s] + arriving[i + 3], other[others_s] + others[i + 3]
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
    plane, cells, room, most = ints[0], ints[1], ints[2], ints[3]
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
                locate(places, here, own, n, terms)
                for other in range(1, beside):  # one loop for all planes made sums wait a tenth longer
                    fill(at(gx, (outer + other) * plane + cleared), edge - cleared, 0)
                    locate(at(places, other * room), at(here, other * cells), own, n, terms)
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
