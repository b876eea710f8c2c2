"""Jacobians, Hessians and Hessian-vector products of Python functions, `vmap`, and a check of
derivatives.

All of them are composed of `jvp`, `vjp` and operators. So they nest with each other and with every
transform, over every scalar type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from . import arguments, tree
from .arithmetic import indicator, like
from .array_functions import reshape, slice, stack
from .autograd import grad, jvp, vjp
from .autograd.transforms import chosen_arguments
from .errors import ArgumentError, GradientError, ScalarError, ShapeError, refusal
from .graph.trace import trace
from .operator import shape_of
from .scalars import as_operand
from .scalars.dual import Dual


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the Jacobian of f in the argument `argnums` (or several arguments):
    an array of shape output + input.

    Nested outputs give nested arrays, which contain nested arrays for nested inputs. With
    has_aux=True the function returns (jacobian, aux). There is one reverse sweep per output cell.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    arguments.function("jacobian", f)

    @functools.wraps(f)
    def differentiated(*given: Any, **options: Any) -> Any:
        of_those, chosen = chosen_arguments("jacobian", f, argnums, given, options)
        y, pullback, *aux = vjp(of_those, *chosen, has_aux=has_aux)
        outputs, inputs = ([leaf for _, leaf in tree.leaves(nest)] for nest in (y, tuple(chosen)))
        masks = [np.zeros(shape_of("jacobian", "output", leaf), np.bool_) for leaf in outputs]

        def rows(mask: Any) -> Any:
            """The derivatives of one output, in the form of the arguments."""
            pulled = []
            for cell in np.ndindex(mask.shape):
                mask[cell] = True
                seed = [indicator(leaf, one) for leaf, one in zip(outputs, masks, strict=True)]
                pulled.append([leaf for _, leaf in tree.leaves(pullback(tree.rebuild(y, iter(seed))))])
                mask[cell] = False
            shapes = [(*mask.shape, *shape_of("jacobian", "input", x)) for x in inputs]
            parts = [
                reshape(stack([one[place] for one in pulled]), shape) if pulled else like(x, 0, shape)
                for place, (x, shape) in enumerate(zip(inputs, shapes, strict=True))
            ]
            found = tree.rebuild(tuple(chosen), iter(parts))
            return found if arguments.is_sequence(argnums) else found[0]

        found = tree.rebuild(y, iter([rows(mask) for mask in masks]))
        return (found, *aux) if aux else found

    return differentiated


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the Hessian of f, which returns a single number: an array of shape
    input + input.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    return jacobian(grad(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The Hessian of f at `primals` times `tangents`, one part per primal, without computing the
    Hessian: forward over reverse mode.

    >>> import numpy as np
    >>> hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([  6., 120.]),)
    """
    primals = arguments.one_each("hvp", "primals", primals)
    moved: tuple[Any, ...] = jvp(grad(f, tuple(range(len(primals)))), primals, tangents)[1]
    return moved


def vmap(f: Callable[..., Any], in_axes: int | Sequence[int | None] | None = 0) -> Callable[..., Any]:
    """A function that calls f for every index of an axis of its arguments, and stacks the results
    along a new first axis.

    `in_axes` is the axis for all arguments, or a tuple with one axis per argument; None passes an
    argument unchanged to every call. Nested containers are mapped leaf by leaf. f is called once
    per index, so operators with batch axes are faster on the whole array.

    >>> import numpy as np
    >>> vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(np.eye(2), np.array([5.0, 7.0]))
    array([5., 7.])
    """
    arguments.function("vmap", f)

    @functools.wraps(f)
    def mapped(*given: Any, **options: Any) -> Any:
        axes: list[Any] = list(in_axes) if isinstance(in_axes, list | tuple) else [in_axes] * len(given)
        if len(axes) != len(given):
            rule, remedy = f"has {len(axes)} entries for {len(given)} arguments", "give one axis for all, or one each"
            raise refusal(ArgumentError, "vmap", "in_axes", in_axes, rule, remedy)
        count = _count(axes, given)
        calls = [
            f(
                *(g if a is None else tree.map_leaves(_at(a, index), g) for a, g in zip(axes, given, strict=True)),
                **options,
            )
            for index in range(count)
        ]
        columns = zip(*([leaf for _, leaf in tree.leaves(one)] for one in calls), strict=True)
        return tree.rebuild(calls[0], iter([stack(list(column)) for column in columns]))

    return mapped


