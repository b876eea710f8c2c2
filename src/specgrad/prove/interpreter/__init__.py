"""An interpreter of the CPU engine's kernels: LLVM's instructions run over any domain of numbers,
and every load and store is checked (program.py).

Proofs and tests use the interpreter. The engine does not.
"""
