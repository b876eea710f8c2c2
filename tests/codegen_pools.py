"""Planned pools through the interpreter: an operator's chains of kernels, over exact numbers or
floats, with every access checked."""

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
from specgrad.engines.cpu.codegen.thread_pool import address
from specgrad.engines.cpu.codegen.values import CELLS
from specgrad.prove.interpreter.domains import Floats, Rationals
from specgrad.prove.interpreter.memory import Fault, Memory, access, disjoint
from specgrad.prove.interpreter.program import Program


class Emitted:
    """Replaces a compiled kernel: the emitted kernel and its interpreter."""

    def __init__(self, kernel):
        self.kernel, self.parameters, self.scratch = kernel, tuple(kernel.parameters), kernel.scratch
        self.program = functools.cache(lambda domain: Program(kernel, domain))


class Call(NamedTuple):
    """Replaces a call of a kernel on all threads."""

    emitted: Emitted
    sizes: dict
    items: int
    grain: int
    scratch: int = 0
    tables: tuple = ()


@contextlib.contextmanager
def emitted(stand_in=Emitted, **constants):
    """A context in which plans have kernels that are not compiled, and these constants of the
    schedule."""
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
    """The `Cell` of a table or a temporary array with this dtype."""
    return CELLS[np.dtype(dtype).name]


class Run:
    """Named arrays of one domain, and the execution of plans' steps on them."""

    def __init__(self, domain):
        self.domain, self.memory, self.arrays, self.walks = domain, Memory(domain), {}, []

    def give(self, name, cell, cells):
        """Add an array that kernels may read."""
        self.arrays[name] = self.memory.array(name, cell.stored, cells), cell

    def take(self, name, cell, count):
        """Add an array that kernels write."""
        self.arrays[name] = self.memory.allocate(name, count * cell.size, align=cell.size), cell

    def chain(self, chain):
        """Run the steps of a chain until one returns flags, with the chain's temporary arrays."""
        for name, cells, dtype in chain.between:
            self.take(name, cell_of(dtype), cells)
        for step in chain.steps:
            flags = self.step(step)
            if flags:
                return flags
        return 0

    def step(self, step):
        """Run a kernel on all items, as parallel_for does; its tasks must be independent."""
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
        """An array, all written: exact numbers, or the bits that machine code would have
        written."""
        allocation, cell = self.arrays[name]
        if cell.is_float and not hasattr(self.domain, "WORDS"):
            made = np.empty(allocation.size // cell.size, object)
            made[:] = allocation.cells(cell.stored)
        else:
            made = as_array(allocation, cell)
        return made.reshape(shape)


class Planned:
    """An operator on an array of one dtype with a random order of axes in memory, and small
    integers for its arrays."""

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
        """Numbers that every dtype holds, some of them equal."""
        low = 0 if self.dtype.kind == "u" else -100
        return self.random.integers(low, 100, shape) // int(self.random.choice([1, 30]))

    def run(self, plan, given, wanted):
        """The arrays `wanted` (name -> cell, shape) after a chain or a step, in memory order; None
        if it returns flags.

        `given`: name -> cell, array.
        """
        run = Run(self.domain)
        for name, (cell, array) in given.items():
            run.give(name, cell, self.stored(array, cell))
        for name, (cell, shape) in wanted.items():
            run.take(name, cell, math.prod(shape))
        flags = run.chain(plan) if isinstance(plan, steps.Chain) else run.step(plan)
        self.walks += run.walks
        return None if flags else [run.numbers(name, shape) for name, (_, shape) in wanted.items()]

    def stored(self, array, cell):
        """The numbers in memory: as they are, or the bits of bfloat16."""
        return (array.astype(self.dtype).view(np.uint16) if cell.name == "bfloat16" else array).ravel().tolist()

    def operand(self, array):
        return array.reshape([self.layout.shape[p] for p in self.layout.back]).transpose(self.layout.order)

    def output(self, array):
        return array.reshape([self.pool.lengths[p] for p in self.layout.back]).transpose(self.layout.order)

    def as_result(self, array):
        """An array in memory order, in the operator's order."""
        return array.transpose(self.layout.back).reshape(self.pool.shape)

    def as_operand(self, array):
        return array.transpose(self.layout.back).reshape(self.shape)

    def same(self, found, expected):
        """Whether numbers are equal, or bits for half floats."""
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
    """A kernel with a fault: the n-th of the `accesses` to arrays is one cell off. `done` counts
    the runs."""

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
    """The number of faults found by run(n, spoil), with spoil(kernel) for each tested kernel and
    increasing n, until three runs in a row have no kernel with so many accesses."""
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
