"""Threads that wait inside compiled code: a kernel calls them to run it with it, and no interpreter is asked.

A kernel that takes tasks from a counter begins with `enlist` and ends with `disband`. The caller, whose `turn` is 0, leaves the address of its own
code and of its arguments with the crew; each of the others that wakes runs the same kernel with a turn of its own, which tells its part of
the scratch. Each that comes wakes two more: many cores are reached soon, and short work wakes few. One call at a time has the crew; others
that run meanwhile do their work alone. Tasks are divided among cores, evenly and always alike: a core finds in its caches what it read or wrote in the
call before. Where that is more than caches hold, every other call goes through it backwards, since they have kept what came last. A thread whose
core has no task left takes those of the next one, from the other end. To wake a thread takes longer than a small pooling, and calls often follow one another: so whoever waits
looks out for a moment before going to sleep, and only those who sleep are woken.

A crew is an array of integers (`mailbox`). Its gate counts in one integer who is present, how
many places are left and whether it is open, so that nobody can come to a call that has ended, nor leave unseen.
"""

from __future__ import annotations

import platform
import sys

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .access import call_shared, field_of
from .compiling import compiled
from .mailbox import (
    ASLEEP,
    BEGIN,
    CODE,
    DONE,
    GATE,
    LENGTH,
    LINE,
    OPERANDS,
    OTHERS,
    OVER,
    OWNED,
    SAYS,
    SHARES,
    STEP,
    WAKE,
)

PLACE, OPEN = 1 << 16, 1 << 32  # of the gate; below are those who are present
STOLEN = 1 << 32  # of what is taken of a share: below are those that its own core took

LOOKS, YIELDS = 4096, 64  # of some 20 nanoseconds each; and after how many of them whoever has work may have the core
PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause",),
    "aarch64": ("llvm.aarch64.isb", 15),
}  # names and numbers that they are told

_word, _byte = ir.IntType(64), ir.IntType(8).as_pointer()
_again = ir.FunctionType(ir.VoidType(), [_byte, _word])


def _cells(context, builder, array_type, array):
    """Where the integers of an array are, by their places."""
    start = field_of(context, builder, array_type, array, "data")
    return lambda place: builder.gep(start, [_word(place)])


def _semaphore(builder, name, cell):
    """Post a semaphore, or wait for one."""
    kind = ir.FunctionType(ir.IntType(32), [_byte])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [builder.bitcast(cell, _byte)])


def _wait(builder, cell):
    """Wait for a semaphore, and again if it was a signal that came."""
    waiting = builder.append_basic_block("waiting")
    builder.branch(waiting)
    builder.position_at_end(waiting)
    failed = builder.icmp_signed("!=", _semaphore(builder, "sem_wait", cell), ir.IntType(32)(0))
    over = builder.append_basic_block("over")
    builder.cbranch(failed, waiting, over)
    builder.position_at_end(over)


def _pause(builder):
    """Let the core do something else for a moment."""
    if platform.machine() in PAUSES:
        name, *told = PAUSES[platform.machine()]
        numbers = [ir.IntType(32)(number) for number in told]
        kind = ir.FunctionType(ir.VoidType(), [number.type for number in numbers])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), numbers)


def _look_out(builder, gate, is_met):
    """Look at the gate until what it says `is_met`, for a moment; whether it was."""
    looking, waiting, seen = (builder.append_basic_block(name) for name in ("look", "pause", "seen"))
    before = builder.block
    builder.branch(looking)
    builder.position_at_end(looking)
    left = builder.phi(_word)
    left.add_incoming(_word(LOOKS), before)
    met = is_met(builder.load_atomic(gate, "acquire", 8))
    builder.cbranch(builder.or_(met, builder.icmp_signed("==", left, _word(0))), seen, waiting)
    builder.position_at_end(waiting)
    _pause(builder)
    with builder.if_then(builder.icmp_signed("==", builder.and_(left, _word(YIELDS - 1)), _word(0))):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
    after = builder.block
    left.add_incoming(builder.sub(left, _word(1)), after)
    builder.branch(looking)
    builder.position_at_end(seen)
    return met


def _has_place(builder, gate):
    """Whether somebody may come: the gate is open, and there are places; and how many."""
    places = builder.and_(builder.lshr(gate, _word(16)), _word(PLACE - 1))
    is_open = builder.icmp_unsigned(">=", gate, _word(OPEN))
    return builder.and_(is_open, builder.icmp_signed(">", places, _word(0))), places


def _wake_one(builder, mates):
    """Wake one of those who sleep, if any does."""
    asleep = builder.load_atomic(mates(ASLEEP), "seq_cst", 8)
    with builder.if_then(builder.icmp_signed(">", asleep, _word(0))):
        _semaphore(builder, "sem_post", mates(WAKE))


def _counted(given):
    """The names of those arguments that count references to an array, which are the first of its parts: two addresses of bytes, two integers and
    where its cells are."""
    kinds = {argument.name: argument.type for argument in given}
    return {
        name
        for name in kinds
        if name.endswith(".0")
        and [kinds.get(f"{name[:-1]}{part}") for part in range(4)] == [_byte, _byte, _word, _word]
        and isinstance(kinds.get(f"{name[:-1]}4"), ir.PointerType)
    }


def _runs_again(builder):
    """A function that runs the kernel being built with another turn, its last argument, and the arguments that are stored for it. Arrays outlive the
    call, so it counts no references: threads that count the same ones wait for one another."""
    kernel, given = builder.function, builder.function.args[2:-1]
    kinds = ir.LiteralStructType([argument.type for argument in given])
    again = ir.Function(builder.module, _again, kernel.name + ".again")
    again.linkage = "internal"
    inside = ir.IRBuilder(again.append_basic_block())
    stored = inside.bitcast(again.args[0], kinds.as_pointer())
    counted = _counted(given)
    loaded = [
        argument.type(None) if argument.name in counted else inside.load(cgutils.gep_inbounds(inside, stored, 0, i))
        for i, argument in enumerate(given)
    ]
    results = [inside.alloca(argument.type.pointee) for argument in kernel.args[:2]]
    inside.call(kernel, [*results, *loaded, again.args[1]])
    inside.ret_void()
    return again, kinds, given


def _calls_others(builder, counter, turn):
    """Whether this is the caller, and there are others to be called."""
    return builder.and_(
        builder.icmp_signed("==", turn, turn.type(0)), builder.icmp_signed(">", builder.load(counter(OTHERS)), _word(0))
    )


def _core(builder):
    """The number of the core that this is run on, where the system says it."""
    if sys.platform != "linux":
        return _word(0)
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_getcpu")
    return builder.zext(builder.call(function, []), _word)


def _next_task(builder, counter):
    """The number of a task that no other thread is given, or one beyond all."""
    return call_shared(builder, "specgrad.next_task", [counter(0)], _write_next_task, _word)


def _write_next_task(builder, start):
    """From the share of this core or, if all of that are taken, from the other end of the next one that has some."""

    def line(number):
        return builder.gep(start, [builder.shl(number, _word(LINE.bit_length() - 1))])

    def taken_of(number):
        return builder.and_(number, _word(STOLEN - 1)), builder.lshr(number, _word(32))

    with builder.if_then(builder.icmp_signed("==", builder.load(builder.gep(start, [_word(OTHERS)])), _word(0))):
        builder.ret(builder.atomic_rmw("add", start, _word(1), "monotonic"))
    shares = builder.load(builder.gep(start, [_word(SHARES)]))  # which the counter of one thread has not
    own = builder.urem(_core(builder), shares)
    with cgutils.for_range(builder, shares) as loop:
        share = line(builder.add(builder.urem(builder.add(own, loop.index), shares), _word(1)))
        begin, size, step = (builder.load(builder.gep(share, [_word(place)])) for place in (BEGIN, LENGTH, STEP))
        is_own = builder.icmp_signed("==", loop.index, _word(0))
        one = builder.select(is_own, _word(1), _word(STOLEN))
        taken, stolen = taken_of(builder.atomic_rmw("add", share, one, "monotonic"))
        with builder.if_then(builder.icmp_signed("<", builder.add(taken, stolen), size)):
            number = builder.select(is_own, taken, builder.sub(builder.sub(size, _word(1)), stolen))
            builder.ret(builder.add(begin, builder.mul(number, step)))
    builder.ret(_word(2**62))


@intrinsic
def enlist(typingctx, counter, crew, turn):
    """Call as many others as the counter says, if this is the caller and the crew is free; the number of the first task."""

    def codegen(context, builder, signature, args):
        tasks, mates = (
            _cells(context, builder, kind, arg) for kind, arg in zip(signature.args, args[:2], strict=False)
        )
        again, kinds, given = _runs_again(builder)
        memory = cgutils.alloca_once(builder, kinds)
        with builder.if_then(_calls_others(builder, tasks, args[2])):
            owned = builder.extract_value(builder.cmpxchg(mates(OWNED), _word(0), _word(1), "acq_rel", "acquire"), 1)
            with builder.if_else(owned) as (free, taken):
                with free:
                    for i, argument in enumerate(given):
                        builder.store(argument, cgutils.gep_inbounds(builder, memory, 0, i))
                    places = builder.mul(builder.load(tasks(OTHERS)), _word(PLACE))
                    for place, number in (
                        (CODE, builder.ptrtoint(again, _word)),
                        (OPERANDS, builder.ptrtoint(memory, _word)),
                        (GATE, builder.add(places, _word(OPEN))),
                    ):
                        builder.store_atomic(number, mates(place), "seq_cst", 8)
                    _wake_one(builder, mates)
                with taken:
                    builder.store(_word(0), tasks(OTHERS))
        return _next_task(builder, tasks)

    return types.intp(counter, crew, turn), codegen


