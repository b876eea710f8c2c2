"""Who may meet whom: every tape, graph and running transform is a level, and a Var belongs to one.

An operator on Vars of several levels is recorded by the innermost; a Var of an enclosing level is a
constant there, and being a Var it is recorded at its own level in turn. A transform is inside all
that was begun before it and closes when it returns; two tapes, or a tape and a graph, are foreign
to each other.
"""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Self

from .arithmetic import Arithmetic, indicator, like
from .dispatch import is_var
from .errors import ArgumentError, refusal
from .operator import shape_of

_serials = itertools.count()
_running: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar("specgrad_levels", default=())


class Var(Arithmetic):
    """A value that its level records: use it in any function of specgrad, and as an array
    (`ArrayMethods`)."""

    __slots__ = ("level", "name", "shape")

    shape: tuple[int, ...]

    def __init__(self, level: Any, name: str, shape: tuple[int, ...]) -> None:
        self.level = level
        self.name = name
        self.shape = shape

    def __specgrad__(self, op: Any, operands: tuple[Any, ...]) -> Any:
        for slot, operand in zip(op.slots, operands, strict=False):
            if is_var(operand):
                self.level.admit(op.name, slot.name, operand)
        return self.level.record(op, operands)

    def filled(self, number: Any, shape: tuple[int, ...]) -> Any:
        """A constant of this shape, in the scalar of this Var."""
        raise NotImplementedError

    def indicator(self, mask: Any) -> Any:
        """A mask of booleans as the constant 1 or 0, in the scalar of this Var."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        """Itself: a copy would not be recorded, and its derivative would be lost."""
        return self

    def __deepcopy__(self, copied: Any) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        rule, remedy = "a recorded value is not pickled", "pickle its value, or the result of the transform"
        raise refusal(ArgumentError, "Var", "name", self.name, rule, remedy)

    def __bool__(self) -> bool:
        rule, remedy = "a recorded value has no truth value", "select with where(x > y, …), or compare its value"
        raise refusal(ArgumentError, "Var", "name", self.name, rule, remedy)

    def __float__(self) -> float:
        rule, remedy = "a recorded value is not a number of Python", "use functions of specgrad on it, or ask its value"
        raise refusal(ArgumentError, "Var", "name", self.name, rule, remedy)

    def __int__(self) -> int:
        return int(float(self))

    def __iter__(self) -> Iterator[Any]:
        rule, remedy = "a recorded value is not taken apart", "index it: [x[i] for i in range(len(x))]"
        raise refusal(ArgumentError, "Var", "name", self.name, rule, remedy)


class Valued(Var):
    """A Var whose numbers are known while it is recorded: `value`."""

    __slots__ = ("value",)

    def __init__(self, level: Any, name: str, value: Any) -> None:
        super().__init__(level, name, shape_of(level.called, "value", value))
        self.value = value

    @property
    def dtype(self) -> Any:
        """The dtype of its value."""
        return self.value.dtype

    def filled(self, number: Any, shape: tuple[int, ...]) -> Any:
        return like(self.value, number, shape)

    def indicator(self, mask: Any) -> Any:
        return indicator(self.value, mask)

    def __repr__(self) -> str:
        return f"Var({self.name!r}, {self.value!r})"


class Level:
    """Something that records operators on its Vars."""

    called = "level"

    def __init__(self, transform: bool = False) -> None:
        self.serial = next(_serials)
        self.transform = transform
        self.closed = False
        self.around = _running.get()

    def record(self, op: Any, operands: tuple[Any, ...]) -> Any:
        """Apply an operator to operands of which one at least is ours, and remember it."""
        raise NotImplementedError

    def admit(self, name: str, argument: str, var: Any) -> None:
        """Refuse a Var that has no meaning at this level."""
        other = var.level
        if other.closed:
            rule = "was made inside a transform that has returned"
            raise refusal(ArgumentError, name, argument, var, rule, "return the value from the function instead")
        if other is not self and not (other in self.around or (self.transform and not other.transform)):
            rule = f"is of another {other.called} than the {self.called} that is recording"
            raise refusal(ArgumentError, name, argument, var, rule, f"use Vars of one {self.called}, and arrays")

    def run(self, f: Callable[..., Any], *given: Any) -> Any:
        """f(*given), as a transform calls its function; afterwards the level is closed.

        No `with` block: an interrupt that comes at the beginning of its `__exit__`, or before its
        `try`, would leave the level running.
        """
        before = _running.get()
        try:
            _running.set((*self.around, self))
            return f(*given)
        finally:
            self.closed = True
            _running.set(before)
