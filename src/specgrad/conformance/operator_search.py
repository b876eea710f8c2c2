"""Search for cases on which an operator contradicts its own value: a user's operator on cases drawn
from its description, our operators on the cases of the tests. Hypothesis shrinks both."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..operator import Operator
from ..ops import OPERATORS
from . import refusals
from .case import integers, nonzero, positive
from .cases import STRATEGIES, Case, sliding_axes, up_to, windows
from .cells import Cell, Difference
from .claims import CLAIMS
from .compare import Outcome
from .messages import array_words
from .search import TimeUp, search, smallest
from .statements import scalar_of, without_ties
from .subjects.engines import Engine
from .trial import Crashed, Here
from .user_operators import UNFIT, Description, Drawn, judge, refuses, wrong


@st.composite
def drawings(draw: st.DrawFn, known: Description) -> Drawn:
    """Cases of an operator with this description."""
    parameters: dict[str, Any] = {}
    if known.made and known.window in ("sliding", "adaptive", "whole"):
        shapes = [draw(_around(known))]
    elif known.window in ("sliding", "adaptive", "whole"):
        axes = st.integers(0, 3).flatmap(sliding_axes) if known.window == "sliding" else up_to(5)
        parameters, shape = draw(windows(known.window, axes))
        shapes = [shape]
        if known.window == "whole":
            parameters["keepdims"] = draw(st.booleans())
    else:
        shape = tuple(draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3), max_size=3)))
        shapes = [shape, *(_broadcast(draw, shape) for _ in range(known.slots - 1))]
    if "axes" in parameters and parameters["axes"] == tuple(range(len(shapes[0])))[-len(parameters["axes"] or ()) :]:
        parameters["axes"] = None
    domain = draw(st.sampled_from([lambda x: x, lambda x: x, nonzero, positive]))
    # one pattern of 13 numbers, so that shapes shrink without drawing other cells
    operands, tangents = (tuple(np.resize(integers(draw, (13,)), shape) for shape in shapes) for _ in range(2))
    operands = tuple(map(domain, operands))
    choices = {name: draw(st.integers(0, len(values) - 1)) for name, values in known.options.items()}
    return Drawn(parameters, choices, operands, tangents, tuple(integers(draw, (7,)).tolist()))


@st.composite
def _around(draw: st.DrawFn, known: Description) -> tuple[int, ...]:
    """The shape of an operand for an operator object, whose parameters are fixed."""
    rank = len(known.least)
    most = max((a + 1 if a >= 0 else -a for a in known.axes or ()), default=rank)
    ndim = max(most, rank) + draw(st.integers(0, 2))
    shape = [draw(st.integers(1, 2)) for _ in range(ndim)]
    for least, p in zip(known.least, known.axes or range(-rank, 0), strict=True):
        shape[p] = least + draw(st.integers(0, 3))
    return tuple(shape)


def _broadcast(draw: st.DrawFn, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(draw(st.sampled_from([n, n, 1])) for n in shape[draw(st.integers(0, len(shape))) :])


GUESSES = 4
"""The cases drawn per case wanted: a class may refuse most values that the types of its parameters
suggest."""
NAME = "specgrad exact"
"""Our own operators, as a subject."""
PUBLISHED = ("print(op(*inputs))", "print(op.vjp(inputs, cotangent))")


def script(shown: Sequence[str], exact: bool, scalar: str, making: Sequence[str], arrays: dict[str, str]) -> str:
    """A Python script that makes an operator and the arrays that the lines `shown` use, and runs
    these lines."""
    code = "\n".join(['with engine("reference"):', *(f"    {line}" for line in shown)] if exact else shown)
    names = [name for name in ("Dual", "engine", "jvp", "vjp") if re.search(rf"(?<![.\w]){name}\(", code)]
    home = {"Decimal": "decimal", "Fraction": "fractions"}.get(scalar)
    lines = [f"from {home} import {scalar}"] if home else []
    lines += ["import numpy as np", *([f"from specgrad import {', '.join(names)}"] if names else []), *making]
    lines.append(f"number = np.vectorize({scalar}, otypes=[{'object' if home else scalar}])")
    return "\n".join([*lines, *(f"{name} = {words}" for name, words in arrays.items() if name in code), code])


def pasteable(known: Description, place: str, case: Drawn, claim: str, call: str = "") -> str:
    """A Python script in which a user's operator breaks a claim, or accepts a call that it should
    refuse."""
    making = ["from specgrad.conformance.subject import load"]
    if known.made:
        making.append(f"op = load({place!r})")
    else:
        making += [f"{known.operator} = load({place!r})", f"op = {known.making(case)}"]
    chosen = "".join(f", {name}={known.options[name][value]}" for name, value in case.choices.items())
    inputs, tangents = ("".join(f"number({array_words(a)}), " for a in g) for g in (case.operands, case.tangents))
    arrays = {
        "inputs": f"({inputs})",
        "tangents": f"({tangents})",
        "cotangent": f"number(np.resize({list(case.cells)}, op.output_shape(*[x.shape for x in inputs])))",
        "make": f"lambda **words: {known.operator}(**words{chosen})",
    }
    statement = CLAIMS[claim].stated
    if statement is None:
        return script([f"print({call})  # expected: an error"], False, "float", making, arrays)
    return script(statement.shown, statement.exact, known.scalar if statement.exact else "np.float32", making, arrays)


def our_pasteable(case: Case, claim: str) -> str:
    """A Python script in which an operator's specification breaks a claim, or that prints its
    results next to a published answer."""
    statement, op = CLAIMS[claim].stated, case.op
    operands = without_ties(op, case.operands) if claim == "witness" else case.operands
    forms = ["{}" if slot.integer else "number({})" for slot in op.slots]
    inputs = [form.format(array_words(x)) for x, form in zip(operands, forms, strict=False)]
    tangents = ["None" if f == "{}" else f.format(array_words(t)) for t, f in zip(case.tangents, forms, strict=False)]
    arrays = {
        "inputs": f"({', '.join(inputs)},)",
        "tangents": f"({', '.join(tangents)},)",
        "cotangent": f"number({array_words(case.cotangent)})",
    }
    making = ["from fractions import Fraction"] * ("Fraction(" in repr(op))
    making += [f"from specgrad import {type(op).__name__}", f"op = {op!r}"]
    scalar = scalar_of(op).__name__ if statement else "float"  # a published answer may be infinite
    return script(statement.shown if statement else PUBLISHED, True, scalar, making, arrays)


def our_cells(
    examples: int, seconds: float, start: int, wanted: Sequence[str], kinds: Sequence[type[Operator]] = OPERATORS
) -> Iterator[Cell]:
    """The wanted claims about our own operators, each with its result."""
    stated = Here(Engine("reference"))
    for kind in kinds:
        if "fixed" in wanted:
            yield _fixed(stated, kind)
        made = {claim: Cell(NAME, kind.__name__, claim) for claim in ("adjoint", "witness") if claim in wanted}
        failed, _ = _failures(made, stated, STRATEGIES[kind], examples, examples, seconds, start)
        for claim, (case, broken) in failed.items():
            outcome = replace(broken, words=f"{case.op!r}: {broken.words}")
            told = Difference("found by search", outcome, our_pasteable(case, claim), case)
            made[claim].differences.append(told)
        yield from made.values()


def _fixed(stated: Here, kind: type[Operator]) -> Cell:
    cell = Cell(NAME, kind.__name__, "fixed")
    for answer in refusals.fixed_of(kind):
        cell.asked += 1
        for broken in cell.tried([refusals.fixed(stated, answer)]):
            case = refusals.fixed_case(answer)
            cell.differences.append(Difference("a published answer", broken, our_pasteable(case, "fixed"), case))
    return cell


def cells(
    subject: Any, examples: int, seconds: float, start: int, wanted: Sequence[str], pulse: Callable[[], None]
) -> list[Cell]:
    """All wanted claims about a user's operator."""
    known: Description = subject.description
    asked = [claim for claim in wanted if CLAIMS[claim].stated or claim == "refuses"]
    made = {claim: Cell(known.name, known.operator, claim) for claim in asked}
    strategy, guesses = drawings(known), GUESSES * examples
    failed, legal = _failures(made, subject, strategy, guesses, examples, seconds, start, pulse)
    for claim, (case, outcome) in failed.items():
        _differs(made[claim], subject, case, outcome, pasteable(known, subject.place, case, claim))
    if "refuses" in made:
        _refuses(made["refuses"], subject, next(filter(_has_cells, legal), None))
    return list(made.values())


