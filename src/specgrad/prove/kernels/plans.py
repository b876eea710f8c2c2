"""The engine's plans with kernels that are not compiled, and what interprets their steps.

The schedule chooses kernels as always; what it calls is the kernel itself, to be run instruction by
instruction.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...engines.cpu import bilinear, gemm, limits, pools, steps, weight_gradient, weighted
from ...engines.cpu.codegen import combine
from ...engines.cpu.codegen.builder import CELLS, F32, Cell, Kernel, Value
from ...engines.cpu.codegen.thread_pool import address
from ..interpreter.domains import Domain
from ..interpreter.memory import SIZES, Allocation, disjoint
from ..interpreter.program import Program
from .symbols import Table, Word, pointwise

PLANNERS = (steps, limits, bilinear, gemm, weight_gradient, combine)
CACHES: tuple[Any, ...] = (
    *(steps.compiled, pools.pool_of, pools.contiguous_pool, weighted.weighted_of),
    *(bilinear.plan, gemm.product, weight_gradient.gradient),
)


class Emitted:
    """What stands for a compiled kernel: the kernel itself, decoded once for each domain."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.parameters, self.scratch = kernel, tuple(kernel.parameters), kernel.scratch
        self.program: Callable[[Domain], Program] = functools.cache(functools.partial(Program, kernel))


class Call(NamedTuple):
    """What stands for a call of a kernel on all threads."""

    emitted: Emitted
    sizes: dict[str, int]
    items: int
    grain: int
    scratch: int = 0
    tables: tuple[Any, ...] = ()


def exp(k: Kernel, x: Value) -> Value:
    """The exponential as one instruction; kernels have the arithmetic that computes it."""
    return k.call("llvm.exp.{}", x.type, x)


@contextlib.contextmanager
def uncompiled(constants: Mapping[str, int], make: Callable[[Kernel], Emitted] = Emitted) -> Iterator[None]:
    """Plans that are made meanwhile have kernels that are not compiled; constants of the schedule
    may be others."""
    stand_ins = {"Call": Call, "cached": lambda key, emit: make(emit()), "exp": exp, **constants}
    before = [
        (vars(module), name, vars(module)[name]) for module in PLANNERS for name in stand_ins if name in vars(module)
    ]
    try:
        for names, name, _ in before:
            names[name] = stand_ins[name]
        for cache in CACHES:
            cache.cache_clear()
        yield
    finally:
        for names, name, own in before:
            names[name] = own
        for cache in CACHES:
            cache.cache_clear()


class Execution:
    """Arrays by their names, in one memory, and the steps of plans that run on them."""

    def __init__(self, domain: Domain, memory: Any) -> None:
        self.domain, self.memory = domain, memory(domain)
        self.arrays: dict[str, tuple[Allocation, Cell]] = {}

    def give(self, name: str, cell: Cell, cells: Sequence[Any], writable: bool = False) -> None:
        """An array that kernels may read: numbers, or symbols."""
        kind = cell.stored
        made = self.memory.allocate(name, len(cells) * SIZES[kind], writable, SIZES[kind])
        if cell.name == "bfloat16":
            cells = [Word("bits", one, 16) for one in cells]
        elif cell.is_float:
            cells = [self.domain.constant(one, kind) for one in cells]
        made.fill(kind, cells)
        self.arrays[name] = made, cell

    def take(self, name: str, cell: Cell, count: int) -> None:
        """An array that kernels are to write."""
        self.arrays[name] = self.memory.allocate(name, count * cell.size, align=cell.size), cell

    def chain(self, chain: Any) -> int:
        """Run all steps, or as far as one has flags, with arrays between them."""
        for name, cells, dtype in chain.between:
            self.take(name, CELLS[np.dtype(dtype).name], cells)
        for step in chain.steps:
            if flags := self.step(step, step.arrays):
                return flags
        return 0

    def step(self, step: Any, names: Sequence[str]) -> int:
        """Run a kernel on all items, in tasks that must not meet; `names` are of the arrays whose
        addresses it takes."""
        call: Call = step.call
        known = {name: allocation.address for name, (allocation, _) in self.arrays.items()}
        for table in call.tables:
            cell = CELLS[table.dtype.name]
            made = self.memory.array("table", cell.stored, table.ravel().tolist())
            known |= {name: made.address for name, number in call.sizes.items() if number == address(table)}
        rest = iter(names)
        words = [name if name in call.sizes else next(rest) for name in call.emitted.parameters]
        args = [known.get(word, call.sizes.get(word, 0)) for word in words]
        program, starts = call.emitted.program(self.domain), range(0, call.items, call.grain)
        tasks = [program(self.memory, args, b, min(b + call.grain, call.items), call.scratch) for b in starts]
        disjoint(tasks)
        return functools.reduce(lambda flags, task: flags | task.flags, tasks, 0)

    def cells(self, name: str) -> Any:
        """The cells of an array, all of which must be written, as a flat array of objects."""
        allocation, cell = self.arrays[name]
        found = allocation.cells(cell.stored)
        if cell.name == "bfloat16":
            found = [self._number(one) for one in found]
        made = np.empty(len(found), object)
        made[:] = found
        return made

    def _number(self, bits: Any) -> Any:
        """The bfloat16 of these bits."""
        if isinstance(bits, Table):
            return pointwise(self._number, bits)
        return bits.value if isinstance(bits, Word) else self.domain.from_bits(bits << 16, F32)
