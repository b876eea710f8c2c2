"""What can go wrong, and the one form in which it is said.

Every refusal reads ``operator: argument=value on axis i: rule broken; remedy`` and is raised by
:func:`refusal`, so that a plain call, a tape, a graph and a front end show the same text for the
same mistake.
"""

from __future__ import annotations

import reprlib
from typing import Any


class SpecgradError(ValueError):
    """The base class of all errors that specgrad raises."""


class ArgumentError(SpecgradError):
    """A parameter of an operator has an invalid value."""


class UndeclaredError(ArgumentError, AttributeError):
    """A class of operators does not declare something that every operator needs, or an attribute is
    not offered."""


class ShapeError(SpecgradError):
    """An operand, tangent, cotangent or output does not have the shape that the operator needs."""


class ScalarError(SpecgradError):
    """The element type of an operand does not have an operation that the operator needs (an order,
    a division, an exponential)."""


class GradientError(SpecgradError, AssertionError):
    """A derivative is wrong; the message says which check found it."""


class ModelError(SpecgradError):
    """A model file is malformed, or contains something that specgrad does not read; the message
    names the place."""


class CertificateError(SpecgradError):
    """A certificate does not prove its claims; the message names the step."""


class SlowPathWarning(UserWarning):
    """A large float array runs on the reference engine, which is slow; the message says why, and
    what to do."""


class _Short(reprlib.Repr):
    """Reprs of bounded length, in which the arrays of a nest are described and not printed."""

    def repr1(self, x: Any, level: int) -> str:
        shape = getattr(x, "shape", None)
        return describe(x) if isinstance(shape, tuple) and shape else super().repr1(x, level)

    def repr_int(self, x: int, level: int) -> str:
        """Python itself refuses to write integers of some thousand digits."""
        return super().repr_int(x, level) if x.bit_length() < 4096 else f"an integer of {x.bit_length()} bits"


_short = _Short()
_short.maxtuple = _short.maxlist = 8
_short.maxstring = _short.maxother = 80
_short.maxlong = 40


def describe(value: Any) -> str:
    """A value as a message shows it: arrays by dtype and shape, Vars by name and shape, everything
    else by a repr of bounded length."""
    if isinstance(value, type):
        return _short.repr(value)
    shape = getattr(value, "shape", None)
    if hasattr(type(value), "__specgrad__"):
        return f"Var {_short.repr(value.name)} of shape {shape}"
    if not isinstance(shape, tuple) or (shape == () and hasattr(value, "item")):
        return _short.repr(_number(value))
    dtype = getattr(value, "dtype", None)
    kind = getattr(value, "called", type(value).__name__ if dtype is None else f"{dtype} array")
    return f"{kind} of shape {tuple(shape)}"


def _number(value: Any) -> Any:
    """The number of an array without axes; a tracer, which has none yet, as it is."""
    try:
        return value.item() if hasattr(value, "item") else value
    except Exception:  # each library raises another kind
        return value


def refusal(
    kind: type[SpecgradError], operator: str, argument: str, value: Any, rule: str, remedy: str, axis: int | None = None
) -> SpecgradError:
    """The exception to raise when `argument` of `operator` breaks `rule`; `remedy` says what to
    write instead."""
    place = "" if axis is None else f" on axis {axis}"
    shown = value if isinstance(value, Described) else describe(value)
    return kind(f"{operator}: {argument}={shown}{place}: {rule}; {remedy}")


class Described(str):
    """A value that is already in the words a message should show."""


def shape_words(shape: tuple[int, ...]) -> Described:
    """An operand of which only the shape matters, as a message shows it."""
    return Described(f"array of shape {tuple(shape)}")
