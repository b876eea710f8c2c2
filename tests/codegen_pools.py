"""Planned pools through the interpreter: the chains of kernels of an operator, on exact numbers or
on floats, with every access checked."""

import contextlib
import functools
import math
from fractions import Fraction
from typing import NamedTuple
from unittest import mock

import ml_dtypes
import numpy as np
from codegen_cases import as_array
from llvmlite import ir

import specgrad as sg
from specgrad.engines.cpu import limits, pools, steps
from specgrad.engines.cpu.codegen.builder import CELLS
from specgrad.engines.cpu.codegen.thread_pool import address
from specgrad.prove.interpreter.domains import Floats, Rationals
from specgrad.prove.interpreter.memory import Fault, Memory, access, disjoint
from specgrad.prove.interpreter.program import Program


class Emitted:
    """What stands for a compiled kernel: the kernel itself, and how it is run."""

    def __init__(self, kernel):
        self.kernel, self.parameters, self.scratch = kernel, tuple(kernel.parameters), kernel.scratch
        self.program = functools.cache(lambda domain: Program(kernel, domain))


class Call(NamedTuple):
    """What stands for a call of a kernel on all threads."""

    emitted: Emitted
    sizes: dict
    items: int
    grain: int
    scratch: int = 0
    tables: tuple = ()


