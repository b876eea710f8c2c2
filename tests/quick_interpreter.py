"""A faster Triton interpreter for tests."""

import triton

from specgrad.engines import gpu


def quicken():
    """Cache the interpreter's preparation of helpers and its list of NumPy types, which it repeats
    at every step, and skip its overflow checks, which are reported only while debugging."""
    if not gpu.INTERPRETED:
        return
    interpreter = triton.runtime.interpreter
    prepared, types, listed = set(), {}, interpreter._get_np_dtype

    def called(self, *args, **words):
        if self.fn not in prepared:
            interpreter._patch_lang(self.fn)
            prepared.add(self.fn)
        return self.rewrite()(*args, **words)

    def numpy_type(kind):
        name = str(kind.scalar)
        if name not in types:
            types[name] = listed(kind)
        return types[name]

    interpreter.InterpretedFunction.__call__ = called
    interpreter._get_np_dtype = numpy_type
    if not interpreter.interpreter_builder.options.debug:
        interpreter.interpreter_semantic.binary_op_sanitize_overflow_impl = lambda *given: None
