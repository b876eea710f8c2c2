"""Operators recorded as they run: the tape, and derivatives of Python functions."""

from .tape import Tape
from .transforms import grad, jvp, value_and_grad, vjp

__all__ = ["Tape", "grad", "jvp", "value_and_grad", "vjp"]
