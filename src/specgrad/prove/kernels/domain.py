"""Symbols as a domain of the interpreter, memory with addresses that depend on codes, and the
specification over symbols."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from ...engines.cpu.codegen.values import F16
from ...operator import Operator, Window
from ...scalars.base import Undecided as UndecidedFamily
from ..interpreter.domains import Comparison, Floats, Infinity, Rationals
from ..interpreter.memory import SIZES, UNDEFINED, Access, Memory, Undecided
from .forms import Form, exponential, form, replaced
from .symbols import (
    RELATIONS,
    Either,
    Lead,
    Less,
    Open,
    Order,
    Table,
    Word,
    compared,
    narrowed,
    of_one_origin,
    options,
    picks_same,
    pointwise,
    resolved,
    table,
    widened,
)

SYMBOLS = Lead | Form | Table | Either


class Symbols(Rationals):
    """Exact numbers, and symbols for all real numbers."""

    def constant(self, number: Any, kind: Any) -> Any:
        return number if isinstance(number, SYMBOLS) else super().constant(number, kind)

    def cast(self, value: Any, kind: Any) -> Any:
        return value.as_half() if isinstance(value, Form) and kind == F16 else value

    def add(self, a: Any, b: Any) -> Any:
        return self._computed(operator.add, Form.plus, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        chosen = a.origin if isinstance(a, Lead) else a
        if isinstance(b, Lead) and b.origin is not None and b.origin.of_same(chosen):
            return self._in_cases(self.sub, chosen, b.origin)
        return self.add(a, self.neg(b))

    def _in_cases(self, function: Any, *given: Any) -> Any:
        """A function of numbers that depend on which of two leads is greater, case by case."""
        own = next(one for one in given if isinstance(one, Either))
        if not all(own.of_same(one) for one in given if isinstance(one, Either)):
            raise Undecided(f"two choices meet: {given}")
        given = tuple(
            one.origin if isinstance(one, Lead) and one.origin is not None and own.of_same(one.origin) else one
            for one in given
        )
        rows = zip(*(one.values if isinstance(one, Either) else (one,) * 3 for one in given), strict=True)
        sign = next((one.sign for one in given if isinstance(one, Either) and one.sign), 0)
        return resolved(Either(own.one, own.other, tuple(function(*row) for row in rows), sign))

    def mul(self, a: Any, b: Any) -> Any:
        return self._computed(operator.mul, Form.times, a, b)

    def neg(self, a: Any) -> Any:
        return self._computed(operator.mul, Form.times, a, -1)

    def div(self, a: Any, b: Any) -> Any:
        if not isinstance(a, SYMBOLS) and not isinstance(b, SYMBOLS):
            return super().div(a, b)
        if isinstance(b, SYMBOLS) or b == 0 or isinstance(b, Infinity):
            raise Undecided(f"{a!r} is divided by {b!r}")
        return self.mul(a, Fraction(1, b))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        if not any(isinstance(one, SYMBOLS) for one in (a, b, c)):
            return super().fma(a, b, c)
        if is_zero(a) or is_zero(b):
            return c
        if any(isinstance(one, Either) for one in (a, b, c)):
            return self._in_cases(self.fma, a, b, c)
        product, added = form(a).times(form(b), 0), form(c)
        made = product.plus(added)
        if product.terms and not added.terms:  # a product without a sum is rounded
            made = form(a).times(form(b))
        return made

    def exp(self, a: Any) -> Any:
        if isinstance(a, Either):
            return self._in_cases(self.exp, a)
        if isinstance(a, Infinity) and a.sign < 0:
            return 0
        exponent = form(a)
        return Form({exponential(exponent): (1, 1)}) if exponent.terms else 1

    def fabs(self, a: Any) -> Any:
        if isinstance(a, SYMBOLS):
            raise Undecided(f"the size of {a!r} is needed")
        return abs(a)

    def _computed(self, exact: Any, of_forms: Any, a: Any, b: Any) -> Any:
        if isinstance(a, Lead) and isinstance(b, Lead) and a.origin is not None and a.origin.of_same(b.origin):
            a, b = a.origin, b.origin
        if isinstance(a, Either) or isinstance(b, Either):
            return self._in_cases(lambda p, q: self._computed(exact, of_forms, p, q), a, b)
        if isinstance(a, Table) or isinstance(b, Table):
            return pointwise(lambda p, q: self._computed(exact, of_forms, p, q), a, b)
        if not isinstance(a, SYMBOLS) and not isinstance(b, SYMBOLS):
            without = (a == 0 or b == 0) if exact is operator.mul else isinstance(b, Infinity) and a == -b
            infinite = isinstance(a, Infinity) or isinstance(b, Infinity)
            return UNDEFINED if infinite and without else exact(a, b)  # a NaN, which must not be selected
        if isinstance(a, Infinity) or isinstance(b, Infinity):
            if exact is operator.add:  # a cell is finite
                return a if isinstance(a, Infinity) else b
            raise Undecided(f"{a!r} meets {b!r}")
        if exact is operator.add and (is_zero(a) or is_zero(b)):
            return b if is_zero(a) else a
        made = of_forms(form(a), form(b))
        return made if made.terms or made.cancelled else 0

    def comparison(self, predicate: str) -> Comparison:
        if predicate in ("ord", "uno"):
            return lambda a, b: predicate == "ord"
        name, exact = predicate[1:], super().comparison(predicate)

        def compare(a: Any, b: Any) -> Any:
            if not isinstance(a, SYMBOLS) and not isinstance(b, SYMBOLS):
                return exact(a, b)
            if a is b:
                return RELATIONS[name][1]
            for one, other, place in ((a, b, 0), (b, a, 2)):
                if isinstance(other, Infinity) and isinstance(one, Lead | Form):
                    return RELATIONS[name][place if other.sign < 0 else 2 - place]
            if isinstance(a, Either) and isinstance(b, Lead) and a.of_same(b.origin):
                return of_one_origin(name, a, b.origin)
            return compared(name, a, b) if isinstance(a, Lead) and isinstance(b, Lead) else Open(f"{a!r} {name} {b!r}")

        return compare

    def bits(self, value: Any, kind: Any) -> Any:
        if isinstance(value, Table):
            return pointwise(lambda one: self.bits(one, kind), value)
        if isinstance(value, SYMBOLS):
            return Word("bits", value, 8 * SIZES[kind])
        number = math.inf * value.sign if isinstance(value, Infinity) else value
        made = Floats.TYPES[kind](number)
        return Floats().bits(made, kind) if made == number else super().bits(value, kind)

    def from_bits(self, bits: Any, kind: Any) -> Any:
        if isinstance(bits, Table):
            return pointwise(lambda one: self.from_bits(one, kind), bits)
        if isinstance(bits, Word):
            if any(map(bits.same, widened(Word("bits", bits.value, 16)))):
                return bits.value
            raise Undecided(f"a number is made of {bits!r}")
        return super().from_bits(bits, kind)

    def maximum(self, a: Any, b: Any) -> Any:
        return self.select(self.comparison("ogt")(b, a), b, a)

    def minimum(self, a: Any, b: Any) -> Any:
        return self.select(self.comparison("olt")(b, a), b, a)

    # selections

    def select(self, condition: Any, one: Any, other: Any) -> Any:
        if isinstance(condition, bool):
            return one if condition else other
        if one is UNDEFINED or other is UNDEFINED:
            return UNDEFINED
        if one is other or (isinstance(one, int | Fraction) and isinstance(other, int | Fraction) and one == other):
            return one
        if isinstance(condition, Table):
            return self._by_table(condition, one, other)
        if not isinstance(condition, Order):
            raise Undecided(f"a selection on {condition!r}")
        sides = one, other
        greater, _, less = condition.cases
        if greater is less and not any(isinstance(side, Either) for side in sides):
            return self._by_equality(condition, one, other)
        if isinstance(one, Lead) and isinstance(other, Lead):
            return _extreme(condition, one, other)
        if all(isinstance(side, int | Table) for side in sides):
            return _of_winner(condition, one, other)
        if not all(isinstance(case, bool) for case in condition.cases):
            raise Undecided(f"a selection on {condition!r}")
        truth = Either(condition.one, condition.other, condition.cases, greater - less)
        return self._in_cases(lambda case, a, b: a if case else b, truth, one, other)

    def _by_table(self, condition: Table, one: Any, other: Any) -> Any:
        """A selection by a table: of integers a table, of numbers a sum in which conditions count
        as 0 or 1."""
        truths = condition.values
        if not all(isinstance(truth, bool) for truth in truths):
            raise Undecided(f"a selection on {condition!r}")
        if all(isinstance(side, int | Table) for side in (one, other)):
            return pointwise(lambda truth, a, b: a if truth else b, condition, one, other)
        pairs = zip(options(condition.pick), truths, strict=True)
        return weighted([(condition.pick, option) for option, truth in pairs if truth], one, other)

    def _by_equality(self, condition: Order, one: Any, other: Any) -> Any:
        """A selection by the equality of two cells: a sum in which the equality counts as 0 or
        1."""
        differ, equal, _ = condition.cases
        sides = condition.one, condition.other
        if not isinstance(differ, bool) or not isinstance(equal, bool) or any(len(side.cells) > 1 for side in sides):
            raise Undecided(f"a selection on {condition!r}")
        first, second = sorted(side.cells[0] for side in sides)
        where_equal, elsewhere = (form(side) for side in ((one, other) if equal else (other, one)))
        if replaced(elsewhere, first, second).coefficients == replaced(where_equal, first, second).coefficients:
            return elsewhere  # the same polynomial if the cells are equal
        return weighted([("=", first, second)], *((one, other) if equal else (other, one)))

    def decide(self, condition: Any) -> bool:
        raise Undecided(f"a branch on {condition!r}")


def is_zero(value: Any) -> bool:
    return isinstance(value, int | Fraction) and value == 0


def weighted(conditions: list[Any], one: Any, other: Any) -> Any:
    """`one` if some condition holds, else `other`; at most one condition holds."""
    one, other = form(one), form(other)
    made = dict(other.terms)
    for atoms in {**one.terms, **other.terms}:
        (c, deep), (d, deeper) = one.terms.get(atoms, (0, 0)), other.terms.get(atoms, (0, 0))
        if atoms in made:
            made[atoms] = d, max(deep, deeper)
        for condition in conditions if c != d else ():
            own = tuple(sorted((*atoms, condition), key=str))
            if own in made:
                raise Undecided(f"{own} is met twice")
            made[own] = c - d, max(deep, deeper)
    return Form(made, max(one.halved, other.halved), one.is_half and other.is_half, one.cancelled or other.cancelled)


def _extreme(condition: Order, one: Lead, other: Lead) -> Lead | Either:
    """The greater, or the lesser, of the two compared leads."""
    p, q = condition.one, condition.other
    if not isinstance(condition.cases[0], bool) or not isinstance(condition.cases[2], bool):
        raise Undecided(f"a selection on {condition!r}")
    sides = {True: one, False: other}
    where_greater, where_less = sides[condition.cases[0]], sides[condition.cases[2]]
    if where_greater.same(p) and where_less.same(q):
        sign = 1
    elif where_greater.same(q) and where_less.same(p):
        sign = -1
    else:
        raise Undecided(f"a selection of {one!r} or {other!r} on {condition!r}")
    first_is_p, chosen = condition.cases[1], None
    if isinstance(first_is_p, bool):
        where_equal = sides[first_is_p]
        first_is_p, chosen = (
            where_equal.same(p),
            Either(p, q, (where_greater, where_equal, where_less), int(condition.cases[0]) - int(condition.cases[2])),
        )
    if any(lead.sign == -sign for lead in (p, q)):  # the lesser of two maxima is a number, but no lead
        if chosen is None:
            raise Undecided(f"{p!r} meets {q!r}")
        return chosen
    made = Lead(_joined_cells(condition, first_is_p), sign, p.lowest)
    made.origin = chosen
    return made


def _joined_cells(condition: Order, p_first: Any) -> tuple[str, ...]:
    """The cells of both leads, in the order of precedence at ties."""
    p, q = condition.one.cells, condition.other.cells
    if isinstance(p_first, bool):
        return tuple(dict.fromkeys(p + q if p_first else q + p))
    if not isinstance(p_first, Less) or condition.cases[0] is not True:
        raise Undecided(f"a selection on {condition!r}")
    codes = _codes(condition.one, p_first.one) | _codes(condition.other, p_first.other)
    merged = sorted(codes, key=codes.__getitem__)
    for side, own in ((p, p_first.one), (q, p_first.other)):
        known = _codes(condition.one if side is p else condition.other, own)
        if [codes[c] for c in side] != sorted(known[c] for c in side):
            raise Undecided(f"the codes of {side} are not in order")
    if len(set(codes.values())) < len(codes):
        raise Undecided(f"two cells have one code: {codes}")
    return tuple(merged)


def _codes(lead: Lead, code: Any) -> dict[str, Any]:
    """The code of each cell that may be the winner."""
    if isinstance(code, Table):
        if not picks_same(code.pick, lead):
            raise Undecided(f"{code!r} is not of the winner of {lead!r}")
        return dict(zip(lead.cells, code.values, strict=True))
    return dict.fromkeys(lead.cells, code)


def _of_winner(condition: Order, one: Any, other: Any) -> Any:
    """The table of the winner's code, for the maximum of two compared maxima."""
    greater, equal, less = condition.cases
    if not isinstance(greater, bool) or not isinstance(less, bool):
        raise Undecided(f"a selection on {condition!r}")
    sides = {True: one, False: other}
    of_p, of_q = _codes(condition.one, sides[greater]), _codes(condition.other, sides[less])
    if isinstance(equal, bool):
        p_first = equal is greater
    else:
        p_first = equal
        if any(of_p[c] != of_q[c] for c in of_p.keys() & of_q.keys()):
            raise Undecided(f"a cell has two codes: {of_p} and {of_q}")
    cells = _joined_cells(condition, p_first)
    values = {**of_q, **of_p} if p_first is True else {**of_p, **of_q}
    return table(Lead(cells, 1), tuple(values[c] for c in cells))


