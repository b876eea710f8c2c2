"""Numba's compiler, without what it would do in vain.

Numba makes a library of every function, optimises it, makes machine code of it, links it into the libraries of its callers and optimises
those. Of the small functions that kernels are made of nobody calls the machine code, and they are inlined before the kernel is optimised:
they are linked as they are. Nor are there closures, array expressions, or literals to unroll in a kernel. And what a function gives for operands of
some types, which Numba finds by trying every rule that was ever written for it, is found once.

This overrides what Numba does not promise to keep: `compiling` imports it for the versions it was tried with, and no other.
"""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import llvmlite.binding as llvm
from numba.core import cgutils, compiler, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

UNNEEDED = (
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.GenericRewrites,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.NopythonRewrites,
)


class Kernel(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, which is optimised when all its parts are in it, and only then."""

    def add_ir_module(self, module):
        self.add_llvm_module(llvm.parse_assembly(cgutils.normalize_ir_text(str(module))))

    def add_linking_library(self, library):
        super().add_linking_library(library)
        if isinstance(library, Part):  # what it calls is not in it
            self._linking_libraries += library._linking_libraries

    def _optimize_final_module(self):
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class Part(Kernel):
    """The code of a function, to be linked into kernels as it is, whoever of their parts calls it."""

    def add_ir_module(self, module):
        for function in module.functions:
            if not function.is_declaration:
                function.linkage = function.linkage or "linkonce_odr"
        super().add_ir_module(module)

    def add_llvm_module(self, module):
        module.data_layout = self._codegen._data_layout
        self._final_module = module  # the only one: nobody calls it from Python or C

    def finalize(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self):
        """Who is to know of the function's globals: nobody but its callers."""
        return self

    def set_env(self, name, environment):
        pass


class Flags(compiler.Flags):  # type: ignore[misc]
    """Numba's flags, which are part of the key of everything it looks up, and which it compares one by one."""

    ALIKE = hash(compiler.Flags())  # of all flags, whatever they say

    def __hash__(self):
        return self.ALIKE

    def __eq__(self, other):
        return self._values == other._values or super().__eq__(other)


_signatures: dict[Any, Any] = {}
_sizes: dict[Any, int] = {}


@contextlib.contextmanager
def remembering(typing, target):
    """Let the type of what a function gives be found once for operands of the same types, and the size of a type once. Numba compiles
    for one thread at a time."""
    if "resolve_function_type" in vars(typing):
        yield
        return
    find, measure = typing.resolve_function_type, target.get_abi_sizeof

    def found(function, operands, words):
        if words:
            return find(function, operands, words)
        key = function, tuple(operands)
        signature = _signatures.get(key) or find(function, operands, words)
        if signature is not None:
            _signatures[key] = signature
        return signature

    def size(kind):
        if kind not in _sizes:
            _sizes[kind] = measure(kind)
        return _sizes[kind]

    typing.resolve_function_type, target.get_abi_sizeof = found, size
    try:
        yield
    finally:
        del typing.resolve_function_type, target.get_abi_sizeof


@contextlib.contextmanager
def no_collection():
    """What is compiled is kept: nobody looks through it for garbage meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with fewer passes."""

    LIBRARY = Kernel

    def compile_extra(self, func):
        self.state.flags = Flags(self.state.flags)
        with no_collection(), remembering(self.state.typingctx, self.state.targetctx):
            return super().compile_extra(func)

    def define_pipelines(self):
        state = self.state
        state.library = self.LIBRARY(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        (passes,) = super().define_pipelines()
        passes.passes = [(one, words) for one, words in passes.passes if one not in UNNEEDED]
        passes.finalize()
        return [passes]


class PartCompiler(KernelCompiler):
    """The same, into a `Part`."""

    LIBRARY = Part
