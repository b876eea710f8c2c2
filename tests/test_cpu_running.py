"""The CPU engine under threads, forks, start-up, and in all layouts: results always have the bits
of a single call."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kinds import effort

import specgrad as sg
from specgrad import dispatch, threads


def random_calls(seed, count):
    """Bits of values and cotangents of some operators over arrays large enough for several
    threads."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        x = rng.normal(
            size=(3, int(rng.integers(1, 9)), int(rng.integers(60, 200)), int(rng.integers(60, 200)))
        ).astype(np.float32)
        k, s = int(rng.integers(1, 12)), int(rng.integers(1, 3))
        op = [sg.MaxPool, sg.AvgPool][int(rng.integers(2))]((k, k), stride=s, padding=int(rng.integers(0, k)))
        y = op(x)
        found += [y.tobytes(), op.vjp((x,), y)[0].tobytes()]
    return found


CALLERS = effort(4, 8)


def test_threads_do_not_change_bits():
    with sg.num_threads(1):
        alone = [random_calls(seed, 4) for seed in range(CALLERS)]

    def work(seed):
        with sg.num_threads(4):
            return random_calls(seed, 4)

    with ThreadPoolExecutor(CALLERS) as callers:
        assert alone == list(callers.map(work, range(CALLERS)))


def test_what_any_thread_finds_is_found():
    """A NaN is found by whichever thread has its task."""
    caller, together = threading.get_ident(), threading.Barrier(2, timeout=60)

    def work(among_helpers):
        together.wait()
        return (threading.get_ident() != caller) == among_helpers

    with sg.num_threads(2):
        assert threads.share(lambda: work(True), 2)
        assert threads.share(lambda: work(False), 2)
        assert not threads.share(lambda: together.wait() and False, 2)