def _failures(
    made: dict[str, Cell],
    subject: Any,
    strategy: st.SearchStrategy[Any],
    guesses: int,
    examples: int,
    seconds: float,
    start: int,
    pulse: Callable[[], None] = lambda: None,
) -> tuple[dict[str, tuple[Any, Outcome]], list[Any]]:
    """Try the statements of these claims on `examples` cases each: the smallest failing case of
    each broken claim, and the legal cases."""
    failed: dict[str, tuple[Any, Outcome]] = {}
    legal: list[Any] = []

    def visit(case: Any) -> None:
        asked = [c for c, cell in made.items() if CLAIMS[c].stated and c not in failed and cell.cases < examples]
        if not asked:
            raise TimeUp
        pulse()
        for claim in asked:
            cell = made[claim]
            cell.asked += 1
            outcome = _asked(subject, judge, case, claim)
            if outcome.part == UNFIT:
                cell.not_offered = cell.not_offered or outcome.words
            elif cell.tried([outcome]):
                failed[claim] = (case, outcome)
            else:
                legal.append(case)

    if made:
        with contextlib.suppress(TimeUp):
            search(strategy, guesses, start, visit)
    for claim, (_, outcome) in failed.items():
        found = not outcome.refused and _smallest(subject, claim, strategy, start, seconds)
        if found:
            failed[claim] = (found, _asked(subject, judge, found, claim))
    return failed, legal


