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

from numba.core import compiler, typed_passes, untyped_passes
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


class Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function, each by itself made simple, to be linked into others."""

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
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


_known: dict[Any, Any] = {}


@contextlib.contextmanager
def remembering(typing):
    """Let the type of what a function gives be found once for operands of the same types. Numba compiles for one thread at a time."""
    if "resolve_function_type" in vars(typing):
        yield
        return
    find = typing.resolve_function_type

    def found(function, operands, words):
        if words:
            return find(function, operands, words)
        key = function, tuple(operands)
        signature = _known.get(key) or find(function, operands, words)
        if signature is not None:
            _known[key] = signature
        return signature

    typing.resolve_function_type = found
    try:
        yield
    finally:
        del typing.resolve_function_type


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

    def compile_extra(self, func):
        self.state.flags = Flags(self.state.flags)
        with no_collection(), remembering(self.state.typingctx):
            return super().compile_extra(func)

    def define_pipelines(self):
        (passes,) = super().define_pipelines()
        passes.passes = [(one, words) for one, words in passes.passes if one not in UNNEEDED]
        passes.finalize()
        return [passes]


class PartCompiler(KernelCompiler):
    """The same, into a `Part`."""

    def define_pipelines(self):
        state = self.state
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()
