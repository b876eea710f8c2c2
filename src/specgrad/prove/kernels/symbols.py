"""The cells of an interpreted kernel during a proof: symbols for all real numbers.

A maximum is a `Lead`: its cells, in the order of precedence at ties. A sum is a polynomial
(forms.py). A value that depends on a winner, such as its code, is a `Table`: one value per possible
winner. A comparison of two maxima is an `Order`: its result if the first is greater, if both are
equal, and if the first is less.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from ..interpreter.memory import UNDEFINED, Undecided
from .forms import Atom, Exponential, Form, Real, form, power, replaced

ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")


def comparing(name: str) -> Callable[[Any, Any], Any]:
    """A comparison as a method."""
    return lambda self, other: compared(name, self, other)


def expressed(name: str) -> Callable[[Any, Any], Any]:
    """An operation on bits as a method."""
    return lambda self, other: NotImplemented if other is UNDEFINED else Word(name, self, other)


def pointwise_with(function: Any) -> Callable[[Any, Any], Any]:
    """An operation of tables as a method."""
    return lambda self, other: NotImplemented if other is UNDEFINED else pointwise(function, self, other)


class Lead(Real):
    """The maximum (sign 1) or the minimum (sign -1) of some cells, the first of equal ones. A
    single cell has sign 0."""

    __slots__ = ("cells", "lowest", "origin", "sign")

    def __init__(self, cells: tuple[str, ...], sign: int = 0, lowest: int | None = None) -> None:
        self.cells, self.sign = cells, sign if len(cells) > 1 else 0
        self.lowest = lowest
        """For integers, the bits of the type's lowest number, which represents padding; cells are
        above it."""
        self.origin: Either | None = None
        """The comparison of two leads by which this lead was selected, and its case."""

    def __repr__(self) -> str:
        return self.cells[0] if len(self.cells) == 1 else f"{'min' if self.sign < 0 else 'max'}{self.cells}"

    def __hash__(self) -> int:
        return hash(self.cells)

    @property
    def atom(self) -> Atom:
        """The lead as a variable of polynomials."""
        return self.cells[0] if len(self.cells) == 1 else ("max" if self.sign > 0 else "min", frozenset(self.cells))

    def same(self, other: Any) -> bool:
        """Whether both have the same cells in the same order."""
        return isinstance(other, Lead) and (self.cells, self.sign) == (other.cells, other.sign)

    # integers compare by Python's operators, signed integers after flipping the sign bit

    def __xor__(self, bit: Any) -> Any:
        return bit if bit is UNDEFINED else Turned(self, bit)

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(comparing, ORDERS)


class Either(Real):
    """A number with one of three values: if a lead is greater than another, if both are equal, and
    if it is less."""

    __slots__ = ("one", "other", "sign", "values")

    def __init__(self, one: Lead, other: Lead, values: tuple[Any, ...], sign: int = 0) -> None:
        self.one, self.other, self.values, self.sign = one, other, values, sign

    def __repr__(self) -> str:
        return f"({self.one!r} against {self.other!r}: {self.values})"

    def of_same(self, other: Any) -> bool:
        """Whether both depend on the same two leads."""
        return isinstance(other, Either | Order) and self.one.same(other.one) and self.other.same(other.other)


class Turned:
    """A signed integer cell with its sign bit flipped, so that unsigned comparison gives the
    order."""

    __slots__ = ("bit", "lead")
    __hash__ = object.__hash__

    def __init__(self, lead: Lead, bit: int) -> None:
        self.lead, self.bit = lead, bit

    def __repr__(self) -> str:
        return f"{self.lead!r} ^ {self.bit}"

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(comparing, ORDERS)


class Condition:
    """A condition that is neither true nor false for all numbers."""

    def __bool__(self) -> bool:
        raise Undecided(f"something depends on {self!r}")

    def __and__(self, other: Any) -> Any:
        if other is True or other is False:
            return self if other else False
        return NotImplemented if other is UNDEFINED else self.joined(operator.and_, other)

    def __or__(self, other: Any) -> Any:
        if other is True or other is False:
            return True if other else self
        return NotImplemented if other is UNDEFINED else self.joined(operator.or_, other)

    def __xor__(self, other: Any) -> Any:
        if other is True or other is False:
            return self.negated() if other else self
        return NotImplemented if other is UNDEFINED else self.joined(operator.xor, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def joined(self, function: Any, other: Any) -> Any:
        """The combination of two conditions by & | or ^."""
        return other.joined(function, self) if isinstance(other, Order) else Open(f"{self!r} with {other!r}")

    def negated(self) -> Any:
        """The negation."""
        return Open(f"not {self!r}")


class Open(Condition):
    """A condition without known structure; a result that depends on it is undecided."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


