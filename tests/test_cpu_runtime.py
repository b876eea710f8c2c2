"""What runs generated kernels: object code, and parallel_for over the threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import specgrad as sg
from specgrad.engines.cpu.codegen import object_code, thread_pool
from specgrad.engines.cpu.codegen.builder import CELLS, Kernel
from specgrad.engines.cpu.codegen.thread_pool import Call, address

INT, FLOAT = CELLS["int64"], CELLS["float32"]


def tally():
    """counts[i] += 1 for every item, by way of scratch; flags: those that `flags` names per item."""
    k = Kernel("tally")
    counts, size, flags = k.array("counts", INT), k.parameter("size"), k.array("flags", INT)
    room = k.room(64, INT)
    with k.loop(k.begin, k.end, carried=[0]) as each:
        k.store(k.load(counts, each.index), room, each.index % 64)
        with k.loop(0, size) as pause:
            k.store(k.load(room, pause.index % 64), room, pause.index % 64)
        k.store(k.load(room, each.index % 64) + 1, counts, each.index)
        each.next = [each.values[0] | k.load(flags, each.index)]
    return k.finish(each.result[0])


@pytest.fixture(scope="module")
def compiled():
    return object_code.compile(tally())


def run(compiled, items, grain=1, flags=(), pause=0):
    counts, marks = np.zeros(items, np.int64), np.zeros(items, np.int64)
    for place, flag in flags:
        marks[place] = flag
    said = Call(compiled, {"size": pause}, items, grain)(address(counts), address(marks))
    assert counts.tolist() == [1] * items
    return said


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_item_is_handled_once_and_flags_are_joined(compiled, count):
    with sg.num_threads(count):
        for items in (0, 1, 2, 3, 11, 64, 201):
            for grain in (1, 2, 7, 300):
                assert run(compiled, items, grain) == 0
        assert run(compiled, 201, 4, [(0, 1), (77, 2), (200, 8)]) == 11


def test_addresses_are_those_of_the_arrays_and_read_only_ones_stay_so():
    for array in (np.zeros(3), np.zeros((4, 5), "f4")[1:, ::2], np.zeros((), "u1"), np.zeros((0, 3))):
        assert address(array) == array.ctypes.data
        array.flags.writeable = False
        assert address(array) == array.ctypes.data
        assert not array.flags.writeable


def test_calls_overlap_in_many_threads(compiled):
    def call(_):
        return [run(compiled, 50, 3, [(7, 4)], pause=20) for _ in range(50)]

    with sg.num_threads(3), ThreadPoolExecutor(6) as callers:
        assert all(found == [4] * 50 for found in callers.map(call, range(12)))


def test_scratch_is_aligned_and_of_one_thread_alone():
    first, second = thread_pool._take(100), thread_pool._take(1 << 22)
    assert first.address % 64 == second.address % 64 == 0
    assert not np.may_share_memory(first.owner, second.owner)
    thread_pool._give(second)
    assert second not in thread_pool._spare
    thread_pool._give(first)
    assert thread_pool._take(100) is first


def test_an_address_that_is_missing_is_an_error(compiled):
    with pytest.raises(ValueError, match="zip"):
        Call(compiled, {"size": 0}, 1, 1)(0)


TARGETS = [
    ("x86_64-unknown-linux-gnu", "x86-64", ""),
    ("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
    ("x86_64-unknown-linux-gnu", "x86-64-v4", ""),
    ("aarch64-unknown-linux-gnu", "neoverse-n1", ""),
    ("arm64-apple-macosx", "apple-m1", ""),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[1])
def test_object_code_for_other_machines(target):
    code = object_code.object_code(tally(), *target)
    assert code[:4] == (b"\xcf\xfa\xed\xfe" if "apple" in target[1] else b"\x7fELF")


def test_what_llvm_refuses_is_an_error_of_ours():
    kernel = Kernel("unfinished")  # a block without an end
    with pytest.raises(object_code.CodegenError, match="LLVM cannot compile"):
        object_code.compile(kernel)
    with pytest.raises(object_code.CodegenError, match="LLVM cannot compile"):
        object_code.object_code(tally(), "nowhere-unknown-none", "none", "")


def test_a_missing_symbol_is_an_error_of_ours():
    kernel = Kernel("missing")
    kernel.call("specgrad_no_such_function_{}", kernel.begin.type, kernel.begin)
    with pytest.raises(object_code.CodegenError, match="LLVM cannot load"):
        object_code.compile(kernel.finish())


def test_kernels_are_compiled_in_many_threads_at_once():
    found = []

    def make():
        found.append(run(object_code.compile(tally()), 20, 2))

    makers = [threading.Thread(target=make) for _ in range(6)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert found == [0] * 6
