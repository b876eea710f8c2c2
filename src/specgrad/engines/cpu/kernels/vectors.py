"""Vectors of cells: what kernels compute with, written out as vector instructions.

Every operation here takes numbers, or vectors of them, cell by cell; how they are read and written is in `access`.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

from .machine import X86

BITS = 512  # of a vector: some registers, so that a loop's own steps weigh little
EITHER_ZERO = ("nsz",)  # of 0.0 and -0.0; x86 has no instruction that prefers one
DROPS_NAN = X86  # its maximum of a NaN and a number is either


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


def call(builder, name, kind, args, flags=()):
    """An LLVM function over numbers or vectors of floats."""
    real, cell = args[0].type, cell_of(kind)
    suffix = f"v{kind.lanes}f{cell.bitwidth}" if isinstance(kind, Vector) else f"f{cell.bitwidth}"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(real, [real] * len(args)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args, fastmath=flags)


@intrinsic
def splat(typingctx, number, other):
    """A number in every cell of a vector, or the number itself where the other is one."""
    if not isinstance(other, Vector):
        return number(number, other), lambda context, builder, signature, args: args[0]
    vector = Vector(number, other.lanes)

    def codegen(context, builder, signature, args):
        return spread(builder, args[0], context.get_value_type(vector))

    return vector(number, other), codegen


def spread(builder, number, kind):
    """`splat` in LLVM's terms: a number as one, or in every cell, of this LLVM type."""
    if not isinstance(kind, ir.VectorType):
        return number
    index = ir.IntType(32)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, index(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(index, kind.count), [0] * kind.count))


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
one_before = _shuffled(lambda n: [n - 1 + i for i in range(n)])  # the cells one before those of the second vector
one_after = _shuffled(lambda n: [1 + i for i in range(n)])  # the cells one after those of the first


def halves_joined(builder, value, join):
    """The two halves of a vector joined into one."""
    lanes, places = value.type.count // 2, ir.IntType(32)
    low, high = (ir.Constant(ir.VectorType(places, lanes), list(range(start, start + lanes))) for start in (0, lanes))
    return join(builder.shuffle_vector(value, value, low), builder.shuffle_vector(value, value, high), lanes)


def halved(builder, value, join):
    """The cells of a vector joined into one, half by half."""
    while value.type.count > 1:
        value = halves_joined(builder, value, join)
    return builder.extract_element(value, ir.IntType(32)(0))


def least(builder, kind, a, b):
    """`lesser` in LLVM's terms."""
    cell = cell_of(kind)
    if isinstance(cell, types.Float):
        return call(builder, "minimum", kind, [a, b], EITHER_ZERO)
    compare = builder.icmp_signed if cell.signed else builder.icmp_unsigned
    return builder.select(compare("<", b, a), b, a)


@intrinsic
def lesser(typingctx, a, b):
    """The lesser of two numbers; a NaN if either is one."""

    def codegen(context, builder, signature, args):
        return least(builder, a, *args)

    return a(a, a), codegen


@intrinsic
def least_of(typingctx, vector):
    """The least cell of a vector, or NaN if one is; a number is its own."""
    if not isinstance(vector, Vector):
        return vector(vector), lambda context, builder, signature, args: args[0]

    def codegen(context, builder, signature, args):
        def join(a, b, lanes):
            return least(builder, Vector(vector.dtype, lanes), a, b)

        return halved(builder, args[0], join)

    return vector.dtype(vector), codegen


