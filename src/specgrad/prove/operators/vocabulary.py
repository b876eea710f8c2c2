"""Cases, arrays that range over inputs, and the list of statements about operators."""

from __future__ import annotations

import inspect
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import z3

from ...geometry import Shape
from ...operator import Operator
from ..reals import Equation, Sequent, counterexample, variables
from ..statement import Statement, Statements, Unmet, Verdict

TRIALS = 100
Predicate = Callable[..., Sequent]


@dataclass(frozen=True)
class Case:
    """An operator, and the shapes of its operands."""

    op: Operator
    shapes: tuple[Shape, ...]

    def __str__(self) -> str:
        return f"{self.op!r} on {', '.join(map(str, self.shapes))}"


@dataclass(frozen=True)
class About(Statement):
    """A statement about operators of some kinds, in the cases for which `where` holds."""

    kinds: tuple[type[Operator], ...] = ()
    where: Callable[[Any, Any], bool] = lambda op, shapes: True

    def takes(self, case: Case) -> bool:
        """Whether the statement is about this case."""
        return type(case.op) in self.kinds and self.where(case.op, case.shapes)


STATEMENTS = Statements(About)
holds, believed = STATEMENTS.holds, STATEMENTS.believed


def _shapes(case: Case, name: str) -> list[tuple[str, Shape]]:
    """The arrays of a parameter, by name and shape.

    `x`, `z` and `d` are like the first operand, `w` and `v` like the second, `g` is like the
    output, and `t` is a number.
    """
    if name in ("operands", "tangents"):
        return [(f"{name[0]}{slot}", shape) for slot, shape in enumerate(case.shapes)]
    place = {"x": 0, "z": 0, "d": 0, "w": 1, "v": 1}
    if name in place:
        return [(name, case.shapes[place[name]])]
    return [(name, case.op.output_shape(*case.shapes) if name == "g" else ())]


def arguments(statement: Statement, case: Case, make: Callable[[str, Shape], Any]) -> dict[str, Any]:
    """A statement's arrays in a case, each made from its name and shape."""
    names = list(inspect.signature(statement.claim).parameters)[1:]
    made = {name: tuple(make(*array) for array in _shapes(case, name)) for name in names}
    return {name: arrays if name in ("operands", "tangents") else arrays[0] for name, arrays in made.items()}


def decide(statement: About, case: Case, deadline: float = math.inf) -> Verdict:
    """Prove a statement for all inputs of a case, or find one for which it does not hold."""
    begun = time.monotonic()
    sequent = statement.claim(case.op, **arguments(statement, case, variables))
    taps = case.op.geometry(*case.shapes).taps
    model = counterexample(sequent, taps, deadline)
    if model is None:
        return Verdict("proved", time.monotonic() - begun)
    if isinstance(model, str):
        return Verdict("undecided", time.monotonic() - begun, reason=f"{case}: z3 says {model}")
    found = _refuted(statement, case, model)
    if found is None:
        return Verdict("undecided", time.monotonic() - begun, reason=f"{case}: z3's counterexample holds: {model}")
    return Verdict("refuted", time.monotonic() - begun, _pasteable(statement, case, found))


def _refuted(statement: About, case: Case, model: Any) -> dict[str, Any] | None:
    """Numbers for which a statement does not hold: small ones if possible, else the model's."""
    draw = random.Random(0)
    known = {str(v): Fraction(model[v].as_fraction()) for v in model} if isinstance(model, z3.ModelRef) else {}
    for values in [*[{}] * TRIALS, *[known] * TRIALS]:
        given = arguments(statement, case, _numbers(values, draw))
        try:
            if not check(statement.claim, case.op, **given):
                return given
        except Unmet:
            continue
    return None


def _numbers(values: dict[str, Fraction], draw: random.Random) -> Callable[[str, Shape], Any]:
    """A function that makes arrays of these values, and of small numbers for missing ones."""
    each = np.vectorize(lambda v: values.get(str(v), Fraction(draw.randint(0, 2))), otypes=[object])
    return lambda name, shape: each(variables(name, shape))


def check(claim: Predicate, op: Operator, **given: Any) -> bool:
    """Whether a statement holds for object arrays of Fractions; raises `Unmet` if they violate its
    assumptions."""
    claims, assumptions = claim(op, **given)
    if not all(assumptions):
        raise Unmet
    return all(bool(c.left == c.right) if isinstance(c, Equation) else bool(c) for c in claims)


def _pasteable(statement: About, case: Case, given: dict[str, Any]) -> str:
    """The Python script that shows the counterexample."""
    name, module = statement.claim.__name__, statement.claim.__module__
    arrays = {
        key: f"({', '.join(map(_written, value))},)" if isinstance(value, tuple) else _written(value)
        for key, value in given.items()
    }
    return "\n".join(
        [
            "from fractions import Fraction",
            "import numpy as np",
            f"from specgrad import {type(case.op).__name__}",
            f"from specgrad.prove.operators import check, {module.rpartition('.')[2]}",
            *(f"{key} = {value}" for key, value in arrays.items()),
            f"op = {case.op!r}",
            f"print(check({module.rpartition('.')[2]}.{name}, op, {', '.join(f'{key}={key}' for key in arrays)}))  # "
            "False",
        ]
    )


def _written(array: Any) -> str:
    """An array of Fractions as a Python expression."""
    if all(value.denominator == 1 for value in np.ravel(array)):
        return f"np.array({np.vectorize(int)(array).tolist()}) * Fraction(1)"
    return f"np.array({array.tolist()})"
