"""The generator of CPU kernels: a builder over llvmlite, and what turns its kernels into machine code."""
