"""Triton kernels. A lane is one column of one plane (or one channel of a column); a program handles
some rows of many lanes."""
