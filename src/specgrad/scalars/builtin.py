"""Python's own numbers in object arrays: int of any size, exactly, and float."""

from __future__ import annotations

from .base import Elements, Family
from .floats import ObjectFloats
from .fraction import algebraic


class Integers(Elements):
    """Python integers: a ring, so convolutions and maxima are exact; there is no division."""

    lacks = {
        "division": ("integers do not divide", "use Fraction elements instead: x * Fraction(1)"),
        **algebraic("integers have"),
    }


def normal(kind: type) -> type | None:
    return float if issubclass(kind, float) else None


def family(kind: type) -> Family:
    return ObjectFloats(float) if kind is float else Integers(int)