def _smallest(subject: Any, claim: str, strategy: st.SearchStrategy[Any], start: int, seconds: float) -> Any:
    """Search again for a case that breaks the claim, and shrink it."""

    def fails(case: Any) -> bool:
        outcome = _asked(subject, judge, case, claim)
        if outcome.refused:
            raise TimeUp
        return not outcome.holds and outcome.part != UNFIT

    return smallest(strategy, fails, lambda case: sum(x.size for x in case.operands), start, seconds, 200)


def _asked(subject: Any, function: Callable[..., Outcome], *arguments: Any) -> Outcome:
    """The outcome of a function that runs in the subject's process, also if this process ends."""
    try:
        outcome: Outcome = subject.run(function, *arguments)
    except Crashed as error:
        return Outcome(words=str(error), part="ended by a call")
    return outcome


def _has_cells(case: Drawn) -> bool:
    """Whether wrong calls can be made of this case: it has cells, and a window has a spatial
    axis."""
    window = [case.parameters[name] for name in ("kernel_size", "output_size", "rank") if name in case.parameters]
    return (
        all(x.size and x.ndim for x in case.operands)
        and all(window)
        and 0 not in case.parameters.get("output_size", ())
    )


def _differs(cell: Cell, subject: Any, case: Drawn, outcome: Outcome, python: str) -> None:
    known: Description = subject.description
    if not known.made:
        outcome = replace(outcome, words=f"{known.making(case)}: {outcome.words}")
    (cell.refusals if outcome.refused else cell.differences).append(Difference("found by search", outcome, python))


def _refuses(cell: Cell, subject: Any, legal: Drawn | None) -> None:
    """Try wrong calls, with operands of a legal case."""
    known: Description = subject.description
    for call in wrong(known):
        cell.asked += 1
        if legal is None:
            cell.not_offered = "no legal case was found"
            continue
        outcome = _asked(subject, refuses, legal, call)
        if cell.tried([outcome]):
            _differs(cell, subject, legal, outcome, pasteable(known, subject.place, legal, "refuses", call))
