"""`specgrad prove`: statements about every geometry, and about every input of a geometry.

A *family* of statements is a module with `STATEMENTS`, `tasks()` and `run(task, deadline)`, which
yields what was found. The family `geometry` runs the library's integer formulas on symbols
(symbolic.py, integers.py); `operators` runs the specification on real terms (reals.py). z3 decides
both. The runner, the report and the command know families by this interface alone.
"""

FAMILIES = {
    "geometry": "statements for all geometries",
    "operators": "operators × statements × geometries for all inputs",
}
"""Each family, and what its statements are counted as."""
