"""Invalid operations of kernels: each is planted, and the interpreter reports what happened
where."""

import functools
import operator

import numpy as np
import pytest
from codegen_cases import FLOAT, interpreted, total, windows
from llvmlite import ir

from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.values import ADDRESS, CELLS, F32, F64, I1, I32, I64, Value
from specgrad.prove.interpreter import program
from specgrad.prove.interpreter.domains import Floats, Rationals
from specgrad.prove.interpreter.memory import Fault, Memory, access
from specgrad.prove.interpreter.program import Program


def fault_of(kernel, items=1, grain=None, domain=None, sizes=None, **arrays):
    with pytest.raises(Fault) as raised:
        interpreted(kernel, domain or Rationals(), arrays, sizes or {}, items, grain)
    return str(raised.value)


X, Y = (F32, range(26), False), (F32, 88, True)


def test_the_kernel_that_is_to_be_spoilt_is_right():
    interpreted(windows(total), Rationals(), {"x": X, "y": Y}, {"n": 11}, 2, 1)


def test_a_load_past_the_end_is_a_fault_that_says_where():
    said = fault_of(windows(total, past=1), 2, x=X, y=Y, sizes={"n": 11})
    assert "load of 16 bytes at byte 92 of x (104 bytes): out of bounds" in said
    assert "body 1, body.1 8: " in said
    assert "load <4 x float>" in said
    assert "at byte -20" in fault_of(windows(total, past=-6), x=X, y=Y, sizes={"n": 11})


def test_a_store_past_the_end_is_a_fault():
    said = fault_of(windows(total), 2, x=X, y=(F32, 84, True), sizes={"n": 11})
    assert "store of 16 bytes at byte 72 of y (84 bytes): out of bounds" in said


def test_an_operand_is_not_written():
    assert "store of 16 bytes at byte 0 of y (88 bytes): it may only be read" in fault_of(
        windows(total), x=X, y=(F32, range(22), False), sizes={"n": 11}
    )


def test_scratch_is_uninitialised_in_every_task():
    k = Kernel("scratch")
    x, y = k.array("x", FLOAT), k.array("y", FLOAT)
    room = k.room(8, FLOAT)
    with k.when(k.begin.equals(0)):
        k.store(k.load(x, 0, 4), room)
    k.store(k.load(room, k.begin * 2, 2), y, k.begin * 2)
    k.finish()
    interpreted(k, Rationals(), {"x": X, "y": Y}, {}, 1)
    assert "load of 8 bytes at byte 8 of scratch: uninitialised" in fault_of(k, 2, 1, x=X, y=Y)


def test_results_that_nobody_wrote_are_found():
    made, _ = interpreted(windows(total), Rationals(), {"x": X, "y": (F32, 92, True)}, {"n": 11}, 2)
    with pytest.raises(Fault, match=r"y: no float was written at byte 88 \(cell 22\) of 92"):
        made["y"].cells(F32)


def copied(over=0, ahead=0):
    """y[i] = x[i] for begin <= i < end + over, after reading y[i + ahead]."""
    k = Kernel("copied")
    x, y = k.array("x", FLOAT), k.array("y", FLOAT)
    with k.loop(k.begin, k.end + over) as each:
        if ahead:
            k.load(y, k.most(each.index + ahead, 0))
        k.store(k.load(x, each.index), y, each.index)
    return k.finish()


def test_tasks_that_meet_are_found():
    cells = {"x": X, "y": (F32, range(26), True)}
    _, tasks = interpreted(copied(), Rationals(), cells, {}, 24, 6)
    assert [hex(task.written["y"])[2:].count("1") for task in tasks] == [24, 24, 24, 24]
    assert "y: task 1 and an earlier one meet at byte 24" in fault_of(copied(over=1), 24, 6, **cells)
    assert "y: task 1 and an earlier one meet at byte 24" in fault_of(copied(ahead=1), 24, 6, **cells)
    assert "y: task 1 and an earlier one meet at byte 20" in fault_of(copied(ahead=-1), 24, 6, **cells)


def straight(*lines):
    """A kernel of these instructions, each a function of (kernel, x, y)."""
    k = Kernel("straight")
    x, y = k.array("x", FLOAT), k.array("y", CELLS["int32"])
    for line in lines:
        line(k, x, y)
    return k.finish()


def test_alignment_is_held_to():
    k = straight(lambda k, x, y: k.builder.load(x.address, typ=ir.VectorType(F32, 4), align=16))
    assert "load of 16 bytes at byte 0 of x (104 bytes): not aligned to 16" in fault_of(k, x=X, y=Y)


def test_memory_keeps_its_types():
    room = []
    keep = lambda k, x, y: room.append(k.room(8, FLOAT)) or k.store(k.load(x), room[0])  # noqa: E731
    wide = straight(keep, lambda k, x, y: k.builder.load(room[0].address, typ=I64, align=1))
    room.clear()
    assert "load of 8 bytes at byte 0 of scratch: uninitialised" in fault_of(wide, x=X, y=Y)
    narrow = straight(keep, lambda k, x, y: k.builder.load(room[0].address, typ=ir.IntType(16), align=1))
    room.clear()
    assert "load of i16 at byte 0 of scratch: a cell of another size" in fault_of(narrow, x=X, y=Y)
    bits = straight(keep, lambda k, x, y: k.builder.store(k.builder.load(room[0].address, typ=I32, align=4), y.address))
    made, _ = interpreted(bits, Rationals(), {"x": (F32, [1.5], False), "y": Y}, {}, 1)
    assert made["y"].values[0] == np.float32(1.5).view(np.uint32)
    made, _ = interpreted(bits, Floats(), {"x": (F32, [1.5], False), "y": Y}, {}, 1)
    assert made["y"].values[0] == np.float32(1.5).view(np.uint32)


