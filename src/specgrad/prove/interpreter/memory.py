"""The memory of an interpreted kernel: separate allocations, and for every byte the type of the
cell that begins there, if one does.

Comparing these bytes with an access's pattern checks bounds, types, and that the cells were
written. A vector may have unwritten lanes (a loop's last vector goes beyond a row of scratch). Such
lanes are undefined, and no result may depend on them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ...engines.cpu.codegen.values import ADDRESS, F16, F32, F64, I8, I16, I32, I64

SIZES = {I8: 1, I16: 2, I32: 4, I64: 8, F16: 2, F32: 4, F64: 8, ADDRESS: 8}
"""The size in bytes of a cell of each type."""

UNINITIALISED, INSIDE = 0, 255
"""The marks of bytes in which no cell begins: not written, or inside of a cell. A cell's first byte
has the number of its type."""

NUMBERS = {kind: number for number, kind in enumerate(SIZES, 1)}
KINDS = {bytes([number, *[INSIDE] * (SIZES[kind] - 1)]): kind for kind, number in NUMBERS.items()}
"""The type of a cell, by the marks of its bytes."""

ROOM = 40
"""Allocations are 2**ROOM bytes apart, so that a wrong index does not lead from one into
another."""


class Fault(Exception):
    """An error of the kernel; the message says what, and the interpreter adds the instruction."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.where = what, ""

    def __str__(self) -> str:
        return self.what + self.where


class Undecided(Fault):
    """The kernel needs something that its domain does not decide: the bits of a number, or the
    outcome of a comparison."""


class _Undefined:
    """An unspecified number: LLVM's undef and poison, and unwritten memory.

    Every result computed from it is undefined. A branch, an address or a result that depends on it
    is a fault.
    """

    __array_ufunc__ = None  # NumPy's numbers then leave the operators to this class
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
    """The bytes of a load or a store: consecutive cells of one type."""

    kind: Any
    size: int
    length: int
    pattern: bytes
    touched: bytes
    align: int
    vector: bool


@functools.cache
def access(kind: Any, align: int | None = None) -> Access:
    """The access of an LLVM type, a number or a vector; `align` defaults to the type's size."""
    vector = isinstance(kind, ir.VectorType)
    cell, count = (kind.element, kind.count) if vector else (kind, 1)
    if cell not in SIZES:
        raise NotImplementedError(f"memory holds no cells of type {cell}")
    size = SIZES[cell]
    pattern = bytes([NUMBERS[cell], *[INSIDE] * (size - 1)]) * count
    return Access(cell, size, size * count, pattern, b"\1" * (size * count), align or size * count, vector)


class Allocation:
    """One array, or the scratch of one task: its cells, and the bytes that a task has read and
    written."""

    def __init__(self, name: str, base: int, size: int, writable: bool) -> None:
        self.name, self.address, self.size, self.writable = name, base, size, writable
        self.begins, self.values = bytearray(size), [UNDEFINED] * size
        self.read, self.written = bytearray(size), bytearray(size)

    def fill(self, kind: Any, cells: Iterable[Any]) -> None:
        """Set all cells."""
        self.values[:: SIZES[kind]] = cells
        self.begins[:] = access(kind).pattern * (self.size // SIZES[kind])

    def cells(self, kind: Any) -> list[Any]:
        """All cells, as numbers of this type; raises Fault if a cell was not written."""
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
        """Mark the cell around this byte as not written, if there is one: a store has overwritten a
        part of it."""
        if 0 < byte < self.size and self.begins[byte] == INSIDE:
            first, last = byte, byte
            while self.begins[first] == INSIDE:
                first -= 1
            while last < self.size and self.begins[last] == INSIDE:
                last += 1
            self.begins[first:last] = bytes(last - first)


class Task(NamedTuple):
    """The result of one task: its flags, and for every writable allocation the bytes read and
    written, as bit sets."""

    flags: int
    read: dict[str, int]
    written: dict[str, int]


class Memory:
    """The allocations of a kernel, whose floating-point cells belong to `domain`."""

    def __init__(self, domain: Any) -> None:
        self.domain = domain
        self.allocations: dict[int, Allocation] = {}

    def allocate(self, name: str, size: int, writable: bool = True, align: int = 64) -> Allocation:
        """Uninitialised bytes, aligned to exactly `align` bytes."""
        number = len(self.allocations) + 1
        made = self.allocations[number] = Allocation(name, (number << ROOM) + (1 << ROOM - 1) + align, size, writable)
        return made

    def array(self, name: str, kind: Any, cells: Iterable[Any], writable: bool = False) -> Allocation:
        """An array with these numbers, aligned to one cell."""
        if isinstance(kind, ir.IntType):
            numbers: list[Any] = [int(cell) & (1 << kind.width) - 1 for cell in cells]
        else:
            numbers = [self.domain.constant(cell, kind) for cell in cells]
        made = self.allocate(name, len(numbers) * SIZES[kind], writable, SIZES[kind])
        made.fill(kind, numbers)
        return made

    def release(self) -> None:
        """Free the last allocation."""
        self.allocations.popitem()

    def load(self, address: int, access: Access) -> Any:
        """The cell, or the list of cells, at an address."""
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
        """Write a cell, or a list of cells, at an address."""
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
        """Raise a fault if the access is out of bounds, misaligned, or a store to a read-only
        allocation."""
        what = f"{word} of {access.length} bytes at byte {offset} of {where.name} ({where.size} bytes): "
        if offset < 0 or offset + access.length > where.size:
            raise Fault(what + "out of bounds")
        if (where.address + offset) % access.align:
            raise Fault(f"{what}not aligned to {access.align}")
        if word == "store" and not where.writable:
            raise Fault(what + "it may only be read")

    def _lanes(self, where: Allocation, offset: int, access: Access) -> Any:
        """A load in which some cells are not written, or have another type of the same size, whose
        bits the domain may know."""
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
        """Clear the record of reads and writes."""
        for one in self.allocations.values():
            if one.writable:
                one.read, one.written = bytearray(one.size), bytearray(one.size)

    def record(self, flags: int) -> Task:
        """The bytes read and written since `begin`."""
        shared = [one for one in self.allocations.values() if one.writable]
        read, written = ({o.name: int.from_bytes(getattr(o, w), "little") for o in shared} for w in ("read", "written"))
        return Task(flags, read, written)


def reinterpret(domain: Any, value: Any, source: Any, target: Any) -> Any:
    """The number of type `target` with the bits of this number of type `source`."""
    if source == target or (isinstance(source, ir.IntType) and isinstance(target, ir.IntType)):
        return value
    bits = value if not is_float(source) else domain.bits(value, source)
    return domain.from_bits(bits, target) if is_float(target) else bits


def is_float(kind: Any) -> bool:
    """Whether an LLVM type is a floating-point type."""
    return kind in (F16, F32, F64)


def disjoint(tasks: Sequence[Task]) -> None:
    """Raise a fault if one task reads or writes a byte that another task writes: tasks may run in
    parallel."""
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
