"""The generator of CPU kernels: a builder over llvmlite, and the compilation of its kernels into
machine code."""


class CodegenError(RuntimeError):
    """A kernel cannot be compiled for this machine; callers run the specification instead."""
