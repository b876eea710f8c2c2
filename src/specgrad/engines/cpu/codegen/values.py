"""What kernels compute with: types of cells, values and pointers, whose arithmetic emits LLVM
instructions of a `builder.Kernel`, and constants."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
FLOATS = F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
ADDRESS = ir.PointerType()


class Cell(NamedTuple):
    """The type of an array's cells: how they lie in memory, and how they are computed with."""

    name: str
    stored: Any
    computed: Any
    signed: bool = True

    @property
    def size(self) -> int:
        """Bytes of a cell in memory."""
        return np.dtype(self.name).itemsize if self.name != "bfloat16" else 2

    @property
    def is_float(self) -> bool:
        """Whether cells are floating-point numbers."""
        return self.computed in (F32, F64)


CELLS = {
    cell.name: cell
    for cell in (
        Cell("float64", F64, F64),
        Cell("float32", F32, F32),
        Cell("float16", F16, F32),
        Cell("bfloat16", I16, F32),
        *(Cell(f"int{bits}", ir.IntType(bits), ir.IntType(bits)) for bits in (8, 16, 32, 64)),
        *(Cell(f"uint{bits}", ir.IntType(bits), ir.IntType(bits), False) for bits in (8, 16, 32, 64)),
    )
}
WORD = CELLS["int64"]

Number = Any
"""A Python number (a constant of the kernel) or a :class:`Value`."""


class Value:
    """A number or a vector of numbers that the kernel computes; arithmetic emits instructions."""

    __slots__ = ("kernel", "signed", "value")

    def __init__(self, kernel: Any, value: Any, signed: bool = True) -> None:
        self.kernel, self.value, self.signed = kernel, value, signed

    @property
    def type(self) -> Any:
        """The LLVM type."""
        return self.value.type

    @property
    def lanes(self) -> int:
        """How many numbers it is; 0 of one that is no vector."""
        return self.type.count if isinstance(self.type, ir.VectorType) else 0

    @property
    def element(self) -> Any:
        """The LLVM type of one number."""
        return self.type.element if self.lanes else self.type

    @property
    def is_float(self) -> bool:
        """Whether it holds floating-point numbers."""
        return self.element in FLOATS

    def _with(self, other: Number) -> Any:
        """The other operand, as an LLVM value of this type."""
        if isinstance(other, Value):
            return (self.kernel.splat(other, self.lanes) if self.lanes and not other.lanes else other).value
        return constant(self.type, other)

    def _made(self, value: Any) -> Value:
        return Value(self.kernel, value, self.signed)

    def _emit(self, name: str, other: Number, swap: bool = False) -> Value:
        """An instruction of this value and another one, by llvmlite's name for integers."""
        pair = self.value, self._with(other)
        name = "f" + name if self.is_float else name
        return self._made(self.kernel.once(name, *(pair[::-1] if swap else pair)))

    def __add__(self, other: Number) -> Value:
        return self if is_number(other, 0) and not self.is_float else self._emit("add", other)

    __radd__ = __add__

    def __sub__(self, other: Number) -> Value:
        return self if is_number(other, 0) else self._emit("sub", other)

    def __rsub__(self, other: Number) -> Value:
        return self._emit("sub", other, swap=True)

    def __mul__(self, other: Number) -> Number:
        if not self.is_float and is_number(other, 0):
            return 0
        return self if is_number(other, 1) else self._emit("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Value:
        return self._emit("div", other)

    def __floordiv__(self, other: Number) -> Value:
        """Of integers that are not negative."""
        return self if is_number(other, 1) else self._emit("udiv", other)

    def __mod__(self, other: Number) -> Number:
        """Of integers that are not negative."""
        return 0 if is_number(other, 1) else self._emit("urem", other)

    def __and__(self, other: Number) -> Value:
        return self._emit("and_", other)

    def __or__(self, other: Number) -> Value:
        return self._emit("or_", other)

    def __xor__(self, other: Number) -> Value:
        return self._emit("xor", other)

    def __lshift__(self, bits: int) -> Value:
        return self._emit("shl", bits)

    def __rshift__(self, bits: int) -> Value:
        """Zeros come in."""
        return self._emit("lshr", bits)

    def __invert__(self) -> Value:
        return self._made(self.kernel.once("not_", self.value))

    def __neg__(self) -> Value:
        return self._made(self.kernel.once("fneg" if self.is_float else "neg", self.value))

    def _compared(self, sign: str, other: Number) -> Value:
        compare = "icmp_signed" if self.signed else "icmp_unsigned"
        if self.is_float:
            compare = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
        return Value(self.kernel, self.kernel.once(compare, sign, self.value, self._with(other)))

    def __lt__(self, other: Number) -> Value:
        return self._compared("<", other)

    def __le__(self, other: Number) -> Value:
        return self._compared("<=", other)

    def __gt__(self, other: Number) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: Number) -> Value:
        return self._compared(">=", other)

    def equals(self, other: Number) -> Value:
        """Where both are equal (of floats: and neither is NaN)."""
        return self._compared("==", other)

    def differs(self, other: Number) -> Value:
        """Where they are not equal (of floats: or one is NaN)."""
        return self._compared("!=", other)

    def __bool__(self) -> bool:
        raise TypeError("a value of a kernel has no truth value while the kernel is emitted")


class Pointer:
    """Where cells of one type lie."""

    __slots__ = ("address", "cell", "kernel")

    def __init__(self, kernel: Any, address: Any, cell: Cell) -> None:
        self.kernel, self.address, self.cell = kernel, address, cell

    def __add__(self, cells: Number) -> Pointer:
        """So many cells further on."""
        if is_number(cells, 0):
            return self
        index = self.kernel.integer(cells).value
        address = self.kernel.once("gep", self.address, [index], source_etype=self.cell.stored)
        return Pointer(self.kernel, address, self.cell)


class Loop:
    """A loop being emitted: its index, the carried values, and what they become (`next`) and became
    (`result`)."""

    def __init__(self, index: Value, values: list[Value]) -> None:
        self.index, self.values = index, values
        self.next: list[Any] = list(values)
        self.result: list[Value] = []


def is_number(one: Any, number: int) -> bool:
    """Whether this is a constant of that number."""
    return isinstance(one, int) and one == number


def constant(kind: Any, number: Any) -> Any:
    """A number as a constant of an LLVM type, in every lane."""
    if isinstance(kind, ir.VectorType):
        return _vector(kind.element, (number_of(kind.element, number),) * kind.count)
    return _scalar(kind, number_of(kind, number))


def integers(kind: Any, numbers: Iterable[int]) -> Any:
    """A constant vector."""
    return _vector(kind, tuple(map(int, numbers)))


def number_of(kind: Any, number: Any) -> int | str:
    """A number of a type such that equal ones have the same bits."""
    return float(number).hex() if kind in FLOATS else int(number)


@functools.lru_cache(1 << 10)  # llvmlite prints each object once; most of a kernel is constants
def _scalar(kind: Any, number: int | str) -> Any:
    return ir.Constant(kind, float.fromhex(number) if isinstance(number, str) else number)


@functools.lru_cache(1 << 10)
def _vector(kind: Any, numbers: tuple[int | str, ...]) -> Any:
    return ir.Constant(ir.VectorType(kind, len(numbers)), [_scalar(kind, number) for number in numbers])


def spelled(one: Any) -> Any:
    """What tells an operand of an instruction from others."""
    if isinstance(one, (ir.Constant, ir.Type)):
        return str(one)
    return tuple(map(spelled, one)) if isinstance(one, list) else one if isinstance(one, str) else id(one)
