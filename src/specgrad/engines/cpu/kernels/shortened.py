"""Numba's compiler, without what it would do in vain.

Numba makes a library of every function, optimises it, makes machine code of it, links it into the libraries of its callers and optimises
those. Of the small functions that kernels are made of nobody calls the machine code, and they are inlined before the kernel is optimised:
they are linked as they are. Nor are there closures, array expressions, or literals to unroll in a kernel, nor objects whose references are to be
counted when a variable dies. And what a function gives for operands of some types, which Numba finds by trying every rule that was ever written for it,
is found once, as are the rules themselves. Nobody listens to what Numba announces, or asks how long a pass took.

This overrides what Numba does not promise to keep: `compiling` imports it for the versions it was tried with, and no other.
"""

from __future__ import annotations

import contextlib
import gc
import operator
from typing import Any

import llvmlite.binding as llvm
from numba.core import base, cgutils, compiler, errors, event, interpreter, ir, typed_passes, typeinfer, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.cpu import CPUContext
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg
from numba.cpython.builtins import do_minmax
from numba.extending import intrinsic

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
    typed_passes.IRLegalization,
    untyped_passes.InlineInlinables,
    typed_passes.InlineOverloads,
)


class Kernel(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, which is optimised when all its parts are in it, and only then."""

    def add_ir_module(self, module):
        self.add_llvm_module(llvm.parse_assembly(cgutils.normalize_ir_text(str(module))))

    def add_llvm_module(self, module):
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def add_linking_library(self, library):
        super().add_linking_library(library)
        if isinstance(library, Part):  # what it calls is not in it
            self._linking_libraries += library._linking_libraries

    def _optimize_final_module(self):
        passes, builder = self._codegen._module_pass_manager(opt=2)  # what -O3 does beyond takes longer than it saves
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


class Lowering(Lower):  # type: ignore[misc]
    """LLVM's code of a function that counts no references and is not to be debugged.

    A variable that is assigned once, and used by blocks that follow only, is the value it was given (in Numba, if its own block alone uses it). Others
    have a place on the stack, which is not cleaned up before it is written again.
    """

    def _find_singly_assigned_variable(self):
        once, more = set(), set()
        for _, block in sorted(self.blocks.items()):
            for statement in block.body:
                assigns = isinstance(statement, ir.Assign)
                used = statement.value if assigns else statement
                if isinstance(used, ir.Var):
                    more.update({used.name} - once)
                elif isinstance(used, ir.Inst):
                    more.update({used.name for used in used.list_vars()} - once)
                if assigns:
                    name = statement.target.name
                    (more if name in once else once).add(name)
        self._singly_assigned_vars, self._blk_local_varmap = once - more, {}

    def alloca_lltype(self, name, lltype, datamodel=None):
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def loadvar(self, name):
        value = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if value is None else value

    def storevar(self, value, name, argidx=None):
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def lower_binop(self, resty, expr, op):
        given = self.fndesc.calltypes[expr]
        operands = [
            self.context.cast(self.builder, self.loadvar(one.name), self.typeof(one.name), kind)
            for one, kind in zip((expr.lhs, expr.rhs), given.args, strict=True)
        ]
        op = self.context.typing_context.resolve_value_type(op)
        found = self.context.typing_context.resolve_function_type(op, given.args, {})
        result = self.context.get_function(op, found)(self.builder, operands)
        return self.context.cast(self.builder, result, given.return_type, resty)

    def lower_block(self, block):
        for statement in block.body:
            self.loc = statement.loc
            try:
                self.lower_inst(statement)
            except Exception as problem:
                raise errors.LoweringError(f"{problem}: {statement}", loc=self.loc) from problem


def _chosen(better):
    """An intrinsic for min or max of two numbers, as Numba has it, but no function of its own."""

    @intrinsic
    def chosen(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return do_minmax(context, builder, signature.args, args, better)

        return typingctx.unify_types(a, b)(a, b), codegen

    return chosen


OURS = (min, _chosen(operator.lt)), (max, _chosen(operator.gt))


@register_pass(mutates_CFG=True, analysis_only=False)
class Processing(untyped_passes.IRProcessing):  # type: ignore[misc]
    """Without how long variables live, which nobody asks."""

    _name = "specgrad_processing"

    def run_pass(self, state):
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                if isinstance(statement.value, ir.Global):
                    for theirs, ours in OURS:
                        if statement.value.value is theirs:
                            statement.value.value = ours
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class Reconstruction(untyped_passes.ReconstructSSA):  # type: ignore[misc]
    """The same."""

    _name = "specgrad_ssa"

    def run_pass(self, state):
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class Stripping(typed_passes.PreLowerStripPhis):  # type: ignore[misc]
    """The same."""

    _name = "specgrad_strip_phis"

    def run_pass(self, state):
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class NativeLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """By `Lowering`."""

    _name = "specgrad_lowering"
    lowering_class = Lowering


INSTEAD = {
    untyped_passes.IRProcessing: Processing,
    untyped_passes.ReconstructSSA: Reconstruction,
    typed_passes.PreLowerStripPhis: Stripping,
    typed_passes.NativeLowering: NativeLowering,
}


class Passes(PassManager):  # type: ignore[misc]
    """Numba's passes, one after another: not timed, announced, nor looked at when each has run."""

    def run(self, state):
        for one, _ in self.passes:
            done = _pass_registry.get(one).pass_inst
            done.analysis = self._analysis
            done.run_pass(state)


class Flags(compiler.Flags):  # type: ignore[misc]
    """Numba's flags, which are part of the key of everything it looks up, and which it compares one by one."""

    ALIKE = hash(compiler.Flags())  # of all flags, whatever they say

    def __hash__(self):
        return self.ALIKE

    def __eq__(self, other):
        return self._values == other._values or super().__eq__(other)


_signatures: dict[Any, Any] = {}


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
        key = id(function), *map(id, operands)  # of types that are alike there is one
        if key in _signatures:
            return _signatures[key][0]
        signature = find(function, operands, words)
        if signature is not None:
            _signatures[key] = signature, function, operands  # which live as long as their ids are known
        return signature

    typing.resolve_function_type = found
    try:
        yield
    finally:
        del typing.resolve_function_type


def quickly_refreshed(context):
    """Let Numba know of the rules that it made on the way, without a look through all its modules for others."""
    for registry in tuple(context._registries):
        context.install_registry(registry)


def takes_place(function, theirs=base._has_loc):
    """Whether a function that writes code is to be told where in the source it stands, without what else its signature says."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return theirs(function)
    return "loc" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


UNHEARD = contextlib.nullcontext()
MEANWHILE = (
    (CPUContext, "refresh", quickly_refreshed),
    (base, "_has_loc", takes_place),
    (event, "broadcast", lambda _: None),  # every lock that is taken would be announced
    (interpreter, "peep_hole_delete_with_exit", lambda function: function),  # no kernel says "with",
    (interpreter, "peep_hole_fuse_dict_add_updates", lambda function: function),  # nor has a dictionary
    # warnings, and what errors say where they were met, are arranged anew for every single type
    (errors.WarningsFixer, "catch_warnings", lambda *_, **__: UNHEARD),  # type: ignore[attr-defined]
    (typeinfer, "new_error_context", lambda *_, **__: UNHEARD),
)


@contextlib.contextmanager
def meanwhile():
    """Let some of what Numba calls be ours. It compiles for one thread at a time."""
    theirs = [getattr(owner, name) for owner, name, _ in MEANWHILE]
    for owner, name, ours in MEANWHILE:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for (owner, name, _), their in zip(MEANWHILE, theirs, strict=True):
            setattr(owner, name, their)


def load_at_once(kept):
    """Let a kernel that is kept on disk be loaded without Numba's look through its modules: all that they know is how to compile."""

    def load(signature, target):
        with kept._guard_against_spurious_io_errors():
            return kept._load_overload(signature, target)

    kept.load_overload = load


@contextlib.contextmanager
def no_collection():
    """What is compiled is kept: nobody looks through it for garbage meanwhile, nor at once afterwards, as it counts as old then."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():  # of somebody else's
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with fewer passes."""

    LIBRARY = Kernel
    PASSES = Passes("specgrad")  # of all kernels, found when the first is compiled

    def __init__(self, typing, target, *others):
        first = CPUContext.refresh is not quickly_refreshed
        with meanwhile():
            if first:  # at which every rule for an attribute would have Numba look for others
                base.BaseContext.refresh(target)
            super().__init__(typing, target, *others)

    def compile_extra(self, func):
        self.state.flags = Flags(self.state.flags)
        with no_collection(), remembering(self.state.typingctx), meanwhile():
            return super().compile_extra(func)

    def define_pipelines(self):
        state = self.state
        state.library = self.LIBRARY(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if not self.PASSES.passes:
            (theirs,) = super().define_pipelines()
            self.PASSES.passes = [(INSTEAD.get(one, one), words) for one, words in theirs.passes if one not in UNNEEDED]
            self.PASSES.finalize()
        return [self.PASSES]


class PartCompiler(KernelCompiler):
    """The same, into a `Part`."""

    LIBRARY = Part