@contextlib.contextmanager
def emitted(stand_in=Emitted, **constants):
    """Plans have kernels that are not compiled; constants of the schedule may be others."""
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(steps, "Call", Call))
        patches.enter_context(mock.patch.object(steps, "cached", lambda key, emit: stand_in(emit())))
        patches.enter_context(mock.patch.dict(vars(limits), constants))
        caches = steps.compiled, pools.pool_of, pools.contiguous_pool
        for cache in caches:
            cache.cache_clear()
            patches.callback(cache.cache_clear)
        yield


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
            flags = self.step(step)
            if flags:
                return flags
        return 0

    def step(self, step):
        """Run a kernel on all items, as parallel_for does; its tasks must not meet."""
        call = step.call
        known = {name: allocation.address for name, (allocation, _) in self.arrays.items()}
        for table in call.tables:
            made = self.memory.array("table", cell_of(table.dtype).stored, table.ravel().tolist())
            known |= {name: made.address for name, number in call.sizes.items() if number == address(table)}
        names = iter(step.arrays)
        words = [name if name in call.sizes else next(names) for name in call.emitted.parameters]
        args = [known.get(word, call.sizes.get(word, 0)) for word in words]
        program, starts = call.emitted.program(self.domain), range(0, call.items, call.grain)
        tasks = [program(self.memory, args, b, min(b + call.grain, call.items), call.scratch) for b in starts]
        disjoint(tasks)
        self.walks.append(call.emitted.kernel.module.name)
        return functools.reduce(lambda flags, task: flags | task.flags, tasks, 0)

    def numbers(self, name, shape):
        """An array, all of which must be written: of exact numbers, or of the bits that a machine
        would have left."""
        allocation, cell = self.arrays[name]
        if cell.is_float and not hasattr(self.domain, "WORDS"):
            made = np.empty(allocation.size // cell.size, object)
            made[:] = allocation.cells(cell.stored)
        else:
            made = as_array(allocation, cell)
        return made.reshape(shape)


class Planned:
    """An operator on an array of one dtype, whose axes lie in some order; and numbers for it, which
    are small integers."""

    def __init__(self, random, op, shape, dtype):
        self.random, self.op, self.shape = random, op, shape
        self.dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        order = random.permutation(len(shape)) if random.random() < 0.2 else np.arange(len(shape))
        laid = np.empty([shape[p] for p in order], self.dtype).transpose(np.argsort(order))
        is_sum = type(op).__name__.endswith("AvgPool")
        self.pool, _ = pools.seen(op, laid, any_order=is_sum)
        self.cell, self.layout = self.pool.cell, self.pool.layout
        self.domain = Floats() if dtype == "bfloat16" else Rationals()
        self.walks = []

    def draw(self, shape):
        """Numbers that every dtype holds; some are equal."""
        low = 0 if self.dtype.kind == "u" else -100
        return self.random.integers(low, 100, shape) // int(self.random.choice([1, 30]))

    def run(self, plan, given, wanted):
        """What a chain or a step leaves, in the order in which it lies: of `wanted` (name -> cell,
        shape); None if it has flags.

        `given`: name -> cell, array."""
        run = Run(self.domain)
        for name, (cell, array) in given.items():
            run.give(name, cell, self.stored(array, cell))
        for name, (cell, shape) in wanted.items():
            run.take(name, cell, math.prod(shape))
        flags = run.chain(plan) if isinstance(plan, steps.Chain) else run.step(plan)
        self.walks += run.walks
        return None if flags else [run.numbers(name, shape) for name, (_, shape) in wanted.items()]

    def stored(self, array, cell):
        """What lies in memory: the numbers, or the bits of half floats that are kept as such."""
        return (array.astype(self.dtype).view(np.uint16) if cell.name == "bfloat16" else array).ravel().tolist()

    def operand(self, array):
        return array.reshape([self.layout.shape[p] for p in self.layout.back]).transpose(self.layout.order)

    def output(self, array):
        return array.reshape([self.pool.lengths[p] for p in self.layout.back]).transpose(self.layout.order)

    def as_result(self, array):
        """From the order in which it lies to that of the operator."""
        return array.transpose(self.layout.back).reshape(self.pool.shape)

    def as_operand(self, array):
        return array.transpose(self.layout.back).reshape(self.shape)

    def same(self, found, expected):
        """Equal numbers, or equal bits of half floats."""
        if self.cell.name == "bfloat16":
            expected = np.asarray(expected, self.dtype).view(np.uint16)
        assert found.shape == expected.shape
        assert (found == expected).all(), self.words()

    def words(self):
        return f"{self.op} on {self.dtype} of shape {self.shape} lying as {self.layout.order}: {self.walks}"

    def specified(self, function):
        with sg.engine("reference"):
            return function()

    def numbers(self, array):
        """An operand of the specification: Fractions, or half floats."""
        if self.cell.name == "bfloat16":
            return array.astype(self.dtype)
        return np.vectorize(Fraction, otypes=[object])(array)


class Planted(Emitted):
    """A kernel with a fault: the n-th of its loads from and stores to arrays is one cell off, of
    `accesses`. `done` counts how often it was run."""

    def __init__(self, kernel, n):
        super().__init__(kernel)
        self.n, self.done, self.accesses = n, 0, 0
        self.program = functools.cache(self._spoilt)

    def _spoilt(self, domain):
        program = Program(self.kernel, domain)
        found = [
            (block.steps, place, one)
            for block in program.task.blocks.values()
            for place, one in enumerate(block.instructions)
            if one.opname in ("load", "store") and block.block.name != "entry" and _leads_to_array(one.operands[-1])
        ]
        self.accesses = len(found)
        if self.n < len(found):
            steps, place, one = found[self.n]
            pointer = program.task._place(one.operands[-1])
            size = access(one.type if one.opname == "load" else one.operands[0].type).size
            right = steps[place]

            def wrong(r):
                self.done += 1
                r[pointer] += size
                right(r)
                r[pointer] -= size

            steps[place] = wrong
        return program


def faults(run):
    """How many faults are found: run(n, spoil) with spoil(kernel) for each kernel in question, for
    one access of it after the other, until three runs in turn have no kernel with so many."""
    n = caught = beyond = 0
    while beyond < 3:
        kernels = []

        def spoil(kernel, n=n, kernels=kernels):
            kernels.append(Planted(kernel, n))
            return kernels[-1]

        try:
            run(n, spoil)
        except (Fault, AssertionError):
            caught += 1
        else:
            assert not any(one.done for one in kernels), n
        if kernels:
            beyond = 0 if any(n < one.accesses for one in kernels) else beyond + 1
        n += 1
    return caught


def _leads_to_array(address):
    while isinstance(address, ir.GEPInstr):
        address = address.operands[0]
    return isinstance(address, ir.CastInstr)
