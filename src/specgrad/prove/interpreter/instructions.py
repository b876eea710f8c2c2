"""Python functions that compute LLVM's instructions, except memory accesses and branches, which are
in program.py.

An integer is an unsigned int of its width. A one-bit integer is a bool, or an undecided comparison
of the domain. A vector is a list of numbers.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ...engines.cpu.codegen.values import I1
from .domains import ORDERS, Domain
from .memory import SIZES, UNDEFINED, Fault, access, is_float

Function = Callable[..., Any]

FLOATS = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div", "fneg": "neg"} | {
    f"llvm.{name}": name for name in ("maximum", "minimum", "fma", "fabs")
}
"""Instructions and intrinsics on floating-point numbers, and the methods of Domain that compute
them."""

FUNCTIONS = FLOATS | {"llvm.exp": "exp"}
"""FLOATS, and functions that no kernel calls but a domain may have."""

REDUCE = "llvm.vector.reduce."


def meaning(instruction: Any, domain: Domain) -> Function | None:
    """The function from an instruction's operands to its result; None for memory accesses, branches
    and unknown instructions."""
    name = name_of(instruction)
    if name.startswith(REDUCE):
        return reduction(instruction, domain)
    if name in WHOLE:
        return WHOLE[name](instruction, domain)
    one = in_one_lane(instruction, domain)
    return None if one is None else in_lanes(one, instruction)


def name_of(instruction: Any) -> str:
    """The name of an instruction, or of the intrinsic that it calls, without the intrinsic's
    types."""
    if instruction.opname != "call":
        return str(instruction.opname)
    name = str(instruction.callee.name)
    return re.sub(r"(\.(v\d+)?([if]\d+|p0))+$", "", name) if name.startswith("llvm.") else f"call {name}"


def operands_of(instruction: Any) -> list[Any]:
    """An instruction's operands, without the called function."""
    return list(instruction.args if instruction.opname == "call" else instruction.operands)


def is_vector(kind: Any) -> bool:
    """Whether values of this type are vectors."""
    return isinstance(kind, ir.VectorType)


def element(kind: Any) -> Any:
    """The type of one element."""
    return kind.element if is_vector(kind) else kind


def width(kind: Any) -> int:
    """The bits of one element."""
    kind = element(kind)
    return kind.width if isinstance(kind, ir.IntType) else 8 * SIZES[kind]


# numbers


def in_one_lane(instruction: Any, domain: Domain) -> Function | None:
    """The function that an instruction computes in one lane."""
    name, function = name_of(instruction), _of_numbers(instruction, domain)
    return function if function is None or name in PASSING else careful(function, len(operands_of(instruction)))


def _of_numbers(instruction: Any, domain: Domain) -> Function | None:
    name = name_of(instruction)
    if instruction.flags or getattr(instruction, "fastmath", ()):  # no kernel has any
        return None
    if name in FUNCTIONS:
        made: Function = getattr(domain, FUNCTIONS[name])
        return made
    if name in ("icmp", "fcmp"):
        return comparison(instruction, domain)
    if name in CASTS:
        return cast(instruction, domain)
    return integer(name.removeprefix("llvm."), width(instruction.type)) if is_integer(instruction.type) else None


PASSING = {"add", "sub", "mul", "and", "or", "xor", "udiv", "urem", "icmp", "zext", "sext", "inttoptr", "ptrtoint"}
OPERATORS: set[Function] = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.neg,
    operator.and_,
    operator.or_,
    operator.xor,
}
OPERATORS |= set(ORDERS.values())
"""Instructions and functions that give UNDEFINED for an UNDEFINED operand without a check."""


def careful(function: Function, arity: int) -> Function:
    """A function that returns UNDEFINED if an argument is UNDEFINED."""
    if function in OPERATORS:
        return function

    def of_two(a: Any, b: Any) -> Any:
        return UNDEFINED if a is UNDEFINED or b is UNDEFINED else function(a, b)

    def of_any(*given: Any) -> Any:
        return UNDEFINED if any(one is UNDEFINED for one in given) else function(*given)

    return of_any if arity != 2 else of_two


def is_integer(kind: Any) -> bool:
    """Whether values of this type, or their elements, are integers."""
    return isinstance(element(kind), ir.IntType)