def test_a_cell_that_is_half_overwritten_is_lost():
    memory = Memory(Rationals())
    place = memory.array("x", F64, [1, 2, 3], writable=True)
    memory.store(place.address + 12, access(F32), 5)
    assert memory.load(place.address + 12, access(F32)) == 5
    assert [bool(place.begins[byte]) for byte in (0, 8, 16)] == [True, False, True]
    memory.store(place.address + 4, access(F32), 6)
    assert [bool(place.begins[byte]) for byte in (0, 4, 8, 12, 16)] == [False, True, False, True, True]
    memory.store(place.address + 16, access(F32), 7)
    assert [bool(place.begins[byte]) for byte in (12, 16, 20)] == [True, True, False]


def number(k, x, kind=I32):
    return k.cast(k.load(x), kind)


def branch(k, condition):
    with k.when(condition):
        pass


UNDEFINED_RESULTS = {
    "32 bits are shifted by 32": lambda k, x, y: k.builder.shl(number(k, x).value, I32(32)),
    "0 is divided by zero": lambda k, x, y: number(k, x) // number(k, x),
    "a number is made the integer 300 of 8 bits": lambda k, x, y: k.cast(k.load(x) + 300.0, ir.IntType(8)),
    "1 and 0 have no quotient": lambda k, x, y: (k.load(x) + 1.0) / k.load(x),
    "address 0x0 lies in no allocation": lambda k, x, y: k.builder.load(ir.Constant(ADDRESS, None), typ=I32, align=4),
    "something is computed with the bits of 0": lambda k, x, y: k.bits(k.load(x), I32) + 1,
    "a branch depends on an undefined value": lambda k, x, y: branch(k, Value(k, ir.Constant(I1, ir.Undefined))),
}


@pytest.mark.parametrize("words", UNDEFINED_RESULTS)
def test_what_llvm_leaves_undefined_is_a_fault(words):
    assert words in fault_of(straight(UNDEFINED_RESULTS[words]), x=X, y=Y)


@pytest.mark.parametrize("flag", ["nsw", "nuw"])
def test_what_no_kernel_has_is_not_interpreted(flag):
    with pytest.raises(NotImplementedError, match=f"does not know: .* = add {flag}"):
        fault_of(straight(lambda k, x, y: k.builder.add(I32(1), I32(1), flags=[flag])), x=X, y=Y)


def beyond(then):
    """Three cells in scratch, of which four are loaded and doubled, then `then` is applied."""
    k = Kernel("beyond")
    x, y = k.array("x", FLOAT), k.array("y", FLOAT)
    room = k.room(4, FLOAT)
    for i in range(3):
        k.store(k.load(x, i), room, i)
    wide = k.load(room, 0, 4)
    flags = then(k, wide + wide, y)
    return k.finish(0 if flags is None else flags)


def lanes_as_flags(lanes):
    return lambda k, wide, y: k.cast(
        functools.reduce(operator.or_, [k.lane(wide, i) < 0.0 for i in lanes]), I64, signed=False
    )


def test_nothing_depends_on_lanes_beyond_what_was_written():
    def run(then):
        made, tasks = interpreted(
            beyond(then), Rationals(), {"x": (F32, [1, 2, -3], False), "y": (F32, 16, True)}, {}, 1
        )
        return made["y"], tasks[0].flags

    y, _ = run(lambda k, wide, y: k.store(k.shuffle(wide, wide, [0, 2, 1, 1]), y))
    assert y.cells(F32) == [2, -6, 4, 4]
    y, _ = run(lambda k, wide, y: k.store(wide, y))
    with pytest.raises(Fault, match="y: cell 3 is undefined"):
        y.cells(F32)
    assert run(lanes_as_flags([0, 1]))[1] == 0
    assert run(lanes_as_flags([3, 2]))[1] == 1  # for any value of the other lane
    with pytest.raises(Fault, match="the flags depend on an undefined value"):
        run(lanes_as_flags([3, 0]))
    with pytest.raises(Fault, match="a branch depends on an undefined value"):
        run(lambda k, wide, y: branch(k, k.lane(wide, 3) > 0.0))
    with pytest.raises(Fault, match="an address is undefined"):
        run(lambda k, wide, y: k.store(k.number(FLOAT, 0), y, k.cast(k.lane(wide, 3), I64)))


def test_a_task_without_end_is_a_fault(monkeypatch):
    monkeypatch.setattr(program, "BLOCKS", 100)
    k = Kernel("endless")
    with k.loop(0, 1, 0):
        pass
    assert "no end after 100 blocks" in fault_of(k.finish())


def test_instructions_that_nobody_taught_it_are_refused():
    k = Kernel("unknown")
    k.call("llvm.sqrt.{}", F32, k.number(FLOAT, 2.0))
    with pytest.raises(NotImplementedError, match=r"the interpreter does not know: .*llvm\.sqrt"):
        Program(k.finish(), Floats())
