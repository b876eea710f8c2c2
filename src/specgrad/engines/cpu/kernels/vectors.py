"""Cells and vectors of cells: what kernels compute with, written out as vector instructions.

A loop over n cells goes by vectors of `lanes` cells, the last one moved back so that it ends with the row: no rest is left over, and
a compiler has no overlap of rows to check for. Every operation here takes numbers, or vectors of them, cell by cell. Rows shorter than a
vector are for the callers to treat one by one.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model
from numba.np.arrayobj import make_array

from .compiling import PART

BITS = 512  # of a vector: some registers, so that a loop's own steps weigh little


class Vector(types.Type):  # type: ignore[misc]
    """Some neighbouring cells."""

    def __init__(self, dtype, lanes):
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, vector):
        cell = ir.IntType(1) if vector.dtype == types.boolean else manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(cell, vector.lanes))


def cell_of(kind):
    """The type of a cell, of a number or a vector."""
    return kind.dtype if isinstance(kind, Vector) else kind


def like(kind, dtype):
    """The number or vector of another type that goes with this one."""
    return Vector(dtype, kind.lanes) if isinstance(kind, Vector) else dtype


def call(builder, name, kind, args):
    """An LLVM function over numbers or vectors of floats."""
    real, cell = args[0].type, cell_of(kind)
    suffix = f"v{kind.lanes}f{cell.bitwidth}" if isinstance(kind, Vector) else f"f{cell.bitwidth}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(real, [real] * len(args)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args)


@intrinsic
def at(typingctx, cells, offset):
    """A pointer to a cell of an array, or some cells beyond a pointer: no bounds, no reference counts."""

    def codegen(context, builder, signature, args):
        start = args[0]
        if isinstance(cells, types.Array):
            start = make_array(cells)(context, builder, start).data
        return builder.gep(start, [args[1]])

    return types.CPointer(cells.dtype)(cells, types.intp), codegen


@intrinsic
def lanes(typingctx, cells):
    """How many cells of this row make a vector."""
    number = BITS // cells.dtype.bitwidth

    def codegen(context, builder, signature, args):
        return ir.IntType(64)(number)

    return types.intp(cells), codegen


@intrinsic
def take(typingctx, counter):
    """The number of the next task, which no other thread is given."""

    def codegen(context, builder, signature, args):
        cell = make_array(counter)(context, builder, args[0]).data
        return builder.atomic_rmw("add", cell, ir.IntType(64)(1), "monotonic")

    return types.intp(counter), codegen


def _vector_at(context, builder, vector, args):
    return builder.bitcast(builder.gep(*args), context.get_value_type(vector).as_pointer())


@intrinsic
def get(typingctx, cells, i):
    """The vector that begins at cell i."""
    vector = Vector(cells.dtype, BITS // cells.dtype.bitwidth)

    def codegen(context, builder, signature, args):
        loaded = builder.load(_vector_at(context, builder, vector, (args[0], [args[1]])))
        loaded.align = cells.dtype.bitwidth // 8
        return loaded

    return vector(cells, types.intp), codegen


@intrinsic
def get_with(typingctx, cells, i, other):
    """The vector that begins at cell i, of as many cells as another has."""
    vector = Vector(cells.dtype, other.lanes)

    def codegen(context, builder, signature, args):
        loaded = builder.load(_vector_at(context, builder, vector, (args[0], [args[1]])))
        loaded.align = cells.dtype.bitwidth // 8
        return loaded

    return vector(cells, types.intp, other), codegen


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


@intrinsic
def fetch(typingctx, cells, i):
    """Ask for the line of cell i, which may lie beyond the array, ahead of its use."""

    def codegen(context, builder, signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        builder.call(function, [place, number(0), number(3), number(1)])
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
def splat(typingctx, number, other):
    """A number in every cell of a vector, or the number itself where the other is one."""
    if not isinstance(other, Vector):
        return number(number, other), lambda context, builder, signature, args: args[0]
    vector = Vector(number, other.lanes)

    def codegen(context, builder, signature, args):
        kind, index = context.get_value_type(vector), ir.IntType(32)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), args[0], index(0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(index, other.lanes), [0] * other.lanes))

    return vector(number, other), codegen


def _shuffled(places):
    """An intrinsic that picks cells of two vectors, numbered through."""

    @intrinsic
    def shuffled(typingctx, a, b):
        def codegen(context, builder, signature, args):
            mask = ir.Constant(ir.VectorType(ir.IntType(32), a.lanes), places(a.lanes))
            return builder.shuffle_vector(*args, mask)

        return a(a, a), codegen

    return shuffled


evens = _shuffled(lambda n: list(range(0, 2 * n, 2)))
odds = _shuffled(lambda n: list(range(1, 2 * n, 2)))
zipped_low = _shuffled(lambda n: [i // 2 + n * (i % 2) for i in range(n)])
zipped_high = _shuffled(lambda n: [n // 2 + i // 2 + n * (i % 2) for i in range(n)])


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


@intrinsic
def least_of(typingctx, vector):
    """The least cell of a vector of floats, or NaN if one is; a number is its own."""
    if not isinstance(vector, Vector):
        return vector(vector), lambda context, builder, signature, args: args[0]

    def codegen(context, builder, signature, args):
        index, value = ir.IntType(32), args[0]
        cells = [builder.extract_element(value, index(i)) for i in range(vector.lanes)]
        while len(cells) > 1:
            half = len(cells) // 2
            cells = [
                call(builder, "minimum", vector.dtype, [a, b]) for a, b in zip(cells[:half], cells[half:], strict=True)
            ]
        return cells[0]

    return vector.dtype(vector), codegen


def _comparison(sign, ordered, words):
    """An intrinsic that compares numbers or vectors of one type, cell by cell."""

    @intrinsic
    def compared(typingctx, a, b):
        cell = cell_of(a)

        def codegen(context, builder, signature, args):
            if isinstance(cell, types.Float):
                return (builder.fcmp_ordered if ordered else builder.fcmp_unordered)(sign, *args)
            return (builder.icmp_signed if cell.signed else builder.icmp_unsigned)(sign, *args)

        return like(a, types.boolean)(a, a), codegen

    compared.__doc__ = words
    return compared


equals = _comparison("==", True, "Which cells are equal; no NaN is.")
differs = _comparison("!=", False, "Which cells are not equal; every NaN is.")
exceeds = _comparison(">", True, "Which cells are greater than the others; no NaN is.")


@intrinsic
def both(typingctx, a, b):
    """Where two conditions hold."""

    def codegen(context, builder, signature, args):
        return builder.and_(*args)

    return a(a, a), codegen


@intrinsic
def any_of(typingctx, a, b, c, d):
    """Whether any cell of four masks is set."""

    def codegen(context, builder, signature, args):
        hits = builder.or_(builder.or_(args[0], args[1]), builder.or_(args[2], args[3]))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(1), [hits.type]), f"llvm.vector.reduce.or.v{a.lanes}i1"
        )
        return builder.call(function, [hits])

    return types.boolean(a, a, a, a), codegen


@intrinsic
def first_cell(typingctx, vector):
    def codegen(context, builder, signature, args):
        return builder.extract_element(args[0], ir.IntType(32)(0))

    return vector.dtype(vector), codegen


@intrinsic
def sum_of(typingctx, vector):
    """The sum of a vector's cells, pair by pair."""

    def codegen(context, builder, signature, args):
        cells = [builder.extract_element(args[0], ir.IntType(32)(i)) for i in range(vector.lanes)]
        while len(cells) > 1:
            half = len(cells) // 2
            cells = [builder.fadd(a, b) for a, b in zip(cells[:half], cells[half:], strict=True)]
        return cells[0]

    return vector.dtype(vector), codegen


