"""A Python function as a graph: it is called once, with Vars that stand for its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import arguments, tree
from ..operator import shape_of
from ..scalars import as_operand
from .graph import Graph


class Shape(tuple[int, ...]):
    """The shape of an argument to come, wherever a tuple or a list of integers could be taken for
    something else.

    With differentiable=False the argument is data without derivative, such as labels.

    >>> Shape(2, 3)
    Shape(2, 3)
    """

    differentiable: bool

    def __new__(cls, *lengths: Any, differentiable: bool = True) -> Shape:
        given: Any = lengths[0] if len(lengths) == 1 and isinstance(lengths[0], tuple | list) else lengths
        made = super().__new__(cls, arguments.shape("Shape", "shape", given))
        made.differentiable = arguments.flag("Shape", "differentiable", differentiable)
        return made

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self))}{'' if self.differentiable else ', differentiable=False'})"


def trace(f: Callable[..., Any], *shapes_or_arrays: Any) -> Graph:
    """The graph of f for arguments of these shapes, each a `Shape`, an array like the one to come,
    or a nest of them.

    A tuple or a list of integers is a shape too, and never a nest of numbers. An array of integers
    stands for data without derivative, such as labels. A nest of arguments becomes one input per
    leaf.

    >>> import specgrad as sg
    >>> print(trace(lambda x, y: sg.sum(x * y), (2, 3), (3,)))
    x = input(differentiable): (2, 3)
    y = input(differentiable): (3,)
    mul_2 = Mul()(x, y): (2, 3)
    sum_3 = Sum()(mul_2): ()
    return sum_3
    """
    arguments.function("trace", f)
    graph = Graph()
    inputs = [_stand_ins(graph, name, given) for name, given in zip(_names(f), shapes_or_arrays, strict=False)]
    for _, leaf in tree.leaves(f(*inputs)):
        graph.output(leaf)
    return graph


def _stand_ins(graph: Graph, name: str, given: Any) -> Any:
    """Inputs in place of every shape or array in a nest."""
    if _is_shape(given):
        return graph.input(name, given, getattr(given, "differentiable", True))
    parts = tree.branches(given)
    if parts is not None:
        return tree.rebuilt(given, [_stand_ins(graph, f"{name}{step}", branch) for step, branch in parts])
    array = as_operand("trace", name, given)
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    return graph.input(name, shape_of("trace", name, array), differentiable=kind not in "iu" or not kind)


def _is_shape(given: Any) -> bool:
    return isinstance(given, list | tuple) and all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) for n in given
    )


def _names(f: Callable[..., Any]) -> Iterator[str]:
    """The names of f's positional parameters, and then numbers."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    yield from named
    index = len(named)
    while True:
        yield f"input_{index}"
        index += 1
