"""Cells where they lie: pointers to them, and vectors of them read and written, without bounds or reference counts.

A loop over n cells goes by vectors of `lanes` cells, the last one moved back so that it ends with the row: no rest is left over, and
a compiler has no overlap of rows to check for. Rows shorter than a vector are for the callers to treat one by one.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import BITS, Vector


def field_of(context, builder, kind, array, name):
    """What Numba keeps of an array under this name: its "data", its "shape"."""
    return context.data_model_manager[kind].get(builder, array, name)


def _beyond(context, builder, kind, cells, offset):
    start = field_of(context, builder, kind, cells, "data") if isinstance(kind, types.Array) else cells
    return builder.gep(start, [offset])


@intrinsic
def at(typingctx, cells, offset):
    """A pointer to a cell of an array, or some cells beyond a pointer: no bounds, no reference counts."""

    def codegen(context, builder, signature, args):
        return _beyond(context, builder, cells, *args)

    return types.CPointer(cells.dtype)(cells, types.intp), codegen


@intrinsic
def held_at(typingctx, given, cells, offset):
    """As `at`, of these cells, if something is given; else None."""
    if isinstance(given, types.NoneType):
        return types.none(given, cells, offset), lambda context, builder, signature, args: context.get_dummy_value()

    def codegen(context, builder, signature, args):
        return _beyond(context, builder, cells, *args[1:])

    return types.CPointer(cells.dtype)(given, cells, types.intp), codegen


@intrinsic
def lanes(typingctx, cells):
    """How many cells of this row make a vector."""
    number = BITS // cells.dtype.bitwidth

    def codegen(context, builder, signature, args):
        return ir.IntType(64)(number)

    return types.intp(cells), codegen


def _vector_at(context, builder, vector, args):
    return builder.bitcast(builder.gep(*args), context.get_value_type(vector).as_pointer())


def _getting(bits, words):
    """An intrinsic that reads a vector of so many bits."""

    @intrinsic
    def get(typingctx, cells, i):
        vector = Vector(cells.dtype, bits // cells.dtype.bitwidth)

        def codegen(context, builder, signature, args):
            loaded = builder.load(_vector_at(context, builder, vector, (args[0], [args[1]])))
            loaded.align = cells.dtype.bitwidth // 8
            return loaded

        return vector(cells, types.intp), codegen

    get.__doc__ = words
    return get


get = _getting(BITS, "The vector that begins at cell i.")
get_quarter = _getting(BITS // 4, "A quarter of the vector that begins at cell i.")


@intrinsic
def get_with(typingctx, cells, i, other):
    """The vector that begins at cell i, of as many cells as another has."""
    vector = Vector(cells.dtype, other.lanes)

    def codegen(context, builder, signature, args):
        loaded = builder.load(_vector_at(context, builder, vector, (args[0], [args[1]])))
        loaded.align = cells.dtype.bitwidth // 8
        return loaded

    return vector(cells, types.intp, other), codegen


def _dealt(ways):
    """An intrinsic that reads neighbouring cells and deals them to so many vectors in turn."""

    @intrinsic
    def dealt(typingctx, cells, i):
        vector = Vector(cells.dtype, BITS // cells.dtype.bitwidth)

        def codegen(context, builder, signature, args):
            wide = Vector(cells.dtype, ways * vector.lanes)
            loaded = builder.load(_vector_at(context, builder, wide, (args[0], [args[1]])))
            loaded.align = cells.dtype.bitwidth // 8
            places = ir.VectorType(ir.IntType(32), vector.lanes)
            turns = [list(range(turn, ways * vector.lanes, ways)) for turn in range(ways)]
            found = [builder.shuffle_vector(loaded, loaded, ir.Constant(places, turn)) for turn in turns]
            return context.make_tuple(builder, signature.return_type, found)

        return types.UniTuple(vector, ways)(cells, types.intp), codegen

    return dealt


dealt2, dealt3, dealt4 = map(_dealt, (2, 3, 4))


@intrinsic
def put(typingctx, cells, i, vector):
    """Write a vector from cell i on; integers that are too wide are cut."""

    def codegen(context, builder, signature, args):
        value, kept = args[2], Vector(cells.dtype, vector.lanes)
        if cells.dtype.bitwidth < vector.dtype.bitwidth:
            value = builder.trunc(value, context.get_value_type(kept))
        stored = builder.store(value, _vector_at(context, builder, kept, (args[0], [args[1]])))
        stored.align = cells.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(cells, types.intp, vector), codegen


def call_shared(builder, name, args, write, result=None):
    """Call the function of this name, one for all that call it in a kernel, which `write` writes (builder, *args) where it is first met, and with it what it
    returns, if that is a `result` of some type."""
    kind = ir.FunctionType(result or ir.VoidType(), [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    if function.is_declaration:
        function.linkage = "linkonce_odr"  # modules that are linked share one
        function.attributes.add("noinline")
        own = ir.IRBuilder(function.append_basic_block())
        write(own, *function.args)
        if result is None:
            own.ret_void()
    return builder.call(function, args)


def ask_for(builder, place):
    """Ask for the line of an LLVM pointer, which may lie beyond its array, ahead of its use."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [builder.bitcast(place, byte), number(0), number(3), number(1)])


