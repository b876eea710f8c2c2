"""Statements about the values of operators, for all inputs of a case."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from ...geometry import Shape, Sliding, transposed_size
from ...operator import Operator
from ...ops import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    Linear,
    MaxPool,
)
from ..reals import Sequent, at_most, either, equal, inner
from .vocabulary import believed, holds

MAXIMA: tuple[type[Operator], ...] = (MaxPool, AdaptiveMaxPool, GlobalMaxPool)
AVERAGES: tuple[type[Operator], ...] = (AvgPool, AdaptiveAvgPool, GlobalAvgPool)
BILINEAR: tuple[type[Operator], ...] = (Conv, ConvTranspose, Linear)
SEPARABLE: tuple[type[Operator], ...] = (MaxPool, AdaptiveMaxPool, AvgPool, AdaptiveAvgPool)


def windows(op: Operator, x: Any) -> list[list[Any]]:
    """The real cells of each window, in row-major order."""
    geometry = op.geometry(x.shape)
    found: list[list[Any]] = [[] for _ in range(geometry.outputs)]
    for step in geometry.block(0, geometry.outputs).steps():
        for output in np.flatnonzero(step.real):
            found[output].append(x.flat[step.place[0][output]])
    return found


def is_first(op: Any, shapes: Any) -> bool:
    """Whether a maximum has ties="first"; the other tie rules have the same value."""
    return bool(op.ties == "first")


@holds("max is the least upper bound of a window's real cells, and 0 where there is none", kinds=MAXIMA, where=is_first)
def least_upper_bound(op: Operator, x: Any) -> Sequent:
    claims = []
    for value, cells in zip(op(x).flat, windows(op, x), strict=True):
        claims += [*(cell <= value for cell in cells), either([value == cell for cell in cells or [0]])]
    return Sequent(claims)


@holds("max is monotone", kinds=MAXIMA, where=is_first)
def monotone(op: Operator, x: Any, z: Any) -> Sequent:
    return Sequent(at_most(op(x), op(z)), at_most(x, z))


@holds("max is 1-Lipschitz in the maximum norm", kinds=MAXIMA, where=is_first)
def lipschitz(op: Operator, x: Any, z: Any, t: Any) -> Sequent:
    y, other = op(x), op(z)
    return Sequent([*at_most(y - other, t), *at_most(other - y, t)], [*at_most(x - z, t), *at_most(z - x, t)])


def has_cells(op: Any, shapes: Any) -> bool:
    """Whether some window has a real cell."""
    return any(windows(op, np.zeros(shapes[0])))


@holds(
    "max(x + t) = max(x) + t in windows with a real cell",
    kinds=MAXIMA,
    where=lambda op, shapes: is_first(op, shapes) and has_cells(op, shapes),
)
def translates(op: Operator, x: Any, t: Any) -> Sequent:
    moved = zip(op(x + t).flat, (op(x) + t).flat, windows(op, x), strict=True)
    return Sequent([one == other for one, other, cells in moved if cells])


@holds("the value is the same under every tie rule", kinds=MAXIMA, where=lambda op, shapes: op.ties != "first")
def value_has_no_rule(op: Any, x: Any) -> Sequent:
    return Sequent([a == b for a, b in zip(op(x).flat, replace(op, ties="first")(x).flat, strict=True)])


@holds("average is linear", kinds=AVERAGES)
def linear(op: Operator, x: Any, z: Any, t: Any) -> Sequent:
    return Sequent(equal(op(x + t * z), op(x) + t * op(z)))


def _counts_cells(op: Any, shapes: Any) -> bool:
    """Whether an average divides by the number of real cells, and some window has one."""
    own = isinstance(op, AvgPool) and (op.count_include_pad or op.divisor_override is not None)
    return not own and has_cells(op, shapes)


@holds(
    "average lies between a window's least and greatest real cell, where padding is not counted",
    kinds=AVERAGES,
    where=_counts_cells,
)
def between(op: Operator, x: Any) -> Sequent:
    claims = []
    for value, cells in zip(op(x).flat, windows(op, x), strict=True):
        if cells:
            claims += [either([cell <= value for cell in cells]), either([cell >= value for cell in cells])]
    return Sequent(claims)


@holds("convolution is linear in its input", kinds=BILINEAR)
def linear_in_input(op: Operator, x: Any, z: Any, w: Any, t: Any) -> Sequent:
    return Sequent(equal(op(x + t * z, w), op(x, w) + t * op(z, w)))


@holds("convolution is linear in its weight", kinds=BILINEAR)
def linear_in_weight(op: Operator, x: Any, w: Any, v: Any, t: Any) -> Sequent:
    return Sequent(equal(op(x, w + t * v), op(x, w) + t * op(x, v)))


def transposed(op: Any, size: Shape) -> ConvTranspose:
    """The transposed convolution whose result has the size of a convolution's input."""
    extra = []
    for n, k, s, (a, b), d in zip(size, op.kernel_size, op.stride, op.padding, op.dilation, strict=True):
        extra.append(n - transposed_size(Sliding(n, k, s, a, b, d).length, k, s, (a, b), d, 0))
    given = {name: getattr(op, name) for name in ("stride", "padding", "dilation", "groups")}
    return ConvTranspose(op.kernel_size, **given, output_padding=tuple(extra))


