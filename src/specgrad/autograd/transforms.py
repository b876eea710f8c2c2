"""Derivatives of Python functions of arrays and nested containers: jvp, vjp, grad, value_and_grad.

With has_aux=True a function returns a pair: the value to differentiate, and an auxiliary result,
which is returned with the derivative.

Each transform opens a level while it calls the function, so transforms nest in any order. An inner
transform treats the Vars of outer levels as constants, and its derivative consists of operators
that the outer levels record.
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
from ..scalars.foreign import home
from .tape import Tape, TapeVar, checked_seed, fitted


class JVPVar(Valued):
    """A value and its tangent (None: zero), pushed along together."""

    __slots__ = ("tangent",)

    def __init__(self, level: JVPLevel, value: Any, tangent: Any, name: str) -> None:
        super().__init__(level, name, value)
        self.tangent = tangent


class JVPLevel(Level):
    """The level of one `jvp`."""

    called = "jvp"

    def record(self, op: Any, operands: tuple[Any, ...]) -> JVPVar:
        own = [o if isinstance(o, JVPVar) and o.level is self else None for o in operands]
        values = tuple(o if mine is None else mine.value for o, mine in zip(operands, own, strict=True))
        tangents = tuple(None if mine is None else mine.tangent for mine in own)
        if all(t is None or not slot.differentiable for slot, t in zip(op.slots, tangents, strict=False)):
            return JVPVar(self, dispatch.forward(op, values), None, op.name)
        value, memory = dispatch.keep(op, values)
        return JVPVar(self, value, dispatch.push(op, values, memory, tangents), op.name)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False) -> Any:
    """Forward mode: (y, dy), the value of f at `primals` and its derivative along `tangents`, which
    have the same structure. With has_aux=True, (y, dy, aux).

    >>> import numpy as np, specgrad as sg
    >>> jvp(lambda x: sg.sum(x * x), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    (array(5.), array(2.))
    """
    arguments.function("jvp", f)
    primals, tangents = (
        arguments.one_each("jvp", name, given) for name, given in (("primals", primals), ("tangents", tangents))
    )
    back = home(leaf for _, leaf in tree.leaves(primals))
    given = [_operand("jvp", path, leaf) for path, leaf in tree.leaves(primals)]
    moved = [
        fitted("jvp", "tangents", t, x)
        for t, x in zip(tree.matched("jvp", "tangents", primals, tangents), given, strict=True)
    ]
    level = JVPLevel(transform=True)
    pairs = (JVPVar(level, x, t, "input") for x, t in zip(given, moved, strict=True))
    result, *aux = _with_aux("jvp", has_aux, level, level.run(f, *tree.rebuild(primals, pairs)))
    values = [_own(level, leaf) for _, leaf in tree.leaves(result)]
    moves = [like(value, 0, shape_of("jvp", "y", value)) if t is None else t for value, t in values]
    parts = ([value for value, _ in values], moves)
    return *(tree.rebuild(result, map(back, part)) for part in parts), *aux


def _with_aux(name: str, has_aux: bool, level: Level, result: Any) -> tuple[Any, ...]:
    """What is differentiated and, if there is anything else, the values of that."""
    if not arguments.flag(name, "has_aux", has_aux):
        return (result,)
    if not isinstance(result, tuple) or len(result) != 2:
        rule, remedy = "must be a pair with has_aux=True", "return (y, aux), or leave has_aux out"
        raise refusal(ShapeError, name, "output", result, rule, remedy)
    y, aux = result
    return y, tree.map_leaves(lambda leaf: leaf.value if getattr(leaf, "level", None) is level else leaf, aux)


def _own(level: JVPLevel, leaf: Any) -> tuple[Any, Any]:
    if isinstance(leaf, JVPVar) and leaf.level is level:
        return leaf.value, leaf.tangent
    return _operand("jvp", "", leaf), None


def _operand(name: str, path: str, leaf: Any) -> Any:
    return leaf if dispatch.is_var(leaf) else as_operand(name, f"operand{path}", leaf)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Reverse mode: (y, pullback), the value of f at `primals` and a function that maps a cotangent
    of y to a tuple with one cotangent per primal. With has_aux=True, (y, pullback, aux).

    >>> import numpy as np, specgrad as sg
    >>> y, pullback = vjp(sg.relu, np.array([1.0, -2.0]))
    >>> pullback(np.array([10.0, 10.0]))
    (array([10.,  0.]),)
    """
    arguments.function("vjp", f)
    leaves = list(tree.leaves(primals))
    homes = [home([leaf]) for _, leaf in leaves]
    back = home(leaf for _, leaf in leaves)
    given = [_operand("vjp", path, leaf) for path, leaf in leaves]
    tape = Tape(_transform=True)
    inputs = [tape.leaf(x, name=f"input_{index}") for index, x in enumerate(given)]
    result, *aux = _with_aux("vjp", has_aux, tape, tape.run(f, *tree.rebuild(primals, iter(inputs))))
    outputs = [leaf for _, leaf in tree.leaves(result)]
    values = [y.value if _is_on(tape, y) else _operand("vjp", "", y) for y in outputs]

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        arriving = tree.matched("pullback", "cotangent", result, cotangents)
        seeds = [fitted("pullback", "cotangent", g, y) for g, y in zip(arriving, values, strict=True)]
        found = tape.sweep([(y, g) for y, g in zip(outputs, seeds, strict=True) if _is_on(tape, y)])
        gradients = [found.get(x.index) for x in inputs]
        parts = (
            own(like(x, 0, x.shape) if g is None else g) for own, x, g in zip(homes, inputs, gradients, strict=True)
        )
        return tuple(tree.rebuild(primals, parts))

    return tree.rebuild(result, map(back, values)), pullback, *aux


def _is_on(tape: Tape, leaf: Any) -> bool:
    return isinstance(leaf, TapeVar) and leaf.level is tape


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns f's value, a single number, and its gradient in the argument
    `argnums` (or several arguments), which may be nested containers.

    Keyword arguments are passed to f unchanged. With has_aux=True the function returns
    ((value, aux), gradient).

    >>> import numpy as np, specgrad as sg
    >>> value_and_grad(lambda p: sg.sum(p["a"] * p["a"]))({"a": np.array([1.0, 2.0])})
    (array(5.), {'a': array([2., 4.])})
    """
    arguments.function("grad", f)
    several = arguments.is_sequence(argnums)
    arguments.several("grad", "argnums", argnums, arguments.MANY)

    @functools.wraps(f)
    def differentiated(*given: Any, **options: Any) -> tuple[Any, Any]:
        of_those, chosen = chosen_arguments("grad", f, argnums, given, options)
        value, pullback, *aux = vjp(of_those, *chosen, has_aux=has_aux)
        if tree.branches(value) is not None:
            rule, remedy = "must be one array", "return the loss alone, or use vjp, or has_aux=True for more"
            raise refusal(ShapeError, "grad", "output", value, rule, remedy)
        gradients = pullback(checked_seed("grad", value, None))
        return (value, *aux) if aux else value, gradients if several else gradients[0]

    return differentiated


def chosen_arguments(
    name: str, f: Callable[..., Any], argnums: Any, given: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """f as a function of the arguments that `argnums` names, and these arguments."""
    indices = arguments.several(name, "argnums", argnums, arguments.MANY)
    for index in indices:
        if not -len(given) <= index < len(given):
            rule, remedy = f"is not one of {len(given)} arguments given by position", "name arguments that are given"
            raise refusal(ArgumentError, name, "argnums", argnums, rule, remedy)
    at = [index % len(given) for index in indices]
    if len(set(at)) < len(at):
        rule, remedy = "names an argument twice", "name each argument once"
        raise refusal(ArgumentError, name, "argnums", argnums, rule, remedy)

    def of_those(*chosen: Any) -> Any:
        filled = list(given)
        for index, argument in zip(at, chosen, strict=True):
            filled[index] = argument
        return f(*filled, **options)

    return of_those, [given[index] for index in at]


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of f in the argument `argnums` (or several arguments).
    The value of f must be a single number. With has_aux=True it returns (gradient, aux).

    >>> import numpy as np, specgrad as sg
    >>> grad(grad(lambda x: x * x * x))(np.array(2.0))
    array(12.)
    """
    both = value_and_grad(f, argnums, has_aux=has_aux)

    @functools.wraps(f)
    def differentiated(*given: Any, **options: Any) -> Any:
        value, gradient = both(*given, **options)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated
