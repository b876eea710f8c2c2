"""A kernel that counts how often each item is handled, and by which thread; and calls of this
kernel."""

from __future__ import annotations

import numpy as np

import specgrad as sg
from specgrad.engines.cpu.codegen import object_code
from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.thread_pool import Call
from specgrad.engines.cpu.codegen.values import CELLS, I64, Value

INT = CELLS["int64"]


def tally():
    """counts[i] += 1, through scratch that is read again after a pause; who[i] = the scratch; the
    union of flags[i]."""
    k = Kernel("tally")
    counts, flags, who, pause = *(k.array(name, INT) for name in ("counts", "flags", "who")), k.parameter("pause")
    room = k.room(64, INT)
    with k.loop(k.begin, k.end, carried=[0]) as each:
        k.store(k.load(counts, each.index), room, 63)
        with k.loop(0, pause) as turn:
            k.store(k.load(room, turn.index % 64) + 1 - 1, room, (turn.index + 7) % 63)
        k.store(k.load(room, 63) + 1, counts, each.index)
        k.store(Value(k, k.builder.ptrtoint(room.address, I64)), who, each.index)
        each.next = [each.values[0] | k.load(flags, each.index)]
    return k.finish(each.result[0])


def compiled_for(kernel, *target):
    """The object file of a finished kernel for any machine that LLVM knows; nothing is loaded."""
    return object_code.code_of(object_code.text_of(kernel), object_code.Target(*target))


def machine_code(kernel):
    """A finished kernel, compiled for this machine and loaded."""
    code = compiled_for(kernel, *object_code.host())
    return object_code.Compiled(code, tuple(kernel.parameters), kernel.scratch)


def run(compiled, items, grain=1, flags=(), pause=0, count=3):
    """The flags of a call, and the number of threads in it."""
    counts, marks, who = np.zeros((3, items), np.int64)
    for place, flag in flags:
        marks[place] = flag
    marks.flags.writeable = False
    with sg.num_threads(count):
        said = Call(compiled, {"pause": pause}, items, grain)(counts, marks, who)
    assert counts.tolist() == [1] * items
    assert not (who % 64).any()
    return said, len(set(who.tolist()))
