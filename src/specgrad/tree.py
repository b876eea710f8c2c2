"""Nests of lists, tuples and dicts: their leaves in order, and the same nest around other leaves. None has no leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .errors import ShapeError, refusal


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the path to it, such as ``['weights'][0]``."""
    if isinstance(tree, dict):
        for key, branch in tree.items():
            yield from leaves(branch, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for place, branch in enumerate(tree):
            yield from leaves(branch, f"{path}[{place}]")
    elif tree is not None:
        yield path, tree


def has_keys(tree: Any) -> bool:
    """Whether some of its leaves are known by keys, whose order means nothing."""
    return isinstance(tree, dict) or (isinstance(tree, list | tuple) and any(map(has_keys, tree)))


def rebuild(tree: Any, fill: Iterator[Any]) -> Any:
    """The nest of `tree` around other leaves, taken in order."""
    if isinstance(tree, dict):
        return {key: rebuild(branch, fill) for key, branch in tree.items()}
    if isinstance(tree, list | tuple):
        branches = [rebuild(branch, fill) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else type(tree)(branches)
    return None if tree is None else next(fill)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The nest around function(leaf) for every leaf."""
    return rebuild(tree, iter([function(leaf) for _, leaf in leaves(tree)]))


def matched(name: str, argument: str, tree: Any, other: Any) -> list[Any]:
    """The leaves of `other` in the order of those of `tree`; refuses nests of different form."""
    found = dict(leaves(other))
    wanted = [path for path, _ in leaves(tree)]
    if set(wanted) != set(found):
        odd = sorted(set(wanted) ^ set(found))[0]
        rule = f"is not the same nest: {len(wanted)} leaves are needed, {len(found)} given, and they differ at {odd or 'the top'}"
        raise refusal(ShapeError, name, argument, other, rule, "give one leaf for each")
    return [found[path] for path in wanted]
