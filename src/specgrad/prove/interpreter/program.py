"""Kernels run without machine code: instruction by instruction, over any domain of numbers, with
every load and store checked.

    program = Program(kernel, Rationals())
    memory = Memory(program.domain)
    x, y = memory.array("x", F32, cells), memory.allocate("y", 4 * count)
    task = program(memory, [x.address, y.address, count], begin, end)

Sizes, indices and addresses are LLVM's integers; floating-point cells are numbers of the domain.
Each instruction of a kernel is decoded once, into a Python function. An invalid access or operation
raises a :class:`Fault`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...engines.cpu.codegen.builder import Kernel
from ...engines.cpu.codegen.values import I1, I64
from .domains import Domain
from .instructions import Function, element, is_vector, meaning, name_of, operands_of, signed, width
from .memory import UNDEFINED, Fault, Memory, Task, access, is_float

Registers = list[Any]
"""The values of a running function: the memory, the returned value, arguments, constants and
results."""

MEMORY, RETURNED, ARGUMENTS = range(3)

Step = Callable[[Registers], Any]
"""One decoded instruction. The last step of a block returns the next block, or None at the end."""

BLOCKS = 10_000_000
"""The largest number of blocks that a task may run."""


class Program:
    """A kernel, decoded for one domain."""

    def __init__(self, kernel: Kernel, domain: Domain) -> None:
        self.kernel, self.domain = kernel, domain
        self.task = _Function(kernel.function, domain)

    def __call__(self, memory: Memory, args: Sequence[int], begin: int, end: int, scratch: int = 0) -> Task:
        """Run task(args, begin, end, scratch) with uninitialised scratch of at least the kernel's
        size."""
        memory.begin()
        words = memory.array("args", I64, args)
        own = memory.allocate("scratch", max(scratch, self.kernel.scratch))
        try:
            with np.errstate(all="ignore"):
                flags = self.task(memory, [words.address, begin, end, own.address])
        finally:
            memory.release()
            memory.release()
        if flags is UNDEFINED:
            raise Fault("the flags depend on an undefined value")
        return memory.record(signed(64)(flags))


class _Block:
    """The steps of a block, and the instruction of each."""

    def __init__(self, block: Any) -> None:
        self.block = block
        self.steps: list[Step] = []
        self.instructions = [one for one in block.instructions if not isinstance(one, ir.PhiInstr)]


class _Function:
    """The function of a kernel: its registers, which hold its constants, and its blocks."""

    def __init__(self, function: Any, domain: Domain) -> None:
        self.function, self.domain = function, domain
        self.template: Registers = [None] * ARGUMENTS
        self.places: dict[int, int] = {}
        for argument in function.args:
            self._place(argument)
        self.blocks = {id(block): _Block(block) for block in function.blocks}
        for block in self.blocks.values():
            block.steps = [self._decoded(instruction) for instruction in block.instructions]

    def __call__(self, memory: Memory, arguments: Sequence[Any]) -> Any:
        registers = self.template.copy()
        registers[MEMORY] = memory
        registers[ARGUMENTS : ARGUMENTS + len(arguments)] = arguments
        block = self.blocks[id(self.function.entry_basic_block)]
        try:
            for _ in range(BLOCKS):
                for step in block.steps:
                    following = step(registers)
                if following is None:
                    return registers[RETURNED]
                block = following
            step = block.steps[0]
            raise Fault(f"no end after {BLOCKS} blocks")
        except Fault as fault:
            fault.where += self._where(block, step, registers)
            raise

    def _where(self, block: _Block, step: Step, registers: Registers) -> str:
        """An instruction in words, with the indices of its loops."""
        instruction = block.instructions[block.steps.index(step)]
        heads = _loops(self.function, block.block)
        turns = "".join(f", {head.name} {registers[self._place(head.instructions[0])]}" for head in heads)
        return f"\n  in {self.function.name}, block {block.block.name}{turns}: {str(instruction).strip()}"

    def _place(self, value: Any) -> int:
        """The register of an argument, a constant or a result."""
        if id(value) not in self.places:
            self.places[id(value)] = len(self.template)
            self.template.append(_constant(value, self.domain) if isinstance(value, ir.Constant) else None)
        return self.places[id(value)]

    def _decoded(self, instruction: Any) -> Step:
        function, name = meaning(instruction, self.domain), name_of(instruction)
        if function is not None:
            return self._computed(function, instruction)
        if name in ("load", "store", "br", "ret", "llvm.masked.store"):
            decoder: Callable[[Any], Step] = getattr(self, "_" + name.removeprefix("llvm.").replace(".", "_"))
            return decoder(instruction)
        raise NotImplementedError(f"the interpreter does not know: {str(instruction).strip()}")

    def _computed(self, function: Function, instruction: Any) -> Step:
        target, places = self._place(instruction), [self._place(one) for one in operands_of(instruction)]
        if len(places) != 2:
            return lambda r: r.__setitem__(target, function(*[r[place] for place in places]))
        one, two = places

        def step(r: Registers) -> None:
            r[target] = function(r[one], r[two])

        return step

    # memory

    def _load(self, instruction: Any) -> Step:
        target, pointer = self._place(instruction), self._place(instruction.operands[0])
        touched = access(instruction.type, instruction.align)

        def step(r: Registers) -> None:
            r[target] = r[MEMORY].load(r[pointer], touched)

        return step

    def _store(self, instruction: Any) -> Step:
        given, pointer = (self._place(one) for one in instruction.operands)
        touched = access(instruction.operands[0].type, instruction.align)
        return lambda r: r[MEMORY].store(r[pointer], touched, r[given])

    def _masked_store(self, instruction: Any) -> Step:
        """Lanes with a false mask are not accessed."""
        cells, address, align, mask = instruction.args
        given, pointer, where = (self._place(one) for one in (cells, address, mask))
        touched = access(cells.type.element, align.constant)

        def step(r: Registers) -> None:
            for lane, (is_here, cell) in enumerate(zip(r[where], r[given], strict=True)):
                if self._truth(is_here):
                    r[MEMORY].store(r[pointer] + lane * touched.size, touched, cell)

        return step

    # control

    def _truth(self, condition: Any) -> bool:
        if condition is UNDEFINED:
            raise Fault("a branch depends on an undefined value")
        return condition if condition is True or condition is False else self.domain.decide(condition)

    def _br(self, instruction: Any) -> Step:
        *condition, _ = instruction.operands
        if not condition:
            return self._edge(instruction.parent, instruction.operands[0])
        test = self._place(condition[0])
        yes, no = (self._edge(instruction.parent, block) for block in instruction.operands[1:])
        return lambda r: yes(r) if self._truth(r[test]) else no(r)

    def _edge(self, source: Any, target: Any) -> Step:
        """The step from one block to another, which sets the target's phis, all at once."""
        block, phis = self.blocks[id(target)], _phis(target)
        moves = [(self._place(phi), self._place(v)) for phi in phis for v, before in phi.incomings if before is source]

        def step(r: Registers) -> _Block:
            for to, value in [(to, r[place]) for to, place in moves]:
                r[to] = value
            return block

        return step

    def _ret(self, instruction: Any) -> Step:
        if instruction.return_value is None:
            return lambda r: None
        place = self._place(instruction.return_value)
        return lambda r: r.__setitem__(RETURNED, r[place])


