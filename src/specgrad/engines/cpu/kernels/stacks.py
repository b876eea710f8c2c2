"""Stacks: several rows of windows, one cell apart, folded down together, so that each row of cells is read for all of them and nothing is kept between them.

Windows of k rows that begin at rows 0 to T - 1 have the rows T - 1 to k - 1 in common, the core. What a window has above the core is the end of one run
of T - 1 rows, and what it has below is the beginning of another: k + 3T - 6 folds instead of T(k - 1).
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .access import ask_for, call_shared
from .compiling import PART
from .heights import STACK, TALLEST
from .rows import slide
from .vectors import BITS, Vector, combined

AHEAD = 8  # vectors that are asked for before they are read


@intrinsic
def stack(typingctx, target, there, n, source, apart, first, height, blank, taps, narrow, maximum):
    """target[t*there + i] = fold over j < taps of row(first + t + j)[i], for t < STACK and i < n, which is a vector or more, or where rows are `narrow` (else None)
    a quarter of one.

    Row r is source[r*apart], or `blank` if it is not one of the `height` rows. STACK <= taps <= TALLEST.
    """
    vector = Vector(target.dtype, (BITS if isinstance(narrow, types.NoneType) else BITS // 4) // target.dtype.bitwidth)
    size = target.dtype.bitwidth // 8

    def write_loop(context, builder, to, pitch, count, rows, row_at):
        """Fold the stack, of whose rows `row_at` tells where they are."""
        index = count.type
        pointer = context.get_value_type(vector).as_pointer()
        last = builder.sub(count, index(vector.lanes))

        def fold(a, b):
            return combined(builder, vector, maximum, a, b)

        with cgutils.for_range_slice(builder, index(0), count, index(vector.lanes), index) as (start, _):
            i = builder.select(builder.icmp_signed("<", start, last), start, last)

            def place(row):
                return builder.bitcast(builder.gep(row, [i]), pointer)

            def read(row):
                loaded = builder.load(place(row_at(row)))
                loaded.align = size
                return loaded

            above = [read(index(t)) for t in range(STACK - 1)]
            for t in reversed(range(STACK - 2)):
                above[t] = fold(above[t], above[t + 1])
            core = cgutils.alloca_once_value(builder, read(index(STACK - 1)))
            with cgutils.for_range_slice(builder, index(STACK), rows, index(1), index) as (row, _):
                builder.store(fold(builder.load(core), read(row)), core)
            common, below = builder.load(core), None
            for t in range(STACK):
                folded = fold(above[t], common) if t < STACK - 1 else common
                if t > 0:
                    row = builder.add(rows, index(t - 1))
                    ask_for(builder, builder.gep(row_at(row), [builder.add(i, index(AHEAD * vector.lanes))]))
                    below = fold(below, read(row)) if t > 1 else read(row)
                    folded = fold(folded, below)
                builder.store(folded, place(builder.gep(to, [builder.mul(pitch, index(t))]))).align = size

    def write(context, builder, to, pitch, count, cells, step, start, height, blank, rows):
        index, read = count.type, builder.add(rows, count.type(STACK - 1))
        table = builder.alloca(cells.type, size=index(TALLEST + STACK - 1))
        within = builder.icmp_signed("<=", builder.add(start, read), height)
        with builder.if_else(builder.and_(within, builder.icmp_signed(">=", start, index(0)))) as (inside, edge):
            with inside:
                base = builder.gep(cells, [builder.mul(start, step)])
                write_loop(
                    context, builder, to, pitch, count, rows, lambda row: builder.gep(base, [builder.mul(row, step)])
                )
            with edge:
                with cgutils.for_range(builder, read) as loop:
                    row = builder.add(start, loop.index)
                    own = builder.gep(cells, [builder.mul(row, step)])
                    own = builder.select(builder.icmp_unsigned("<", row, height), own, blank)
                    builder.store(own, builder.gep(table, [loop.index]))
                write_loop(
                    context, builder, to, pitch, count, rows, lambda row: builder.load(builder.gep(table, [row]))
                )

    def codegen(context, builder, signature, args):
        name = f"specgrad.stack.{target.dtype}.{vector.lanes}.{maximum}"
        call_shared(builder, name, args[:-2], lambda own, *given: write(context, own, *given))
        return context.get_dummy_value()

    integer = types.intp
    given = target, integer, integer, source, integer, integer, integer, blank, integer, narrow, maximum
    return types.void(*given), codegen


def stack_down(target, there, n, source, apart, first, height, blank, taps, staged, maximum):
    """`stack`, of rows where they lie."""
    raise NotImplementedError


@overload(stack_down, strict=False, jit_options=PART)
def _stack_down(target, there, n, source, apart, first, height, blank, taps, staged, maximum):
    def down(target, there, n, source, apart, first, height, blank, taps, staged, maximum):
        stack(target, there, n, source, apart, first, height, blank, taps, None, maximum)

    if isinstance(staged, types.NoneType):
        return down
    return lambda target, there, n, source, apart, first, height, blank, taps, staged, maximum: None


def stack_across(spread, pitch, spare, room, target, there, size, taps, shift, staged, strided, maximum):
    """STACK rows of outputs, `there` apart, from as many rows of the spread, `pitch` apart, whose columns of windows are neighbours."""
    raise NotImplementedError


@overload(stack_across, strict=False, jit_options=PART)
def _stack_across(spread, pitch, spare, room, target, there, size, taps, shift, staged, strided, maximum):
    def across(spread, pitch, spare, room, target, there, size, taps, shift, staged, strided, maximum):
        slide(spread, pitch, STACK, spare, room, target, there, size, taps, shift, maximum)

    if isinstance(staged, types.NoneType) and isinstance(strided, types.NoneType):
        return across
    return lambda spread, pitch, spare, room, target, there, size, taps, shift, staged, strided, maximum: None