def test_threads_are_counted():
    before = sg.get_num_threads()
    with sg.num_threads(3):
        assert sg.get_num_threads() == 3
        with sg.num_threads(1):
            assert sg.get_num_threads() == 1
    assert sg.get_num_threads() == before
    with pytest.raises(sg.ArgumentError):
        sg.set_num_threads(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_and_a_subprocess_pool_too():
    x = np.random.default_rng(3).normal(size=(8, 64, 100, 100)).astype(np.float32)
    expected = sg.max_pool2d(x, 3, stride=1, padding=1)
    child = os.fork()
    if child == 0:
        try:
            with sg.num_threads(2):
                os._exit(0 if (sg.max_pool2d(x, 3, stride=1, padding=1) == expected).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = (
        "import numpy as np, specgrad as sg; print(sg.max_pool2d(np.ones((2, 4, 4), np.float32), 2).sum(), "
        "sg.get_num_threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SPECGRAD_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["8.0", "3"]


WHILE_COMPILING = """
import os, signal, sys, threading
import numpy as np, specgrad as sg
from specgrad import dispatch

def pool():
    assert sg.global_max_pool(np.arange(6.0).reshape(1, 2, 3), 2) == 5

def compiling():
    code = sys.modules.get("specgrad.engines.cpu.codegen.object_code")
    return code is not None and hasattr(code, "_llvm") and repr(code._llvm).startswith("<locked")

def child_does(work, when):
    while other.is_alive() and not when():
        pass
    if not (child := os.fork()):
        signal.alarm(30)
        work()
        os._exit(0)
    return child

other = threading.Thread(target=pool)
other.start()
children = [
    child_does(lambda: dispatch.load("cpu"), lambda: "specgrad.engines.cpu" in sys.modules),
    child_does(pool, compiling),
]
other.join()
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_loads_and_compiles(tmp_path):
    """The other thread's locks would stay locked in the child."""
    environment = {**os.environ, "SPECGRAD_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", WHILE_COMPILING], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[0, 0]\n", "")


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path):
    file = tmp_path / "a file"
    file.write_text("")
    code = (
        "import warnings, numpy as np\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import specgrad as sg; x = np.ones((1, 4, 4), np.float32)\n"
        "    op = sg.MaxPool((1, 1), stride=2); op.vjp((x,), op(x))\n"  # two kernels that compile fast
        "from specgrad.engines.cpu.steps import compiled\n"
        "assert compiled.cache_info().currsize >= 2\n"
        "print(len([w for w in seen if 'SPECGRAD_CACHE_DIR' in str(w.message)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SPECGRAD_CACHE_DIR": str(file)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"


FUZZ = """
import sys, numpy as np, specgrad as sg, warnings
warnings.simplefilter("ignore")
rng = np.random.default_rng(6)
legal = illegal = 0
for _ in range(int(sys.argv[1])):
    rank = int(rng.integers(0, 4))
    x = rng.normal(size=tuple(rng.integers(0, 9, rank + int(rng.integers(0, 3))))).astype(np.float32)
    n = lambda low, high: tuple(int(v) for v in rng.integers(low, high, rank))
    try:
        with np.errstate(all="ignore"):
            op = [
                lambda: sg.MaxPool(n(-1, 12), stride=n(0, 4), padding=n(-1, 6), dilation=n(0, 4),
                                   ceil_mode=bool(rng.integers(2))),
                lambda: sg.AvgPool(n(0, 9), stride=n(0, 40), padding=n(0, 6), dilation=n(1, 4)),
                lambda: sg.AdaptiveMaxPool(n(-1, 20)),
                lambda: sg.AdaptiveAvgPool(n(0, 20)),
                lambda: sg.SmoothMaxPool(n(1, 5), beta=1.0, padding=n(0, 4)),
            ][int(rng.integers(5))]()
            y = op(x)
            op.vjp((x,), y)
            op.jvp((x,), (x,))
        legal += 1
    except sg.SpecgradError:
        illegal += 1
print(legal, illegal)
"""


CALLS = effort(240, 3000)


def test_no_geometry_crashes():
    done = subprocess.run([sys.executable, "-c", FUZZ, str(CALLS)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    legal, illegal = map(int, done.stdout.split())
    assert min(legal, illegal) > CALLS // 6


def extra(call):
    """The peak memory of a call in bytes, without its result."""
    call()
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - sum(part.nbytes for part in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("k", [3, 15])
def test_extra_memory_does_not_grow_with_the_kernel(k):
    x = np.random.default_rng(7).normal(size=(8, 8, 128, 128)).astype(np.float32)
    g = sg.max_pool2d(x, k, stride=1, padding=k // 2)
    pools = sg.MaxPool((k, k), stride=1, padding=k // 2), sg.AvgPool((k, k), stride=1, padding=k // 2)
    for op in pools:
        assert extra(lambda op=op: op(x)) < 2**20
    assert extra(lambda: pools[0].vjp((x,), g)) < 1.5 * x.nbytes + 2**20  # the value, and a byte per output
    assert extra(lambda: pools[1].vjp((x,), g)) < 1.1 * x.nbytes + 2**20  # the value
    unlike = sg.AvgPool((k, k), stride=1, padding=k // 2, count_include_pad=False)
    assert extra(lambda: unlike.vjp((x,), g)) < 1.1 * x.nbytes + 2**20  # and the share of each window


def test_out_is_written_in_place_and_layouts_are_kept():
    x = np.random.default_rng(8).normal(size=(2, 3, 10, 12)).astype(np.float32)
    out = np.empty((2, 3, 5, 6), np.float32)
    assert sg.max_pool2d(x, 2, out=out) is out
    np.testing.assert_array_equal(out, sg.max_pool2d(x, 2))
    holes = np.empty((2, 3, 5, 12), np.float32)[..., ::2]
    assert sg.avg_pool2d(x, 2, out=holes) is holes
    np.testing.assert_array_equal(holes, sg.avg_pool2d(x, 2))
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = sg.max_pool(last, (2, 2), axes=(1, 2))
    np.testing.assert_array_equal(y.transpose(0, 3, 1, 2), out)
    assert sg.max_pool2d(last.transpose(0, 3, 1, 2), 2).transpose(0, 2, 3, 1).flags.c_contiguous


@pytest.mark.parametrize(
    "op",
    [
        sg.MaxPool((2, 2), stride=1, ties="split"),
        sg.AvgPool((2, 2), stride=1),
        sg.SmoothMaxPool((2, 2), beta=1.0),
        sg.GlobalMaxPool(2),
    ],
)
def test_bytes_in_foreign_order_are_numbers_too(op):
    x = np.random.default_rng(9).normal(size=(2, 5, 6)).astype(np.float32)
    foreign = x.astype(x.dtype.newbyteorder())
    y = op(x)
    assert np.array_equal(op(foreign), y)
    assert np.array_equal(op.vjp((foreign,), y.astype(foreign.dtype))[0], op.vjp((x,), y)[0])
    assert np.array_equal(op.jvp((foreign,), (foreign,))[1], op.jvp((x,), (x,))[1])


@pytest.mark.parametrize("op", [sg.MaxPool((2, 2)), sg.AvgPool((2, 2)), sg.AvgPool((3, 3), stride=1, padding=1)])
def test_arrays_may_begin_between_the_addresses_of_their_cells(op):
    def beginning(array, place):
        memory = np.zeros(array.nbytes + 4, np.uint8)
        found = memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        found[...] = array
        return found

    x = np.random.default_rng(1).integers(-9, 9, (2, 3, 10, 12)).astype(np.float32) * 81  # averages of these are exact
    y, dy = op.jvp((x,), (x,))
    (gx,) = op.vjp((x,), y)
    for place in (0, 1):
        own, out = beginning(x, place), beginning(np.zeros_like(y), place)
        last = beginning(np.zeros_like(np.moveaxis(y, 1, -1)), place)
        assert np.array_equal(op(own, out=out), y)
        assert np.array_equal(
            op(np.moveaxis(beginning(np.moveaxis(x, 1, -1), 0), -1, 1), out=np.moveaxis(last, -1, 1)), y
        )
        for one in (x, own):
            assert np.array_equal(op.jvp((one,), (beginning(x, place),))[1], dy)
            assert np.array_equal(op.vjp((one,), beginning(y, place))[0], gx)


def test_a_large_float_array_on_the_reference_engine_is_a_warning(monkeypatch):
    monkeypatch.setattr(dispatch, "LARGE", 1000)
    x = np.ones((110, 10), np.longdouble)
    with pytest.warns(sg.SlowPathWarning, match=r"does not take .*; give what another engine takes"):
        sg.global_avg_pool(x, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sg.engine("reference"):
            sg.global_avg_pool(x[:10], 2)


def test_arguments_that_are_equal_but_not_alike_are_told_apart():
    x = np.ones((4, 4))
    sg.max_pool(x, (2, 2))
    with pytest.raises(sg.ArgumentError):
        sg.max_pool(x, (2.0, 2.0))
    with pytest.raises(sg.ArgumentError):
        sg.max_pool(x, (True, True))


def test_winners_are_kept_as_one_byte_each():
    x = np.random.default_rng(9).normal(size=(4, 20, 20)).astype(np.float32)
    _, kept = dispatch.load("cpu").keep(sg.MaxPool((3, 3)), (x,))
    assert kept.codes.dtype == np.uint8


def test_windows_far_wider_than_the_array_take_no_memory_for_it():
    op = sg.MaxPool((2, 2), stride=50_000, dilation=50_000, padding=25_000)
    x = np.arange(12.0).reshape(3, 4)
    found = op.jvp((x,), (np.ones_like(x),)), op.vjp((x,), op(x))
    with sg.engine("reference"):
        expected = op.jvp((x,), (np.ones_like(x),)), op.vjp((x,), op(x))
    for one, other in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        assert np.array_equal(one, other)
