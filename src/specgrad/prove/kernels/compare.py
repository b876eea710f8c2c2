"""What claims are made of: plans that run on symbols, and results that are compared with what is
specified."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engines.cpu.codegen.builder import Cell
from ...operator import Operator
from ..interpreter.memory import Undecided
from .cases import Case
from .domain import PickMemory, Specified, Symbols, window_of
from .forms import Form, form
from .plans import Execution
from .symbols import Either, Lead, Table

DOMAIN = Symbols()


class Differs(Exception):
    """A kernel does not leave what is specified; says where."""


class Unplanned(Exception):
    """The engine runs something else in this case."""


def expect(case: Case, *plans: Any) -> None:
    """Have kernels of the case's emitter among these chains and steps, or do without the case."""
    steps = [step for plan in plans for step in getattr(plan, "steps", (plan,))]
    if case.emitter not in {step.call.emitted.kernel.module.name for step in steps}:
        raise Unplanned


Arrays = dict[str, tuple[Cell, Any]]


def ran(plan: Any, given: Arrays, wanted: Arrays, *names: str) -> Any:
    """What a chain or a step leaves of `wanted` (name -> cell, shape), in the order in which it
    lies; None if it has flags."""
    run = Execution(DOMAIN, PickMemory)
    for name, (cell, array) in given.items():
        run.give(name, cell, list(array.ravel()))
    for name, (cell, shape) in wanted.items():
        run.take(name, cell, math.prod(shape))
    flags = run.step(plan, names) if names else run.chain(plan)
    return None if flags else [run.cells(name).reshape(shape) for name, (_, shape) in wanted.items()]


def same_lead(found: Any, expected: Any, ordered: bool, where: str) -> None:
    """A maximum of the same cells; ordered: of equal cells the same wins."""
    if isinstance(expected, Lead) and isinstance(found, Lead) and found.sign == expected.sign:
        if found.cells == expected.cells if ordered else set(found.cells) == set(expected.cells):
            return
    elif not isinstance(expected, Lead) and not isinstance(found, Lead | Form | Table) and found == expected:
        return
    raise Differs(f"{where}: {found!r}, specified is {expected!r}")


def same_form(found: Any, expected: Any, half: bool, where: str, least: int = 0) -> None:
    """The same polynomial, each of whose n terms went through at most n + 1 roundings; half floats
    are rounded once more, last."""
    if isinstance(found, Table | Either):
        raise Undecided(f"{where}: {found!r}")
    found, expected = form(found), form(expected)
    if found.coefficients != expected.coefficients:
        raise Differs(f"{where}: {found!r}, specified is {expected!r}")
    if found.cancelled:
        raise Differs(f"{where}: terms are added that are subtracted again")
    if found.depth > max(len(expected.terms), least) + 1:
        raise Differs(f"{where}: {found.depth} roundings of a sum of {len(expected.terms)} terms")
    if found.halved > half:
        raise Differs(f"{where}: rounded to a half float {found.halved} times")


def each(found: Any, expected: Any, compare: Any, *how: Any) -> None:
    """Compare cell by cell."""
    if found.shape != expected.shape:
        raise Differs(f"shape {found.shape}, specified is {expected.shape}")
    for place in np.ndindex(*expected.shape):
        compare(found[place], expected[place], *how, f"cell {place}")


def pulled(op: Operator, slot: int, operands: list[Any], g: Any) -> Any:
    """The cotangent of an operand, by the operator's own row."""
    window, S = window_of(op, operands), Specified()
    made = np.zeros(operands[slot].size, object)
    for entry in op.row(S, window, None):
        if entry.slot == slot:
            for place, share in zip(entry.place, entry.apply(S, g.ravel()), strict=True):
                made[place] = DOMAIN.add(made[place], share)
    return made.reshape(operands[slot].shape)
