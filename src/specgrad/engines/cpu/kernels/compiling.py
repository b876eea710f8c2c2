"""How kernels are compiled: by Numba, without what it would do in vain.

Numba makes a library of every function, optimises it, makes machine code of it, links it into the libraries of its callers and optimises
those. Of the small functions that kernels are made of nobody calls the machine code, and they are inlined before the kernel is optimised:
they are linked as they are. Nor are there closures, array expressions, or literals to unroll in a kernel.
"""

from __future__ import annotations

from numba import njit
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import register_jitable

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
    """Numba's compiler, with fewer passes."""

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


# division by zero gives what IEEE says, and no branch; nobody calls from C
OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
PART = {**OPTIONS, "no_cpython_wrapper": True, "pipeline_class": PartCompiler}
inline = register_jitable(**PART)
compiled = njit(nogil=True, pipeline_class=KernelCompiler, **OPTIONS)
