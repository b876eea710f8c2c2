"""Kernels for the tests of the interpreter, and functions that run a kernel as machine code and in
the interpreter."""

import functools
import operator

import numpy as np
from llvmlite import ir
from tallies import machine_code

from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.thread_pool import Call
from specgrad.engines.cpu.codegen.values import CELLS, F32, F64, I1, I8, I16, I32, I64, Value, constant
from specgrad.prove.interpreter.domains import Floats
from specgrad.prove.interpreter.memory import Memory, disjoint
from specgrad.prove.interpreter.program import Program

FLOAT = CELLS["float32"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-45, -1e-40, 1e-38, 65504.0, 1e30, -3e38, np.inf, -np.inf, np.nan]


def dtype(cell):
    """The NumPy dtype of a cell in memory."""
    return np.dtype("uint16" if cell.name == "bfloat16" else cell.name)


def numbers(random, cell, count):
    """Cells of this type: ordinary numbers and special ones."""
    if not cell.is_float:
        return random.integers(0, 256, count * cell.size, dtype=np.uint8).view(cell.name)
    with np.errstate(over="ignore"):
        drawn = np.where(random.random(count) < 0.3, random.choice(SPECIAL, count), random.standard_normal(count) * 4)
        if cell.name == "bfloat16":
            return (drawn.astype("float32").view("uint32") >> 16).astype("uint16")
        return drawn.astype(cell.name)


def comparable(array, cell):
    """The bits of cells, with all NaNs equal: LLVM does not specify the bits of a computed NaN."""
    bits = array.view(f"uint{8 * cell.size}")
    if not cell.is_float:
        return bits.tolist()
    wide = (bits.astype("uint32") << 16).view("float32") if cell.name == "bfloat16" else array
    return np.where(np.isnan(wide), -1, bits.astype(object)).tolist()


def interpreted(kernel, domain, arrays, sizes, items, grain=None):
    """The memory and the tasks of a kernel interpreted over all items, `grain` at a time.

    `arrays`: name -> (LLVM type, cells, writable); `cells` is a number of uninitialised cells, or
    the cells.
    """
    program, memory = Program(kernel, domain), Memory(domain)
    made = {}
    for name, (kind, cells, writable) in arrays.items():
        if isinstance(cells, int):
            made[name] = memory.allocate(name, cells, align=8)
        else:
            made[name] = memory.array(name, kind, cells, writable)
    args = [made[name].address if name in made else sizes[name] for name in kernel.parameters]
    grain = grain or max(items, 1)
    tasks = [program(memory, args, begin, min(begin + grain, items)) for begin in range(0, items, grain)]
    disjoint(tasks)
    return made, tasks


def both_ways(kernel, cells, arrays, sizes, items, grain=None):
    """The bits of every array, and the flags: after machine code, and after interpretation over
    floats."""
    mine = {name: array.copy() for name, array in arrays.items()}
    said = Call(machine_code(kernel), sizes, items, items)(*(mine[name] for name in kernel.parameters if name in mine))
    given = {name: (cells[name].stored, list(array), True) for name, array in arrays.items()}
    made, tasks = interpreted(kernel, Floats(), given, sizes, items, grain)
    theirs = {name: as_array(made[name], cells[name]) for name in arrays}
    machine, checked = ({n: comparable(held[n], cells[n]) for n in arrays} for held in (mine, theirs))
    return (machine, said), (checked, functools.reduce(operator.or_, [task.flags for task in tasks], 0))


def as_array(allocation, cell):
    """The cells of an allocation after an interpretation over floats."""
    bits = dtype(cell) if cell.is_float and cell.name != "bfloat16" else np.dtype(f"uint{8 * cell.size}")
    return np.array(allocation.cells(cell.stored), bits).view(dtype(cell))


# kernels


def windows(combine, lanes=4, size=3, cell=FLOAT, past=0):
    """y[r, i] = combine of x[r, i] … x[r, i + size - 1]; a row is an item. `past`: the number of
    cells read too far."""
    k = Kernel("windows")
    x, y, n = k.array("x", cell), k.array("y", cell), k.parameter("n")
    with k.loop(k.begin, k.end) as row:
        source, target = x + row.index * (n + size - 1), y + row.index * n

        def body(at):
            made = k.load(source, at, lanes)
            for tap in range(1, size):
                made = combine(k, made, k.load(source, at + tap + past, lanes))
            k.store(made, target, at)

        k.vectors(n, lanes, body)
    return k.finish()


