"""Statements about integers: predicates that run on numbers and on symbols.

A statement is a Python function whose parameter names give their ranges. It is first tried on small
numbers, which find most counterexamples and show that the assumptions can be met. Then it is proved
on symbols, step by step on every path. A counterexample of z3 is checked by a run on its numbers.
"""

from __future__ import annotations

import inspect
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import z3

from .statement import Statement, Unmet, Verdict, solved
from .symbolic import Symbol, Truth, current, paths, term

TRIALS = 1000
RANGE = 2**63
CLAIM = "the claim"


class Parameter:
    """A parameter of a statement: the least value of each of its symbols, and the function that
    makes the parameter of them."""

    def __init__(self, least: dict[str, int], make: Callable[..., Any]) -> None:
        self.least, self.make = least, make


def assume(*conditions: Any) -> None:
    """Assume conditions of a statement; numbers that violate one raise `Unmet`."""
    for condition in conditions:
        if isinstance(condition, Truth):
            current().facts.append(condition.term)
        elif not condition:
            raise Unmet


def lemma(claim: Any) -> None:
    """A step of a proof: proved first, then a fact. Numbers need no lemma."""
    if isinstance(claim, Truth):
        current().oblige(claim.term, "a step of the proof")


def implies(condition: Any, claim: Any) -> Any:
    """Whether the condition implies the claim."""
    if isinstance(condition, Truth) or isinstance(claim, Truth):
        return Truth(z3.Implies(term(condition), term(claim)))
    return not condition or claim


def exact_in_64_bits(formula: Callable[..., Any], *arguments: Any) -> Any:
    """Whether a formula is exact in 64-bit integers: no intermediate value exceeds 64 bits."""
    if any(isinstance(argument, Symbol) for argument in arguments):
        begun = len(current().values)
        formula(*arguments)
        return Truth(z3.And(*(z3.And(value >= -RANGE, value < RANGE) for value in current().values[begun:])))
    exact, narrow = formula(*arguments), formula(*(np.array([argument]) for argument in arguments))
    return all(bool(np.all(n == e)) for n, e in zip(narrow, exact, strict=True))


def decide(statement: Statement, parameters: dict[str, Parameter], deadline: float = math.inf) -> Verdict:
    """Try a statement on small numbers, then prove it on symbols."""
    begun = time.monotonic()

    def verdict(status: str, **found: str) -> Verdict:
        return Verdict(status, time.monotonic() - begun, **found)

    chosen = {name: parameters[name] for name in inspect.signature(statement.claim).parameters}
    case = None
    for numbers in _small(chosen):
        holds = _holds(statement, chosen, numbers)
        if holds is False:
            return verdict("refuted", counterexample=_pasteable(statement, chosen, numbers))
        case = case or (numbers if holds else None)
    if case is None:
        return verdict("undecided", reason=f"none of {TRIALS} small cases meets its assumptions")
    reached = False
    for goal, facts, words in _goals(statement, chosen):
        found = solved([*facts, z3.Not(goal)], deadline)
        if isinstance(found, z3.ModelRef):
            numbers = {name: _number(found, name) for name in _least(chosen)}
            if _holds(statement, chosen, numbers) is False:
                return verdict("refuted", counterexample=_pasteable(statement, chosen, numbers))
            return verdict("undecided", reason=f"{words}: not for {numbers}")
        if found is not None:
            return verdict("undecided", reason=f"{words}: z3 says {found}")
        there = [z3.Int(name) == number for name, number in case.items()]
        reached = reached or (words == CLAIM and isinstance(solved([*facts, *there], deadline), z3.ModelRef))
    return verdict("proved") if reached else verdict("undecided", reason=f"no path is that of {case}")


def _number(model: Any, name: str) -> int:
    return int(model.eval(z3.Int(name, ctx=model.ctx), model_completion=True).as_long())


def _small(chosen: dict[str, Parameter]) -> list[dict[str, int]]:
    """Small numbers for all symbols, the smallest first, the same in every run."""
    draw, least = random.Random(0), _least(chosen)
    trials = [{name: low + draw.randint(0, n % 10) for name, low in least.items()} for n in range(TRIALS)]
    return sorted(trials, key=lambda numbers: sum(numbers.values()))


def _least(chosen: dict[str, Parameter]) -> dict[str, int]:
    return {name: low for parameter in chosen.values() for name, low in parameter.least.items()}


def _arguments(chosen: dict[str, Parameter], values: dict[str, Any]) -> dict[str, Any]:
    return {name: p.make(*(values[symbol] for symbol in p.least)) for name, p in chosen.items()}


def _holds(statement: Statement, chosen: dict[str, Parameter], numbers: dict[str, int]) -> bool | None:
    """Whether a statement holds for these numbers; None if they violate its assumptions."""
    try:
        return bool(statement.claim(**_arguments(chosen, numbers)))
    except Unmet:
        return None
    except ZeroDivisionError:
        return False


def _pasteable(statement: Statement, chosen: dict[str, Parameter], numbers: dict[str, int]) -> str:
    """The Python script that shows the counterexample."""
    name, module = statement.claim.__name__, statement.claim.__module__
    arguments = _arguments(chosen, numbers)
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    made = sorted({type(value) for value in arguments.values()} - {int}, key=lambda kind: kind.__name__)
    imports = [f"from {kind.__module__} import {kind.__name__}" for kind in made]
    return "\n".join([*imports, f"from {module} import {name}", f"print({name}({written}))  # False"])


def _goals(statement: Statement, chosen: dict[str, Parameter]) -> Iterator[tuple[Any, Sequence[Any], str]]:
    """The goals of a proof on every path, each with its premises: the lemmas, then the claim."""
    least = _least(chosen)
    domain = [z3.Int(name) >= value for name, value in least.items()]

    def run() -> Any:
        try:
            return statement.claim(**_arguments(chosen, {name: Symbol(z3.Int(name)) for name in least}))
        except Unmet:
            return True

    for result, path in paths(run):
        for known, claim, words in (*path.obligations, (len(path.facts), term(result), CLAIM)):
            yield claim, [*domain, *path.facts[:known]], words
