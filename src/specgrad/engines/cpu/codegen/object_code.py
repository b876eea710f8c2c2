"""Object code of a kernel: its LLVM module, optimised and translated by llvmlite, loaded into this process.

Kernels are vectors and loops already, so the loop and SLP vectorizers are off. Code is linked by LLVM's ORC, which reports a
missing symbol as an error where the older MCJIT ends the process.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from llvmlite import binding

from .... import threads
from .builder import Kernel

TASK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
"""The type of every task: arguments, begin, end, scratch -> flags."""

WINDOWS = os.name == "nt"
MODEL = (
    "jitdefault" if WINDOWS else "small"
)  # LLVM's newer linker puts all of an object side by side; on Windows it does not link all

_names = itertools.count()
_unused: list[Any] = []
"""Code that nobody runs any more. LLVM frees it under a lock of its own, which no thread may hold while another one forks: so
that is done by whoever loads the next kernel."""


class CodegenError(RuntimeError):
    """A kernel cannot be compiled for this machine; callers run the specification instead."""


class Target(NamedTuple):
    """A machine to translate for, in LLVM's words."""

    triple: str
    cpu: str
    features: str


class Compiled:
    """A kernel in machine code, which lives as long as this object does."""

    __slots__ = ("_library", "address", "parameters", "scratch", "task")

    def __init__(self, code: bytes, parameters: tuple[str, ...], scratch: int) -> None:
        self.parameters, self.scratch = parameters, scratch
        self._library = load(code, ("task",))
        self.address: int = self._library["task"]
        self.task = TASK(self.address)

    def __del__(self, unused: Any = _unused) -> None:
        if library := getattr(self, "_library", None):
            unused.append(library)


def compile(kernel: Kernel) -> Compiled:
    """Machine code of a finished kernel for this machine; CodegenError if LLVM refuses it."""
    return Compiled(object_code(kernel, *host()), tuple(kernel.parameters), kernel.scratch)


def object_code(kernel: Kernel, triple: str, cpu: str, features: str) -> bytes:
    """An object file of a finished kernel for any machine that LLVM knows; nothing is loaded."""
    kernel.function.attributes.add("nounwind")
    return translate(str(kernel.module), Target(triple, cpu, features))


def translate(text: str, target: Target) -> bytes:
    """An object file of an LLVM module in its written form."""
    with threads.loading:
        try:
            return _translate(text, target)
        except RuntimeError as problem:
            raise CodegenError(f"LLVM cannot compile a kernel for {target.cpu}: {problem}") from problem


def _translate(text: str, target: Target) -> bytes:
    machine = _machine(target)
    module = binding.parse_assembly(text, binding.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def host() -> Target:
    """The machine that this process runs on."""
    features = binding.get_host_cpu_features().flatten()
    return Target(binding.get_process_triple(), binding.get_host_cpu_name(), features)


@functools.cache
def _machine(target: Target) -> Any:
    if target == host():
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    made = binding.Target.from_triple(target.triple)
    return made.create_target_machine(target.cpu, target.features, opt=2, reloc="pic", codemodel=MODEL, jit=True)


@functools.cache
def _linker() -> Any:
    return binding.create_lljit_compiler(_machine(host()), use_jit_link=not WINDOWS, suppress_errors=True)


def load(code: bytes, names: tuple[str, ...], symbols: Mapping[str, int] = {}) -> Any:
    """Link an object file into this process; the addresses of what it defines, by name, while the result lives. `symbols` are
    addresses of functions that it calls; others are looked for in the process."""
    with threads.loading:
        _unused.clear()
        library = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in names:
            library.export_symbol(name)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        try:
            return library.link(_linker(), f"kernel{next(_names)}")
        except RuntimeError as problem:
            raise CodegenError(f"LLVM cannot load a kernel: {problem}") from problem