def _at(axis: int, index: int) -> Callable[[Any], Any]:
    """The function that takes one index of an axis of an array."""

    def take(x: Any) -> Any:
        shape = shape_of("vmap", "x", x)
        return slice(x, (*[(None, None, None)] * (axis % len(shape)), index))

    return take


def _count(axes: Sequence[int | None], given: Sequence[Any]) -> int:
    """The one length of the axes over which a function is mapped."""
    found: dict[int, str] = {}
    for axis, argument in zip(axes, given, strict=True):
        if axis is None:
            continue
        for path, leaf in tree.leaves(argument):
            shape = shape_of("vmap", f"argument{path}", leaf)
            if not -len(shape) <= arguments.integer("vmap", "in_axes", axis, None) < len(shape):
                rule, remedy = f"has no axis {axis} to map over", "name an axis of it, or None"
                raise refusal(ShapeError, "vmap", f"argument{path}", leaf, rule, remedy)
            found[shape[axis]] = path
    if len(found) != 1 or 0 in found:
        rule = "is not one length of at least 1 for all arguments"
        raise refusal(ShapeError, "vmap", "lengths", sorted(found), rule, "map over axes of one length")
    return next(iter(found))


DIGITS, STEP = 60, 10
"""The digits of Decimals where a function is not rational, and of the step of difference
quotients."""


def check_grad(f: Callable[..., Any], *xs: Any, directions: int = 2) -> bool:
    """Check the derivatives of f at `xs` exactly. Returns True, or raises GradientError with the
    difference.

    f is traced, and run over the exact rational values of the floats in `xs` (over Decimals of 60
    digits if f needs exponentials or roots). The check takes some directions, and verifies that (1)
    the JVP is the tangent computed by dual numbers; (2) the VJP is the adjoint of the JVP; (3)
    central difference quotients converge to the JVP like h². If (3) fails, the message shows the
    quotients on both sides: if they differ, the function has a kink at `xs`.

    >>> import numpy as np, specgrad as sg
    >>> check_grad(lambda x: sg.sum(sg.max_pool(x * x, (2,))), np.array([1.0, 3.0, 2.0, 0.5]))
    True
    """
    arguments.function("check_grad", f)
    xs = tree.map_leaves(lambda x: as_operand("check_grad", "xs", x), xs)  # a list of integers is no shape here
    graph = trace(f, *xs)
    given = [leaf for _, leaf in tree.leaves(tuple(xs))]
    moving = [node.differentiable for node in graph.inputs]
    if not any(moving):
        rule, remedy = "holds no array with a derivative", "give an array of floats or Fractions"
        raise refusal(ScalarError, "check_grad", "xs", [type(x).__name__ for x in xs], rule, remedy)
    with localcontext() as context:
        context.prec = DIGITS
        for scalar in (Fraction, Decimal):
            exact = [_exact(x, scalar) if m else x for x, m in zip(given, moving, strict=True)]
            try:
                graph.forward(*exact)
            except ScalarError:
                if scalar is Decimal:
                    raise
                continue
            for number in range(arguments.integer("check_grad", "directions", directions, 1, most=1000)):
                _check(graph, exact, moving, scalar, number)
            break
    return True