class Less(Condition):
    """Whether the code of one winner is less than the code of another."""

    def __init__(self, one: Any, other: Any) -> None:
        self.one, self.other = one, other

    def __repr__(self) -> str:
        return f"{self.one!r} < {self.other!r}"


class Order(Condition):
    """A condition on two leads: its value if the first is greater, if both are equal, and if the
    first is less."""

    def __init__(self, one: Lead, other: Lead, greater: Any, equal: Any, less: Any) -> None:
        self.one, self.other, self.cases = one, other, (greater, equal, less)

    def __repr__(self) -> str:
        return f"({self.one!r} against {self.other!r}: {self.cases})"

    def joined(self, function: Any, other: Any) -> Any:
        theirs: tuple[Any, ...] = (other,) * 3
        if isinstance(other, Order):
            theirs = other.cases
            if other.one.same(self.other) and other.other.same(self.one):
                theirs = theirs[::-1]
            elif not (other.one.same(self.one) and other.other.same(self.other)):
                return Open(f"{self!r} with {other!r}")
        return Order(self.one, self.other, *map(function, self.cases, theirs)).settled()

    def negated(self) -> Any:
        return Order(self.one, self.other, *(case ^ True for case in self.cases)).settled()

    def settled(self) -> Any:
        """The condition, or its value if all three cases are equal."""
        first = self.cases[0]
        return first if isinstance(first, bool) and all(case is first for case in self.cases) else self


RELATIONS = {
    "eq": (False, True, False),
    "ne": (True, False, True),
    "gt": (True, False, False),
    "ge": (True, True, False),
    "lt": (False, False, True),
    "le": (False, True, True),
}
"""The results of a comparison whose first operand is greater, equal and less."""


def compared(name: str, one: Any, other: Any) -> Any:
    """A comparison of cells; integer cells are above the lowest number."""
    if one is UNDEFINED or other is UNDEFINED:
        return UNDEFINED
    bits = {side.bit for side in (one, other) if isinstance(side, Turned)}
    if bits:
        if len(bits) > 1:
            return Open(f"{one!r} {name} {other!r}")
        (bit,) = bits
        one, other = (side.lead if isinstance(side, Turned) else side ^ bit for side in (one, other))
    if isinstance(one, Lead) and isinstance(other, Lead):
        if set(one.cells) == set(other.cells) and one.sign == other.sign:
            return RELATIONS[name][1]
        if one.origin is not None and one.origin.of_same(other.origin):
            return of_one_origin(name, one.origin, other.origin)
        return Order(one, other, *RELATIONS[name])
    for lead, number, place in ((one, other, 0), (other, one, 2)):
        if isinstance(lead, Lead) and isinstance(number, int) and number == lead.lowest:
            return RELATIONS[name][place]
    return Open(f"{one!r} {name} {other!r}")


def of_one_origin(name: str, one: Either, other: Any) -> Any:
    """A comparison of two numbers that were selected by the same comparison of two leads."""
    p, cases = one.one, []
    for case, (a, b) in enumerate(zip(one.values, other.values, strict=True)):
        place = 1 if a.same(b) else case if a.same(p) else 2 - case
        cases.append(RELATIONS[name][place])
    return Order(one.one, one.other, *cases).settled()


