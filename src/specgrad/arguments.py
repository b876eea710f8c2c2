"""What a caller may write for each parameter, and its one normal form.

Parameters are stored as exact Python integers, one per spatial axis, whatever way they were written
(an int, a NumPy integer, a list). Everything that can be refused before an operand is seen is
refused here.
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError, ShapeError, refusal

A = TypeVar("A")
"""The kind of the input and of the result: what goes in comes out."""
AXES = 32
"""How many axes an array may have: NumPy's own functions take no more."""

Ints = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]
Pairs = tuple[tuple[int, int], ...]

LARGEST = 2**31 - 1
"""What a parameter of a window may be: products of two stay far below 2^63, so that places are
exact in 64 bits."""
LONGEST = 2**63 - 1
"""What the length of an array's axis may be."""


def _is_symbolic(value: Any) -> bool:
    """Whether a value is a length that torch.export leaves open."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.SymInt) and bool(value.node.is_symbolic())


def integer(
    name: str,
    argument: str,
    value: Any,
    least: int | None,
    axis: int | None = None,
    whole: Any = None,
    most: int = LARGEST,
) -> int:
    """`value` as an exact int from `least` to `most`; `whole` is the argument as written, for the
    message."""
    if type(value) is int and (least is None or least <= value) and -most <= value <= most:
        return value  # as nearly all are
    if _is_symbolic(value):  # as an integer it would be the same in every run of the program
        open_length: int = value
        return open_length
    shown = value if whole is None else whole
    try:
        if isinstance(value, bool):
            raise TypeError
        exact = operator.index(value)
    except TypeError:
        rule = f"must be an integer, got {type(value).__name__}"
        raise refusal(ArgumentError, name, argument, shown, rule, "write whole numbers", axis) from None
    if least is not None and exact < least:
        raise refusal(ArgumentError, name, argument, shown, f"must be at least {least}", "write a larger integer", axis)
    if abs(exact) > most:
        raise refusal(ArgumentError, name, argument, shown, f"must be at most {most}", "write a smaller integer", axis)
    return exact


def suggestion(name: Any, names: Iterable[str]) -> str:
    """What to say of a name that is none of these: the nearest one, and all that there are."""
    import difflib

    known = list(names)
    near = difflib.get_close_matches(str(name), known, 1) or [
        other for other in known if other.lower() == str(name).lower()
    ]
    return f"{name}: {f'did you mean {near[0]}? ' if near else ''}choose from {', '.join(known)}"


MANY = 1 << 16
"""How many operands a call may have."""


def is_sequence(value: Any) -> bool:
    """Lists, tuples and ranges; one-dimensional arrays count too."""
    return isinstance(value, (list, tuple, range)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def bounded(name: str, argument: str, value: Any, most: int = AXES) -> Any:
    """A sequence, which is not walked where it has too many entries: more than an array has
    axes."""
    if len(value) > most:
        rule = f"has {len(value)} entries, more than the {most} there can be"
        raise refusal(ArgumentError, name, argument, value, rule, "give fewer entries")
    return value


def one_per_axis(name: str, argument: str, value: Any, example: str) -> Any:
    """`value` where it is a sequence, whose length is the spatial rank."""
    if is_sequence(value):
        return bounded(name, argument, value)
    rule = f"must be a tuple with one entry per spatial axis, got {type(value).__name__}"
    raise refusal(ArgumentError, name, argument, value, rule, f"write e.g. {example}, or use {name}2d for one int")


def per_axis(name: str, argument: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """An int for all axes, or one int per axis, as one int per axis."""
    if not is_sequence(value):
        return (integer(name, argument, value, least),) * rank
    if len(value) != rank:
        rule = f"has {len(value)} entries for {rank} spatial axes"
        raise refusal(ArgumentError, name, argument, value, rule, "give one integer, or one per spatial axis")
    return tuple(integer(name, argument, v, least, axis, value) for axis, v in enumerate(value))


def lengths(name: str, argument: str, value: Any, least: int = 1, example: str = "(3, 3)") -> tuple[int, ...]:
    """`kernel_size` and its like: a tuple whose length is the spatial rank."""
    one_per_axis(name, argument, value, example)
    return per_axis(name, argument, value, len(value), least)


def output_size(name: str, argument: str, value: Any) -> tuple[int | None, ...]:
    """`output_size`: a tuple of lengths, one per spatial axis; None keeps the input's length."""
    entries = one_per_axis(name, argument, value, "(7, 7)")
    return tuple(None if v is None else integer(name, argument, v, 0, axis, value) for axis, v in enumerate(entries))