@intrinsic
def disband(typingctx, counter, crew, turn, says):
    """Let nobody come any more, and wait for those who did; whether any of them `says` so."""

    def codegen(context, builder, signature, args):
        tasks, mates = (
            _cells(context, builder, kind, arg) for kind, arg in zip(signature.args, args[:2], strict=False)
        )
        with builder.if_then(args[3]):
            builder.store(_word(1), tasks(SAYS))
        with builder.if_then(_calls_others(builder, tasks, args[2])):
            present = builder.and_(
                builder.atomic_rmw("and", mates(GATE), _word(PLACE - 1), "acq_rel"), _word(PLACE - 1)
            )
            with builder.if_then(builder.icmp_signed(">", present, _word(0))):
                _look_out(builder, mates(GATE), lambda gate: builder.icmp_signed("==", gate, _word(0)))
                _wait(builder, mates(DONE))
            builder.store_atomic(_word(0), mates(OWNED), "release", 8)
        return builder.icmp_signed("!=", builder.load(tasks(SAYS)), _word(0))

    return types.boolean(counter, crew, turn, types.boolean), codegen


@intrinsic
def take(typingctx, counter):
    """The number of the next task, which no other thread is given."""

    def codegen(context, builder, signature, args):
        return _next_task(builder, _cells(context, builder, counter, args[0]))

    return types.intp(counter), codegen


@intrinsic
def part_of(typingctx, rooms, turn):
    """The scratch of one thread: a row of the rooms."""

    def codegen(context, builder, signature, args):
        start, shape = (field_of(context, builder, rooms, args[0], name) for name in ("data", "shape"))
        return builder.gep(start, [builder.mul(args[1], builder.extract_value(shape, 1))])

    return types.CPointer(rooms.dtype)(rooms, types.intp), codegen


@intrinsic
def attend(typingctx, crew):
    """Wait to be called, come if there is a place, and call two more; whether the crew goes on."""

    def codegen(context, builder, signature, args):
        mates = _cells(context, builder, signature.args[0], args[0])
        called = _look_out(builder, mates(GATE), lambda gate: _has_place(builder, gate)[0])
        with builder.if_then(builder.not_(called)):
            builder.atomic_rmw("add", mates(ASLEEP), _word(1), "seq_cst")
            late = _has_place(builder, builder.load_atomic(mates(GATE), "seq_cst", 8))[0]
            with builder.if_then(builder.not_(late)):
                _wait(builder, mates(WAKE))
            builder.atomic_rmw("sub", mates(ASLEEP), _word(1), "seq_cst")
        trying, going, coming, leaving = (builder.append_basic_block(name) for name in ("try", "go", "come", "leave"))
        builder.branch(trying)
        builder.position_at_end(trying)
        gate = builder.load_atomic(mates(GATE), "acquire", 8)
        is_called, turn = _has_place(builder, gate)
        builder.cbranch(is_called, going, leaving)
        builder.position_at_end(going)
        fewer = builder.add(gate, _word(1 - PLACE))
        came = builder.extract_value(builder.cmpxchg(mates(GATE), gate, fewer, "acq_rel", "acquire"), 1)
        builder.cbranch(came, coming, trying)
        builder.position_at_end(coming)
        for places in (1, 2):
            with builder.if_then(builder.icmp_signed(">", turn, _word(places))):
                _wake_one(builder, mates)
        code, operands = (builder.load_atomic(mates(place), "acquire", 8) for place in (CODE, OPERANDS))
        builder.call(builder.inttoptr(code, _again.as_pointer()), [builder.inttoptr(operands, _byte), turn])
        before = builder.atomic_rmw("sub", mates(GATE), _word(1), "acq_rel")
        with builder.if_then(builder.icmp_signed("==", before, _word(1))):  # the last one of a call that has ended
            _semaphore(builder, "sem_post", mates(DONE))
        builder.branch(leaving)
        builder.position_at_end(leaving)
        return builder.icmp_signed("==", builder.load_atomic(mates(OVER), "acquire", 8), _word(0))

    return types.boolean(crew), codegen


@compiled
def serve(crew):
    """Attend to calls until the crew is dismissed."""
    while attend(crew):
        pass
