"""The CPU engine's kernels run without machine code: LLVM's instructions are interpreted over any
domain of numbers, with every load and store checked (program.py).

Proofs and tests use it. The engine does not.
"""
