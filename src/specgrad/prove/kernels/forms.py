"""Sums as polynomials: the coefficient of each product of cells, and the number of roundings of
each term."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from ..interpreter.memory import Undecided

Atom = Any
"""A variable: the name of a cell, the maximum or minimum of some cells, an exponential, or a
condition, which counts as 1 if true."""


class Real:
    """Python's + and *, for the specification."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return form(self).plus(form(other))

    def __mul__(self, other: Any) -> Any:
        return form(self).times(form(other))

    __radd__, __rmul__ = __add__, __mul__


class Form(Real):
    """A polynomial in cells, with the number of roundings of each term."""

    __slots__ = ("cancelled", "halved", "is_half", "terms")

    def __init__(
        self,
        terms: dict[tuple[Atom, ...], tuple[Any, int]],
        halved: int = 0,
        is_half: bool = False,
        cancelled: bool = False,
    ) -> None:
        self.terms, self.halved, self.is_half, self.cancelled = terms, halved, is_half, cancelled
        """The number of roundings to a half float; whether the value is a half float; and whether
        terms were added that cancel, whose error remains."""

    def as_half(self) -> Form:
        """The polynomial rounded to a half float, unless it is one."""
        return self if self.is_half else Form(self.terms, self.halved + 1, True, self.cancelled)

    def __repr__(self) -> str:
        return " + ".join(f"{c}·{'·'.join(map(str, m))}" for m, (c, _) in self.terms.items())

    @property
    def coefficients(self) -> dict[tuple[Atom, ...], Any]:
        return {atoms: coefficient for atoms, (coefficient, _) in self.terms.items()}

    @property
    def depth(self) -> int:
        """The largest number of roundings of a term."""
        return max((depth for _, depth in self.terms.values()), default=0)

    def plus(self, other: Form) -> Form:
        """The sum, rounded once if both have terms."""
        rounds = 1 if self.terms and other.terms else 0
        made = {atoms: (c, depth + rounds) for atoms, (c, depth) in self.terms.items()}
        cancelled = self.cancelled or other.cancelled
        for atoms, (c, depth) in other.terms.items():
            mine, deep = made.get(atoms, (0, 0))
            cancelled = cancelled or mine * c < 0
            made[atoms] = mine + c, max(deep, depth + rounds)
        return Form(present(made), max(self.halved, other.halved), cancelled=cancelled)

    def times(self, other: Form, rounds: int = 1) -> Form:
        """The product; each term has `rounds` more roundings, unless a factor is a power of two."""
        made: dict[tuple[Atom, ...], tuple[Any, int]] = {}
        cancelled = self.cancelled or other.cancelled
        for one, (c, deep) in self.terms.items():
            for two, (d, deeper) in other.terms.items():
                exact = (not one and is_power_of_two(c)) or (not two and is_power_of_two(d))
                atoms = product(one, two) if one and two else one + two
                mine, before = made.get(atoms, (0, 0))
                cancelled = cancelled or mine * c * d < 0
                made[atoms] = mine + c * d, max(before, deep + deeper + (0 if exact else rounds))
        return Form(present(made), max(self.halved, other.halved), cancelled=cancelled)


def present(terms: dict[tuple[Atom, ...], tuple[Any, int]]) -> dict[tuple[Atom, ...], tuple[Any, int]]:
    """The terms whose coefficient is not 0."""
    return {atoms: pair for atoms, pair in terms.items() if pair[0]}


def product(one: tuple[Atom, ...], two: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The atoms of a product of two terms; two exponentials are joined by adding their
    exponents."""
    atoms = sorted(one + two, key=str)
    exponents = [atom for atom in atoms if isinstance(atom, Exponential)]
    if len(exponents) > 1:
        first, second = (Form({a: (c, 0) for a, c in e.exponent}) for e in exponents)
        rest = [atom for atom in atoms if not isinstance(atom, Exponential)]
        atoms = sorted([*rest, *exponential(first.plus(second))], key=str)
    return tuple(atoms)


class Exponential(NamedTuple):
    """exp of a polynomial, given by its terms."""

    exponent: frozenset[tuple[tuple[Atom, ...], Any]]


def exponential(exponent: Form) -> tuple[Exponential, ...]:
    """exp of a polynomial, as atoms of a term: none if the polynomial is 0."""
    return (Exponential(frozenset(exponent.coefficients.items())),) if exponent.terms else ()


def is_power_of_two(number: Any) -> bool:
    """Whether multiplication by a number is exact: ± a power of two."""
    top, bottom = abs(Fraction(number)).as_integer_ratio()
    return top > 0 and top & (top - 1) == 0 and bottom & (bottom - 1) == 0


def replaced(value: Form, atom: Atom, by: Atom) -> Form:
    """A polynomial with one variable replaced by another."""
    made = Form({})
    for atoms, (c, depth) in value.terms.items():
        other: tuple[Atom, ...] = ()
        for one in atoms:
            if isinstance(one, Exponential):
                exponent = Form({inner: (d, 0) for inner, d in one.exponent})
                other = product(other, exponential(replaced(exponent, atom, by)))
            else:
                other = product(other, (by if one == atom else one,))
        mine, deep = made.terms.get(other, (0, 0))
        made.terms[other] = mine + c, max(deep, depth)
    return Form(present(made.terms), value.halved, value.is_half, value.cancelled)


def power(atom: Atom, factor: Any) -> Form:
    """exp(factor · atom), exactly."""
    return Form({exponential(Form({(atom,): (factor, 0)})): (1, 0)})


def form(value: Any) -> Form:
    """A number or a cell as a polynomial."""
    if isinstance(value, Form):
        return value
    if hasattr(value, "atom"):
        return Form({(value.atom,): (1, 0)})
    if isinstance(value, int | Fraction):
        return Form({(): (value, 0)} if value else {})
    raise Undecided(f"{value!r} is added or multiplied")
