"""Object code of kernels: its target machine, and how it is loaded into this process.

Code is compiled for the best of a few targets (`TARGETS`) that this machine can run. The tests
compile every kernel for all of these targets, so LLVM can select instructions for them. For another
machine or an untested version of LLVM, a separate process compiles; if it crashes, a `CodegenError`
is raised here.

Code is linked by LLVM's ORC, which reports a missing symbol; its older linker ends the process.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import llvmlite
from llvmlite import binding

from .... import threads
from . import CodegenError, translate
from .builder import Kernel
from .translate import WINDOWS, Target

VERSIONS = ("0.50",)
"""Versions of llvmlite that the tests ran with."""

V3 = frozenset(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"))
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
TARGETS = {
    "x86_64": {"x86-64-v4": V4, "x86-64-v3": V3, "x86-64": frozenset[str]()},
    "aarch64": {"neoverse-n1": frozenset(("lse",)), "generic": frozenset[str]()},
    "arm64": {"apple-m1": frozenset[str]()},
}
"""Processors that code is made for, by machine, and the features that they need."""

NEOVERSE = ("neoverse-", "ampere1", "grace", "cobalt-100")
"""Processors with all features of neoverse-n1, by how their names begin; features that LLVM finds
do not tell."""

T = TypeVar("T")

_llvm = threading.RLock()
_names = itertools.count()
_held: list[Any] = []
_unused: list[Any] = []
"""Code that nobody runs any more. LLVM frees it under a lock of its own, which no thread may hold
while another one forks: so that is done by whoever loads the next kernel."""


class Compiled:
    """A kernel in machine code, which lives as long as this object does."""

    __slots__ = ("_library", "address", "parameters", "scratch")

    def __init__(self, code: bytes, parameters: tuple[str, ...], scratch: int) -> None:
        self.parameters, self.scratch = parameters, scratch
        self._library = load(code, ("task",))
        self.address: int = self._library["task"]

    def __del__(self, unused: Any = _unused) -> None:
        if library := getattr(self, "_library", None):
            unused.append(library)


def text_of(kernel: Kernel) -> str:
    """A finished kernel in LLVM's language."""
    kernel.function.attributes.add("nounwind")
    return str(kernel.module)


def code_of(text: str, target: Target) -> bytes:
    """An object file of a module in LLVM's language; CodegenError if LLVM refuses it."""
    try:
        if not is_tested(target):
            return _translate_apart(text, target)
        return undisturbed(lambda: translate.translate(text, target))
    except (RuntimeError, OSError) as problem:
        raise CodegenError(f"LLVM cannot compile a kernel for {target.cpu or target.triple}: {problem}") from problem


def is_tested(target: Target) -> bool:
    """Whether the tests compile for this target, with this version of llvmlite."""
    known = TARGETS.get(target.triple.partition("-")[0], {})
    return target.cpu in known and not target.features and llvmlite.__version__.startswith(VERSIONS)


def _translate_apart(text: str, target: Target) -> bytes:
    """Translate in another process, which LLVM may end."""
    import subprocess

    done = subprocess.run(
        [sys.executable, translate.__file__],
        input=json.dumps([target, text]).encode(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200])
    return done.stdout


@functools.cache
def host() -> Target:
    """The best target that this machine can run."""
    return undisturbed(_host)


def _host() -> Target:
    triple, cpu = binding.get_process_triple(), binding.get_host_cpu_name()
    found = {name for name, is_there in binding.get_host_cpu_features().items() if is_there}
    machine = triple.partition("-")[0]
    if machine == "aarch64" and not cpu.startswith(NEOVERSE):
        found.clear()
    for known, needs in TARGETS.get(machine, {}).items():
        if needs <= found:
            return Target(triple, known)
    return Target(triple, cpu, binding.get_host_cpu_features().flatten())


@functools.cache
def _linker() -> Any:
    return binding.create_lljit_compiler(translate.machine_of(host()), use_jit_link=not WINDOWS, suppress_errors=True)


def load(code: bytes, names: tuple[str, ...], symbols: Mapping[str, int] = {}) -> Any:
    """Link an object file into this process; the addresses of what it defines, by name, while the
    result lives. `symbols` are addresses of functions that it calls; others are looked for in the
    process."""

    def link() -> Any:
        _unused.clear()
        library = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            library.export_symbol(name)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        return library.link(_linker(), f"kernel{next(_names)}")

    try:
        return undisturbed(link)
    except RuntimeError as problem:
        raise CodegenError(f"LLVM cannot load a kernel: {problem}") from problem


def undisturbed(work: Callable[[], T]) -> T:
    """What `work` returns, which asks LLVM: one thread at a time, and never the main one. An
    interrupt, which comes to the main thread alone, would leave locks of llvmlite closed; so it
    only ends the waiting here. An interrupted `threading.Thread.start` leaves such locks too, and
    then Python waits for that thread for ever when it ends: hence a plain thread and a plain
    lock."""
    results: list[T] = []
    problems: list[BaseException] = []
    done = threading.Lock()

    def run() -> None:
        try:
            with _llvm:
                results.append(work())
        except BaseException as problem:
            problems.append(problem)
        finally:
            done.release()

    done.acquire()
    apart = threading.current_thread() is threading.main_thread()
    if apart:
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:  # the system gives no thread
            apart = False
    if apart:
        done.acquire()
    else:
        run()
    if problems:
        raise problems[0]
    return results[0]


@atexit.register
def _end() -> None:
    """No thread may be at work in LLVM when the process ends."""
    with _llvm:
        pass


def _wait() -> None:
    """No thread may be at work in LLVM when another one forks. Whoever loads may wait for one: so
    first those."""
    for lock in (threads.loading, _llvm):
        lock.acquire()
        _held.append(lock)


def _go_on() -> None:
    while _held:  # none, if this module was loaded while a fork waited for it
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_go_on)
