"""Operators of single cells and matrix products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import specgrad as sg

from .node import Node


def of_each(function: Callable[..., Any], operands: int = 1) -> Callable[[Node], Any]:
    """An operator that is a function of specgrad, of so many operands."""

    def read(node: Node) -> Any:
        return function(*(node.var(place) for place in range(operands)))

    return read


def folded(function: Callable[[Any, Any], Any]) -> Callable[[Node], Any]:
    """A function of two operands, over any number of them."""

    def read(node: Node) -> Any:
        return functools.reduce(function, (node.var(place) for place in range(len(node))))

    return read


TABLE: dict[str, Callable[[Node], Any]] = {
    "Add": of_each(sg.add, 2),
    "Mul": of_each(sg.mul, 2),
    "Relu": of_each(sg.relu),
    "Sub": of_each(sg.sub, 2),
    "Sum": folded(sg.add),
}
