"""Nested containers (lists, tuples, dicts and registered classes): their leaves in order, and the
same structure with other leaves. None has no leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from .errors import ArgumentError, ShapeError, refusal

Kind = TypeVar("Kind", bound=type)

_registered: dict[type, tuple[Callable[[Any], Sequence[Any]], Callable[[Any, list[Any]], Any]]] = {}
"""Of a class, the function that lists an object's branches, and the one that makes an object like
another from branches."""


def register_tree(
    kind: Kind, flatten: Callable[[Any], Sequence[Any]] | None = None, unflatten: Callable[[Any], Any] | None = None
) -> Kind:
    """Register a class as a container, like lists and dicts: a dataclass by its fields, another
    class by two functions.

    `flatten` returns the list of an object's parts, and `unflatten` makes an object from such a
    list. `register_tree` can be used as a decorator.

    >>> import numpy as np, specgrad as sg
    >>> @register_tree
    ... @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> sg.grad(lambda p: p.x * p.x * p.y)(Point(np.array(3.0), np.array(2.0)))
    Point(x=array(12.), y=array(9.))
    """
    if not isinstance(kind, type):
        rule, remedy = "is not a class", "give the class of the nests"
        raise refusal(ArgumentError, "register_tree", "kind", kind, rule, remedy)
    for argument, function in (("flatten", flatten), ("unflatten", unflatten)):
        if function is not None and not callable(function):
            raise refusal(ArgumentError, "register_tree", argument, function, "is not a function", "give a function")
    if flatten is not None and unflatten is not None:
        _registered[kind] = flatten, lambda _, branches: unflatten(branches)
    elif dataclasses.is_dataclass(kind) and flatten is unflatten is None:
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        _registered[kind] = (
            lambda nest: [getattr(nest, name) for name in names],
            lambda nest, branches: dataclasses.replace(nest, **dict(zip(names, branches, strict=True))),
        )
    else:
        rule, remedy = "is not a dataclass", "give both flatten and unflatten"
        raise refusal(ArgumentError, "register_tree", "kind", kind.__name__, rule, remedy)
    return kind


def branches(tree: Any) -> list[tuple[str, Any]] | None:
    """The branches of a nest, each with its part of the path to it, or None for a leaf."""
    if type(tree) is np.ndarray:
        return None
    if isinstance(tree, dict):
        return [(f"[{key!r}]", branch) for key, branch in tree.items()]
    if isinstance(tree, list | tuple):
        return [(f"[{place}]", branch) for place, branch in enumerate(tree)]
    if type(tree) in _registered:
        return [(f"[{place}]", branch) for place, branch in enumerate(_registered[type(tree)][0](tree))]
    return [] if tree is None else None


def rebuilt(tree: Any, parts: list[Any]) -> Any:
    """The same nest around other branches."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return dict(zip(tree, parts, strict=True))
    if isinstance(tree, list | tuple):
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return _registered[type(tree)][1](tree, parts)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the path to it, such as ``['weights'][0]``; the fields of a class are
    counted."""
    parts = branches(tree)
    if parts is None:
        yield path, tree
    for step, branch in parts or ():
        yield from leaves(branch, path + step)


def has_keys(tree: Any) -> bool:
    """Whether some of its leaves are known by keys, whose order means nothing."""
    return isinstance(tree, dict) or any(has_keys(branch) for _, branch in branches(tree) or ())


def rebuild(tree: Any, fill: Iterator[Any]) -> Any:
    """The nest of `tree` around other leaves, taken in order."""
    parts = branches(tree)
    return next(fill) if parts is None else rebuilt(tree, [rebuild(branch, fill) for _, branch in parts])


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The nest around function(leaf) for every leaf."""
    return rebuild(tree, iter([function(leaf) for _, leaf in leaves(tree)]))


def matched(name: str, argument: str, tree: Any, other: Any) -> list[Any]:
    """The leaves of `other` in the order of those of `tree`; refuses nests of different form."""
    found = dict(leaves(other))
    wanted = [path for path, _ in leaves(tree)]
    if set(wanted) != set(found):
        odd = sorted(set(wanted) ^ set(found))[0]
        rule = (
            f"is not the same nest: {len(wanted)} leaves are needed, {len(found)} given, "
            f"and they differ at {odd or 'the top'}"
        )
        raise refusal(ShapeError, name, argument, other, rule, "give one leaf for each")
    return [found[path] for path in wanted]
