"""Statements about real inputs: operators run over z3 terms; z3 decides linear arithmetic.

Two reductions make the statements linear. An equation between sums of products, such as
adjointness, is compared coefficient by coefficient. A term is a polynomial in the variables outside
of all conditions and divisors; its coefficients are terms in the other variables. Two polynomials
are equal everywhere if and only if all their coefficients are. A divisor that varies is a count of
tied cells. It is proved to be one of 1, 2, …, and the statement is decided for each value.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import z3

from .statement import solved

Coefficient = Any  # a Fraction, or a z3 term
Polynomial = dict[tuple[str, ...], Coefficient]


class Equation(NamedTuple):
    """left = right, decided by comparing coefficients."""

    left: Any
    right: Any


class Sequent(NamedTuple):
    """The claims and assumptions of a statement: z3 terms, or truth values of numbers."""

    claims: Sequence[Any]
    assumptions: Sequence[Any] = ()


def variables(name: str, shape: tuple[int, ...]) -> Any:
    """An array of real variables."""
    made = np.empty(shape, object)
    for place in np.ndindex(*shape):
        made[place] = z3.Real("_".join([name, *map(str, place)]))
    return made


def equal(left: Any, right: Any) -> list[Any]:
    """One equation per cell."""
    return [Equation(a, b) for a, b in zip(np.ravel(left), np.ravel(right), strict=True)]


def at_most(left: Any, right: Any) -> list[Any]:
    """left <= right, cell by cell."""
    return [a <= b for a, b in np.broadcast(left, right)]


def inner(left: Any, right: Any) -> Any:
    """The inner product of two arrays."""
    products = [a * b for a, b in zip(left.flat, right.flat, strict=True)]
    return functools.reduce(operator.add, products) if products else Fraction(0)


def is_term(value: Any) -> bool:
    """Whether a value is a z3 term, and not a number or bool."""
    return isinstance(value, z3.ExprRef)


def either(conditions: Sequence[Any]) -> Any:
    """Whether some condition holds."""
    return z3.Or(*conditions) if any(map(is_term, conditions)) else any(conditions)


def every(conditions: Sequence[Any]) -> Any:
    """Whether all conditions hold."""
    return z3.And(*conditions) if any(map(is_term, conditions)) else all(conditions)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """a if the condition holds, else b."""
    if not is_term(condition):
        return a if condition else b
    return z3.If(condition, *(side if is_term(side) else z3.RealVal(str(side)) for side in (a, b)))


def differ(cells: Any) -> Any:
    """Whether all cells of an array differ."""
    cells = list(cells.flat)
    return z3.Distinct(*cells) if len(cells) > 1 and is_term(cells[0]) else len(set(cells)) == len(cells)


def counterexample(sequent: Sequent, most: int, deadline: float) -> Any:
    """None if all claims are proved; else a model, or z3's reason for having neither.

    The model is empty if a claim does not depend on the input.
    """
    assumptions = [a for a in sequent.assumptions if is_term(a)]
    for claim in sequent.claims:
        for condition in _conditions(claim):
            found = {} if condition is False else _decided(condition, most, assumptions, deadline)
            if found is not None:
                return found
    return None


def _conditions(claim: Any) -> Iterator[Any]:
    """The conditions equivalent to a claim, without products of variables: terms or False."""
    if not isinstance(claim, Equation):
        yield claim if is_term(claim) else bool(claim)
        return
    left, right = (side if is_term(side) else z3.RealVal(str(side)) for side in claim)
    reading = Reading(left, right)
    one, other = reading.polynomial(left), reading.polynomial(right)
    for monomial in {**one, **other}:
        a, b = one.get(monomial, Fraction(0)), other.get(monomial, Fraction(0))
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            if a != b:
                yield False
        elif not _term(a).eq(_term(b)):
            yield _term(a) == _term(b)


def _decided(condition: Any, most: int, assumptions: list[Any], deadline: float) -> Any:
    """None if a condition follows from the assumptions, for every value of its divisors; else as
    `counterexample`."""
    if condition is True:
        return None
    divisor = next(_varying_divisors(condition), None)
    if divisor is None:
        return solved([*assumptions, z3.Not(condition)], deadline)
    values = [z3.RealVal(count) for count in range(1, most + 1)]
    outside = solved([*assumptions, *(divisor != value for value in values)], deadline)
    if outside is not None:
        return outside
    for value in values:
        found = _decided(
            z3.simplify(z3.substitute(condition, (divisor, value))), most, [*assumptions, divisor == value], deadline
        )
        if found is not None:
            return found
    return None


def _varying_divisors(term: Any) -> Iterator[Any]:
    for part in _parts(term):
        if part.decl().kind() == z3.Z3_OP_DIV and not z3.is_rational_value(part.arg(1)):
            yield part.arg(1)


def _parts(*terms: Any) -> Iterator[Any]:
    """All subterms of some terms, each once."""
    seen, waiting = set(), list(terms)
    while waiting:
        part = waiting.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            yield part
            waiting += part.children()


class Reading:
    """Terms as polynomials in the variables that occur in none of their conditions and divisors."""

    def __init__(self, *terms: Any) -> None:
        decide = [
            part.arg(0) if part.decl().kind() == z3.Z3_OP_ITE else part.arg(1)
            for part in _parts(*terms)
            if part.decl().kind() in (z3.Z3_OP_ITE, z3.Z3_OP_DIV)
        ]
        self.fixed = {part.decl().name() for part in _parts(*decide) if part.decl().kind() == z3.Z3_OP_UNINTERPRETED}
        self._read: dict[int, Polynomial] = {}

    def polynomial(self, term: Any) -> Polynomial:
        """A term as a polynomial: coefficients by the names of their variables."""
        key = term.get_id()
        if key not in self._read:
            self._read[key] = self._expand(term)
        return self._read[key]

    def _expand(self, term: Any) -> Polynomial:
        kind = term.decl().kind()
        if z3.is_rational_value(term):
            value = Fraction(term.as_fraction())
            return {(): value} if value else {}
        if kind == z3.Z3_OP_UNINTERPRETED:
            name = term.decl().name()
            return {(): term} if name in self.fixed else {(name,): Fraction(1)}
        if kind == z3.Z3_OP_ITE:
            condition, one, other = term.children()
            one, other = self.polynomial(one), self.polynomial(other)
            none = Fraction(0)
            return {m: _chosen(condition, one.get(m, none), other.get(m, none)) for m in {**one, **other}}
        parts = [self.polynomial(part) for part in term.children()]
        if kind == z3.Z3_OP_DIV:
            (divisor,) = parts[1].values()  # a divisor has no free variable
            return {m: _exact(value, divisor, operator.truediv) for m, value in parts[0].items()}
        if kind == z3.Z3_OP_MUL:
            return functools.reduce(_times, parts)
        if kind in (z3.Z3_OP_SUB, z3.Z3_OP_UMINUS):
            kept = kind == z3.Z3_OP_SUB  # a difference subtracts all parts but the first, a negation all
            parts = parts[:kept] + [_times(part, {(): Fraction(-1)}) for part in parts[kept:]]
        elif kind != z3.Z3_OP_ADD:
            raise ValueError(f"no polynomial: {term.decl()}")
        return _sum(pair for part in parts for pair in part.items())


def _term(value: Coefficient) -> Any:
    return z3.RealVal(str(value)) if isinstance(value, Fraction) else value


def _exact(a: Coefficient, b: Coefficient, combine: Any) -> Coefficient:
    """combine(a, b): a Fraction for Fractions, else a term."""
    both = isinstance(a, Fraction) and isinstance(b, Fraction)
    return combine(a, b) if both else combine(_term(a), _term(b))


def _chosen(condition: Any, a: Coefficient, b: Coefficient) -> Coefficient:
    return a if _term(a).eq(_term(b)) else z3.If(condition, _term(a), _term(b))


def _sum(pairs: Iterable[tuple[tuple[str, ...], Coefficient]]) -> Polynomial:
    total: Polynomial = {}
    for monomial, value in pairs:
        total[monomial] = _exact(total[monomial], value, operator.add) if monomial in total else value
    return {monomial: value for monomial, value in total.items() if not _is_number(value, 0)}


def _times(p: Polynomial, q: Polynomial) -> Polynomial:
    return _sum((tuple(sorted(one + other)), _product(a, b)) for one, a in p.items() for other, b in q.items())


def _product(a: Coefficient, b: Coefficient) -> Coefficient:
    return b if _is_number(a, 1) else a if _is_number(b, 1) else _exact(a, b, operator.mul)


def _is_number(value: Coefficient, number: int) -> bool:
    return isinstance(value, Fraction) and value == number
