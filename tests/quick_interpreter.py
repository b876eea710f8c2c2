"""Triton's interpreter, made quicker for tests."""

import functools

import triton

from specgrad.engines import gpu


def quicken():
    """Prepare the language of a helper once: at every call, as the interpreter does it, that takes
    a third of the time."""
    if not gpu.INTERPRETED:
        return
    interpreter = triton.runtime.interpreter
    prepare = functools.cache(interpreter._patch_lang)

    def called(self, *args, **words):
        prepare(self.fn)
        return self.rewrite()(*args, **words)

    interpreter.InterpretedFunction.__call__ = called
