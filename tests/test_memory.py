"""Memory of results: used again when nobody holds it, and never before."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import specgrad as sg
from specgrad import caches, memory
from specgrad.engines.cpu.pools import pool_of

BYTE = np.dtype(np.uint8)


@pytest.fixture(autouse=True)
def nothing_spare():
    gc.collect()
    sg.clear_memory_cache()


def test_large_arrays_begin_with_a_cache_line():
    for shape, dtype in (((3, 100, 77), "f4"), ((1 << 20,), "u1"), ((5, 7, 3001), "f8")):
        array = memory.empty(shape, np.dtype(dtype))
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.ctypes.data % memory.LINE == 0
        assert array.flags.c_contiguous
        assert array.flags.writeable
        array[...] = 1
        assert (array == 1).all()


def test_memory_is_used_again_only_when_the_last_view_has_gone():
    first = memory.empty((1 << 18,), BYTE)
    place, view = first.ctypes.data, first[5:10].reshape(5)
    del first
    second = memory.empty((1 << 18,), BYTE)
    assert not np.may_share_memory(view, second)
    del view
    assert memory.empty((1 << 18,), BYTE).ctypes.data == place


def kept():
    return sum(one.size for one in (*memory._spare, *memory._scratch))


def leave_much():
    """Let go of results and scratch of many sizes, in all four times what may be kept."""
    most = sg.get_memory_cache()
    arrays = [memory.empty((max(most // 16, 1 << 20),), BYTE) for _ in range(48)]
    scratch = [memory.take_scratch(size) for size in (100, most // 64, most // 32, most // 32 + 1) for _ in range(8)]
    arrays.append(memory.empty((most + 1,), BYTE))
    del arrays
    for one in scratch:
        memory.keep_scratch(one)


def test_what_is_kept_is_bounded_as_the_caller_says():
    assert sg.get_memory_cache() == 64 << 20
    leave_much()
    assert (64 << 20) // 2 < kept() <= 64 << 20
    try:
        for most in (8 << 20, 1 << 20, 0):
            sg.set_memory_cache(most)
            assert kept() == 0
            leave_much()
            assert kept() <= most
        with pytest.raises(sg.ArgumentError, match="set_memory_cache: n=-1: must be at least 0"):
            sg.set_memory_cache(-1)
        assert sg.get_memory_cache() == 0
    finally:
        sg.set_memory_cache(64 << 20)


def test_what_is_kept_can_be_freed():
    result = memory.empty((1 << 20,), BYTE)
    result[...] = 7
    leave_much()
    sg.clear_memory_cache()
    assert kept() == 0
    assert (result == 7).all()


def test_scratch_is_aligned_and_of_one_call_alone():
    first, second = memory.take_scratch(100), memory.take_scratch(100)
    assert first.address % 64 == second.address % 64 == 0
    assert not np.may_share_memory(first.owner, second.owner)
    memory.keep_scratch(first)
    assert memory.take_scratch(first.size) is first
    memory.keep_scratch(first)
    larger = memory.take_scratch(first.size + 1)
    assert larger.size > first.size


def test_results_that_live_share_no_memory_whatever_the_threads():
    x = np.random.default_rng(0).normal(size=(4, 64, 64)).astype(np.float32)
    op = sg.MaxPool((3, 3), stride=1, padding=1)
    expected = op(x)

    def call(caller):
        held = []
        for turn in range(200):
            factor = np.float32(2.0 ** (8 * caller + turn % 8))  # an exact one, so that no two results are alike
            held.append((factor, op(x * factor)))
            if turn % 3 == 2:
                assert all(np.array_equal(y, expected * factor) for factor, y in held)
                held = held[-1:]

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(call, range(4)))


def test_memory_that_is_not_there_is_one_error_and_no_other():
    with pytest.raises(MemoryError):
        memory.empty((1 << 62,), BYTE)


def test_tables_of_lines_of_many_lengths_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(caches, "CELLS", 2000)
    pool = sg.MaxPool((3,))
    for n in range(300, 340):
        x = np.zeros(n, np.float32)
        pool.vjp((x,), pool(x))
        with sg.engine("reference"):
            pool(x)
    assert pool_of.cache_info().currsize + sg.MaxPool.geometry.cache_info().currsize < 12


def test_tables_of_one_long_line_are_kept_between_calls(monkeypatch):
    monkeypatch.setattr(caches, "CELLS", 2000)
    x = np.zeros(5000, np.float32)
    sg.max_pool(x, (3,))
    before = pool_of.cache_info().misses
    sg.max_pool(x, (3,))
    assert pool_of.cache_info().misses == before