def padding(name: str, argument: str, value: Any, rank: int, words: tuple[str, ...] = ("same", "valid")) -> str | Pairs:
    """`padding`: an int; an int per axis; a (before, after) pair per axis; or one of `words`."""
    if isinstance(value, str):
        if value in words:
            return ((0, 0),) * rank if value == "valid" else value
        known = " or ".join(repr(w) for w in words)
        remedy = f"write {known}, or integers" if words else "write integers"
        raise refusal(ArgumentError, name, argument, value, "is not a padding", remedy)
    if is_sequence(value) and any(is_sequence(v) for v in bounded(name, argument, value)):
        if len(value) == rank and all(is_sequence(v) and len(v) == 2 for v in value):
            before, after = (
                tuple(integer(name, argument, pair[side], 0, axis, value) for axis, pair in enumerate(value))
                for side in (0, 1)
            )
            return tuple(zip(before, after, strict=True))
        rule = f"is not one (before, after) pair for each of {rank} spatial axes"
        remedy = f"write e.g. {((1, 0),) * rank}" if rank else "write ()"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)
    if is_sequence(value) and rank == 1 and len(value) == 2:
        rule = "has 2 entries for 1 spatial axis"
        raise refusal(ArgumentError, name, argument, value, rule, "nest a (before, after) pair: ((before, after),)")
    return tuple((p, p) for p in per_axis(name, argument, value, rank, 0))


def choice(name: str, argument: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not (isinstance(value, str) and value in choices):
        words = ", ".join(repr(c) for c in choices)
        raise refusal(ArgumentError, name, argument, value, "is not one of the choices", f"choose from {words}")
    return str(value)


def flag(name: str, argument: str, value: Any) -> bool:
    """True or False, nothing that merely converts to them."""
    if value is True or value is False:
        return value
    if not isinstance(value, np.bool_):
        raise refusal(ArgumentError, name, argument, value, "must be a bool", "write True or False")
    return bool(value)


def function(name: str, value: Any, argument: str = "f") -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        rule, remedy = f"must be a function{_got(value)}", "give the function itself, not its result"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)


def real(value: Any) -> int | float | Fraction | None:
    """A finite real number, kept exactly; None if `value` is not one."""
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, Decimal) and value.is_finite():
        value = Fraction(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return float(value) if math.isfinite(value) else None


def exponent(name: str, argument: str, value: Any, exact: int | float | Fraction) -> int | float | Fraction:
    """An exponent that floats and tensors can have: within ±(2^63 - 1)."""
    if not -LONGEST <= exact <= LONGEST:
        raise refusal(ArgumentError, name, argument, value, "must be at most 2^63 - 1 in size", "use a smaller one")
    return exact


def temperature(name: str, argument: str, value: Any) -> int | float | Fraction:
    """`beta`: any finite real number but 0, kept exactly."""
    exact = real(value)
    if exact:
        return exact
    remedy = "write a positive number for a smooth maximum, a negative one for a smooth minimum"
    rule = f"must be a finite real number other than 0{_got(value)}"
    raise refusal(ArgumentError, name, argument, value, rule, remedy)


def _got(value: Any) -> str:
    return "" if isinstance(value, numbers.Number) else f", got {type(value).__name__}"


def factor(name: str, argument: str, value: Any, remedy: str) -> int | float | Fraction:
    """Any finite real number, kept exactly."""
    exact = real(value)
    if exact is None:
        rule = f"must be a finite real number{_got(value)}"
        raise refusal(ArgumentError, name, argument, value, rule, remedy)
    return exact


def shape(name: str, argument: str, value: Any) -> tuple[int, ...]:
    """`shape`: one length per axis, one of which may be -1: whatever is left."""
    entries = bounded(name, argument, value) if is_sequence(value) else (value,)
    given = tuple(integer(name, argument, v, -1, axis, value, LONGEST) for axis, v in enumerate(entries))
    if given.count(-1) > 1:
        raise refusal(ArgumentError, name, argument, value, "has more than one -1", "leave one length open at most")
    return given


def several(name: str, argument: str, value: Any, most: int = AXES) -> tuple[int, ...]:
    """An integer, or several."""
    if not is_sequence(value):
        return (integer(name, argument, value, None),)
    entries = bounded(name, argument, value, most)
    return tuple(integer(name, argument, v, None, place, value) for place, v in enumerate(entries))


def one_each(name: str, argument: str, given: Any) -> tuple[Any, ...]:
    """A tuple with one entry per operand; an array alone is not taken apart into its rows."""
    if type(given) is tuple:
        return given
    if not isinstance(given, list | tuple):
        rule = f"must be a tuple with one entry per operand, got {type(given).__name__}"
        raise refusal(ShapeError, name, argument, given, rule, "write (x,) for a single one")
    return tuple(given)


def axes(name: str, argument: str, value: Any, rank: int) -> tuple[int, ...]:
    """`axes`: one integer per spatial axis."""
    if not is_sequence(value) or len(value) != rank:
        rule = f"must name one array axis for each of {rank} spatial axes"
        raise refusal(ArgumentError, name, argument, value, rule, "write a tuple such as (1, 2), or leave it out")
    return tuple(integer(name, argument, v, None, axis, value) for axis, v in enumerate(value))


def divisor(name: str, argument: str, value: Any) -> int:
    """`divisor_override`: any integer but 0."""
    exact = integer(name, argument, value, None, most=LONGEST)
    if exact == 0:
        raise refusal(ArgumentError, name, argument, value, "must not be 0", "write another integer, or None")
    return exact
