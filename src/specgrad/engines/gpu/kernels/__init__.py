"""Triton kernels. A lane is one column of one plane (or one channel of it); a program walks some
rows of many lanes."""
