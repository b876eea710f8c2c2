"""Running plans on symbols, and comparing results with the specification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engines.cpu.codegen.values import Cell
from ...operator import Operator
from ..interpreter.memory import Undecided
from .cases import Case
from .domain import PickMemory, Specified, Symbols, window_of
from .forms import Form, form
from .plans import Execution
from .symbols import Either, Lead, Table

DOMAIN = Symbols()


class Differs(Exception):
    """A kernel's result differs from the specification; the message says where."""


class Unplanned(Exception):
    """The engine has no kernel of the wanted emitter for this case."""


def expect(case: Case, *plans: Any) -> None:
    """Raise Unplanned if no kernel of the case's emitter is among these chains and steps."""
    steps = [step for plan in plans for step in getattr(plan, "steps", (plan,))]
    if case.emitter not in {step.call.emitted.kernel.module.name for step in steps}:
        raise Unplanned


Arrays = dict[str, tuple[Cell, Any]]


def ran(plan: Any, given: Arrays, wanted: Arrays, *names: str) -> Any:
    """The arrays `wanted` (name -> cell, shape), in memory order, after a chain or a step; None if
    it returns flags."""
    run = Execution(DOMAIN, PickMemory)
    for name, (cell, array) in given.items():
        run.give(name, cell, list(array.ravel()))
    for name, (cell, shape) in wanted.items():
        run.take(name, cell, math.prod(shape))
    flags = run.step(plan, names) if names else run.chain(plan)
    return None if flags else [run.cells(name).reshape(shape) for name, (_, shape) in wanted.items()]


def same_lead(found: Any, expected: Any, ordered: bool, where: str) -> None:
    """Whether both are the maximum of the same cells; if `ordered`, with the same winner at
    ties."""
    if isinstance(expected, Lead) and isinstance(found, Lead) and found.sign == expected.sign:
        if found.cells == expected.cells if ordered else set(found.cells) == set(expected.cells):
            return
    elif not isinstance(expected, Lead) and not isinstance(found, Lead | Form | Table) and found == expected:
        return
    raise Differs(f"{where}: {found!r}, specified is {expected!r}")


def same_form(found: Any, expected: Any, half: bool, where: str, least: int = 0) -> None:
    """Whether both are the same polynomial, with at most n + 1 roundings in each of n terms. Half
    floats have one more rounding at the end."""
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
    """Compare two arrays cell by cell."""
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
