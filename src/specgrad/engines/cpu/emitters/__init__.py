"""The kernels of the CPU engine, as functions that emit them: one file per way to walk over an
array."""
