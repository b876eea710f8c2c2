"""Numba's compiler, without what it would do in vain.

Numba makes a library of every function, optimises it, makes machine code of it, links it into the libraries of its callers and optimises
those. Of the small functions that kernels are made of nobody calls the machine code, and they are inlined before the kernel is optimised:
they are linked as they are. Nor are there closures, array expressions, or literals to unroll in a kernel.

This overrides what Numba does not promise to keep: `compiling` imports it for the versions it was tried with, and no other.
"""

from __future__ import annotations

import gc

from numba.core import typed_passes, untyped_passes
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


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with fewer passes. What it makes is kept: nobody looks through it for garbage meanwhile."""

    def compile_extra(self, func):
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()

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
