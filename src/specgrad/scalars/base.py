"""What a scalar must offer, as functions of flat arrays; the whole interface between an operator
and its numbers.

Arithmetic + - * is that of the arrays themselves. Comparisons give *masks*, which may be plain
booleans, three-valued truth (an enclosure that straddles) or terms (nothing is decided): a
specification combines them with `both`, `either` and `negate` and uses them in `where`, and never
asks for their truth value.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import ScalarError, ShapeError, SpecgradError, refusal

Number = int | float | Fraction
Cells = Any  # a flat array in the form in which a family computes
Mask = Any


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor; where nobody imported torch, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_traced(value: Any) -> bool:
    """Whether JAX traces a value or holds it on another device than the CPU; where nobody imported
    JAX, nothing is."""
    jax: Any = sys.modules.get("jax")
    kind: Any = getattr(jax, "Array", ())  # jax may be half imported, by another thread
    if not isinstance(value, kind):
        return False
    devices = getattr(value, "devices", set)  # a literal of JAX, which is an array of NumPy, has none
    return isinstance(value, jax.core.Tracer) or any(device.platform != "cpu" for device in devices())


def refuse_nested(name: str, argument: str, value: Any) -> None:
    """Rows of many lengths are no array."""
    if is_tensor(value) and value.is_nested:
        rule, remedy = "a nested tensor has no one shape", "give its tensors one by one: x.unbind()"
        raise refusal(ShapeError, name, argument, type(value).__name__, rule, remedy)


def unlike(one: str, other: str) -> tuple[str, str]:
    """Rule and remedy for scalars that cannot be computed together."""
    return f"{one} does not mix with {other}", "convert all operands to one scalar type first"


def unheld(name: str, argument: str, number: Number) -> SpecgradError:
    """The refusal of a number that a scalar cannot be."""
    rule = "the scalar that it meets does not hold this number"
    return refusal(ScalarError, name, argument, number, rule, "cast the array first, e.g. x.astype(float)")


class Unanswerable(ArithmeticError):
    """What exact scalars do not have, such as an infinity; whoever evaluates an operator names
    it."""

    rule, remedy = "divides by 0, which such scalars do not have", "keep 0 out, or use floats"


class TooLong(Unanswerable):
    """A power of a rational number that has too many digits."""

    rule, remedy = "has powers of too many digits for such scalars", "use a smaller exponent, or floats"


LARGEST_POWER = 1 << 16
"""The largest exponent over rational numbers: digits are in proportion to it."""


class Family:
    """Plain NumPy arrays, computed as NumPy does; other families override what differs for them."""

    lacks: Mapping[str, tuple[str, str]] = {}
    """Capabilities ("real", "reals", "division", "exp", "root", "erf") that this scalar does not
    have: why not, and the remedy."""

    decides = True
    """Whether comparisons are plain booleans."""

    rounds = False
    """Whether results are rounded when they leave, to less than they are computed in: half
    floats."""

    def require(self, name: str, argument: str, operand: Any, needs: Sequence[str]) -> None:
        """Refuse an operator that needs what this scalar lacks; the last, which is the rarest, is
        named."""
        for need in reversed(needs):
            if need in self.lacks:
                raise refusal(ScalarError, name, argument, operand, *self.lacks[need])

    def computing(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which cells that are selected away later may overflow or be undefined
        without a word."""
        return np.errstate(all="ignore")

    def holds(self, number: Number) -> bool:
        """Whether a finite number other than 0 stays one as this scalar."""
        return True

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        """An operand of this kind as flat cells."""
        raise NotImplementedError

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        """Flat cells as a result of the operand's kind."""
        raise NotImplementedError

    def constant(self, number: Any) -> Cells:
        """A number, or an array of integers, as this scalar, exactly where it can."""
        raise NotImplementedError

    def number(self, name: str, argument: str, number: Number) -> Cells:
        """A number that a caller wrote, as this scalar; refused where the scalar does not hold
        it."""
        try:
            with np.errstate(over="raise"):
                cell = self.constant(number)
            held = "division" not in self.lacks or int(number) == number
        except (ArithmeticError, ValueError, TypeError):
            held = False
        if not held:
            raise unheld(name, argument, number)
        return cell

    def filled(self, name: str, argument: str, number: Number, shape: tuple[int, ...]) -> Any:
        """An array of this shape, filled with a number that a caller wrote; refused where the
        scalar does not hold it."""
        cells = self.repeated(self.number(name, argument, number), math.prod(shape))
        try:
            with np.errstate(over="raise"):
                return self.leave(cells, shape)
        except FloatingPointError:  # half floats are stored in less than they are computed in
            raise unheld(name, argument, number) from None

    def zeros(self, size: int) -> Cells:
        """`size` zeros."""
        return np.repeat(np.asarray(self.constant(0))[None], size)

    def repeated(self, number: Cells, size: int) -> Cells:
        """`size` times a number; -0.0 keeps its sign, which a sum with 0 would not."""
        return self.where(np.ones(size, np.bool_), number, self.zeros(size))

    def take(self, cells: Cells, index: Any) -> Cells:
        """The cells at these places."""
        return cells[index]

    def join(self, blocks: Sequence[Cells]) -> Cells:
        """Blocks of cells, one after another."""
        return np.concatenate([self.zeros(0), *blocks])

    def interleave(self, columns: Sequence[Cells]) -> Cells:
        """The first cell of every column, then the second of every column, and so on."""
        return np.stack(columns, axis=-1).reshape(-1)

    def add_at(self, target: Cells, index: Any, values: Cells) -> Cells:
        """Add each value to the target's cell at its index, one after another in order."""
        np.add.at(target, index, values)
        return target

    def divide(self, a: Cells, b: Cells) -> Cells:
        return a / b

    def gt(self, a: Cells, b: Cells) -> Mask:
        return np.greater(a, b)

    def eq(self, a: Cells, b: Cells) -> Mask:
        return np.equal(a, b)

    def is_nan(self, a: Cells) -> Mask:
        return np.not_equal(a, a)

    def both(self, a: Mask, b: Mask) -> Mask:
        return a & b

    def either(self, a: Mask, b: Mask) -> Mask:
        return a | b

    def negate(self, a: Mask) -> Mask:
        return ~a

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        """a where the mask holds, else b; the other is never touched, whatever it is."""
        return np.where(mask, a, b)

    def extreme(self, chosen: Mask, a: Cells, b: Cells, lowest: bool = False) -> Cells:
        """`where(chosen, a, b)`, for a mask that says whether a is the greater (or the lowest) of
        both."""
        return self.where(chosen, a, b)

    def truth(self, mask: Mask) -> Any:
        """A mask as NumPy booleans, where comparisons are decided."""
        return mask

    def exp(self, a: Cells) -> Cells:
        return np.exp(a)

    def log(self, a: Cells) -> Cells:
        return np.log(a)

    def sqrt(self, a: Cells) -> Cells:
        return np.sqrt(a)

    def tanh(self, a: Cells) -> Cells:
        return np.tanh(a)

    def erf(self, a: Cells) -> Cells:
        return np.asarray(each(math.erf, a)).astype(np.asarray(a).dtype)

    def pi(self) -> Cells:
        return self.constant(math.pi)

    def logistic(self, a: Cells) -> Cells:
        """1 / (1 + exp(-a)), which is 0 where the exponential is infinite."""
        return self.divide(self.constant(1), 1 + self.exp(-a))

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        """log(exp(a) + exp(b)), without overflow."""
        return np.logaddexp(a, b)

    def power(self, a: Cells, exponent: Number) -> Cells:
        """a to the power of a number that is no cell."""
        try:
            return np.power(a, self.constant(exponent))
        except OverflowError:
            raise TooLong from None

    def still(self, a: Cells) -> Cells:
        """a without the derivatives it carries."""
        return a

    def pivot(self, a: Cells) -> Cells:
        """A finite number near a, by which exponents may be shifted without changing a
        log-sum-exp."""
        return np.where(np.isfinite(a), a, self.constant(0))