def greater(k, one, other):
    return k.select(other > one, other, one)


def total(k, one, other):
    return one + other


# kernels of random instructions

STORES = 6
"""Stores of each type per item."""


class Draw:
    """A kernel of random instructions. Values are kept by the LLVM type of their elements; all have
    the same lanes."""

    def __init__(self, random, lanes, length=60):
        self.random, self.lanes = random, lanes
        self.kernel = k = Kernel("random")
        arrays = {name: (k.array(name, cell), k.array(name + "_out", cell)) for name, cell in CELLS.items()}
        self.cells = CELLS | {name + "_out": cell for name, cell in CELLS.items()}
        self.pool = {}
        room = k.room(64, CELLS["int32"])
        wide = max(lanes, 1)
        with k.loop(k.begin, k.end, carried=[0]) as turn:
            for source, _ in arrays.values():
                for i in range(2):
                    self.keep(k.load(source, (turn.index + i) * wide, lanes))
            for _ in range(length):
                self.instruction()
            k.store(self.some(I32), room, 64 - wide)
            self.keep(k.load(room, 64 - wide, lanes))
            for _, target in arrays.values():
                with k.when(self.one(self.mask())):
                    for i in range(STORES):
                        k.store(self.some(target.cell.computed), target, (turn.index * STORES + i) * wide)
            turn.next = [turn.values[0] | k.cast(self.one(self.some(I32)), I64)]
        k.finish(turn.result[0])

    def keep(self, value):
        self.pool.setdefault(value.element, []).append(value)

    def some(self, kind):
        """A value of this type, usually one of the last."""
        found = self.pool[kind]
        return found[-1 - min(int(self.random.exponential(4)), len(found) - 1)]

    def one(self, value):
        """One lane of a vector."""
        return self.kernel.lane(value, int(self.random.integers(self.lanes))) if self.lanes else value

    def choice(self, options):
        return options[int(self.random.integers(len(options)))]

    def mask(self):
        one = self.some(self.choice([F32, F64, I8, I32, I64]))
        return self.compared(one, self.some(one.element))

    def compared(self, one, two):
        k, b = self.kernel, self.kernel.builder
        sign = self.choice(["<", "<=", "==", "!=", ">", ">="])
        if one.is_float:
            compare = self.choice([b.fcmp_ordered, b.fcmp_unordered])
            sign = self.choice([sign, sign, "ord", "uno"])
        else:
            compare = self.choice([b.icmp_signed, b.icmp_unsigned])
        return Value(k, compare(sign, one.value, two.value))

    def instruction(self):
        often, seldom = [self.on_floats, self.on_integers], [self.on_masks, self.on_lanes, self.of_types]
        self.choice([*often, *often, *seldom])()

    def on_floats(self):
        k, kind = self.kernel, self.choice([F32, F64])
        a, b, c = (self.some(kind) for _ in range(3))
        self.keep(
            self.choice(
                [
                    lambda: a + b,
                    lambda: a - b,
                    lambda: a * b,
                    lambda: a / b,
                    lambda: -a,
                    lambda: a + self.choice([0.1, -2.0, 1e-3]),
                    lambda: k.call("llvm.fabs.{}", a.type, a),
                    lambda: k.call("llvm.fma.{}", a.type, a, b, c),
                    lambda: k.call("llvm.maximum.{}", a.type, a, b),
                    lambda: k.call("llvm.minimum.{}", a.type, a, b),
                    lambda: k.select(self.compared(a, b), a, c),
                ]
            )()
        )

    def on_integers(self):
        k, kind = self.kernel, self.choice([I8, I16, I32, I64])
        a, b = self.some(kind), self.some(kind)
        emit, call = k.builder, lambda name, *given: k.call(f"llvm.{name}.{{}}", a.type, *given)
        by = (b & kind.width - 1).value
        no = Value(k, constant(I1, 0))
        self.keep(
            self.choice(
                [
                    lambda: a + b,
                    lambda: a - b,
                    lambda: a * b,
                    lambda: a & b,
                    lambda: a | b,
                    lambda: a ^ b,
                    lambda: ~a,
                    lambda: -a,
                    lambda: a // (b | 1) if self.lanes < 5 else a,
                    lambda: a % (b | 1) if self.lanes < 5 else a,
                    lambda: Value(k, emit.sdiv(a.value, (b & 14 | 1).value)) if self.lanes < 5 else a,
                    lambda: Value(k, emit.srem(a.value, (b & 14 | 1).value)) if self.lanes < 5 else a,
                    lambda: Value(k, emit.shl(a.value, by)),
                    lambda: Value(k, emit.lshr(a.value, by)),
                    lambda: Value(k, emit.ashr(a.value, by)),
                    *(
                        lambda name=name: call(name, a, b)
                        for name in ("smax", "smin", "umax", "umin", "uadd.sat", "usub.sat")
                    ),
                    lambda: call("ctpop", a),
                    lambda: call("ctlz", a, no),
                    lambda: call("cttz", a, no),
                    lambda: call("abs", a, no),
                    lambda: k.select(self.compared(a, b), a, 7),
                ]
            )()
        )

    def on_masks(self):
        k, a, b = self.kernel, self.mask(), self.mask()
        mask = self.choice([lambda: a & b, lambda: a | b, lambda: a ^ b, lambda: ~a])()
        if self.lanes and self.random.random() < 0.5:
            word = ir.IntType(self.lanes)
            joined = self.choice(
                [
                    lambda: k.cast(k.call("llvm.vector.reduce.or.{}", I1, mask), I64, signed=False),
                    lambda: k.cast(k.call("llvm.vector.reduce.and.{}", I1, mask), I64, signed=False),
                    lambda: k.cast(Value(k, k.builder.bitcast(mask.value, word), False), I64),
                ]
            )()
            self.keep(k.splat(joined, self.lanes))
            return
        one, two = self.some(F32), self.some(F32)
        kind = ir.VectorType(I32, self.lanes) if self.lanes else I32
        floats = ir.VectorType(F64, self.lanes) if self.lanes else F64
        self.keep(
            self.choice(
                [
                    lambda: k.select(mask, one, two),
                    lambda: Value(k, k.builder.sext(mask.value, kind)),
                    lambda: Value(k, k.builder.zext(mask.value, kind)),
                    lambda: Value(k, k.builder.uitofp(mask.value, floats)),
                ]
            )()
        )

    def on_lanes(self):
        if not self.lanes:
            return
        k, kind = self.kernel, self.choice([F32, F64, I8, I16, I32, I64])
        a, b = self.some(kind), self.some(kind)
        reductions = ["add", "and", "or", "xor", "smax", "smin", "umax", "umin"]
        places = self.random.integers(0, 2 * self.lanes, self.lanes).tolist()
        made = self.choice(
            [
                lambda: k.shuffle(a, b, places),
                lambda: k.splat(self.one(a), self.lanes),
                lambda: (
                    k.splat(k.call(f"llvm.vector.reduce.{self.choice(reductions)}.{{}}", kind, a), self.lanes)
                    if not a.is_float
                    else a
                ),
                lambda: k.iota(self.lanes, kind, 3) + a if not a.is_float else a,
            ]
        )()
        self.keep(made)

    def of_types(self):
        """Numbers in other types. Bits are taken only of floats as loaded, whose NaNs are known."""
        k = self.kernel
        integers = [I8, I16, I32, I64]
        source, target = self.choice(integers), self.choice(integers)
        a, f = self.some(source), self.some(self.choice([F32, F64]))
        a = Value(k, a.value, self.random.random() < 0.5)
        raw = self.pool[F32][0]
        bounded = k.select(k.call("llvm.fabs.{}", f.type, f) < 100.0, f, 5.0)
        self.keep(
            self.choice(
                [
                    lambda: k.cast(a, target),
                    lambda: k.cast(a, F32),
                    lambda: k.cast(a, F64),
                    lambda: k.cast(self.some(F32), F64),
                    lambda: k.cast(self.some(F64), F32),
                    lambda: k.cast(bounded, self.choice(integers)),
                    lambda: k.cast(k.call("llvm.fabs.{}", f.type, bounded), self.choice(integers), signed=False),
                    lambda: k.bits(raw, I32),
                    lambda: k.bits(self.some(I32), F32),
                    lambda: k.bits(self.some(I64), F64),
                ]
            )()
        )

    def arrays(self, items):
        wide = max(self.lanes, 1)
        made = {name: numbers(self.random, cell, (items + 1) * wide) for name, cell in CELLS.items()}
        return made | {name + "_out": np.zeros(items * STORES * wide, dtype(cell)) for name, cell in CELLS.items()}
