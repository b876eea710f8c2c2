"""The runtime of generated kernels: calls on thread pools, with forks, interrupts and the exit of
the process."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import platform
import struct
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tallies import machine_code, run, tally

from specgrad import threads
from specgrad.engines.cpu.codegen import native_pool, object_code, thread_pool
from specgrad.engines.cpu.codegen.thread_pool import Call, NativePool, SimplePool, address

LINUX = sys.platform == "linux"
POOLS = [pytest.param(NativePool, marks=pytest.mark.skipif(not LINUX, reason="no native pool here")), SimplePool]


@pytest.fixture(scope="module")
def compiled():
    return machine_code(tally())


@pytest.fixture(params=POOLS)
def pool(request, monkeypatch):
    made = request.param()
    monkeypatch.setattr(thread_pool, "_pool", made)
    yield made
    made.stop()


def test_every_item_is_handled_once_and_flags_are_joined(compiled, pool):
    for count in (1, 2, 3, 8):
        for items in (0, 1, 2, 3, 11, 64, 201):
            for grain in (0, 1, 2, 7, 300):
                assert run(compiled, items, grain, count=count)[0] == 0
        for _ in range(4):  # every other call runs backwards
            assert run(compiled, 201, 1, [(0, 1), (77, 2), (200, 8)], count=count)[0] == 11


def test_others_take_part_each_with_scratch_of_its_own(compiled, pool):
    assert any(run(compiled, 40, pause=100_000)[1] > 1 for _ in range(400))
    assert all(run(compiled, 40, pause=500)[1] <= 3 for _ in range(100))
    assert run(compiled, 40, pause=100, count=1)[1] == 1
    assert run(compiled, 40, 40, pause=100)[1] == 1


def test_workers_that_sleep_are_woken(compiled, pool):
    def later():
        time.sleep(0.01)  # longer than they spin
        return run(compiled, 40, pause=100_000)[1]

    assert any(later() > 1 for _ in range(100))


def test_calls_overlap_in_many_threads(compiled, pool):
    """One call at a time uses the workers; concurrent calls each get their own result."""

    def call(_):
        return [run(compiled, 50, 3, [(7, 4)], pause=20)[0] for _ in range(50)]

    with ThreadPoolExecutor(6) as callers:
        assert all(found == [4] * 50 for found in callers.map(call, range(12)))


def test_a_pool_that_is_stopped_leaves_its_callers_alone(compiled, pool):
    run(compiled, 40, pause=100)
    pool.stop()
    if isinstance(pool, NativePool):
        assert len(pool.workers) == 2
        assert not any(worker.is_alive() for worker in pool.workers)
        assert run(compiled, 40, pause=100)[1] == 1
    assert run(compiled, 40)[0] == 0


@pytest.mark.skipif(not LINUX, reason="no native pool here")
def test_code_stays_as_long_as_workers_wait_in_it(compiled, monkeypatch):
    thread_pool._library.cache_clear()
    monkeypatch.setattr(thread_pool, "_pool", NativePool())
    run(compiled, 40)
    workers, code = list(thread_pool._pool.workers), weakref.ref(thread_pool._pool._code)
    thread_pool._library.cache_clear()
    thread_pool._pool = None
    gc.collect()
    assert all(worker.is_alive() for worker in workers)
    assert code() is not None


def test_where_the_system_gives_no_threads_the_caller_works_alone(compiled, pool, monkeypatch):
    def none(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_helpers", 0)
    monkeypatch.setattr(threading.Thread, "start", none)
    assert run(compiled, 40, pause=100)[1] == 1


def test_where_a_function_of_the_system_is_missing_the_pool_is_the_simple_one(compiled, monkeypatch):
    class NoSemaphores:
        sem_wait = sched_yield = sched_getcpu = None

    thread_pool._library.cache_clear()
    monkeypatch.setattr(thread_pool, "_system", NoSemaphores())
    monkeypatch.setattr(thread_pool, "_pool", None)
    assert run(compiled, 40, 3, [(5, 2)])[0] == 2
    assert isinstance(thread_pool._pool, SimplePool)
    thread_pool._library.cache_clear()


@pytest.fixture(scope="module")
def routines():
    """Functions of the native pool, called one at a time."""
    text = native_pool.emit(platform.machine(), workers=True).replace("internal ", "")
    symbols = {
        name: ctypes.cast(getattr(thread_pool._system, name), ctypes.c_void_p).value for name in native_pool.SYSTEM
    }
    kinds = {"take": "pqp", "work": "pq", "join": "p"}
    library = object_code.load(object_code.code_of(text, object_code.host()), tuple(kinds), symbols)
    types = {"p": ctypes.c_void_p, "q": ctypes.c_int64}
    made = {name: thread_pool._function(library[name], *(types[kind] for kind in kinds[name])) for name in kinds}
    return library, made


def job_of(members, items, grain, backwards=False, task=0, args=0, scratch=0, stride=0):
    """A job of a call's members, with its block."""
    block, job = np.zeros(native_pool.WORDS, np.int64), np.zeros((members + 1) * native_pool.LINE, np.int64)
    for place, word in (("TASK", task), ("ITEMS", items), ("GRAIN", grain), ("MEMBERS", members)):
        block[getattr(native_pool, place)] = word
    block[native_pool.SCRATCH], block[native_pool.STRIDE] = scratch, stride
    for place, word in (
        ("BLOCK", address(block)),
        ("ARGS", args),
        ("CHUNKS", -(-items // grain)),
        ("BACKWARDS", backwards),
    ):
        job[getattr(native_pool, place)] = word
    return job, block


@pytest.mark.skipif(not LINUX, reason="no native pool here")
@pytest.mark.parametrize("backwards", [False, True])
def test_members_in_any_order_take_every_chunk_once_their_own_first(routines, backwards):
    _, made = routines
    random = np.random.default_rng(0)
    for members, chunks in itertools.product((2, 3, 7), (1, 2, 3, 6, 20, 53)):
        for _ in range(10):
            job, _block = job_of(members, chunks, 1, backwards)
            cores, used_up = random.integers(0, 64, members), np.zeros(members, np.int64)
            taken = [[] for _ in range(members)]
            left = list(range(members))
            while left:
                one = int(random.choice(left))
                chunk = made["take"](address(job), int(cores[one]), address(used_up[one:]))
                left.remove(one) if chunk < 0 else taken[one].append(chunk)
            assert sorted(itertools.chain(*taken)) == list(range(chunks))
            for one, core in enumerate(cores % members):
                share = range(core * chunks // members, (core + 1) * chunks // members)
                own = [chunk for chunk in taken[one] if chunk in share]
                assert taken[one][: len(own)] == own == sorted(own, reverse=backwards)


@pytest.mark.skipif(not LINUX, reason="no native pool here")
def test_what_each_member_does_adds_up(routines, compiled):
    _, made = routines
    counts, marks, who = np.zeros((3, 50), np.int64)
    marks[[3, 20, 49]] = 1, 2, 4
    args = np.array([*map(address, (counts, marks, who)), 0])
    memory = np.zeros(4 * 64 + 8, np.int64)
    scratch = address(memory) + -address(memory) % 64
    job, _block = job_of(4, 50, 3, False, compiled.address, address(args), scratch, 512)
    for turn in (2, 0, 3):
        made["work"](address(job), turn)
    assert counts.tolist() == [1] * 50
    assert job[native_pool.FLAGS] == 7
    assert set(who) == {scratch + 2 * 512}  # the first member takes all chunks, also the others'


@pytest.mark.skipif(not LINUX, reason="no native pool here")
def test_places_are_given_once_and_counted(routines):
    _, made = routines
    pool = np.zeros(native_pool.SIZE, np.int64)
    pool[native_pool.GATE] = 3 * native_pool.PLACE + native_pool.OPEN
    assert [made["join"](address(pool)) for _ in range(5)] == [3, 2, 1, 0, 0]
    assert pool[native_pool.GATE] == native_pool.OPEN + 3


def test_addresses_are_those_of_the_arrays_and_read_only_ones_stay_so(compiled):
    for array in (np.zeros(3), np.zeros((4, 5), "f4")[1:, ::2], np.zeros((), "u1"), np.zeros((0, 3))):
        assert address(array) == array.ctypes.data
        array.flags.writeable = False
        assert address(array) == array.ctypes.data
        assert not array.flags.writeable


def test_where_the_layout_of_arrays_is_not_known_their_addresses_are_asked_for(compiled, monkeypatch):
    assert thread_pool.DATA
    monkeypatch.setattr(thread_pool, "DATA", 0)
    assert run(compiled, 20, 3, [(5, 2)])[0] == 2


def test_an_array_too_few_or_too_many_is_an_error(compiled):
    for count in (0, 2, 4):
        with pytest.raises(struct.error):
            Call(compiled, {"pause": 0}, 1, 1)(*[np.zeros(1, np.int64)] * count)


HEAD = """
import os, signal, sys, threading, time
import numpy as np
import specgrad as sg
from specgrad.engines.cpu.codegen import object_code, thread_pool
from specgrad.engines.cpu.codegen.thread_pool import Call
from tallies import machine_code, run, tally
compiled = machine_code(tally())
"""


def script(text, *words, **environment):
    """The output of a new process that runs this text, with `run` and `compiled` defined."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + text, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_starts_a_pool_of_its_own():
    """Also while other threads call and compile."""
    printed = script("""
run(compiled, 40, pause=100_000)
going = True
def call():
    while going:
        run(compiled, 40, pause=50)
def make():
    while going:
        machine_code(tally())
others = [threading.Thread(target=work) for work in (call, make, call)]
for other in others: other.start()
ended = []
for _ in range(6):
    time.sleep(0.01)
    child = os.fork()
    if not child:
        shared = any(run(compiled, 40, pause=100_000)[1] > 1 for _ in range(1000))
        run(machine_code(tally()), 20)
        os._exit(0 if shared else 1)
    ended.append(os.waitpid(child, 0)[1])
print(ended)
going = False
for other in others: other.join()
""")
    assert printed == f"{[0] * 6}\n"


@pytest.mark.skipif(not LINUX, reason="timers of POSIX")
@pytest.mark.parametrize("pool", ["NativePool", "SimplePool"])
def test_interrupts_and_calls_from_signal_handlers_leave_everything_working(pool):
    printed = script(
        """
thread_pool._pool = getattr(thread_pool, sys.argv[1])()
def handle(signal, frame):
    assert run(compiled, 40, 1, [(3, 16)], pause=10)[0] == 16
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
signal.siginterrupt(signal.SIGALRM, True)
interrupted = 0
counts, flags, who = np.zeros((3, 60), np.int64)
call = Call(compiled, {"pause": 500}, 60, 1)
sg.set_num_threads(3)
for i in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + i * 7e-6)
        while True: run(machine_code(tally()), 60, 1) if i % 6 == 0 else call(counts, flags, who)
    except KeyboardInterrupt:
        interrupted += 1
        now = counts.copy()
        time.sleep(0.001)
        assert (counts == now).all()  # nobody works on
print(interrupted, run(machine_code(tally()), 60, 1, [(5, 1)])[0])
""",
        pool,
    )
    assert printed == "300 1\n"


@pytest.mark.skipif(not LINUX, reason="timers of POSIX")
def test_interrupts_while_a_thread_starts_to_compile_leave_nothing_that_the_end_waits_for():
    """An interrupted `threading.Thread.start` leaves a thread that never ends."""
    printed = script("""
def handle(signal, frame): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
interrupted = 0
for i in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + i % 100 * 2e-6)
        while True: object_code.undisturbed(int)
    except KeyboardInterrupt:
        interrupted += 1
print(interrupted, object_code.undisturbed(int))
""")
    assert printed == "400 0\n"


@pytest.mark.skipif(not LINUX, reason="signals of POSIX")
@pytest.mark.parametrize("pool", ["NativePool", "SimplePool"])
def test_a_signal_handler_may_call_while_its_thread_hires_workers(pool):
    printed = script(
        """
thread_pool._pool = getattr(thread_pool, sys.argv[1])()
sg.set_num_threads(3)
signal.signal(signal.SIGALRM, lambda *_: print(run(compiled, 40, 1, [(3, 16)])[0]))
start, waiting = threading.Thread.start, [signal.SIGALRM]
def interrupted(thread):
    if waiting: signal.raise_signal(waiting.pop())
    start(thread)
threading.Thread.start = interrupted
print(run(compiled, 40, 1, [(5, 1)])[0])
""",
        pool,
    )
    assert printed == "16\n1\n"


def test_the_interpreter_ends_while_workers_wait_and_threads_call():
    assert (
        script("""
def call():
    while True: run(compiled, 60, 1, pause=100)
for _ in range(3): threading.Thread(target=call, daemon=True).start()
time.sleep(0.2)
print("end")
""")
        == "end\n"
    )
