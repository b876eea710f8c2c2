"""Leaders: of cells that follow each other the first maximal one, or the last NaN, and by a code which of them that is.

A later candidate takes the lead when it is strictly greater or, where that is minded (`nans`, else None), NaN; so every function here takes (earlier, later), and runs of
neighbouring candidates may be led by themselves first, and may overlap. Codes are counted in their own type, beyond which they wrap.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .access import at, call_shared, get, get_with, lanes, put
from .compiling import inline
from .vectors import BITS, Vector, ahead, cut, either, leads, like, plus, splat, spread

RUN = 4  # taps that are folded at once, of windows of more


@intrinsic
def lead(typingctx, value, code, n, a, a_code, a_shift, b, b_code, b_shift, nans):
    """value, code = the leaders of n earlier cells a, which they may be themselves, and later cells b, each with its code and a shift."""
    vector, size = Vector(value.dtype, BITS // value.dtype.bitwidth), value.dtype.bitwidth // 8
    minds_nan = not isinstance(nans, types.NoneType)

    def write(context, builder, value_at, code_at, count, a_at, a_code_at, a_shift, b_at, b_code_at, b_shift):
        def one(kind, i):
            kinds = context.get_value_type(kind), context.get_value_type(like(kind, code.dtype))

            def place(row, turn):
                return builder.bitcast(builder.gep(row, [i]), kinds[turn].as_pointer())

            def leader(cells, codes, shift):
                found = [builder.load(place(cells, 0)), builder.load(place(codes, 1))]
                found[0].align, found[1].align = size, 1
                return found[0], builder.add(found[1], spread(builder, shift, kinds[1]))

            earlier, later = leader(a_at, a_code_at, a_shift), leader(b_at, b_code_at, b_shift)
            wins = ahead(builder, kind, later[0], earlier[0], minds_nan)
            builder.store(builder.select(wins, later[0], earlier[0]), place(value_at, 0)).align = size
            builder.store(builder.select(wins, later[1], earlier[1]), place(code_at, 1)).align = 1

        index, step = count.type, count.type(vector.lanes)
        with builder.if_else(builder.icmp_signed("<", count, step)) as (short, long):
            with short, cgutils.for_range(builder, count) as loop:
                one(value.dtype, loop.index)
            with long:
                last = builder.sub(count, step)
                with cgutils.for_range_slice(builder, index(0), last, step, index) as (i, _):
                    one(vector, i)
                one(vector, last)

    def codegen(context, builder, signature, args):
        name = f"specgrad.lead.{value.dtype}.{code.dtype}.{minds_nan}"
        call_shared(builder, name, args[:-1], lambda own, *given: write(context, own, *given))
        return context.get_dummy_value()

    shift = code.dtype
    return types.void(value, code, types.intp, a, a_code, shift, b, b_code, shift, nans), codegen


@inline
def lead_rows(value, codes, n, ring, ring_code, slot, apart, end, rows, shift, more, nans):
    """value, codes = the leaders of so many rows of a ring that ends there, `apart` cells from one another, and their codes: the first row's have a shift, each
    further row's as much `more`."""
    step = lanes(value)
    if n < step:
        for i in range(n):
            here, own = slot + i, shift
            best, led = ring[here], plus(ring_code[here], own)
            for _ in range(1, rows):
                here += apart if here + apart < end else apart - end
                own = plus(own, more)
                wins = leads(ring[here], best, nans)
                best, led = either(wins, ring[here], best), either(wins, plus(ring_code[here], own), led)
            value[i], codes[i] = best, led
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        here, own = slot, shift
        best = get(ring, here + i)
        led = plus(get_with(ring_code, here + i, best), splat(own, best))
        for _ in range(1, rows):
            here += apart if here + apart < end else apart - end
            own = plus(own, more)
            later = get(ring, here + i)
            wins = leads(later, best, nans)
            led = either(wins, plus(get_with(ring_code, here + i, best), splat(own, best)), led)
            best = either(wins, later, best)
        put(value, i, best)
        put(codes, i, led)


@inline
def lead_taps(value, code, n, cells, apart, taps, nans):
    """value, code = the leaders of `taps` rows that lie `apart` cells from one another, and which of these they are."""
    step, none, one = lanes(value), cut(0, code), cut(1, code)
    if n < step:
        for i in range(n):
            best, led, tap = cells[i], none, none
            for j in range(1, taps):
                tap = plus(tap, one)
                wins = leads(cells[i + j * apart], best, nans)
                best, led = either(wins, cells[i + j * apart], best), either(wins, tap, led)
            value[i], code[i] = best, led
        return
    for start in range(0, n, step):
        i = min(start, n - step)
        best = get(cells, i)
        led, tap = splat(none, best), none
        for j in range(1, taps):
            tap = plus(tap, one)
            later = get(cells, i + j * apart)
            wins = leads(later, best, nans)
            best, led = either(wins, later, best), either(wins, splat(tap, best), led)
        put(value, i, best)
        put(code, i, led)


@inline
def across_neighbours(source, value, code, n, taps, shift, spare, spare_code, room, nans):
    """value, code = the leader of source[i + j*shift], j < taps, and j, for i < n. Spares have room for two rows of `room` cells."""
    run = taps
    while run > RUN:
        run = (run + 1) // 2
    if run == taps:
        lead_taps(value, code, n, source, shift, taps, nans)
        return
    lead_taps(spare, spare_code, n + (taps - run) * shift, source, shift, run, nans)
    lead_longer(value, code, n, spare, spare_code, run, taps, shift, cut(1, code), spare, spare_code, room, nans)


@inline
def lead_longer(value, code, n, now, now_code, run, taps, shift, more, spare, spare_code, room, nans):
    """value, code = the leaders of `taps` taps, each with `more` in its code than the one before, of those of runs of fewer: of twice as many, and again, the last two overlapping.

    Spares are as in `across_neighbours`, of which the first may have the runs that are given."""
    half = 1
    while run < taps:
        last, beyond = 2 * run >= taps, min(run, taps - run)
        next_value, next_code = (value, code) if last else (at(spare, half * room), at(spare_code, half * room))
        length = n if last else n + (taps - 2 * run) * shift
        later, later_code = at(now, beyond * shift), at(now_code, beyond * shift)
        none, added = cut(0, code), cut(beyond * more, code)
        lead(next_value, next_code, length, now, now_code, none, later, later_code, added, nans)
        now, now_code, half, run = next_value, next_code, 1 - half, 2 * run