@holds("transposed convolution is the adjoint of convolution in its input", kinds=(Conv,))
def transposed_is_adjoint(op: Conv, x: Any, w: Any, g: Any) -> Sequent:
    back = transposed(op, x.shape[-len(op.kernel_size) :])
    return Sequent(equal([inner(op(x, w), g)], [inner(x, back(g, w))]))


def one_axis(op: Any, axis: int) -> Any:
    """The window's pass along one axis, with kernel 1 along the others."""

    def there(values: Any, else_: Any) -> tuple[Any, ...]:
        return tuple(value if n == axis else else_ for n, value in enumerate(values))

    if isinstance(op, AdaptiveMaxPool | AdaptiveAvgPool):
        return replace(op, output_size=there(op.output_size, None))
    return replace(
        op,
        kernel_size=there(op.kernel_size, 1),
        stride=there(op.stride, 1),
        padding=there(op.padding, (0, 0)),
        dilation=there(op.dilation, 1),
    )


def passes(op: Any) -> list[Any]:
    """A window of several axes as one pass per axis, the last axis first."""
    return [one_axis(op, axis) for axis in reversed(range(op.spatial_rank()))]


def is_separable(op: Any, shapes: Any) -> bool:
    """Whether a window has several axes, and its divisor, if any, is a product over axes."""
    return op.spatial_rank() >= 2 and getattr(op, "divisor_override", None) is None


@holds("one pass per axis gives the value of the whole window", kinds=SEPARABLE, where=is_separable)
def separable(op: Any, x: Any) -> Sequent:
    y = functools.reduce(lambda made, one: one(made), passes(op), x)
    return Sequent([a == b for a, b in zip(op(x).flat, y.flat, strict=True)])


def pulled(order: list[Any], x: Any, g: Any) -> Any:
    """The VJP of a sequence of passes."""
    inputs = [x]
    for one in order[:-1]:
        inputs.append(one(inputs[-1]))
    for one, given in zip(reversed(order), reversed(inputs), strict=True):
        (g,) = one.vjp((given,), g)
    return g


def is_argmax(op: Any, shapes: Any) -> bool:
    """Whether the row is the argmax of a window of several axes."""
    return is_separable(op, shapes) and is_first(op, shapes)


@holds(
    "one pass per axis, the last axis first, gives the argmax of the whole window",
    kinds=(MaxPool, AdaptiveMaxPool),
    where=is_argmax,
)
def separable_argmax(op: Any, x: Any, g: Any) -> Sequent:
    return Sequent(equal(op.vjp((x,), g)[0], pulled(passes(op), x, g)))


def _has_a_square(op: Any, shapes: Any) -> bool:
    """Whether some window has at least two cells along two axes."""
    if not is_argmax(op, shapes):
        return False
    axes = op.spatial(tuple(shapes[0][p] for p in op.positions(shapes[0])))
    return sum(bool((axis.ranges().count >= 2).any()) for axis in axes) >= 2


@believed(
    "one pass per axis, the first axis first, gives the argmax of the whole window",
    kinds=(MaxPool, AdaptiveMaxPool),
    where=_has_a_square,
)
def separable_in_any_order(op: Any, x: Any, g: Any) -> Sequent:
    return Sequent(equal(op.vjp((x,), g)[0], pulled(passes(op)[::-1], x, g)))