def _raised(a: Any, exponent: int) -> Any:
    """a to a whole power: of a rational number, as long as its digits can be counted."""
    if exponent > LARGEST_POWER and isinstance(a, numbers.Rational) and a not in (-1, 0, 1):
        raise TooLong
    return a**exponent


def alike(kind: type, name: str, argument: str, array: Any) -> Any:
    """An array whose elements are all of this kind, or integers, which become of this kind; refused
    otherwise."""
    given = np.asarray(array)
    for stranger in {type(e) for e in given.flat} if given.dtype == object else {given.dtype.type}:
        if not issubclass(stranger, kind | int | np.integer) or stranger is bool:
            raise refusal(ScalarError, name, argument, array, *unlike(stranger.__name__, kind.__name__))
    return given


def quotient(number: Fraction, make: Callable[[int], Any]) -> Any:
    """A Fraction as a scalar that has no such conversion: the quotient of its two integers."""
    return make(number.numerator) / make(number.denominator)


def each(function: Callable[..., Any], *cells: Cells) -> Cells:
    """Apply a function of single scalars to every element of object arrays."""
    return np.frompyfunc(function, len(cells), 1)(*cells)


class Elements(Family):
    """Object arrays of one kind of scalar, whose comparisons are Python booleans; NumPy applies the
    operators elementwise."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def enter(self, name: str, argument: str, array: Any) -> Cells:
        return self.constant(alike(self.kind, name, argument, array).reshape(-1).astype(object))

    def leave(self, cells: Cells, shape: tuple[int, ...]) -> Any:
        return cells.reshape(shape)

    def constant(self, number: Any) -> Cells:
        if isinstance(number, np.ndarray):
            lifted = [self.lift(int(n) if isinstance(n, np.integer) else n) for n in number.tolist()]
            return np.array([*lifted, None], dtype=object)[:-1]  # the None keeps it one-dimensional
        cell = np.empty((), object)
        cell[()] = self.lift(number)
        return cell

    def lift(self, number: Any) -> Any:
        """A number as this scalar; one that is this scalar already stays as it is."""
        return number if isinstance(number, self.kind) else self.kind(number)

    def divide(self, a: Cells, b: Cells) -> Cells:
        try:
            return a / b
        except ZeroDivisionError:
            raise Unanswerable from None

    def exp(self, a: Cells) -> Cells:
        return each(self.exp_of, a)

    def log(self, a: Cells) -> Cells:
        return each(self.log_of, a)

    def sqrt(self, a: Cells) -> Cells:
        return each(self.sqrt_of, a)

    def tanh(self, a: Cells) -> Cells:
        return each(self.tanh_of, a)

    def erf(self, a: Cells) -> Cells:
        return each(self.erf_of, a)

    def logaddexp(self, a: Cells, b: Cells) -> Cells:
        shift = self.pivot(self.where(self.gt(b, a), b, a))
        return shift + self.log(self.exp(a - shift) + self.exp(b - shift))

    def power(self, a: Cells, exponent: Number) -> Cells:
        if exponent == 0:
            return each(lambda p: self.lift(1), a)
        if int(exponent) != exponent:
            return each(lambda p: self.root_of(p, self.lift(exponent)), a)
        raised = each(lambda p: _raised(p, abs(int(exponent))), a)
        return raised if exponent > 0 else self.divide(self.constant(1), raised)

    def pivot(self, a: Cells) -> Cells:
        return each(self.pivot_of, a)

    def exp_of(self, a: Any) -> Any:
        return a.exp()

    def log_of(self, a: Any) -> Any:
        return a.log()

    def sqrt_of(self, a: Any) -> Any:
        return a.sqrt()

    def tanh_of(self, a: Any) -> Any:
        return a.tanh()

    def erf_of(self, a: Any) -> Any:
        return a.erf()

    def root_of(self, a: Any, exponent: Any) -> Any:
        """a to a power that is not whole."""
        return a**exponent

    def pivot_of(self, a: Any) -> Any:
        return a


class Undecided(Elements):
    """Scalars whose comparisons may stay open: masks are object arrays, and a Python boolean is a
    mask already decided."""

    decides = False

    def gt(self, a: Cells, b: Cells) -> Mask:
        return each(self.gt_of, a, b)

    def eq(self, a: Cells, b: Cells) -> Mask:
        return each(self.eq_of, a, b)

    def is_nan(self, a: Cells) -> Mask:
        return np.zeros(np.shape(a), np.bool_)

    def both(self, a: Mask, b: Mask) -> Mask:
        return each(
            lambda p, q: (
                False if p is False or q is False else q if p is True else p if q is True else self.and_of(p, q)
            ),
            a,
            b,
        )

    def either(self, a: Mask, b: Mask) -> Mask:
        return each(
            lambda p, q: True if p is True or q is True else q if p is False else p if q is False else self.or_of(p, q),
            a,
            b,
        )

    def negate(self, a: Mask) -> Mask:
        return each(lambda p: not p if isinstance(p, bool) else self.not_of(p), a)

    def where(self, mask: Mask, a: Cells, b: Cells) -> Cells:
        return each(lambda m, p, q: (p if m else q) if isinstance(m, bool) else self.where_of(m, p, q), mask, a, b)

    def gt_of(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def eq_of(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def and_of(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def or_of(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def not_of(self, a: Any) -> Any:
        raise NotImplementedError

    def where_of(self, mask: Any, a: Any, b: Any) -> Any:
        raise NotImplementedError