def _operation(symbol, real, integer):
    """Let vectors (of one type) take an arithmetic operator."""

    @intrinsic
    def run(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return getattr(builder, real if isinstance(a.dtype, types.Float) else integer)(*args)

        return a(a, a), codegen

    @overload(symbol, jit_options=PART)
    def operation(a, b):
        if isinstance(a, Vector) and a == b:
            return lambda a, b: run(a, b)
        return None


_operation(operator.add, "fadd", "add")
_operation(operator.sub, "fsub", "sub")
_operation(operator.mul, "fmul", "mul")
_operation(operator.truediv, "fdiv", "sdiv")


@intrinsic
def plus(typingctx, a, b):
    """a + b in their own type: Numba would widen integers."""

    def codegen(context, builder, signature, args):
        return builder.add(*args)

    return a(a, a), codegen


@intrinsic
def narrow(typingctx, number):
    """A small integer as a byte."""

    def codegen(context, builder, signature, args):
        return builder.trunc(args[0], context.get_value_type(types.uint8))

    return types.uint8(number), codegen


@intrinsic
def greater(typingctx, a, b):
    """The greater of two numbers; a NaN if either is one, and 0.0 of 0.0 and -0.0."""

    def codegen(context, builder, signature, args):
        return combined(builder, a, types.boolean, *args)

    return a(a, a), codegen


@intrinsic
def lesser(typingctx, a, b):
    """The lesser of two floats; a NaN if either is one."""

    def codegen(context, builder, signature, args):
        return call(builder, "minimum", a, args)

    return a(a, a), codegen


@intrinsic
def beats(typingctx, later, earlier):
    """Whether a later cell takes the lead from an earlier one: if it is strictly greater, or NaN."""
    cell = cell_of(later)

    def codegen(context, builder, signature, args):
        if isinstance(cell, types.Float):
            return builder.or_(builder.fcmp_ordered(">", *args), builder.fcmp_unordered("uno", args[0], args[0]))
        return (builder.icmp_signed if cell.signed else builder.icmp_unsigned)(">", *args)

    return like(later, types.boolean)(later, later), codegen


@intrinsic
def either(typingctx, condition, a, b):
    """a if the condition holds, else b: both are computed, so that there is no branch."""

    def codegen(context, builder, signature, args):
        return builder.select(*args)

    return a(condition, a, a), codegen


def combined(builder, kind, maximum, a, b):
    """`combine` in LLVM's terms: a sum where the type of `maximum` is none, else the greater."""
    cell = cell_of(kind)
    if isinstance(maximum, types.NoneType):
        return builder.fadd(a, b) if isinstance(cell, types.Float) else builder.add(a, b)
    if isinstance(cell, types.Float):
        return call(builder, "maximum", kind, [a, b])
    compare = builder.icmp_signed if cell.signed else builder.icmp_unsigned
    return builder.select(compare(">", b, a), b, a)


def combine(a, b, maximum):
    """a + b where `maximum` is None, else the greater."""
    raise NotImplementedError


@overload(combine, strict=False, jit_options=PART)
def _combine(a, b, maximum):
    if isinstance(maximum, types.NoneType):
        return lambda a, b, maximum: a + b
    return lambda a, b, maximum: greater(a, b)


@intrinsic
def nearest_to_zero(typingctx, so_far, number):
    """min(so_far, |number|), or NaN if either is one."""

    def codegen(context, builder, signature, args):
        return call(builder, "minimum", number, [args[0], call(builder, "fabs", number, args[1:])])

    return number(number, number), codegen


def watch(so_far, number, maximum):
    """Keep an eye on maxima: what this returns is 0 or NaN once one was; then the order of folding may show in it."""
    raise NotImplementedError


@overload(watch, strict=False, jit_options=PART)
def _watch(so_far, number, maximum):
    if isinstance(maximum, types.NoneType) or not isinstance(cell_of(number), types.Float):
        return lambda so_far, number, maximum: so_far
    return lambda so_far, number, maximum: nearest_to_zero(so_far, number)


def is_watched(so_far, maximum):
    """Whether a watched maximum was 0 or NaN."""
    raise NotImplementedError


@overload(is_watched, strict=False, jit_options=PART)
def _is_watched(so_far, maximum):
    if isinstance(maximum, types.NoneType) or not isinstance(cell_of(so_far), types.Float):
        return lambda so_far, maximum: False
    return lambda so_far, maximum: not least_of(so_far) > 0


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a·b + c, rounded once."""

    def codegen(context, builder, signature, args):
        return call(builder, "fma", a, args)

    return a(a, a, a), codegen


@intrinsic
def quotient(typingctx, a, b, reciprocal):
    """a / b, rounded once, given 1/b rounded: a product and two corrections are far quicker than a division.

    Integers, which have maxima only, are never divided.
    """

    def codegen(context, builder, signature, args):
        if not isinstance(cell_of(a), types.Float):
            return args[0]
        rough = builder.fmul(args[0], args[2])
        error = call(builder, "fma", a, [builder.fneg(rough), args[1], args[0]])
        finite = builder.fcmp_ordered("ord", error, error)  # an infinite quotient needs no correction
        return builder.select(finite, call(builder, "fma", a, [error, args[2], rough]), rough)

    return a(a, a, a), codegen
