"""Triton's interpreter, made quicker for tests."""

import triton

from specgrad.engines import gpu


def quicken():
    """Do once what the interpreter does at every step, to prepare the language of a helper and to
    list NumPy's types; and do not work out whether integers overflow, which it does not say unless
    it is debugging."""
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
