"""Memory of results: reused after the last reference, never before; and the memory that a call
needs."""

import ctypes
import gc
import os
import pickle
import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import specgrad as sg
from specgrad import caches, memory
from specgrad.engines.cpu.pools import pool_of

BYTE = np.dtype(np.uint8)


@pytest.fixture(scope="module", autouse=True)
def _collected_once():
    """Collect garbage of other tests once, instead of in every collection of these tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


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
    """Free results and scratch of many sizes, four times the cache's limit in all."""
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
            factor = np.float32(2.0 ** (8 * caller + turn % 8))  # exact factors that make all results different
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


# exports


def interface(y):
    """Another object that shares an array's memory by __array_interface__."""
    return np.asarray(type("Holder", (), {"__array_interface__": y.__array_interface__, "array": y})())


EXPORTS = {
    "a view": lambda y: y[1:, ::2].T,
    "an iterator": lambda y: y.flat,
    "__array_interface__": interface,
    "memoryview": memoryview,
    "a slice of a memoryview": lambda y: memoryview(y)[1:],
    "bytes of a memoryview": lambda y: memoryview(y).cast("B"),
    "DLPack": np.from_dlpack,
    "ctypes": lambda y: np.ctypeslib.as_ctypes(y),
    "ctypes.from_buffer": lambda y: (ctypes.c_char * y.nbytes).from_buffer(y),
    "a pointer of ctypes": lambda y: y.ctypes.data_as(ctypes.POINTER(ctypes.c_float * y.size)),
    "pickle.PickleBuffer": pickle.PickleBuffer,
    "buffers of pickle": lambda y: buffers(y)[0],
    "what pickle loads": lambda y: pickle.loads(buffers(y)[1], buffers=buffers(y)[2]),
    "torch.from_numpy": lambda y: pytest.importorskip("torch").from_numpy(y),
    "torch.from_dlpack": lambda y: pytest.importorskip("torch").from_dlpack(y)[1:],
    "a storage of torch": lambda y: pytest.importorskip("torch").from_numpy(y).untyped_storage(),
}
"""Ways to refer to the memory of a result."""


def buffers(y):
    kept = []
    text = pickle.dumps(y, protocol=5, buffer_callback=kept.append)
    return kept[0], text, kept


def read(export):
    """The present bytes of an export."""
    if isinstance(export, pickle.PickleBuffer):
        return bytes(export.raw())
    if hasattr(export, "contents"):
        return bytes(export.contents)
    if hasattr(export, "untyped_storage"):
        return export.numpy().tobytes()
    if type(export).__name__ == "UntypedStorage":
        torch = pytest.importorskip("torch")
        return torch.empty(0, dtype=torch.uint8).set_(export).numpy().tobytes()  # bytes(export) reads cell by cell
    return np.array(export).tobytes() if isinstance(export, np.flatiter) else bytes(memoryview(export).tobytes())


def hold(export):
    """Whether an export of a result keeps its bytes while later calls reuse memory."""
    op = sg.MaxPool((3, 3), stride=1, padding=1)
    x = np.random.default_rng(0).normal(size=(4, 64, 80)).astype(np.float32)
    held = EXPORTS[export](op(x))
    before = read(held)
    for turn in range(8):
        op(x + np.float32(turn + 1))
        if read(held) != before:
            return False
    return True


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_of_results_stay_what_they_were(export, monkeypatch):
    assert hold(export)
    sg.clear_memory_cache()
    kept = memory.Block.__init__

    def too_early(self, piece, size):
        """A block that frees its memory at once."""
        kept(self, piece, size)
        memory._spare.append(piece)

    monkeypatch.setattr(memory.Block, "__init__", too_early)
    assert not hold(export)


# how much


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CALLS = 10**5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say")
def test_many_calls_need_no_more_memory():
    """Allow half of the growth if each call leaked the system's smallest piece."""
    x, large = np.ones((1, 2, 6, 6), np.float32), np.ones((4, 64, 80), np.float32)
    op, gy = sg.MaxPool((2, 2)), np.ones((1, 2, 3, 3), np.float32)

    def calls(count):
        for turn in range(count // 2):
            op(x)
            op.vjp((x,), gy)
            if turn % 100 == 0:
                op(large)
        gc.collect()
        return resident()

    before = calls(CALLS // 20)
    assert calls(CALLS) - before < CALLS * 32 // 2


PAGE = (Path(__file__).parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
PEAKS = PAGE.split("\n| operator | forward | JVP | VJP |\n", 1)[1].split("\n\n", 1)[0]
TABLE = re.findall(r"^\| `(.*)` \| (.*) \| (.*) \| (.*) \|$", PEAKS, re.MULTILINE)


@pytest.mark.parametrize(("operator", "forward", "jvp", "vjp"), TABLE)
def test_peaks_are_as_documented(operator, forward, jvp, vjp):
    """Results, temporary arrays, and the scratch of one thread."""
    op = eval(f"sg.{operator}")
    x = np.random.default_rng(0).normal(size=(64, 112, 112)).astype(np.float32)
    y = op(x)
    sizes = {"x": x.nbytes, "y": y.nbytes, "c": y.size}
    calls = {forward: lambda: op(x), jvp: lambda: op.jvp((x,), (x,)), vjp: lambda: op.vjp((x,), y)}
    for words, call in calls.items():
        assert peak(call) <= eval(words, sizes) + (1 << 19), words


@pytest.mark.parametrize(("channels", "out", "size", "kernel"), [(16, 32, 64, 3), (256, 256, 14, 3), (64, 128, 28, 1)])
def test_peaks_of_convolution_are_as_documented(channels, out, size, kernel):
    op, random = sg.Conv((kernel, kernel), padding=kernel // 2), np.random.default_rng(0)
    shapes = (4, channels, size, size), (out, channels, kernel, kernel), (out,)
    x, w, b = operands = tuple(random.normal(size=shape).astype(np.float32) for shape in shapes)
    y, most = op(*operands), w.nbytes + (1 << 20)
    assert peak(lambda: op(*operands)) <= y.nbytes + most
    assert peak(lambda: op.jvp(operands, operands)) <= 3 * y.nbytes + most
    assert peak(lambda: op.vjp(operands, y)) <= x.nbytes + w.nbytes + b.nbytes + most


def peak(call):
    """The peak memory of a call on one thread."""
    with sg.num_threads(1):
        call()
        gc.collect()
        sg.clear_memory_cache()
        tracemalloc.start()
        call()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most
