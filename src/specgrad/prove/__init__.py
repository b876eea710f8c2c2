"""`specgrad prove`: statements about every geometry, and about every input of a geometry: of
operators, and of kernels.

A *family* of statements is a module with `STATEMENTS`, `tasks()` and `run(task, deadline)`, which
yields what was found. The family `geometry` runs the library's integer formulas on symbols
(symbolic.py, integers.py); `operators` runs the specification on real terms (reals.py). z3 decides
both. `kernels` interprets the CPU engine's kernels on symbols, without z3. The runner, the report
and the command know families by this interface alone.
"""

FAMILIES = {
    "geometry": "statements for all geometries",
    "operators": "operators × statements × geometries for all inputs",
    "kernels": "kernels × geometries for all inputs",
}
"""Each family, and what its statements are counted as."""
