"""A small language for kernels over llvmlite: integers, vectors, pointers, loops. It is independent
of windows and threads.

An emitter is a Python function that takes a :class:`Kernel` and calls its methods; the result is
one LLVM function

    task(args, begin, end, scratch) -> flags

`args` points to 64-bit integers (addresses and sizes, in the order in which the emitter declared
them), the task computes the items from begin to end, and `scratch` is its own memory. Python
numbers are constants of the kernel and are folded while it is emitted; a :class:`Value` is known
only when the kernel runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from llvmlite import ir

from .values import (
    ADDRESS,
    F32,
    FLOATS,
    I1,
    I8,
    I16,
    I32,
    I64,
    Cell,
    Loop,
    Number,
    Pointer,
    Value,
    constant,
    integers,
    spelled,
)


class Kernel:
    """One task function being emitted."""

    def __init__(self, name: str, vector: int = 64) -> None:
        self.module = ir.Module(name)
        kind = ir.FunctionType(I64, [ADDRESS, I64, I64, ADDRESS])
        self.function = ir.Function(self.module, kind, "task")
        for argument, word in zip(self.function.args, ("args", "begin", "end", "scratch"), strict=True):
            argument.name = word
        for place in (0, 3):
            self.function.args[place].add_attribute("noalias")
        self.entry = self.function.append_basic_block("entry")
        self.builder = ir.IRBuilder(self.entry)
        self.parameters: list[str] = []
        self.scratch = 0
        self.vector = vector
        self._args, begin, end, self._scratch = self.function.args
        self.begin, self.end = Value(self, begin), Value(self, end)
        self._known: list[dict[Any, Any]] = [{}]  # of each block that is open, instructions by what they compute
        self.beta: Any = None
        """The inverse temperature of exponentials, where there are some."""

    def once(self, name: str, *given: Any, **options: Any) -> Any:
        """An instruction without effects, by llvmlite's name; or the same one from before, if there
        is one in this block or in those around it."""
        key = name, *map(spelled, given), *map(spelled, options.values())
        for known in reversed(self._known):
            if key in known:
                return known[key]
        one = self._known[-1][key] = getattr(self.builder, name)(*given, **options)
        return one

    # arguments and memory

    def parameter(self, name: str) -> Value:
        """The next of the arguments, an integer."""
        self.parameters.append(name)
        place = self.builder.gep(self._args, [I64(len(self.parameters) - 1)], source_etype=I64)
        return Value(self, self.builder.load(place, typ=I64, name=name))

    def sizes(self, names: str) -> Any:
        """The next of the arguments, integers, by their names."""
        return SimpleNamespace(**{name: self.parameter(name) for name in names.split()})

    def array(self, name: str, cell: Cell) -> Pointer:
        """The next of the arguments, the address of cells."""
        address = self.builder.inttoptr(self.parameter(name).value, ADDRESS)
        return Pointer(self, address, cell)

    def room(self, cells: int, cell: Cell) -> Pointer:
        """Scratch for so many cells (a constant), from a cache line on."""
        place = self.builder.gep(self._scratch, [I64(self.scratch)], source_etype=I8)
        self.scratch += -(-cells * cell.size // 64) * 64
        return Pointer(self, place, cell)

    # numbers and vectors

    def integer(self, number: Number) -> Value:
        """A number as a 64-bit integer of the kernel."""
        return number if isinstance(number, Value) else Value(self, I64(number))

    def number(self, cell: Cell, number: Any, lanes: int = 0) -> Value:
        """A constant in the type in which these cells are computed with."""
        kind = ir.VectorType(cell.computed, lanes) if lanes else cell.computed
        return Value(self, constant(kind, number), cell.signed)

    def iota(self, lanes: int, kind: Any = I64, step: int = 1) -> Value:
        """0, step, 2 step, …"""
        return Value(self, integers(kind, range(0, step * lanes, step)))

    def splat(self, one: Value, lanes: int) -> Value:
        """A number in every lane."""
        vector = ir.VectorType(one.type, lanes)
        if isinstance(one.value, ir.Constant):
            return Value(self, ir.Constant(vector, [one.value] * lanes), one.signed)
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.once("insert_element", undefined, one.value, I32(0))
        return Value(self, self.once("shuffle_vector", first, undefined, integers(I32, [0] * lanes)), one.signed)

    def shuffle(self, one: Value, two: Value, places: Sequence[int]) -> Value:
        """The lanes at these places of both vectors one after the other."""
        return Value(self, self.once("shuffle_vector", one.value, two.value, integers(I32, places)), one.signed)

    def lane(self, vector: Value, place: int) -> Value:
        """One number of a vector."""
        return Value(self, self.once("extract_element", vector.value, I32(place)), vector.signed)

    def select(self, where: Value, one: Any, other: Any) -> Any:
        """One where it holds, else the other: numbers, vectors or pointers."""
        if isinstance(one, Pointer):
            return Pointer(self, self.once("select", where.value, one.address, other.address), one.cell)
        if not isinstance(one, Value):
            one = Value(self, constant(other.type, one), other.signed)
        return Value(self, self.once("select", where.value, one.value, one._with(other)), one.signed)

    def least(self, one: Number, other: Number) -> Number:
        """The lesser of two integers."""
        if isinstance(one, int) and isinstance(other, int):
            return min(one, other)
        one, other = self.integer(one), self.integer(other)
        return self.select(one < other, one, other)

    def most(self, one: Number, other: Number) -> Number:
        """The greater of two integers."""
        if isinstance(one, int) and isinstance(other, int):
            return max(one, other)
        one, other = self.integer(one), self.integer(other)
        return self.select(one > other, one, other)

    def call(self, name: str, kind: Any, *given: Value) -> Value:
        """An intrinsic of LLVM; `{}` in its name becomes the type of its first operand."""
        first = given[0]
        name = name.format((f"v{first.lanes}" if first.lanes else "") + first.element.intrinsic_name)
        function = self._intrinsic(name, kind, *given)
        return Value(self, self.once("call", function, [g.value for g in given]), first.signed)

    def _intrinsic(self, name: str, kind: Any, *given: Any) -> Any:
        return self.module.declare_intrinsic(name, fnty=ir.FunctionType(kind, [g.type for g in given]))

    def cast(self, value: Value, kind: Any, signed: bool | None = None) -> Value:
        """The same numbers in another type (integers widen by their sign, or are cut; floats are
        rounded)."""
        signed = value.signed if signed is None else signed
        if value.element == kind:
            return Value(self, value.value, signed)
        target = ir.VectorType(kind, value.lanes) if value.lanes else kind
        if value.is_float and kind in FLOATS:
            widens = FLOATS.index(kind) > FLOATS.index(value.element)
            name = "fpext" if widens else "fptrunc"
        elif value.is_float:
            name = "fptosi" if signed else "fptoui"
        elif kind in FLOATS:
            name = "sitofp" if value.signed else "uitofp"
        elif kind.width < value.element.width:
            name = "trunc"
        else:
            name = "sext" if value.signed and value.element is not I1 else "zext"
        return Value(self, self.once(name, value.value, target), signed)

    def bits(self, value: Value, kind: Any) -> Value:
        """The same bits as numbers of another type of that width."""
        target = ir.VectorType(kind, value.lanes) if value.lanes else kind
        return Value(self, self.once("bitcast", value.value, target))

    def is_negative_zero(self, value: Value) -> Value:
        """Where floats are -0.0."""
        word = I32 if value.element == F32 else I64
        return self.bits(value, word).equals(-1 << (word.width - 1))

    # loads and stores

    def load(self, source: Pointer, index: Number = 0, lanes: int = 0) -> Value:
        """A cell, or a vector of cells side by side, as it is computed with."""
        place, cell = source + index, source.cell
        kind = ir.VectorType(cell.stored, lanes) if lanes else cell.stored
        loaded = self.builder.load(place.address, typ=kind, align=cell.size)
        return self._widened(Value(self, loaded, cell.signed), cell)

    def store(self, value: Value, target: Pointer, index: Number = 0) -> None:
        """Write a cell, or a vector of cells side by side."""
        place, cell = target + index, target.cell
        self.builder.store(self._rounded(value, cell).value, place.address, align=cell.size)

    def _widened(self, loaded: Value, cell: Cell) -> Value:
        if cell.name == "bfloat16":
            return self.bits(self.cast(loaded, I32) << 16, F32)
        return self.cast(loaded, cell.computed, cell.signed)

    def _rounded(self, value: Value, cell: Cell) -> Value:
        if cell.name != "bfloat16":
            return self.cast(value, cell.stored)
        word = self.bits(value, I32)  # to the nearest, ties to even; a NaN keeps its upper half, and stays one
        upper = word >> 16
        nearest = (word + (upper & 1) + 0x7FFF) >> 16
        return self.cast(self.select(value.differs(value), upper | 0x40, nearest), I16)

    def strided(self, source: Pointer, index: Number, stride: int, lanes: int, lead: int = 0) -> Value:
        """Cells `stride` apart from `index` on. Cells between them are read too, up to `lead` (<
        stride) of them before the first and the other stride - 1 - lead behind the last."""
        if stride == 1:
            return self.load(source, index, lanes)
        wide = self.load(source, index - lead if lead else index, lanes * stride)
        return self.shuffle(wide, wide, range(lead, lanes * stride, stride))

    def store_strided(self, value: Value, target: Pointer, index: Number, stride: int) -> None:
        """Write the cells of a vector `stride` apart, and none between them."""
        if stride == 1:
            self.store(value, target, index)
            return
        places = range(value.lanes * stride)
        wide = self._rounded(self.shuffle(value, value, [place // stride for place in places]), target.cell).value
        mask = integers(I1, [place % stride == 0 for place in places])
        name = f"llvm.masked.store.v{len(places)}{wide.type.element.intrinsic_name}.p0"
        given = wide, (target + index).address, I32(target.cell.size), mask
        self.builder.call(self._intrinsic(name, ir.VoidType(), *given), given)

    def prefetch(self, source: Pointer, index: Number = 0) -> None:
        """Ask for the cache line of a cell, which need not exist."""
        given = (source + index).address, I32(0), I32(3), I32(1)
        self.builder.call(self._intrinsic("llvm.prefetch.p0", ir.VoidType(), *given), given)

    # control

    @contextlib.contextmanager
    def loop(self, start: Number, stop: Number, step: Number = 1, carried: Sequence[Any] = ()) -> Iterator[Loop]:
        """for index in range(start, stop, step), with values that are carried from turn to turn."""
        b, before = self.builder, self.builder.block
        body, after = (self.function.append_basic_block(word) for word in ("body", "after"))
        first, last, by = (self.integer(n) for n in (start, stop, step))
        values = [value if isinstance(value, Value) else self.integer(value) for value in carried]
        b.cbranch((first < last).value, body, after)
        b.position_at_end(body)
        index, *turns = (b.phi(kind) for kind in (I64, *(value.type for value in values)))
        turn = Loop(Value(self, index), [Value(self, phi, v.signed) for phi, v in zip(turns, values, strict=True)])
        self._known.append({})
        yield turn
        new = [one._with(value) for one, value in zip(values, turn.next, strict=True)]
        self._known.pop()
        following, end = b.add(index, by.value), b.block
        b.cbranch(b.icmp_signed("<", following, last.value), body, after)  # one jump per turn
        b.position_at_end(after)
        results = [b.phi(value.type) for value in values]
        index.add_incoming(first.value, before)
        index.add_incoming(following, end)
        for value, later, *phis in zip(values, new, turns, results, strict=True):
            for phi in phis:
                phi.add_incoming(value.value, before)
                phi.add_incoming(later, end)
        turn.result = [Value(self, phi, value.signed) for phi, value in zip(results, values, strict=True)]

    @contextlib.contextmanager
    def when(self, condition: Value | None) -> Iterator[None]:
        """Only if it holds, or always without a condition; no value leaves the block."""
        if condition is None:
            yield
            return
        body, after = (self.function.append_basic_block(word) for word in ("then", "after"))
        self.builder.cbranch(condition.value, body, after)
        self.builder.position_at_end(body)
        self._known.append({})
        yield
        self._known.pop()
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def vectors(self, count: Number, lanes: int, body: Callable[[Number], None]) -> None:
        """body(index) for vectors that cover `count` >= lanes cells: the last begins where it still
        is full."""
        last = count - lanes
        with self.loop(0, count, lanes) as along:
            body(self.least(along.index, last))

    def together(
        self, begin: Number, end: Value, most: int, body: Callable[[Value, int, list[Any]], Any], carried: Any = ()
    ) -> Any:
        """body(index, count, carried) for `most` items at a time while there are so many, then for
        one at a time."""
        for count in sorted({most, 1}, reverse=True):
            stop = end - (end - begin) % count
            with self.loop(begin, stop, count, carried) as turn:
                made = body(turn.index, count, turn.values)
                turn.next = list(turn.values if made is None else made)
            begin, carried = stop, turn.result
        return carried

    def finish(self, flags: Number = 0) -> Kernel:
        """Return flags, which `parallel_for` joins by "or"."""
        self.builder.ret(self.integer(flags).value)
        return self
