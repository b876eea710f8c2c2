"""Compiled kernels on disk: loaded without emitting them, and never if any part of a file is
wrong."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from specgrad.engines.cpu.codegen import code_cache, object_code, thread_pool
from specgrad.engines.cpu.codegen.builder import Kernel
from specgrad.engines.cpu.codegen.thread_pool import Call
from specgrad.engines.cpu.codegen.values import CELLS

INT = CELLS["int64"]


def constant(number):
    """y[i] = number."""
    k = Kernel("constant")
    y = k.array("y", INT)
    k.room(number, INT)
    with k.loop(k.begin, k.end) as each:
        k.store(k.integer(number), y, each.index)
    return k.finish()


class Emitted:
    """A cached kernel, and the numbers of emissions and compilations."""

    def __init__(self):
        self.count = self.compiled = 0

    def code_of(self, text, target):
        self.compiled += 1
        return object_code.code_of(text, target)

    def __call__(self, number=5, key=None):
        """The array that a kernel from the cache writes."""

        def emit():
            self.count += 1
            return constant(number)

        found, y = code_cache.cached((constant, number) if key is None else key, emit), np.zeros(3, np.int64)
        assert found.scratch == -(-number * 8 // 64) * 64
        Call(found, {}, 3, 3)(y)
        return y.tolist()


@pytest.fixture
def home(tmp_path, monkeypatch):
    thread_pool._start()  # its code is not counted here
    monkeypatch.setenv(code_cache.VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(code_cache, "_folders", [])
    return tmp_path / "home"


@pytest.fixture
def emitted(home, monkeypatch):
    made = Emitted()
    monkeypatch.setattr(code_cache, "code_of", made.code_of)
    return made


def files(home):
    return sorted((home / "code").iterdir())


def test_a_kernel_is_emitted_once(emitted, home):
    for _ in range(3):
        assert emitted(5) == [5] * 3
        assert emitted(6) == [6] * 3
    assert emitted.count == emitted.compiled == 2
    assert len(files(home)) == 2 * 2
    if os.name == "posix":
        assert stat.S_IMODE((home / "code").stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in files(home)} == {0o600}


def test_what_is_emitted_alike_is_compiled_once(emitted, home, monkeypatch):
    assert emitted(5, key=(constant, 5)) == emitted(5, key=(constant, "five")) == [5] * 3
    monkeypatch.setattr(code_cache, "_sources", lambda: "changed")
    assert emitted(5) == [5] * 3
    assert (emitted.count, emitted.compiled, len(files(home))) == (3, 1, 3 + 1)
    monkeypatch.setattr(code_cache, "_translation", lambda: "changed")
    assert emitted(5) == [5] * 3
    assert emitted.compiled == 1  # found on disk by its LLVM text
    monkeypatch.setattr(code_cache, "_sources", lambda: "changed again")
    assert emitted(5) == [5] * 3
    assert (emitted.count, emitted.compiled) == (4, 2)


def test_compiling_is_announced_once_and_loading_is_not(emitted, home):
    said = []
    with code_cache.announced(lambda: said.append(emitted.count)):
        emitted(5)
        emitted(6)
    assert said == [0]  # before the first was emitted
    with code_cache.announced(lambda: said.append("loaded")):
        emitted(5)
    emitted(7)
    assert said == [0]


def test_another_process_finds_it(emitted, home):
    emitted(7)
    code = (
        "from test_cpu_code_cache import *\n"
        "kernel = code_cache.cached((constant, 7), lambda: print('emitted'))\n"
        "print(kernel.parameters)"
    )
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout == "('y',)\n", done.stderr


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:],
        lambda data: b"\x80\x04" + data,
        lambda data: bytes(len(data)),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_replaced(emitted, home, spoil):
    emitted()
    for count, file in enumerate(files(home), 2):
        good = file.read_bytes()
        file.write_bytes(spoil(good))
        assert emitted() == [5] * 3
        assert emitted.count == count
        assert file.read_bytes() == good
        assert emitted() == [5] * 3
        assert emitted.count == count


def test_code_of_another_kernel_under_this_name_is_replaced(emitted, home):
    emitted(5)
    fives = files(home)
    emitted(6)
    for five in fives:
        for six in set(files(home)) - {*fives}:
            good = five.read_bytes()
            five.write_bytes(six.read_bytes())
            assert emitted(5) == [5] * 3
            assert five.read_bytes() == good


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_file_that_others_may_write_is_replaced(emitted, home):
    emitted()
    for count, file in enumerate(files(home), 2):
        file.chmod(0o622)
        assert emitted() == [5] * 3
        assert emitted.count == count
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_may_write_is_refused_in_words(emitted, home, mode):
    (home / "code").mkdir(parents=True)
    (home / "code").chmod(mode)
    with pytest.warns(RuntimeWarning, match=r"is not this user's alone.* set SPECGRAD_CACHE_DIR"):
        assert emitted() == [5] * 3
    assert emitted() == [5] * 3  # warned once
    assert files(home) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_files_of_this_user_and_of_the_system_are_trusted(tmp_path, monkeypatch):
    words = list(tmp_path.stat())
    for uid, trusted in ((0, True), (1234, True), (1235, False)):
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
        words[stat.ST_MODE], words[stat.ST_UID] = 0o40755, uid
        assert code_cache._is_trusted(os.stat_result(words)) == trusted


def test_where_no_folder_can_be_made_kernels_are_compiled_every_time(emitted, home):
    home.write_text("a file")
    with pytest.warns(RuntimeWarning, match="cannot be made"):
        assert emitted() == [5] * 3
    assert emitted() == [5] * 3
    assert emitted.count == 2


def test_without_a_home_no_folder_is_made_where_the_program_runs(emitted, home, monkeypatch, tmp_path):
    """A container's user may have no entry in the system's list of users."""
    for name in (code_cache.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # the result of expanduser then
    monkeypatch.chdir(tmp_path)
    with pytest.warns(RuntimeWarning, match="cannot be made .*home.*; set SPECGRAD_CACHE_DIR"):
        assert emitted() == [5] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_named_by_the_users_home(emitted, home, monkeypatch, tmp_path):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv(code_cache.VARIABLE, "~/kernels")
    assert emitted() == [5] * 3
    assert len(files(tmp_path / "kernels")) == 2


def test_a_disk_without_space_is_said_once_and_leaves_nothing_behind(emitted, home, monkeypatch):
    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="cannot be written .No space left"):
        assert emitted() == [5] * 3
    assert emitted() == [5] * 3
    assert files(home) == []


def test_the_warning_may_be_an_error_and_the_next_call_works(emitted, home):
    home.write_text("a file")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            emitted()
        assert emitted() == [5] * 3


def test_the_files_go_that_were_used_longest_ago_when_there_are_too_many(emitted, home, monkeypatch):
    monkeypatch.setattr(code_cache, "OFTEN", 1)
    emitted(1)
    size = sum(file.stat().st_size for file in files(home))
    monkeypatch.setattr(code_cache, "MOST", 4 * size + size // 2)
    for number in range(2, 9):
        for age, file in enumerate(sorted(files(home), key=lambda one: one.stat().st_mtime)):
            os.utime(file, (1e9 + age, 1e9 + age))
        before = emitted.count
        emitted(1)
        assert emitted.count == before  # a kernel in use is kept
        emitted(number)
        assert sum(file.stat().st_size for file in files(home)) <= code_cache.MOST
        assert len(files(home)) >= 2 * min(number, 4)
    before = emitted.count
    for number in (1, 8, 7, 6):
        emitted(number)
    assert emitted.count == before


def test_other_sources_versions_and_machines_have_other_code(emitted, home, monkeypatch):
    emitted()
    for change in (
        lambda: monkeypatch.setattr(code_cache, "_sources", lambda: "changed"),
        lambda: monkeypatch.setattr(code_cache.llvmlite, "__version__", "0.50.99"),
        lambda: monkeypatch.setattr(
            code_cache, "host", lambda: object_code.Target(object_code.host().triple, "x86-64")
        ),
    ):
        if object_code.host().triple.startswith("x86_64"):
            change()
            before = emitted.count
            emitted()
            assert emitted.count == before + 1


def test_many_threads_write_and_read_at_once(emitted, home):
    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(lambda i: emitted(1 + i % 3), range(40))) == [[1 + i % 3] * 3 for i in range(40)]
    assert len(files(home)) == 2 * 3


class Pair(NamedTuple):
    one: int
    two: int


@dataclass(frozen=True)
class Data:
    one: int
    two: int = 2


class Plain:
    def __init__(self, one):
        self.one = one


def test_keys_that_differ_are_spelled_differently_and_alike_ones_alike():
    keys = [
        1,
        1.0,
        True,
        "1",
        None,
        (1,),
        (1, 2),
        ((1, 2),),
        Pair(1, 2),
        Data(1),
        Data(2),
        Plain(1),
        Plain("1"),
        Pair,
        Data,
    ]
    keys += [constant, np.float32(1), np.dtype("f4"), *CELLS.values(), INT.stored, float("inf"), -0.0, 0.0, [1]]
    assert len({repr(code_cache.spelled(key)) for key in keys}) == len(keys)
    assert code_cache.spelled((Plain(1), Data(1))) == code_cache.spelled((Plain(1), Data(1, 2)))


@pytest.mark.parametrize("key", [lambda: 1, object(), len, Emitted(), {1: 2}])
def test_a_key_that_cannot_be_spelled_is_a_mistake(key):
    with pytest.raises(TypeError, match="code_cache"):
        code_cache.spelled(key)