class PickMemory(Memory):
    """Memory in which an address may depend on a code: every possible address is checked, and a
    stored value holds under the condition that the code has this address."""

    def load(self, address: Any, access: Access) -> Any:
        if isinstance(address, Table):
            return pointwise(lambda place: Memory.load(self, place, access), address)
        return super().load(address, access)

    def store(self, address: Any, access: Access, value: Any) -> None:
        value = [halved(one) for one in value] if access.vector else halved(value)
        if not isinstance(address, Table):
            super().store(address, access, value)
            return
        if access.vector or len(set(address.values)) < len(address.values):
            raise Undecided("a store to one of several places")
        values = value.values if isinstance(value, Table) else (value,) * len(address.values)
        if isinstance(value, Table) and not picks_same(value.pick, address.pick):
            raise Undecided("a store that depends on two codes")
        for option, place, stored in zip(options(address.pick), address.values, values, strict=True):
            before = Memory.load(self, place, access)
            Memory.store(self, place, access, weighted([(address.pick, option)], stored, before))


def halved(value: Any) -> Any:
    """A stored value: bits of a number that was rounded to a bfloat16 become the bits of the
    rounded number."""
    if isinstance(value, Table):
        return pointwise(halved, value)
    if not isinstance(value, Word) or not value.same(narrowed(Word("bits", value.value, 32))):
        return value
    number = value.value
    return Word("bits", number.as_half() if isinstance(number, Form) else number, 16)


