"""`specgrad prove`: statements about every geometry, and about operators and kernels for every
input of a geometry.

A *family* of statements is a module with `STATEMENTS`, `tasks()` and `run(task, deadline)`, which
yields verdicts. The family `geometry` runs the library's integer formulas on symbols (symbolic.py,
integers.py); `operators` runs the specification on real terms (reals.py). z3 decides both.
`kernels` interprets the CPU engine's kernels on symbols, without z3. The runner, the report and the
command use families through this interface alone.
"""

FAMILIES = {
    "geometry": "statements for all geometries",
    "operators": "operators × statements × geometries for all inputs",
    "kernels": "kernels × geometries for all inputs",
}
"""For each family, the words for the number of its proved statements."""
