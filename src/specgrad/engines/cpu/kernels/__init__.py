"""Compiled loops over flat arrays; imported when one first runs, since that imports Numba."""