class Pick(NamedTuple):
    """A variable with one of some values: the code of a window, by its name."""

    name: str
    options: tuple[int, ...]


def options(pick: Any) -> tuple[Any, ...]:
    """The possible values of a pick, or the possible winners of a lead."""
    return pick.cells if isinstance(pick, Lead) else pick.options


def picks_same(one: Any, other: Any) -> bool:
    return one.same(other) if isinstance(one, Lead) else one == other


class Table(Condition):
    """A value for each outcome of a pick: integers, truth values, or numbers."""

    __slots__ = ("pick", "values")
    __hash__ = object.__hash__

    def __init__(self, pick: Any, values: tuple[Any, ...]) -> None:
        self.pick, self.values = pick, values

    def __repr__(self) -> str:
        return f"{self.pick!r} -> {self.values}"

    def negated(self) -> Any:
        return table(self.pick, tuple(value ^ True for value in self.values))

    def joined(self, function: Any, other: Any) -> Any:
        return pointwise(function, self, other) if isinstance(other, Table) else super().joined(function, other)

    __add__, __sub__, __mul__ = map(pointwise_with, (operator.add, operator.sub, operator.mul))
    __lshift__, __rshift__, __floordiv__, __mod__ = map(
        pointwise_with, (operator.lshift, operator.rshift, operator.floordiv, operator.mod)
    )
    __and__, __or__, __xor__ = map(pointwise_with, (operator.and_, operator.or_, operator.xor))
    __radd__, __rmul__, __rand__, __ror__, __rxor__ = __add__, __mul__, __and__, __or__, __xor__
    __eq__, __ne__ = map(pointwise_with, (operator.eq, operator.ne))

    def __rsub__(self, other: Any) -> Any:
        return pointwise(operator.sub, other, self)

    def __lt__(self, other: Any) -> Any:
        return less(self, other)

    def __gt__(self, other: Any) -> Any:
        return less(other, self)

    def __le__(self, other: Any) -> Any:
        return less(other, self) ^ True

    def __ge__(self, other: Any) -> Any:
        return less(self, other) ^ True


def table(pick: Any, values: tuple[Any, ...]) -> Any:
    """A table, or its value if all entries are equal."""
    first = values[0]
    alike = isinstance(first, int) and all(type(v) is type(first) and v == first for v in values)
    return first if alike else Table(pick, values)


def pointwise(function: Callable[..., Any], *given: Any) -> Any:
    """A function applied entry by entry to tables of one pick, and to constants."""
    picks = [one.pick for one in given if isinstance(one, Table)]
    if not all(picks_same(picks[0], pick) for pick in picks[1:]):
        raise Undecided(f"what depends on {picks[0]!r} meets what depends on {picks[1]!r}")
    rows = zip(
        *(one.values if isinstance(one, Table) else [one] * len(options(picks[0])) for one in given), strict=True
    )
    return table(picks[0], tuple(function(*row) for row in rows))


def less(one: Any, other: Any) -> Any:
    """Whether one code is less than another; undecided codes give a `Less`, which is needed only at
    ties."""
    if one is UNDEFINED or other is UNDEFINED:
        return UNDEFINED
    ranges = [one_of.values if isinstance(one_of, Table) else (one_of,) for one_of in (one, other)]
    if all(isinstance(value, int) for values in ranges for value in values):
        if max(ranges[0]) < min(ranges[1]):
            return True
        if min(ranges[0]) >= max(ranges[1]):
            return False
    return Less(one, other)


