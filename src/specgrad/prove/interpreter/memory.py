"""The memory of an interpreted kernel: separate allocations, and for every byte whether a cell
begins there and of what type.

One comparison of those bytes with what an access expects checks its bounds, its types, and that its
cells were written. A vector may have lanes that were not (a loop's last one goes beyond a row of
scratch): these are undefined, and nothing may depend on them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ...engines.cpu.codegen.builder import ADDRESS, F16, F32, F64, I8, I16, I32, I64

SIZES = {I8: 1, I16: 2, I32: 4, I64: 8, F16: 2, F32: 4, F64: 8, ADDRESS: 8}
"""Bytes of a cell of each type that memory holds."""

UNINITIALISED, INSIDE = 0, 255
"""What a byte is in which no cell begins: of no cell yet, or a further byte of one. A cell's first
byte has its type's number."""

NUMBERS = {kind: number for number, kind in enumerate(SIZES, 1)}
KINDS = {bytes([number, *[INSIDE] * (SIZES[kind] - 1)]): kind for kind, number in NUMBERS.items()}
"""The type of a cell, by its bytes."""

ROOM = 40
"""Allocations are 2**ROOM bytes apart: no index that is merely wrong leads from one into
another."""


class Fault(Exception):
    """The kernel did what it must not do; says what, and the interpreter adds where."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.where = what, ""

    def __str__(self) -> str:
        return self.what + self.where


class Undecided(Fault):
    """The kernel needs what its domain of scalars cannot tell: the bits of a number, or the outcome
    of a comparison."""


class _Undefined:
    """A number that may be any: undef and poison of LLVM, and what lies in memory that was not
    written.

    What is computed of it is undefined too. It is a fault where something depends on it: a branch,
    an address, a result.
    """

    __array_ufunc__ = None  # NumPy's numbers leave their operators to this one's
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "an undefined value"

    def _same(self, *_: Any) -> _Undefined:
        return self

    def __or__(self, other: Any) -> Any:
        return other if other is True else self

    def __and__(self, other: Any) -> Any:
        return other if other is False else self

    def __bool__(self) -> bool:
        raise Fault("something depends on an undefined value")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __abs__ = (
        _same
    )
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __floordiv__ = __mod__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _same  # type: ignore[assignment]
    __ror__, __rand__ = __or__, __and__


UNDEFINED = _Undefined()


class Access(NamedTuple):
    """What a load or a store of one instruction touches: cells of one type, side by side."""

    kind: Any
    size: int
    length: int
    pattern: bytes
    touched: bytes
    align: int
    vector: bool


@functools.cache
def access(kind: Any, align: int | None = None) -> Access:
    """Of an LLVM type: a number or a vector of numbers; without an alignment it is the type's
    own."""
    vector = isinstance(kind, ir.VectorType)
    cell, count = (kind.element, kind.count) if vector else (kind, 1)
    if cell not in SIZES:
        raise NotImplementedError(f"memory holds no cells of type {cell}")
    size = SIZES[cell]
    pattern = bytes([NUMBERS[cell], *[INSIDE] * (size - 1)]) * count
    return Access(cell, size, size * count, pattern, b"\1" * (size * count), align or size * count, vector)


class Allocation:
    """One array, or the scratch of one task: its cells, and which of its bytes a task has read and
    written."""

    def __init__(self, name: str, base: int, size: int, writable: bool) -> None:
        self.name, self.address, self.size, self.writable = name, base, size, writable
        self.begins, self.values = bytearray(size), [UNDEFINED] * size
        self.read, self.written = bytearray(size), bytearray(size)

    def fill(self, kind: Any, cells: Iterable[Any]) -> None:
        """Let it hold these cells from its first byte on."""
        self.values[:: SIZES[kind]] = cells
        self.begins[:] = access(kind).pattern * (self.size // SIZES[kind])

    def cells(self, kind: Any) -> list[Any]:
        """All its cells, which must have been written, as numbers of this type."""
        size = SIZES[kind]
        expected = access(kind).pattern * (self.size // size)
        if self.begins != expected:
            byte = next(i for i, (one, other) in enumerate(zip(self.begins, expected, strict=True)) if one != other)
            raise Fault(f"{self.name}: no {kind} was written at byte {byte} (cell {byte // size}) of {self.size}")
        for cell, value in enumerate(self.values[::size]):
            if value is UNDEFINED:
                raise Fault(f"{self.name}: cell {cell} is undefined")
        return self.values[::size]

    def cut(self, byte: int) -> None:
        """Forget the cell that this byte lies inside of, if any: what is stored before or behind it
        does not end where it does."""
        if 0 < byte < self.size and self.begins[byte] == INSIDE:
            first, last = byte, byte
            while self.begins[first] == INSIDE:
                first -= 1
            while last < self.size and self.begins[last] == INSIDE:
                last += 1
            self.begins[first:last] = bytes(last - first)


class Task(NamedTuple):
    """What one task left: its flags, and the bytes that it read and wrote of every writable
    allocation, as sets of bits."""

    flags: int
    read: dict[str, int]
    written: dict[str, int]


class Memory:
    """The allocations that a kernel may touch. `domain` says what their floating-point cells
    are."""

    def __init__(self, domain: Any) -> None:
        self.domain = domain
        self.allocations: dict[int, Allocation] = {}

    def allocate(self, name: str, size: int, writable: bool = True, align: int = 64) -> Allocation:
        """Uninitialised bytes, aligned to `align` bytes and to no more."""
        number = len(self.allocations) + 1
        made = self.allocations[number] = Allocation(name, (number << ROOM) + (1 << ROOM - 1) + align, size, writable)
        return made

    def array(self, name: str, kind: Any, cells: Iterable[Any], writable: bool = False) -> Allocation:
        """An array of these numbers, aligned to one cell."""
        if isinstance(kind, ir.IntType):
            numbers: list[Any] = [int(cell) & (1 << kind.width) - 1 for cell in cells]
        else:
            numbers = [self.domain.constant(cell, kind) for cell in cells]
        made = self.allocate(name, len(numbers) * SIZES[kind], writable, SIZES[kind])
        made.fill(kind, numbers)
        return made

    def release(self) -> None:
        """Give back the allocation that was made last."""
        self.allocations.popitem()

    def load(self, address: int, access: Access) -> Any:
        """The cell, or the list of cells, that an instruction reads."""
        where, offset = self._place(address)
        end = offset + access.length
        if offset < 0 or address % access.align or where.begins[offset:end] != access.pattern:
            self._check("load", where, offset, access)
            values = self._lanes(where, offset, access)
        else:
            values = where.values[offset : end : access.size] if access.vector else where.values[offset]
        if where.writable:
            where.read[offset:end] = access.touched
        return values

    def store(self, address: int, access: Access, value: Any) -> None:
        """Write a cell, or a list of cells."""
        where, offset = self._place(address)
        end = offset + access.length
        if offset < 0 or end > where.size or address % access.align or not where.writable:
            self._check("store", where, offset, access)
        begins = where.begins
        if begins[offset] == INSIDE:
            where.cut(offset)
        if end < where.size and begins[end] == INSIDE:
            where.cut(end)
        begins[offset:end], where.written[offset:end] = access.pattern, access.touched
        if access.vector:
            where.values[offset : end : access.size] = value
        else:
            where.values[offset] = value

    def _place(self, address: Any) -> tuple[Allocation, int]:
        if address is UNDEFINED:
            raise Fault("an address is undefined")
        where = self.allocations.get(address >> ROOM)
        if where is None:
            raise Fault(f"address {address:#x} lies in no allocation")
        return where, address - where.address

    def _check(self, word: str, where: Allocation, offset: int, access: Access) -> None:
        """Raise a fault if the access is out of bounds, misaligned, or a store to an operand."""
        what = f"{word} of {access.length} bytes at byte {offset} of {where.name} ({where.size} bytes): "
        if offset < 0 or offset + access.length > where.size:
            raise Fault(what + "out of bounds")
        if (where.address + offset) % access.align:
            raise Fault(f"{what}not aligned to {access.align}")
        if word == "store" and not where.writable:
            raise Fault(what + "it may only be read")

    def _lanes(self, where: Allocation, offset: int, access: Access) -> Any:
        """Cells that are not all what is read: some not written, or of another type of the same
        size, whose bits the domain may know."""
        cells: list[Any] = []
        for byte in range(offset, offset + access.length, access.size):
            begins = where.begins[byte : byte + access.size]
            if UNINITIALISED in begins:
                cells.append(UNDEFINED)
                continue
            kind = KINDS.get(bytes(begins))
            if kind is None:
                raise Fault(f"load of {access.kind} at byte {byte} of {where.name}: a cell of another size")
            cells.append(reinterpret(self.domain, where.values[byte], kind, access.kind))
        if all(cell is UNDEFINED for cell in cells):
            raise Fault(f"load of {access.length} bytes at byte {offset} of {where.name}: uninitialised")
        return cells if access.vector else cells[0]

    def begin(self) -> None:
        """Record reads and writes anew."""
        for one in self.allocations.values():
            if one.writable:
                one.read, one.written = bytearray(one.size), bytearray(one.size)

    def record(self, flags: int) -> Task:
        """What was read and written since the task began."""
        shared = [one for one in self.allocations.values() if one.writable]
        read, written = ({o.name: int.from_bytes(getattr(o, w), "little") for o in shared} for w in ("read", "written"))
        return Task(flags, read, written)


def reinterpret(domain: Any, value: Any, source: Any, target: Any) -> Any:
    """The number of type `target` that has the bits of this number of type `source`."""
    if source == target or (isinstance(source, ir.IntType) and isinstance(target, ir.IntType)):
        return value
    bits = value if not is_float(source) else domain.bits(value, source)
    return domain.from_bits(bits, target) if is_float(target) else bits


def is_float(kind: Any) -> bool:
    """Whether an LLVM type is one of floating-point numbers."""
    return kind in (F16, F32, F64)


def disjoint(tasks: Sequence[Task]) -> None:
    """Raise a fault where one task reads or writes a byte that another one writes: they may run at
    the same time."""
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    for number, task in enumerate(tasks):
        for name in task.written:
            before, seen = written.get(name, 0), read.get(name, 0)
            met = task.written[name] & (before | seen) | task.read[name] & before
            if met:
                byte = ((met & -met).bit_length() - 1) // 8
                raise Fault(f"{name}: task {number} and an earlier one meet at byte {byte}, which one of them writes")
            written[name], read[name] = before | task.written[name], seen | task.read[name]
