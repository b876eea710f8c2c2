"""Derivatives of Python functions of arrays, and of nests of them: jvp, vjp, grad, value_and_grad.

Each opens a level for the time in which it calls the function, so they nest in any order: what is inside sees the Vars of what is
outside as constants, and its own derivative is made of operators which the outside records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import arguments, dispatch, tree
from ..arithmetic import like
from ..errors import ArgumentError, ShapeError, refusal
from ..levels import Level, Valued
from ..operator import shape_of
from ..scalars import as_operand
from .tape import Tape, TapeVar, checked_seed, fitted


class Moving(Valued):
    """A value and its tangent (None: zero), pushed along together."""

    __slots__ = ("tangent",)

    def __init__(self, level: Pushing, value: Any, tangent: Any, name: str) -> None:
        super().__init__(level, name, value)
        self.tangent = tangent


class Pushing(Level):
    """The level of one `jvp`."""

    called = "jvp"

    def record(self, op: Any, operands: tuple[Any, ...]) -> Moving:
        own = [o if isinstance(o, Moving) and o.level is self else None for o in operands]
        values = tuple(o if mine is None else mine.value for o, mine in zip(operands, own, strict=True))
        tangents = tuple(None if mine is None else mine.tangent for mine in own)
        if all(t is None or not slot.differentiable for slot, t in zip(op.slots, tangents, strict=False)):
            return Moving(self, dispatch.forward(op, values), None, op.name)
        value, memory = dispatch.keep(op, values)
        return Moving(self, value, dispatch.push(op, values, memory, tangents), op.name)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(y, dy): f at `primals`, and its derivative there along `tangents`, a nest of the same form.

    >>> import numpy as np, specgrad as sg
    >>> jvp(lambda x: sg.sum(x * x), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    (array(5.), array(2.))
    """
    arguments.function("jvp", f)
    primals, tangents = (
        arguments.one_each("jvp", name, given) for name, given in (("primals", primals), ("tangents", tangents))
    )
    given = [_operand("jvp", path, leaf) for path, leaf in tree.leaves(primals)]
    moved = [
        fitted("jvp", "tangents", t, x)
        for t, x in zip(tree.matched("jvp", "tangents", primals, tangents), given, strict=True)
    ]
    level = Pushing(transform=True)
    with level.running():
        pairs = (Moving(level, x, t, "input") for x, t in zip(given, moved, strict=True))
        result = f(*tree.rebuild(primals, pairs))
    values = [_own(level, leaf) for _, leaf in tree.leaves(result)]
    return (
        tree.rebuild(result, iter([value for value, _ in values])),
        tree.rebuild(
            result, iter([like(value, 0, shape_of("jvp", "y", value)) if t is None else t for value, t in values])
        ),
    )


def _own(level: Pushing, leaf: Any) -> tuple[Any, Any]:
    if isinstance(leaf, Moving) and leaf.level is level:
        return leaf.value, leaf.tangent
    return _operand("jvp", "", leaf), None


def _operand(name: str, path: str, leaf: Any) -> Any:
    return leaf if dispatch.is_var(leaf) else as_operand(name, f"operand{path}", leaf)


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """(y, pullback): f at `primals`, and the function that sends a cotangent of y back to one cotangent per primal.

    >>> import numpy as np, specgrad as sg
    >>> y, pullback = vjp(sg.relu, np.array([1.0, -2.0]))
    >>> pullback(np.array([10.0, 10.0]))
    (array([10.,  0.]),)
    """
    arguments.function("vjp", f)
    given = [_operand("vjp", path, leaf) for path, leaf in tree.leaves(primals)]
    tape = Tape(_transform=True)
    with tape.running():
        inputs = [tape.leaf(x, name=f"input_{place}") for place, x in enumerate(given)]
        result = f(*tree.rebuild(primals, iter(inputs)))
    outputs = [leaf for _, leaf in tree.leaves(result)]
    values = [y.value if _is_on(tape, y) else _operand("vjp", "", y) for y in outputs]

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        arriving = tree.matched("pullback", "cotangent", result, cotangents)
        seeds = [fitted("pullback", "cotangent", g, y) for g, y in zip(arriving, values, strict=True)]
        found = tape.sweep([(y, g) for y, g in zip(outputs, seeds, strict=True) if _is_on(tape, y)])
        parts = (found[x] if x in found else like(x, 0, x.shape) for x in inputs)
        return tuple(tree.rebuild(primals, parts))

    return tree.rebuild(result, iter(values)), pullback


def _is_on(tape: Tape, leaf: Any) -> bool:
    return isinstance(leaf, TapeVar) and leaf.level is tape


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., tuple[Any, Any]]:
    """The function that gives f's value, of one cell, and its gradient in the argument `argnums` (or several), nests included.

    Arguments that are given by keyword are handed to f as they are.

    >>> import numpy as np, specgrad as sg
    >>> value_and_grad(lambda p: sg.sum(p["a"] * p["a"]))({"a": np.array([1.0, 2.0])})
    (array(5.), {'a': array([2., 4.])})
    """
    arguments.function("grad", f)
    places = arguments.several("grad", "argnums", argnums, arguments.MANY)
    several = arguments.is_sequence(argnums)

    @functools.wraps(f)
    def differentiated(*given: Any, **options: Any) -> tuple[Any, Any]:
        for place in places:
            if not -len(given) <= place < len(given):
                rule, remedy = (
                    f"is not one of {len(given)} arguments given by position",
                    "name arguments that are given",
                )
                raise refusal(ArgumentError, "grad", "argnums", argnums, rule, remedy)
        at = [place % len(given) for place in places]
        if len(set(at)) < len(at):
            rule, remedy = "names an argument twice", "name each argument once"
            raise refusal(ArgumentError, "grad", "argnums", argnums, rule, remedy)

        def of_those(*chosen: Any) -> Any:
            filled = list(given)
            for place, argument in zip(at, chosen, strict=True):
                filled[place] = argument
            return f(*filled, **options)

        value, pullback = vjp(of_those, *(given[place] for place in at))
        if isinstance(value, list | tuple | dict) or value is None:
            rule, remedy = "must be one array", "return the loss alone, or use vjp"
            raise refusal(ShapeError, "grad", "output", value, rule, remedy)
        gradients = pullback(checked_seed("grad", value, None))
        return value, gradients if several else gradients[0]

    return differentiated


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function that gives the gradient of f, whose value must have one cell, in the argument `argnums` (or several).

    >>> import numpy as np, specgrad as sg
    >>> grad(grad(lambda x: x * x * x))(np.array(2.0))
    array(12.)
    """
    both = value_and_grad(f, argnums)

    @functools.wraps(f)
    def differentiated(*given: Any, **options: Any) -> Any:
        return both(*given, **options)[1]

    return differentiated
