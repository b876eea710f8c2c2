"""The thread pool in machine code: workers wait there, and start work without the Python
interpreter.

A call is a block of words: the task, how many items, `grain` of them to a chunk, how many threads
may take part (members), scratch and how many bytes of it a member has (stride), the pool, and the
task's arguments. It is only read here.

The gate of a pool counts in one word the workers that are present and the places that are left, and
says whether a call is open: no worker joins a call that has ended, nor leaves unseen. One call at a
time owns the pool; calls that come meanwhile run alone. Each worker that joins wakes two more: many
cores are reached soon, and short calls wake few.

Chunks are divided among cores evenly and always alike, so a core finds in its caches what it used
in the call before. A share of many chunks exceeds the caches, which keep what came last: every
other call takes them backwards. A member whose share is used up steals from the next one, from its
other end. To wake a thread takes longer than a small pooling, and calls often follow one another:
so whoever waits spins for a moment before it sleeps.

A pool may have a team in place of workers: the threads of another library, which a function of
OpenMP's runtime calls together. They spin for much longer, so workers beside them would wait for
cores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from .builder import Kernel
from .values import ADDRESS, I32, I64, WORD, Number, Pointer, Value

CODE = ir.FunctionType(I64, [ADDRESS, I64, I64, ADDRESS])  # of a task
PARALLEL = ir.FunctionType(ir.VoidType(), [ADDRESS, ADDRESS, I32, I32])  # GOMP_parallel
LINE = 8  # words of a cache line

TASK, ITEMS, GRAIN, STRIDE, COUNT, ADDRESSES, DATA, MEMBERS, POOL, SCRATCH, WORDS = range(11)
"""Places in a block. The task takes COUNT arguments, which stand from WORDS on; the first ADDRESSES
of them are addresses. If DATA is not 0, such an address stands that many bytes on from what the
block says."""

GATE, JOB, STOP, CALLS, TEAM, WAKE, DONE, OWNED, ASLEEP = (*range(5), *range(2 * LINE, 6 * LINE, LINE))
SIZE = 6 * LINE
"""Places in a pool. WAKE and DONE are semaphores, a cache line each; TEAM is the address of
GOMP_parallel, or 0."""

FLAGS, BLOCK, ARGS, CHUNKS, BACKWARDS, TURNS = range(6)
"""Places in a job, which the members of a call share. A line for each share follows: how many of
its chunks are taken."""

PLACE, OPEN = 1 << 16, 1 << 32  # in the gate; below are the workers that are present
STOLEN = 1 << 32  # among the chunks of a share that are taken; below are those that its own core took
SPINS, YIELDS = 4096, 64  # of some 20 nanoseconds each; after how many of them another thread may have the core
MANY = 16  # chunks of a member that exceed the caches of its core

SYSTEM = {"sem_wait": [ADDRESS], "sem_post": [ADDRESS], "sched_yield": [], "sched_getcpu": []}
"""Functions that the pool needs of the system, all with a 32-bit result, and what they take."""

PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.isb", (15,))}
"""Instructions that let a core rest for a moment, and their operands."""


class Routine(Kernel):
    """A function of the pool being emitted: with parameters of its own, atomics, and returns
    anywhere."""

    def __init__(self, module: Any, name: str, kinds: list[Any], public: bool = False) -> None:
        self.module, self._known = module, [{}]
        self.function = ir.Function(module, ir.FunctionType(I64, kinds), name)
        self.function.attributes.add("nounwind")
        self.function.linkage = "external" if public else "internal"
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.given: list[Any] = [
            Pointer(self, one, WORD) if one.type == ADDRESS else Value(self, one) for one in self.function.args
        ]

    def pointer(self, word: Value) -> Pointer:
        """Words at an address."""
        return Pointer(self, self.builder.inttoptr(word.value, ADDRESS), WORD)

    def address(self, place: Pointer) -> Value:
        """An address as a word."""
        return Value(self, self.builder.ptrtoint(place.address, I64))

    def words(self, count: Number, align: int = 8) -> Pointer:
        """Words that last until the function returns."""
        room = self.builder.alloca(I64, self.integer(count).value)
        room.align = align
        return Pointer(self, room, WORD)

    def look(self, place: Pointer) -> Value:
        """A word that other threads write."""
        return Value(self, self.builder.load_atomic(place.address, "seq_cst", 8, typ=I64))

    def change(self, operation: str, place: Pointer, number: Number) -> Value:
        """Change a word that other threads change too; what it was before."""
        return Value(self, self.builder.atomic_rmw(operation, place.address, self.integer(number).value, "seq_cst"))

    def replace(self, place: Pointer, old: Number, new: Number) -> Value:
        """Replace a word if it still is what it was; whether it was."""
        words = self.integer(old).value, self.integer(new).value
        pair = self.builder.cmpxchg(place.address, *words, "seq_cst", "seq_cst")
        return Value(self, self.builder.extract_value(pair, 1))

    def invoke(self, name: str, *given: Any) -> Value:
        """Call a function of the module."""
        words = [one.address if isinstance(one, Pointer) else self.integer(one).value for one in given]
        return Value(self, self.builder.call(self.module.globals[name], words))

    def task(self, block: Pointer, args: Pointer, begin: Number, end: Number, scratch: Value) -> Value:
        """Call the task of a block; its flags."""
        code = self.builder.inttoptr(self.load(block, TASK).value, ir.PointerType(CODE))
        words = args.address, self.integer(begin).value, self.integer(end).value, self.pointer(scratch).address
        return Value(self, self.builder.call(code, words))

    def call_together(self, team: Value, name: str, given: Pointer) -> None:
        """Let all threads of a team call a function of the module, and wait for them; 0: as many as
        the team has. Another number than in the calls before would end threads and start others."""
        code = self.builder.inttoptr(team.value, ir.PointerType(PARALLEL))
        called = self.builder.bitcast(self.module.globals[name], ADDRESS)
        self.builder.call(code, [called, self.builder.bitcast(given.address, ADDRESS), I32(0), I32(0)])

    def left(self, job: Pointer, pool: Pointer) -> Value:
        """Leave a pool at the end of a job; the job's flags."""
        flags = self.look(job + FLAGS)
        self.change("xchg", pool + OWNED, 0)
        return flags

    @contextlib.contextmanager
    def forever(self) -> Iterator[None]:
        """A loop that only `give` ends."""
        head = self.function.append_basic_block("again")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        yield
        self.builder.branch(head)
        self.builder.position_at_end(self.function.append_basic_block("never"))

    def give(self, result: Number) -> None:
        """Return from here."""
        self.builder.ret(self.integer(result).value)
        self.builder.position_at_end(self.function.append_basic_block("never"))