def resolved(value: Either) -> Any:
    """The number, if all three cases agree after the selected lead is replaced by the maximum, or
    the minimum, of all cells; else the argument."""
    if not all(isinstance(one, Form | Lead | int | Fraction) for one in value.values):
        return value
    p, q = value.one, value.other
    forms = [form(one) for one in value.values]
    for sign, (where_greater, where_less) in ((1, (p, q)), (-1, (q, p))):
        if sign == -value.sign:
            continue
        whole = Lead(tuple(dict.fromkeys(q.cells + p.cells)), sign).atom
        greater, less = replaced(forms[0], where_greater.atom, whole), replaced(forms[2], where_less.atom, whole)
        equal = replaced(replaced(forms[1], p.atom, whole), q.atom, whole)
        if greater.coefficients == equal.coefficients == less.coefficients:
            depths = {t: max(one.terms[t][1] for one in (greater, equal, less)) for t in greater.terms}
            return Form({t: (c, depths[t]) for t, c in greater.coefficients.items()})
        found = _shifted(forms, where_greater.atom, where_less.atom, whole)
        if found is not None:
            return found
    return value


def _shifted(forms: list[Form], greater: Atom, less: Atom, whole: Atom) -> Form | None:
    """A sum of exponentials shifted by the lead, if the unshifted sums are equal in all cases; else
    None."""
    shifts = {
        dict(e.exponent).get((greater,), 0) for atoms in forms[0].terms for e in atoms if isinstance(e, Exponential)
    }
    if len(shifts - {0}) != 1:
        return None
    (by,) = shifts - {0}
    back = [forms[0].times(power(greater, -by)), forms[1].times(power(less, -by)), forms[2].times(power(less, -by))]
    equal = [replaced(one, greater, less).coefficients for one in back[:2]]
    if back[0].coefficients != back[2].coefficients or equal[0] != equal[1]:
        return None
    return back[0].times(power(whole, by), 0)


class Word:
    """The bits of a number ("bits" of a value and its type), and the integer instructions applied
    to them."""

    __slots__ = ("name", "one", "other")
    __hash__ = object.__hash__

    def __init__(self, name: str, one: Any, other: Any) -> None:
        self.name, self.one, self.other = name, one, other

    def __repr__(self) -> str:
        return f"{self.name}({self.one!r}, {self.other!r})"

    __add__, __sub__, __and__, __or__ = map(expressed, ("add", "sub", "and", "or"))
    __xor__, __lshift__, __rshift__ = map(expressed, ("xor", "shl", "lshr"))

    @property
    def value(self) -> Any:
        """The number with these bits."""
        return self.one if self.name == "bits" else self.one.value

    def same(self, other: Any) -> bool:
        """Whether both are the same instructions on the bits of the same number."""
        if not isinstance(other, Word) or self.name != other.name:
            return False
        if self.name == "bits":
            return self.one is other.one and self.other is other.other
        theirs = other.other.same(self.other) if isinstance(other.other, Word) else other.other == self.other
        return self.one.same(other.one) and theirs is True

    def __eq__(self, other: object) -> Any:
        if self.name == "bits" and isinstance(other, int) and not is_number(other, self.other):
            return False
        raise Undecided(f"{self!r} are compared")


def is_number(bits: int, width: int) -> bool:
    """Whether these bits of a float are neither NaN nor -0.0."""
    mantissa = {16: 10, 32: 23, 64: 52}[width]
    size = bits & ~(1 << width - 1)
    return bits != 1 << width - 1 and size <= (1 << width - 1 - mantissa) - 1 << mantissa


def widened(word: Any) -> list[Any]:
    """The float32 bits that kernels make of a bfloat16's bits, if these are sign-extended and if
    not."""
    return [extended << 16 & 0xFFFFFFFF for extended in ((word ^ 0x8000) - 0x8000 & 0xFFFFFFFF, word)]


def narrowed(word: Any) -> Any:
    """The bits of the nearest bfloat16, as kernels compute them from the bits of a float32 other
    than NaN."""
    nearest = word + (word >> 16 & 1) & 0xFFFFFFFF
    return (nearest + 0x7FFF & 0xFFFFFFFF) >> 16 & 0xFFFF