def _constant(value: Any, domain: Domain) -> Any:
    """A constant as a number of the domain, an integer, or a list of these."""
    kind, number = value.type, value.constant
    if is_vector(kind):
        lanes = number if isinstance(number, list | tuple) else [ir.Constant(kind.element, number)] * kind.count
        made = {id(lane): lane for lane in lanes}  # mostly one constant for all lanes
        made = {key: _constant(lane, domain) for key, lane in made.items()}
        return [made[id(lane)] for lane in lanes]
    if number is ir.Undefined:
        return UNDEFINED
    number = 0 if number is None else number
    if is_float(kind):
        return domain.constant(number, kind)
    return bool(number) if element(kind) == I1 else number & (1 << width(kind)) - 1


def _phis(block: Any) -> list[Any]:
    return [one for one in block.instructions if isinstance(one, ir.PhiInstr)]


def _loops(function: Any, block: Any) -> Iterator[Any]:
    """The heads of the loops around a block, outermost first: blocks to which a later block jumps
    back."""
    order = {id(one): i for i, one in enumerate(function.blocks)}
    before: dict[int, list[Any]] = {}
    for one in function.blocks:
        for target in one.terminator.operands:
            before.setdefault(id(target), []).append(one)
    for head in function.blocks:
        latches = [one for one in before.get(id(head), ()) if order[id(one)] >= order[id(head)] and _phis(head)]
        members, found = {id(head)}, latches[:]
        while found:
            one = found.pop()
            if id(one) not in members:
                members.add(id(one))
                found.extend(before.get(id(one), ()))
        if latches and id(block) in members:
            yield head
