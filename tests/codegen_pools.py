"""Planned pools through the interpreter: the chains of kernels of an operator, on exact numbers or on floats, with every access checked."""

import contextlib
import functools
from unittest import mock

import numpy as np
from codegen_cases import as_array

from specgrad.engines.cpu import pools, schedule
from specgrad.engines.cpu.codegen import object_code
from specgrad.engines.cpu.codegen.allocations import Memory, disjoint
from specgrad.engines.cpu.codegen.builder import CELLS
from specgrad.engines.cpu.codegen.interpret import Program
from specgrad.engines.cpu.codegen.thread_pool import address


class Emitted:
    """What stands for a compiled kernel: the kernel itself, and how it is run."""

    def __init__(self, kernel):
        self.kernel, self.parameters, self.scratch = kernel, tuple(kernel.parameters), kernel.scratch
        self.program = functools.cache(lambda domain: Program(kernel, domain))


@contextlib.contextmanager
def emitted(**constants):
    """Plans have kernels that are not compiled; constants of the schedule may be others."""
    with mock.patch.object(object_code, "compile", Emitted), mock.patch.dict(vars(schedule), constants):
        schedule.compiled.cache_clear()
        pools.pool_of.cache_clear()
        try:
            yield
        finally:
            schedule.compiled.cache_clear()
            pools.pool_of.cache_clear()


def cell_of(dtype):
    """The cells of a table or of an array between kernels."""
    return CELLS[np.dtype(dtype).name]


class Run:
    """Arrays of one domain by their names, and the steps of plans that run on them."""

    def __init__(self, domain):
        self.domain, self.memory, self.arrays, self.walks = domain, Memory(domain), {}, []

    def give(self, name, cell, cells):
        """An array that kernels may read."""
        self.arrays[name] = self.memory.array(name, cell.stored, cells), cell

    def take(self, name, cell, count):
        """An array that kernels are to write."""
        self.arrays[name] = self.memory.allocate(name, count * cell.size, align=cell.size), cell

    def chain(self, chain):
        """Run all steps, or as far as one has flags, with arrays between them."""
        for name, cells, dtype in chain.between:
            self.take(name, cell_of(dtype), cells)
        for step in chain.steps:
            flags = self.step(step, step.arrays)
            if flags:
                return flags
        return 0

    def step(self, step, arrays):
        """Run a kernel on all items, as parallel_for does; its tasks must not meet."""
        call, tables = step.call, {}
        for table in step.tables:
            made = self.memory.array("table", cell_of(table.dtype).stored, table.tolist())
            tables[address(table)] = made.address
        args = [tables.get(number, number) for number in call._template]
        for place, name in zip(call._places, arrays, strict=True):
            args[place] = self.arrays[name][0].address if name is not None else 0
        program = call.compiled.program(self.domain)
        starts = range(0, call.items, call.grain)
        tasks = [program(self.memory, args, b, min(b + call.grain, call.items), call.scratch) for b in starts]
        disjoint(tasks)
        self.walks.append(call.compiled.kernel.module.name)
        return functools.reduce(lambda flags, task: flags | task.flags, tasks, 0)

    def numbers(self, name, shape):
        """An array, all of which must be written: of exact numbers, or of the bits that a machine would have left."""
        allocation, cell = self.arrays[name]
        if cell.is_float and not hasattr(self.domain, "WORDS"):
            made = np.empty(allocation.size // cell.size, object)
            made[:] = allocation.cells(cell.stored)
        else:
            made = as_array(allocation, cell)
        return made.reshape(shape)