class Specified(UndecidedFamily):
    """The scalars over which the specification runs on symbols."""

    domain = Symbols()

    def __init__(self) -> None:
        super().__init__(object)

    def lift(self, number: Any) -> Any:
        return number

    def divide(self, a: Any, b: Any) -> Any:
        return np.frompyfunc(self.domain.div, 2, 1)(a, b)

    def gt_of(self, a: Any, b: Any) -> Any:
        return self.domain.comparison("ogt")(a, b)

    def and_of(self, a: Any, b: Any) -> Any:
        return a & b

    def or_of(self, a: Any, b: Any) -> Any:
        return a | b

    def where_of(self, mask: Any, a: Any, b: Any) -> Any:
        return self.domain.select(mask, a, b)


def window_of(op: Operator, arrays: list[Any]) -> Window:
    """All windows of an operator on arrays of symbols."""
    geometry = op.geometry(*(array.shape for array in arrays))
    return Window(Specified(), geometry.block(0, geometry.outputs), [array.ravel() for array in arrays])


def specified(op: Operator, *arrays: Any) -> Any:
    """The value of an operator on arrays of symbols, by its own specification."""
    value, _ = op.value(Specified(), window_of(op, list(arrays)))
    return value.reshape(op.output_shape(*(array.shape for array in arrays)))


def cells(name: str, shape: tuple[int, ...], dtype: Any = float) -> Any:
    """An array of symbols with this name; integer cells are above the lowest number of their
    type."""
    made, kind = np.empty(shape, object), np.dtype(dtype)
    lowest = None if kind.kind not in "iu" else 0 if kind.kind == "u" else 1 << 8 * kind.itemsize - 1
    made.reshape(-1)[:] = [Lead((f"{name}{i}",), lowest=lowest) for i in range(made.size)]
    return made
