"""The engine's plans with kernels that are not compiled, and the interpreter of their steps.

The schedule chooses kernels as usual, but a call holds the emitted kernel, which the interpreter
runs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...engines.cpu import bilinear, gemm, limits, matmul, pools, steps, weight_gradient, weighted
from ...engines.cpu.codegen import combine
from ...engines.cpu.codegen.builder import Kernel
from ...engines.cpu.codegen.thread_pool import address
from ...engines.cpu.codegen.values import CELLS, F32, Cell, Value
from ..interpreter.domains import Domain
from ..interpreter.memory import SIZES, Allocation, disjoint
from ..interpreter.program import Program
from .symbols import Table, Word, pointwise

PLANNERS = (steps, limits, bilinear, gemm, matmul, weight_gradient, combine)
CACHES: tuple[Any, ...] = (
    *(steps.compiled, pools.pool_of, pools.contiguous_pool, weighted.weighted_of),
    *(bilinear.plan, gemm.product, matmul.planned, weight_gradient.gradient),
)


class Emitted:
    """Replaces a compiled kernel: the emitted kernel, decoded once for each domain."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.parameters, self.scratch = kernel, tuple(kernel.parameters), kernel.scratch
        self.program: Callable[[Domain], Program] = functools.cache(functools.partial(Program, kernel))


class Call(NamedTuple):
    """Replaces a call of a kernel on all threads."""

    emitted: Emitted
    sizes: dict[str, int]
    items: int
    grain: int
    scratch: int = 0
    tables: tuple[Any, ...] = ()


def exp(k: Kernel, x: Value) -> Value:
    """exp as one instruction, instead of the arithmetic of kernels."""
    return k.call("llvm.exp.{}", x.type, x)


@contextlib.contextmanager
def uncompiled(constants: Mapping[str, int], make: Callable[[Kernel], Emitted] = Emitted) -> Iterator[None]:
    """A context in which plans have kernels that are not compiled, and these constants of the
    schedule."""
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
    """Named arrays in one memory, and the execution of plans' steps on them."""

    def __init__(self, domain: Domain, memory: Any) -> None:
        self.domain, self.memory = domain, memory(domain)
        self.arrays: dict[str, tuple[Allocation, Cell]] = {}

    def give(self, name: str, cell: Cell, cells: Sequence[Any], writable: bool = False) -> None:
        """Add an array that kernels may read: numbers, or symbols."""
        kind = cell.stored
        made = self.memory.allocate(name, len(cells) * SIZES[kind], writable, SIZES[kind])
        if cell.name == "bfloat16":
            cells = [Word("bits", one, 16) for one in cells]
        elif cell.is_float:
            cells = [self.domain.constant(one, kind) for one in cells]
        made.fill(kind, cells)
        self.arrays[name] = made, cell

    def take(self, name: str, cell: Cell, count: int) -> None:
        """Add an array that kernels write."""
        self.arrays[name] = self.memory.allocate(name, count * cell.size, align=cell.size), cell

    def chain(self, chain: Any) -> int:
        """Run the steps of a chain until one returns flags, with the chain's temporary arrays."""
        for name, cells, dtype in chain.between:
            self.take(name, CELLS[np.dtype(dtype).name], cells)
        for step in chain.steps:
            if flags := self.step(step, step.arrays):
                return flags
        return 0

    def step(self, step: Any, names: Sequence[str]) -> int:
        """Run a kernel on all items, in tasks that must be independent; `names` are the arrays
        passed to the kernel."""
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
        """The cells of an array, all written, as a flat object array."""
        allocation, cell = self.arrays[name]
        found = allocation.cells(cell.stored)
        if cell.name == "bfloat16":
            found = [self._number(one) for one in found]
        made = np.empty(len(found), object)
        made[:] = found
        return made

    def _number(self, bits: Any) -> Any:
        """The number with these bits of a bfloat16."""
        if isinstance(bits, Table):
            return pointwise(self._number, bits)
        return bits.value if isinstance(bits, Word) else self.domain.from_bits(bits << 16, F32)