@intrinsic
def fetch(typingctx, cells, i):
    """Ask for the line of cell i."""

    def codegen(context, builder, signature, args):
        ask_for(builder, builder.gep(args[0], [args[1]]))
        return context.get_dummy_value()

    return types.void(cells, types.intp), codegen


def write_end(builder, to, place, value, count):
    """Write the last `count` cells of an LLVM vector, or all if there are no more, as if it began at `place`."""
    index, lanes, size = count.type, value.type.count, cell_bytes(value.type.element)

    def vector_at(row, i, some):
        return builder.bitcast(builder.gep(row, [i]), ir.VectorType(value.type.element, some).as_pointer())

    spilled, done = cgutils.alloca_once(builder, value.type), cgutils.alloca_once(builder, index)
    with builder.if_else(builder.icmp_signed(">=", count, index(lanes))) as (whole, part):
        with whole:
            builder.store(value, vector_at(to, place, lanes)).align = size
        with part:
            builder.store(value, spilled)
            builder.store(builder.sub(index(lanes), count), done)
            source = builder.bitcast(spilled, to.type)
            some = lanes // 2
            while some:
                with builder.if_then(builder.icmp_unsigned("!=", builder.and_(count, index(some)), index(0))):
                    start = builder.load(done)
                    loaded = builder.load(vector_at(source, start, some))
                    loaded.align = size
                    builder.store(loaded, vector_at(to, builder.add(place, start), some)).align = size
                    builder.store(builder.add(start, index(some)), done)
                some //= 2


def cell_bytes(kind):
    """How many bytes a cell of this LLVM type has."""
    return {"half": 2, "float": 4, "double": 8}.get(str(kind)) or kind.width // 8


@intrinsic
def put_end(typingctx, cells, i, vector, kept):
    """Write the last `kept` cells, or all if there are no more, of a vector that begins at cell i. Cells before them were just written,
    and lines that are written whole go to memory at once: to write them again is to fetch them back."""

    def codegen(context, builder, signature, args):
        value = args[2]
        if cells.dtype.bitwidth < vector.dtype.bitwidth:
            value = builder.trunc(value, context.get_value_type(Vector(cells.dtype, vector.lanes)))
        write_end(builder, args[0], args[1], value, args[3])
        return context.get_dummy_value()

    return types.void(cells, types.intp, vector, types.intp), codegen


@intrinsic
def transpose4(typingctx, source, apart, target, apart_there):
    """Four rows of four cells, `apart` from one another, become four columns."""

    def codegen(context, builder, signature, args):
        cells, step, there, step_there = args
        index, size = ir.IntType(32), source.dtype.bitwidth // 8
        kind = ir.VectorType(context.get_value_type(source.dtype), 4)

        def at_row(row, start, length):
            place = builder.gep(start, [builder.mul(length, ir.IntType(64)(row))])
            return builder.bitcast(place, kind.as_pointer())

        def mixed(a, b, places):
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(index, 4), places))

        rows = []
        for row in range(4):
            loaded = builder.load(at_row(row, cells, step))
            loaded.align = size
            rows.append(loaded)
        a, b, c, d = rows
        low, high = mixed(a, b, [0, 4, 1, 5]), mixed(c, d, [0, 4, 1, 5])
        low2, high2 = mixed(a, b, [2, 6, 3, 7]), mixed(c, d, [2, 6, 3, 7])
        columns = [
            mixed(low, high, [0, 1, 4, 5]), mixed(low, high, [2, 3, 6, 7]),
            mixed(low2, high2, [0, 1, 4, 5]), mixed(low2, high2, [2, 3, 6, 7]),
        ]  # fmt: skip
        for row, column in enumerate(columns):
            stored = builder.store(column, at_row(row, there, step_there))
            stored.align = size
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), codegen
