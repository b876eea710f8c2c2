"""Statements about the CPU engine's kernels, for all real inputs of a geometry.

Emitted kernels are interpreted over symbols (symbols.py) in the engine's own plans (plans.py), with
every load and store checked. The results are compared with the specification over the same symbols
(pooling.py, weights.py, convolutions.py, products.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..interpreter.memory import Fault, Undecided
from ..statement import Found, Statement, Verdict
from . import convolutions, machine, pooling, products, weights
from .cases import Case, drawn
from .compare import Differs, Unplanned
from .plans import uncompiled

__all__ = ["EMITTERS", "STATEMENTS", "Task", "run", "tasks"]

EMITTERS = {
    "direct": ("maximum", "exact_maximum", "argmax", "average"),
    "tiles": ("maximum", "exact_maximum", "argmax", "exact_argmax", "average", "log_sum_exp"),
    "along": ("maximum", "exact_maximum", "argmax", "exact_argmax", "average", "average_vjp", "log_sum_exp"),
    "channels": ("maximum", "exact_maximum", "argmax", "average", "average_vjp", "argmax_vjp"),
    "bins": ("maximum", "exact_maximum", "argmax", "exact_argmax", "average"),
    "phases": ("average_vjp", "argmax_vjp", "weighted_sum_vjp"),
    "flat": ("argmax_vjp",),
    "runs": ("average_vjp",),
    "winners": ("argmax_vjp", "argmax_jvp"),
    "weights": ("weighted_sum",),
    "gemm": ("convolution", "convolution_vjp"),
    "weight_gradient": ("convolution_weight_vjp",),
    "matmul": ("product", "product_vjp", "product_weight_vjp"),
    "dots": ("product",),
    "compiled": ("special_values",),
}
"""For each emitter, the claims about its kernels; also for machine code."""

GEOMETRIES = 64
"""The number of geometries per emitter."""

TRIES = 400
"""The number of cases that are drawn until one has a kernel of the emitter."""

STATEMENTS = [
    Statement("max: the greatest of each window's real cells", pooling.maximum),
    Statement("max by the exact kernels: the same", pooling.exact_maximum),
    Statement("argmax: the first of each window's greatest real cells, and its code", pooling.argmax),
    Statement("argmax by the exact kernels: the same", pooling.exact_argmax),
    Statement("JVP and indices of max: tangent and index of the cell that won, whichever it is", pooling.argmax_jvp),
    Statement("VJP of max: the cotangents of the windows that a cell won, whatever it won", pooling.argmax_vjp),
    Statement("average: the sum of each window's real cells over its divisor, in n + 1 roundings", pooling.average),
    Statement("VJP of average: the shares of the windows that read a cell, in n + 1 roundings", pooling.average_vjp),
    Statement("smooth max: each window's greatest cell m, and the sum of exp(β(cell - m))", weights.log_sum_exp),
    Statement("JVP of smooth max and of shared ties: tangents times weights, in n + 1 roundings", weights.weighted_sum),
    Statement("VJP of smooth max and of shared ties: cotangents times weights", weights.weighted_sum_vjp),
    Statement("convolution: the sum of each window's cells times weights, and the bias", convolutions.convolution),
    Statement("convolution, VJP: the cotangents of a cell's windows times weights", convolutions.convolution_vjp),
    Statement("convolution, VJP in the weight: cotangents times cells", convolutions.convolution_weight_vjp),
    Statement("product of matrices: the sum of a row's cells times a column's, and the bias", products.product),
    Statement("product, VJP: cotangents times the cells of the other matrix", products.product_vjp),
    Statement("product, VJP in the weight: the same", products.product_weight_vjp),
    Statement("3×3 max: value, index and VJP for each of the 7,087,261 weak orders of nine cells", machine.every_order),
    Statement(
        "every arrangement of -inf, -1, -0, 0, 1, inf, NaN: value, index and VJP, all bits", machine.special_values
    ),
]
BY_NAME = {statement.claim.__name__: statement for statement in STATEMENTS}


class Task(NamedTuple):
    """An emitter, and the number from which its geometry is drawn."""

    emitter: str
    number: int


def tasks() -> list[Task]:
    """GEOMETRIES tasks for each emitter."""
    return [Task(emitter, number) for emitter in EMITTERS for number in range(GEOMETRIES)]


def run(task: Task, deadline: float) -> Iterator[Found]:
    """Decide one claim about a case with a kernel of this emitter."""
    random = np.random.default_rng([task.number, *task.emitter.encode()])
    for _ in range(TRIES):
        name, case = draw(random, task)
        verdict = decide(BY_NAME[name], case)
        if verdict is not None:
            shown = "" if verdict.status == "proved" else _pasteable(task)
            words = BY_NAME[name].words
            yield Found(f"kernels: {task.emitter}", words, True, str(case), replace(verdict, counterexample=shown))
            return
    raise RuntimeError(f"no case for {task}")


def draw(random: np.random.Generator, task: Task) -> tuple[str, Case]:
    """A claim, and a case for it."""
    emitter, number = task
    if emitter == "compiled":
        return ("special_values" if number else "every_order"), machine.drawn(random)
    name = EMITTERS[emitter][number % len(EMITTERS[emitter])]
    return name, drawn(random, name, emitter)


def _pasteable(task: Task) -> str:
    """The Python script that shows the failure."""
    lines = ["import math", "from specgrad.prove.kernels import Task, run"]
    return "\n".join([*lines, f"for found in run({task!r}, math.inf):", "    print(found.case, found.verdict.reason)"])


def decide(statement: Statement, case: Case) -> Verdict | None:
    """The verdict on a case; None if its plan has no kernel of its emitter."""
    begun = time.monotonic()

    def verdict(status: str, **words: str) -> Verdict:
        return Verdict(status, time.monotonic() - begun, **words)

    with nullcontext() if case.emitter == "compiled" else uncompiled(dict(case.constants)):
        try:
            statement.claim(case)
        except Unplanned:
            return None
        except (Differs, Fault) as problem:
            return verdict("undecided" if isinstance(problem, Undecided) else "refuted", reason=str(problem))
    return verdict("proved")