def _exact(x: Any, scalar: Any) -> Any:
    """An array of exact scalars."""
    array = as_operand("check_grad", "xs", x)
    made = np.empty(array.size, object)
    try:
        fractions = [Fraction(str(e)) if isinstance(e, Decimal) else Fraction(e) for e in np.ravel(array).tolist()]
    except (TypeError, ValueError, OverflowError):
        rule, remedy = "holds more than finite real numbers", "give floats, integers, Fractions or Decimals"
        raise refusal(ScalarError, "check_grad", "xs", x, rule, remedy) from None
    made[:] = fractions if scalar is Fraction else [Decimal(e.numerator) / Decimal(e.denominator) for e in fractions]
    return made.reshape(array.shape)


def _check(graph: Any, given: list[Any], moving: list[bool], scalar: Any, number: int) -> None:
    random = np.random.default_rng(number)
    own = [x for x, m in zip(given, moving, strict=True) if m]

    def run(*xs: Any) -> list[Any]:
        rest = iter(xs)
        y = graph.forward(*(next(rest) if m else x for x, m in zip(given, moving, strict=True)))
        return list(y) if isinstance(y, tuple) else [y]

    def drawn(like: Any) -> Any:
        return as_scalars(random.integers(1, 50, np.shape(like)) * random.choice([-1, 1], np.shape(like)), scalar)

    along = [drawn(x) for x in own]
    y, dy = jvp(run, own, along)
    seeds = [drawn(part) for part in y]
    unit = scalar(10) ** -(DIGITS - 2 * STEP) if scalar is Decimal else scalar(0)
    pushed = run(*(Dual(x, t) for x, t in zip(own, along, strict=True)))
    for place, (got, dual) in enumerate(zip(dy, pushed, strict=True)):
        tangent = dual.tangent if isinstance(dual, Dual) else dual * 0
        _same(f"the JVP of output {place}", got, "Dual numbers give", tangent, unit)
    left, right = _inner(seeds, dy), _inner(vjp(run, *own)[1](seeds), along)
    _same("⟨g, JVP⟩", left, "⟨VJP of g, dx⟩ is", right, unit)
    _converges(run, own, along, y, dy, scalar, unit)


def as_scalars(array: Any, scalar: Any) -> Any:
    made = np.empty(array.size, object)
    made[:] = [scalar(int(e)) for e in array.reshape(-1)]
    return made.reshape(array.shape)


def _inner(some: Sequence[Any], others: Sequence[Any]) -> Any:
    return sum((np.sum(np.asarray(a) * np.asarray(b)) for a, b in zip(some, others, strict=True)), start=0)


def _same(what: str, got: Any, says: str, wanted: Any, unit: Any) -> None:
    for a, b in zip(np.ravel(got), np.ravel(wanted), strict=True):
        if abs(a - b) > unit * (1 + abs(a) + abs(b)):
            raise GradientError(f"check_grad: {what} is {a}, but {says} {b}; mend the row of an operator, or its hints")


def _converges(run: Any, own: Any, along: Any, y: Any, dy: Any, scalar: Any, unit: Any) -> None:
    """Whether central difference quotients approach the JVP: halving the step more than halves what
    they are away."""
    step = scalar(1) / scalar(10**STEP)

    def moved(h: Any) -> Any:
        return run(*(x + h * t for x, t in zip(own, along, strict=True)))

    near, far, nearer, farther = (moved(h) for h in (step, -step, step / 2, -step / 2))
    for place, (value, slope) in enumerate(zip(y, dy, strict=True)):
        parts = (np.ravel(np.asarray(p[place])) for p in (near, far, nearer, farther))
        for at, d, a, b, c, e in zip(np.ravel(value), np.ravel(slope), *parts, strict=True):
            wide, narrow = abs((a - b) / (2 * step) - d), abs((c - e) / step - d)
            if narrow > wide / 2 and narrow > unit * (1 + abs(at) + abs(d)):
                sides = f"{float((c - at) / (step / 2)):.6g} and {float((at - e) / (step / 2)):.6g}"
                raise GradientError(
                    f"check_grad: the JVP of output {place} is {float(d):.6g}, but the difference quotients to both "
                    f"sides approach {sides}; "
                    "where they differ the function has a kink at these inputs: move them, else mend the operator"
                )