def emit(machine: str, workers: bool) -> str:
    """The module of the pool, in LLVM's language: `part` and `parallel_for` and, with workers,
    `serve`."""
    module = ir.Module("thread_pool")
    _arguments(module)
    _part(module)
    if workers:
        for name, kinds in SYSTEM.items():
            ir.Function(module, ir.FunctionType(I32, kinds), name)
        name, numbers = PAUSES.get(machine, ("llvm.donothing", ()))
        pause = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32] * len(numbers)), name)
        _wait(module)
        _spin(module, pause, [I32(number) for number in numbers])
        _wake(module)
        _take(module)
        _work(module)
        _member(module)
        _lead(module)
        _join(module)
        _serve(module)
    _parallel_for(module, workers)
    return str(module)


def _arguments(module: Any) -> None:
    """arguments(block, args): the arguments of a block, as the task wants them."""
    k = Routine(module, "arguments", [ADDRESS, ADDRESS])
    block, args = k.given
    addresses, data = k.load(block, ADDRESSES), k.load(block, DATA)
    with k.loop(0, k.load(block, COUNT)) as each:
        word = k.load(block, each.index + WORDS)
        k.store(word, args, each.index)
        with k.when((data > 0) & (each.index < addresses)):
            k.store(k.load(k.pointer(word + data)), args, each.index)
    k.finish()


def _part(module: Any) -> None:
    """part(block, begin, end, scratch): the task on some items; its flags."""
    k = Routine(module, "part", [ADDRESS, I64, I64, I64], public=True)
    block, begin, end, scratch = k.given
    args = k.words(k.load(block, COUNT))
    k.invoke("arguments", block, args)
    k.finish(k.task(block, args, begin, end, scratch))


def _wait(module: Any) -> None:
    """wait(semaphore); again if a signal came instead."""
    k = Routine(module, "wait", [ADDRESS])
    with k.forever(), k.when(k.invoke("sem_wait", *k.given).equals(0)):
        k.give(0)
    k.finish()


def _spin(module: Any, pause: Any, numbers: list[Any]) -> None:
    """spin(gate, mask, wanted): for a moment, until bits of the gate are some or, if wanted is 0,
    none; whether they are."""
    k = Routine(module, "spin", [ADDRESS, I64, I64])
    gate, mask, wanted = k.given
    with k.loop(0, SPINS) as turn:
        with k.when(((k.look(gate) & mask) > 0).equals(wanted > 0)):
            k.give(1)
        k.builder.call(pause, numbers)
        with k.when((turn.index % YIELDS).equals(YIELDS - 1)):
            k.invoke("sched_yield")
    k.finish()


def _wake(module: Any) -> None:
    """wake(pool): wake a worker, if one sleeps."""
    k = Routine(module, "wake", [ADDRESS])
    (pool,) = k.given
    with k.when(k.look(pool + ASLEEP) > 0):
        k.invoke("sem_post", pool + WAKE)
    k.finish()


def _take(module: Any) -> None:
    """take(job, core, step): a chunk that no other member takes, or -1. It is of the share of this
    core or, if that is used up, from the other end of the next one; `step` points to how many
    shares are used up."""
    k = Routine(module, "take", [ADDRESS, I64, ADDRESS])
    job, core, used_up = k.given
    members, chunks = k.load(k.pointer(k.load(job, BLOCK)), MEMBERS), k.load(job, CHUNKS)
    with k.loop(k.load(used_up), members) as step:
        share, is_own = (core + step.index) % members, step.index.equals(0)
        begin, end = chunks * share // members, chunks * (share + 1) // members
        before = k.change("add", job + (share + 1) * LINE, k.select(is_own, k.integer(1), STOLEN))
        taken, stolen = before % STOLEN, before // STOLEN
        place = k.select(is_own, taken, end - begin - 1 - stolen)
        with k.when(taken + stolen < end - begin):
            k.give(k.select(k.load(job, BACKWARDS) > 0, end - 1 - place, begin + place))
        k.store(step.index + 1, used_up)
    k.finish(-1)


def _work(module: Any) -> None:
    """work(job, turn): run the task on chunks until none is left, with the turn's part of the
    scratch."""
    k = Routine(module, "work", [ADDRESS, I64])
    job, turn = k.given
    block, args = (k.pointer(k.load(job, place)) for place in (BLOCK, ARGS))
    items, grain, scratch, stride = (k.load(block, place) for place in (ITEMS, GRAIN, SCRATCH, STRIDE))
    core, used_up, flags = k.cast(k.invoke("sched_getcpu"), I64), k.words(1), k.words(1)
    k.store(k.integer(0), used_up)
    k.store(k.integer(0), flags)
    with k.forever():
        chunk = k.invoke("take", job, core, used_up)
        with k.when(chunk < 0):
            k.change("or", job + FLAGS, k.load(flags))
            k.give(0)
        begin = chunk * grain
        said = k.task(block, args, begin, k.least(begin + grain, items), scratch + stride * turn)
        k.store(k.load(flags) | said, flags)
    k.finish()


