"""The generator of CPU kernels: a builder over llvmlite, what turns its kernels into machine code,
and what runs them without."""


class CodegenError(RuntimeError):
    """A kernel cannot be compiled for this machine; callers run the specification instead."""