def in_lanes(function: Function, instruction: Any) -> Function:
    """A function of numbers applied in every lane; a scalar operand has the same value in all
    lanes."""
    vectors = [is_vector(operand.type) for operand in operands_of(instruction)]
    if not any(vectors):
        return function
    if all(vectors):
        return lambda *given: list(map(function, *given))
    return lambda *given: list(
        map(function, *[g if v else itertools.repeat(g) for g, v in zip(given, vectors, strict=True)])
    )


def signed(bits: int) -> Function:
    """The function from unsigned to signed integers of this many bits."""
    half = 1 << bits - 1
    return lambda a: (a ^ half) - half


def _shift(shifted: Function, bits: int) -> Function:
    def function(a: Any, by: Any) -> Any:
        if by >= bits:
            raise Fault(f"{bits} bits are shifted by {by}")
        return shifted(a, by)

    return function


def _division(divided: Function) -> Function:
    def function(a: Any, b: Any) -> Any:
        if b == 0:
            raise Fault(f"{a} is divided by zero")
        return divided(a, b)

    return function


def _quotient(a: int, b: int) -> int:
    """The quotient rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@functools.cache
def integer(name: str, bits: int) -> Function | None:
    """The function for an integer instruction or intrinsic of this many bits."""
    mask, half, sign = (1 << bits) - 1, 1 << bits - 1, signed(bits)
    table: dict[str, Function] = {
        "add": lambda a, b: a + b & mask,
        "sub": lambda a, b: a - b & mask,
        "mul": lambda a, b: a * b & mask,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "shl": _shift(lambda a, by: a << by & mask, bits),
        "lshr": _shift(operator.rshift, bits),
        "ashr": _shift(lambda a, by: sign(a) >> by & mask, bits),
        "udiv": _division(operator.floordiv),
        "urem": _division(operator.mod),
        "sdiv": _division(lambda a, b: _quotient(sign(a), sign(b)) & mask),
        "srem": _division(lambda a, b: sign(a) - sign(b) * _quotient(sign(a), sign(b)) & mask),
        "umax": lambda a, b: a if a >= b else b,
        "umin": lambda a, b: a if a <= b else b,
        "smax": lambda a, b: a if a ^ half >= b ^ half else b,
        "smin": lambda a, b: a if a ^ half <= b ^ half else b,
        "uadd.sat": lambda a, b: min(a + b, mask),
        "usub.sat": lambda a, b: max(a - b, 0),
        "abs": lambda a, _: abs(sign(a)) & mask,
        "ctpop": lambda a: a.bit_count(),
        "ctlz": lambda a, _: bits - a.bit_length(),
        "cttz": lambda a, _: (a & -a).bit_length() - 1 if a else bits,
    }
    if bits == 1 and name not in ("and", "or", "xor"):  # these three keep bools, and undecided comparisons
        made = table.get(name)
        return made and (lambda *given: bool(made(*map(int, given))))
    return table.get(name)


def comparison(instruction: Any, domain: Domain) -> Function:
    """The function for icmp and fcmp."""
    if instruction.opname == "fcmp":
        return domain.comparison(instruction.op)
    order, half = ORDERS[instruction.op[-2:]], 1 << width(instruction.operands[0].type) - 1
    return (lambda a, b: order(a ^ half, b ^ half)) if instruction.op[0] == "s" else order


CASTS = ["trunc", "zext", "sext", "fpext", "fptrunc", "fptosi", "fptoui", "sitofp", "uitofp", "inttoptr", "ptrtoint"]


def cast(instruction: Any, domain: Domain) -> Function:
    """The function for a conversion to another type."""
    name, source, target = instruction.opname, element(instruction.operands[0].type), element(instruction.type)
    sign, mask = signed(width(source)), (1 << width(target)) - 1
    if source == I1:  # may be undecided
        number = -1 if name in ("sext", "sitofp") else 1
        one, zero = (domain.integer(n, target) if is_float(target) else n & mask for n in (number, 0))
        return lambda a: selected(domain, a, one, zero)
    table: dict[str, Function] = {
        "trunc": (lambda a: (a & 1) == 1) if target == I1 else lambda a: a & mask,
        "sext": lambda a: sign(a) & mask,
        "fpext": lambda a: domain.cast(a, target),
        "fptrunc": lambda a: domain.cast(a, target),
        "fptosi": lambda a: _ranged(domain.truncated(a), width(target), True),
        "fptoui": lambda a: _ranged(domain.truncated(a), width(target), False),
        "sitofp": lambda a: domain.integer(sign(a), target),
        "uitofp": lambda a: domain.integer(a, target),
    }
    return table.get(name, lambda a: a)


def _ranged(number: int, bits: int, is_signed: bool) -> int:
    least = -(1 << bits - 1) if is_signed else 0
    if not 0 <= number - least < 1 << bits:
        raise Fault(f"a number is made the integer {number} of {bits} bits")
    return number & (1 << bits) - 1


# whole operands


def selected(domain: Domain, condition: Any, one: Any, other: Any) -> Any:
    """`one` if the condition holds, else `other`."""
    if condition is True:
        return one
    if condition is False:
        return other
    return UNDEFINED if condition is UNDEFINED else domain.select(condition, one, other)


def select(instruction: Any, domain: Domain) -> Function:
    """The function for select, with one condition, or with one per lane."""
    choose = functools.partial(selected, domain)
    if is_vector(instruction.cond.type):
        return lambda where, one, other: [
            a if c is True else b if c is False else choose(c, a, b) for c, a, b in zip(where, one, other, strict=True)
        ]
    if not is_vector(instruction.type):
        return choose
    return lambda condition, one, other: [choose(condition, a, b) for a, b in zip(one, other, strict=True)]


def shuffle(instruction: Any, domain: Domain) -> Function:
    """The function for shufflevector: lanes of two vectors."""
    places = [place.constant for place in instruction.operands[2].constant]
    return lambda one, two, _: [(one + two)[place] for place in places]


def insert(instruction: Any, domain: Domain) -> Function:
    """The function for insertelement: a vector with one lane replaced."""
    return lambda vector, number, place: [*vector[:place], number, *vector[place + 1 :]]


def bitcast(instruction: Any, domain: Domain) -> Function:
    """The function for bitcast: the same bits in another type; the first lane has the lowest
    bits."""
    given, made = instruction.operands[0].type, instruction.type
    source, target = element(given), element(made)

    def bits(a: Any) -> int:
        return domain.bits(a, source) if is_float(source) else selected(domain, a, 1, 0) if source == I1 else a

    def number(word: int) -> Any:
        return domain.from_bits(word, target) if is_float(target) else bool(word) if target == I1 else word

    if source == target:
        return lambda a: a
    if width(source) == width(target):
        return in_lanes(careful(lambda a: number(bits(a)), 1), instruction)
    wide, narrow, count = width(source), width(target), made.count if is_vector(made) else 1
    made_of = careful(number, 1)

    def repacked(a: Any) -> Any:
        whole = sum(bits(lane) << i * wide for i, lane in enumerate(a if is_vector(given) else [a]))
        lanes = [made_of(whole >> i * narrow & (1 << narrow) - 1) for i in range(count)]
        return lanes if is_vector(made) else lanes[0]

    return repacked


def offset(instruction: Any, domain: Domain) -> Function:
    """The function for getelementptr: an address plus a number of cells."""
    (index,) = instruction.indices
    size, sign = access(instruction.source_etype).length, signed(width(index.type))
    return lambda address, cells: address + sign(cells) * size & (1 << 64) - 1


def reduction(instruction: Any, domain: Domain) -> Function:
    """The function for a reduction of integers, from the first lane to the last."""
    one = integer(name_of(instruction).removeprefix(REDUCE), width(instruction.type))
    assert one is not None
    function = careful(one, 2)
    return lambda lanes: functools.reduce(function, lanes)


WHOLE: dict[str, Callable[[Any, Domain], Function]] = {
    "select": select,
    "shufflevector": shuffle,
    "insertelement": insert,
    "extractelement": lambda instruction, domain: operator.getitem,
    "bitcast": bitcast,
    "getelementptr": offset,
    **dict.fromkeys(("llvm.prefetch", "llvm.assume"), lambda instruction, domain: lambda *given: None),
}
"""The functions of instructions that do not work lane by lane."""