def _half(join):
    """An intrinsic that joins the two halves of a vector."""

    @intrinsic
    def half(typingctx, vector):
        smaller = Vector(vector.dtype, vector.lanes // 2)

        def codegen(context, builder, signature, args):
            return halves_joined(builder, args[0], lambda a, b, lanes: join(builder, smaller, a, b))

        return smaller(vector), codegen

    return half


lesser_half = _half(least)
half_sums = _half(lambda builder, kind, a, b: builder.fadd(a, b))


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
def folded(typingctx, vector, maximum):
    """The sum of a vector's cells where `maximum` is None, else the greatest."""

    def codegen(context, builder, signature, args):
        def join(a, b, lanes):
            return combined(builder, Vector(vector.dtype, lanes), maximum, a, b)

        return halved(builder, args[0], join)

    return vector.dtype(vector, maximum), codegen


@intrinsic
def numbered(typingctx, vector):
    """The numbers of a vector's cells, from 0 on."""
    numbers = Vector(types.int32, vector.lanes)

    def codegen(context, builder, signature, args):
        return ir.Constant(context.get_value_type(numbers), list(range(vector.lanes)))

    return numbers(vector), codegen


def _operation(symbol, real, integer):
    """Let vectors (of one type) take an arithmetic operator."""

    @type_callable(symbol)
    def type_of(context):
        return lambda a, b: a if isinstance(a, Vector) and a == b else None

    @lower_builtin(symbol, Vector, Vector)
    def run(context, builder, signature, args):
        return getattr(builder, real if isinstance(signature.return_type.dtype, types.Float) else integer)(*args)


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
def cut(typingctx, number, cells):
    """An integer in the type of these cells: its lowest bits."""

    def codegen(context, builder, signature, args):
        kind = context.get_value_type(cells.dtype)
        return args[0] if args[0].type == kind else builder.trunc(args[0], kind)

    return cells.dtype(number, cells), codegen


@intrinsic
def greater(typingctx, a, b):
    """The greater of two numbers; a NaN if either is one, and either of 0.0 and -0.0."""

    def codegen(context, builder, signature, args):
        return combined(builder, a, types.boolean, *args)

    return a(a, a), codegen


def ahead(builder, kind, later, earlier, minds_nan):
    """`beats` in LLVM's terms, or `exceeds`."""
    cell = cell_of(kind)
    if not isinstance(cell, types.Float):
        return (builder.icmp_signed if cell.signed else builder.icmp_unsigned)(">", later, earlier)
    greater = builder.fcmp_ordered(">", later, earlier)
    return builder.or_(greater, builder.fcmp_unordered("uno", later, later)) if minds_nan else greater


@intrinsic
def beats(typingctx, later, earlier):
    """Whether a later cell takes the lead from an earlier one: if it is strictly greater, or NaN."""

    def codegen(context, builder, signature, args):
        return ahead(builder, later, *args, True)

    return like(later, types.boolean)(later, later), codegen


@intrinsic
def leads(typingctx, later, earlier, nans):
    """As `beats`, or where `nans` is None of cells among which there is no NaN."""

    def codegen(context, builder, signature, args):
        return ahead(builder, later, *args[:2], not isinstance(nans, types.NoneType))

    return like(later, types.boolean)(later, later, nans), codegen


@intrinsic
def either(typingctx, condition, a, b):
    """a if the condition holds, else b: both are computed, so that there is no branch."""

    def codegen(context, builder, signature, args):
        return builder.select(*args)

    return a(condition, a, a), codegen


def combined(builder, kind, maximum, a, b, flags=EITHER_ZERO):
    """`combine` in LLVM's terms: a sum where the type of `maximum` is none, else the greater."""
    cell = cell_of(kind)
    if isinstance(maximum, types.NoneType):
        return builder.fadd(a, b) if isinstance(cell, types.Float) else builder.add(a, b)
    if isinstance(cell, types.Float):
        return call(builder, "maximum", kind, [a, b], flags)
    compare = builder.icmp_signed if cell.signed else builder.icmp_unsigned
    return builder.select(compare(">", b, a), b, a)


@intrinsic
def combine(typingctx, a, b, maximum):
    """a + b where `maximum` is None, else the greater."""

    def codegen(context, builder, signature, args):
        return combined(builder, a, maximum, *args[:2])

    return a(a, a, maximum), codegen


@intrinsic
def combine_numbers(typingctx, a, b, maximum):
    """As `combine`, of cells that somebody searches for NaN. What is the greater of a NaN is said by DROPS_NAN: so x86 takes one instruction, not three."""

    def codegen(context, builder, signature, args):
        return combined(builder, a, maximum, *args[:2], flags=("nsz", "nnan") if DROPS_NAN else EITHER_ZERO)

    return a(a, a, maximum), codegen


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a·b + c, rounded once."""

    def codegen(context, builder, signature, args):
        return call(builder, "fma", a, args)

    return a(a, a, a), codegen


def divided(builder, kind, a, over, rest):
    """`quotient` in LLVM's terms."""
    if not isinstance(cell_of(kind), types.Float):
        return a
    return call(builder, "fma", kind, [a, over, builder.fmul(a, rest)])


@intrinsic
def quotient(typingctx, a, over, rest):
    """a / b = a·over + a·rest, where 1/b is given in two parts (`plan.reciprocal`): far quicker than a division.

    It is rounded once if b is a whole number below 2^22 (2^51 for float64) and a / b no tiny number: no such quotient is closer than 1/2b of its last place
    to the middle of two floats, and a·rest is wrong by less. Integers, which have maxima only, are never divided.
    """

    def codegen(context, builder, signature, args):
        return divided(builder, a, *args)

    return a(a, a, a), codegen