def _member(module: Any) -> None:
    """member(job): what each thread of a team does, of which there may be more than members."""
    k = Routine(module, "member", [ADDRESS])
    (job,) = k.given
    turn = k.change("add", job + TURNS, 1)
    with k.when(turn < k.load(k.pointer(k.load(job, BLOCK)), MEMBERS)):
        k.invoke("work", job, turn)
    k.finish()


def _lead(module: Any) -> None:
    """lead(block, pool): run a call together with the workers or the team of the pool, which it
    owns; its flags."""
    k = Routine(module, "lead", [ADDRESS, ADDRESS])
    block, pool = k.given
    items, grain, members = (k.load(block, place) for place in (ITEMS, GRAIN, MEMBERS))
    chunks, calls = (items + grain - 1) // grain, k.load(pool, CALLS)
    k.store(calls + 1, pool, CALLS)
    args, job = k.words(k.load(block, COUNT)), k.words((members + 1) * LINE, align=64)
    k.invoke("arguments", block, args)
    with k.loop(0, members + 1) as line:
        k.store(k.integer(0), job, line.index * LINE)
    for place, word in (
        (BLOCK, k.address(block)),
        (ARGS, k.address(args)),
        (CHUNKS, chunks),
        (BACKWARDS, k.select(chunks >= members * MANY, calls % 2, 0)),
        (TURNS, k.integer(0)),
    ):
        k.store(word, job, place)
    team = k.load(pool, TEAM)
    with k.when(team > 0):
        k.call_together(team, "member", job)
        k.give(k.left(job, pool))
    k.store(k.address(job), pool, JOB)
    k.change("xchg", pool + GATE, (members - 1) * PLACE + OPEN)
    k.invoke("wake", pool)
    k.invoke("work", job, 0)
    with k.when(k.change("and", pool + GATE, PLACE - 1) % PLACE > 0):
        k.invoke("spin", pool + GATE, -1, 0)
        k.invoke("wait", pool + DONE)
    k.finish(k.left(job, pool))


def _parallel_for(module: Any, workers: bool) -> None:
    """parallel_for(block): the task on all items, with workers of the pool if it is free; its
    flags."""
    k = Routine(module, "parallel_for", [ADDRESS], public=True)
    (block,) = k.given
    if workers:
        pool = k.pointer(k.load(block, POOL))
        with k.when(k.load(block, MEMBERS) > 1), k.when(k.replace(pool + OWNED, 0, 1)):
            k.give(k.invoke("lead", block, pool))
    k.finish(k.invoke("part", block, 0, k.load(block, ITEMS), k.load(block, SCRATCH)))


def _join(module: Any) -> None:
    """join(pool): take a place in the open call; which one it is, counted down to 1, or 0 if there
    is none."""
    k = Routine(module, "join", [ADDRESS])
    (pool,) = k.given
    with k.forever():
        gate = k.look(pool + GATE)
        turn = gate // PLACE % PLACE
        with k.when(turn.equals(0)):
            k.give(0)
        with k.when(k.replace(pool + GATE, gate, gate - PLACE + 1)):
            k.give(turn)
    k.finish()


def _serve(module: Any) -> None:
    """serve(pool): what a worker does until the pool is stopped."""
    k = Routine(module, "serve", [ADDRESS], public=True)
    (pool,) = k.given
    places = OPEN - PLACE
    with k.forever():
        with k.when(k.invoke("spin", pool + GATE, places, 1).equals(0)):
            k.change("add", pool + ASLEEP, 1)
            with k.when((k.look(pool + GATE) & places).equals(0)):
                k.invoke("wait", pool + WAKE)
            k.change("sub", pool + ASLEEP, 1)
        turn = k.invoke("join", pool)
        with k.when(turn > 0):
            for more in (1, 2):
                with k.when(turn > more):
                    k.invoke("wake", pool)
            k.invoke("work", k.pointer(k.load(pool, JOB)), turn)
            with k.when(k.change("sub", pool + GATE, 1).equals(1)):  # the last one of a call that has ended
                k.invoke("sem_post", pool + DONE)
        with k.when(k.look(pool + STOP) > 0):
            k.give(0)
    k.finish()
