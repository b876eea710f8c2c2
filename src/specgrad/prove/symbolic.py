"""Symbols that stand for every integer: the library's own formulas run on them, unchanged.

A `Symbol` computes + - * // % and comparisons as z3 terms, and the NumPy functions of the formulas
(`where`, `clip`, `maximum`, `minimum`) as selections. If Python needs a truth value (`if`, `max`),
the run is repeated for each outcome; a `Path` holds the outcomes.

Floor division is replaced by its definition, a = q*b + r with 0 <= r < b. For b >= 1 alone, this is
the floor division of Python and NumPy, and z3's `div`. Therefore every divisor is proved to be
positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import z3


class Path:
    """One way through the branches of a run: the facts on this path, and the claims to be
    proved."""

    def __init__(self, taken: tuple[bool, ...] = ()) -> None:
        self.taken = list(taken)
        self.facts: list[Any] = []
        self.obligations: list[tuple[int, Any, str]] = []
        self.values: list[Any] = []
        self.outcomes: dict[int, bool] = {}
        self.quotients: dict[tuple[int, int], tuple[Symbol, Symbol]] = {}

    def decide(self, condition: Any) -> bool:
        """The outcome of a branch on this path: as given, or True (False is another path)."""
        key = condition.get_id()
        if key not in self.outcomes:
            if len(self.outcomes) == len(self.taken):
                self.taken.append(True)
            outcome = self.outcomes[key] = self.taken[len(self.outcomes)]
            self.facts.append(condition if outcome else z3.Not(condition))
        return self.outcomes[key]

    def oblige(self, claim: Any, words: str) -> None:
        """Add a claim to be proved from the facts so far; afterwards the claim is a fact."""
        self.obligations.append((len(self.facts), claim, words))
        self.facts.append(claim)

    def divided(self, a: Symbol, b: Symbol) -> tuple[Symbol, Symbol]:
        """Quotient and remainder by their definition; equal terms give the same symbols."""
        key = a.term.get_id(), b.term.get_id()
        if key not in self.quotients:
            self.oblige(b.term >= 1, "a divisor is positive")
            count = len(self.quotients)
            q, r = Symbol(z3.Int(f"quotient{count}")), Symbol(z3.Int(f"remainder{count}"))
            self.facts += [a.term == q.term * b.term + r.term, r.term >= 0, r.term < b.term]
            self.quotients[key] = q, r
        return self.quotients[key]


_path: Path | None = None


def current() -> Path:
    """The path of the present run."""
    assert _path is not None, "symbols are computed inside `paths` only"
    return _path


def paths(run: Callable[[], Any]) -> Iterator[tuple[Any, Path]]:
    """The result of a run on every path through its branches."""
    global _path
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        given = waiting.pop()
        path = _path = Path(given)
        try:
            result = run()
        finally:
            _path = None
        waiting += [(*path.taken[:n], False) for n in range(len(given), len(path.taken))]
        yield result, path


def term(value: Any) -> Any:
    """The z3 term of a value."""
    return value.term if isinstance(value, Symbol | Truth) else value


class Truth:
    """A comparison of symbols. As a Python condition it has both outcomes, on different paths."""

    def __init__(self, condition: Any) -> None:
        self.term = condition

    def __bool__(self) -> bool:
        return current().decide(self.term)

    def __and__(self, other: Any) -> Truth:
        return Truth(z3.And(self.term, term(other)))

    def __or__(self, other: Any) -> Truth:
        return Truth(z3.Or(self.term, term(other)))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        return Truth(self.term == term(other))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        return Truth(self.term != term(other))

    __rand__, __ror__ = __and__, __or__
    __hash__ = None  # type: ignore[assignment]

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        return ANSWERS[function](*arguments, **keywords)


class Symbol:
    """An integer term. The path records each sum and product, for statements about overflow."""

    def __init__(self, value: Any) -> None:
        self.term = z3.IntVal(value) if isinstance(value, int) else value

    def __add__(self, other: Any) -> Symbol:
        return _noted(self.term + term(other))

    def __sub__(self, other: Any) -> Symbol:
        return _noted(self.term - term(other))

    def __rsub__(self, other: Any) -> Symbol:
        return _noted(term(other) - self.term)

    def __mul__(self, other: Any) -> Symbol:
        return _noted(self.term * term(other))

    def __neg__(self) -> Symbol:
        return _noted(-self.term)

    __radd__, __rmul__ = __add__, __mul__

    def __divmod__(self, other: Any) -> tuple[Symbol, Symbol]:
        return current().divided(self, Symbol(term(other)))

    def __floordiv__(self, other: Any) -> Symbol:
        return self.__divmod__(other)[0]

    def __mod__(self, other: Any) -> Symbol:
        return self.__divmod__(other)[1]

    def __lt__(self, other: Any) -> Truth:
        return Truth(self.term < term(other))

    def __le__(self, other: Any) -> Truth:
        return Truth(self.term <= term(other))

    def __gt__(self, other: Any) -> Truth:
        return Truth(self.term > term(other))

    def __ge__(self, other: Any) -> Truth:
        return Truth(self.term >= term(other))

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        return Truth(self.term == term(other))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        return Truth(self.term != term(other))

    __hash__ = None  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *arguments: Any, **keywords: Any) -> Any:
        return ANSWERS[ufunc](*arguments, **keywords)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        return ANSWERS[function](*arguments, **keywords)


def _noted(value: Any) -> Symbol:
    current().values.append(value)
    return Symbol(value)


def _where(condition: Any, a: Any, b: Any) -> Symbol:
    return Symbol(z3.If(term(condition), term(a), term(b)))


def _clip(value: Any, low: Any, high: Any) -> Symbol:
    return _minimum(_maximum(value, low), high)


def _maximum(a: Any, b: Any) -> Symbol:
    return _where(a >= b, a, b)


def _minimum(a: Any, b: Any) -> Symbol:
    return _where(a <= b, a, b)


ANSWERS: dict[Any, Callable[..., Symbol]] = {
    np.where: _where,
    np.clip: _clip,
    np.maximum: _maximum,
    np.minimum: _minimum,
}
