"""Operators of single cells."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import specgrad as sg

from .node import Node

Reader = Callable[[Node], Any]
LARGEST = float(np.finfo(np.float32).max)


def of_each(function: Callable[..., Any], *numbers: str) -> Reader:
    """An operator that is a function of all its operands, and of numbers that are attributes."""

    def read(node: Node) -> Any:
        given = [node.attribute(name) for name in numbers]
        return function(*(node.var(place) for place in range(len(node))), *given)

    return read


def folded(function: Callable[[Any, Any], Any]) -> Reader:
    """A function of two operands, over any number of them."""

    def read(node: Node) -> Any:
        return functools.reduce(function, (node.var(place) for place in range(len(node))))

    return read


def computed(exact: Callable[..., Any], function: Reader | None) -> Reader:
    """A function of NumPy where all operands are known and integers or bools, which have no
    operator; else another reader."""

    def read(node: Node) -> Any:
        if all(node.is_known(place) for place in range(len(node))):
            arrays = [node.known(place) for place in range(len(node))]
            if function is None or any(array.dtype.kind in "iub" for array in arrays):
                node.limit(arrays)
                with np.errstate(all="ignore"):
                    return np.asarray(exact(*arrays))
        if function is None:
            raise node.refused("operator", node.operator, "is read where its operands are known", "export without it")
        return function(node)

    return read


def truncated(x: Any, y: Any) -> Any:
    """The quotient of integers, rounded towards 0; 0 where nothing can be divided."""
    if np.asarray(x).dtype.kind not in "iu":
        return x / y
    whole = np.where(y == 0, 1, y)
    signs = np.where((x < 0) != (whole < 0), -1, 1)
    return np.where(y == 0, 0, signs * (np.abs(x) // np.abs(whole))).astype(x.dtype)


def leaky(x: Any, slope: float) -> Any:
    """x where it is positive, slope·x elsewhere, at 0 too."""
    if 0 < slope <= 1:
        return sg.maximum(sg.scale(x, slope), x, ties="first")
    return sg.where(sg.greater(x, 0), x, sg.scale(x, slope))


def prelu(x: Any, slope: Any) -> Any:
    return sg.where(sg.greater(x, 0), x, sg.mul(x, slope))


def elu(x: Any, alpha: float, gamma: float = 1.0, within: float = 1.0) -> Any:
    """gamma·(relu(x) + alpha·(exp(min(x, 0)/within) - 1))."""
    low = sg.minimum(x, 0, ties="first")
    bent = sg.sub(sg.exp(low if within == 1 else sg.div(low, within)), 1)
    made = sg.add(sg.relu(x), bent if alpha == 1 else sg.scale(bent, alpha))
    return made if gamma == 1 else sg.scale(made, gamma)


def clip(node: Node) -> Any:
    """min(max(x, least), most); what is not clipped passes a derivative, at the ends too."""
    x = node.var(0)
    for place, name, function, other in ((1, "min", sg.maximum, -1), (2, "max", sg.minimum, 1)):
        if name in node.schema.attributes:
            given = node.attribute(name)
            if given is not None and other * given < LARGEST:
                x = function(x, given, ties="first")
        elif node.has(place):
            x = function(x, node.var(place), ties="first")
    return x


def clamped(x: Any, alpha: float, beta: float) -> Any:
    """alpha·x + beta, clipped to [0, 1]."""
    return sg.minimum(sg.maximum(sg.add(sg.scale(x, alpha), beta), 0), 1)


def gelu(node: Node) -> Any:
    word = node.attribute("approximate")
    if word not in ("none", "tanh"):
        raise node.refused("approximate", word, "is not one of the choices", "write none or tanh")
    return sg.gelu(node.var(0), approximate=word)


def swish(x: Any, alpha: float) -> Any:
    return sg.silu(x) if alpha == 1 else sg.mul(x, sg.sigmoid(sg.scale(x, alpha)))


def power(node: Node) -> Any:
    """x to the power of a known number, or of few different ones."""
    exponents = node.known(1)
    different = np.unique(exponents).tolist()
    if not 0 < len(different) <= 16 or not np.isfinite(np.asarray(different, float)).all():
        rule, remedy = "must be from 1 to 16 different numbers", "write x to the power of an array as exp(y * log(x))"
        raise node.refused("exponent", exponents, rule, remedy)
    if node.is_known(0) and node.known(0).dtype.kind in "iu":
        node.limit([node.known(0), exponents])
        return np.power(node.known(0).astype(float), exponents.astype(float)).astype(node.known(0).dtype)
    x = node.var(0)
    shape = np.broadcast_shapes(x.shape, exponents.shape)
    x = x if x.shape == shape else sg.broadcast_to(x, shape)
    made = sg.power(x, different[0])
    for exponent in different[1:]:
        made = sg.where(exponents == exponent, sg.power(x, exponent), made)
    return made


def modulo(node: Node) -> Any:
    return computed(np.fmod if node.attribute("fmod") else np.mod, None)(node)


def where(node: Node) -> Any:
    known = all(node.is_known(place) for place in range(3))
    if known and node.known(1).dtype.kind in "iub":
        arrays = [node.known(place) for place in range(3)]
        node.limit(arrays)
        return np.where(*arrays)
    condition = node.known(0) if node.is_known(0) else node.var(0)
    return sg.where(condition, node.var(1), node.var(2))


TABLE: dict[str, Reader] = {
    "Abs": computed(np.abs, of_each(sg.abs)),
    "Add": of_each(sg.add),
    "And": computed(np.logical_and, of_each(sg.mul)),
    "Ceil": computed(np.ceil, None),
    "Celu": of_each(lambda x, alpha: elu(x, alpha, within=alpha), "alpha"),
    "Clip": clip,
    "Div": computed(truncated, of_each(sg.div)),
    "Elu": of_each(elu, "alpha"),
    "Equal": computed(np.equal, of_each(sg.equal)),
    "Erf": of_each(sg.erf),
    "Exp": of_each(sg.exp),
    "Floor": computed(np.floor, None),
    "Gelu": gelu,
    "Greater": computed(np.greater, of_each(sg.greater)),
    "GreaterOrEqual": computed(np.greater_equal, of_each(sg.greater_equal)),
    "HardSigmoid": of_each(clamped, "alpha", "beta"),
    "HardSwish": of_each(lambda x: sg.mul(x, clamped(x, 1 / 6, 0.5))),
    "LeakyRelu": of_each(leaky, "alpha"),
    "Less": computed(np.less, of_each(sg.less)),
    "LessOrEqual": computed(np.less_equal, of_each(sg.less_equal)),
    "Log": of_each(sg.log),
    "Max": folded(sg.maximum),
    "Mean": lambda node: sg.div(folded(sg.add)(node), len(node)),
    "Min": folded(sg.minimum),
    "Mish": of_each(lambda x: sg.mul(x, sg.tanh(sg.softplus(x)))),
    "Mod": modulo,
    "Mul": of_each(sg.mul),
    "Neg": of_each(lambda x: sg.scale(x, -1)),
    "Not": computed(np.logical_not, of_each(lambda x: sg.sub(1, x))),
    "Or": computed(np.logical_or, of_each(sg.maximum)),
    "PRelu": of_each(prelu),
    "Pow": power,
    "Reciprocal": of_each(lambda x: sg.power(x, -1)),
    "Relu": of_each(sg.relu),
    "Selu": of_each(elu, "alpha", "gamma"),
    "Sigmoid": of_each(sg.sigmoid),
    "Softplus": of_each(sg.softplus),
    "Softsign": of_each(lambda x: sg.div(x, sg.add(1, sg.abs(x)))),
    "Sqrt": of_each(sg.sqrt),
    "Sub": of_each(sg.sub),
    "Sum": folded(sg.add),
    "Swish": of_each(swish, "alpha"),
    "Tanh": of_each(sg.tanh),
    "ThresholdedRelu": of_each(lambda x, alpha: sg.where(sg.greater(x, alpha), x, sg.scale(x, 0)), "alpha"),
    "Where": where,
}
